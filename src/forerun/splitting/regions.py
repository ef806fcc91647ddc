"""Parts of a tensor: which of its channels, and which of its rows.

A set of places along an axis is the set bits of one whole number. So unions, intersections and
differences of any sets (intervals, every fourth channel, both edges) cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from forerun.errors import InputError

Places = NDArray[np.int64]
Box = tuple[range, range]  # channels and rows, in a buffer's own coordinates


@dataclass(frozen=True, slots=True)
class Indices:
    """A set of places along one axis."""

    mask: int = 0

    @classmethod
    def span(cls, start: int, stop: int) -> Indices:
        """All places from start to before stop."""
        return cls(((1 << (stop - start)) - 1) << start) if stop > start else cls()

    @classmethod
    def of(cls, places: Iterable[int] | Places) -> Indices:
        """The set of these places."""
        found = np.fromiter(places, np.int64) if not isinstance(places, np.ndarray) else places
        if not found.size:
            return cls()
        bits = np.zeros(int(found.max()) + 1, np.uint8)
        bits[found] = 1
        return cls(int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little"))

    def __and__(self, other: Indices) -> Indices:
        return Indices(self.mask & other.mask)

    def __or__(self, other: Indices) -> Indices:
        return Indices(self.mask | other.mask)

    def __sub__(self, other: Indices) -> Indices:
        return Indices(self.mask & ~other.mask)

    def __le__(self, other: Indices) -> bool:
        return not self.mask & ~other.mask

    def __bool__(self) -> bool:
        return bool(self.mask)

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __iter__(self) -> Iterator[int]:
        return iter(self.array.tolist())

    def __repr__(self) -> str:
        return f"Indices({', '.join(f'{r.start}:{r.stop}' for r in self.intervals())})"

    @property
    def start(self) -> int:
        """The first place."""
        return (self.mask & -self.mask).bit_length() - 1

    @property
    def stop(self) -> int:
        """One past the last place."""
        return self.mask.bit_length()

    @property
    def array(self) -> Places:
        """The places, ascending."""
        return _places(self.mask)

    def hull(self) -> Indices:
        """All places from the first to the last."""
        return Indices.span(self.start, self.stop) if self else self

    def ranks(self, inner: Indices) -> Places:
        """Where the places of a subset stand among one's own."""
        return np.searchsorted(self.array, inner.array)

    def intervals(self) -> list[range]:
        """The set as intervals, as few as there can be."""
        return [
            range(int(part[0]), int(part[-1]) + 1)
            for part in np.split(self.array, np.flatnonzero(np.diff(self.array) > 1) + 1)
            if part.size
        ]


@lru_cache(maxsize=4096)
def _places(mask: int) -> Places:
    content = np.frombuffer(mask.to_bytes(-(-mask.bit_length() // 8), "little"), np.uint8)
    found = np.flatnonzero(np.unpackbits(content, bitorder="little"))
    found.flags.writeable = False  # it is kept
    return found


@dataclass(frozen=True, slots=True)
class Region:
    """Some channels of a tensor, in some of its rows; columns are never cut."""

    channels: Indices
    rows: Indices

    def __bool__(self) -> bool:
        return bool(self.channels) and bool(self.rows)

    def __and__(self, other: Region) -> Region:
        both = Region(self.channels & other.channels, self.rows & other.rows)
        return both if both else EMPTY

    def __or__(self, other: Region) -> Region:
        """The smallest region that holds both."""
        if not self:
            return other
        return Region(self.channels | other.channels, self.rows | other.rows) if other else self

    def __le__(self, other: Region) -> bool:
        return not self or (self.channels <= other.channels and self.rows <= other.rows)

    @property
    def size(self) -> int:
        """How many pairs of a channel and a row."""
        return len(self.channels) * len(self.rows)

    def minus(self, other: Region) -> list[Region]:
        """What the other does not hold, as regions that do not overlap."""
        both = self & other
        if not both:
            return [self] if self else []
        parts = [
            Region(self.channels - both.channels, self.rows),
            Region(both.channels, self.rows - both.rows),
        ]
        return [part for part in parts if part]


EMPTY = Region(Indices(), Indices())


def whole(channels: int, rows: int) -> Region:
    """All of a tensor."""
    return Region(Indices.span(0, channels), Indices.span(0, rows))


def hull(regions: Iterable[Region]) -> Region:
    """The smallest region that holds all of them."""
    found = EMPTY
    for region in regions:
        found = found | region
    return found


def shared_out(total: int, shares: Sequence[float]) -> list[Indices]:
    """The places of an axis, an interval for each share; nobody is off by one place or more."""
    ends = [int(total * part / sum(shares) + 0.5) for part in accumulate(shares)]
    ends[-1] = total  # whatever rounding made of the last sum
    return [Indices.span(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def checked_shares(shares: Sequence[float]) -> tuple[float, ...]:
    """Shares as numbers; InputError unless there is one, and all are above 0."""
    found = tuple(float(share) for share in shares)
    if not found:
        raise InputError("devices", 0, "at least 1")
    for number, share in enumerate(found):
        if not 0 < share < float("inf"):
            raise InputError(f"share of device {number}", share, "a number above 0")
    return found


def runs(first: Places, second: Places, unit: bool = False) -> list[tuple[range, range]]:
    """Pairs of places as slices, ascending with a step for each side, or without gaps."""
    found: list[tuple[range, range]] = []
    a, b = first.tolist(), second.tolist()
    steps = list(zip(np.diff(first).tolist(), np.diff(second).tolist(), strict=True))
    at = 0
    while at < len(a):
        end = at + 1
        if end < len(a) and (steps[at] == (1, 1) if unit else min(steps[at]) > 0):
            while end < len(a) and steps[end - 1] == steps[at]:
                end += 1
        found.append((_slice(a[at:end]), _slice(b[at:end])))
        at = end
    return found


def _slice(places: list[int]) -> range:
    step = places[1] - places[0] if len(places) > 1 else 1
    return range(places[0], places[-1] + 1, step)


def as_json(box: Box) -> list[list[int]]:
    """A box as a package has it: [[channel start, stop, step], [row start, stop]]."""
    channels, rows = box
    return [[channels.start, channels.stop, channels.step], [rows.start, rows.stop]]
