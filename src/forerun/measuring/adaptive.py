"""The adaptive design: after every few runs, the points that teach most for the time they take.

It begins with a few points spread over the space, and then asks the model. Each level is tried
early, for the model knows nothing of one that no run has had. One run in five is at a random point,
whatever it may teach, so that the stated error is honest.

Where only the best of some points is wanted, as before a plan, what counts is how much better the
best one is expected to become by a run: then most runs are near to what is good, and none random.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import islice

import numpy as np
import pandas as pd

from forerun.factors import Point, Space, Value
from forerun.measuring.attempts import seconds_of
from forerun.measuring.design import SOURCE, Chosen, given_up
from forerun.measuring.domain import Allowed, Domain
from forerun.measuring.refits import MakeModel, Refits
from forerun.measuring.stated import StatedError, Surprise, expected_errors, state
from forerun.modelling.columns import Array
from forerun.modelling.estimator import PerformanceModel
from forerun.modelling.steps import straight
from forerun.modelling.teaching import (
    Lesson,
    Process,
    as_table,
    expected_seconds,
    interpolated,
    predicted,
)
from forerun.study import Run

CANDIDATES = 1_000  # points considered
JUDGED = 300  # random points whose expected error is to fall
RANDOM = 5  # one run in so many is at a random point
COST = 0.5  # exponent of the seconds that a gain is divided by: with 1 too many runs are small
FEWEST_TIMED = 3  # runs before which all points are taken to cost the same
REPEATS = 3  # runs of one point, at most
OPINIONS = 2  # models whose opinion of their error counts
_VALUES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
NORMAL = _VALUES, _WEIGHTS / _WEIGHTS.sum()  # a normal variable: a sum in place of an integral
LEAST = 1e-5  # of the log target: a gain of the best point that counts
HOPELESS = 2  # points of a level that failed, with none that did not, after which it is left


class Adaptive:
    """Points chosen by what the model would learn from them for the time that they take.

    `candidates` are the only points that there are, each to be run as often as it is listed;
    otherwise they are all of the space that are `allowed`. Of `wanted` the best is to be found, and
    they may have more steps than any point of the space; with each, how often what is timed is done
    until the result is there, for a quick step with a small batch is done often.
    """

    def __init__(
        self,
        space: Space,
        seed: int = 0,
        allowed: Allowed | None = None,
        target: str = "seconds",
        candidates: Sequence[Point] | None = None,
        make_model: MakeModel | None = None,
        wanted: Mapping[Point, float] | None = None,
    ) -> None:
        self.space, self.seed, self.target = space, seed, target
        self.wanted = dict(wanted or {})
        self.domain = Domain(space, allowed, candidates)
        self._times = None if candidates is None else Counter(candidates)
        self._refits = Refits(space, target, make_model)
        self._found: dict[str, Surprise] = {}  # by the uid of the run

    @property
    def total(self) -> int | None:
        """Known only where all points are listed."""
        return None if self._times is None else self._times.total()

    def next(self, runs: Sequence[Run], pending: Sequence[Point], count: int) -> list[Chosen]:
        found: list[Chosen] = []
        while len(found) < count:
            one = self._one(runs, [*pending, *(chosen.point for chosen in found)])
            if one is None:
                break
            found.append(one)
        if not (found or runs or pending):
            self.domain.some([])  # nothing is allowed
        return found

    def model(self, runs: Sequence[Run]) -> PerformanceModel | None:
        """The model that chooses after these runs; None at the beginning."""
        return self._refits.model(runs)

    def cost_model(self, runs: Sequence[Run]) -> PerformanceModel | None:
        """The model of what a run takes by the clock; None at the beginning, or if unknown."""
        return self._refits.cost_model(runs)

    def times(self, point: Point) -> int:
        """How often the point may be run."""
        return REPEATS if self._times is None else self._times[point]

    def stated_error(self, runs: Sequence[Run]) -> StatedError | None:
        """The error to be expected at a random point of the space; None before there is a model."""
        models = self._refits.last(runs, OPINIONS)
        if not models:
            return None
        judged = as_table(_Choice(self, runs, ()).judged, self.space)
        opinions = [float(expected_errors(model, judged).mean()) for model in models]
        return state(opinions, self._surprises(runs))

    def _one(self, runs: Sequence[Run], pending: Sequence[Point]) -> Chosen | None:
        choice = _Choice(self, runs, pending)
        made = sum(run.status == "ok" for run in runs) + len(given_up(runs)) + len(pending)
        is_random = made % RANDOM == RANDOM - 1 and not self.wanted
        point = choice.random() if is_random else None
        if point is not None:
            return Chosen(point, "random")
        point = choice.teaching()
        if point is None:
            return None
        return Chosen(point, "repeat" if point in choice.tried else "chosen")

    def _surprises(self, runs: Sequence[Run]) -> list[Surprise]:
        """How far off the model of its time was at each random point."""
        random = [i for i, run in enumerate(runs) if run.source == SOURCE + "random"]
        found = [self._surprise(runs[:i], runs[i]) for i in random]
        return [one for one in found if one is not None]

    def _surprise(self, before: Sequence[Run], run: Run) -> Surprise | None:
        if run.uid not in self._found:
            model, measured = self.model(before), run.measures.get(self.target)
            if model is None or measured is None or run.status != "ok":
                return None
            table = as_table([run.point], self.space)
            off = abs(predicted(model, table)[0] / measured - 1)
            self._found[run.uid] = Surprise(float(off), float(expected_errors(model, table)[0]))
        return self._found[run.uid]


class _Choice:
    """One choice: what may be run next, and what each of it would teach."""

    def __init__(self, design: Adaptive, runs: Sequence[Run], pending: Sequence[Point]) -> None:
        self._design, self._space, self._domain = design, design.space, design.domain
        self._runs, self._pending = runs, pending
        self._model = design.model(runs)
        self.tried = Counter(run.point for run in runs if run.status != "cancelled")
        self.tried.update(pending)
        self._good = [run for run in runs if run.status == "ok"]

    @cached_property
    def judged(self) -> list[Point]:
        """Random points whose error is to fall."""
        drawn = self._domain.some(self._domain.draw(JUDGED, self._design.seed + 1))
        return self._hopeful(drawn) or drawn

    def random(self) -> Point | None:
        """The next point of a random order, whatever the model knows of it."""
        fresh = self._hopeful(self._fresh(self._design.seed))
        return fresh[0] if fresh else None

    def teaching(self) -> Point | None:
        """The point that teaches most for its cost."""
        fresh = self._hopeful(self._fresh(self._design.seed + 2))
        again = self._repeatable if self._model is not None or not fresh else []
        points = self._of_new_level(fresh) or [*fresh, *again]
        if not points:
            return None
        judged, table = as_table(self.judged, self._space), as_table(points, self._space)
        process = Process(self._space, judged, self._model)
        seen = as_table([*(run.point for run in self._good), *self._pending], self._space)
        gains = self._improvements(process, seen, table)
        if gains is None:
            gains = Lesson(process, seen, table, judged).gains()
        worth = gains / self._seconds(process, table) ** COST
        return points[int(np.argmax(worth))]

    def _improvements(
        self, process: Process, seen: pd.DataFrame, table: pd.DataFrame
    ) -> Array | None:
        """By how much the best of what is wanted is expected to get better by each point's run.

        It is the knowledge gradient of Frazier, Powell and Dayanik (2009): a run moves all that is
        expected by multiples of one normal variable. None where nothing is wanted, or moves.
        """
        repeats = self._design.wanted
        wanted = self._hopeful(list(repeats))  # what fails cannot be chosen, however quick it is
        if self._model is None or not wanted:
            return None
        line = straight(self._model, self._space, as_table(wanted, self._space))
        moves = line.of(Lesson(process, seen, table, line.points).moves())
        logs = np.log(np.maximum(line.seconds, 1e-300))
        logs += np.log([repeats[point] for point in wanted])
        gains = np.zeros(len(moves))
        for value, weight in zip(*NORMAL, strict=True):
            gains += weight * (logs.min() - (logs + value * moves).min(axis=1))
        return gains if gains.max() > LEAST else None

    def _fresh(self, seed: int) -> list[Point]:
        stream = self._domain.stream(seed)
        return list(islice((point for point in stream if point not in self.tried), CANDIDATES))

    def _hopeful(self, points: list[Point]) -> list[Point]:
        """Those that are not likely to run out of memory, or to fail for a level that they have."""
        left = [point for point in points if not self._hopeless & set(point.items())]
        boundary = None if self._model is None else self._model.boundary_
        if boundary is None or not left:
            return left
        fine = boundary.feasible(as_table(left, self._space))
        return [point for point, is_fine in zip(left, fine, strict=True) if is_fine]

    @cached_property
    def _hopeless(self) -> set[tuple[str, Value]]:
        """Levels that have failed at several points, and never done anything else."""
        # What ran out of memory did so for its size, which the model's boundary knows of.
        other = [run for run in self._runs if run.status != "out_of_memory"]
        failed = Counter(level for p in given_up(other) for level in self._levels(p))
        good = {level for run in self._good for level in self._levels(run.point)}
        return {level for level, times in failed.items() if times >= HOPELESS} - good

    def _of_new_level(self, points: list[Point]) -> list[Point]:
        """Those that have a level which no run has had."""
        had = [*(run.point for run in self._good), *self._pending]
        known = {level for point in had for level in self._levels(point)}
        return [point for point in points if not self._levels(point) <= known]

    def _levels(self, point: Point) -> set[tuple[str, Value]]:
        return {(name, point[name]) for name in self._space.categorical}

    @property
    def _repeatable(self) -> list[Point]:
        """Points that ran well and may run again."""
        over = given_up(self._runs) | set(self._pending)
        good = dict.fromkeys(run.point for run in self._good)
        return [p for p in good if p not in over and self.tried[p] < self._design.times(p)]

    def _seconds(self, process: Process, table: pd.DataFrame) -> Array:
        """What the points are expected to take."""
        model = self._design.cost_model(self._runs)
        if model is not None:
            return expected_seconds(model, table)
        timed = [(run.point, cost) for run in self._good if (cost := seconds_of(run))]
        if len(timed) < FEWEST_TIMED:
            return np.ones(len(table))
        seen = as_table([point for point, _ in timed], self._space)
        return np.exp(interpolated(process, seen, np.log([cost for _, cost in timed]), table))
