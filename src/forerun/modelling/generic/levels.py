"""Categories with many levels: each level's constant is solved for on its own rows.

Given everything else, the cost is a sum over levels, so thousands of them take one pass over the
rows. Solving them and walking the other constants downhill take turns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from forerun.modelling.generic.cost import Array, Penalty, Problem, blocks, residuals, shares
from forerun.modelling.generic.design import LARGEST, LEVEL_BOUND, SMALLEST, Design, Wide
from forerun.modelling.generic.evolution import Settings, improve, search

MOST_ROUNDS, FEWEST_ROUNDS = 30, 4
ROWS_TO_VISIT = 5_000_000  # over all rounds, once there are more than the fewest
WORTH_ANOTHER = 1e-5  # share of the cost that a round must win
STEPS_A_ROUND = 4


def search_with_levels(
    design: Design,
    pose: Callable[[Design], Problem],
    strength: float,
    seed: int,
    settings: Settings,
) -> tuple[Design, Array, float]:
    """As `evolution.search`; the design comes back too, with the effects of its wide categories.

    `pose` makes the problem of a design.
    """
    if not design.wide:
        return design, *search(pose(design), strength, seed, settings)
    design = _first_effects(design, pose(design).target, strength)
    member, cost = search(pose(design), strength, seed, settings)
    rounds = max(FEWEST_ROUNDS, min(MOST_ROUNDS, ROWS_TO_VISIT // design.rows))
    for _ in range(rounds):
        design, member = design.stretched(member)
        for number in range(len(design.wide)):
            design = _solved(design, number, pose(design), member, strength)
        members, costs = improve(pose(design), member[None], strength, STEPS_A_ROUND)
        member, last, cost = members[0], cost, float(costs[0])
        if cost > last * (1 - WORTH_ANOTHER):
            break
    return *design.stretched(member), cost


def _first_effects(design: Design, log_time: Array, strength: float) -> Design:
    """Shrunken means of what a log-log straight line and the other categories leave over."""
    numeric = [*design.powers, *design.numeric]
    line = np.concatenate([np.ones((1, design.rows)), *(block.rows for block in numeric)])
    square = np.einsum("in,jn->ij", line, line) + 1e-6 * design.rows * np.eye(len(line))
    effects = [np.zeros(len(wide.effects)) for wide in design.wide]
    straight = np.zeros(design.rows)
    for _ in range(3):
        offset = sum(e[wide.codes] for e, wide in zip(effects, design.wide, strict=True))
        slopes = np.linalg.solve(square, np.einsum("in,n->i", line, log_time - offset))
        straight = np.einsum("i,in->n", slopes, line)
        for number, wide in enumerate(design.wide):
            others = offset - effects[number][wide.codes]
            mean = _shrunken_means(wide, log_time - straight - others, strength)
            offset = others + mean[wide.codes]
            effects[number] = mean
    sums = len(design.powers) + len(design.fixed) + sum(w.intrinsic for w in design.wide) + 1
    filled = [
        np.clip(np.exp(e) / sums, SMALLEST, LARGEST) if wide.intrinsic
        else np.clip(e - e[0], -LEVEL_BOUND, LEVEL_BOUND)
        for e, wide in zip(effects, design.wide, strict=True)
    ]  # fmt: skip
    wides = zip(design.wide, filled, strict=True)
    return replace(design, wide=tuple(replace(wide, effects=e) for wide, e in wides))


def _shrunken_means(wide: Wide, residual: Array, strength: float) -> Array:
    """The optimum under the log loss and the L2 penalty if the time had no other parts."""
    count = len(wide.effects)
    rows = np.bincount(wide.codes, minlength=count) + strength / count * len(wide.codes)
    means: Array = np.bincount(wide.codes, residual, count) / rows
    return means


def _solved(
    design: Design, number: int, problem: Problem, member: Array, strength: float
) -> Design:
    """The design with better effects of one wide category, each level's never worse than before."""
    wide = design.wide[number]
    place = _place(design, number, problem)
    damping = np.full(len(wide.effects), 1e-2)
    cost, slope, curvature = _by_level(wide, problem, member, place, strength)
    for _ in range(STEPS_A_ROUND):
        step = slope / (curvature * (1 + damping) + 1e-300)
        trial = replace(wide, effects=_within(wide, wide.effects - step, problem.penalty))
        moved = _with_row(problem, place, wide.intrinsic, trial.row)
        new = _by_level(trial, moved, member, place, strength)
        better = new[0] < cost
        wide = replace(wide, effects=np.where(better, trial.effects, wide.effects))
        problem = _with_row(problem, place, wide.intrinsic, wide.row)
        cost, slope, curvature = (
            np.where(better, now, before)
            for now, before in zip(new, (cost, slope, curvature), strict=True)
        )
        damping *= np.where(better, 0.3, 4.0)
    wides = (*design.wide[:number], wide, *design.wide[number + 1 :])
    return replace(design, wide=wides)


def _place(design: Design, number: int, problem: Problem) -> int:
    """The row of `fixed` or `scaling` that stands for a wide category; they come last, in order."""
    inside = design.wide[number].intrinsic
    later = sum(wide.intrinsic is inside for wide in design.wide[number:])
    return len(problem.fixed if inside else problem.scaling) - later


def _with_row(problem: Problem, place: int, intrinsic: bool, row: Array) -> Problem:
    rows = (problem.fixed if intrinsic else problem.scaling).copy()
    rows[place] = row
    return replace(problem, fixed=rows) if intrinsic else replace(problem, scaling=rows)


def _within(wide: Wide, effects: Array, penalty: Penalty) -> Array:
    if wide.intrinsic:
        return np.clip(effects, SMALLEST, LARGEST)
    if penalty == "l1":  # a level that would change its sign stops at 0
        effects = np.where(effects * wide.effects < 0, 0.0, effects)
    effects = np.clip(effects, -LEVEL_BOUND, LEVEL_BOUND)
    effects[0] = 0.0  # the first level is 1
    return effects


def _by_level(
    wide: Wide, problem: Problem, member: Array, place: int, strength: float
) -> tuple[Array, Array, Array]:
    """Each level's own share of the cost, half its slope, half its curvature (Gauss-Newton)."""
    count, rows = len(wide.effects), len(problem.target)
    sums = [np.zeros(count) for _ in range(3)]
    for block_rows, block in blocks(problem, 1):
        codes: NDArray[np.int64] = wide.codes[block_rows]
        parts, logs = shares(block, member[None])
        residual, slope = residuals(block, logs)
        if wide.intrinsic:
            by_effect = parts[0, len(block.powers) + place] / wide.effects[codes]
        else:
            by_effect = 1.0 - member[problem.coefficients - 1] * parts[0, -1]
        lean = slope[0] * by_effect
        for total, values in zip(
            sums, (residual[0] ** 2, residual[0] * lean, lean**2), strict=True
        ):
            total += np.bincount(codes, values, count)
    own = _penalty(wide, problem.penalty, strength)
    cost, gradient, curvature = (t / rows + p for t, p in zip(sums, own, strict=True))
    return cost, gradient, curvature


def _penalty(wide: Wide, penalty: Penalty, strength: float) -> tuple[Array, Array, Array]:
    """Of each level, half its slope and curvature; a category counts by the mean of its levels."""
    effects, weight = wide.effects, strength / len(wide.effects)
    if penalty == "l2":
        return weight * effects**2, weight * effects, np.full(len(effects), weight)
    return weight * np.abs(effects), weight / 2 * np.sign(effects), np.zeros(len(effects))
