"""A start that runs nothing: what a campaign would begin with, as a dry run tells it."""

from __future__ import annotations

from forerun.jobs.command import Timing
from forerun.measuring.progress import Progress
from forerun.measuring.runner import Task

FIRST = 5  # tasks that are noted


class Rehearsal:
    """A runner that notes the first tasks, and has them all cancelled.

    It takes them at once, so that the campaign asks of each whether it would be made.
    """

    def __init__(self, at_a_time: int) -> None:
        self.slots = FIRST
        self.tasks: list[Task] = []
        self._at_a_time, self._told = at_a_time, 0

    def start(self, task: Task) -> None:
        self.tasks.append(task)

    def finished(self, timeout: float) -> list[tuple[Task, Timing]]:
        del timeout  # nothing takes any time
        new, self._told = self.tasks[self._told :], len(self.tasks)
        return [(task, Timing("cancelled")) for task in new]

    def seconds_left(self, progress: Progress) -> float | None:
        """How long the campaign would go on with as many runs at a time as it really has."""
        left = progress.seconds_left
        return None if left is None else left * self.slots / self._at_a_time

    def host_of(self, task: Task) -> str:
        del task
        return ""

    def cancel_all(self) -> None:
        """There is nothing under way."""

    def hurry(self) -> None:
        """There is nothing to wait for."""

    def close(self) -> None:
        """There is nothing to let go of."""
