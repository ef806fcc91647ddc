"""What really goes over the wire between devices: which type of numbers, and what it loses.

Devices that somebody else has started send as they were told then, and do not say so to the host;
but the bytes that they have sent tell it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from forerun.errors import InputError
from forerun.splitting.device.links import HEADER
from forerun.splitting.device.program import Message, Program
from forerun.splitting.device.wire import WIRES, Size, fitting, message_bytes

_NUMBER = re.compile(r"\d{1,10}", re.ASCII)  # of a message
_HOST = "host"  # who gets answers, which are float32 whatever devices send each other


def wires_of(programs: Sequence[Program], totals: Iterable[Mapping[str, Any]]) -> list[str]:
    """The types that devices may have sent each other; several where bytes do not tell them apart.

    InputError where one has sent another than the others.
    """
    each = [_fitting(program, done) for program, done in zip(programs, totals, strict=True)]
    found = [name for name in WIRES if all(name in one for one in each)]
    if not found:
        told = ", ".join(" or ".join(one) for one in each)
        raise InputError("the devices' --wire", told, "the same on every device")
    return found


class Loss(NamedTuple):
    """The largest error of a number that one device has sent another.

    `difference` is its share of the largest number of that message; None: nothing was lost.
    """

    difference: float = 0.0
    device: int | None = None
    message: int | None = None


def largest_loss(totals: Iterable[Mapping[str, Any]]) -> Loss:
    """What was lost on the wire at most, by devices that look at it; InputError if one does not."""
    found = Loss()
    for device, done in enumerate(totals):
        errors = done.get("wire_errors")
        if errors is None:
            expected = "one that was started with --report-error"
            raise InputError(f"device {device}", "no errors of its wire", expected)
        if not _are_errors(errors):
            raise InputError(f"device {device}: wire_errors", errors, "a share for each message")
        losses = [Loss(share, device, int(message)) for message, share in errors.items() if share]
        found = max([found, *losses], key=lambda one: one.difference)
    return found


def _are_errors(found: object) -> bool:
    """Whether a device says of numbered messages what they lose."""
    return isinstance(found, dict) and all(
        _NUMBER.fullmatch(name) and type(share) in (int, float) and 0 <= share < math.inf
        for name, share in found.items()
    )


def _fitting(program: Program, done: Mapping[str, Any]) -> list[str]:
    """The types whose messages are about as long as those that a device has sent to others.

    About: of a sample that was abandoned half-way, some messages were sent and some were not.
    """
    count, sent = (_to_others(done[name]) for name in ("sent_messages", "sent_bytes"))
    if not count or not program.sends:
        return list(WIRES)
    off = {
        name: abs(fmean(_length(program, one, wire) for one in program.sends) - sent / count)
        for name, wire in WIRES.items()
    }
    return [name for name in WIRES if off[name] == min(off.values())]


def _to_others(amounts: Mapping[str, float]) -> float:
    return sum(amount for peer, amount in amounts.items() if peer != _HOST)


def _length(program: Program, message: Message, wire: int) -> int:
    """The bytes of a message, with what stands before it."""
    sizes = [
        Size(part.box.channels, part.box.rows * program.buffers[part.buffer].columns)
        for part in message.parts
    ]
    return HEADER.size + message_bytes(sizes, fitting(sizes, wire))
