"""Runs from an Optuna storage: a SQLite file or a journal file. It is read, never written."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from forerun.errors import InputError, TableError
from forerun.factors import Kind, Space
from forerun.importing.columns import Columns, check_width, digest, listed
from forerun.importing.options import ImportOptions
from forerun.importing.runs import Defaults, ImportedRuns, assemble

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

ABSENT = "(absent)"
_OUTCOMES = {"COMPLETE": "ok", "FAIL": "failed", "PRUNED": "cancelled"}
_STATUS, _STARTED = "trial:state", "trial:start"
_PREFIX = "sqlite:///"
# Those that hold what is read here, in every version of Optuna's storage.
_TABLES = {
    *("alembic_version", "version_info", "studies", "study_directions", "trials"),
    *("trial_params", "trial_values", "trial_user_attributes"),
}


def read(path: str, options: ImportOptions, like: Space | None = None) -> ImportedRuns:
    """One run a trial: parameters are factors, the trial's duration is the time."""
    file = path.removeprefix(_PREFIX)
    try:
        return _read(file, options, like)
    except (InputError, OSError):
        raise
    except Exception as error:  # whatever Optuna, SQLAlchemy or Alembic raise on broken content
        raise TableError(file, _first_line(error), "a storage that this Optuna can read") from None


def _read(file: str, options: ImportOptions, like: Space | None) -> ImportedRuns:
    study, trials = _trials(file, _storage(file), options.study)
    ended = [one for one in trials if one.state.name in _OUTCOMES]
    if not ended:
        raise TableError(file, "no trial that has ended", "at least one")
    names = list(dict.fromkeys(name for one in ended for name in one.params))
    check_width(file, len(names))
    chosen = set(options.factors or (like and like.names) or names)
    wanted = [one for one in names if one in chosen]
    columns = _columns(file, study, ended, names, wanted)
    if len(ended) < len(trials):
        columns.notes.append(f"left out, not ended yet: {len(trials) - len(ended)} trials")
    defaults = Defaults(
        seconds=_result_name("duration", names),
        status=_STATUS,
        factors=tuple(names),
        started=_STARTED,
    )
    return assemble(columns, options, defaults, like)


def _storage(file: str) -> BaseStorage:
    """The storage that the file is. Optuna would make a missing one, and change a foreign one."""
    with Path(file).open("rb") as opened:
        is_sqlite = opened.read(16) == b"SQLite format 3\0"
    try:
        import optuna
    except ImportError:
        raise InputError(
            f"{file}: an Optuna storage needs the optuna package: pip install 'forerun[optuna]'"
        ) from None
    if is_sqlite:
        _check_tables(file)
        url = f"{_PREFIX}file:{quote(str(Path(file).absolute()))}?mode=ro&uri=true"
        return optuna.storages.RDBStorage(url)
    from optuna.storages.journal import JournalFileBackend

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # journals were experimental in some versions
        return optuna.storages.JournalStorage(JournalFileBackend(file))


def _check_tables(file: str) -> None:
    uri = f"file:{quote(str(Path(file).absolute()))}?mode=ro"
    connection = sqlite3.connect(uri, uri=True)
    try:
        rows = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    except sqlite3.Error as error:
        raise TableError(file, str(error), "a SQLite file") from None
    finally:
        connection.close()
    for kind, name, sql in rows:
        # What computes its rows may do so without end; Optuna makes plain tables only.
        if kind not in ("table", "index") or str(sql).upper().startswith("CREATE VIRTUAL"):
            raise TableError(file, f"{kind} {name}", "the plain tables of an Optuna storage")
    tables = sorted(str(name) for kind, name, _ in rows if kind == "table")
    if {"command", "run", "study"} <= set(tables):
        raise TableError(file, "a forerun study", "the file of another tool")
    if not set(tables) >= _TABLES:
        raise TableError(file, f"tables {listed(tables) or 'none'}", "an Optuna storage")


def _trials(file: str, storage: BaseStorage, wanted: str) -> tuple[str, list[FrozenTrial]]:
    """The trials of the study that is meant, which must be named only where there are several."""
    studies = {one.study_name: one._study_id for one in storage.get_all_studies()}
    name = wanted or (next(iter(studies)) if len(studies) == 1 else "")
    if name not in studies:
        found = wanted or f"{len(studies)} studies"
        raise TableError(f"{file} --study", found, f"one of {listed(list(studies)) or 'none'}")
    return name, storage.get_all_trials(studies[name], deepcopy=False)


def _columns(
    file: str, study: str, trials: Sequence[FrozenTrial], names: list[str], wanted: list[str]
) -> Columns:
    kinds = {name: _kind([one.distributions.get(name) for one in trials]) for name in names}
    complete = _with_numbers(file, trials, [one for one in wanted if kinds[one] == "numeric"])
    cells: dict[str, list[str]] = {}
    for name in names:
        gap = ABSENT if kinds[name] == "categorical" else ""
        cells[name] = [_text(one.params.get(name, gap)) for one in complete]
    for name, texts in _results(file, complete).items():
        cells[_result_name(name, names)] = texts
    cells[_STATUS] = [_OUTCOMES[one.state.name] for one in complete]
    cells[_STARTED] = [_utc(one) for one in complete]
    numbers = [one.number for one in complete]
    # The same trial in a storage that has grown since is the same run.
    digests = [digest("optuna", study, one.number, one.datetime_start) for one in complete]
    columns = Columns(file, cells, numbers, digests, word="trial", kinds=kinds)
    if len(complete) < len(trials):
        left = len(trials) - len(complete)
        columns.notes.append(f"left out, ended before all parameters were known: {left} trials")
    return columns


def _with_numbers(
    file: str, trials: Sequence[FrozenTrial], numeric: Sequence[str]
) -> list[FrozenTrial]:
    """The trials that have every number. One that failed early says nothing without them."""
    kept = []
    for one in trials:
        missing = [name for name in numeric if name not in one.params]
        if missing and one.state.name == "COMPLETE":
            raise TableError(
                f"{file} trial {one.number} parameter {missing[0]}",
                "no value (it is conditional)",
                "a number; choose the others with --factors",
            )
        if not missing:
            kept.append(one)
    if not kept:
        raise TableError(file, "no trial that has all parameters", "at least one")
    return kept


def _kind(distributions: Sequence[BaseDistribution | None]) -> Kind:
    """Numeric where every value that may come is a number, a choice among numbers too."""
    known = [one for one in distributions if one is not None]
    choices = [choice for one in known for choice in getattr(one, "choices", ())]
    text = any(isinstance(one, bool) or not isinstance(one, int | float) for one in choices)
    return "categorical" if text else "numeric"


def _results(file: str, trials: Sequence[FrozenTrial]) -> dict[str, list[str]]:
    """What may be the time: the duration, the objective values, the user's own attributes."""
    count = max((len(one.values or ()) for one in trials), default=0)
    took = [one.duration for one in trials]
    cells = {"duration": ["" if one is None else repr(one.total_seconds()) for one in took]}
    for at in range(count):
        name = "value" if count == 1 else f"values:{at}"
        cells[name] = [_text(one.values[at]) if one.values else "" for one in trials]
    attributes = dict.fromkeys(key for one in trials for key in one.user_attrs)
    check_width(file, len(attributes))
    for name in attributes:
        cells[f"user_attrs:{name}"] = [_text(one.user_attrs.get(name, "")) for one in trials]
    return cells


def _result_name(name: str, parameters: Sequence[str]) -> str:
    """`duration`, `value` …, unless a parameter is called so."""
    return f"trial:{name}" if name in parameters else name


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def _utc(trial: FrozenTrial) -> str:
    """The start in UTC; Optuna notes local time without its zone."""
    if trial.datetime_start is None:
        return ""
    return trial.datetime_start.astimezone(UTC).isoformat(timespec="seconds")


def _first_line(error: Exception) -> str:
    kind = type(error).__name__
    return f"{kind} {(str(error).splitlines() or [''])[0]}".strip()
