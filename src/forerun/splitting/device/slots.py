"""The memory of one sample in progress, with everything in it that can be prepared.

A device has as many slots as samples in flight. What was sent stays in a slot until its next
sample, so that it can be sent again when a connection breaks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .links import OUTPUT
from .wire import FLOAT32, Coded, Encoder, Size, fitting, window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .computing import Computing
    from .program import Part
    from .schedule import Schedule
    from .wire import Floats


class Slot:
    """Buffers, and how far the sample in them has come."""

    def __init__(
        self,
        number: int,
        schedule: Schedule,
        segments: Sequence[Computing],
        wire: int,
        scratch: Floats,
    ) -> None:
        self.number, self._schedule = number, schedule
        shapes = schedule.program.buffers
        self.arrays = {name: np.zeros(one.dims, np.float32) for name, one in shapes.items()}
        self.compute = [segment.bound(self.arrays) for segment in segments]
        self.posts = self._encoders(wire, scratch)
        # What is added up waits for all of it, and is added in the program's order: the same
        # numbers, added in the order in which they happen to come, would not give the same bits.
        self.sums: list[list[tuple[Floats, Floats]]] = [[] for _ in schedule.names]
        self.copies = [self._copy(one.source, one.target) for one in schedule.program.copies]
        self.landings = [
            [self._landing(part) for part in arrival.parts] for arrival in schedule.arrivals
        ]
        self.sample = -1
        self.reset(-1)

    def _encoders(self, wire: int, scratch: Floats) -> list[Encoder]:
        """Of all posts. What several take of one buffer in fewer bytes the first one codes."""
        found: list[Encoder] = []
        coded: dict[str, Coded] = {}
        shared = self._schedule.shared()
        for post in self._schedule.posts:
            sources = [self._view(part) for part in post.parts]
            used = FLOAT32 if post.targets[0].kind == OUTPUT else wire
            used = fitting([Size(*one.shape) for one in sources], used)
            part = post.parts[0]
            if used == FLOAT32 or part.buffer not in shared:
                found.append(Encoder(sources, used, scratch))
                continue
            is_first = part.buffer not in coded
            if is_first:
                array = self.arrays[part.buffer]
                coded[part.buffer] = Coded(array.reshape(array.shape[1], -1), used)
            whole = coded[part.buffer]
            found.append(Encoder(sources, used, scratch, (whole, part.box.selection)))
            if is_first:
                found[-1].code_first(whole)
        return found

    def reset(self, sample: int) -> None:
        """Begin with a sample: nothing of it is here yet."""
        schedule = self._schedule
        self.sample = sample
        self.came = bytearray(len(schedule.arrivals))
        self.posted = bytearray(len(schedule.posts))
        self.writers = schedule.writers.copy()
        self.post_needs = schedule.post_needs.copy()
        self.segment_needs = schedule.segment_needs.copy()
        self.ready = [i for i, count in enumerate(schedule.segment_needs) if not count]
        self.work = schedule.work

    def add_up(self, buffer: int) -> None:
        """All that is to be added into a buffer has come."""
        parts = self.sums[buffer]
        whole = self.arrays[self._schedule.names[buffer]]
        if parts[0][0].size == whole.size:
            np.copyto(*parts[0])
            parts = parts[1:]
        else:
            whole.fill(0)
        for target, source in parts:
            np.add(target, source, out=target)

    def _view(self, part: Part) -> Floats:
        """A part of a buffer: its channels times the values of each."""
        return window(self.arrays[part.buffer], part.box)

    def _copy(self, source: Part, target: Part) -> tuple[Floats, Floats] | None:
        """Where to copy to and from; None where it is added up later."""
        pair = (self._view(target), self._view(source))
        if not target.add:
            return pair
        self.sums[self._schedule.numbers([target.buffer])[0]].append(pair)
        return None

    def _landing(self, part: Part) -> Floats:
        """Where a part that arrives is written to."""
        view = self._view(part)
        if not part.add:
            return view
        aside = np.zeros(view.shape, np.float32)
        self.sums[self._schedule.numbers([part.buffer])[0]].append((view, aside))
        return aside
