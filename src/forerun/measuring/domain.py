"""The points that may be run: of a space, those that a constraint allows, or a list of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice

from forerun.errors import InputError
from forerun.factors import Point, Space

Allowed = Callable[[Point], bool]

MOST_LISTED = 20_000  # points of a space up to which all of them are gone through
TRIES = 20_000  # points refused one after another, after which there are taken to be no more
MOST_TRIES = 200_000  # points of a huge space that are looked at in all


class Domain:
    """The points that may be run, in any order asked for.

    `listed` are all that there are, where they were written down; otherwise they are the grid of
    the space, which may be far too large to go through.
    """

    def __init__(
        self,
        space: Space,
        allowed: Allowed | None = None,
        listed: Sequence[Point] | None = None,
    ) -> None:
        self.space = space
        self._allowed = allowed
        self._listed = None if listed is None else list(dict.fromkeys(listed))
        self._streams: dict[int, tuple[list[Point], Iterator[Point]]] = {}

    @property
    def size(self) -> int:
        """How many points there are, before any constraint."""
        return self.space.size if self._listed is None else len(self._listed)

    def allows(self, point: Point) -> bool:
        return self._allowed is None or self._allowed(point)

    def at(self, row: Sequence[int]) -> Point:
        """The point that has the value of this number for each factor."""
        factors = self.space.values()
        return Point({f.name: f.values[place] for f, place in zip(factors, row, strict=True)})

    def row(self, point: Point) -> tuple[int, ...]:
        """The number of each of the point's values, as `at` takes them."""
        return tuple(f.values.index(point[f.name]) for f in self.space.values())

    def stream(self, seed: int) -> Iterator[Point]:
        """The points in a random order, each once: the same ones, however many are taken."""
        allowed = (point for point in self._shuffled(seed) if self.allows(point))
        taken, rest = self._streams.setdefault(seed, ([], allowed))  # drawn once, then remembered
        for index in count():
            if index == len(taken):
                taken.extend(islice(rest, 1))
            if index == len(taken):
                return
            yield taken[index]

    def draw(self, most: int, seed: int) -> list[Point]:
        """Different random points: so many, or all that there are."""
        return list(islice(self.stream(seed), most))

    def every(self, most: int = MOST_LISTED) -> list[Point]:
        """All points, in the order of the grid or the list; InputError if they are too many."""
        if self.size > most:
            raise InputError(
                "grid", f"{self.size} points", f"up to {most}: fewer values, or another design"
            )
        points = self.space.grid() if self._listed is None else self._listed
        return self.some([point for point in points if self.allows(point)])

    def some(self, points: list[Point]) -> list[Point]:
        """The points; InputError if there are none."""
        if not points:
            raise InputError("constraint", "no point that it allows", "at least one")
        return points

    def _shuffled(self, seed: int) -> Iterator[Point]:
        drawn = random.Random(seed)
        if self._listed is not None:
            yield from drawn.sample(self._listed, len(self._listed))
        elif self.size <= MOST_LISTED:
            yield from map(self.space.nth, drawn.sample(range(self.size), self.size))
        else:
            yield from self._endless(drawn)

    def _endless(self, drawn: random.Random) -> Iterator[Point]:
        """Random points until there seem to be no new ones that are allowed."""
        seen: set[int] = set()
        refused = 0
        for _ in range(MOST_TRIES):
            index = drawn.randrange(self.size)
            refused += 1
            if index not in seen and self.allows(point := self.space.nth(index)):
                refused = 0
                yield point
            seen.add(index)
            if refused == TRIES:
                return
