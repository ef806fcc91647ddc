"""How well a model predicts runs that it has not seen, beside what people would use instead."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from forerun.errors import ForerunWarning
from forerun.modelling.columns import Array, Columns, Mask
from forerun.modelling.feasibility import features

if TYPE_CHECKING:
    from forerun.factors import Space

Predictor = Callable[[pd.DataFrame, Array, pd.DataFrame], dict[str, Array]]

NAMES = ("forerun", "formula alone", "log-log straight line", "random forest")
FOLDS = 3
MOST_ROWS = 300  # of a larger study a random part is compared, so that it takes seconds
FEWEST_ROWS = 8


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Mean absolute error, as a share of the measured value; None where nothing was held out."""

    name: str
    mape: float | None
    mape_largest: float | None


def held_out(
    table: pd.DataFrame, target: str, space: Space, random_state: int = 0, **settings: Any
) -> list[HeldOut]:
    """Errors on random held-out runs, and on the largest where the rest is learnt from.

    `settings` are those of the `PerformanceModel`.
    """
    names = list(space.names)
    random = np.random.default_rng(random_state)
    rows = np.sort(random.permutation(len(table))[:MOST_ROWS])
    factors, times = table[names].iloc[rows], table[target].to_numpy(float)[rows]
    predictors: list[Predictor] = [
        _forerun(space, target, random_state, settings),
        _straight_line,
        _forest,
    ]
    if len(times) < FEWEST_ROWS:
        return [HeldOut(name, None, None) for name in NAMES]
    # repeats of a point stay together: otherwise they would be predicted from each other
    point = factors.groupby(names, dropna=False, sort=False).ngroup().to_numpy()
    part = (random.permutation(int(point.max()) + 1) % FOLDS)[point]
    near = _errors(predictors, factors, times, [part == number for number in range(FOLDS)])
    far = _errors(predictors, factors, times, [times > np.quantile(times, 0.8)])
    return [HeldOut(name, near.get(name), far.get(name)) for name in NAMES]


def _errors(
    predictors: list[Predictor], factors: pd.DataFrame, times: Array, parts: list[Mask]
) -> dict[str, float]:
    """Mean over all held-out runs, for each predictor; a level seen in no learnt run is dropped."""
    errors: dict[str, list[Array]] = {}
    for test in parts:
        known = test & _known(factors, ~test)
        if not known.any() or np.count_nonzero(~test) < 4:
            continue
        for predictor in predictors:
            found = predictor(factors[~test], times[~test], factors[known])
            for name, guess in found.items():
                errors.setdefault(name, []).append(np.abs(guess / times[known] - 1))
    return {name: float(np.concatenate(found).mean()) for name, found in errors.items()}


def _known(factors: pd.DataFrame, learn: Mask) -> Mask:
    """Rows that a model of the learnt ones can be asked: no new level, no first 0 or below."""
    known = np.ones(len(factors), bool)
    for column in Columns.measured(factors).all:
        if column.kind == "linear" and (factors.loc[learn, column.name] > 0).all():
            known &= (factors[column.name] > 0).to_numpy()
        if column.kind == "levels":
            known &= factors[column.name].isin(factors.loc[learn, column.name]).to_numpy()
    return known


def _forerun(space: Space, target: str, random_state: int, settings: dict[str, Any]) -> Predictor:
    from forerun.modelling.estimator import PerformanceModel

    def predict(learn: pd.DataFrame, times: Array, unseen: pd.DataFrame) -> dict[str, Array]:
        model = PerformanceModel(
            intrinsic=list(space.intrinsic),
            extrinsic=list(space.extrinsic),
            target=target,
            n_jobs=-1,
            **{"random_state": random_state, **settings},
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ForerunWarning)
            model.fit(learn, times)
            return {
                "forerun": model.predict(unseen),
                "formula alone": model.predict_formula(unseen),
            }

    return predict


def _straight_line(learn: pd.DataFrame, times: Array, unseen: pd.DataFrame) -> dict[str, Array]:
    from sklearn.linear_model import Ridge

    columns = Columns.measured(learn)
    line = Ridge(1e-3).fit(features(learn, columns), np.log(times))
    guess = np.exp(np.clip(line.predict(features(unseen, columns)), -700, 700))
    return {"log-log straight line": guess}


def _forest(learn: pd.DataFrame, times: Array, unseen: pd.DataFrame) -> dict[str, Array]:
    from sklearn.ensemble import RandomForestRegressor

    columns = Columns.measured(learn)
    forest = RandomForestRegressor(100, random_state=0).fit(features(learn, columns), np.log(times))
    return {"random forest": np.exp(forest.predict(features(unseen, columns)))}
