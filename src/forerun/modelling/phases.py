"""Fitting sums of product terms: one term, a few free ones, or simple ones from a grid.

A single term is a robust ridge regression on logarithms. Free terms are found from several starts.
Simple terms have exponents from a short list (0, 1/2, 1 and the like) and coefficients that are
not negative, solved for at once: nature likes them, and they extrapolate well.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.optimize import nnls

from forerun.modelling.columns import Array, Codes, Mask
from forerun.modelling.expression import (
    Design,
    Phases,
    evidence,
    log_sum,
    pooled_levels,
    prior,
    solve,
    spread_of,
    tail_weights,
)

Kind = Literal["single", "simple", "double", "triple"]

FEW_RUNS = 2  # a constant, with fewer of which free terms fit anything
LEAST_SHARE = 0.01  # of the time, on average, that a simple term carries
MOST_PRODUCTS = 800  # candidate simple terms
SIMPLE_ROWS = 3_000  # runs that they are chosen on
FEWEST_TO_TURN = 4  # distinct values of a number, below which a turn is not looked for
MUCH_CLOSER = 0.5
LARGEST_LOG = 150.0  # the square of a ratio of two such numbers is still a float


@dataclass(frozen=True)
class Data:
    """What a fit sees: the design, its rows, and the centred log of the target."""

    design: Design
    phi: Array
    codes: Codes
    target: Array

    def rows(self, keep: Any) -> Data:
        return Data(self.design, self.phi[keep], self.codes[keep], self.target[keep])

    @cached_property
    def free(self) -> Array:
        """What terms with free exponents see: no exchange."""
        free = self.phi.copy()
        free[:, self.design.exchanges] = 0.0
        return free

    def logs(self, formula: Phases) -> Array:
        return formula.log(self.design, self.phi, self.codes)


def again(data: Data, kind: Kind, formula: Phases, begin: Single) -> Phases:
    """The same kind of formula fitted to other runs, whose single term is `begin`.

    Free terms start from the given ones.
    """
    if kind == "single":
        return begin.formula
    if kind == "simple":
        return simple(data, begin.formula)
    if len(data.target) < FEW_RUNS * formula.theta.size:  # the given terms know the other runs
        return several(data, len(formula.theta), 0, begin)
    theta, outer = formula.theta[None], begin.formula.outer  # levels from these runs alone
    for _ in range(2 if outer else 1):
        target = data.target - Phases(theta[0], outer).shared(data.design, data.codes)
        residual = target - log_sum(data.phi, theta[0])[0]
        noise = spread_of(residual)
        mean, precision = prior(len(formula.theta), data.design.units, noise, begin.scale)
        weights = tail_weights(residual, noise)
        theta, _ = solve(data.free, target, weights[None], theta, mean, precision, 15)
        outer = fit_levels(data, theta[0], outer)
    return Phases(theta[0], outer)


@dataclass(frozen=True)
class Single:
    """One product term, the spread of what it leaves, and the scale of its constants."""

    formula: Phases
    noise: float
    scale: float


def single(data: Data, rounds: int = 3) -> Single:
    """One product term, robustly."""
    units = data.design.units
    theta = np.zeros((1, 1, data.design.width))
    weights = np.ones_like(data.target)
    outer = no_levels(data)
    for _ in range(rounds):
        target = data.target - Phases(theta[0], outer).shared(data.design, data.codes)
        scale, noise = evidence(data.free, target, weights, units)
        scale *= max(len(target) / data.design.width, 1.0)  # many runs need no holding back
        mean, precision = prior(1, units, noise, scale)
        theta, _ = solve(data.free, target, weights[None], theta, mean, precision, 3)
        outer = fit_levels(data, theta[0], outer)
        residual = data.target - Phases(theta[0], outer).log(data.design, data.phi, data.codes)
        weights = tail_weights(residual, noise)
    return Single(Phases(theta[0], outer), noise, scale)


def several(data: Data, terms: int, seed: int, begin: Single) -> Phases:
    """`terms` free product terms, the best of several starts around the single term."""
    random = np.random.default_rng(seed)
    noise, outer = begin.noise, begin.formula.outer
    mean, precision = prior(terms, data.design.units, noise, begin.scale)
    starts = np.repeat(begin.formula.theta[None], 8, axis=0).repeat(terms, axis=1)
    starts[:, :, 0] -= np.log(terms)
    starts += random.normal(0, 0.5, starts.shape)
    starts[:, :, data.design.exchanges] = 0.0
    target = data.target - begin.formula.shared(data.design, data.codes)
    few = random.permutation(len(target))[:400]
    many, _ = solve(
        data.free[few], target[few], np.ones((8, len(few))), starts, mean, precision, 40
    )
    full = np.ones((3, len(target)))
    costs = [
        float(
            ((target - log_sum(data.phi, one)[0]) ** 2).sum()
            + (precision * (one - mean) ** 2).sum()
        )
        for one in many
    ]
    theta = many[np.argsort(costs)[:3]]
    theta, cost = solve(data.free, target, full, theta, mean, precision, 40)
    theta = theta[[int(np.argmin(cost))]]
    for _ in range(2):
        residual = target - log_sum(data.phi, theta[0])[0]
        weights = tail_weights(residual, max(spread_of(residual), noise / 4))
        theta, _ = solve(data.free, target, weights[None], theta, mean, precision, 10)
        outer = fit_levels(data, theta[0], outer)
        target = data.target - Phases(theta[0], outer).shared(data.design, data.codes)
    return Phases(theta[0], outer)


def simple(data: Data, begin: Phases, most: int = 6) -> Phases:
    """A few terms with simple exponents; levels multiply all of them alike."""
    if len(data.target) > SIMPLE_ROWS:
        data = data.rows(np.random.default_rng(0).permutation(len(data.target))[:SIMPLE_ROWS])
    powers = data.phi[:, data.design.powers]
    both = np.hstack([powers, data.phi[:, data.design.exchanges]])
    grid = products(begin.theta[0, data.design.powers], data.design.exchanging)
    candidates = np.exp(np.clip(both @ grid.T, -LARGEST_LOG, LARGEST_LOG))
    through_one = (grid[:, powers.shape[1] :] * grid[:, data.design.exchanging] > 0).any(1)
    least = np.where(through_one, 5 * LEAST_SHARE, LEAST_SHARE)  # it runs away if it is not there
    levels = begin.theta[0].copy()
    levels[: powers.shape[1] + 1] = 0.0
    outer = begin.outer
    inner = data.phi @ levels
    weights = np.ones_like(data.target)
    chosen = np.ones(len(grid), bool)
    for round_ in range(5):
        shared = Phases(levels[None], outer).shared(data.design, data.codes)
        wanted = np.exp(np.clip(data.target - inner - shared, -LARGEST_LOG, LARGEST_LOG))
        coefficients = np.zeros(len(grid))
        scaled = candidates[:, chosen] * (np.sqrt(weights) / wanted)[:, None]
        size = np.sqrt((scaled**2).sum(0)) + 1e-300
        solution, _ = nnls(scaled / size, np.sqrt(weights), maxiter=30 * scaled.shape[1])
        coefficients[chosen] = solution / size
        total = np.maximum(candidates @ coefficients, 1e-200)
        residual = data.target - np.log(total) - shared
        levels = inner_levels(data, residual, levels)
        inner = data.phi @ levels
        outer = fit_residual_levels(data, residual - inner + shared, outer)
        residual = residual - inner
        weights = tail_weights(residual, spread_of(residual))
        if round_ >= 1:  # then keep the terms that carry most of the time
            share = (candidates * coefficients / total[:, None]).mean(0)
            chosen = share >= np.maximum(least, np.sort(share)[-min(most, len(share))])
    kept = np.flatnonzero(coefficients > 0)
    theta = np.repeat(levels[None], len(kept), axis=0)
    theta[:, 0] = np.log(coefficients[kept])
    theta[:, data.design.powers] = grid[kept, : powers.shape[1]]
    theta[:, data.design.exchanges] = grid[kept, powers.shape[1] :]
    return Phases(theta, outer)


Choice = tuple[float, float]  # an exponent, and that of the exchange, of one factor in one term


def products(slopes: Array, exchanging: Sequence[int] = ()) -> Array:
    """Exponents of the candidate terms, then those of the exchanges, one row a term.

    They go along the way that the single term says time goes. Workers that exchange something save
    time only by sharing the work, and cost time by the exchange alone.
    """
    choices = [
        _with_exchange(slope) if place in exchanging else _powers(slope)
        for place, slope in enumerate(slopes)
    ]
    if not choices:
        return np.zeros((1, 0))
    while np.prod([len(c) for c in choices]) > MOST_PRODUCTS:
        # the weakest factor that still has most choices gets two; then none
        sizes = [len(c) for c in choices]
        weakest = min(
            (i for i in range(len(choices)) if sizes[i] == max(sizes)), key=lambda i: abs(slopes[i])
        )
        one = choices[weakest]
        choices[weakest] = [one[0], one[-1]] if len(one) > 2 else [(float(slopes[weakest]), 0.0)]
    rows = [
        [power for power, _ in terms] + [terms[place][1] for place in exchanging]
        for terms in itertools.product(*choices)
    ]
    return np.array(rows)


def _powers(slope: float) -> list[Choice]:
    if abs(slope) > 1.3:
        steps: tuple[float, ...] = (0.0, 1.0, 2.0)
    elif abs(slope) < 0.05:
        steps = (0.0, 1.0)
    else:
        steps = (0.0, 0.5, 1.0)
    return [(float(np.sign(slope) or 1.0) * step, 0.0) for step in steps]


def _with_exchange(slope: float) -> list[Choice]:
    """Nothing, a share of the work, or an exchange: all pass on to one another, or to one."""
    shared = _powers(min(slope, -0.05)) if slope < 0.05 else [(0.0, 0.0)]
    return [*shared, (1.0, 1.0), (0.0, 1.0)]


def turns(data: Data, one: Phases, several_: Phases) -> Mask:
    """For each number: whether its largest values go against the single term, as several terms say.

    Such as the workers of a job whose communication outgrows what they save. The several terms
    have to be much closer to the times of these runs.
    """
    off, off_ = data.target - data.logs(one), data.target - data.logs(several_)
    shares = log_sum(data.phi, several_.theta)[1]
    numbers, powers = data.phi[:, data.design.powers], data.design.powers
    found = np.zeros(numbers.shape[1], bool)
    for place, values in enumerate(numbers.T):
        distinct = np.unique(values)
        top = values >= distinct[-max(len(distinct) // 4, 1)]
        slope, slope_ = one.theta[0, powers][place], several_.theta[:, powers][:, place]
        against = float((shares[top] @ slope_).mean()) * slope < 0
        closer = np.abs(off_[top]).mean() < MUCH_CLOSER * np.abs(off[top]).mean()
        found[place] = len(distinct) >= FEWEST_TO_TURN and against and closer
    return found


def no_levels(data: Data) -> tuple[Array, ...]:
    """Shared levels that change nothing."""
    return tuple(
        np.zeros(len(data.design.columns.levels[place].levels)) for place in data.design.outer
    )


def fit_levels(data: Data, theta: Array, outer: tuple[Array, ...]) -> tuple[Array, ...]:
    """The shared levels of large categories, given the terms."""
    return fit_residual_levels(data, data.target - log_sum(data.phi, theta)[0], outer)


def fit_residual_levels(
    data: Data, residual: Array, outer: tuple[Array, ...], rounds: int = 3
) -> tuple[Array, ...]:
    """The shared levels of large categories, one category after the other."""
    effects = [one.copy() for one in outer]
    if not effects:
        return outer
    rest = residual - Phases(np.zeros((1, 1)), tuple(effects)).shared(data.design, data.codes)
    for _ in range(rounds if len(effects) > 1 else 1):
        for number, place in enumerate(data.design.outer):
            codes = data.codes[:, place]
            rest = rest + effects[number][codes]
            effects[number] = pooled_levels(rest, codes, len(effects[number]))
            rest = rest - effects[number][codes]
    return tuple(effects)


def inner_levels(data: Data, residual: Array, levels: Array) -> Array:
    """The small categories' levels, as multipliers that all simple terms share."""
    first = data.design.powers.stop
    updated = levels.copy()
    for place in data.design.inner:
        last = first + len(data.design.columns.levels[place].levels)
        hot = data.phi[:, first:last]
        rest = residual - data.phi @ updated + hot @ updated[first:last]
        updated[first:last] = pooled_levels(rest, data.codes[:, place], last - first)
        first = last
    return updated
