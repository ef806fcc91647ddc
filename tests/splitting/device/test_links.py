import select
import socket
import time
from collections.abc import Iterator

import pytest
from patience import LONG

from forerun.splitting.device.faults import LinkError
from forerun.splitting.device.links import DATA, HEADER, Expected, Link, what

Taken = list[tuple[int, bytes]]


class End:
    """One link over a real connection, and what it has taken."""

    def __init__(self, connected: socket.socket, sizes: dict[int, int]) -> None:
        self.taken: Taken = []
        self.broken: list[str] = []
        self.link = Link(1, "device 1", None, max(sizes.values()))
        self.link.broke = lambda link, why: (self.broken.append(why), link.close())  # type: ignore[func-returns-value, assignment]
        for message, size in sizes.items():
            self.link.expected[what(DATA, message)] = Expected(size, size, self.take)
        self.poller = select.epoll()
        connected.setblocking(False)
        self.link.open(connected, self.poller)

    def take(self, sample: int, offset: int, length: int) -> None:
        self.taken.append((sample, self.link.memory[offset : offset + length].tobytes()))

    def serve(self, frames: int, seconds: float = LONG) -> None:
        until = time.monotonic() + seconds
        while len(self.taken) < frames and not self.broken and time.monotonic() < until:
            if self.poller.poll(0.05):
                self.link.receive()


def connection(buffer: int | None = None) -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        if buffer is not None:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        one = socket.socket()
        if buffer is not None:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        one.connect(listening.getsockname())
        return one, listening.accept()[0]


@pytest.fixture
def ends() -> Iterator[tuple[End, End]]:
    sizes = {5: 16, 6: 100_000}
    one, two = connection()
    pair = End(one, sizes), End(two, sizes)
    yield pair
    for end in pair:
        end.link.close()
        end.poller.close()


@pytest.fixture
def raw() -> Iterator[tuple[socket.socket, End]]:
    """A connection whose other side sends whatever it likes."""
    one, two = connection()
    end = End(two, {5: 16, 6: 100_000})
    yield one, end
    one.close()
    end.link.close()
    end.poller.close()


def test_frames_arrive_whole_and_in_order(ends: tuple[End, End]) -> None:
    sender, receiver = ends
    large = bytes(range(256)) * 390 + bytes(160)
    for sample in range(20):
        sender.link.send(what(DATA, 5), sample, b"%016d" % sample, None)
        sender.link.send(what(DATA, 6), sample, large, None)
        sender.link.flush()
        receiver.serve(2 * sample + 2)
    assert receiver.taken[::2] == [(i, b"%016d" % i) for i in range(20)]
    assert receiver.taken[1::2] == [(i, large) for i in range(20)]
    assert sender.link.sent_bytes == receiver.link.received_bytes == 20 * (48 + 100_016)
    assert sender.link.sent_messages == 40


def test_what_the_kernel_does_not_take_is_sent_later() -> None:
    one, two = connection(2**15)
    sizes = {6: 100_000}
    sender, receiver = End(one, sizes), End(two, sizes)
    for sample in range(5):
        sender.link.send(what(DATA, 6), sample, bytes([sample]) * 100_000, None)
    assert sender.link.is_sending
    while sender.link.is_sending:
        sender.link.flush()
        receiver.serve(len(receiver.taken) + 1, 0.05)
    receiver.serve(5)
    assert receiver.taken == [(i, bytes([i]) * 100_000) for i in range(5)]
    for end in (sender, receiver):
        end.link.close()


def test_memory_that_is_written_again_does_not_change_what_is_queued() -> None:
    one, two = connection(2**15)
    sizes = {6: 100_000}
    sender, receiver = End(one, sizes), End(two, sizes)
    memory, owner = bytearray(b"a" * 100_000), object()
    for sample in range(8):  # more than both buffers of the kernel hold
        sender.link.send(what(DATA, 6), sample, memoryview(memory), owner)
    assert sender.link.is_sending
    sender.link.keep(owner)
    memory[:] = b"b" * 100_000
    while sender.link.is_sending:
        sender.link.flush()
        receiver.serve(len(receiver.taken) + 1, 0.05)
    receiver.serve(8)
    assert {payload for _, payload in receiver.taken} == {b"a" * 100_000}
    for end in (sender, receiver):
        end.link.close()


def test_a_frame_in_pieces_is_put_together(raw: tuple[socket.socket, End]) -> None:
    one, end = raw
    frame = HEADER.pack(what(DATA, 5), 9, 16, 0) + b"0123456789abcdef"
    for i in range(len(frame)):
        one.sendall(frame[i : i + 1])
        end.link.receive()
    end.serve(1)
    assert end.taken == [(9, b"0123456789abcdef")]


@pytest.mark.parametrize(
    ("header", "told"),
    [
        (b"\0" * 24, "device 1 sends something that is no frame"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "device 1 sends something that is no frame"),
        (
            HEADER.pack(what(DATA, 7), 0, 16, 0),
            "device 1 sends a frame that is not expected (kind 1, 7)",
        ),
        (
            HEADER.pack(what(DATA, 5), 0, 17, 0),
            "device 1 sends a frame of 17 bytes that must have another length",
        ),
        (
            HEADER.pack(what(DATA, 6), 0, 2**32 - 1, 0),
            "device 1 sends a frame of 4294967295 bytes that must have another length",
        ),
    ],
)
def test_a_frame_that_does_not_fit_is_an_error_that_names_the_device(
    raw: tuple[socket.socket, End], header: bytes, told: str
) -> None:
    one, end = raw
    one.sendall(header + bytes(16))  # the kernel does not wake us for less than a frame
    with pytest.raises(LinkError) as error:
        end.serve(1)
    assert str(error.value) == told
    assert error.value.peer == 1
    assert end.taken == []


def test_memory_is_what_the_program_says_and_no_more(raw: tuple[socket.socket, End]) -> None:
    _, end = raw
    assert end.link.memory.nbytes == 100_000 + HEADER.size


def test_a_connection_that_closes_is_noticed(raw: tuple[socket.socket, End]) -> None:
    one, end = raw
    one.sendall(HEADER.pack(what(DATA, 5), 9, 16, 0))
    one.close()
    end.serve(1)
    assert end.broken == ["the other side closed it"]
    assert not end.link.is_open
    end.link.send(what(DATA, 5), 0, bytes(16), None)  # goes nowhere, and is no error
