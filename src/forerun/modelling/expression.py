"""The default expression: a sum of product terms ("phases") times the levels of large categories.

    t(x) = sum_k exp(theta_k . phi(x)) * prod_c level_c(x)

`phi(x)` holds 1, the transformed numeric factors and an indicator for each level of the small
categories, so that a term is `a * batch^p * gpus^q * level`. Logarithms of such sums are smooth
and their derivatives cheap: d log t / d theta_k = (share of term k) * phi(x). The constants are
found by damped Gauss-Newton steps, many problems (starts, folds) at once.

Where workers exchange something, `phi(x)` also holds log(1 - 1/workers): of what each of them has
to pass on, the part that is not its own. A single worker exchanges nothing, and eight hardly more
than four: no power of their number says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forerun.modelling.columns import Array, Codes, Columns

SMALL_CATEGORIES = 40  # levels, all categories together, that may differ from term to term
SCALES, NOISES = np.geomspace(0.02, 3, 21), np.geomspace(1e-3, 3, 41)  # that are considered
EXPECTED, WIDTH = 0.5, 1.5  # what is thought of the scale beforehand, and deviation of its log
NOTHING = -50.0  # log of what a single worker exchanges: for a float, nothing
TAIL = 4.0  # degrees of freedom of the Student-t noise: one run in twenty may be an outlier


class Design:
    """Which part of a table goes where: `phi` for the terms, level codes for the rest."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.inner: list[int] = []  # places of the small categories among the categories
        self.outer: list[int] = []  # and of the large ones
        room = SMALL_CATEGORIES
        for place, column in sorted(
            enumerate(columns.levels), key=lambda item: len(item[1].levels)
        ):
            room -= len(column.levels)
            (self.inner if room >= 0 else self.outer).append(place)
        self.inner.sort()
        self.outer.sort()
        # places, among the numbers, of those that count workers which exchange something
        self.exchanging = [place for place, c in enumerate(columns.numeric) if c.exchanged]

        levels = sum(len(columns.levels[place].levels) for place in self.inner)
        self.width = 1 + len(columns.numeric) + levels + len(self.exchanging)

    @property
    def units(self) -> Array:
        """By which constants are measured: a standard deviation of a number, a level."""
        units = np.ones(self.width)
        units[self.powers] = [c.spread if c.kind == "power" else 1.0 for c in self.columns.numeric]
        return units

    @property
    def powers(self) -> slice:
        return slice(1, 1 + len(self.columns.numeric))

    @property
    def exchanges(self) -> slice:
        return slice(self.width - len(self.exchanging), self.width)

    def phi(self, numbers: Array, codes: Codes) -> Array:
        parts = [np.ones((len(numbers), 1)), numbers]
        for place in self.inner:
            count = len(self.columns.levels[place].levels)
            parts.append((codes[:, [place]] == np.arange(count)).astype(float))
        for place in self.exchanging:
            inverse = np.exp(-np.maximum(self._logs(numbers, place), 0.0))
            parts.append(np.log(np.maximum(1 - inverse, np.exp(NOTHING)))[:, None])
        return np.hstack(parts)

    def elasticities(self, phi: Array, theta: Array, shares: Array, place: int) -> Array:
        """By how many per cent the time of each row changes for one per cent of a number.

        `shares` are those of the terms, as `log_sum` gives them.
        """
        found: Array = shares @ theta[:, self.powers.start + place]
        if place in self.exchanging:
            column = self.exchanges.start + self.exchanging.index(place)
            others = np.expm1(np.maximum(self._logs(phi[:, self.powers], place), 0.0))
            slope = np.divide(1.0, others, out=np.zeros_like(others), where=others > 0)
            found = found + slope * (shares @ theta[:, column])
        return found

    def _logs(self, numbers: Array, place: int) -> Array:
        """The logarithms themselves of a number that acts as a power."""
        result: Array = numbers[:, place] + self.columns.numeric[place].centre
        return result


@dataclass(frozen=True)
class Phases:
    """A fitted sum of product terms. `theta` is (terms, width); `outer` the shared log levels."""

    theta: Array
    outer: tuple[Array, ...] = ()

    def log(self, design: Design, phi: Array, codes: Codes) -> Array:
        return log_sum(phi, self.theta)[0] + self.shared(design, codes)

    def shared(self, design: Design, codes: Codes) -> Array:
        total = np.zeros(len(codes))
        for place, effects in zip(design.outer, self.outer, strict=True):
            total += effects[codes[:, place]]
        return total

    def to_dict(self) -> dict[str, Any]:
        return {"theta": self.theta.tolist(), "outer": [effects.tolist() for effects in self.outer]}

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Phases:
        return cls(
            np.array(document["theta"], float), tuple(np.array(e, float) for e in document["outer"])
        )


def log_sum(phi: Array, theta: Array) -> tuple[Array, Array]:
    """log of the sum of terms, and each term's share of it."""
    exponents = phi @ theta.T
    top = exponents.max(axis=1, keepdims=True)
    parts = np.exp(exponents - top)
    total = parts.sum(axis=1, keepdims=True)
    return (np.log(total) + top)[:, 0], parts / total


def solve(
    phi: Array,
    target: Array,
    weights: Array,
    start: Array,
    mean: Array,
    precision: Array,
    steps: int = 60,
    tolerance: float = 1e-7,
) -> tuple[Array, Array]:
    """Minimise sum w (target - log t)^2 + sum precision (theta - mean)^2, B problems at once.

    `weights` is (B, n), `start` (B, terms, width); `mean` and `precision` broadcast to `start`.
    Returns the constants and costs. Levenberg-Marquardt damping, one factor a problem.
    """
    problems, terms, width = start.shape
    mean, precision = np.broadcast_to(mean, start.shape), np.broadcast_to(precision, start.shape)
    flat = precision.reshape(problems, -1)
    diagonal = np.arange(terms * width)

    def evaluate(theta: Array) -> tuple[Array, Array, Array]:
        exponents = np.einsum("nq,bkq->bnk", phi, theta)
        top = exponents.max(axis=2, keepdims=True)
        parts = np.exp(exponents - top)
        total = parts.sum(axis=2, keepdims=True)
        residual = target - (np.log(total) + top)[:, :, 0]
        cost = (weights * residual**2).sum(1) + (precision * (theta - mean) ** 2).sum((1, 2))
        return residual, parts / total, np.where(np.isfinite(cost), cost, np.inf)

    theta = start.copy()
    residual, share, cost = evaluate(theta)
    damping, busy = np.full(problems, 1e-2), np.ones(problems, bool)
    for _ in range(steps):
        slope = (share[:, :, :, None] * phi[None, :, None, :]).reshape(problems, len(phi), -1)
        scaled = slope * weights[:, :, None]
        normal = np.matmul(scaled.transpose(0, 2, 1), slope)
        normal[:, diagonal, diagonal] += flat
        gradient = np.matmul(scaled.transpose(0, 2, 1), residual[:, :, None])[:, :, 0]
        gradient -= (precision * (theta - mean)).reshape(problems, -1)
        normal[:, diagonal, diagonal] *= 1 + damping[:, None]
        normal[:, diagonal, diagonal] += 1e-10
        step = np.linalg.solve(normal, gradient[:, :, None])[:, :, 0]
        # a term whose share vanishes has a flat direction: keep its steps sane
        tried = theta + np.clip(step, -3, 3).reshape(theta.shape)
        residual_, share_, cost_ = evaluate(tried)
        better = (cost_ < cost) & busy
        settled = better & (cost - cost_ <= tolerance * cost)
        theta[better], residual[better], share[better] = (
            tried[better],
            residual_[better],
            share_[better],
        )
        cost = np.where(better, cost_, cost)
        damping = np.where(better, np.maximum(damping / 5, 1e-9), damping * 4)
        busy &= ~settled & (damping < 1e8)
        if not busy.any():
            break
    return theta, cost


def tail_weights(residual: Array, scale: float) -> Array:
    """Weights of Student-t noise: a run far off its prediction counts less."""
    return (TAIL + 1) / (TAIL + (residual / scale) ** 2)


def spread_of(residual: Array) -> float:
    """A standard deviation that outliers do not move, never below 0.1 %."""
    return max(1.4826 * float(np.median(np.abs(residual))), 1e-3)


def evidence(phi: Array, target: Array, weights: Array, units: Array) -> tuple[float, float]:
    """The most probable scale of a single term's constants, and the noise, given the runs.

    With few runs and many factors a small scale keeps the term from following the noise.
    """
    root = np.sqrt(weights)
    total = root @ root
    centred = phi[:, 1:] / units[1:]
    centred = centred - (root**2 @ centred) / total
    rest = root * (target - (root**2 @ target) / total)
    left, sizes, _ = np.linalg.svd(root[:, None] * centred, full_matrices=False)
    along = (left.T @ rest) ** 2
    across = max(float(rest @ rest - along.sum()), 0.0)
    free = max(len(target) - len(sizes) - 1, 0)
    scales, noises = SCALES[:, None, None], NOISES[None, :, None]
    variance = (scales * sizes) ** 2 + noises**2
    cost = (along / variance + np.log(variance)).sum(2)
    cost += across / noises[..., 0] ** 2 + 2 * free * np.log(noises[..., 0])
    cost += ((np.log(scales[..., 0]) - np.log(EXPECTED)) / WIDTH) ** 2
    one, other = np.unravel_index(int(np.argmin(cost)), cost.shape)
    return float(SCALES[one]), float(NOISES[other])


def pooled_levels(residual: Array, codes: Codes, count: int) -> Array:
    """The mean residual of each level, pulled towards 0: the more, the fewer and noisier its runs.

    The pull counts as so many runs that said 0: the variance within levels over that between them.
    """
    runs = np.bincount(codes, minlength=count)
    means = np.bincount(codes, weights=residual, minlength=count) / np.maximum(runs, 1)
    seen, repeats = runs > 0, len(residual) - np.count_nonzero(runs)
    pull = 1.0
    if repeats > 0 and np.count_nonzero(seen) > 1:
        within = float(((residual - means[codes]) ** 2).sum()) / repeats
        between = float(means[seen].var(ddof=1)) - within * float((1 / runs[seen]).mean())
        pull = min(within / max(between, 1e-6), 10.0)
    effects: Array = means * runs / np.maximum(runs + pull, 1e-9)
    return effects


def prior(terms: int, units: Array, noise: float, scale: float) -> tuple[Array, Array]:
    """Mean and precision (in units of the noise) of the constants of `terms` terms.

    Exponents and log levels are N(0, scale^2), each in its unit: `scale` is what a term changes by
    over a standard deviation of a number, or from level to level. The constants of several terms
    are N(-1, 4), for they share the (centred) total; the single constant is free.
    """
    mean, precision = (
        np.zeros((terms, len(units))),
        np.tile((noise * units / scale) ** 2, (terms, 1)),
    )
    precision[:, 0] = 1e-8 if terms == 1 else (noise / 2.0) ** 2
    mean[:, 0] = 0.0 if terms == 1 else -1.0
    return mean, precision
