"""Prediction intervals whose width is set by errors on held-out runs.

The model states a deviation for every point. Held-out random runs say by what its multiples are
really exceeded (a conformal quantile); held-out largest runs say how fast the error grows outside
the measured range, factor by factor: its square in proportion to the distance, as in a random walk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from forerun.modelling.columns import Array

GROWTH = 0.25  # log error a standard deviation outside, where nothing was held out to learn it
LEAST_GROWTH = 0.1
FEWEST_SCORES = 10  # held-out runs that make a quantile
TAIL = 4.0  # degrees of freedom where held-out runs are too few for a quantile


@dataclass(frozen=True)
class Intervals:
    """Calibration of the stated deviations."""

    scores: Array  # |error| / deviation of held-out runs, ascending
    growth: Array  # log error one standard deviation outside, for each numeric factor

    @classmethod
    def calibrated(cls, checks: Sequence[tuple[Array, Array, Array]], factors: int) -> Intervals:
        """From (error, deviation, excess) of each held-out part."""
        inside = [e / d for e, d, x in checks for e, d in [(e[x.sum(1) == 0], d[x.sum(1) == 0])]]
        scores = np.sort(np.abs(np.concatenate(inside))) if inside else np.zeros(0)
        growth = np.full(factors, GROWTH)
        for factor in range(factors):
            pairs = [(e**2 - d**2, x[:, factor]) for e, d, x in checks if x[:, factor].any()]
            if pairs:
                more = sum(float(m[x > 0].sum()) for m, x in pairs)
                far = sum(float(x.sum()) for _, x in pairs)
                growth[factor] = max(max(more, 0.0) / far, LEAST_GROWTH**2) ** 0.5
        return cls(scores, growth)

    def half_width(self, deviation: Array, excess: Array, coverage: float) -> Array:
        """Half the width of the interval of the log time.

        The deviation is the model's own opinion, which held-out runs correct; the growth is
        measured in real errors, so a normal quantile of it is enough.
        """
        inside, outside = self.multiple(coverage), float(norm.ppf((1 + coverage) / 2))
        result: Array = np.sqrt((inside * deviation) ** 2 + outside**2 * (excess @ self.growth**2))
        return result

    def multiple(self, coverage: float) -> float:
        """Deviations that hold `coverage` of unseen runs: the quantile of the held-out ones."""
        count = len(self.scores)
        wanted = coverage * (count + 1) / max(count, 1)
        if count >= FEWEST_SCORES and wanted <= 1:
            return float(np.quantile(self.scores, wanted, method="inverted_cdf"))
        # too few: the Student quantile, scaled to the held-out runs' typical size
        typical = float(np.median(self.scores)) if count else student.ppf(0.75, TAIL)
        scale = max(typical / float(student.ppf(0.75, TAIL)), 1.0)
        found = scale * float(student.ppf((1 + coverage) / 2, TAIL))
        # never less than a quantile: an interval of more coverage holds that of less
        return max(found, float(self.scores[-1])) if count >= FEWEST_SCORES else found

    def to_dict(self) -> dict[str, Any]:
        return {"scores": self.scores.tolist(), "growth": self.growth.tolist()}

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Intervals:
        return cls(np.array(document["scores"], float), np.array(document["growth"], float))
