"""What each figure shows, as a table: no drawing here, so that numbers can be tested and reused."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from forerun.errors import ForerunWarning
from forerun.measuring.noise import pooled_spread

if TYPE_CHECKING:
    from forerun.factors import Space, Value
    from forerun.modelling.estimator import PerformanceModel
    from forerun.modelling.explain import Explanation

MANY = 1000  # above so many runs one split stands for the cross-validation
MOST = 20_000  # no more runs than this are used to judge the model, for the time it takes
DRAWN = 1500  # no figure draws more runs than this: the page has to stay light
LARGEST = 1e308  # about the largest float: no curve goes on beyond it
BEYOND = 2.0  # curves go on to this multiple of the largest measured value


@contextmanager
def _silent() -> Iterator[None]:
    """Figures leave the measured range on purpose and fit to parts of it: no warnings for that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForerunWarning)
        yield


@_silent()
def measured(
    model: PerformanceModel, table: pd.DataFrame, target: str, coverage: float = 0.9
) -> pd.DataFrame:
    """Each run beside the prediction of a model that has not seen its point.

    One row a run, with its index in `table`. Columns: `measured`, `predicted`, `low`, `high`,
    `inside` (the interval holds the run) and `ratio` (measured over predicted). Repeats of one
    point are held out together; a run whose level no other point has is left out.
    """
    from sklearn.base import clone

    if len(table) > MOST:
        table = table.sample(MOST, random_state=0)
    points, seen = table.drop(columns=target), table[target]
    parts = []
    for train, held in _folds(points):
        test = held[_known_levels(points.iloc[held], points.iloc[train])]
        fitted = clone(model).fit(points.iloc[train], seen.iloc[train])
        part = pd.DataFrame({"measured": seen.iloc[test]})
        part["predicted"] = fitted.predict(points.iloc[test])
        part["low"], part["high"] = fitted.predict_interval(points.iloc[test], coverage)
        parts.append(part)
    rows = pd.concat(parts).sort_index()
    rows["inside"] = rows["measured"].between(rows["low"], rows["high"])
    rows["ratio"] = rows["measured"] / rows["predicted"]
    return rows


def repeat_spread(table: pd.DataFrame, target: str) -> float | None:
    """How far repeats of one point spread: their relative standard deviation, pooled over points.

    No model can do better than this. None where no point was run twice.
    """
    names = [name for name in table.columns if name != target]
    return pooled_spread(repeats_of(table, names, target))


def repeats_of(table: pd.DataFrame, names: list[str], target: str) -> list[list[float]]:
    """The target's values at each point, one list a point, whether it was run again or not."""
    by = names or np.zeros(len(table))  # without a factor there is one point
    return [values.tolist() for _, values in table.groupby(by, sort=False, observed=True)[target]]


def reference(table: pd.DataFrame, space: Space) -> dict[str, Value]:
    """The point at which curves hold the other factors: measured medians, commonest levels."""
    chosen: dict[str, Value] = {}
    for factor in space.values():
        column = table[factor.name]
        if factor.kind == "numeric":
            chosen[factor.name] = float(column.quantile(0.5, interpolation="nearest"))
        else:
            chosen[factor.name] = str(column.mode().iloc[0])
    return chosen


@_silent()
def scaling(
    model: PerformanceModel,
    table: pd.DataFrame,
    factor: str,
    at: Mapping[str, Value],
    coverage: float = 0.9,
) -> pd.DataFrame:
    """The target against one numeric factor, the others held `at` a point.

    Columns: `value`, `predicted`, `low`, `high`, `formula`, `beyond` (outside what was measured)
    and `lowest` (true in the one row where the prediction is lowest).
    """
    values = curve_values(table[factor])
    points = at_point(table, at, len(values))
    points[factor] = values
    low, high = model.predict_interval(points, coverage)
    predicted = model.predict(points)
    seen = table[factor]
    return pd.DataFrame(
        {
            "value": values,
            "predicted": predicted,
            "low": low,
            "high": high,
            "formula": model.predict_formula(points),
            "beyond": (values < seen.min()) | (values > seen.max()),
            "lowest": np.arange(len(values)) == int(np.argmin(predicted)),
        }
    )


@_silent()
def moved_runs(
    model: PerformanceModel, table: pd.DataFrame, target: str, factor: str, at: Mapping[str, Value]
) -> pd.DataFrame:
    """Every run as it would be `at` the point in all factors but one, for dots beside a curve.

    The model moves it: measured · predicted(at the point) / predicted(at the run). What is left
    around the curve is what the model does not explain. Columns: `value`, `moved`, `measured`.
    """
    if len(table) > DRAWN:
        table = table.sample(DRAWN, random_state=0)
    factors = table.drop(columns=target)
    points = at_point(factors, at, len(factors))
    points[factor] = factors[factor].to_numpy()
    ratio = model.predict(points) / model.predict(factors)
    seen = table[target].to_numpy()
    return pd.DataFrame({"value": points[factor], "moved": seen * ratio, "measured": seen})


def contributions(explanation: Explanation) -> pd.DataFrame:
    """How much of the variation each factor carries. Largest first.

    Columns: `factor`, `scope`, `kind`, `contribution`, `elasticity`, `low`, `high` (NaN: none).
    """
    rows = [
        (f.name, f.scope, f.kind, f.contribution, f.elasticity, f.low, f.high)
        for f in explanation.factors
    ]
    columns = ["factor", "scope", "kind", "contribution", "elasticity", "low", "high"]
    made = pd.DataFrame(rows, columns=columns)
    return made.astype(dict.fromkeys(columns[3:], float))


def levels(explanation: Explanation) -> pd.DataFrame:
    """What each level of each category multiplies the target by: `factor`, `level`, `times`."""
    rows = [
        (factor.name, level, times)
        for factor in explanation.factors
        for level, times in (factor.levels or {}).items()
    ]
    return pd.DataFrame(rows, columns=["factor", "level", "times"])


def constants(explanation: Explanation) -> pd.DataFrame:
    """The formula's constants and their spread over bootstrap resamples.

    Columns: `constant`, `value`, `low`, `high`.
    """
    rows = [(c.name, c.value, c.low, c.high) for c in explanation.constants]
    return pd.DataFrame(rows, columns=["constant", "value", "low", "high"])


def drawn(rows: pd.DataFrame, limit: int = DRAWN) -> pd.DataFrame:
    """At most `limit` of the rows, the same ones each time."""
    return rows if len(rows) <= limit else rows.sample(limit, random_state=0).sort_index()


def curve_values(column: pd.Series[float], steps: int = 61) -> np.ndarray:
    """Where a curve is drawn: over what was measured and on to `BEYOND` times the largest value."""
    low, high = float(column.min()), float(column.max())
    end = min(high * BEYOND, max(high, LARGEST)) if high > 0 else high
    whole = bool((column == column.round()).all())
    if whole and end - low < steps:
        return np.arange(low, end + 1)
    if low > 0 and end / low >= 10:
        values = np.geomspace(low, end, steps)
    else:
        values = np.linspace(low, end, steps)
    return np.unique(values.round() if whole else values)


def ticked(curve: pd.DataFrame, runs: pd.DataFrame) -> list[float]:
    """A factor's measured values where they are few, with the curve's end; else the curve's."""
    seen = sorted(set(runs["value"].tolist()))
    return [*seen, float(curve["value"].max())] if len(seen) <= 8 else curve["value"].tolist()


def curve_reach(curve: pd.DataFrame, runs: pd.DataFrame) -> list[float]:
    """The values that a curve's axis has to show: a very wide interval may run out of it."""
    centre = [*curve["predicted"], *runs["moved"]]
    return [
        *centre,
        *curve["low"].clip(lower=min(centre) / 3),
        *curve["high"].clip(upper=max(centre) * 2),
    ]


def at_point(table: pd.DataFrame, at: Mapping[str, Value], count: int) -> pd.DataFrame:
    """`count` copies of one point, with the column types of `table`."""
    names = [column for column in table.columns if column in at]
    made = pd.DataFrame({name: [at[name]] * count for name in names})
    return made.astype({name: table[name].dtype for name in names})


def _known_levels(asked: pd.DataFrame, seen: pd.DataFrame) -> np.ndarray:
    """Which rows have no level that the rest of the runs has never had."""
    categories = asked.select_dtypes(exclude="number").columns
    known = [asked[name].isin(seen[name]).to_numpy() for name in categories]
    return np.asarray(np.logical_and.reduce([np.ones(len(asked), bool), *known]), bool)


def _folds(factors: pd.DataFrame) -> list[tuple[np.ndarray, np.ndarray]]:
    """Train and test rows: five folds of points, or one split where there are very many runs."""
    from sklearn.model_selection import GroupKFold, GroupShuffleSplit

    groups = factors.groupby(list(factors.columns), dropna=False, sort=False).ngroup()
    count = int(groups.nunique())
    if len(factors) > MANY:
        split = GroupShuffleSplit(1, test_size=0.2, random_state=0)
    else:
        split = GroupKFold(min(5, count), shuffle=True, random_state=0)
    return list(split.split(factors, groups=groups))
