"""The default model: a readable formula, and a smooth correction that does not extrapolate.

Inside the measured range the prediction is the weighted geometric mean of four members, each a
formula with its own correction. Outside it is one member alone, by default that of a single term:
where several terms add up, the fastest growing one takes over outside, with an exponent learnt
where it was minor. Only if the largest runs, held out, clearly say so is another one taken.

The formula that people read is chosen by cross-validation that also holds out the largest runs,
and has to earn its terms. Errors on held-out runs also set the width of the intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from forerun.modelling.columns import Array, Codes, Columns
from forerun.modelling.correction import Correction, Place, Seen, condition, hyperparameters
from forerun.modelling.cross_validation import (
    MEMBERS,
    blend,
    choose,
    cross_validate,
    deviation_of,
    furthest,
    weigh,
)
from forerun.modelling.exchange import with_exchange
from forerun.modelling.expression import Design, Phases
from forerun.modelling.intervals import GROWTH, Intervals
from forerun.modelling.phases import Data, Kind, several, simple, single, turns
from forerun.modelling.terms import tidy

FORMULA_ROWS = 20_000  # runs that a formula is fitted to; more would not change its digits
CORRECTION_ROWS = 1_500  # runs that the correction remembers
SCALE_ROWS = 600  # runs that its lengths are learnt from
CHUNK = 4_096  # points predicted at a time, so that memory stays bounded


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
    table: pd.DataFrame,
    target: Array,
    seed: int = 0,
    workers: int = 1,
    quick: bool = False,
    counted: Collection[str] = (),
) -> AutoModel:
    """Fit the default model; a quick fit does not learn from the largest runs how to go on.

    `counted` names the factors that count workers.
    """
    columns = Columns.measured(table)
    logs = np.log(target)
    centre = float(logs.mean())
    random = np.random.default_rng(seed)
    order = random.permutation(len(logs))
    rows = np.sort(order[:FORMULA_ROWS])
    some = table.iloc[rows]
    numbers, codes = columns.numbers(some), columns.codes(some)
    columns = with_exchange(columns, numbers, codes, logs[rows] - centre, counted)
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
    weights = weigh(checks)
    outer = furthest(checks, len(columns.numeric), design.exchanging)
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
    begin = single(data)
    rest: dict[Kind, Callable[[], Phases]] = {
        "simple": lambda: simple(data, begin.formula),
        "double": lambda: several(data, 2, seed, begin),
        "triple": lambda: several(data, 3, seed, begin),
    }
    found = each(lambda kind: rest[kind](), rest)
    return {"single": begin.formula, **dict(zip(rest, found, strict=True))}


def place_of(columns: Columns, numbers: Array, codes: Codes) -> Place:
    """Numbers in standard deviations; a linear factor's already are."""
    spreads = np.array([c.spread if c.kind == "power" else 1.0 for c in columns.numeric])
    return Place(numbers / spreads, codes)


def noise_of(members: Sequence[Member]) -> Array:
    """Each member's deviation of a single run's log time."""
    return np.array([member.correction.noise for member in members])


def _chunked(function: Callable[[pd.DataFrame], Array], table: pd.DataFrame) -> Array:
    if len(table) <= CHUNK:
        return function(table)
    starts = range(0, len(table), CHUNK)
    return np.concatenate([function(table.iloc[start : start + CHUNK]) for start in starts])
