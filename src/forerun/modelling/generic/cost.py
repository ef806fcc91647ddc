"""The cost of the generic expression and its derivatives, for many members at once.

    t = exp(W q) * sum_k a_k exp(p_k z_k) + C        m = log t

A row of `powers` is z_k, the centred logarithm of an intrinsic factor. A row of `fixed` is the
logarithm of a part of the sum that has no exponent (a ramp, a level, the constant a_0). A row of
`scaling` is what an extrinsic exponent multiplies. Times are in units of their geometric mean.
The constants of one member are the vector [a_1 .. a_K, C, p_1 .., q_1 ..].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Loss = Literal["log", "relative", "absolute"]
Penalty = Literal["l1", "l2"]

# BLAS does products of at most this many multiplications on one thread (OpenBLAS up to 262,144),
# so the bits do not depend on the number of threads.
SINGLE_THREADED = 200_000


@dataclass(frozen=True)
class Problem:
    """What is to be fitted, where to start, and within which box."""

    powers: Array
    fixed: Array
    scaling: Array
    target: Array
    lower: Array
    upper: Array
    start: Array
    penalised: Array  # how much each constant counts in the penalty
    searched: NDArray[np.intp]  # which constants the evolution varies; the rest are solved for
    loss: Loss = "log"
    penalty: Penalty = "l2"

    @property
    def coefficients(self) -> int:
        """How many parts the sum has, and one more for C."""
        return len(self.powers) + len(self.fixed) + 1

    @property
    def size(self) -> int:
        """How many constants there are."""
        return len(self.lower)

    def rows(self, index: NDArray[np.intp] | slice) -> Problem:
        """The same problem on some of the rows."""
        return replace(
            self,
            powers=self.powers[:, index],
            fixed=self.fixed[:, index],
            scaling=self.scaling[:, index],
            target=self.target[index],
        )


@dataclass
class Derivatives:
    """Cost of each member, half its gradient, half its (approximate) second derivative."""

    cost: Array
    gradient: Array
    curvature: Array


def logarithm(problem: Problem, members: Array) -> Array:
    """log t of every member (first axis) on every row."""
    pieces = [shares(block, members)[1] for _, block in blocks(problem, len(members))]
    return np.concatenate(pieces, axis=1)


def costs(problem: Problem, members: Array, strength: Array | float) -> Array:
    """The regularised cost of every member; one that is not finite is infinitely bad."""
    with np.errstate(all="ignore"):
        residual = residuals(problem, logarithm(problem, members))[0]
        cost = np.mean(residual * residual, axis=1) + _penalty(problem, members, strength)
    return np.where(np.isfinite(cost), cost, np.inf)


def blocks(problem: Problem, members: int, work: int = 0) -> Iterator[tuple[slice, Problem]]:
    """Rows at a time: bounds the memory, and keeps every matrix product on one thread.

    `work` is the most multiplications that a product takes a row, but for those that scale.
    """
    step = max(16, SINGLE_THREADED // max(work, members * (len(problem.scaling) + 1)))
    count = len(problem.target)
    if count <= step:
        yield slice(None), problem
        return
    for start in range(0, count, step):
        rows = slice(start, start + step)
        yield rows, problem.rows(rows)


def shares(problem: Problem, members: Array) -> tuple[Array, Array]:
    """d log t / d coefficient (what one unit of each part is of the whole), and log t."""
    powers, count = len(problem.powers), problem.coefficients
    scaling = members[:, count + powers :] @ problem.scaling
    parts = np.empty((len(members), count, len(problem.target)))
    exponents = members[:, count : count + powers, None]
    np.multiply(exponents, problem.powers, out=parts[:, :powers])
    parts[:, powers:-1] = problem.fixed
    parts[:, :-1] += scaling[:, None]
    parts[:, -1] = 0.0
    # Relative to the largest part, so that nothing overflows however wide the factors range.
    top = parts.max(axis=1)
    parts -= top[:, None]
    np.exp(parts, out=parts)
    total = np.einsum("bk,bkn->bn", members[:, :count], parts)
    parts /= total[:, None]
    return parts, top + np.log(total)


def residuals(problem: Problem, logarithm: Array) -> tuple[Array, Array]:
    """The residual, and its derivative by log t.

    Under the relative and absolute losses that is its second derivative too; under log it is 0.
    """
    if problem.loss == "log":
        return logarithm - problem.target, np.ones(1)
    if problem.loss == "relative":
        ratio = np.exp(logarithm - problem.target)
        return ratio - 1.0, ratio
    time = np.exp(logarithm)
    return time - np.exp(problem.target), time


def _penalty(problem: Problem, members: Array, strength: Array | float) -> Array:
    size = members * members if problem.penalty == "l2" else np.abs(members)
    return np.asarray(strength * np.sum(size * problem.penalised, axis=1))


def derivatives(
    problem: Problem,
    members: Array,
    strength: Array,
    weights: Array | None = None,
    exact: bool = False,
) -> Derivatives:
    """Cost and derivatives of all members at once.

    `weights` (members by rows, each summing to 1) can hold rows out of some members.
    The curvature is Gauss and Newton's, or with `exact` the true one.
    """
    size = problem.size
    total = np.zeros((len(members), size + 1, size + 1))
    for rows, block in blocks(problem, len(members), (size + 1) ** 2):
        part = None if weights is None else weights[:, rows]
        total += _row_sums(block, members, part, exact)
    if weights is None:
        total /= len(problem.target)
    found = Derivatives(total[:, -1, -1].copy(), total[:, -1, :-1].copy(), total[:, :-1, :-1])
    _add_penalty(problem, members, strength, found)
    found.cost[~np.isfinite(found.cost)] = np.inf
    return found


def _row_sums(problem: Problem, members: Array, weights: Array | None, exact: bool) -> Array:
    """Sums over rows: curvature, gradient (last row and column), squared residual (corner)."""
    powers, count, size = len(problem.powers), problem.coefficients, problem.size
    parts, logs = shares(problem, members)
    residual, slope = residuals(problem, logs)
    # slopes[b, i] = d log t / d constant i; the last row holds the residual.
    slopes = np.empty((len(members), size + 1, len(problem.target)))
    slopes[:, :count] = parts
    by_power = slopes[:, count : count + powers]
    np.multiply(parts[:, :powers], problem.powers, out=by_power)
    by_power *= members[:, :powers, None]
    scaled = 1.0 - members[:, count - 1, None] * parts[:, -1]
    np.multiply(scaled[:, None], problem.scaling, out=slopes[:, count + powers : -1])
    slopes[:, -1] = residual
    rooted = slopes
    if weights is not None or problem.loss != "log":
        root = np.ones(1) if weights is None else np.sqrt(weights)
        rooted = slopes * (root * slope)[:, None]
        rooted[:, -1] = residual * root
    sums: Array = rooted @ rooted.transpose(0, 2, 1)
    if exact:
        bend = residual * slope if weights is None else residual * slope * weights
        sums[:, :-1, :-1] += _bending(problem, members, slopes[:, :-1], parts, bend)
    return sums


def _bending(problem: Problem, members: Array, slopes: Array, parts: Array, bend: Array) -> Array:
    """What Gauss and Newton leave out: sum over rows of bend * (second derivative of t) / t.

    Under the log loss that of log t, which is less by the product of the first derivatives.
    """
    powers, count = len(problem.powers), problem.coefficients
    bent = slopes * bend[:, None]
    sums = np.zeros((len(members), problem.size, problem.size))
    first, extrinsic = np.arange(powers), slice(count + powers, None)
    mixed = np.einsum("bkn,kn->bk", parts[:, :powers] * bend[:, None], problem.powers)
    sums[:, first, count + first] = sums[:, count + first, first] = mixed
    by_power = np.einsum("bkn,kn->bk", bent[:, count : count + powers], problem.powers)
    sums[:, count + first, count + first] = by_power
    cross = bent @ problem.scaling.T
    cross[:, count - 1] = 0.0  # nothing scales C
    sums[:, :, extrinsic] = cross
    sums[:, extrinsic, :] = cross.transpose(0, 2, 1)
    if problem.loss == "log":
        sums -= bent @ slopes.transpose(0, 2, 1)
    return sums


def _add_penalty(problem: Problem, members: Array, strength: Array, found: Derivatives) -> None:
    found.cost += _penalty(problem, members, strength)
    diagonal = np.einsum("bii->bi", found.curvature)
    weight = strength[:, None] * problem.penalised
    if problem.penalty == "l2":
        found.gradient += weight * members
        diagonal += weight
    else:  # at 0 the slope that the data leave over, if any: |x| has no derivative there
        side = np.where(members == 0.0, -np.sign(found.gradient), np.sign(members))
        slack = (members == 0.0) & (np.abs(found.gradient) <= weight / 2)
        found.gradient += np.where(slack, -found.gradient, weight / 2 * side)
