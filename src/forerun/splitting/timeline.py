"""When what is done, on devices that compute and send at once: the schedule of a split, played out.

A device does one task at a time, the oldest sample's first that is ready; a message leaves when the
tasks that it waits for are done. Of a link the sender's end and the receiver's end each carry one
message after another, so that bytes over a rate are paid at both, at the same time where both are
free. This is what devices do (see `device`), with seconds that are predicted instead of taken.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

ENOUGH = 7  # samples for each one in flight, of which the first and the last are not counted


@dataclass(frozen=True, slots=True)
class Task:
    """Something that a device computes; its place in the list is its priority."""

    device: int
    seconds: float
    tasks: tuple[int, ...] = ()  # that must be done before, by their places
    messages: tuple[int, ...] = ()  # that must have come before


@dataclass(frozen=True, slots=True)
class Message:
    """Something that one device sends to another when these tasks are done."""

    source: int
    target: int
    bytes: float
    tasks: tuple[int, ...] = ()
    send: float = 0.0  # seconds of the sender to code and copy it
    receive: float = 0.0  # seconds of the receiver


@dataclass(frozen=True, slots=True)
class End:
    """A device's end of the network."""

    rate: float  # bytes a second
    latency: float = 0.0  # seconds, of a message


@dataclass(frozen=True)
class Schedule:
    """All that one sample takes."""

    tasks: tuple[Task, ...]
    messages: tuple[Message, ...]
    ends: tuple[End, ...]  # of each device

    @property
    def devices(self) -> int:
        """How many there are."""
        return len(self.ends)

    def busy(self) -> list[float]:
        """Seconds of computing a sample, of each device, coding included."""
        found = [0.0] * self.devices
        for task in self.tasks:
            found[task.device] += task.seconds
        for message in self.messages:
            found[message.source] += message.send
            found[message.target] += message.receive
        return found

    def sent(self) -> list[float]:
        """Bytes a sample that each device sends."""
        found = [0.0] * self.devices
        for message in self.messages:
            found[message.source] += message.bytes
        return found


@dataclass(frozen=True, slots=True)
class Played:
    """What came of it."""

    latency: float  # seconds from the start of a sample to its end, on average
    period: float  # seconds a sample, one after the other
    busy: tuple[float, ...] = ()  # seconds of computing a sample, of each device


Event = tuple[float, int, int, Literal["done", "sent", "came"], int, int]
Work = tuple[Literal["task", "send", "receive"], int]  # what a device does, and its number


@dataclass
class _Sample:
    """What is still missing of one sample."""

    start: float
    tasks: list[int]  # how many tasks and messages each still waits for
    sends: list[int]
    left: int  # tasks and messages that are not done


@dataclass
class _Play:
    """The devices, their links and the samples, at one moment after another."""

    schedule: Schedule
    heap: list[Event] = field(default_factory=list)
    samples: dict[int, _Sample] = field(default_factory=dict)
    number: int = 0  # of the next event: those of one moment keep their order

    def __post_init__(self) -> None:
        count = self.schedule.devices
        self.waiting: list[list[tuple[int, int, int, Work]]] = [[] for _ in range(count)]
        self.works = [False] * count
        self.out_free, self.in_free = [0.0] * count, [0.0] * count
        self.ends: list[float] = []
        self.latencies: list[float] = []
        tasks, messages = self.schedule.tasks, self.schedule.messages
        self.task_feeds: list[list[int]] = [[] for _ in tasks]  # tasks after a task
        self.task_sends: list[list[int]] = [[] for _ in tasks]  # messages after a task
        self.message_feeds: list[list[int]] = [[] for _ in messages]  # tasks after a message
        for place, task in enumerate(tasks):
            for before in task.tasks:
                self.task_feeds[before].append(place)
            for before in task.messages:
                self.message_feeds[before].append(place)
        for place, message in enumerate(messages):
            for before in message.tasks:
                self.task_sends[before].append(place)

    def begin(self, sample: int, now: float) -> None:
        """A sample is there."""
        tasks, messages = self.schedule.tasks, self.schedule.messages
        made = _Sample(
            now,
            [len(task.tasks) + len(task.messages) for task in tasks],
            [len(message.tasks) for message in messages],
            len(tasks) + len(messages),
        )
        self.samples[sample] = made
        for place, missing in enumerate(made.tasks):
            if not missing:
                self.ready(sample, ("task", place), now)
        for place, missing in enumerate(made.sends):
            if not missing:
                self.ready(sample, ("send", place), now)

    def ready(self, sample: int, work: Work, now: float) -> None:
        """Something can be done: messages first, for somebody waits for them."""
        kind, place = work
        if kind == "task":
            device, rank = self.schedule.tasks[place].device, 1
        else:
            message = self.schedule.messages[place]
            device, rank = (message.source if kind == "send" else message.target), 0
        heapq.heappush(self.waiting[device], (sample, rank, place, work))
        self.next(device, now)

    def next(self, device: int, now: float) -> None:
        """Take up what is first, if the device has nothing to do."""
        if self.works[device] or not self.waiting[device]:
            return
        sample, _, _, (kind, place) = heapq.heappop(self.waiting[device])
        self.works[device] = True
        if kind == "task":
            self.at(now + self.schedule.tasks[place].seconds, device, "done", sample, place)
        else:
            message = self.schedule.messages[place]
            seconds = message.send if kind == "send" else message.receive
            told: Literal["sent", "came"] = "sent" if kind == "send" else "came"
            self.at(now + seconds, device, told, sample, place)

    def at(
        self,
        time: float,
        device: int,
        kind: Literal["done", "sent", "came"],
        sample: int,
        place: int,
    ) -> None:
        """Note what will happen."""
        self.number += 1
        heapq.heappush(self.heap, (time, self.number, device, kind, sample, place))

    def step(self) -> tuple[float, int | None]:
        """What happens next: the time, and the sample that has come to its end by it."""
        now, _, device, kind, sample, place = heapq.heappop(self.heap)
        if device < 0:  # a message has gone over the link, and waits to be received
            self.ready(sample, ("receive", place), now)
            return now, None
        self.works[device] = False
        known = self.samples[sample]
        if kind == "done":
            known.left -= 1
            for after in self.task_sends[place]:
                known.sends[after] -= 1
                if not known.sends[after]:
                    self.ready(sample, ("send", after), now)
            self._free(sample, self.task_feeds[place], now)
        elif kind == "sent":
            self._carry(sample, place, now)
        else:
            known.left -= 1
            self._free(sample, self.message_feeds[place], now)
        self.next(device, now)
        if known.left:
            return now, None
        del self.samples[sample]
        self.latencies.append(now - known.start)
        self.ends.append(now)
        return now, sample

    def _free(self, sample: int, after: Sequence[int], now: float) -> None:
        known = self.samples[sample]
        for place in after:
            known.tasks[place] -= 1
            if not known.tasks[place]:
                self.ready(sample, ("task", place), now)

    def _carry(self, sample: int, place: int, now: float) -> None:
        """The message is on its way: when is all of it there?"""
        message = self.schedule.messages[place]
        out, into = self.schedule.ends[message.source], self.schedule.ends[message.target]
        begun = max(now, self.out_free[message.source])
        self.out_free[message.source] = begun + message.bytes / out.rate
        taken = max(begun, self.in_free[message.target])
        there = max(self.out_free[message.source], taken + message.bytes / into.rate)
        self.in_free[message.target] = there
        self.at(there + max(out.latency, into.latency), -1, "came", sample, place)


def play(schedule: Schedule, in_flight: int = 1) -> Played:
    """What a sample takes, with so many of them under way at once."""
    count = 1 if in_flight == 1 else ENOUGH * in_flight
    playing = _Play(schedule)
    for sample in range(min(in_flight, count)):
        playing.begin(sample, 0.0)
    begun = min(in_flight, count)
    if not schedule.tasks and not schedule.messages:
        return Played(0.0, 0.0, tuple(schedule.busy()))
    while playing.heap:
        now, ended = playing.step()
        if ended is not None and begun < count:
            playing.begin(begun, now)
            begun += 1
    if len(playing.ends) < count:
        raise ValueError("a schedule in which tasks wait for each other")
    busy = tuple(schedule.busy())
    if count == 1:
        return Played(playing.latencies[0], playing.ends[0], busy)
    # Neither the first, which find all devices idle, nor the last, which nobody follows.
    first, last = 2 * in_flight, count - in_flight
    period = (playing.ends[last - 1] - playing.ends[first - 1]) / (last - first)
    latencies = playing.latencies[first:last]
    return Played(sum(latencies) / len(latencies), max(period, *busy), busy)
