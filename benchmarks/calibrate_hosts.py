"""Check that hosts are as slow as they should be, all of them busy at once.

    python calibrate_hosts.py MAKER COUNT SHARE RATE ...

Every host sends to the next one and receives from the one before: messages of each size in a row,
at each RATE (Mbit/s). Then every host computes with its SHARE of a processor. Prints, as CSV, what
one message or computation should take and took, how far the host that was furthest off was, and
the processors that a host of this machine, if it is a guest, took away meanwhile. A test during
which that was much is done again; the one during which it was least counts, whatever it found.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

from hosts import Hosts, stolen

SIZES = {"4 kB": 4_000, "64 kB": 64_000, "1 MB": 1_000_000}
SENDING = 2.0  # seconds of messages of each size
FEWEST = 4
SKIPPED = 0.25  # of the messages: until the connection has found its speed and buckets are empty
COMPUTING = 0.3  # seconds of a processor
PORT = 29501
MOST_STOLEN = 0.02  # processors
TRIES = 5
COLUMNS = "what,megabits,share,expected_ms,measured_ms,worst_percent,stolen,tries"


def main(maker: str, count: str, share: str, *rates: str) -> int:
    """Print the table."""
    hosts = Hosts(int(maker), int(count))
    print(COLUMNS)
    hosts.limit_processors(None)
    for rate in map(float, rates):
        hosts.limit_links(rate)
        for name, size in SIZES.items():
            expected = size * 8 / (rate * 1e6)
            messages = max(round(SENDING / expected), FEWEST)
            test(hosts, partial(exchange, hosts, size, messages), expected, f"{name},{rate:g},")
    hosts.limit_processors(float(share))
    test(hosts, lambda _: compute(COMPUTING), COMPUTING / float(share), f"computing,,{share}")
    return 0


def test(hosts: Hosts, work: Callable[[int], float], expected: float, name: str) -> None:
    """Do the work on every host; print the mean, and the one that was furthest off."""
    tries: list[tuple[float, list[float]]] = []
    while len(tries) < TRIES and (not tries or tries[-1][0] > MOST_STOLEN):
        start, before = time.perf_counter(), stolen()
        found = on_all(hosts, work)
        tries.append(((stolen() - before) / (time.perf_counter() - start), found))
    taken, found = min(tries)
    mean = sum(found) / len(found)
    worst = max((one / expected - 1 for one in found), key=abs)
    times = f"{expected * 1e3:.3f},{mean * 1e3:.3f},{worst * 100:.1f}"
    print(f"{name},{times},{taken:.3f},{len(tries)}", flush=True)


def on_all(hosts: Hosts, work: Callable[[int], float]) -> list[float]:
    """What the same work, begun at once on every host, gives on each."""
    ends = []
    for host in range(hosts.count):
        reading, writing = os.pipe()
        hosts.fork(host, partial(answer, writing, work, host))
        os.close(writing)
        ends.append(reading)
    answers = []
    for end in ends:
        with os.fdopen(end) as file:
            answers.append(float(json.load(file)))
        os.wait()
    return answers


def answer(end: int, work: Callable[[int], float], host: int) -> None:
    """Write what the work gives to a pipe."""
    with os.fdopen(end, "w") as file:
        json.dump(work(host), file)


def exchange(hosts: Hosts, size: int, messages: int, host: int) -> float:
    """Seconds a message from the host before, while as many go to the next one."""
    with socket.create_server((hosts.address(host), PORT)) as server:
        following = hosts.address((host + 1) % hosts.count)
        sender = threading.Thread(target=send, args=(following, size, messages))
        sender.start()
        before, _ = server.accept()
        with before:
            skipped = max(round(messages * SKIPPED), 1)
            receive(before, size * skipped)
            start = time.perf_counter()
            receive(before, size * (messages - skipped))
            seconds = time.perf_counter() - start
        sender.join()
    return seconds / (messages - skipped)


def send(address: str, size: int, messages: int) -> None:
    """Send the messages to the host at this address, as soon as it listens."""
    while True:
        try:
            following = socket.create_connection((address, PORT))
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
    with following:
        for _ in range(messages):
            following.sendall(bytes(size))


def receive(before: socket.socket, size: int) -> None:
    """Read this many bytes."""
    while size:
        size -= len(before.recv(min(size, 65536)))


def compute(seconds: float) -> float:
    """How long this many seconds of a processor take."""
    start, used = time.perf_counter(), time.process_time()
    while time.process_time() - used < seconds:
        pass
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
