"""The published expression as a model: fitted constants, and intervals from held-out runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from forerun.modelling.auto import place_of
from forerun.modelling.columns import Array, Columns
from forerun.modelling.correction import Edges
from forerun.modelling.cross_validation import CHECK_ROWS, held_out_parts
from forerun.modelling.generic import (
    GenericExpression,
    Loss,
    Penalty,
    choose_strength,
    design_from,
    fit_generic,
)
from forerun.modelling.intervals import GROWTH, Intervals


@dataclass(frozen=True)
class GenericModel:
    """The generic expression with its strength, its deviation and its intervals."""

    expression: GenericExpression
    strength: float
    deviation: float  # of the log of a run's time about the expression
    edges: Edges
    intervals: Intervals

    @property
    def columns(self) -> Columns:
        return self.expression.columns

    def log_time(self, table: pd.DataFrame) -> Array:
        return self.expression.log_time(self.columns.numbers(table), self.columns.codes(table))

    def log_formula(self, table: pd.DataFrame) -> Array:
        return self.log_time(table)

    def log_deviation(self, table: pd.DataFrame) -> tuple[Array, Array]:
        place = place_of(self.columns, self.columns.numbers(table), self.columns.codes(table))
        variance = self.deviation**2 + GROWTH**2 * self.columns.unexplored(table)
        return np.sqrt(variance), self.edges.excess(place.numbers)

    def to_dict(self) -> dict[str, Any]:
        edges = self.edges
        return {
            "expression": self.expression.to_dict(),
            "strength": self.strength,
            "deviation": self.deviation,
            "edges": [e.tolist() for e in (edges.low, edges.high, edges.below, edges.above)],
            "intervals": self.intervals.to_dict(),
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> GenericModel:
        return cls(
            GenericExpression.from_dict(document["expression"]),
            document["strength"],
            document["deviation"],
            Edges(*(np.array(edge, float) for edge in document["edges"])),
            Intervals.from_dict(document["intervals"]),
        )


def fit_generic_model(
    table: pd.DataFrame,
    target: Array,
    intrinsic: list[str],
    *,
    loss: Loss,
    penalty: Penalty,
    strength: float | None,
    exponent_bound: float,
    seed: int,
) -> GenericModel:
    """Fit the generic expression; `strength` None is chosen by cross-validation."""
    columns = Columns.measured(table)
    settings: dict[str, Any] = {
        "loss": loss,
        "penalty": penalty,
        "exponent_bound": exponent_bound,
        "seed": seed,
    }
    design = design_from(columns, table, intrinsic)
    if strength is None:
        strength = choose_strength(design, target, **settings)
    expression, _ = fit_generic(design, target, strength=strength, **settings)

    random = np.random.default_rng(seed)
    rows = np.sort(random.permutation(len(target))[:CHECK_ROWS])
    some, times = table.iloc[rows], target[rows]
    place = place_of(columns, columns.numbers(some), columns.codes(some))
    found = expression.log_time(columns.numbers(some), columns.codes(some))
    deviation = max(float(np.sqrt(np.mean((np.log(times) - found) ** 2))), 1e-3)
    checks = []
    for _, test in held_out_parts(place, random):
        learn = design_from(columns, some[~test], intrinsic)
        again, _ = fit_generic(learn, times[~test], strength=strength, **settings)
        unseen = some[test]
        guess = again.log_time(columns.numbers(unseen), columns.codes(unseen))
        excess = Edges.of(place.numbers[~test]).excess(place.numbers[test])
        error = np.log(times[test]) - guess
        checks.append((error, np.full(len(error), deviation), excess))
    edges = Edges.of(place_of(columns, columns.numbers(table), columns.codes(table)).numbers)
    intervals = Intervals.calibrated(checks, len(columns.numeric))
    return GenericModel(expression, strength, deviation, edges, intervals)
