"""What may come from the other side of a link, and who takes it.

The program says how long each message is, for each wire type: a frame of any other length is
refused before its payload is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .links import ASK, DATA, END, GO, INPUT, Expected, what
from .wire import FLOAT32, WIRES, Decoder, fitting, message_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from .engine import Engine
    from .links import Link
    from .schedule import Schedule


def largest_from(schedule: Schedule, peer: int) -> int:
    """The bytes of the largest message that may come from another side."""
    sizes = [
        message_bytes(schedule.sizes(one.parts), FLOAT32)
        for one in schedule.arrivals
        if one.peer == peer
    ]
    return max(sizes, default=0)


def expect(engine: Engine, link: Link, answer: Callable[[], None]) -> None:
    """Say which frames may come over a link; `answer` is called when the host asks for totals."""
    schedule = engine.schedule
    is_host = link.peer == schedule.program.devices
    for number, arrival in enumerate(schedule.arrivals):
        if arrival.peer != link.peer:
            continue
        sizes = schedule.sizes(arrival.parts)
        for wire in {fitting(sizes, one) for one in WIRES.values()}:
            length = message_bytes(sizes, wire)
            take = _Taker(engine, number, Decoder(sizes, wire, link.memory, engine.scratch)).take
            first = what(INPUT if is_host else DATA, arrival.message, wire)
            link.expected[first] = Expected(length, length, take)
    if is_host:
        link.expected[what(END)] = Expected(0, 0, lambda *_: engine.stop())
        link.expected[what(ASK)] = Expected(0, 0, lambda *_: answer())
        if schedule.inputs:
            link.expected[what(GO)] = Expected(8, 8, _Starter(engine, link).take)


class _Taker:
    """Takes one message, of one wire type, out of its link's memory."""

    def __init__(self, engine: Engine, number: int, decoder: Decoder) -> None:
        arrival = engine.schedule.arrivals[number]
        self._engine, self._number, self._decoder = engine, number, decoder
        self._buffers = engine.schedule.numbers(part.buffer for part in arrival.parts)
        self._message, self._peer = arrival.message, arrival.peer

    def take(self, sample: int, offset: int, _length: int) -> None:
        engine, number = self._engine, self._number
        slot = engine.slot_of(sample)
        if slot is None or slot.came[number]:  # of a sample that has ended, or a second time
            return
        slot.came[number] = 1
        self._decoder.decode(offset, slot.landings[number], slot.number)
        if engine.trace is not None:
            engine.trace.received(sample, self._message, self._peer)
        engine.written(slot, self._buffers)


class _Starter:
    """Takes the host's word that a sample begins which the device has already: its row."""

    def __init__(self, engine: Engine, link: Link) -> None:
        self._engine, self._memory = engine, link.memory

    def take(self, sample: int, offset: int, _length: int) -> None:
        slot = self._engine.slot_of(sample)
        if slot is not None:
            row = int(self._memory[offset : offset + 8].view(np.uint64)[0])
            self._engine.load(slot, row)
