"""The connection to another device or to the host: framed messages, sent and received in place.

A frame is 24 bytes (what it is, its sample, its length) and a payload, whose length the program
says beforehand: a frame of any other is an error that names the device. Sending never waits: what
the kernel does not take at once is queued, and goes when it has room.
"""

from __future__ import annotations

import select
import socket
import struct
from collections import deque
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .faults import LinkError

if TYPE_CHECKING:
    from collections.abc import Callable

HEADER = struct.Struct("<QQII")  # what, sample, bytes of the payload, 0
DATA, INPUT, GO, OUTPUT, END, ASK, TOTALS, FAULT = range(1, 9)
LAST_SESSION = 2**32 - 1  # which is refused: there is no number for another host's after it
_MAGIC = 0xF0E2
_LEAST_MEMORY = 4096  # bytes that frames are received into
_PIECES = 16  # of what is queued that go to the kernel at once
_READ = select.EPOLLIN | select.EPOLLRDHUP
_WRITE = select.EPOLLOUT


def what(kind: int, message: int = 0, wire: int = 0) -> int:
    """The first eight bytes of a frame: our mark, its kind, wire type and message number."""
    return _MAGIC | kind << 16 | wire << 24 | message << 32


class Expected(NamedTuple):
    """A frame that may come: how long its payload is, and who takes it."""

    least: int
    most: int
    take: Callable[[int, int, int], None]  # sample, offset in the link's memory, length


class Link:
    """The connection to one other side, whether there is one just now or not."""

    def __init__(self, peer: int, name: str, address: tuple[str, int] | None, largest: int) -> None:
        """`address`: where to connect to; None where the other side does. `largest` payload."""
        self.peer, self.name, self.address = peer, name, address
        self.memory = np.zeros(max(_LEAST_MEMORY, HEADER.size + largest), np.uint8)
        self.expected: dict[int, Expected] = {}
        self.session = self.in_flight = 0  # what the other side has said when it was greeted
        self.said = 0  # the session that this side has said then
        self.broke: Callable[[Link, str], None] = lambda _link, _why: None
        self.sent_bytes = self.sent_messages = self.received_bytes = 0
        self._socket: socket.socket | None = None
        self._poller: select.epoll | None = None
        self._view = self.memory.data
        self._filled = 0
        self._queue: deque[tuple[object, memoryview]] = deque()
        self._low = self._least = self._most_low = 1

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def open(self, connected: socket.socket, poller: select.epoll) -> None:
        """Use a connection that has been greeted."""
        self.close()
        self._socket, self._poller = connected, poller
        self._least = HEADER.size + min((one.least for one in self.expected.values()), default=0)
        # A mark above what the kernel's buffer can hold (half of it, at worst) is never reached.
        buffer = connected.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        self._most_low = max(1, buffer // 4)
        self._low = 1
        self._wake_at(self._least)
        poller.register(connected.fileno(), _READ)

    def close(self) -> None:
        """Give the connection up; what was on its way is forgotten."""
        if self._socket is not None and self._poller is not None:
            with suppress(OSError):
                self._poller.unregister(self._socket.fileno())
            self._socket.close()
        self._socket = None
        self._filled = 0
        self._queue.clear()

    def send(self, first: int, sample: int, payload: memoryview | bytes, owner: object) -> None:
        """Hand a frame to the kernel; nothing where there is no connection: it is sent on opening.

        `owner` is whose memory the payload is: see `keep`.
        """
        if self._socket is None:
            return
        header = HEADER.pack(first, sample, len(payload), 0)
        length = HEADER.size + len(payload)
        self.sent_bytes += length
        self.sent_messages += 1
        sent = 0
        if not self._queue:
            try:
                sent = self._socket.sendmsg((header, payload))
            except BlockingIOError:
                pass
            except OSError as error:
                self.broke(self, str(error))
                return
            if sent == length:
                return
            self._watch(_READ | _WRITE)
        if sent < HEADER.size:
            self._queue.append((None, memoryview(header)[sent:]))
            sent = HEADER.size
        if payload:
            self._queue.append((owner, memoryview(payload)[sent - HEADER.size :]))

    def flush(self) -> None:
        """Send what is queued, as far as the kernel takes it."""
        queue = self._queue
        while queue and self._socket is not None:
            try:
                sent = self._socket.sendmsg([view for _, view in islice(queue, _PIECES)])
            except BlockingIOError:
                return
            except OSError as error:
                self.broke(self, str(error))
                return
            while sent:
                owner, view = queue.popleft()
                if sent < len(view):
                    queue.appendleft((owner, view[sent:]))
                    return
                sent -= len(view)
        self._watch(_READ)

    @property
    def is_sending(self) -> bool:
        """Whether something is queued that the kernel has not taken."""
        return bool(self._queue)

    def keep(self, owner: object) -> None:
        """What is queued out of an owner's memory is copied: the owner will write there."""
        queue = self._queue
        for i, (whose, view) in enumerate(queue):
            if whose is owner:
                queue[i] = (None, memoryview(bytes(view)))

    def receive(self) -> None:
        """Read what there is, and have whole frames taken."""
        connected = self._socket
        if connected is None:
            return
        try:
            count = connected.recv_into(self._view[self._filled :])
        except BlockingIOError:
            return
        except OSError as error:
            self.broke(self, str(error))
            return
        if not count:
            self.broke(self, "the other side closed it")
            return
        self.received_bytes += count
        self._filled += count
        start = self._take_frames(connected)
        if start < 0:
            return
        left = self._filled - start
        if start and left:  # the beginning of a frame comes to the front
            self._view[:left] = self._view[start : self._filled]
        self._filled = left

    def _take_frames(self, connected: socket.socket) -> int:
        """Have all whole frames taken: where the first that is not whole begins; -1: it broke."""
        start = 0
        missing = self._least
        while (have := self._filled - start) >= HEADER.size:
            first, sample, length, _ = HEADER.unpack_from(self._view, start)
            expected = self.expected.get(first)
            if expected is None or not expected.least <= length <= expected.most:
                raise LinkError(self.peer, self._misfit(first, length))
            missing = HEADER.size + length - have
            if missing > 0:
                break
            expected.take(sample, start + HEADER.size, length)
            if self._socket is not connected:
                return -1
            start += HEADER.size + length
            missing = self._least
        else:
            missing -= have
        self._wake_at(missing)
        return start

    def _misfit(self, first: int, length: int) -> str:
        if first & 0xFFFF != _MAGIC:
            return f"{self.name} sends something that is no frame"
        if first not in self.expected:
            message, kind = first >> 32, first >> 16 & 0xFF
            return f"{self.name} sends a frame that is not expected (kind {kind}, {message})"
        return f"{self.name} sends a frame of {length} bytes that must have another length"

    def _wake_at(self, count: int) -> None:
        """Let the kernel wake us when so many bytes have come, not for every packet of a frame."""
        count = max(1, min(count, self._most_low))
        if count != self._low and self._socket is not None:
            self._low = count
            with suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)

    def _watch(self, events: int) -> None:
        if self._socket is not None and self._poller is not None:
            self._poller.modify(self._socket.fileno(), events)

    def fileno(self) -> int:
        """Of the open connection; -1 where there is none."""
        return self._socket.fileno() if self._socket is not None else -1
