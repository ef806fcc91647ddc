"""How long a campaign goes on, how far it has come, and how it ended."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from forerun._values import Value
from forerun.errors import InputError
from forerun.factors import Point
from forerun.quantities import percent, seconds
from forerun.study import Run, Status

if TYPE_CHECKING:
    from forerun.measuring.runner import Task

CHECKS = 3  # random runs without which a stated error ends no campaign

Ended = Literal["target", "runs", "budget", "done", "failing", "interrupted"]


class Stated(Protocol):
    """A model's honest estimate of its own error at a random point of the space."""

    @property
    def mape(self) -> float:
        """Mean absolute percentage error, as a share: 0.1 is 10 %."""

    @property
    def runs(self) -> int:
        """How many runs at random points have checked it, each predicted before it was made."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When a campaign ends, whichever comes first; with none, when its design is done.

    Runs and seconds count from the study's beginning, earlier starts included: a campaign that is
    started again with the same limits does what is missing. Only measured runs count, not imported
    ones. The seconds are those of the timed runs, well ended or not, without warm-ups and what
    prepares and cleans up; two at a time use them up twice as fast. A run that has begun is
    finished. The target error counts once `CHECKS` random runs have checked the stated one.
    """

    target_error: float | None = None  # a share: 0.1 stops at a stated error of 10 %
    runs: int | None = None  # that ended well
    budget_seconds: float | None = None
    retries: int = 1  # of a run that failed; one out of memory or time is not tried again
    failures: int | None = 10  # points given up one after the other: it is no use going on

    @classmethod
    def usual(cls, retries: int = 1) -> Limits:
        """Of an adaptive design, where nobody says when to stop."""
        return cls(target_error=0.1, runs=60, budget_seconds=3600.0, retries=retries)

    def __post_init__(self) -> None:
        _positive("target error", self.target_error, "a share above 0, such as 0.1 for 10 %")
        _positive("runs", self.runs, "a whole number of at least 1")
        _positive("budget", self.budget_seconds, "a positive number of seconds")
        _positive("failures", self.failures, "a whole number of at least 1")
        if self.retries < 0:
            raise InputError("retries", self.retries, "a whole number of at least 0")


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a campaign stands; made whenever a run starts or ends, or a warning is due."""

    done: int  # measured runs of the study that ended well, those of earlier starts included
    expected: int | None  # what `done` will be at the end, or at most; None where nobody knows
    failed: int  # runs that did not, in this start
    seconds_spent: float  # of measured runs, those of earlier starts included
    seconds_left: float | None  # until then, by the clock; None where nobody knows
    error: Stated | None  # of the model, as it stands; None before there is one
    running: tuple[Task, ...]
    choosing: bool  # while the design works out what to run next, and nothing can start
    finished: Run | None  # the run that has just been stored, where that is the news
    warnings: tuple[str, ...]  # new ones, one line each

    def __str__(self) -> str:
        """One line for a person, such as `print` takes it."""
        of = "" if self.expected is None else f" of {self.expected}"
        told = [f"{self.done}{of} runs"]
        if self.finished is not None and self.finished.seconds is not None:
            told.append(f"the last took {seconds(self.finished.seconds)}")
        if self.error is not None:
            told.append(f"error about {percent(self.error.mape)}")
        if self.seconds_left is not None:
            told.append(f"{seconds(self.seconds_left)} left")
        return "; ".join([*told, *self.warnings])


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A point that kept failing in this start."""

    point: Point
    status: Status
    attempts: int
    reason: str


@dataclass(frozen=True, slots=True)
class Summary:
    """How a campaign ended."""

    ended: Ended
    reason: str  # the same in words, one line
    made: int  # runs that ended well, in this start
    failed: int  # runs that did not, in this start
    done: int  # measured runs of the study that ended well, in all
    seconds_spent: float  # of measured runs, in all
    elapsed: float  # seconds by the clock, of this start
    error: Stated | None
    given_up: tuple[GivenUp, ...]
    warnings: tuple[str, ...]  # all of this start


Tell = Callable[[Progress], None]  # what a campaign tells how it goes


def words_of(point: Mapping[str, Value]) -> str:
    """A point as people read it: `batch 16, activation relu`."""
    return ", ".join(f"{name} {value}" for name, value in point.items()) or "the one point"


def _positive(where: str, value: float | None, expected: str) -> None:
    if value is not None and not (math.isfinite(value) and value > 0):
        raise InputError(where, value, expected)
