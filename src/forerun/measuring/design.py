"""Which points to run, in which order.

A design is asked again and again what comes next, and answers from the runs that there are: so a
campaign that was stopped goes on where it was. Repeats of a point are spread over the campaign,
each round of all points in a random order of its own, so that a slow minute of the machine does
not look like an effect.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

from forerun._values import one_of
from forerun.errors import InputError
from forerun.factors import Point, Space
from forerun.measuring.domain import Allowed, Domain
from forerun.study import Run

Why = Literal["chosen", "random", "repeat"]

NAMES = ("adaptive", "grid", "latin", "d-optimal", "random")
SOURCE = "measure "  # what a run's source begins with, before why it was made
POINTS = 40  # of a design that has to be told how many, where it was not
MOST_RUNS = 1_000_000  # of a design with all its repeats
MIXES = 50  # Latin hypercubes, of which the one whose points lie farthest apart is taken


@dataclass(frozen=True, slots=True)
class Chosen:
    """A point to run next, and why."""

    point: Point
    why: Why

    @property
    def source(self) -> str:
        """What the run says of where it comes from, so that a later start knows."""
        return SOURCE + self.why


class Design(Protocol):
    """What to run next, given what was run.

    The answer depends on the runs and the pending points alone, whoever asks and how often.
    """

    @property
    def total(self) -> int | None:
        """Runs in all, where that is known beforehand."""

    def next(self, runs: Sequence[Run], pending: Sequence[Point], count: int) -> list[Chosen]:
        """Up to `count` points to run next; none when the design is done.

        `runs` are all of the study, in their order, and `pending` are being run. A point whose
        last run failed is not offered: trying again is for the campaign to decide.
        """


def given_up(runs: Iterable[Run]) -> set[Point]:
    """Points whose last run did not end well; one that was cancelled says nothing."""
    last = {run.point: run.status for run in runs if run.status != "cancelled"}
    return {point for point, status in last.items() if status != "ok"}


class Planned:
    """A design whose points are known from the start, each run `repeats` times."""

    first: Why = "chosen"

    def __init__(self, repeats: int, seed: int) -> None:
        if repeats < 1:
            raise InputError("repeats", repeats, "a whole number of at least 1")
        self.repeats, self.seed = repeats, seed

    @cached_property
    def points(self) -> list[Point]:
        """The points, each once."""
        raise NotImplementedError

    @property
    def total(self) -> int:
        return self.repeats * len(self.points)

    def next(self, runs: Sequence[Run], pending: Sequence[Point], count: int) -> list[Chosen]:
        made = Counter(run.point for run in runs if run.status == "ok")
        made.update(pending)
        over, found = given_up(runs), list[Chosen]()
        for visit, point in self._order:
            if len(found) >= count:
                break
            if visit > made[point] and point not in over:
                found.append(Chosen(point, self.first if visit == 1 else "repeat"))
        return found

    @cached_property
    def _order(self) -> list[tuple[int, Point]]:
        """Round after round of all points; none comes twice in a row where that can be."""
        if self.total > MOST_RUNS:
            found = f"{self.repeats} of {len(self.points)} points"
            raise InputError("repeats", found, f"at most {MOST_RUNS} runs in all")
        drawn, order = random.Random(self.seed), list[tuple[int, Point]]()
        for visit in range(1, self.repeats + 1):
            mixed = drawn.sample(self.points, len(self.points))
            if order and order[-1][1] == mixed[0]:
                mixed.append(mixed.pop(0))
            order += [(visit, point) for point in mixed]
        return order


class Listed(Planned):
    """The points that somebody wrote down."""

    def __init__(self, points: Iterable[Point], repeats: int = 1, seed: int = 0) -> None:
        super().__init__(repeats, seed)
        self._points = list(dict.fromkeys(points))

    @cached_property
    def points(self) -> list[Point]:
        return self._points


class Grid(Planned):
    """Every point of the space."""

    def __init__(
        self, space: Space, repeats: int = 1, seed: int = 0, allowed: Allowed | None = None
    ) -> None:
        super().__init__(repeats, seed)
        self.domain = Domain(space, allowed)

    @cached_property
    def points(self) -> list[Point]:
        return self.domain.every()


class Drawn(Planned):
    """A design of so many points out of all that there are."""

    def __init__(
        self,
        space: Space,
        points: int = POINTS,
        repeats: int = 1,
        seed: int = 0,
        allowed: Allowed | None = None,
    ) -> None:
        super().__init__(repeats, seed)
        if points < 1:
            raise InputError("points", points, "a whole number of at least 1")
        self.count, self.domain = points, Domain(space, allowed)


class Random(Drawn):
    """Points drawn at random, each as likely as any other."""

    first: Why = "random"

    @cached_property
    def points(self) -> list[Point]:
        return self.domain.some(self.domain.draw(self.count, self.seed))


class LatinHypercube(Drawn):
    """Points that use the values of each factor evenly.

    Where a constraint forbids some of them, values are swapped between points; a point that no
    swap makes allowed is replaced by a random one.
    """

    @cached_property
    def points(self) -> list[Point]:
        every = self.domain.draw(self.count + 1, self.seed)
        if len(every) <= self.count:  # all that there are
            return self.domain.some(every)
        drawn = random.Random(self.seed)
        mixes = [self._mixed(drawn) for _ in range(MIXES)]
        rows = max(mixes, key=self._nearest)
        return self._distinct([self.domain.at(row) for row in self._swapped(rows, drawn)], every)

    def _mixed(self, drawn: random.Random) -> list[list[int]]:
        """Row by row, the number of each factor's value."""
        sizes = [len(factor.values) for factor in self.domain.space.values()]
        columns = []
        for size in sizes:
            strata = drawn.sample(range(self.count), self.count)
            shift = drawn.random()
            columns.append(
                [min(int((one + shift) * size / self.count), size - 1) for one in strata]
            )
        return [list(row) for row in zip(*columns, strict=True)]

    def _nearest(self, rows: list[list[int]]) -> float:
        """The least distance between two of some points, each factor's range being 1."""
        ranges = [max(len(factor.values) - 1, 1) for factor in self.domain.space.values()]
        some = rows[:POINTS]
        return min(
            (
                sum(abs(x - y) / width for x, y, width in zip(a, b, ranges, strict=True))
                for place, a in enumerate(some)
                for b in some[:place]
            ),
            default=0.0,
        )

    def _swapped(self, rows: list[list[int]], drawn: random.Random) -> list[list[int]]:
        """The rows after swaps of single values that leave fewer forbidden ones."""
        fine = [self._fine(row) for row in rows]
        for place in (place for place, is_fine in enumerate(fine) if not is_fine):
            for _ in range(20 * len(rows[place])):
                other, factor = drawn.randrange(len(rows)), drawn.randrange(len(rows[place]))
                one, two = list(rows[place]), list(rows[other])
                one[factor], two[factor] = two[factor], one[factor]
                if other != place and self._fine(one) and (self._fine(two) or not fine[other]):
                    rows[place], rows[other] = one, two
                    fine[place], fine[other] = True, self._fine(two)
                    break
        return rows

    def _distinct(self, points: list[Point], instead: list[Point]) -> list[Point]:
        """The allowed ones, each once; random ones in place of the rest."""
        kept = [point for point in points if self.domain.allows(point)]
        return list(dict.fromkeys([*kept, *instead]))[: self.count]

    def _fine(self, row: list[int]) -> bool:
        return self.domain.allows(self.domain.at(row))


def design_by_name(
    name: str,
    space: Space,
    *,
    points: int | None = None,
    repeats: int = 1,
    seed: int = 0,
    allowed: Allowed | None = None,
    target: str = "seconds",
) -> Design:
    """The design of that name. An adaptive one goes on until it is stopped, or has run all."""
    one_of("design", name, NAMES)
    if name == "adaptive":
        from forerun.measuring.adaptive import Adaptive

        return Adaptive(space, seed=seed, allowed=allowed, target=target)
    if name == "grid":
        return Grid(space, repeats, seed, allowed)
    count = POINTS if points is None else points
    if name == "latin":
        return LatinHypercube(space, count, repeats, seed, allowed)
    if name == "random":
        return Random(space, count, repeats, seed, allowed)
    from forerun.measuring.optimal import DOptimal

    return DOptimal(space, count, repeats, seed, allowed)
