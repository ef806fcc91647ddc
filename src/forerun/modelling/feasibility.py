"""Where runs ran out of memory: a boundary through the measured points, so that plans avoid it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from forerun.modelling.columns import Array, Column, Columns, Mask, as_levels, finite_numbers


@dataclass(frozen=True)
class Boundary:
    """A straight line in the logarithms of the factors between what ran and what did not."""

    columns: Columns
    weights: Array
    offset: float

    def feasible(self, table: pd.DataFrame) -> Mask:
        """True where the point lies on the side of the runs that succeeded."""
        result: Mask = features(table, self.columns) @ self.weights + self.offset < 0
        return result

    def to_dict(self) -> dict[str, Any]:
        return {
            "columns": self.columns.to_list(),
            "weights": self.weights.tolist(),
            "offset": self.offset,
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Boundary:
        weights = np.array(document["weights"], float)
        return cls(Columns.from_list(document["columns"]), weights, document["offset"])


def fit_boundary(succeeded: pd.DataFrame, failed: pd.DataFrame) -> Boundary:
    """Logistic regression of failure; both tables have the same factors."""
    from sklearn.linear_model import LogisticRegression

    both = pd.concat([succeeded, failed[list(succeeded.columns)]], ignore_index=True)
    columns = Columns.measured(both)
    is_failed = np.arange(len(both)) >= len(succeeded)
    # a weak pull to 0 only: where the two sides can be told apart, they shall be
    line = LogisticRegression(C=100.0, class_weight="balanced", max_iter=1000)
    line.fit(features(both, columns), is_failed)
    return Boundary(columns, line.coef_[0].astype(float), float(line.intercept_[0]))


def features(table: pd.DataFrame, columns: Columns) -> Array:
    """Numbers in standard deviations, one indicator a level; an unknown level has none set."""
    parts = [_feature(column, table[column.name]) for column in columns.all if not column.constant]
    return np.hstack(parts) if parts else np.zeros((len(table), 1))


def _feature(column: Column, values: pd.Series[Any]) -> Array:
    if column.kind == "levels":
        text = as_levels(values).to_numpy(str)
        return np.asarray(text[:, None] == np.array(column.levels)[None], float)
    numbers = finite_numbers(column.name, values)
    if column.kind == "power":
        return ((np.log(np.maximum(numbers, 1e-300)) - column.centre) / column.spread)[:, None]
    return column.transform(numbers)[:, None]
