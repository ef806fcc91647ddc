"""Steps beyond those that were measured: a run is a start and so many steps, whatever else it is.

Each of them takes as long as those between the fewest and the most that were measured. The start is
where compiling is, so that it is paid once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.stats import norm

from forerun.factors import Space
from forerun.modelling.columns import Array, Mask
from forerun.modelling.teaching import Lesson, Process, predicted, stand_in

if TYPE_CHECKING:
    from forerun.modelling.estimator import PerformanceModel

COVERAGE = 0.9
SURE = 1.645  # deviations of such an interval
AT_ONCE = 500  # points whose covariance is asked for


@dataclass(frozen=True)
class Beyond:
    """Points as far as runs tell of them, and how far they lie beyond."""

    inside: pd.DataFrame  # at most as many steps as were measured
    start: pd.DataFrame  # the fewest that were
    more: Array  # how often the time between the two comes on top


def beyond(model: PerformanceModel, space: Space, table: pd.DataFrame) -> Beyond | None:
    """The points of a table that have more steps than any run; None where there are none."""
    name = next((name for name, factor in space.items() if factor.role == "steps"), None)
    if name is None:
        return None
    measured = model.runs_["factors"][name]
    fewest, most = min(measured), max(measured)
    if fewest == most or (table[name] <= most).all():
        return None
    inside = table.assign(**{name: np.minimum(table[name], most)})
    more = (table[name] - inside[name]).to_numpy() / (most - fewest)
    return Beyond(inside, table.assign(**{name: fewest}), more)


@dataclass(frozen=True)
class Line:
    """Times in a straight line, and the points whose times they are made of.

    With `long` and `short` the times at `inside` and `start`, t = long + more (long - short), so

        d log t = (1 + more) long / t * d log long - more short / t * d log short.

    No step takes less than nothing: where the runs hardly tell it from that, `long - short` is what
    is expected of it, given that it is not below 0, and so above what was predicted.
    """

    seconds: Array
    points: pd.DataFrame  # as many again as there are seconds, where steps lie beyond
    weights: tuple[Array, ...]  # of their logarithms in that of the seconds
    # Where steps lie beyond, of each time: half the interval of its logarithm, and whether the
    # runs cannot tell a step from nothing.
    half: Array | None = None
    is_flat: Mask | None = None

    def of(self, logs: Array) -> Array:
        """What changes of the logarithms at the points, by column, are of that of the seconds."""
        count = len(self.seconds)
        parts = (
            weight * logs[..., place * count : (place + 1) * count]
            for place, weight in enumerate(self.weights)
        )
        result: Array = sum(parts, np.zeros(()))
        return result


def straight(model: PerformanceModel, space: Space, table: pd.DataFrame) -> Line:
    """Predicted times, in a straight line beyond the measured steps; levels may be new."""
    far = beyond(model, space, table)
    if far is None:
        return Line(predicted(model, table), table, (np.ones(len(table)),))
    long, short = predicted(model, far.inside), predicted(model, far.start)
    known = _known(model, space, far)
    apart = np.sqrt(known.variance(long, -short))
    step, is_flat = long - short, long - short < SURE * apart
    step = np.minimum(_not_below_0(step, apart), long)
    short = long - step
    seconds = long + far.more * step
    weights = ((1 + far.more) * long / seconds, -far.more * short / seconds)
    # As wide, beside the interval at the measured steps, as the process is less sure out there.
    wider = (known.variance(*weights) + known.noise) / (known.long + known.noise)
    half = known.half * np.sqrt(np.maximum(wider, 1.0))
    points = pd.concat([far.inside, far.start], ignore_index=True)
    return Line(seconds, points, weights, half, is_flat & (far.more > 0))


def _not_below_0(mean: Array, deviation: Array) -> Array:
    """The mean of a normal variable that is known not to lie below 0."""
    spread = np.maximum(deviation, 1e-12 * np.abs(mean) + 1e-300)
    ratio = mean / spread
    # The density over the share above 0, by logarithms: both vanish far below.
    result: Array = mean + spread * np.exp(norm.logpdf(ratio) - norm.logcdf(ratio))
    return np.maximum(result, 0.0)


@dataclass(frozen=True)
class _Known:
    """How well the logarithms of the times at both ends are known, as held-out runs correct it."""

    half: Array  # half the model's own interval at the long end, a run's noise in it
    long: Array  # variances
    short: Array
    both: Array  # covariance
    noise: Array  # of a run

    def variance(self, long: Array, short: Array) -> Array:
        """Of the sum of both logarithms with these weights."""
        own = long**2 * self.long + short**2 * self.short
        result: Array = np.maximum(own + 2 * long * short * self.both, 0.0)
        return result


def _known(model: PerformanceModel, space: Space, far: Beyond) -> _Known:
    low, high = model.predict_interval(stand_in(model.model_.columns, far.inside), COVERAGE)
    half = np.log(high / low) / 2
    seen = pd.DataFrame(model.runs_["factors"])[list(space.names)]
    everything = pd.concat([seen, far.inside, far.start], ignore_index=True)
    process = Process(space, everything, model)
    found = []
    for first in range(0, len(far.inside), AT_ONCE):  # a lesson has a number for each pair
        rows = slice(first, first + AT_ONCE)
        lesson = Lesson(process, seen, far.inside.iloc[rows], far.start.iloc[rows])
        found.append((lesson.own, lesson.left, lesson.alike()))
    long, short, both = map(np.concatenate, zip(*found, strict=True))
    scale = (half / SURE) ** 2 / (long + process.noise)
    return _Known(half, scale * long, scale * short, scale * both, scale * process.noise)
