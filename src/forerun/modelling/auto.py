"""The default model: a readable formula, and a smooth correction that does not extrapolate.

Inside the measured range the prediction is the weighted geometric mean of four members, each a
formula with its own correction. Outside it is one member alone, by default that of a single term:
where several terms add up, the fastest growing one takes over outside, with an exponent learnt
where it was minor. Only if the largest runs, held out, clearly say so is another one taken.

The formula that people read is chosen by cross-validation that also holds out the largest runs,
and has to earn its terms. Errors on held-out runs also set the width of the intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from forerun.modelling.columns import Array, Codes, Columns, Mask
from forerun.modelling.correction import (
    Correction,
    Place,
    Seen,
    Smoothness,
    condition,
    hyperparameters,
)
from forerun.modelling.expression import Design, Phases
from forerun.modelling.intervals import GROWTH, Intervals
from forerun.modelling.phases import Data, Kind, again, several, simple, single, turns
from forerun.modelling.terms import tidy

FORMULA_ROWS = 20_000  # runs that a formula is fitted to; more would not change its digits
CORRECTION_ROWS = 1_500  # runs that the correction remembers
SCALE_ROWS = 600  # runs that its lengths are learnt from
CHECK_ROWS = 400  # runs that cross-validation is done on
NESTED_ROWS = 80  # up to which each part of the cross-validation learns its own lengths
CHUNK = 4_096  # points predicted at a time, so that memory stays bounded
MOST_VARIANCE = 0.25  # of a log time, that a prediction is lowered by half of
FADE = 0.3  # standard deviations outside, over which the members other than the first fade

MEMBERS: tuple[tuple[Kind, Smoothness], ...] = (
    ("single", "matern5"),
    ("simple", "matern5"),
    ("double", "matern5"),
    ("simple", "matern1"),
)
# What a formula must be better by, in log error, to be preferred to a simpler one
HANDICAP: dict[Kind, float] = {"single": 0.0, "simple": 0.0, "double": 0.2, "triple": 0.3}
CLEARLY = 1.5  # times as large an error on the largest runs speaks against the single term
FEWEST_TO_TELL = 20  # learnt runs, below which that is not judged
SHARPNESS = 4.0  # a member with half the error counts 16 times as much
LARGEST = 0.3  # weight of the held-out largest runs in the choice of the formula


@dataclass(frozen=True)
class Member:
    """A formula with its correction."""

    formula: Phases
    correction: Correction

    def log(self, model: AutoModel, phi: Array, place: Place) -> Array:
        formula = self.formula.log(model.design, phi, place.codes)
        return formula + self.correction.mean(model.seen, place)


@dataclass(frozen=True)
class AutoModel:
    """Everything that a fitted default model consists of."""

    columns: Columns
    centre: float  # mean log of the target; formulas are relative to it
    kind: Kind
    formula: Phases
    members: tuple[Member, ...]
    weights: Array  # of the members inside the measured range
    outer: Codes  # the member that speaks outside, for each numeric factor
    seen: Seen
    intervals: Intervals

    @cached_property
    def design(self) -> Design:
        return Design(self.columns)

    @property
    def noise(self) -> Array:
        return noise_of(self.members)

    def log_time(self, table: pd.DataFrame) -> Array:
        return _chunked(self._log_time, table)

    def log_formula(self, table: pd.DataFrame) -> Array:
        numbers, codes = self.columns.numbers(table), self.columns.codes(table)
        return self.formula.log(self.design, self.design.phi(numbers, codes), codes) + self.centre

    def log_deviation(self, table: pd.DataFrame) -> tuple[Array, Array]:
        """Standard deviation of the log time of a run, and how far outside each point lies."""
        both = _chunked(self._log_deviation, table)
        unexplored = GROWTH**2 * self.columns.unexplored(table)
        return np.sqrt(both[:, 0] ** 2 + unexplored), both[:, 1:]

    def _log_time(self, table: pd.DataFrame) -> Array:
        phi, place = self._where(table)
        logs = np.array([member.log(self, phi, place) for member in self.members])
        excess = self.seen.edges.excess(place.numbers)
        return blend(logs, self.weights, self.outer, self.noise, excess) + self.centre

    def _log_deviation(self, table: pd.DataFrame) -> Array:
        phi, place = self._where(table)
        logs = np.array([member.log(self, phi, place) for member in self.members])
        variances = [m.correction.variance(self.seen, place) for m in self.members]
        deviation = deviation_of(logs, np.array(variances), self.weights)
        return np.column_stack([deviation, self.seen.edges.excess(place.numbers)])

    def _where(self, table: pd.DataFrame) -> tuple[Array, Place]:
        numbers, codes = self.columns.numbers(table), self.columns.codes(table)
        return self.design.phi(numbers, codes), place_of(self.columns, numbers, codes)

    def to_dict(self) -> dict[str, Any]:
        return {
            "columns": self.columns.to_list(),
            "centre": self.centre,
            "kind": self.kind,
            "formula": self.formula.to_dict(),
            "members": [
                {"formula": m.formula.to_dict(), "correction": m.correction.to_dict()}
                for m in self.members
            ],
            "weights": self.weights.tolist(),
            "outer": self.outer.tolist(),
            "seen": {
                "numbers": self.seen.place.numbers.tolist(),
                "codes": self.seen.place.codes.tolist(),
            },
            "intervals": self.intervals.to_dict(),
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> AutoModel:
        columns = Columns.from_list(document["columns"])
        count = len(document["seen"]["numbers"])
        place = Place(
            np.array(document["seen"]["numbers"], float).reshape(count, len(columns.numeric)),
            np.array(document["seen"]["codes"], np.int64).reshape(count, len(columns.levels)),
        )
        members = tuple(
            Member(Phases.from_dict(m["formula"]), Correction.from_dict(m["correction"]))
            for m in document["members"]
        )
        return cls(
            columns,
            document["centre"],
            document["kind"],
            Phases.from_dict(document["formula"]),
            members,
            np.array(document["weights"], float),
            np.array(document["outer"], np.int64),
            Seen.of(place),
            Intervals.from_dict(document["intervals"]),
        )


def fit_auto(
    table: pd.DataFrame, target: Array, seed: int = 0, workers: int = 1, quick: bool = False
) -> AutoModel:
    """Fit the default model; a quick fit does not learn from the largest runs how to go on."""
    columns = Columns.measured(table)
    logs = np.log(target)
    centre = float(logs.mean())
    random = np.random.default_rng(seed)
    order = random.permutation(len(logs))
    rows = np.sort(order[:FORMULA_ROWS])
    some = table.iloc[rows]
    numbers, codes = columns.numbers(some), columns.codes(some)
    design = Design(columns)
    data = Data(design, design.phi(numbers, codes), codes, logs[rows] - centre)
    place = place_of(columns, numbers, codes)

    with ThreadPoolExecutor(workers) as pool:
        formulas = fit_formulas(data, seed, pool.map)
        kept = np.sort(random.permutation(len(rows))[:CORRECTION_ROWS])
        few = kept[random.permutation(len(kept))[:SCALE_ROWS]]
        left = {kind: data.target - data.logs(formulas[kind]) for kind, _ in MEMBERS}
        learnt = place.rows(few)
        first = hyperparameters(learnt, left[MEMBERS[0][0]][few], MEMBERS[0][1])
        rest = pool.map(
            lambda m: hyperparameters(learnt, left[m[0]][few], m[1], first), MEMBERS[1:]
        )
        scales = [first, *rest]
        seen = Seen.of(place.rows(kept))
        members = tuple(
            Member(formulas[kind], condition(seen.place, left[kind][kept], smoothness, scale))
            for (kind, smoothness), scale in zip(MEMBERS, scales, strict=True)
        )
        checks = cross_validate(data, place, formulas, scales, random, pool.map, quick)
    weights, outer = weigh(checks), furthest(checks, len(columns.numeric))
    other = 1 + int(np.argmax(weights[1:3]))  # of those with several terms
    turned = turns(data, members[0].formula, members[other].formula)
    outer = np.where(turned & (outer == 0), other, outer)
    noise = noise_of(members)
    kind = choose(checks)
    formula = tidy(formulas[kind], design)
    intervals = Intervals.calibrated(
        [c.calibration(weights, outer, noise) for c in checks], len(columns.numeric)
    )
    return AutoModel(columns, centre, kind, formula, members, weights, outer, seen, intervals)


def fit_formulas(data: Data, seed: int, each: Callable[..., Any] = map) -> dict[Kind, Phases]:
    """One formula of each kind, on the same runs."""
    begin, noise = single(data)
    rest: dict[Kind, Callable[[], Phases]] = {
        "simple": lambda: simple(data, begin),
        "double": lambda: several(data, 2, seed, begin, noise),
        "triple": lambda: several(data, 3, seed, begin, noise),
    }
    found = each(lambda kind: rest[kind](), rest)
    return {"single": begin, **dict(zip(rest, found, strict=True))}


def place_of(columns: Columns, numbers: Array, codes: Codes) -> Place:
    """Numbers in standard deviations; a linear factor's already are."""
    spreads = np.array([c.spread if c.kind == "power" else 1.0 for c in columns.numeric])
    return Place(numbers / spreads, codes)


def noise_of(members: Sequence[Member]) -> Array:
    """Each member's deviation of a single run's log time."""
    return np.array([member.correction.noise for member in members])


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
        again_ = {kind: again(learn, kind, formula) for kind, formula in formulas.items()}
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
    both = np.column_stack([place.numbers, place.codes])
    _, point = np.unique(both, axis=0, return_inverse=True)
    point = point.ravel()
    count = int(point.max()) + 1
    part_of = random.permutation(count) % 5
    parts: list[tuple[int | None, Mask]] = []
    if count > 2:
        parts = [(None, part_of[point] == part) for part in range(min(5, count))]
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


def weigh(checks: Sequence[Check]) -> Array:
    """Weights of the members: the smaller the error on random held-out runs, the more."""
    errors = [np.abs(c.target - c.logs) for c in checks if c.largest is None]
    if not errors:
        return np.full(len(MEMBERS), 1 / len(MEMBERS))
    mean = np.concatenate(errors, axis=1).mean(1) + 1e-3
    raw: Array = mean**-SHARPNESS
    weights: Array = raw / raw.sum()
    return weights


def furthest(checks: Sequence[Check], factors: int) -> Codes:
    """The member to trust beyond each factor's range: the single term, unless clearly beaten."""
    outer = np.zeros(factors, np.int64)
    for check in checks:
        if check.largest is None or check.learnt < FEWEST_TO_TELL:
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


def _chunked(function: Callable[[pd.DataFrame], Array], table: pd.DataFrame) -> Array:
    if len(table) <= CHUNK:
        return function(table)
    starts = range(0, len(table), CHUNK)
    return np.concatenate([function(table.iloc[start : start + CHUNK]) for start in starts])
