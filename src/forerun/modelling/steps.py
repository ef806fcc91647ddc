"""Steps beyond those that were measured: a run is a start and so many steps, whatever else it is.

Each of them takes as long as those between the fewest and the most that were measured. The start is
where compiling is, so that it is paid once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from forerun.factors import Space
from forerun.modelling.columns import Array
from forerun.modelling.teaching import predicted

if TYPE_CHECKING:
    from forerun.modelling.estimator import PerformanceModel


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
    """

    seconds: Array
    points: pd.DataFrame  # as many again as there are seconds, where steps lie beyond
    weights: tuple[Array, ...]  # of their logarithms in that of the seconds

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
    short = np.minimum(short, long)
    seconds = long + far.more * (long - short)
    weights = ((1 + far.more) * long / seconds, -far.more * short / seconds)
    return Line(seconds, pd.concat([far.inside, far.start], ignore_index=True), weights)
