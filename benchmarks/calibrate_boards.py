"""Check that boards compute and send as slowly as they should, all of them busy at once.

Every board computes for 5 ms of processor and then waits 10 ms, again and again, paced by the same
code as the devices are: that must take 5 / speed + 10 ms within 3 %. Every board sends messages of
4 kB, 64 kB and 1 MB to the next one while it receives as many from the one before: a message must
take its size over the rate within 5 %. A test during which the host of this machine, if it is a
guest, took much away is done again; the one during which that was least counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import rows
from boards import Boards
from calibrate_hosts import FEWEST, MOST_STOLEN, SIZES, TRIES, exchange, on_all
from hosts import stolen

from forerun.splitting.device.pace import Pace

COMPUTING, WAITING = 0.005, 0.010  # seconds
ROUNDS = 40
SENDING = 1.0  # seconds of messages of each size
MOST_OFF = {"pace": 3.0, "link": 5.0}  # per cent


@dataclass(frozen=True)
class Check:
    """What one thing should take and took, in the mean of the boards."""

    started: str  # of the calibration that it belongs to
    what: str
    megabits: float
    speed: float
    expected_ms: float
    measured_ms: float
    worst_percent: float  # of the board that was furthest off
    allowed_percent: float
    stolen: float  # processors
    tries: int

    @property
    def off(self) -> float:
        """How far off the worst of the boards is, as a share of what is allowed."""
        return abs(self.worst_percent) / self.allowed_percent

    def __str__(self) -> str:
        taken = f"{self.measured_ms:.3f} ms for {self.expected_ms:.3f}"
        return f"{self.what}: {taken}, {self.worst_percent:+.1f} % at worst"


COLUMNS = tuple(field.name for field in fields(Check))


def calibrate(boards: Boards, speed: float, megabits: float) -> list[Check]:
    """Test boards that pace themselves to this speed, on links of this rate."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    boards.limit_links(megabits)
    return [
        Check(started, what, megabits, speed, *figures)
        for what, work, expected, allowed in works(boards, speed, megabits)
        for figures in [test(boards, work, expected, allowed)]
    ]


Work = Callable[[int], float]


def works(
    boards: Boards, speed: float, megabits: float
) -> Iterator[tuple[str, Work, float, float]]:
    """What is tested, the seconds that it should take, and how far off it may be."""
    expected = COMPUTING / speed + WAITING
    yield "5 ms compute, 10 ms wait", lambda _: paced(speed), expected, MOST_OFF["pace"]
    for name, size in SIZES.items():
        expected = size * 8 / (megabits * 1e6)
        messages = max(round(SENDING / expected), FEWEST)
        yield name, partial(exchange, boards.alone, size, messages), expected, MOST_OFF["link"]


def test(
    boards: Boards, work: Work, expected: float, allowed: float
) -> tuple[float, float, float, float, float, int]:
    """Do the work on every board at once; what a row keeps of it."""
    tries: list[tuple[float, list[float]]] = []
    while len(tries) < TRIES and (not tries or tries[-1][0] > MOST_STOLEN):
        start, before = time.perf_counter(), stolen()
        found = on_all(boards.alone, partial(on_own, boards, work))
        tries.append(((stolen() - before) / (time.perf_counter() - start), found))
    taken, found = min(tries)
    worst = max((one / expected - 1 for one in found), key=abs)
    mean = sum(found) / len(found)
    return expected * 1e3, mean * 1e3, worst * 100, allowed, taken, len(tries)


def on_own(boards: Boards, work: Work, board: int) -> float:
    """Work on the processors of the boards, as devices do."""
    os.sched_setaffinity(0, boards.own)
    return work(board)


def paced(speed: float) -> float:
    """Seconds of one round of computing and waiting; what it costs to wait is computing too."""
    pace = Pace(speed)
    start = time.perf_counter()
    for _ in range(ROUNDS):
        until = time.process_time() + COMPUTING
        time.sleep(WAITING)
        pace.begin()
        while time.process_time() < until:
            pass
        pace.account()
    return (time.perf_counter() - start) / ROUNDS


def kept(path: Path) -> dict[str, float]:
    """Of each calibration in a file, by its beginning: the worst share of what is allowed."""
    found: dict[str, float] = {}
    for cells in rows.recorded(path):
        check = rows.parsed(Check, cells)
        found[check.started] = max(found.get(check.started, 0.0), check.off)
    return found
