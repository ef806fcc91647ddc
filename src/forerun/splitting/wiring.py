"""What numbers on the wire cost a device besides their bytes on the link: coding, and copying."""

from __future__ import annotations

import socket
import statistics
import threading
import time
from collections.abc import Callable

import numpy as np

from forerun.splitting.device.wire import WIRES, Decoder, Encoder, Size
from forerun.splitting.layers import Coding

CHANNELS, VALUES = 64, 4096  # of the message that is timed: 1 MiB in float32
REPEATS = 9


def codings() -> dict[str, Coding]:
    """Seconds a number, of who sends it and who receives it, for each type on the wire."""
    return {name: _coding(number) for name, number in WIRES.items()}


def _coding(wire: int) -> Coding:
    """Coded from a part of a buffer that is not contiguous, as rows of a tensor are."""
    count = CHANNELS * VALUES
    whole = np.random.default_rng(0).random((CHANNELS, 2 * VALUES), dtype=np.float32)
    part = whole[:, :VALUES]
    encoder = Encoder([part], wire)
    memory = np.frombuffer(bytes(encoder.payload), np.uint8)
    decoder = Decoder([Size(CHANNELS, VALUES)], encoder.wire, memory)
    sent, received = _copying(len(encoder.payload))
    return Coding(
        send=(_median(encoder.encode) + sent) / count,
        receive=(_median(lambda: decoder.decode(0, [part])) + received) / count,
    )


def _copying(size: int) -> tuple[float, float]:
    """Processor seconds that each end of a socket takes for so many bytes."""
    ours, theirs = socket.socketpair()
    content, place = bytes(size), memoryview(bytearray(size))
    spent: list[float] = []

    def receive() -> None:
        for _ in range(REPEATS):
            start, got = time.thread_time(), 0
            while got < size:
                got += theirs.recv_into(place[got:])
            spent.append(time.thread_time() - start)

    with ours, theirs:
        thread = threading.Thread(target=receive)
        thread.start()
        took = []
        for _ in range(REPEATS):
            start = time.thread_time()
            ours.sendall(content)
            took.append(time.thread_time() - start)
        thread.join()
    return statistics.median(took), statistics.median(spent)


def _median(call: Callable[[], object]) -> float:
    taken = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)
