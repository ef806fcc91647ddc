"""Runs, and studies: the commands, factors and runs that belong together, in one SQLite file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from forerun import _rows, _store
from forerun._run import Run, Status
from forerun.errors import InputError, StudyError
from forerun.factors import Space, Value

if TYPE_CHECKING:
    import sqlite3
    from types import TracebackType

    import pandas as pd

    from forerun.measuring.progress import Progress, Summary

__all__ = ["Run", "Status", "StoredModel", "Study"]


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A fitted model as a study keeps it, with the digest of the runs that it saw."""

    document: dict[str, Any]
    digest: str
    fitted: str  # ISO 8601, UTC


class Study:
    """One or more named commands, their factors and all their runs, in one file.

    Safe to use from several processes at once: every method is one transaction, nothing is kept
    open between them, and what a method has returned from is in the file, whatever happens next.
    Where a study has several commands, `variant` is a factor, and tells which of them ran.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        _store.check(self.path)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """An existing study; StudyError if it is missing, foreign, truncated or too new."""
        return cls(path)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        space: Space,
        commands: Mapping[str, str] | None = None,
    ) -> Self:
        """A new study; StudyError if the file exists."""
        commands = commands or {}
        space = _rows.with_variants(space, commands)

        def fill(db: sqlite3.Connection) -> None:
            _rows.write_space(db, space)
            for name, text in commands.items():
                _rows.write_command(db, name, text)

        _store.create(Path(path), fill)
        return cls(path)

    @classmethod
    def open_or_create(cls, path: str | os.PathLike[str], space: Space) -> Self:
        """The study at this path, which must have the same factors (values aside), or a new one."""
        if not Path(path).exists():
            try:
                return cls.create(path, space)
            except StudyError:
                if not Path(path).exists():
                    raise  # otherwise another process was quicker
        study = cls.open(path)
        theirs, ours = _rows.described(study.space), _rows.described(space)
        if theirs != ours:
            raise StudyError(str(path), f"factors {theirs}", ours)
        return study

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing to close: no method leaves the file open."""

    def __repr__(self) -> str:
        return f"Study({str(self.path)!r})"

    def __len__(self) -> int:
        with _store.transaction(self.path, "DEFERRED") as db:
            return _rows.count(db)

    def __bool__(self) -> bool:
        return True  # a study without runs is still a study

    @property
    def space(self) -> Space:
        """The factors."""
        with _store.transaction(self.path, "DEFERRED") as db:
            return _rows.read_space(db, self.path)

    def set_space(self, space: Space) -> None:
        """Replace the factors; FactorError if a run that is there does not fit the new ones."""
        with _store.transaction(self.path, "IMMEDIATE") as db:
            space = _rows.with_variants(space, _rows.read_commands(db, self.path))
            rows = db.execute("SELECT id, point, variant FROM run")
            for values in _rows.each(self.path, rows, partial(_rows.stored, space)):
                space.check(values, levels=False)
            _rows.write_space(db, space)

    @property
    def commands(self) -> dict[str, str]:
        """The text of each named command, in the order in which they were added."""
        with _store.transaction(self.path, "DEFERRED") as db:
            return _rows.read_commands(db, self.path)

    def add_command(self, name: str, text: str) -> None:
        """Add a named command; the second one makes `variant` a factor.

        One that is there keeps its text as soon as a run of it has ended well.
        """
        with _store.transaction(self.path, "IMMEDIATE") as db:
            known = _rows.read_commands(db, self.path)
            if known.get(name, text) != text:
                if _rows.has_times(db, name):
                    where = f"{self.path}, {' '.join(('command', name)).strip()}"
                    raise StudyError(where, text, f"as before: {known[name]}")
                _rows.replace_command(db, name, text)
            if name not in known:
                _rows.write_command(db, name, text)
                _rows.write_space(
                    db, _rows.with_variants(_rows.read_space(db, self.path), {**known, name: text})
                )

    def add(self, run: Run) -> bool:
        """Add a run, unless one with its uid is there; True if it was added."""
        return self.add_all([run]) == 1

    def add_all(self, runs: Iterable[Run], widen: Callable[[Space], Space] | None = None) -> int:
        """Add all runs or, if one of them is refused, none; returns how many were new.

        `widen` gives the study's factors the values that the runs bring, in the same transaction.
        """
        # A generator may itself use the study; a sequence may hold more runs than fit in memory.
        runs = runs if isinstance(runs, Sequence) else list(runs)
        with _store.transaction(self.path, "IMMEDIATE") as db:
            space = _rows.read_space(db, self.path)
            if widen is not None and (wider := widen(space)) != space:
                space = wider
                _rows.write_space(db, space)
            before = _rows.count(db)
            db.executemany(
                f"INSERT INTO run ({_rows.COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (uid) DO NOTHING",
                (_rows.row_of(space, run) for run in runs),
            )
            return _rows.count(db) - before

    def measure(
        self,
        what: Callable[..., Any] | str | Mapping[str, str],
        space: Space | None = None,
        *,
        runs: int | None = None,
        target_error: float | None = None,
        budget_seconds: float | None = None,
        design: str = "adaptive",
        seed: int = 0,
        progress: Callable[[Progress], None] | None = None,
        **options: Any,
    ) -> Summary:
        """Run and time a function, a command with holes or several by name, and store the runs.

        As `forerun.measure`, which has all the options, and makes the study if there is none.
        """
        from forerun.measuring.measure import measure  # late: measuring is built upon studies

        return measure(
            self,
            what,
            space,
            runs=runs,
            target_error=target_error,
            budget_seconds=budget_seconds,
            design=design,
            seed=seed,
            progress=progress,
            **options,
        )

    def runs(self, status: Status | None = None) -> list[Run]:
        """The runs, or those of one status, in the order in which they were added."""
        where = "" if status is None else "WHERE status = ?"
        with _store.transaction(self.path, "DEFERRED") as db:
            space = _rows.read_space(db, self.path)
            rows = db.execute(
                f"SELECT id, {_rows.COLUMNS} FROM run {where} ORDER BY id",
                (status,) if status else (),
            ).fetchall()
        return list(_rows.each(self.path, rows, partial(_rows.run_of, space)))

    def targets(self) -> list[str]:
        """The names of what the good runs measured, seconds first."""
        with _store.transaction(self.path, "DEFERRED") as db:
            rows = db.execute("SELECT id, measures FROM run WHERE status = 'ok'").fetchall()
        names = {name for found in _rows.each(self.path, rows, _rows.measures_of) for name in found}
        return sorted(names, key=lambda name: (name != "seconds", name))

    def table(self, target: str = "seconds") -> pd.DataFrame:
        """One row for each good run that has this target: the factors' columns, then the target."""
        space, rows = self._measured(target)
        frame = _rows.frame(space, [values for values, _ in rows])
        frame[target] = [float(measure) for _, measure in rows]
        return frame.astype({target: "float64"})

    def failures(self) -> pd.DataFrame:
        """One row for each run that did not end well: the factors' columns, then its status."""
        with _store.transaction(self.path, "DEFERRED") as db:
            space = _rows.read_space(db, self.path)
            rows = db.execute(
                "SELECT id, point, variant, status FROM run WHERE status != 'ok' ORDER BY id"
            ).fetchall()
        failed = list(_rows.each(self.path, rows, partial(_rows.failure_of, space)))
        frame = _rows.frame(space, [values for values, _ in failed])
        frame["status"] = [status for _, status in failed]
        return frame.astype({"status": "str"})

    def digest(self, target: str = "seconds") -> str:
        """SHA-256 over what a model of this target sees.

        That is the factors, the runs that `table` gives, and the points that ran out of memory.
        """
        space, rows = self._measured(target)
        hashed = hashlib.sha256(_rows.as_json(space.to_dict()).encode())
        for values, measure in rows:
            hashed.update(f"\n{_rows.as_json(values)}\t{measure!r}".encode())
        for run in self.runs("out_of_memory"):
            hashed.update(f"\n{run.point.key}\t{run.variant}".encode())
        return hashed.hexdigest()

    def save_model(self, target: str, document: dict[str, Any], digest: str) -> None:
        """Keep a fitted model of this target, in place of an earlier one."""
        fitted = datetime.now(UTC).isoformat(timespec="seconds")
        with _store.transaction(self.path, "IMMEDIATE") as db:
            db.execute(
                "INSERT OR REPLACE INTO model (target, document, digest, fitted)"
                " VALUES (?, ?, ?, ?)",
                (target, _rows.as_json(document), digest, fitted),
            )

    def model_document(self, target: str = "seconds") -> StoredModel | None:
        """The model that was kept for this target; None if there is none that can be read."""
        with _store.transaction(self.path, "DEFERRED") as db:
            row = db.execute(
                "SELECT document, digest, fitted FROM model WHERE target = ?", (target,)
            ).fetchone()
        if row is None:
            return None
        try:
            return StoredModel(_rows.from_json(row[0]), str(row[1]), str(row[2]))
        except InputError:
            return None  # a damaged model is no loss: it is fitted again

    def note(self, name: str) -> dict[str, Any] | None:
        """What another part of forerun keeps in the study under this name; None if nothing."""
        with _store.transaction(self.path, "DEFERRED") as db:
            row = db.execute("SELECT value FROM study WHERE key = ?", (f"note {name}",)).fetchone()
        if row is None:
            return None
        try:
            return _rows.from_json(row[0])
        except InputError as error:
            raise StudyError(f"{self.path}, {name}", f"damage ({error})", "JSON") from error

    def set_note(self, name: str, document: Mapping[str, Any]) -> None:
        """Keep a JSON document under this name, in place of an earlier one."""
        with _store.transaction(self.path, "IMMEDIATE") as db:
            db.execute(
                "INSERT OR REPLACE INTO study (key, value) VALUES (?, ?)",
                (f"note {name}", _rows.as_json(dict(document))),
            )

    def _measured(self, target: str) -> tuple[Space, list[tuple[dict[str, Value], float]]]:
        """The factors, and the values and measure of each good run that has this target."""
        with _store.transaction(self.path, "DEFERRED") as db:
            space = _rows.read_space(db, self.path)
            rows = db.execute(
                "SELECT id, point, variant, measures FROM run WHERE status = 'ok' ORDER BY id"
            ).fetchall()

        def read(key: str, variant: str, text: str) -> tuple[dict[str, Value], dict[str, float]]:
            return _rows.values_of(space, key, variant), _rows.measures_of(text)

        measured = [
            (values, measures[target])
            for values, measures in _rows.each(self.path, rows, read)
            if target in measures
        ]
        if rows and not measured:
            raise StudyError(f"{self.path}, target", target, f"one of {', '.join(self.targets())}")
        return space, measured
