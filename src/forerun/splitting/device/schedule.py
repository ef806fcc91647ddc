"""What follows from what: when a buffer is complete, what can be sent, copied and computed.

A buffer is complete when all who write it have written; then whatever was waiting for it alone may
go on. Nothing else decides when anything happens, so exchanges overlap with whatever does not need
them. All of it is numbers and lists, made once from the program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .links import DATA, OUTPUT
from .wire import Size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .program import Part, Program


class Target(NamedTuple):
    """Where a frame goes, and as what."""

    peer: int
    kind: int
    message: int


class Post(NamedTuple):
    """Parts that are put together once, and sent to one device or several, or to the host."""

    parts: tuple[Part, ...]
    targets: tuple[Target, ...]


class Arrival(NamedTuple):
    """A message that comes from a device, or a piece of the network's input from the host."""

    peer: int
    message: int
    parts: tuple[Part, ...]


class Schedule:
    """The program, with buffers by number: lists that are indexed by it say what waits for it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.names = [*program.buffers]
        self._number = {name: i for i, name in enumerate(self.names)}
        self.posts = _posts(program)
        self.arrivals = [Arrival(one.peer, one.number, one.parts) for one in program.receives]
        self.inputs = range(len(self.arrivals), len(self.arrivals) + len(program.inputs))
        self.arrivals += [
            Arrival(program.devices, i, (program.part_of(piece),))
            for i, piece in enumerate(program.inputs)
        ]
        self.writers = [0] * len(self.names)
        self.post_needs = [len({part.buffer for part in post.parts}) for post in self.posts]
        self.segment_needs = [len(set(one.inputs.values())) for one in program.segments]
        self.written_by = [self.numbers(one.outputs.values()) for one in program.segments]
        self.to_post = self._waiting([{part.buffer for part in one.parts} for one in self.posts])
        self.to_compute = self._waiting([{*one.inputs.values()} for one in program.segments])
        self.to_copy = self._waiting([{one.source.buffer} for one in program.copies])
        self.copied_to = self.numbers(one.target.buffer for one in program.copies)
        self.is_sum = [False] * len(self.names)
        self._count_writers()
        self.work = len(program.segments) + len(self.posts)  # for each sample

    def numbers(self, names: Iterable[str]) -> list[int]:
        """The numbers of some buffers."""
        return [self._number[name] for name in names]

    def size(self, part: Part) -> Size:
        """Of a part, as it goes over the wire."""
        return Size(part.box.channels, part.box.rows * self.program.buffers[part.buffer].columns)

    def sizes(self, parts: Iterable[Part]) -> list[Size]:
        return [self.size(part) for part in parts]

    def shared(self) -> set[str]:
        """Buffers of which several posts to devices take channels, most of them, and all rows."""
        takes: dict[str, list[int]] = {}
        others: set[str] = set()
        for post in self.posts:
            part = post.parts[0]
            rows = self.program.buffers[part.buffer].rows
            if len(post.parts) == 1 and post.targets[0].kind == DATA and part.box.rows == rows:
                takes.setdefault(part.buffer, []).append(part.box.channels)
            else:
                others.update(one.buffer for one in post.parts)
        return {
            name
            for name, taken in takes.items()
            if name not in others
            and len(taken) > 1
            and 2 * sum(taken) > self.program.buffers[name].channels
        }

    def _waiting(self, needs: list[set[str]]) -> list[list[int]]:
        """For each buffer, those of some things that need it, in their order."""
        found: list[list[int]] = [[] for _ in self.names]
        for i, names in enumerate(needs):
            for number in self.numbers(names):
                found[number].append(i)
        return found

    def _count_writers(self) -> None:
        for numbers in self.written_by:
            for number in numbers:
                self.writers[number] += 1
        parts = [one.target for one in self.program.copies]
        parts += [part for one in self.arrivals for part in one.parts]
        for part in parts:
            number = self._number[part.buffer]
            self.writers[number] += 1
            self.is_sum[number] = part.add


def _posts(program: Program) -> list[Post]:
    """What is sent. The same parts for several devices are put together once."""
    found: dict[tuple[int, tuple[Part, ...]], list[Target]] = {}
    for one in program.sends:
        target = Target(one.peer, DATA, one.number)
        found.setdefault((DATA, one.parts), []).append(target)
    for i, piece in enumerate(program.outputs):
        target = Target(program.devices, OUTPUT, i)
        found.setdefault((OUTPUT, (program.part_of(piece),)), []).append(target)
    return [Post(parts, tuple(targets)) for (_, parts), targets in found.items()]
