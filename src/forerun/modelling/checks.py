"""What a person should know: about the runs that a model was fitted to, and about what is asked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from forerun.errors import InputError
from forerun.modelling.columns import Array, Column, Columns, as_levels, finite_numbers, is_number

RUNS_A_FACTOR = 4  # fewer make the constants a guess
MANY_LEVELS = 100


def checked_target(values: Any, name: str) -> Array:
    """Refuse a target that is not a positive, finite number somewhere."""
    given = pd.Series(values)
    numbers = pd.to_numeric(given, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    bad = np.flatnonzero(~(np.isfinite(numbers) & (numbers > 0)))
    if len(bad):
        found = given.iloc[bad[0]]
        shown = f"{found:g}" if isinstance(found, Real) else repr(found)
        raise InputError(f"column {name!r}, row {bad[0]}", shown, "a positive, finite number")
    return numbers


def notes_on(table: pd.DataFrame, columns: Columns) -> list[str]:
    """What was noticed in the runs, one line each."""
    notes = [f"{c.name} never changes, so it is left out" for c in columns.all if c.constant]
    notes += _alike(table, columns)
    varying = len(columns.numeric) + len(columns.levels)
    if len(table) < RUNS_A_FACTOR * (varying + 1):
        notes.append(
            f"only {len(table)} runs for {varying} factor{'s' * (varying != 1)}:"
            f" expect wide intervals, {RUNS_A_FACTOR * (varying + 1)} would be a start"
        )
    for column in columns.levels:
        if len(column.levels) > MANY_LEVELS:
            each = len(table) / len(column.levels)
            notes.append(
                f"{column.name} has {len(column.levels)} levels, {each:.1f} runs each:"
                " levels with few runs are pulled towards the mean"
            )
    return notes


def _alike(table: pd.DataFrame, columns: Columns) -> list[str]:
    """Factors that always change together: nothing can tell their effects apart."""
    notes = []
    numbers = columns.numbers(table)
    if numbers.shape[1] > 1:
        correlation = np.abs(np.atleast_2d(np.corrcoef(numbers, rowvar=False)))
        for a, b in np.argwhere(np.triu(correlation, 1) > 0.9999):
            notes.append(_together(columns.numeric[a], columns.numeric[b]))
    codes = columns.codes(table)
    for i, first in enumerate(columns.levels):
        for j, second in enumerate(columns.levels[i + 1 :], start=i + 1):
            pairs = len(np.unique(codes[:, [i, j]], axis=0))
            if pairs == len(first.levels) == len(second.levels):
                notes.append(_together(first, second))
    return notes


def _together(first: Column, second: Column) -> str:
    return (
        f"{first.name} and {second.name} always change together: only their joint effect is known"
    )


def cautions_on(
    table: pd.DataFrame, columns: Columns, roles: Mapping[str, str], measured: pd.DataFrame
) -> list[str]:
    """Where points lie outside what was measured: which factor, and how far. One line each."""
    found = _crowded(table, roles, measured)
    for column in columns.all:
        if column.kind == "levels":
            other = sorted(set(as_levels(table[column.name])) - set(column.levels))
            if other:
                found.append(
                    f"{column.name} was {column.levels[0]} in all measured runs: what"
                    f" {other[0]} changes is unknown"
                )
            continue
        values = finite_numbers(column.name, table[column.name])
        role = roles.get(column.name)
        if role in ("nodes", "workers") and column.high == 1 and (values > 1).any():
            kind = "node" if role == "nodes" else "worker"
            found.append(
                f"no measured run used more than one {kind}: what {column.name} ="
                f" {values.max():g} costs in communication is unknown"
            )
            continue
        if (values > column.high).any():
            found.append(_outside(column, float(values.max()), column.high, "largest"))
        if (values < column.low).any():
            found.append(_outside(column, float(values.min()), column.low, "smallest"))
    return found


def _crowded(table: pd.DataFrame, roles: Mapping[str, str], measured: pd.DataFrame) -> list[str]:
    """More workers on a node than any measured run had: each alone may be within its range."""
    names = {role: name for name, role in roles.items() if role in ("nodes", "workers")}
    if len(names) < 2 or not all(is_number(measured[name]) for name in names.values()):
        return []
    workers, nodes = names["workers"], names["nodes"]
    if measured[nodes].max() <= 1:
        return []  # its own caution says more
    most = float((measured[workers] / measured[nodes]).max())
    asked = float((table[workers].astype(float) / table[nodes].astype(float)).max())
    if not asked > most * (1 + 1e-9):
        return []
    return [f"{asked:g} {workers} for each of {nodes} were never measured: at most {most:g}"]


def _outside(column: Column, value: float, edge: float, which: str) -> str:
    line = f"{column.name} = {value:g} is outside what was measured: the {which} was {edge:g}"
    times = _ratio(value, edge) if column.kind == "power" else math.inf
    if math.isfinite(times):
        line += f", {times:.3g} times {'less' if value > edge else 'more'}"
    return line


def _ratio(value: float, edge: float) -> float:
    return max(value / edge, edge / value)  # infinite where no float is so large
