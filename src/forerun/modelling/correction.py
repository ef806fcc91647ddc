"""The smooth correction: what a formula leaves in the log of the time, as a Gaussian process.

    log t(x) = log formula(x) + g(x),     g ~ GP(0, s^2 k(x, x'))

`k` is a Matern kernel with one length for each factor; two levels of a category are 1 apart.
Hyperparameters are the most probable ones under weak priors; noise is Student-t by reweighting, so
that a few outliers do not bend the curve.

Outside the measured range the correction stops changing: its slope at the edge is believed only as
far as the measured values near the edge resolve it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.linalg import lapack, solve_triangular
from scipy.optimize import minimize

from forerun.modelling.columns import Array, Codes
from forerun.modelling.expression import tail_weights

Smoothness = Literal["matern5", "matern1"]
JITTER = 1e-8  # variance of log time added for numerical safety
STEPS = 40  # of the search for hyperparameters
FIXED = 2  # hyperparameters before the lengths: size of the correction, noise


@dataclass(frozen=True)
class Place:
    """Where points lie, for the kernel: numbers in standard deviations, and level codes."""

    numbers: Array
    codes: Codes

    def __len__(self) -> int:
        return len(self.numbers)

    def rows(self, keep: Any) -> Place:
        return Place(self.numbers[keep], self.codes[keep])


@dataclass(frozen=True)
class Edges:
    """The measured range of each number, and how far past it a slope is believed."""

    low: Array
    high: Array
    below: Array
    above: Array

    @classmethod
    def of(cls, numbers: Array) -> Edges:
        if not numbers.shape[1]:
            return cls(*(np.zeros(0) for _ in range(4)))
        below, above = np.array([_reach(column) for column in numbers.T]).T
        return cls(numbers.min(0), numbers.max(0), below, above)

    def hold(self, numbers: Array) -> Array:
        """Points outside moved towards the edge: x = edge + reach * (1 - exp(-excess / reach))."""
        over, under = np.maximum(numbers - self.high, 0), np.maximum(self.low - numbers, 0)
        held: Array = (
            np.clip(numbers, self.low, self.high)
            - self.above * np.expm1(-over / self.above)
            + self.below * np.expm1(-under / self.below)
        )
        return held

    def excess(self, numbers: Array) -> Array:
        """How far outside, in standard deviations of the measured values; one column a factor."""
        result: Array = np.maximum(numbers - self.high, 0) + np.maximum(self.low - numbers, 0)
        return result


@dataclass(frozen=True)
class Seen:
    """The runs that corrections are conditioned on."""

    place: Place
    edges: Edges

    @classmethod
    def of(cls, place: Place) -> Seen:
        return cls(place, Edges.of(place.numbers))


def _reach(values: Array) -> tuple[float, float]:
    """A tenth of a standard deviation for each distinct value within one of the edge."""
    distinct = np.unique(values)
    near_low = np.count_nonzero(distinct <= distinct[0] + 1)
    near_high = np.count_nonzero(distinct >= distinct[-1] - 1)
    return 0.1 * near_low, 0.1 * near_high


@dataclass(frozen=True)
class Correction:
    """A process given its runs. `log_scales` = log of (size, noise, lengths…)."""

    smoothness: Smoothness
    log_scales: Array
    coefficients: Array
    noise_shares: Array  # each run's noise variance over the common one: outliers have more

    @property
    def noise(self) -> float:
        """Standard deviation of the log time of a run."""
        return float(np.exp(self.log_scales[1]))

    def mean(self, seen: Seen, where: Place) -> Array:
        return self._covariance(seen, where) @ self.coefficients

    def variance(self, seen: Seen, where: Place) -> Array:
        """Of the log time, the noise of a single run included."""
        size, noise = np.exp(2 * self.log_scales[:FIXED])
        solved = solve_triangular(
            self.factor(seen), self._covariance(seen, where).T, lower=True, check_finite=False
        )
        result: Array = np.maximum(size - (solved**2).sum(0), 0) + noise
        return result

    def factor(self, seen: Seen) -> Array:
        """Cholesky factor of the covariance of the runs."""
        total = self._smooth(seen.place, seen)
        total[np.diag_indices_from(total)] += self.noise**2 * self.noise_shares + JITTER
        return cholesky(total)

    def _covariance(self, seen: Seen, where: Place) -> Array:
        return self._smooth(Place(seen.edges.hold(where.numbers), where.codes), seen)

    def _smooth(self, where: Place, seen: Seen) -> Array:
        lengths = np.exp(-2 * self.log_scales[FIXED:])
        squared = weighted_distances(where, seen.place, lengths)
        result: Array = np.exp(2 * self.log_scales[0]) * kernel(self.smoothness, squared)[0]
        return result

    def to_dict(self) -> dict[str, Any]:
        return {
            "smoothness": self.smoothness,
            "log_scales": self.log_scales.tolist(),
            "coefficients": self.coefficients.tolist(),
            "noise_shares": self.noise_shares.tolist(),
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Correction:
        names = "log_scales", "coefficients", "noise_shares"
        return cls(document["smoothness"], *(np.array(document[name], float) for name in names))


def distances(points: Place, others: Place) -> Array:
    """Squared distances by factor: (factors, points, others); two levels are 1 apart."""
    parts = [
        (a[:, None] - b[None]) ** 2 for a, b in zip(points.numbers.T, others.numbers.T, strict=True)
    ]
    parts += [
        (a[:, None] != b[None]).astype(float)
        for a, b in zip(points.codes.T, others.codes.T, strict=True)
    ]
    return np.array(parts) if parts else np.zeros((0, len(points), len(others)))


def weighted_distances(points: Place, others: Place, weights: Array) -> Array:
    """The weighted sum of `distances`, one factor at a time: no array is larger than the result."""
    total: Array = np.zeros((len(points), len(others)))
    numbers = points.numbers.shape[1]
    for a, b, weight in zip(points.numbers.T, others.numbers.T, weights[:numbers], strict=True):
        total += weight * (a[:, None] - b[None]) ** 2
    for a, b, weight in zip(points.codes.T, others.codes.T, weights[numbers:], strict=True):
        total += weight * (a[:, None] != b[None])
    return total


def kernel(smoothness: Smoothness, squared: Array) -> tuple[Array, Array]:
    """Correlation at a squared distance, and minus twice its derivative by that distance."""
    if smoothness == "matern5":
        r = np.sqrt(5 * squared)
        decay = np.exp(-r)
        return (1 + r + 5 / 3 * squared) * decay, 5 / 3 * (1 + r) * decay
    r = np.sqrt(squared + 1e-12)  # its slope at 0 is infinite
    decay = np.exp(-r)
    return decay, decay / r


class _Evidence:
    """Minus the log posterior of the hyperparameters, with its gradient."""

    def __init__(self, seen: Place, residual: Array, smoothness: Smoothness) -> None:
        self.residual, self.smoothness = residual, smoothness
        self.squared = distances(seen, seen)
        self.noise_shares = np.ones(len(residual))
        self._kept: tuple[Array, Array, Array] | None = None
        size, count = np.log(max(float(np.std(residual)), 1e-4)), len(self.squared)
        # of the whole spread, the correction is expected to be a third and the noise a tenth
        self.centre = np.concatenate([[size - 1.0, size - 2.5], np.full(count, np.log(2.0))])
        self.width = np.concatenate([[1.5, 1.5], np.ones(count)])
        self.bounds = [(c - 5, c + 5) for c in self.centre]
        self.bounds[1] = (np.log(1e-4), max(self.centre[1] + 5, 0.0))

    def correlations(self, log_scales: Array) -> tuple[Array, Array]:
        """Of all pairs of runs, and their slopes; kept for the next call with the same scales."""
        if self._kept is None or not np.array_equal(self._kept[0], log_scales):
            lengths = np.exp(-2 * log_scales[FIXED:])
            found = kernel(self.smoothness, np.tensordot(lengths, self.squared, 1))
            self._kept = log_scales.copy(), *found
        return self._kept[1:]

    def covariance(self, log_scales: Array) -> tuple[Array, Array, Array]:
        value, slope = self.correlations(log_scales)
        total = np.exp(2 * log_scales[0]) * value
        total[np.diag_indices_from(total)] += np.exp(2 * log_scales[1]) * self.noise_shares + JITTER
        return value, slope, total

    def __call__(self, log_scales: Array) -> tuple[float, Array]:
        value, slope, total = self.covariance(log_scales)
        factor, failed = lapack.dpotrf(total, lower=1, clean=1)
        if failed:
            return 1e10, np.zeros_like(log_scales)
        inverse = _inverse(factor)
        solved = inverse @ self.residual
        cost = 0.5 * self.residual @ solved + np.log(np.diag(factor)).sum()
        inverse -= np.outer(solved, solved)  # twice the derivative of the cost by the covariance
        size, noise = np.exp(2 * log_scales[:FIXED])
        gradient = np.empty_like(log_scales)
        gradient[0] = size * np.vdot(inverse, value)
        gradient[1] = noise * (np.diag(inverse) * self.noise_shares).sum()
        inverse *= slope
        lengths = np.exp(-2 * log_scales[FIXED:])
        gradient[FIXED:] = 0.5 * size * lengths * [np.vdot(inverse, one) for one in self.squared]
        off = (log_scales - self.centre) / self.width
        return float(cost + 0.5 * off @ off), gradient + off / self.width

    def search(self, start: Array, steps: int) -> Array:
        found = minimize(
            self, start, jac=True, method="L-BFGS-B", bounds=self.bounds,
            options={"maxiter": steps, "ftol": 1e-4},
        )  # fmt: skip
        return np.asarray(found.x, float)

    def solve(self, log_scales: Array) -> tuple[Array, Array, Array]:
        """Cholesky factor and inverse of the covariance, and the coefficients of the mean."""
        factor = cholesky(self.covariance(log_scales)[2])
        inverse = _inverse(factor)
        return factor, inverse, inverse @ self.residual

    def reweigh(self, log_scales: Array) -> None:
        """Set each run's noise by its error when predicted from the others.

        That error counts in deviations with the common noise: with a run's own, larger noise an
        outlier would soon pass for none.
        """
        _, inverse, coefficients = self.solve(log_scales)
        precision = np.diag(inverse)
        noise = np.exp(2 * log_scales[1])
        variance = np.maximum(1 / precision - (self.noise_shares - 1) * noise, noise)
        weights = tail_weights(coefficients / precision / np.sqrt(variance), 1.0)
        self.noise_shares = 1 / np.minimum(weights, 1.0)


def cholesky(covariance: Array) -> Array:
    """Its lower factor; a covariance that rounding has spoilt gets more noise until it has one."""
    jitter = 0.0
    while True:
        factor, failed = lapack.dpotrf(
            covariance + jitter * np.eye(len(covariance)) if jitter else covariance,
            lower=1,
            clean=1,
        )
        if not failed:
            return np.asarray(factor)
        jitter = max(10 * jitter, JITTER * float(np.diag(covariance).max()))


def _inverse(factor: Array) -> Array:
    """Of a covariance, from its Cholesky factor (whose upper triangle is 0)."""
    inverse, _ = lapack.dpotri(factor, lower=1)
    diagonal = np.diag(inverse).copy()
    inverse = inverse + inverse.T
    inverse[np.diag_indices_from(inverse)] = diagonal
    return np.asarray(inverse)


def hyperparameters(
    seen: Place, residual: Array, smoothness: Smoothness, start: Array | None = None
) -> Array:
    """The most probable log scales, Student-t noise by reweighting.

    `start` is where the search begins, such as the scales found for another formula.
    """
    evidence = _Evidence(seen, residual, smoothness)
    scales = evidence.search(evidence.centre if start is None else start, STEPS)
    for _ in range(4):  # fewer leave a noise that a few outliers have set
        evidence.reweigh(scales)
        scales = evidence.search(scales, STEPS // 5)
    return scales


def condition(
    seen: Place, residual: Array, smoothness: Smoothness, log_scales: Array
) -> Correction:
    """The process, given the runs and the hyperparameters."""
    evidence = _Evidence(seen, residual, smoothness)
    for _ in range(2):
        evidence.reweigh(log_scales)
    coefficients = evidence.solve(log_scales)[2]
    return Correction(smoothness, log_scales, coefficients, evidence.noise_shares)
