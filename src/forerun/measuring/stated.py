"""The error that a campaign states: what a prediction at a random point is expected to be off by.

The model says of every point how far off it may be, by what held-out runs were off. The runs at
random points, each predicted before it was made, say whether the model is right about that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import norm

from forerun.modelling.columns import Array
from forerun.modelling.estimator import PerformanceModel
from forerun.modelling.teaching import stand_in

WIDEST = 1.5  # log error that is reckoned with at most
DOUBTS = 6.0  # random runs that count as much as what is thought beforehand:
BIAS = 1.3  # that a model of few runs is off by so many times what it thinks
SPREAD = 0.9  # standard deviation of an absolute error over its mean
NEW = 0.3  # log error for a level that was not measured


@dataclass(frozen=True, slots=True)
class StatedError:
    """Mean absolute percentage error (as a share) at a random point, with its 90 % interval."""

    mape: float
    low: float
    high: float
    runs: int  # at random points, that have checked it


@dataclass(frozen=True, slots=True)
class Surprise:
    """How far off a prediction was, as a share of what was measured, and was expected to be."""

    found: float
    expected: float


def expected_errors(model: PerformanceModel, table: pd.DataFrame) -> Array:
    """The absolute relative error expected at each point."""
    fitted = model.model_
    known = stand_in(fitted.columns, table)
    deviation, excess = fitted.log_deviation(known)
    scores = fitted.intervals.scores
    if not len(scores):
        scores = norm.ppf(np.linspace(0.55, 0.95, 9))
    outside = excess @ fitted.intervals.growth**2
    new = NEW**2 * np.array([(known[n] != table[n]).to_numpy() for n in known]).any(0)
    half = np.sqrt((deviation[:, None] * scores) ** 2 + (outside + new)[:, None])
    half = np.minimum(half, WIDEST)
    result: Array = np.sinh(half).mean(1)  # the mean of exp(half) - 1 and 1 - exp(-half)
    return result


def state(opinions: Sequence[float], surprises: Sequence[Surprise]) -> StatedError:
    """The model's opinion of its error, put right by what the random runs have shown.

    Of the opinions of the last few models the largest counts: a campaign ends where the stated
    error is small, and so would end where a model for once thinks too well of itself.
    """
    count = len(surprises)
    factor = DOUBTS * math.log(BIAS)
    if count:
        found = sum(one.found for one in surprises)
        expected = sum(one.expected for one in surprises)
        factor += count * math.log(max(found, 1e-9) / max(expected, 1e-9))
    mape = max(opinions) * math.exp(factor / (count + DOUBTS))
    wide = math.exp(1.645 * SPREAD / math.sqrt(count + DOUBTS))
    return StatedError(mape, mape / wide, mape * wide, count)
