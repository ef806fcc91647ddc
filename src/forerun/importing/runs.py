"""From columns of text to the space and the runs of a study."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast, overload

import pandas as pd

from forerun.errors import DataWarning, InputError, TableError, one_line
from forerun.factors import VARIANT, Factor, Kind, Point, Role, Scope, Space, Value, guess_role
from forerun.importing.amounts import (
    OUTCOME_WORDS,
    byte_scale,
    energy_scale,
    number,
    outcome,
    scale,
    size,
)
from forerun.importing.columns import Columns, cell, hint, listed
from forerun.importing.options import ImportOptions
from forerun.study import Run, Status

# More levels than this, and more than half as many as runs: probably a name, not a factor.
_MANY_LEVELS = 50
# Names of columns that are usually results: a throughput, a spread, another time.
_RESULT = re.compile(
    r"(?<![a-z])(?:std|stddev|time|elapsed|duration|latency|throughput|speedup|fps"
    r"|per_?s(?:ec|econd)?)(?![a-z])",
    re.IGNORECASE,
)
_ENOUGH = 1000  # distinct values of a numeric factor from which a grid is made


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a format knows about its own columns; an option of the user goes before each."""

    seconds: str = "seconds"
    memory: str = "memory_bytes"
    joules: str = "joules"
    status: str = "status"
    factors: tuple[str, ...] | None = None  # None: every column that is nothing else
    roles: Mapping[str, Role] = field(default_factory=dict)
    host: str = ""
    started: str = ""


class ImportedTable(Sequence[Run]):
    """Runs kept column by column and made when asked for, so that a million fit in memory."""

    def __init__(
        self,
        columns: Columns,
        factors: Mapping[str, list[Value]],
        measures: Mapping[str, list[float | None]],
        statuses: Sequence[Status],
        defaults: Defaults,
    ) -> None:
        self.factors = factors
        self._columns = columns
        self.measures = measures
        self._statuses = statuses
        self._hosts = columns.cells.get(defaults.host) if defaults.host else None
        self._started = columns.cells.get(defaults.started) if defaults.started else None
        self._file = one_line(Path(columns.source).name)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def failed(self) -> int:
        """How many of the runs did not end well."""
        return sum(status != "ok" for status in self._statuses)

    @overload
    def __getitem__(self, at: int) -> Run: ...
    @overload
    def __getitem__(self, at: slice) -> list[Run]: ...
    def __getitem__(self, at: int | slice) -> Run | list[Run]:
        if isinstance(at, slice):
            return [self._run(row) for row in range(*at.indices(len(self)))]
        return self._run(range(len(self))[at])

    def uids(self) -> list[str]:
        """The names of the runs, without the runs."""
        return [digest.hex() for digest in self._columns.digests]

    def place(self, row: int) -> str:
        """Where a run stands: its file, and its line there."""
        return f"{self._columns.source} {self._columns.word} {self._columns.numbers[row]}"

    def _run(self, row: int) -> Run:
        try:
            return self._made(row)
        except InputError as error:
            raise TableError(f"{self.place(row)}: {error}") from None

    def _made(self, row: int) -> Run:
        measures = {name: cells[row] for name, cells in self.measures.items()}
        return Run(
            point=Point({name: cells[row] for name, cells in self.factors.items()}),
            measures={name: value for name, value in measures.items() if value is not None},
            status=self._statuses[row],
            variant=str(self.factors[VARIANT][row]) if VARIANT in self.factors else "",
            host=self._hosts[row] if self._hosts else "",
            started=self._started[row] if self._started else "",
            source=f"{self._file} {self._columns.word} {self._columns.numbers[row]}",
            uid=self._columns.digests[row].hex(),
        )


@dataclass(frozen=True, slots=True)
class ImportedRuns:
    """What a file held: its factors, its runs, and what the reader noticed on the way."""

    space: Space
    runs: ImportedTable
    notes: tuple[str, ...] = ()


def assemble(
    columns: Columns,
    options: ImportOptions,
    defaults: Defaults | None = None,
    like: Space | None = None,
) -> ImportedRuns:
    """Choose, type and check the columns. With `like`, the factors of a study that exists."""
    defaults = defaults or Defaults()
    columns = columns.where(options.where)
    if not len(columns):
        raise TableError(columns.source, "no rows", "at least one run")
    if options.variant:
        columns.cells[VARIANT] = columns.column(options.variant, "--variant COLUMN")
    statuses, status_column = _statuses(columns, options, defaults)
    measures, used = _measures(columns, options, defaults, [one == "ok" for one in statuses])
    # What is measured cannot be a factor too, under its name in the file or in the study.
    taken = {*used, *measures, status_column, options.variant} - {VARIANT, ""}
    names = _factor_names(columns, options, defaults, like, taken)
    kinds, values = _typed(columns, options, names, like)
    space = Space(_factor(name, kinds[name], options, defaults, like) for name in names)
    _check_names(columns, options, space)
    space = Space(_with_values(factor, set(values[factor.name])) for factor in space.values())
    if defaults.host in columns.cells:
        columns.check_levels(defaults.host)
    runs = ImportedTable(columns, values, measures, statuses, defaults)
    return ImportedRuns(space, runs, tuple(columns.notes))


def _statuses(
    columns: Columns, options: ImportOptions, defaults: Defaults
) -> tuple[list[Status], str]:
    """How each run ended, and the column that said so."""
    name = options.status or (defaults.status if defaults.status in columns.cells else "")
    if not name:
        return ["ok"] * len(columns), ""
    cells = columns.column(name, "--status COLUMN")
    known = {text: outcome(text) for text in set(cells)}
    statuses: list[Status] = []
    for row, text in enumerate(cells):
        status = known[text]
        if status is None:
            raise TableError(columns.at(row, name), cell(text), OUTCOME_WORDS)
        statuses.append(status)
    return statuses, name


def _measures(
    columns: Columns, options: ImportOptions, defaults: Defaults, wanted: Sequence[bool]
) -> tuple[dict[str, list[float | None]], set[str]]:
    """The measured columns of the runs that went well, by name; and the columns they came from."""
    seconds = options.seconds or defaults.seconds
    columns.column(seconds, "--seconds COLUMN")
    chosen = {"seconds": seconds} | _optional_measures(columns, options, defaults)
    found = {}
    for name, column in chosen.items():
        read, expected = _reading(name, options)
        found[name] = columns.measured(column, read, wanted, expected, required=name == "seconds")
    return found, set(chosen.values())


def _reading(name: str, options: ImportOptions) -> tuple[Callable[[str], float | None], str]:
    """How the cells of a measured column are read, and what they must be."""
    if name == "memory_bytes":
        unit = options.units.get("memory", "")
        byte_scale(unit)
        return (lambda text: size(text, unit)), "a positive size"
    if name == "seconds":
        factor, expected = scale("--time-unit", options.time_unit), "a positive time"
    else:
        unit = options.units.get("joules", "") if name == "joules" else ""
        factor, expected = energy_scale(unit), "a positive number"
    return (lambda text: _times(text, factor)), expected


def _optional_measures(
    columns: Columns, options: ImportOptions, defaults: Defaults
) -> dict[str, str]:
    """Measured columns besides the seconds: name in the study to name in the file."""
    chosen = dict(options.measures)
    for name, option, default in (
        ("memory_bytes", options.memory, defaults.memory),
        ("joules", options.joules, defaults.joules),
    ):
        if option or default in columns.cells:
            chosen.setdefault(name, option or default)
    for name, column in chosen.items():
        columns.column(column, f"--measure {name}=COLUMN")
    if "seconds" in chosen:
        raise InputError("--measure", "seconds", "another name; --seconds COLUMN chooses the time")
    return chosen


def _factor_names(
    columns: Columns,
    options: ImportOptions,
    defaults: Defaults,
    like: Space | None,
    taken: set[str],
) -> list[str]:
    """The columns that are factors: those that were named, those of the study, or all that vary."""
    if options.factors:
        names = [VARIANT if one == options.variant else one for one in options.factors]
        if options.variant and VARIANT not in names:
            names.append(VARIANT)
        return _named(columns, names, taken, "--factors")
    if like is not None:
        return _named(columns, list(like.names), taken, "a factor of the study")
    candidates = columns.cells if defaults.factors is None else defaults.factors
    taken = taken | {"status"}  # in a study this is how a run ended
    names = [one for one in candidates if one in columns.cells and one not in taken]
    if options.variant and VARIANT not in names:
        names.append(VARIANT)
    names = _varying(columns, options, names)
    if defaults.factors is None:
        _warn_of_results(columns, names)
    return names


def _named(columns: Columns, names: list[str], taken: set[str], option: str) -> list[str]:
    seen: set[str] = set()
    for name in names:
        columns.column(name, option)
        if name in taken or name in seen:
            why = "which is measured" if name in taken else "twice"
            raise InputError(f"{columns.source} {option}", f"{name}, {why}", "each factor once")
        seen.add(name)
    return names


def _varying(columns: Columns, options: ImportOptions, names: list[str]) -> list[str]:
    """Without what has one value in all rows: it cannot explain anything."""
    if len(columns) < 2:
        return names
    kept = [one for one in names if len(set(columns.cells[one])) > 1 or one in options.intrinsic]
    varying = set(kept)
    left = [one for one in names if one not in varying]
    if left:
        columns.notes.append(f"left out, one value in all runs: {listed(left)} (--factors)")
    if not kept:
        raise TableError(columns.source, "no column that varies", "at least one factor (--factors)")
    return kept


def _typed(
    columns: Columns, options: ImportOptions, names: list[str], like: Space | None
) -> tuple[dict[str, Kind], dict[str, list[Value]]]:
    kinds: dict[str, Kind] = {}
    values: dict[str, list[Value]] = {}
    for name in names:
        if "=" in name:
            raise TableError(columns.source, f"column {name}", "a name without = (--factors)")
        declared: Kind | None = None
        if name == VARIANT or name in options.categorical:
            declared = "categorical"
        elif like is not None and name in like:
            declared = like[name].kind
        kinds[name], values[name] = columns.values(name, declared)
        if kinds[name] == "categorical":
            _warn_of_names(columns, name, len(set(values[name])))
    return kinds, values


def _warn_of_names(columns: Columns, name: str, levels: int) -> None:
    if levels > max(_MANY_LEVELS, len(columns) / 2):
        warnings.warn(
            f"{columns.source} column {name}: {levels} levels in {len(columns)} runs look like "
            "names of runs, not a factor (--factors chooses the columns)",
            DataWarning,
            stacklevel=2,
        )


def _warn_of_results(columns: Columns, names: list[str]) -> None:
    """A result among the factors would explain the time all too well."""
    likely = [name for name in names if _RESULT.search(re.sub("([a-z])([A-Z])", r"\1_\2", name))]
    if likely:
        warnings.warn(
            f"{columns.source}: {listed(likely)} may be measured rather than chosen; then name the "
            "factors without it (--factors)",
            DataWarning,
            stacklevel=2,
        )


def _factor(
    name: str, kind: Kind, options: ImportOptions, defaults: Defaults, like: Space | None
) -> Factor:
    """A factor as the user, the study or the format describes it, in that order."""
    scope: Scope = "extrinsic"
    unit, role = "", defaults.roles.get(name) or guess_role(name, kind)
    if like is not None and name in like:
        scope, unit, role = like[name].scope, like[name].unit, like[name].role
    if options.intrinsic:
        scope = "intrinsic" if name in options.intrinsic else "extrinsic"
    # Factor refuses a role that does not exist, and names those that do.
    role = cast("Role | None", options.roles.get(name, role))
    return Factor(name, kind, scope, options.units.get(name, unit), role)


def _with_values(factor: Factor, distinct: set[Value]) -> Factor:
    """The factor with its levels or grid, for which evenly chosen values are enough."""
    values = sorted(distinct)
    if factor.kind == "numeric" and len(values) > _ENOUGH:
        last = len(values) - 1
        values = [values[round(i * last / (_ENOUGH - 1))] for i in range(_ENOUGH)]
    table = pd.DataFrame({factor.name: values})
    return Space([factor]).with_values(table)[factor.name]


def _check_names(columns: Columns, options: ImportOptions, space: Space) -> None:
    """An option that names something else than a factor would go unnoticed: refuse it."""
    measured = {"memory", "joules"}
    for option, names in (
        ("--intrinsic", options.intrinsic),
        ("--categorical", options.categorical),
        ("--role", options.roles),
        ("--unit", [one for one in options.units if one not in measured]),
    ):
        for name in names:
            if name not in space:
                expected = f"a factor: {listed(space.names)}{hint(name, space.names)}"
                raise InputError(f"{columns.source} {option}", name, expected)


def _times(text: str, factor: float) -> float | None:
    value = number(text)
    return None if value is None else value * factor
