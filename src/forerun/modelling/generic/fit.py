"""Fit the generic expression to a table of runs."""

from __future__ import annotations

import numpy as np

from forerun.modelling.generic.cost import Array, Loss, Penalty, Problem, costs
from forerun.modelling.generic.design import Design
from forerun.modelling.generic.evolution import Settings
from forerun.modelling.generic.expression import GenericExpression
from forerun.modelling.generic.levels import search_with_levels

DEFAULT_STRENGTH = 1e-3
SMALL_CONSTANT = 1e-2  # only constants smaller than this (scaled) are tried without
NEGLIGIBLE = 1e-6  # a constant that changes the cost by less than this share of it is left out


def fit_generic(
    design: Design,
    y: Array,
    *,
    loss: Loss = "log",
    penalty: Penalty = "l2",
    strength: float = DEFAULT_STRENGTH,
    exponent_bound: float = 3.0,
    seed: int = 0,
    settings: Settings | None = None,
) -> tuple[GenericExpression, float]:
    """The expression of least cost for the times `y`, and that cost.

    The cost is the mean squared error (of the logarithm, relative, or absolute in units of the
    geometric mean time) plus `strength` times the L1 or L2 size of all exponents and of all
    coefficients in units of the geometric mean time.
    """
    log_unit, target = centred(y)
    settings = settings or Settings()

    def pose(design: Design) -> Problem:
        return design.problem(target, loss, penalty, exponent_bound)

    design, constants, cost = search_with_levels(design, pose, strength, seed, settings)
    constants, saved = _without_negligible(pose(design), constants, strength)
    return design.expression(constants, log_unit), cost - saved


def centred(y: Array) -> tuple[float, Array]:
    """The logarithm of the geometric mean time, and that of each time in units of it."""
    logs = np.log(np.asarray(y, dtype=float))
    log_unit = float(np.mean(logs))
    return log_unit, logs - log_unit


def _without_negligible(problem: Problem, constants: Array, strength: float) -> tuple[Array, float]:
    """Constants that carry nothing become exactly 0, so that nobody has to read them.

    The second result is what that saves.
    """
    count, powers = problem.coefficients, len(problem.powers)
    before = cost = float(costs(problem, constants[None], strength)[0])
    for place in np.argsort(np.abs(constants), kind="stable"):
        if abs(constants[place]) > SMALL_CONSTANT:
            break
        trial = constants.copy()
        trial[place] = 0.0
        if place < powers:  # without its coefficient an exponent means nothing
            trial[count + place] = 0.0
        found = float(costs(problem, trial[None], strength)[0])
        if found <= cost * (1 + NEGLIGIBLE):
            constants, cost = trial, found
    return constants, before - cost
