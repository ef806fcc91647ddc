"""What the runs of a study say of the campaigns that made them: tries, failures, seconds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import cast

from forerun.factors import Point
from forerun.measuring.design import SOURCE, Chosen, Why
from forerun.study import Run


def is_measured(run: Run) -> bool:
    """Whether a campaign made the run; others were imported."""
    return run.source.startswith(SOURCE)


def done(runs: Iterable[Run]) -> int:
    """How many measured runs ended well."""
    return sum(run.status == "ok" and is_measured(run) for run in runs)


def seconds_of(run: Run) -> float:
    """How long the whole run took, whatever its marker timed and however it ended."""
    return run.measures.get("wall_seconds", run.measures.get("seconds", 0.0))


def spent(runs: Iterable[Run]) -> float:
    """The seconds of all measured runs."""
    return sum(seconds_of(run) for run in runs if is_measured(run))


def last_failures(runs: Iterable[Run]) -> dict[Point, list[Run]]:
    """The measured runs that failed at each point since it last went well."""
    found: dict[Point, list[Run]] = {}
    for run in runs:
        if run.status == "ok":
            found.pop(run.point, None)
        elif run.status != "cancelled" and is_measured(run):
            found.setdefault(run.point, []).append(run)
    return found


def set_aside(runs: Iterable[Run], point: Point) -> int:
    """How many runs in a row were measured at a point but do not count, being disturbed."""
    count = 0
    for run in runs:
        if run.point == point:
            count = count + 1 if run.status == "cancelled" else 0
    return count


class Retries:
    """Which failed points are to be tried again.

    A failure may be an accident; running out of memory or of time is an answer. A start that was
    killed between two tries is gone on with. `again` forgets all failures that there are already.
    """

    def __init__(
        self, before: Iterable[Run], most: int, again: bool, asked: Callable[[Point], bool]
    ) -> None:
        self._most, self._asked = most, asked
        self._before = {run.uid for run in before}
        self._forgotten = self._before if again else set()

    def due(self, runs: Sequence[Run], pending: Collection[Point]) -> list[Chosen]:
        """The points to try again now, as they were chosen before."""
        return [
            Chosen(point, cast(Why, failures[-1].source.removeprefix(SOURCE)))
            for point, failures in last_failures(runs).items()
            if point not in pending and self._is_due(point, failures)
        ]

    def _is_due(self, point: Point, failures: Sequence[Run]) -> bool:
        last = failures[-1]
        if last.uid in self._before and not self._asked(point):
            return False  # of a design that is no longer wanted
        if last.uid in self._forgotten:
            return True
        return last.status == "failed" and self.tries(failures) <= self._most

    def tries(self, failures: Sequence[Run]) -> int:
        """How many of these failures count."""
        return sum(run.uid not in self._forgotten for run in failures)
