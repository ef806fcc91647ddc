"""The device at work: segments in their order, messages as soon as they can go.

Up to `in_flight` samples are in progress (scheme 3 of DeCNN): always the oldest one's first segment
that is ready is computed, then the next one's. A sample's number says which slot it has; that
sample s + in_flight begins means that s has ended everywhere, for the host begins it only then.
So a slot is free for it, and nothing needs to be acknowledged.
"""

from __future__ import annotations

import heapq
import time
from typing import TYPE_CHECKING

import numpy as np

from .faults import DeviceError
from .links import LAST_SESSION, what
from .slots import Slot
from .wire import FLOAT32, largest_part, window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .computing import Computing
    from .links import Link
    from .network import Network
    from .pace import Pace
    from .schedule import Schedule
    from .trace import Trace

_LARGE = 2**16  # bytes of a message that is not kept waiting for the next one's encoding


class Engine:
    """One device's work on all samples."""

    def __init__(
        self,
        schedule: Schedule,
        segments: Sequence[Computing],
        *,
        wire: int,
        in_flight: int,
        pace: Pace,
        samples: NDArray[np.float32] | None = None,
        trace: Trace | None = None,
        errors: dict[int, float] | None = None,
    ) -> None:
        """`samples`: the network inputs that this device has; `errors`: to be filled by message."""
        self.schedule, self.pace = schedule, pace
        messages = [one.parts for one in schedule.posts]
        messages += [one.parts for one in schedule.arrivals]
        self.scratch = np.empty(largest_part(map(schedule.sizes, messages)), np.float32)
        self.slots = [Slot(i, schedule, segments, wire, self.scratch) for i in range(in_flight)]
        self.session = 0
        self.is_ended = False
        self.finished = self.abandoned = 0  # samples
        self.waiting = self.idle = 0.0  # seconds, with and without a sample in progress
        self.trace = trace
        self.errors = errors
        self._samples = samples
        self._active: list[Slot] = []  # oldest first
        self._network: Network
        self._links: dict[int, Link] = {}
        self._targets = [
            [
                (target.peer, what(target.kind, target.message, encoder.wire))
                for target in post.targets
            ]
            for post, encoder in zip(schedule.posts, self.slots[0].posts)
        ]

    def join(self, network: Network) -> None:
        """Take part in a network."""
        self._network, self._links = network, network.links

    def run(self) -> None:
        """Work until the host says that it is over."""
        network = self._network
        while not self.is_ended:
            slot = self._next()
            if slot is None:
                self._wait()
            else:
                self._compute(slot)
                network.handle(network.wait(0))

    def stop(self) -> None:
        """End when the segment that is being computed has ended."""
        self.is_ended = True

    @property
    def is_busy(self) -> bool:
        """Whether a sample is in progress."""
        return bool(self._active)

    def opened(self, link: Link) -> None:
        """Send again what belongs to samples that may not have ended: twice does no harm."""
        for slot in sorted(self.slots, key=lambda one: one.sample):
            for number, encoder in enumerate(slot.posts):
                if slot.posted[number]:
                    for peer, first in self._targets[number]:
                        if peer == link.peer:
                            link.send(first, slot.sample, encoder.payload, slot)

    def slot_of(self, sample: int) -> Slot | None:
        """Where a sample is, which may begin with this; None if it has ended long ago."""
        slot = self.slots[(sample & 0xFFFFFFFF) % len(self.slots)]
        if slot.sample == sample:
            return slot
        session = sample >> 32
        if session < self.session or sample < slot.sample:
            return None
        if session > self.session:
            self._begin(session)
        self._open(slot, sample)
        return slot

    def written(self, slot: Slot, buffers: Sequence[int]) -> None:
        """Something was written into buffers: what was waiting for those now complete goes on."""
        writers = slot.writers
        complete = []
        for buffer in buffers:
            writers[buffer] -= 1
            if not writers[buffer]:
                complete.append(buffer)
        while complete:
            complete = self._complete(slot, complete)
        if not slot.work and slot in self._active:
            self._active.remove(slot)
            self.finished += 1

    def _begin(self, session: int) -> None:
        """A host has come anew: what an earlier one has left unfinished is nobody's."""
        if session >= LAST_SESSION:
            raise DeviceError(
                f"a sample of session {session} has come, expected one below {LAST_SESSION}"
            )
        self.session = session
        me = self._network.me
        me.session = max(me.session, session)  # a later host may be here, with no sample yet
        self.abandoned += len(self._active)
        self._active.clear()
        if self.errors is not None:
            self.errors.clear()
        for slot in self.slots:
            self._let_go(slot)
            slot.reset(-1)

    def _open(self, slot: Slot, sample: int) -> None:
        if slot in self._active:  # it has ended everywhere: nobody needs what is not done yet
            self._active.remove(slot)
            self.abandoned += 1
        self._let_go(slot)
        slot.reset(sample)
        if slot.work:
            self._active.append(slot)
            self._active.sort(key=lambda one: one.sample)

    def _let_go(self, slot: Slot) -> None:
        for link in self._links.values():
            link.keep(slot)

    def _next(self) -> Slot | None:
        for slot in self._active:
            if slot.ready:
                return slot
        return None

    def _wait(self) -> None:
        self.pace.account()
        start = time.monotonic()
        events = self._network.wait()
        waited = time.monotonic() - start
        if self._active:
            self.waiting += waited
        else:
            self.idle += waited
        self.pace.begin()
        self._network.handle(events)

    def _compute(self, slot: Slot) -> None:
        number = heapq.heappop(slot.ready)
        if self.trace is None:
            slot.compute[number]()
        else:
            self._compute_traced(slot, number)
        slot.work -= 1
        self.written(slot, self.schedule.written_by[number])

    def _compute_traced(self, slot: Slot, number: int) -> None:
        assert self.trace is not None
        self.pace.account()
        begin = time.monotonic()
        slot.compute[number]()
        self.pace.account()
        self.trace.computed(slot.sample, number, begin, time.monotonic())

    def _complete(self, slot: Slot, buffers: Sequence[int]) -> list[int]:
        """Buffers are complete: send first, then copy; the buffers that are complete by that."""
        schedule = self.schedule
        posts = []
        for buffer in buffers:
            if schedule.is_sum[buffer]:
                slot.add_up(buffer)
            for post in schedule.to_post[buffer]:
                slot.post_needs[post] -= 1
                if not slot.post_needs[post]:
                    posts.append(post)
        if posts:
            self._post(slot, posts)
        following = []
        for buffer in buffers:
            for segment in schedule.to_compute[buffer]:
                slot.segment_needs[segment] -= 1
                if not slot.segment_needs[segment]:
                    heapq.heappush(slot.ready, segment)
            for copy in schedule.to_copy[buffer]:
                pair = slot.copies[copy]
                if pair is not None:
                    np.copyto(*pair)
                target = schedule.copied_to[copy]
                slot.writers[target] -= 1
                if not slot.writers[target]:
                    following.append(target)
        return following

    def _post(self, slot: Slot, posts: Sequence[int]) -> None:
        """Encode and send. What is seen outside is seen after the paced end of making it."""
        encoded: list[int] = []
        for post in posts:
            encoder = slot.posts[post]
            encoder.encode()
            if self.errors is not None and encoder.wire != FLOAT32:
                self._note_error(slot, post)
            encoded.append(post)
            if encoder.length >= _LARGE or post == posts[-1]:
                self.pace.account()
                for one in encoded:
                    self._send(slot, one)
                encoded.clear()
        slot.work -= len(posts)

    def _send(self, slot: Slot, post: int) -> None:
        slot.posted[post] = 1
        payload = slot.posts[post].payload
        for peer, first in self._targets[post]:
            self._links[peer].send(first, slot.sample, payload, slot)
            if self.trace is not None:
                self.trace.sent(slot.sample, first >> 32, peer, len(payload))

    def _note_error(self, slot: Slot, post: int) -> None:
        assert self.errors is not None
        error, largest = slot.posts[post].error()
        relative = error / largest if largest else 0.0
        for _, first in self._targets[post]:
            message = first >> 32
            self.errors[message] = max(self.errors.get(message, 0.0), relative)

    def load(self, slot: Slot, row: int) -> None:
        """Begin with a sample that the device has already."""
        if self._samples is None:
            raise DeviceError("the host asks for a sample that the device has: it needs --inputs")
        sample = np.ascontiguousarray(self._samples[row % len(self._samples)][np.newaxis])
        for number, piece in zip(self.schedule.inputs, self.schedule.program.inputs):
            if not slot.came[number]:
                slot.came[number] = 1
                np.copyto(slot.landings[number][0], window(sample, piece.box))
                self.written(slot, self.schedule.numbers([piece.buffer]))
