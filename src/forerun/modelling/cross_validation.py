"""What the runs say of the model's members when some are held out.

Random points are held out, and then the largest of each factor. That weighs the members inside the
measured range, picks the one that speaks outside, and chooses the formula that people read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forerun.modelling.columns import Array, Codes, Mask
from forerun.modelling.correction import Place, Seen, Smoothness, condition, hyperparameters
from forerun.modelling.expression import Phases
from forerun.modelling.phases import Data, Kind, again, single

CHECK_ROWS = 400  # runs that cross-validation is done on
NESTED_ROWS = 80  # up to which each part of the cross-validation learns its own lengths
MOST_VARIANCE = 0.25  # of a log time, that a prediction is lowered by half of
FADE = 0.3  # standard deviations outside, over which the members other than the first fade

MEMBERS: tuple[tuple[Kind, Smoothness], ...] = (
    ("single", "matern5"),
    ("simple", "matern5"),
    ("double", "matern5"),
    ("simple", "matern1"),
)
SIMPLE = 1  # its place among them
FEWEST_COUNTS = 3  # numbers of workers from which the largest can say how an exchange goes on
# What a formula must be better by, in log error, to be preferred to a simpler one
HANDICAP: dict[Kind, float] = {"single": 0.0, "simple": 0.0, "double": 0.2, "triple": 0.3}
CLEARLY = 1.5  # times as large an error on the largest runs speaks against the single term
FEWEST_TO_TELL = 20  # learnt runs, below which that is not judged
SHARPNESS = 4.0  # a member with half the error counts 16 times as much
LARGEST = 0.3  # weight of the held-out largest runs in the choice of the formula


def blend(logs: Array, weights: Array, outer: Codes, noise: Array, excess: Array) -> Array:
    """One log time of the members' (members, points), with the least expected relative error.

    All members count inside, by their weights; outside, the `outer` one of each factor that is.
    Of a log-normal time with deviation s, exp(-s^2) times the median has the least expected
    relative error; half that way is gone, for s (noise and differences between the members) is an
    estimate itself.
    """
    total = excess.sum(1)
    outside = np.clip(total / FADE, 0, 1)
    inside = weights @ logs
    beyond = (excess.T * logs[outer]).sum(0) / np.where(total > 0, total, 1.0)
    variance = weights @ noise**2 + weights @ (logs - inside) ** 2
    result: Array = (1 - outside) * inside + outside * beyond
    return result - 0.5 * np.minimum(variance, MOST_VARIANCE)


def deviation_of(logs: Array, variances: Array, weights: Array) -> Array:
    """Of the log time: what the members say of themselves, and how much they differ."""
    result: Array = np.sqrt(weights @ variances + weights @ (logs - weights @ logs) ** 2)
    return result


@dataclass(frozen=True)
class Check:
    """What one held-out part of the runs taught."""

    largest: int | None  # these were the largest of this numeric factor; None: random ones
    learnt: int  # runs that the others were
    counts: int  # distinct values of that factor that they had
    formulas: dict[Kind, Array]  # error of the log of each formula alone
    target: Array
    logs: Array  # of each member
    variances: Array
    excess: Array

    def calibration(self, weights: Array, outer: Codes, noise: Array) -> tuple[Array, Array, Array]:
        """Error and stated deviation of the whole model, and how far outside it was asked."""
        error = self.target - blend(self.logs, weights, outer, noise, self.excess)
        return error, deviation_of(self.logs, self.variances, weights), self.excess


def cross_validate(
    data: Data,
    place: Place,
    formulas: dict[Kind, Phases],
    scales: Sequence[Array],
    random: np.random.Generator,
    each: Callable[..., Any] = map,
    quick: bool = False,
) -> list[Check]:
    """Hold out random points, then the largest of each factor (unless it is to be quick).

    Of few runs each part finds its own hyperparameters; of many they would be the same anyway.
    """
    rows = np.sort(random.permutation(len(data.target))[:CHECK_ROWS])
    data, place = data.rows(rows), place.rows(rows)
    parts = [part for part in held_out_parts(place, random) if not quick or part[0] is None]

    def check(part: tuple[int | None, Mask]) -> Check:
        largest, held = part
        # a level that only the held-out runs have could not be asked for
        test = held & known_levels(place.codes, ~held)
        learn, unseen = data.rows(~held), data.rows(test)
        begin = single(learn)
        again_ = {kind: again(learn, kind, formula, begin) for kind, formula in formulas.items()}
        seen, where = Seen.of(place.rows(~held)), place.rows(test)
        logs, variances = [], []
        for (kind, smoothness), scale in zip(MEMBERS, scales, strict=True):
            left = learn.target - learn.logs(again_[kind])
            if len(left) <= NESTED_ROWS:
                scale = hyperparameters(seen.place, left, smoothness, scale)
            correction = condition(seen.place, left, smoothness, scale)
            logs.append(unseen.logs(again_[kind]) + correction.mean(seen, where))
            variances.append(correction.variance(seen, where))
        excess = seen.edges.excess(where.numbers)
        return Check(
            largest,
            len(learn.target),
            0 if largest is None else len(np.unique(seen.place.numbers[:, largest])),
            {kind: unseen.target - unseen.logs(formula) for kind, formula in again_.items()},
            unseen.target,
            np.array(logs),
            np.array(variances),
            excess,
        )

    return [one for one in each(check, parts) if len(one.target)]


def known_levels(codes: Codes, learnt: Mask) -> Mask:
    """Rows all of whose levels occur among the learnt rows."""
    known = np.ones(len(codes), bool)
    for column in codes.T:
        known &= np.isin(column, column[learnt])
    return known


def held_out_parts(place: Place, random: np.random.Generator) -> list[tuple[int | None, Mask]]:
    """Five parts of the distinct points; then, for each factor, its largest values."""
    parts: list[tuple[int | None, Mask]] = [(None, part) for part in random_parts(place, random)]
    for factor, values in enumerate(place.numbers.T):
        distinct = np.unique(values)
        if len(distinct) < 3:
            continue
        test = values > np.quantile(values, 0.7)
        if not 0 < np.count_nonzero(test) <= 0.5 * len(values):
            test = values == distinct[-1]
        if np.count_nonzero(test) <= 0.5 * len(values):
            parts.append((factor, test))
    return [(factor, test) for factor, test in parts if np.count_nonzero(~test) >= 2]


def random_parts(place: Place, random: np.random.Generator) -> list[Mask]:
    """Five parts of the distinct points, or as many as there are of them; none of one or two."""
    both = np.column_stack([place.numbers, place.codes])
    _, point = np.unique(both, axis=0, return_inverse=True)
    point = point.ravel()
    count = int(point.max()) + 1
    part_of = random.permutation(count) % 5
    return [part_of[point] == part for part in range(min(5, count))] if count > 2 else []


def weigh(checks: Sequence[Check]) -> Array:
    """Weights of the members: the smaller the error on random held-out runs, the more."""
    errors = [np.abs(c.target - c.logs) for c in checks if c.largest is None]
    if not errors:
        return np.full(len(MEMBERS), 1 / len(MEMBERS))
    mean = np.concatenate(errors, axis=1).mean(1) + 1e-3
    raw: Array = mean**-SHARPNESS
    weights: Array = raw / raw.sum()
    return weights


def furthest(checks: Sequence[Check], factors: int, exchanging: Collection[int]) -> Codes:
    """The member to trust beyond each factor's range: the single term, unless clearly beaten.

    For workers that exchange something it is the one that knows of an exchange, unless they were
    counted often enough for the largest runs to tell.
    """
    outer = np.zeros(factors, np.int64)
    outer[list(exchanging)] = SIMPLE
    for check in checks:
        if check.largest is None or check.learnt < FEWEST_TO_TELL:
            continue
        if check.largest in exchanging and check.counts < FEWEST_COUNTS:
            continue
        mean = np.abs(check.target - check.logs).mean(1) + 1e-3
        mean[1:] *= CLEARLY
        outer[check.largest] = np.argmin(mean)
    return outer


def choose(checks: Sequence[Check]) -> Kind:
    """The kind of formula with the least held-out error, simpler ones preferred."""
    if not checks:
        return "single"

    def error(kind: Kind, largest: bool) -> float:
        found = [c for c in checks if (c.largest is not None) == largest] or checks
        errors = np.concatenate([np.abs(c.formulas[kind]) for c in found])
        return float(np.log(errors.mean() + 1e-3))

    def score(kind: Kind) -> float:
        near, far = error(kind, False), error(kind, True)
        return (1 - LARGEST) * near + LARGEST * far + HANDICAP[kind]

    return min(HANDICAP, key=score)
