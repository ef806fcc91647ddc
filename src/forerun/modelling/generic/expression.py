"""The published generic expression: t = (sum of a·I^p) · (product of E^q) + C.

`design_from` turns a table into the arrays of one fit, `fit_generic` finds the constants, and
`GenericExpression` holds them: it evaluates, prints and saves itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forerun.modelling.columns import LOG_LIMIT, Column, Columns
from forerun.modelling.generic.cost import Array
from forerun.modelling.writing import Style

Form = Literal["power", "ramps", "exponential", "levels", "constant"]

FARTHEST = 1e4  # transformed values beyond this are taken as this: nothing measured comes near


@dataclass(frozen=True, slots=True)
class Part:
    """One summand, in units of the geometric mean time.

    power      a·(x / its geometric mean)^p
    ramps      a·(x - low) / (high - low) + b·(high - x) / (high - low), neither below 0: any line
               not negative where measured, of a factor that is 0 or negative somewhere
    levels     one constant for each level
    constant   a_0, where there is no intrinsic factor
    """

    form: Form
    name: str
    coefficients: tuple[float, ...]
    exponent: float = 0.0


@dataclass(frozen=True, slots=True)
class Scaling:
    """One multiplier.

    power        (x / its geometric mean)^q
    exponential  exp(q·(x - centre) / spread), for a factor that is 0 or negative somewhere
    levels       e^q of each level, 1 for the first
    """

    form: Form
    name: str
    exponents: tuple[float, ...]


@dataclass(frozen=True)
class GenericExpression:
    """The fitted expression. Its constants are scaled; `formula` has them in the user's units."""

    columns: Columns
    parts: tuple[Part, ...]
    scalings: tuple[Scaling, ...]
    constant: float
    log_unit: float  # logarithm of the geometric mean time

    def evaluate(self, table: pd.DataFrame) -> Array:
        """Predicted time of every row: never negative, always finite."""
        return np.exp(self.log_time(self.columns.numbers(table), self.columns.codes(table)))

    def log_time(self, numbers: Array, codes: NDArray[np.int64]) -> Array:
        """The logarithm of the same, from `Columns.numbers` and `Columns.codes`."""
        total: Array = np.full(len(numbers), -np.inf)
        with np.errstate(divide="ignore"):
            for part in self.parts:
                total = np.logaddexp(total, self._log_part(part, numbers, codes))
            for scaling in self.scalings:
                total += self._log_scaling(scaling, numbers, codes)
            total = np.logaddexp(total, np.log(self.constant)) + self.log_unit
        return np.clip(total, -LOG_LIMIT, LOG_LIMIT)

    def _log_part(self, part: Part, numbers: Array, codes: NDArray[np.int64]) -> Array:
        coefficients: Array = np.log(part.coefficients)
        if part.form == "constant":
            return np.full(len(numbers), float(coefficients[0]))
        if part.form == "levels":
            return self._by_level(coefficients, part.name, codes)
        values = self._values(part.name, numbers)
        if part.form == "power":
            powers: Array = coefficients[0] + part.exponent * values
            return powers
        rising, falling = coefficients[:, None] + log_ramps(self.columns[part.name], values)
        ramps: Array = np.logaddexp(rising, falling)
        return ramps

    def _log_scaling(self, scaling: Scaling, numbers: Array, codes: NDArray[np.int64]) -> Array:
        if scaling.form == "levels":
            return self._by_level(np.array(scaling.exponents), scaling.name, codes)
        return scaling.exponents[0] * self._values(scaling.name, numbers)

    def _by_level(self, effects: Array, name: str, codes: NDArray[np.int64]) -> Array:
        chosen: Array = effects[codes[:, self._place[name]]]
        return chosen

    def _values(self, name: str, numbers: Array) -> Array:
        return np.clip(numbers[:, self._place[name]], -FARTHEST, FARTHEST)

    @cached_property
    def _place(self) -> dict[str, int]:
        """The column of `numbers` or `codes` that holds a factor."""
        groups = (self.columns.numeric, self.columns.levels)
        return {column.name: i for group in groups for i, column in enumerate(group)}

    def formula(self, style: Style = "text", target: str = "seconds") -> str:
        """The expression in the user's units, to read, to print, or to evaluate in Python."""
        from forerun.modelling.generic.formula import write

        return write(self, style, target)

    def constants(self) -> dict[str, float]:
        """Every constant by what it is, in the user's units."""
        from forerun.modelling.generic.formula import constants

        return constants(self)

    def to_dict(self) -> dict[str, Any]:
        """A JSON document; `from_dict` gives the same expression back to the bit."""
        return {
            "columns": self.columns.to_list(),
            "parts": [[p.form, p.name, list(p.coefficients), p.exponent] for p in self.parts],
            "scalings": [[s.form, s.name, list(s.exponents)] for s in self.scalings],
            "constant": self.constant,
            "log_unit": self.log_unit,
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> GenericExpression:
        """What `to_dict` wrote."""
        return cls(
            Columns.from_list(document["columns"]),
            tuple(Part(f, n, tuple(a), p) for f, n, a, p in document["parts"]),
            tuple(Scaling(f, n, tuple(q)) for f, n, q in document["scalings"]),
            document["constant"],
            document["log_unit"],
        )


def log_ramps(column: Column, values: Array) -> Array:
    """Logarithms of the ramp from 0 to 1 over the measured range and of that from 1 to 0.

    Each goes on beyond its 1 and stays at 0 beyond its 0.
    """
    low, high = column.transform(np.array([column.low, column.high]))
    height = (values - low) / (high - low)
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(0.0, [height, 1.0 - height]))
