"""Processors as a test bed of paced processes needs them: awake, divided, in short turns."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

TURN = 100_000  # nanoseconds
SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}.get(os.uname().machine, -1)
ATTRIBUTES = "IIQiIQQQII"  # of sched_setattr(2); the sixth is the turn


def divided() -> tuple[frozenset[int], frozenset[int]]:
    """The processors of this process as two parts, the last one alone; the same where it is one."""
    every = sorted(os.sched_getaffinity(0))
    return frozenset(every[:-1] or every), frozenset(every[-1:])


@contextmanager
def only_on(processors: frozenset[int]) -> Iterator[None]:
    """Meanwhile this process, and what it starts, is on these processors."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def awake() -> Iterator[None]:
    """Meanwhile no processor sleeps: a guest's that does wakes late, and links lose of their rate.

    What keeps one awake runs only where nothing else does, gives way at once, and counts as nice.
    """
    programs = []
    try:
        for processor in sorted(os.sched_getaffinity(0)):
            place = ("taskset", "-c", str(processor), "nice", "-n", "19", "chrt", "--idle", "0")
            words = ("setpriv", "--pdeathsig", "KILL", *place, "sh", "-c", "while :; do :; done")
            programs.append(subprocess.Popen(words))
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


@contextmanager
def short_turns() -> Iterator[None]:
    """Meanwhile what is started from here takes turns of 0.1 ms on a processor.

    With the usual ones a device that wakes waits up to 3 ms for another one's turn to end, as if
    its own processor were busy. Kernels before 6.12 know no such wish.
    """
    set_turn(TURN)
    try:
        yield
    finally:
        set_turn(0)


def set_turn(nanoseconds: int) -> None:
    """How long this process computes at a time where several want to; 0: as usual."""
    size = struct.calcsize(ATTRIBUTES)
    words = struct.pack(ATTRIBUTES, size, os.SCHED_OTHER, 0, 0, 0, nanoseconds, 0, 0, 0, 0)
    ctypes.CDLL(None).syscall(SCHED_SETATTR, 0, words, 0)
