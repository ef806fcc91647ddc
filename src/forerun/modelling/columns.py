"""A table of factors as the model sees it: logarithms, scaled numbers and level codes.

A numeric factor whose values are all positive enters by its logarithm, so that it acts as a power.
One that is zero or negative somewhere (dropout, padding) enters linearly. Everything else is a
category, whose values are levels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from numbers import Real
from typing import Any, Literal

import numpy as np
import pandas as pd

from forerun.errors import InputError, LevelError

Array = np.ndarray[Any, np.dtype[np.float64]]
Codes = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Kind = Literal["power", "linear", "levels"]

EMPTY = "(empty)"
LOG_LIMIT = 700.0  # exp of more overflows, of less vanishes
FARTHEST = 1e4  # standard deviations of a linear factor: any value beyond is taken as this far


@dataclass(frozen=True, slots=True)
class Column:
    """One factor of the table: how its values become numbers, and what was seen of them."""

    name: str
    kind: Kind
    centre: float = 0.0  # mean of log x (power) or of x (linear)
    spread: float = 1.0  # standard deviation of the same; 1 where the column is constant
    low: float = 0.0  # smallest and largest measured value, in the factor's own unit
    high: float = 0.0
    levels: tuple[str, ...] = ()
    exchanged: bool = False  # a count of workers whose exchange, 1 - 1/x, may be a part of the time

    @property
    def constant(self) -> bool:
        return len(self.levels) == 1 if self.kind == "levels" else self.low == self.high

    def transform(self, values: Array) -> Array:
        """log x or x, centred; a linear factor also in units of its spread."""
        if self.kind == "power":
            return np.log(values) - self.centre
        with np.errstate(over="ignore"):  # halves: a difference of two may be beyond any float
            scaled = (values / 2 - self.centre / 2) / (self.spread / 2)
        return np.clip(scaled, -FARTHEST, FARTHEST)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"levels": list(self.levels)}

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Column:
        return cls(**(document | {"levels": tuple(document["levels"])}))


class Columns:
    """All factors of a table, in order."""

    def __init__(self, columns: Iterable[Column]) -> None:
        self.all = tuple(columns)
        self.numeric = tuple(c for c in self.all if c.kind != "levels" and not c.constant)
        self.levels = tuple(c for c in self.all if c.kind == "levels" and not c.constant)

    @classmethod
    def measured(cls, table: pd.DataFrame) -> Columns:
        """Learn the columns of a table of runs."""
        return cls(_measured(str(name), table[name]) for name in table.columns)

    def exchanging(self, names: Collection[str]) -> Columns:
        """The same columns, of which these count workers that exchange something."""
        return Columns(replace(column, exchanged=column.name in names) for column in self.all)

    def __getitem__(self, name: str) -> Column:
        return next(column for column in self.all if column.name == name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.all)

    def numbers(self, table: pd.DataFrame) -> Array:
        """The numeric factors, transformed: one column each."""
        parts = [c.transform(positive_numbers(c, table[c.name])) for c in self.numeric]
        return np.stack(parts, axis=1) if parts else np.empty((len(table), 0))

    def codes(self, table: pd.DataFrame) -> Codes:
        """The categories as level numbers: one column each."""
        parts = [level_codes(c, table[c.name]) for c in self.levels]
        return np.stack(parts, axis=1) if parts else np.empty((len(table), 0), np.int64)

    def check(self, table: pd.DataFrame) -> None:
        """Refuse what the model cannot take: an unseen level, or what is no finite number.

        A category of one level is not in the model: another level of it is a matter for a caution.
        """
        for column in self.all:
            if column.kind == "levels":
                if not column.constant:
                    level_codes(column, table[column.name])
            else:
                positive_numbers(column, table[column.name])

    def unexplored(self, table: pd.DataFrame) -> Array:
        """How far the points lie from what was measured in the factors that never varied.

        A number counts by the logarithm of its ratio, a level or a change of sign as 1.
        """
        total = np.zeros(len(table))
        for column in self.all:
            if column.kind == "levels" and column.constant:
                total += (as_levels(table[column.name]) != column.levels[0]).to_numpy()
            elif column.constant:
                values = finite_numbers(column.name, table[column.name])
                with np.errstate(divide="ignore"):  # of 0: as far as can be
                    ratio = np.abs(np.log(np.abs(values)) - np.log(abs(column.low)))
                total += np.where(values == column.low, 0.0, np.minimum(ratio, 1e3))
        return total

    def to_list(self) -> list[dict[str, Any]]:
        return [column.to_dict() for column in self.all]

    @classmethod
    def from_list(cls, documents: Sequence[dict[str, Any]]) -> Columns:
        return cls(Column.from_dict(document) for document in documents)


def as_levels(values: pd.Series[Any]) -> pd.Series[Any]:
    """Category values as text; a missing value is a level of its own."""
    missing = values.isna()
    text = values.astype(str)
    return text.mask(missing | (text == ""), EMPTY) if missing.any() or (text == "").any() else text


def is_number(values: pd.Series[Any]) -> bool:
    """Whether a column is meant to hold numbers: one number says so. True and false are levels."""
    if values.dtype == object:
        held = values[values.notna()]
        return any(isinstance(v, Real) and not isinstance(v, bool) for v in held)
    return pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)


def level_codes(column: Column, values: pd.Series[Any]) -> Codes:
    """The number of each value's level; a level never measured is refused."""
    text = as_levels(values)
    codes = pd.Index(column.levels).get_indexer(pd.Index(text)).astype(np.int64)
    if (codes < 0).any():
        raise LevelError(
            f"factor {column.name!r}",
            repr(str(text.iloc[int(np.argmax(codes < 0))])),
            f"one of the {len(column.levels)} measured levels: {_some(column.levels)}",
        )
    return codes


def positive_numbers(column: Column, values: pd.Series[Any]) -> Array:
    """Finite numbers, and positive ones where the factor enters by its logarithm."""
    numbers = finite_numbers(column.name, values)
    if column.kind == "power" and (numbers <= 0).any():
        row = int(np.argmax(numbers <= 0))
        raise InputError(
            f"factor {column.name!r}, row {row}",
            f"{numbers[row]:g}",
            "a positive number, as in all measured runs",
        )
    return numbers


def finite_numbers(name: str, values: pd.Series[Any]) -> Array:
    """The values as finite numbers; anything else is refused."""
    if not pd.api.types.is_numeric_dtype(values):
        numbers = pd.to_numeric(values, errors="coerce")
        bad = np.flatnonzero(numbers.isna().to_numpy())
        if len(bad):
            raise InputError(
                f"factor {name!r}, row {bad[0]}", repr(values.iloc[bad[0]]), "a finite number"
            )
        values = numbers
    array = values.to_numpy(dtype=np.float64, na_value=np.nan)
    if not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array)))
        # scikit-learn's own words for what was found, NaN or infinity
        found = "NaN" if np.isnan(array[row]) else "inf (infinity)"
        raise InputError(f"factor {name!r}, row {row}", found, "a finite number")
    return array


def _measured(name: str, values: pd.Series[Any]) -> Column:
    if not is_number(values):
        return Column(name, "levels", levels=tuple(sorted(set(as_levels(values)))))
    numbers = finite_numbers(name, values)
    low, high = float(numbers.min()), float(numbers.max())
    kind: Kind = "power" if low > 0 else "linear"
    # a difference of two values near 1e308 overflows: scale first
    scaled = np.log(numbers) if kind == "power" else numbers / max(abs(low), abs(high), 1e-300)
    unit = 1.0 if kind == "power" else max(abs(low), abs(high), 1e-300)
    return Column(
        name,
        kind,
        centre=float(scaled.mean()) * unit,
        spread=float(scaled.std()) * unit or 1.0,
        low=low,
        high=high,
    )


def _some(levels: Sequence[str], most: int = 6) -> str:
    return ", ".join(levels[:most]) + (", …" if len(levels) > most else "")
