"""The host of a split: sends samples to the devices, and puts their answers together, in order.

It greets every device like any other of them, with the number after the last one's. Connections
that break are made again, and what belongs to samples that have not ended is sent again. A host
that comes later takes the devices; this one then ends, and does not take them back.
"""

from __future__ import annotations

import json
import secrets
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from forerun.errors import InputError
from forerun.splitting.device.faults import DeviceError, LinkError
from forerun.splitting.device.greeting import Identity, after
from forerun.splitting.device.links import (
    ASK,
    END,
    FAULT,
    GO,
    INPUT,
    OUTPUT,
    TOTALS,
    Expected,
    Link,
    what,
)
from forerun.splitting.device.network import Network
from forerun.splitting.device.program import Piece, Program
from forerun.splitting.device.sockets import address, written
from forerun.splitting.device.wire import (
    FLOAT32,
    WIRES,
    Decoder,
    Encoder,
    Size,
    message_bytes,
    window,
)
from forerun.splitting.packages import Floats, Numbers, Sample, as_input_error, read_packages

_LONGEST_TOTALS = 2**16  # bytes
_LONGEST_FAULT = 2**10
_LAST_WORDS = 5.0  # seconds for which the devices are listened to after they were told to end
_NUMBERS = 2**32  # of samples in a session
_MOST = 2.0**63  # of any number that a device says of itself
_AMOUNTS = (
    "device",
    "samples",
    "abandoned",
    "seconds",
    "computing_seconds",
    "paced_seconds",
    "waiting_seconds",
    "idle_seconds",
    "broken_connections",
    "memory_bytes",
)
_AMOUNTS_BY_NAME = ("sent_bytes", "sent_messages", "received_bytes")


class Answer(NamedTuple):
    """What the network says of one sample."""

    sample: int
    outputs: dict[str, Numbers]
    seconds: float  # from when the sample began to be sent until all outputs were here


class _Pending:
    """A sample that has begun and not ended."""

    def __init__(self, number: int, pieces: Mapping[tuple[int, int], Piece]) -> None:
        self.number = number
        self.sent: list[tuple[Link, int, int, memoryview | bytes]] = []
        self.wanted = dict(pieces)  # by device and output
        self.came: dict[tuple[int, int], Floats] = {}
        self.start = time.monotonic()
        self.seconds = 0.0


class Session:
    """A connection to all devices of a split."""

    def __init__(
        self,
        folder: str | Path,
        addresses: Sequence[str],
        secret: bytes,
        *,
        start_within: float = 15.0,
        timeout: float = 60.0,
        wire: str = "float32",
        alive: Callable[[int], None] | None = None,
    ) -> None:
        """`wire` is that of the network's input; `alive` raises where it knows a device to be dead.

        `start_within` and `timeout` are the seconds for which devices are waited for, at the start
        and later: when a connection breaks, and for the next output while samples are under way.
        """
        self._split = read_packages(Path(folder))
        self.devices = len(self._split.programs)
        if len(addresses) != self.devices:
            raise InputError("addresses", f"{len(addresses)} of them", f"{self.devices}, in order")
        if wire not in WIRES:
            raise InputError("wire", wire, f"one of {', '.join(WIRES)}")
        self._wire = WIRES[wire]
        self._alive = alive
        self._pending: dict[int, _Pending] = {}
        self._next = 0
        self._heard = 0.0  # when there was last something that was waited for
        self._asking = object()  # which of several runs is the last one
        self._number = -1  # of this session; what comes before it is known is an earlier one's
        self._totals: dict[int, dict[str, Any]] = {}
        self._fault: tuple[int, str] | None = None
        with as_input_error():
            links = [self._link(i, address(text)) for i, text in enumerate(addresses)]
            drawn = 1 + secrets.randbelow(2**32 - 1)
            me = Identity(self.devices, self.devices, self._split.uid, secret, 0, drawn)
            me.outdo(0)
            self._network = Network(me, links, start_within, self._opened, _tell)
            self._links = links
            try:
                self._connect()
            except BaseException:
                self._network.finish(0.0)  # devices would wait for this host for ever
                raise
        self._network.timeout = timeout
        self._begin_session(me.session)
        self.in_flight = links[0].in_flight

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def run(self, samples: Iterable[Sample]) -> Iterator[Answer]:
        """Answers, in the order of the samples; as many samples as are in flight are under way."""
        return self._stream(map(self._frames_of, samples))

    def go(self, count: int) -> Iterator[Answer]:
        """The same for samples that the devices have: only that they begin is sent."""
        return self._stream(map(self._go_frames, range(count)))

    def totals(self) -> list[dict[str, Any]]:
        """What each device has done so far."""
        self._totals.clear()
        self._heard = time.monotonic()
        with as_input_error():
            for link in self._links:
                link.send(what(ASK), 0, b"", None)
            while len(self._totals) < self.devices:
                self._step()
        return [self._totals[i] for i in range(self.devices)]

    def end(self) -> list[dict[str, Any]]:
        """Tell the devices to end; what each that answered has done."""
        self._totals.clear()
        self._network.timeout = _LAST_WORDS
        until = time.monotonic() + _LAST_WORDS
        for link in self._links:
            link.send(what(END), 0, b"", None)
        try:
            while len(self._totals) < self.devices and time.monotonic() < until:
                self._network.handle(self._network.wait(0.1))
                if not any(link.is_open for link in self._links):
                    break
        except DeviceError:
            pass  # it has ended before it could say what it has done
        self.close()
        return [self._totals[i] for i in sorted(self._totals)]

    def close(self) -> None:
        """Leave the devices, which wait for another host until their time is over."""
        self._network.finish(1.0)

    def _connect(self) -> None:
        """Be known to all devices by a session that is later than all they know of."""
        me, links = self._network.me, self._links
        self._await_devices()
        latest = max(link.session for link in links)
        if latest >= me.session:  # a device that was started anew has heard of it, from no host
            me.outdo(latest)
        # Where it is known by less, an earlier host could come again.
        while by_less := [link for link in links if link.said < me.session]:
            for link in by_less:
                link.broke(link, "it is greeted anew")
            self._await_devices()
        numbers = {link.in_flight for link in self._links}
        if len(numbers) > 1:
            found = ", ".join(str(link.in_flight) for link in self._links)
            raise InputError("samples in flight", found, "the same number on every device")

    def _await_devices(self) -> None:
        while missing := self._network.missing():
            for link in missing:
                self._check_alive(link)
            self._network.handle(self._network.wait(0.2))

    def _link(self, device: int, place: tuple[str, int]) -> Link:
        program = self._split.programs[device]
        sizes = [message_bytes([_size(program, piece)], FLOAT32) for piece in program.outputs]
        name = f"device {device} at {written(place)}"
        link = Link(device, name, place, max(_LONGEST_TOTALS, *sizes, 0))
        for i, piece in enumerate(program.outputs):
            decoder = Decoder([_size(program, piece)], FLOAT32, link.memory)
            take = partial(self._take_output, device, i, decoder)
            expected = Expected(sizes[i], sizes[i], take)
            link.expected[what(OUTPUT, i, FLOAT32)] = expected
        for kind, most, take_text in (
            (TOTALS, _LONGEST_TOTALS, self._take_totals),
            (FAULT, _LONGEST_FAULT, self._take_fault),
        ):
            link.expected[what(kind)] = Expected(0, most, partial(take_text, link))
        return link

    def _stream(self, starts: Iterator[Callable[[_Pending], None]]) -> Iterator[Answer]:
        if self._pending:  # somebody has stopped asking half-way: the devices forget it
            self._pending.clear()
            with as_input_error():
                self._begin_session(after(self._number))
        most = self.in_flight * (self.devices if self._split.is_replicated else 1)
        under_way: deque[_Pending] = deque()
        first = self._next
        mine = self._asking = object()
        ended = False
        while True:
            while not ended and len(under_way) < most:
                start = next(starts, None)
                if start is None:
                    ended = True
                else:
                    under_way.append(self._begin(start))
            if not under_way:
                return
            self._heard = time.monotonic()  # the caller may have taken long with the last answer
            with as_input_error():
                while under_way[0].wanted:
                    self._step()
            pending = under_way.popleft()
            del self._pending[pending.number]
            yield Answer(pending.number - first, self._assembled(pending), pending.seconds)
            if self._asking is not mine:  # what was under way, the devices have forgotten
                raise InputError("samples", "others that were asked since", "one run at a time")

    def _begin_session(self, number: int) -> None:
        """What the devices know of earlier samples is of an earlier session."""
        self._number, self._next = number, 0

    def _begin(self, start: Callable[[_Pending], None]) -> _Pending:
        number = self._next
        devices = self._split.turn(number)
        pieces = {
            (device, i): piece
            for device in devices
            for i, piece in enumerate(self._split.programs[device].outputs)
        }
        pending = _Pending(number, pieces)
        start(pending)
        self._next += 1
        self._pending[number] = pending
        pending.start = time.monotonic()
        for link, first, sample, payload in pending.sent:
            link.send(first, sample, payload, None)
        return pending

    def _frames_of(self, sample: Sample) -> Callable[[_Pending], None]:
        """What a sample's frames are: each device gets what it needs of the input."""
        tensors = self._split.checked(sample)

        def start(pending: _Pending) -> None:
            for device in self._split.turn(pending.number):
                for i, piece in enumerate(self._split.programs[device].inputs):
                    encoder = Encoder([window(tensors[piece.name], piece.box)], self._wire)
                    encoder.encode()
                    first = what(INPUT, i, encoder.wire)
                    place = (self._links[device], first, self._sample(pending.number))
                    pending.sent.append((*place, encoder.payload))

        return start

    def _go_frames(self, row: int) -> Callable[[_Pending], None]:
        def start(pending: _Pending) -> None:
            for device in self._split.turn(pending.number):
                if self._split.programs[device].inputs:
                    place = (self._links[device], what(GO), self._sample(pending.number))
                    pending.sent.append((*place, struct.pack("<Q", row)))

        return start

    def _sample(self, number: int) -> int:
        """A sample's number as the devices know it; each replica counts its own."""
        if self._split.is_replicated:
            number //= self.devices
        return self._number * _NUMBERS + number % _NUMBERS

    def _opened(self, link: Link) -> None:
        self._heard = time.monotonic()  # what is sent again takes its time again
        for pending in self._pending.values():
            for one, first, sample, payload in pending.sent:
                if one is link:
                    link.send(first, sample, payload, None)

    def _step(self) -> None:
        network = self._network
        missing = network.missing()
        left = max(0.0, self._heard + network.timeout - time.monotonic())
        network.handle(network.wait(0.2 if missing else left))
        if self._fault is not None:
            device, text = self._fault
            raise InputError(f"device {device}: {text}")
        for link in missing:
            self._check_alive(link)
        # Of a link that is down, the network says itself when it has been for too long.
        if not missing and time.monotonic() - self._heard > network.timeout:
            names = ", ".join(self._links[device].name for device in self._owing())
            raise InputError(f"{names}: nothing has come for {network.timeout:g} s")

    def _owing(self) -> list[int]:
        """The devices whose outputs, or totals, are waited for."""
        wanted = {device for one in self._pending.values() for device, _ in one.wanted}
        return sorted(wanted) or [i for i in range(self.devices) if i not in self._totals]

    def _check_alive(self, link: Link) -> None:
        if self._alive is not None and not link.is_open:
            self._alive(link.peer)

    def _take_output(
        self, device: int, output: int, decoder: Decoder, sample: int, offset: int, _length: int
    ) -> None:
        session, number = divmod(sample, _NUMBERS)
        if self._split.is_replicated:
            number = number * self.devices + device
        pending = self._pending.get(number) if session == self._number else None
        piece = pending.wanted.pop((device, output), None) if pending is not None else None
        if pending is None or piece is None:  # of an earlier run, or a second time
            return
        pending.came[device, output] = decoder.decoded(offset)[0]
        self._heard = time.monotonic()
        if not pending.wanted:
            pending.seconds = self._heard - pending.start

    def _assembled(self, pending: _Pending) -> dict[str, Numbers]:
        outputs = self._split.blank()
        for device, output in sorted(pending.came):  # sums in one order: the same bits
            piece = self._split.programs[device].outputs[output]
            place = window(outputs[piece.name], piece.box)
            array = pending.came[device, output]
            np.copyto(place, array + place if piece.add else array)
        return self._split.answers(outputs)

    def _take_totals(self, link: Link, _sample: int, offset: int, length: int) -> None:
        try:
            found = json.loads(link.memory[offset : offset + length].tobytes())
        except (ValueError, RecursionError):
            raise LinkError(link.peer, f"{link.name} sends totals that are no JSON") from None
        if not _are_totals(found):
            raise LinkError(link.peer, f"{link.name} sends totals that are none")
        self._totals[link.peer] = found

    def _take_fault(self, link: Link, _sample: int, offset: int, length: int) -> None:
        text = link.memory[offset : offset + length].tobytes().decode("utf-8", "replace")
        self._fault = (link.peer, text)


def _size(program: Program, piece: Piece) -> Size:
    shape = program.buffers[piece.buffer]
    return Size(shape.channels, shape.rows * shape.columns)


def _are_totals(found: object) -> bool:
    """Whether a device says of itself what others reckon with."""
    if not isinstance(found, dict):
        return False
    amounts: list[Any] = [found.get(name) for name in _AMOUNTS]
    for name in _AMOUNTS_BY_NAME:
        table = found.get(name)
        amounts += table.values() if isinstance(table, dict) else [None]
    return all(type(one) in (int, float) and -_MOST < one < _MOST for one in amounts)


def _tell(line: str) -> None:
    print(f"forerun: {line}", file=sys.stderr)
