"""Between the rows of a study's file and factors, runs and tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from forerun._run import Run
from forerun._values import printable
from forerun.errors import FactorError, InputError
from forerun.factors import VARIANT, Factor, Point, Space, Value

if TYPE_CHECKING:
    import sqlite3

    import pandas as pd

# Made once: `json.dumps` with options makes another for every call.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
COLUMNS = "uid, point, variant, status, measures, host, versions, started, source"


def as_json(document: object) -> str:
    """Compact JSON; ValueError for NaN and infinity, which JSON has no word for."""
    return _ENCODER.encode(document)


def write_space(db: sqlite3.Connection, space: Space) -> None:
    """Keep the factors."""
    if "status" in space:
        raise FactorError("factor name", "status", "another name: it is how a run ended")
    text = as_json(space.to_dict())
    db.execute("INSERT OR REPLACE INTO study (key, value) VALUES ('space', ?)", (text,))


def read_space(db: sqlite3.Connection) -> Space:
    """The factors."""
    (text,) = db.execute("SELECT value FROM study WHERE key = 'space'").fetchone()
    return Space.from_dict(json.loads(text))


def write_command(db: sqlite3.Connection, name: str, text: str) -> None:
    """Add a command."""
    checked = [printable("command", part, InputError) for part in (name, text)]
    db.execute("INSERT INTO command (name, text) VALUES (?, ?)", checked)


def read_commands(db: sqlite3.Connection) -> dict[str, str]:
    """The commands, in the order in which they were added."""
    return dict(db.execute("SELECT name, text FROM command ORDER BY rowid").fetchall())


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
    values: dict[str, Value] = json.loads(key)
    return values | {VARIANT: variant} if VARIANT in space else values


def values_of(space: Space, key: str, variant: str) -> dict[str, Value]:
    """The values of a stored point, in the order of the space."""
    values = stored(space, key, variant)
    return {name: values[name] for name in space}


def run_of(space: Space, row: Sequence[Any]) -> Run:
    """The run of a row."""
    uid, key, variant, status, measures, host, versions, started, source = row
    return Run(
        point=Point(values_of(space, key, variant)),
        measures=json.loads(measures),
        status=status,
        variant=variant,
        host=host,
        versions=json.loads(versions),
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
