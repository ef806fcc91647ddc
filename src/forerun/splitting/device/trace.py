"""When everything happened, for people who want to see where the time goes: JSON lines.

Times are seconds of the machine's monotonic clock: those of devices on one machine can be compared.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TextIO

    from .program import Program

_MOST_KEPT = 2**14  # events, after which they are written


class Trace:
    """Keeps events and writes them later, so that writing is no part of what is seen."""

    def __init__(self, program: Program, file: TextIO) -> None:
        self._files = [one.file for one in program.segments]
        self._file = file
        self._events: list[dict[str, Any]] = []

    def computed(self, sample: int, segment: int, begin: float, end: float) -> None:
        """A segment was computed."""
        self._add(sample, segment=self._files[segment], begin=begin, end=end)

    def sent(self, sample: int, message: int, peer: int, size: int) -> None:
        """A message was handed to the kernel."""
        self._add(sample, sent=message, to=peer, bytes=size, at=time.monotonic())

    def received(self, sample: int, message: int, peer: int) -> None:
        """A message has come, whole, and is where it belongs."""
        self._add(sample, received=message, at=time.monotonic(), **{"from": peer})

    def write(self) -> None:
        """Write what is kept."""
        for event in self._events:
            self._file.write(json.dumps(event) + "\n")
        self._file.flush()
        self._events.clear()

    def _add(self, sample: int, **event: object) -> None:
        # The session is in the upper half of the number.
        self._events.append({"sample": sample & 0xFFFFFFFF, **event})
        if len(self._events) >= _MOST_KEPT:
            self.write()
