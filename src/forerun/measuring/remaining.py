"""How many runs and seconds a campaign still has before it, as far as anybody can know."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from forerun.factors import Point
from forerun.measuring.attempts import done, is_measured, seconds_of, spent
from forerun.measuring.design import Design, Planned
from forerun.measuring.progress import Limits
from forerun.study import Run

_RECENT = 10  # runs whose mean cost the next ones are taken to have, where nothing else is known


class Pace:
    """What a run costs by the clock, in units of its own time.

    It counts from the end of a start's first run: what goes before that (the warm-up, the models of
    earlier runs) goes before no other.
    """

    def __init__(self) -> None:
        self._since: float | None = None
        self._own_seconds = 0.0

    def ended(self, seconds: float, now: float) -> None:
        """Count a run that took so long."""
        if self._since is None:
            self._since = now
        else:
            self._own_seconds += seconds

    def overhead(self, slots: int, now: float) -> float:
        """At least 1, and 1 until a second run has ended."""
        if self._since is None or not self._own_seconds:
            return 1.0
        return max((now - self._since) * slots / self._own_seconds, 1.0)


@dataclass(frozen=True)
class Remaining:
    """What is left to do after these runs; `pending` points are under way, or tried again."""

    design: Design
    limits: Limits
    runs: Sequence[Run]
    pending: Sequence[Point]

    @property
    def expected(self) -> int | None:
        """How many measured runs there will be at the end; None where nobody knows."""
        known = [] if self.limits.runs is None else [self.limits.runs]
        if self._to_come is not None:
            known.append(self._done + len(self._to_come))
        elif self.design.total is not None:
            known.append(self.design.total)
        return max(min(known), self._done) if known else None

    def seconds(self, slots: int, overhead: float = 1.0) -> float | None:
        """How long the campaign will go on, by the clock; None where nobody knows.

        `overhead` is what a run costs by the clock, in units of its own time, as `Pace` tells it.
        """
        estimates = []
        if self.limits.budget_seconds is not None:
            estimates.append(max(self.limits.budget_seconds - spent(self.runs), 0.0))
        if self.expected is not None and self._measured:
            estimates.append(sum(self._costs(self.expected - self._done)))
        return min(estimates) * overhead / slots if estimates else None

    @cached_property
    def _done(self) -> int:
        return done(self.runs)

    @cached_property
    def _measured(self) -> list[Run]:
        return [run for run in self.runs if run.status == "ok" and is_measured(run)]

    @cached_property
    def _to_come(self) -> list[Point] | None:
        """The points that will be run, where the design knows them."""
        if not isinstance(self.design, Planned):
            return None
        chosen = self.design.next(self.runs, self.pending, self.design.total)
        return [*self.pending, *(one.point for one in chosen)]

    def _costs(self, count: int) -> list[float]:
        """What the next runs will take: each its point's mean, or that of all or the last runs."""
        if self._to_come is None:
            return [statistics.fmean(map(seconds_of, self._measured[-_RECENT:]))] * count
        usual = [statistics.fmean(map(seconds_of, self._measured))]
        by_point: dict[Point, list[float]] = {}
        for run in self._measured:
            by_point.setdefault(run.point, []).append(seconds_of(run))
        return [statistics.fmean(by_point.get(point, usual)) for point in self._to_come[:count]]
