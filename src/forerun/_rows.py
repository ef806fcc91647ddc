"""Between the rows of a study's file and factors, runs and tables."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, get_args

from forerun._run import Run, Status, checked_measure
from forerun._values import normalised, one_of, printable
from forerun.errors import FactorError, InputError, StudyError
from forerun.factors import VARIANT, Factor, Point, Space, Value

if TYPE_CHECKING:
    import sqlite3

    import pandas as pd

_Read = TypeVar("_Read")

# Made once: `json.dumps` with options makes another for every call.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_WHOLE = "a study as forerun writes it"
COLUMNS = "uid, point, variant, status, measures, host, versions, started, source"


def as_json(document: object) -> str:
    """Compact JSON; ValueError for NaN and infinity, which JSON has no word for."""
    return _ENCODER.encode(document)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not finite")
    return value


def _refused(word: str) -> NoReturn:
    raise ValueError(f"{word} is not finite")


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_refused)


def from_json(text: object) -> dict[str, Any]:
    """The JSON object that `as_json` wrote; InputError for anything else that a file may hold."""
    try:
        document = _DECODER.decode(printable("JSON", text, InputError))
    except (ValueError, RecursionError) as error:
        raise InputError("JSON", text, "a JSON object of finite numbers") from error
    if not isinstance(document, dict):
        raise InputError("JSON", text, "a JSON object")
    return document


def each(path: Path, rows: Iterable[Sequence[Any]], read: Callable[..., _Read]) -> Iterator[_Read]:
    """What `read` makes of each row after its id; StudyError names the row that is damaged."""
    for number, *cells in rows:
        try:
            made = read(*cells)
        except InputError as error:
            raise StudyError(str(path), f"a damaged run {number} ({error})", _WHOLE) from error
        yield made


def count(db: sqlite3.Connection) -> int:
    """How many runs there are."""
    return int(db.execute("SELECT count(*) FROM run").fetchone()[0])


def write_space(db: sqlite3.Connection, space: Space) -> None:
    """Keep the factors."""
    if "status" in space:
        raise FactorError("factor name", "status", "another name: it is how a run ended")
    text = as_json(space.to_dict())
    db.execute("INSERT OR REPLACE INTO study (key, value) VALUES ('space', ?)", (text,))


def read_space(db: sqlite3.Connection, path: Path) -> Space:
    """The factors; StudyError if they are not as `write_space` wrote them."""
    row = db.execute("SELECT value FROM study WHERE key = 'space'").fetchone()
    try:
        return Space.from_dict(from_json(row[0] if row else None))
    except (ValueError, TypeError, AttributeError) as error:  # any shape is possible
        raise StudyError(str(path), f"damaged factors ({error})", _WHOLE) from error


def write_command(db: sqlite3.Connection, name: str, text: str) -> None:
    """Add a command."""
    checked = [printable("command", part, InputError) for part in (name, text)]
    db.execute("INSERT INTO command (name, text) VALUES (?, ?)", checked)


def replace_command(db: sqlite3.Connection, name: str, text: str) -> None:
    """Give a command another text."""
    checked = printable("command", text, InputError)
    db.execute("UPDATE command SET text = ? WHERE name = ?", (checked, name))


def has_times(db: sqlite3.Connection, variant: str) -> bool:
    """Whether a run of this command ended well."""
    found = db.execute("SELECT 1 FROM run WHERE variant = ? AND status = 'ok' LIMIT 1", (variant,))
    return found.fetchone() is not None


def read_commands(db: sqlite3.Connection, path: Path) -> dict[str, str]:
    """The commands, in the order in which they were added."""
    rows = db.execute("SELECT name, text FROM command ORDER BY rowid").fetchall()
    try:
        return {
            printable("name", name, InputError): printable("text", text, InputError)
            for name, text in rows
        }
    except InputError as error:
        raise StudyError(str(path), f"damaged commands ({error})", _WHOLE) from error


def with_variants(space: Space, commands: Iterable[str]) -> Space:
    """The space with the factor `variant`, whose levels are the commands, if there are several."""
    names = tuple(commands)
    if len(names) < 2:
        return space
    known = space[VARIANT].values if VARIANT in space else ()
    levels = (*known, *(name for name in names if name not in known))
    others = [factor for factor in space.values() if factor.name != VARIANT]
    return Space([*others, Factor(VARIANT, "categorical", values=levels)])


def described(space: Space) -> str:
    """The names and kinds of the factors, whatever their order and values."""
    return ", ".join(f"{name} ({space[name].kind})" for name in sorted(space)) or "none"


def row_of(space: Space, run: Run) -> tuple[str, ...]:
    """The row of a run that fits the space; FactorError or InputError if it does not."""
    point, variant = run.point, run.variant
    if VARIANT in space:
        told = point.get(VARIANT, variant)
        if variant and told != variant:
            raise FactorError(f"factor {VARIANT}", told, f"the run's own, {variant}")
        variant = str(told)
        space.check({**point, VARIANT: told}, levels=False)
        point = Point({name: value for name, value in point.items() if name != VARIANT})
    else:
        space.check(point, levels=False)
    for name in run.measures:
        if name in space:
            raise InputError(f"measure {name}", "a factor of that name", "another name")
    return (
        run.uid,
        point.key,
        variant,
        run.status,
        as_json(run.measures),
        run.host,
        as_json(run.versions) if run.versions else "{}",
        run.started,
        run.source,
    )


def stored(space: Space, key: str, variant: str) -> dict[str, Value]:
    """The values of a stored point, with its variant where the space has that factor."""
    values: dict[str, Value] = from_json(key)
    return values | {VARIANT: variant} if VARIANT in space else values


def values_of(space: Space, key: str, variant: str) -> dict[str, Value]:
    """The values of a stored point, in the order of the space; InputError if they do not fit."""
    values = stored(space, key, variant)
    space.check(values, levels=False)
    made = {name: normalised(name, values[name]) for name in space}
    space.check(made, levels=False)  # once more: neither true nor null is a number
    return made


def measures_of(text: str) -> dict[str, float]:
    """The stored measures; InputError if one is not a finite number above 0."""
    return {name: checked_measure(name, value) for name, value in from_json(text).items()}


def failure_of(space: Space, key: str, variant: str, status: str) -> tuple[dict[str, Value], str]:
    """The values of a run that did not end well, and how it ended."""
    one_of("run status", status, get_args(Status))
    return values_of(space, key, variant), status


def run_of(space: Space, *row: Any) -> Run:
    """The run of a row."""
    uid, key, variant, status, measures, host, versions, started, source = row
    return Run(
        point=Point(values_of(space, key, variant)),
        measures=from_json(measures),
        status=status,
        variant=variant,
        host=host,
        versions=from_json(versions),
        started=started,
        source=source,
        uid=uid,
    )


def frame(space: Space, rows: Sequence[Mapping[str, Value]]) -> pd.DataFrame:
    """A table with a column for each factor: whole numbers, other numbers or text."""
    import pandas as pd

    columns = {}
    for name, factor in space.items():
        cells = [row[name] for row in rows]
        numeric = "int64" if cells and all(isinstance(cell, int) for cell in cells) else "float64"
        columns[name] = pd.Series(cells, dtype="str" if factor.kind == "categorical" else numeric)
    return pd.DataFrame(columns, index=range(len(rows)))
