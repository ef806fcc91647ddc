"""Time a split in some setting: latency, throughput, bytes, memory and waiting, of every device."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from forerun.errors import InputError
from forerun.splitting.comparing import Answers, difference, same_class
from forerun.splitting.measured import DeviceShare, Measured, Timed
from forerun.splitting.on_wire import wires_of
from forerun.splitting.packages import read_packages
from forerun.splitting.running import Local
from forerun.splitting.session import Answer, Session
from forerun.splitting.split import Split

Sample = NDArray[np.float32] | Mapping[str, NDArray[np.float32]]

_USUAL = "float32"
WARM_UP = 5  # samples before those that are timed


class Devices(Protocol):
    """Whoever takes samples and gives answers: processes of this machine, or boards."""

    def run(self, samples: Iterator[Sample]) -> Iterator[Answer]:
        """Answers, in order."""

    def totals(self) -> list[dict[str, Any]]:
        """What each device has done so far."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How a split is run: what goes over the wire, how many samples at a time, and where."""

    wire: str | None = None  # None: float32, or as the devices that wait do
    in_flight: int = 1
    addresses: tuple[str, ...] = ()  # of devices that wait there; none: processes of this machine
    secret: bytes = b""
    report_error: bool = False  # devices say what their wire loses, which takes them time

    def devices(self, split: Split) -> AbstractContextManager[Devices]:
        """The devices of a split, ready."""
        if not self.addresses:
            return Local(
                split.folder,
                wire=self.wire or _USUAL,
                in_flight=self.in_flight,
                report_error=self.report_error,
            )
        return Session(split.folder, self.addresses, self.secret)

    def used_wire(self, split: Split, totals: Sequence[Mapping[str, Any]]) -> str:
        """What devices that have done so much really send each other; InputError if not as asked.

        Those that wait were started by somebody else, whom nobody has asked.
        """
        if not self.addresses:
            return self.wire or _USUAL
        used = wires_of(read_packages(split.folder).programs, totals)
        if self.wire is not None and self.wire not in used:
            expected = f"{' or '.join(used)}, as the devices were started"
            raise InputError("--wire", self.wire, expected)
        return self.wire or used[0]


@dataclass(frozen=True, slots=True)
class Reference:
    """Answers that are taken to be right, and whose they are, for whoever reads of it later."""

    whose: str
    answers: Sequence[Answers]


@dataclass(frozen=True, slots=True)
class Bench:
    """What was measured of one setting, sample by sample."""

    measured: Measured
    timed: Timed
    answers: tuple[Answers, ...]


def bench(
    split: Split,
    setting: Setting,
    samples: Sequence[Sample],
    count: int,
    reference: Reference | None = None,
    tell: Callable[[int], None] = lambda _: None,
) -> Bench:
    """Run so many samples, the given ones in turns, after a few that are not timed.

    `reference` has the right answers to `samples`, where they are known; `tell` hears how many
    answers there are. Answers are compared when all have come.
    """
    with setting.devices(split) as devices:
        for _ in devices.run(_turns(samples, WARM_UP)):
            pass
        before = devices.totals()
        wire = setting.used_wire(split, before)
        timed, answers = _timed(devices, samples, count, tell)
        after = devices.totals()
        in_flight = devices.in_flight if isinstance(devices, Session) else setting.in_flight
    spent = [_spent(a, b) for a, b in zip(before, after, strict=True)]
    p50, p99 = timed.percentiles
    measured = Measured(
        network=split.name,
        layout=split.layout,
        devices=split.devices,
        precision="int8" if split.precision == "int8" else "float32",
        wire=wire,
        in_flight=in_flight,
        samples=count,
        p50=p50,
        p99=p99,
        per_second=timed.per_second,
        where="boards" if setting.addresses else "this machine",
        host=platform.node(),
        shares=tuple(map(_with, split.shares, spent)),
    )
    return Bench(_compared(measured, answers, reference), timed, tuple(answers))


def _turns(samples: Sequence[Sample], count: int) -> Iterator[Sample]:
    return (samples[number % len(samples)] for number in range(count))


def _timed(
    devices: Devices, samples: Sequence[Sample], count: int, tell: Callable[[int], None]
) -> tuple[Timed, list[Answers]]:
    """Every sample's latency, and the time since the answer before it."""
    started = time.time()
    last = time.perf_counter()
    latencies, intervals = [], []
    answers: list[Answers] = []
    for answer in devices.run(_turns(samples, count)):
        now = time.perf_counter()
        latencies.append(answer.seconds)
        intervals.append(now - last)
        answers.append(answer.outputs)
        last = now
        tell(len(answers))
    return Timed(started, tuple(latencies), tuple(intervals)), answers


def _spent(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What a device did between two accounts of itself, a sample; its memory is the most so far."""
    samples = max(after["samples"] - before["samples"], 1)
    seconds, waiting, idle, computing = (
        after[name] - before[name]
        for name in ("seconds", "waiting_seconds", "idle_seconds", "computing_seconds")
    )
    sent = sum(after["sent_bytes"].values()) - sum(before["sent_bytes"].values())
    busy = max(seconds - idle, 1e-9)
    return {
        "sent_bytes": round(sent / samples),
        "memory_bytes": after["memory_bytes"] or None,
        "computing_seconds": max(computing, 0.0) / samples,
        "waiting": min(max(waiting / busy, 0.0), 1.0),
    }


def _with(share: DeviceShare, spent: Mapping[str, Any]) -> DeviceShare:
    return share.model_copy(update=dict(spent))


def _compared(
    measured: Measured, answers: Sequence[Answers], reference: Reference | None
) -> Measured:
    """With how far the answers are from the right ones, where those are known."""
    if reference is None:
        return measured
    right = reference.answers
    pairs = [(ours, right[n % len(right)]) for n, ours in enumerate(answers)]
    found = {
        "reference": reference.whose,
        "difference": max(difference(ours, theirs) for ours, theirs in pairs),
        "same_class": sum(same_class(ours, theirs) for ours, theirs in pairs),
    }
    return measured.model_copy(update=found)
