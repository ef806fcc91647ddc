"""How strongly to regularise the generic expression, and how stable its constants are.

Both refit many times on parts of the rows. All refits walk downhill together, from the optimum on
all rows; a member's weights say which rows it sees, and how often.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forerun.modelling.generic.cost import Array, Loss, Penalty, Problem, logarithm, residuals
from forerun.modelling.generic.design import Design
from forerun.modelling.generic.evolution import Settings, improve, sample
from forerun.modelling.generic.expression import GenericExpression
from forerun.modelling.generic.fit import DEFAULT_STRENGTH, centred
from forerun.modelling.generic.levels import search_with_levels

STRENGTHS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
FEWEST_ROWS = 5  # cross-validation of fewer says nothing
LARGEST_SHARE = 0.25  # of the runs, held out where a factor is largest
WALK = 20  # steps downhill
TINY = 1e-12  # keeps the logarithm of an error of 0 finite


def choose_strength(
    design: Design,
    y: Array,
    *,
    loss: Loss = "log",
    penalty: Penalty = "l2",
    exponent_bound: float = 3.0,
    seed: int = 0,
    settings: Settings | None = None,
    folds: int = 5,
) -> float:
    """The strength that predicts best what was held out: random runs, and the largest ones."""
    if design.rows < FEWEST_ROWS:
        return DEFAULT_STRENGTH
    target, settings = centred(y)[1], settings or Settings()

    def pose(design: Design) -> Problem:
        return design.problem(target, loss, penalty, exponent_bound)

    design, start, _ = search_with_levels(design, pose, DEFAULT_STRENGTH, seed, settings)
    draw = np.random.default_rng(seed)
    problem = sample(pose(design), settings.search_rows, seed)
    held = np.concatenate([_random_folds(problem, folds, draw), _largest_folds(problem)])
    strengths = np.array(STRENGTHS)
    members, _ = improve(problem, np.tile(start, (len(strengths), 1)), strengths, WALK)
    members, strengths = np.repeat(members, len(held), axis=0), np.repeat(strengths, len(held))
    held = np.tile(held, (len(STRENGTHS), 1))
    learnt = ~held / np.sum(~held, axis=1, keepdims=True)
    members, _ = improve(problem, members, strengths, WALK, weights=learnt)
    with np.errstate(over="ignore"):
        error = residuals(problem, logarithm(problem, members))[0] ** 2
    by_fold = np.sum(np.where(held, error, 0.0), axis=1) / np.sum(held, axis=1)
    return _clearly_best(by_fold.reshape(len(STRENGTHS), -1))


def _clearly_best(errors: Array) -> float:
    """The strength (rows) that lowers the folds' errors (columns) most, beyond their scatter.

    The default stays where no other is better by more than the standard error of the difference.
    """
    logs = np.log(errors + TINY)
    gain = logs[STRENGTHS.index(DEFAULT_STRENGTH)] - logs
    mean, scatter = gain.mean(axis=1), gain.std(axis=1, ddof=1) / np.sqrt(gain.shape[1])
    best = int(np.argmax(np.where(mean > scatter, mean, 0.0)))
    return STRENGTHS[best] if mean[best] > scatter[best] else DEFAULT_STRENGTH


def _random_folds(problem: Problem, folds: int, draw: np.random.Generator) -> NDArray[np.bool_]:
    count = len(problem.target)
    number = draw.permutation(count) % min(folds, count)
    fold: NDArray[np.bool_] = number == np.arange(min(folds, count))[:, None]
    return fold


def _largest_folds(problem: Problem) -> NDArray[np.bool_]:
    """For each numeric factor the runs at its largest values, where two smaller values remain."""
    numeric = len(problem.searched) - len(problem.powers)
    rows = np.concatenate([problem.powers, problem.scaling[:numeric]])
    folds = [row >= _large(row) for row in rows]
    found = [fold for fold in folds if fold.any()]
    return np.reshape(np.array(found, dtype=bool), (len(found), len(problem.target)))


def _large(row: Array) -> float:
    """Where the largest values begin: a quarter of the runs if it can be, infinity if nowhere."""
    values, counts = np.unique(row, return_counts=True)
    share = counts[::-1].cumsum()[::-1] / len(row)
    if len(values) < 3:
        return np.inf
    few = values[2:][share[2:] <= LARGEST_SHARE]
    return float(few[0] if len(few) else values[-1])


def fit_resamples(
    design: Design,
    y: Array,
    *,
    loss: Loss = "log",
    penalty: Penalty = "l2",
    strength: float = DEFAULT_STRENGTH,
    exponent_bound: float = 3.0,
    seed: int = 0,
    settings: Settings | None = None,
    count: int = 50,
) -> list[GenericExpression]:
    """The expression refitted to bootstrap resamples of the runs: how stable its constants are."""
    (log_unit, target), settings = centred(y), settings or Settings()

    def pose(design: Design) -> Problem:
        return design.problem(target, loss, penalty, exponent_bound)

    design, start, _ = search_with_levels(design, pose, strength, seed, settings)
    problem = sample(pose(design), settings.search_rows, seed)
    rows = len(problem.target)
    drawn = np.random.default_rng(seed).multinomial(rows, np.full(rows, 1 / rows), count)
    weights = drawn / rows
    members, _ = improve(problem, np.tile(start, (count, 1)), strength, WALK, weights=weights)
    return [design.expression(member, log_unit) for member in members]
