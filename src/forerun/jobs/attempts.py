"""What the starts of a job have left behind: one small file each, `key value` on every line.

    attempts = read_attempts(folder)
    run_seconds(attempts)        # None unless the job ran once, to its end, and well

Job scripts write these files and programs could: what is not well formed is ignored, and so is a
last line that was cut short when a node was lost.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MOST_BYTES = 2**20  # of a file that are read: two lines for each of some 25 000 processes
LATEST = 2.0**36  # seconds since 1970: the year 4147
LAUNCH = 60.0  # seconds that launchers and images may take around the processes
DRIFT = 0.001  # of the time: clocks of several nodes may differ by that
APART = 0.05  # of the time: what is more, and more than that, is a clock that was set

_FILE = re.compile(r"(?:(\d{1,7})\.)?([1-9]\d{0,6})", re.ASCII)
_NUMBER = re.compile(r"\d{1,12}(\.\d{1,9})?", re.ASCII)
_WHOLE = re.compile(r"\d{1,18}", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}", re.ASCII)
_JOB = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\[\]:-]{0,254}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start of a job. Times are seconds since 1970; None: it did not come to that."""

    number: int
    task: int | None = None  # of an array
    job: str = ""
    nodes: tuple[str, ...] = ()
    host: str = ""
    started: float | None = None
    staged: float | None = None  # seconds that staging took
    begun: float | None = None  # the program
    done: float | None = None  # the program
    code: int | None = None
    warned: float | None = None  # asked to save
    expired: float | None = None  # the wall time was over, and no scheduler there to say so
    requeued: float | None = None
    ended: float | None = None
    peaks: Mapping[int, int] = field(default_factory=dict)  # bytes, by process
    ran: Mapping[int, float] = field(default_factory=dict)  # seconds of a clock that nobody sets

    @property
    def seconds(self) -> float | None:
        """What the program took, whatever came of it: the longest of its processes.

        By what watches over them, as `measure` times a command; what starts those takes time too.
        """
        return self.span if self.span is None or not self.ran else max(self.ran.values())

    @property
    def span(self) -> float | None:
        """Seconds from before the program was launched until after its end, by the day's clock."""
        if self.begun is None or self.done is None or self.done < self.begun:
            return None
        return self.done - self.begun

    @property
    def steady(self) -> bool:
        """Whether the clock of the day kept time during the run, as far as its processes can tell.

        They run within it: it is no shorter than the longest of them, and not much longer.
        """
        if self.span is None or not self.ran:
            return True
        longer = self.span - max(self.ran.values())
        return -max(1.0, DRIFT * self.span) <= longer <= max(LAUNCH, APART * self.span)


def run_seconds(attempts: Sequence[Attempt]) -> float | None:
    """The time of a run that can be compared with others; None where there is none.

    A job that started twice, or that was asked to save, did something else as well; and where the
    clock was set meanwhile, nobody knows.
    """
    if len(attempts) != 1:
        return None
    only = attempts[0]
    clean = only.code == 0 and only.warned is None and only.requeued is None
    return only.seconds if clean and only.steady else None


def read_attempts(folder: str | Path) -> list[Attempt]:
    """All starts of the job in a folder, by task and number; none where it never started."""
    try:
        files = list((Path(folder) / "attempts").iterdir())
    except OSError:
        return []
    found = []
    for file in files:
        match = _FILE.fullmatch(file.name)
        text = _read(file) if match else None
        if match and text is not None:
            task = None if match[1] is None else int(match[1])
            found.append(Attempt(int(match[2]), task, **_values(text)))
    return sorted(found, key=lambda one: (-1 if one.task is None else one.task, one.number))


def _read(path: Path) -> str | None:
    """What a file holds; None for what is no file, or a link to one elsewhere."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return os.read(descriptor, MOST_BYTES).decode(errors="replace")
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _values(text: str) -> dict[str, Any]:
    """The values by their keys. The first of a key counts: the script writes before others can."""
    found: dict[str, Any] = {}
    peaks: dict[int, int] = {}
    ran: dict[int, float] = {}
    whole, _, _ = text.rpartition("\n")
    for line in whole.split("\n"):
        key, _, value = line.partition(" ")
        if key == "peak":
            rank, _, size = value.partition(" ")
            if _WHOLE.fullmatch(rank) and _WHOLE.fullmatch(size):
                peaks.setdefault(int(rank), int(size))
        elif key == "ran":
            rank, _, took = value.partition(" ")
            seconds = _time(took)
            if _WHOLE.fullmatch(rank) and seconds is not None:
                ran.setdefault(int(rank), seconds)
        elif key in _KEYS and key not in found:
            read = _KEYS[key](value)
            if read is not None:
                found[key] = read
    return {**found, "peaks": peaks, "ran": ran}


def _time(text: str) -> float | None:
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    return value if 0 <= value < LATEST else None


def _code(text: str) -> int | None:
    value = int(text) if _WHOLE.fullmatch(text) else -1
    return value if 0 <= value < 256 else None


def _job(text: str) -> str | None:
    return text if _JOB.fullmatch(text) else None


def _host(text: str) -> str | None:
    return text if _HOST.fullmatch(text) else None


def _nodes(text: str) -> tuple[str, ...] | None:
    names = tuple(text.split(" "))
    return names if all(map(_HOST.fullmatch, names)) else None


_TIMES = ("started", "staged", "begun", "done", "warned", "expired", "requeued", "ended")
_KEYS: dict[str, Callable[[str], object]] = {
    "job": _job,
    "nodes": _nodes,
    "host": _host,
    "code": _code,
    **dict.fromkeys(_TIMES, _time),
}
