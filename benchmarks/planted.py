"""Tables of runs made from a generic expression that is known, with noise.

A design is long enough that its exponents can be told: no unbiased estimate can have a smaller
standard deviation than the Cramér-Rao bound, and here that is at most 1.5 % of every exponent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]

SHARPNESS = 0.015  # largest Cramér-Rao deviation, as a share of the exponent
GRIDS = ([1, 2, 4, 8, 16, 32], [1, 3, 5, 7, 11], [16, 32, 64, 128, 256], list(range(10, 510, 20)))
LENGTHS = (40, 60, 90, 130, 200, 300, 450, 700, 1000, 1500, 2200, 3300, 5000, 7500)
UNIT = 7.3e-3  # seconds


@dataclass(frozen=True)
class Planted:
    """A table, its times, which factors are intrinsic, and the exponents that made the times."""

    table: pd.DataFrame
    seconds: Array
    intrinsic: tuple[str, ...]
    exponents: dict[str, float]


@dataclass(frozen=True)
class Truth:
    """t = (sum of a·I^p) · (product of E^q) + C, each factor over its geometric mean."""

    grids: list[Array]
    coefficients: Array
    inner: Array
    outer: Array
    constant: float
    noise: float

    @classmethod
    def drawn(cls, draw: np.random.Generator) -> Truth:
        """Up to three intrinsic and one to three extrinsic factors."""
        inner, outer = int(draw.integers(0, 4)), int(draw.integers(1, 4))
        return cls(
            [np.array(GRIDS[i], dtype=float) for i in draw.integers(0, len(GRIDS), inner + outer)],
            draw.dirichlet(np.full(max(inner, 1), 3.0)),
            draw.uniform(0.4, 2.0, inner) * draw.choice([1, 1, 1, -1], inner),
            draw.uniform(0.2, 1.2, outer) * draw.choice([-1, 1], outer),
            float(draw.uniform(0.05, 0.4)),
            float(draw.choice([0.01, 0.03, 0.05])),
        )

    def at(self, table: Array) -> tuple[Array, Array]:
        """The time at each point, and its relative derivatives by a, p, q and C."""
        centres = np.array([[np.log(grid).mean()] for grid in self.grids])
        logs = np.log(table) - centres
        first, rest = logs[: len(self.inner)], logs[len(self.inner) :]
        powers = self.inner[:, None] * first if len(self.inner) else np.zeros((1, table.shape[1]))
        parts = self.coefficients[:, None] * np.exp(powers) * np.exp(self.outer @ rest)
        time = parts.sum(axis=0) + self.constant
        shares = parts / time
        scaled = (1 - self.constant / time) * rest
        slopes = [shares, shares[: len(first)] * first, scaled, (self.constant / time)[None]]
        return time, np.concatenate(slopes)

    def sharpness(self, table: Array) -> float:
        """The largest Cramér-Rao deviation of an exponent, as a share of it."""
        slopes = self.at(table)[1]
        deviations = np.sqrt(np.diag(np.linalg.pinv(slopes @ slopes.T))) * self.noise
        exponents = np.concatenate([self.inner, self.outer])
        return float(np.max(deviations[len(self.coefficients) : -1] / np.abs(exponents)))


def plant(seed: int) -> Planted | None:
    """The shortest design that is sharp enough; None where even the longest is not."""
    draw = np.random.default_rng(seed)
    truth = Truth.drawn(draw)
    for runs in LENGTHS:
        table = np.array([draw.choice(grid, runs) for grid in truth.grids])
        if truth.sharpness(table) <= SHARPNESS:
            break
    else:
        return None
    noise = np.exp(truth.noise * draw.standard_normal(runs))
    intrinsic = tuple(f"inner_{i}" for i in range(len(truth.inner)))
    names = [*intrinsic, *(f"outer_{j}" for j in range(len(truth.outer)))]
    exponents = np.concatenate([truth.inner, truth.outer]).tolist()
    return Planted(
        pd.DataFrame(dict(zip(names, table, strict=True))),
        UNIT * truth.at(table)[0] * noise,
        intrinsic,
        dict(zip(names, exponents, strict=True)),
    )


def planted(count: int) -> Iterator[Planted]:
    """So many of them, from the first seeds that give one."""
    seed = 0
    while count:
        found = plant(seed)
        seed += 1
        if found is not None:
            count -= 1
            yield found
