"""The factors of some runs as people look at them: kind, scope, and what was run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from forerun.cli.common import shown, table

if TYPE_CHECKING:
    from rich.table import Table

    from forerun.factors import Factor, Space, Value

_LEVELS = 8  # levels that are listed before the rest is only counted


def factor_rows(space: Space, values: Mapping[str, Iterable[Value]]) -> list[dict[str, Any]]:
    """One row a factor: what it is, and the range or the levels of `values`."""
    return [_row(factor, sorted(set(values[name]))) for name, factor in space.items()]


def _row(factor: Factor, distinct: Sequence[Any]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": factor.name,
        "kind": factor.kind,
        "scope": factor.scope,
        "unit": factor.unit,
        "role": factor.role,
        "distinct": len(distinct),
    }
    if factor.kind == "categorical":
        return row | {"levels": list(distinct)}
    return row | {"low": min(distinct, default=None), "high": max(distinct, default=None)}


def factor_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The rows for a terminal."""
    made = table("factor", "kind", "scope", "role", "values")
    for row in rows:
        made.add_row(
            shown(row["name"]), row["kind"], row["scope"], row["role"] or "", shown(_values(row))
        )
    return made


def level(value: object) -> str:
    """A level or number as shown; the level of an empty cell has a name too."""
    return "(empty)" if value == "" else shown(value)


def _values(row: Mapping[str, Any]) -> str:
    if row["kind"] == "categorical":
        levels = row["levels"]
        more = f" and {len(levels) - _LEVELS} more" if len(levels) > _LEVELS else ""
        return ", ".join(level(one) for one in levels[:_LEVELS]) + more
    if row["low"] == row["high"]:
        return f"{shown(row['low'])} {row['unit']}".strip()
    span = f"{shown(row['low'])} to {shown(row['high'])} {row['unit']}".strip()
    return f"{span} ({row['distinct']} values)"
