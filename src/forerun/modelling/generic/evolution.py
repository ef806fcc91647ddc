"""The search for the constants of the generic expression: a small differential evolution.

Its members are improved together by damped Gauss-Newton steps with exact derivatives, so that a
handful of them and a few generations do the work of thousands of blind trials. The same problem and
seed give the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forerun.modelling.generic.cost import Array, Derivatives, Problem, derivatives

AGREEMENT = 0.02  # members whose costs differ by less are near the same optimum
SMALL_STEP = 1e-8  # an improvement of the cost by less than this share is none
PATIENCE = 4  # steps without gain until a member counts as arrived; one that was taken counts twice
SLOWEST_SHRINK = 0.1  # early on a coefficient falls at most tenfold a step: at 0 all is forgotten


@dataclass(frozen=True)
class Settings:
    """How hard to search. The defaults are ample: see `benchmarks/fit_speed.py`."""

    population: int | None = None  # by default it grows with the number of powers in the sum
    generations: int = 4
    improve_steps: int = 14
    finalists: int = 4  # members that are walked all the way to their optima
    polish_steps: int = 60
    search_rows: int = 2000  # a longer table is searched on a sample, then finished on all rows


def search(problem: Problem, strength: float, seed: int, settings: Settings) -> tuple[Array, float]:
    """The constants of least cost, and that cost."""
    few = sample(problem, settings.search_rows, seed)
    members = _evolve(few, strength, np.random.default_rng(seed), settings)
    members, cost = improve(few, members, strength, settings.polish_steps, exact=True)
    winner = np.argmin(cost)
    member, least = members[winner], cost[winner]
    if few is not problem:
        (member,), (least,) = improve(
            problem, member[None], strength, settings.polish_steps, exact=True
        )
    return member, float(least)


def sample(problem: Problem, rows: int, seed: int) -> Problem:
    """At most so many rows of the problem, in their order."""
    count = len(problem.target)
    if count <= rows:
        return problem
    chosen = np.random.default_rng(seed).choice(count, rows, replace=False)
    return problem.rows(np.sort(chosen))


def _evolve(
    problem: Problem, strength: float, draw: np.random.Generator, settings: Settings
) -> Array:
    """The best few members, close to their optima, best first."""
    size = settings.population or 12 + 6 * len(problem.powers)
    members = _first_generation(problem, size, draw)
    members, cost = improve(problem, members, strength, settings.improve_steps, early=5)
    for _ in range(settings.generations):
        order = np.argsort(cost, kind="stable")
        members, cost = members[order], cost[order]
        if cost[size // 2] <= cost[0] * (1 + AGREEMENT):
            break
        trial = _trials(problem, members, draw)
        trial, found = improve(problem, trial, strength, settings.improve_steps, early=5)
        better = found < cost
        members, cost = np.where(better[:, None], trial, members), np.where(better, found, cost)
    return members[np.argsort(cost, kind="stable")[: settings.finalists]]


def _first_generation(problem: Problem, size: int, draw: np.random.Generator) -> Array:
    """Exponents spread evenly over half the box; one member stays at the start."""
    searched = problem.searched
    width = (problem.upper - problem.lower)[searched]
    # Latin hypercube: each exponent has one member in each of `size` equal slices.
    slices = draw.permuted(np.tile(np.arange(size), (len(searched), 1)), axis=1).T
    place = (slices + draw.uniform(size=slices.shape)) / size - 0.5
    members = np.tile(problem.start, (size, 1))
    members[1:, searched] += place[1:] * width / 2
    return np.clip(members, problem.lower, problem.upper)


def _trials(problem: Problem, members: Array, draw: np.random.Generator) -> Array:
    """One trial a member: rand-to-best mutation and binomial crossover of the exponents.

    Everything else starts afresh: what can be solved for is not searched.
    """
    size = len(members)
    genes = members[:, problem.searched]
    one, two, three = draw.permuted(np.tile(np.arange(size), (size, 1)), axis=1)[:, :3].T
    factor = draw.uniform(0.5, 1.0, (size, 1))
    mutant = genes[one] + factor * (genes[0] - genes[one]) + factor * (genes[two] - genes[three])
    trial = np.tile(problem.start, (size, 1))
    trial[:, problem.searched] = np.where(draw.uniform(size=genes.shape) < 0.7, mutant, genes)
    return np.clip(trial, problem.lower, problem.upper)


def improve(
    problem: Problem,
    members: Array,
    strength: Array | float,
    steps: int,
    *,
    exact: bool = False,
    early: int = 0,
    weights: Array | None = None,
) -> tuple[Array, Array]:
    """Every member, walked downhill within the box by damped steps, and its cost.

    A step that does not lower a member's cost is not taken, and the member's damping grows.
    """
    strength = np.broadcast_to(np.asarray(strength, dtype=float), len(members))
    with np.errstate(all="ignore"):
        here = derivatives(problem, members, strength, weights, exact)
        damping = np.full(len(members), 0.1)
        idle = np.zeros(len(members), dtype=int)
        for step in range(steps):
            shrink = SLOWEST_SHRINK if step < early else 0.0
            trial = _step(problem, members, here, damping, shrink)
            there = derivatives(problem, trial, strength, weights, exact)
            better = there.cost < here.cost
            gain = here.cost - there.cost > SMALL_STEP * here.cost
            idle = np.where(gain, 0, idle + np.where(better, 2, 1))
            members = np.where(better[:, None], trial, members)
            here = _choose(better, there, here)
            damping *= np.where(better, 0.3, 4.0)
            if idle.min() >= PATIENCE:
                break
    return members, here.cost


def _choose(which: NDArray[np.bool_], one: Derivatives, other: Derivatives) -> Derivatives:
    return Derivatives(
        np.where(which, one.cost, other.cost),
        np.where(which[:, None], one.gradient, other.gradient),
        np.where(which[:, None, None], one.curvature, other.curvature),
    )


def _step(
    problem: Problem, members: Array, at: Derivatives, damping: Array, shrink: float
) -> Array:
    """A damped Newton step in the constants that are not held at a bound."""
    held = (members <= problem.lower) & (at.gradient > 0)
    held |= (members >= problem.upper) & (at.gradient < 0)
    if problem.penalty == "l1":  # the penalty holds an exponent at 0 where the data pull less
        held |= (members == 0.0) & (at.gradient == 0.0)
    free = ~held
    matrix = at.curvature * (free[:, :, None] & free[:, None, :])
    diagonal = np.einsum("bii->bi", matrix)
    diagonal += np.where(free, np.abs(diagonal) * damping[:, None] + 1e-12, 1.0)
    trial = members - _solve(matrix, at.gradient * free)
    count = problem.coefficients
    if shrink:
        np.maximum(trial[:, :count], shrink * members[:, :count], out=trial[:, :count])
    if problem.penalty == "l1":  # an exponent that would change its sign stops at 0
        side = np.where(members == 0.0, -at.gradient, members)[:, count:]
        trial[:, count:][trial[:, count:] * side < 0] = 0.0
    return np.clip(trial, problem.lower, problem.upper)


def _solve(matrix: Array, right: Array) -> Array:
    try:
        return np.asarray(np.linalg.solve(matrix, right[:, :, None])[:, :, 0], dtype=np.float64)
    except (
        np.linalg.LinAlgError
    ):  # singular to the last bit: stay here, and damp the next step more
        return np.zeros_like(right)
