"""One command, run and timed on this machine without a change to it."""

from __future__ import annotations

import json
import math
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from forerun import quantities
from forerun.errors import InputError, one_line
from forerun.jobs.marker import Marker
from forerun.study import Status

LAUNCHER = Path(__file__).with_name("launcher.py")
TICK = 0.1  # seconds between two looks at the disk and at whether to cancel
SHORTEST = 0.1  # seconds of a run in which others' load can be told: the kernel counts in 10 ms
LONGEST_LINE = 200  # characters of the output's last line that a reason quotes
LAST_BYTES = 4096  # of the output, in which its last line and the lack of memory are looked for

OUT_OF_MEMORY = re.compile(
    r"MemoryError|out of memory|OutOfMemory|std::bad_alloc|cannot allocate memory"
    r"|can't allocate memory|not enough memory|RESOURCE_EXHAUSTED|oom.?kill",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its arguments, and how to run it."""

    words: tuple[str, ...]  # the program and its arguments; never through a shell
    directory: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)  # added to the inherited one
    timeout: float | None = None  # seconds; then the whole process tree goes
    prepare: tuple[str, ...] = ()  # run before, untimed; the run fails if it does
    cleanup: tuple[str, ...] = ()  # run after, always, untimed
    marker: Marker | None = None
    output_limit: int = 16 * 2**20  # bytes of output kept: the first part and the last MiB
    disk_reserve: int = 2**29  # free bytes of the disk below which the run is ended

    def __post_init__(self) -> None:
        if self.timeout is not None and not (math.isfinite(self.timeout) and self.timeout > 0):
            raise InputError("timeout", self.timeout, "a number of seconds above 0")
        if self.output_limit < 1:
            raise InputError("output limit", self.output_limit, "a number of bytes above 0")


@dataclass(frozen=True, slots=True)
class Timing:
    """What one run of a command took and how it ended."""

    status: Status
    seconds: float | None = None  # wall, or the marker's; None unless ok
    wall_seconds: float = 0.0
    user_seconds: float = 0.0  # of all its processes
    system_seconds: float = 0.0
    memory_bytes: int = 0  # peak resident of its largest process; 12 MB or less cannot be told
    exit_code: int | None = None  # negative: the signal that ended it
    started: str = ""  # ISO 8601, UTC
    other_load: float = 0.0  # processors that others kept busy meanwhile, on average
    left_behind: int = 0  # processes that were still there when the program ended, and were ended
    printed_bytes: int = 0
    reason: str = ""  # one line: why it is not ok, or that the clean-up failed

    @property
    def measures(self) -> dict[str, float]:
        """What a run stores: positive numbers, and no times unless it ended well."""
        found = {"memory_bytes": float(self.memory_bytes)}
        if self.seconds is not None:
            found["seconds"] = self.seconds
            found["user_seconds"] = self.user_seconds
            found["system_seconds"] = self.system_seconds
            if self.seconds != self.wall_seconds:
                found["wall_seconds"] = self.wall_seconds
        return {name: value for name, value in found.items() if 0 < value < math.inf}


def check_program(
    words: Sequence[str],
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """The path of the program that these words start; InputError where there is none."""
    if not words or any("\0" in word for word in words):
        raise InputError("command", " ".join(words), "a program and its arguments")
    if directory is not None and not directory.is_dir():
        raise InputError("directory", directory, "a directory that exists")
    program = words[0]
    if "/" in program:
        path = Path(directory or "", program).absolute()
        if path.is_file() and not os.access(path, os.X_OK):
            raise InputError("command", program, "a file that may be executed (chmod +x)")
        found = str(path) if path.is_file() else None
    else:
        found = shutil.which(program, path=(environment or {}).get("PATH"))
    if found is None:
        raise InputError("command", program, "a program on the PATH")
    return found


def time_command(command: Command, output: Path, cancel: threading.Event | None = None) -> Timing:
    """Run a command once and time it; what it prints is kept in the file `output`.

    InputError says that it cannot be started; all that happens later is in the Timing. May be
    called from several threads at once.
    """
    check_program(command.words, command.directory, command.environment)
    for words in filter(None, (command.prepare, command.cleanup)):
        check_program(words, command.directory, command.environment)
    output = output.absolute()
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(b"")
    except OSError as error:
        raise InputError("output", output, f"a file to write to ({error.strerror})") from None
    try:
        timing = _prepared(command, output, cancel) or _timed(command, output, cancel)
    finally:
        complaint = _cleaned(command, output)
    return replace(timing, reason=timing.reason or complaint)


def _prepared(command: Command, output: Path, cancel: threading.Event | None) -> Timing | None:
    """Prepare the run; None where nothing went wrong."""
    if not command.prepare:
        return None
    timing = _timed(replace(command, words=command.prepare, marker=None), output, cancel)
    if timing.status == "ok":
        return None
    status: Status = "cancelled" if timing.status == "cancelled" else "failed"
    return Timing(status, started=timing.started, reason=f"prepare: {timing.reason}")


def _cleaned(command: Command, output: Path) -> str:
    """Clean up after the run; returns what went wrong, if anything."""
    if not command.cleanup:
        return ""
    own = output.with_name(f"{output.name}.cleanup")
    timing = _timed(replace(command, words=command.cleanup, marker=None), own, None)
    own.unlink(missing_ok=True)
    return timing.reason and f"cleanup: {timing.reason}"


def _timed(command: Command, output: Path, cancel: threading.Event | None) -> Timing:
    """Run the command's own words."""
    killed_before = _oom_kills()
    answer, full = _launched(command, output, cancel)
    if "error" in answer:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return Timing("failed", started=now, reason=f"cannot be started: {answer['error']}")
    last = _last_bytes(output)
    status, reason = _judged(command, answer, last, _oom_kills() > killed_before)
    if full:
        status, reason = "failed", full
    seconds = answer["wall_seconds"] if status == "ok" else None
    if status == "ok" and command.marker is not None:
        try:
            whole = answer["printed_bytes"] <= command.output_limit
            seconds = command.marker.seconds(output.read_bytes(), answer["marks"], whole)
        except InputError as error:
            status, reason, seconds = "failed", str(error), None
    load = answer["other_seconds"] / answer["wall_seconds"]
    return Timing(
        status,
        seconds,
        answer["wall_seconds"],
        answer["user_seconds"],
        answer["system_seconds"],
        answer["memory_bytes"],
        answer["exit_code"],
        datetime.fromtimestamp(answer["started"], UTC).isoformat(timespec="milliseconds"),
        max(0.0, load) if answer["wall_seconds"] >= SHORTEST else 0.0,
        answer["left_behind"],
        answer["printed_bytes"],
        reason,
    )


def _judged(
    command: Command, answer: dict[str, Any], last: str, killed: bool
) -> tuple[Status, str]:
    """How the run ended and, unless it was well, why."""
    if answer["ended"] == "timed_out":
        return "timed_out", f"took longer than {quantities.seconds(command.timeout or 0)}"
    if answer["ended"]:
        return "cancelled", "cancelled"
    code = answer["exit_code"]
    if code == 0:
        return "ok", ""
    lines = re.split(r"[\r\n]+", last.strip())
    quoted = f": {one_line(lines[-1][:LONGEST_LINE])}" if lines[-1] else ""
    if killed or OUT_OF_MEMORY.search(last):
        return "out_of_memory", f"ran out of memory{quoted}"
    how = f"ended by {_signal_name(-code)}" if code < 0 else f"exit code {code}"
    return "failed", how + quoted


def _launched(
    command: Command, output: Path, cancel: threading.Event | None
) -> tuple[dict[str, Any], str]:
    """What the launcher saw of the command, and whether the disk was about to fill."""
    directory = (command.directory or Path()).absolute()
    unbuffered = {"PYTHONUNBUFFERED": "1"} if command.marker else {}  # or lines come late
    spec = {
        "program": check_program(command.words, command.directory, command.environment),
        "words": command.words,
        "directory": str(directory),
        "environment": {**unbuffered, **command.environment},
        "timeout": command.timeout,
        "output": str(output),
        "output_limit": command.output_limit,
        "marks": command.marker is not None,
    }
    full = ""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", LAUNCHER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as launcher:
        assert launcher.stdin is not None
        assert launcher.stdout is not None
        launcher.stdin.write(json.dumps(spec).encode() + b"\n")
        launcher.stdin.flush()
        answered = select.poll()
        answered.register(launcher.stdout, select.POLLIN)
        while not answered.poll(1000 * TICK):
            full = _full_disk((directory, output.parent), command.disk_reserve)
            if full or (cancel is not None and cancel.is_set()):
                launcher.stdin.close()
                break
        answer = launcher.stdout.read()
    if not answer:
        return {"error": "its launcher was ended from outside"}, full
    return json.loads(answer), full


def _full_disk(paths: Iterable[Path], reserve: int) -> str:
    for path in paths:
        free = shutil.disk_usage(path).free
        if free < reserve:
            left, kept = (quantities.amount(size, "bytes") for size in (free, reserve))
            return f"fills the disk: {left} free at {path}, where {kept} must stay free"
    return ""


def _last_bytes(output: Path) -> str:
    with output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - LAST_BYTES))
        return file.read().decode(errors="replace")


def _oom_kills() -> int:
    """How many processes the kernel has ended for want of memory since the machine started."""
    with Path("/proc/vmstat").open() as file:
        return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
