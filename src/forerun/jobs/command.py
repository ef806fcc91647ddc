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
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from forerun import quantities
from forerun.errors import InputError, one_line
from forerun.jobs.launcher import FORCE, GRACE, Task, descendants, tail_bytes
from forerun.jobs.marker import Marker, Printed
from forerun.study import Status

# Imported, not run as a script, which would be compiled anew each time.
LAUNCH = "import sys; sys.path.append(sys.argv[1]); import launcher; launcher.main()"
VMSTAT = Path("/proc/vmstat")
TICK = 0.1  # seconds between two looks at the disk and at whether to cancel
LAST_BYTES = 4096  # of the output, where its last line and a want of memory are looked for
LONGEST = 200  # characters of the last line that a reason quotes
CLEANUP = 60.0  # seconds that a cleanup may take
ENDING = 2 * GRACE + 3 * FORCE + 5  # seconds in which a launcher has ended all that it can

# All that a run may be measured by, so no factor can have these names.
MEASURES = (
    *("seconds", "wall_seconds", "user_seconds", "system_seconds"),
    *("memory_bytes", "other_load"),
)

OUT_OF_MEMORY = re.compile(
    r"MemoryError|out of memory|OutOfMemory|bad_alloc|(cannot|can't) allocate memory"
    r"|not enough memory|RESOURCE_EXHAUSTED|oom.?kill|exceeded.{0,40}memory limit",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its arguments, and how to run it."""

    words: tuple[str, ...]  # the program and its arguments; never through a shell
    directory: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)  # added to the inherited one
    timeout: float | None = None  # seconds of the run alone; then all its processes are ended
    prepare: tuple[str, ...] = ()  # run before, untimed; where it fails, so has the run
    cleanup: tuple[str, ...] = ()  # run after, always, untimed; ended after a minute
    marker: Marker | None = None
    output_limit: int = 16 * 2**20  # bytes of output that are kept: its first part and its end
    # Free bytes of the disk, or half of what was free before; with fewer the run is ended.
    disk_reserve: int = 2**29

    def __post_init__(self) -> None:
        if self.timeout is not None and not 0 < self.timeout < math.inf:
            raise InputError("timeout", self.timeout, "a number of seconds above 0")
        if self.output_limit < 1:
            raise InputError("output limit", self.output_limit, "a number of bytes above 0")
        for name, value in self.environment.items():
            if not name or "=" in name or not (_passable(name) and _passable(value)):
                raise InputError("environment", f"{name}={value}", "a name and a value")


@dataclass(frozen=True, slots=True)
class Timing:
    """What one run of a command took, and how it ended."""

    status: Status
    seconds: float | None = None  # the wall's, or the marker's; None unless the run is ok
    wall_seconds: float = 0.0
    user_seconds: float = 0.0  # of all its processes together, as the next
    system_seconds: float = 0.0
    memory_bytes: int = 0  # peak resident of its largest process; 12 MB where it was less
    exit_code: int | None = None  # negative: the signal that ended it
    started: str = ""  # ISO 8601, UTC
    other_load: float = 0.0  # processors that others kept busy meanwhile, on average
    left_behind: int = 0  # processes that outlived the program, until they were ended
    printed_bytes: int = 0
    reason: str = ""  # one line: why the run is not ok, or what was wrong with its cleanup

    @property
    def measures(self) -> dict[str, float]:
        """What a run stores: numbers above 0, and none of them a time unless it is ok."""
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
    if not words or not words[0] or not all(map(_passable, words)):
        raise InputError("command", " ".join(words), "a program and its arguments")
    if directory is not None and not directory.is_dir():
        raise InputError("directory", directory, "a directory that exists")
    program = words[0]
    if "/" in program:
        path = Path(directory or "", program)
        found = str(path) if path.is_file() else None
        if found and not os.access(found, os.X_OK):
            raise InputError("command", program, "a file that may be executed (chmod +x)")
    else:
        found = shutil.which(program, path=(environment or {}).get("PATH"))
    if found is None:
        raise InputError("command", program, "a program on the PATH")
    return str(Path(found).absolute())


def time_command(
    command: Command,
    output: Path,
    cancel: threading.Event | None = None,
    hurry: threading.Event | None = None,
) -> Timing:
    """Run a command once and time it; what it prints is kept in the file `output`.

    InputError where it cannot be run; all that happens later is told by the Timing. Once `cancel`
    is set the run is ended, and cleaned up after; once `hurry` is, the cleanup is ended too. May be
    called from several threads at once.
    """
    for words in (command.words, *filter(None, (command.prepare, command.cleanup))):
        check_program(words, command.directory, command.environment)
    output = output.absolute()
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666))
    except OSError as error:
        raise InputError("output", output, f"a file to write to: {error.strerror}") from None
    try:
        timing = _prepared(command, output, cancel) or _timed(command, output, cancel)
    finally:
        complaint = _cleaned(command, output, hurry)
    return replace(timing, reason=timing.reason or complaint)


def _prepared(command: Command, output: Path, cancel: threading.Event | None) -> Timing | None:
    """Prepare the run; None where that went well."""
    if not command.prepare:
        return None
    command = replace(command, words=command.prepare, marker=None, timeout=None)
    timing = _timed(command, output, cancel)
    if timing.status == "ok":
        return None
    status: Status = "cancelled" if timing.status == "cancelled" else "failed"
    return Timing(status, started=timing.started, reason=f"prepare: {timing.reason}")


def _cleaned(command: Command, output: Path, hurry: threading.Event | None) -> str:
    """Clean up after the run, be the disk full or not; returns what went wrong."""
    if not command.cleanup:
        return ""
    own = output.with_name(f"{output.name}.cleanup")
    command = replace(command, words=command.cleanup, marker=None, timeout=CLEANUP, disk_reserve=0)
    timing = _timed(command, own, hurry)
    own.unlink(missing_ok=True)
    return timing.reason and f"cleanup: {timing.reason}"


def _timed(command: Command, output: Path, cancel: threading.Event | None) -> Timing:
    """Run the command's words alone."""
    killed = _killed_for_memory()
    try:
        answer, full = _launched(command, output, cancel)
    except (OSError, InputError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        return _untimed("failed", f"cannot be started: {why}")
    if not answer:
        if cancel is not None and cancel.is_set():
            return _untimed("cancelled", "cancelled")
        return _untimed("failed", full or "its launcher was ended or stopped")
    timing = Timing("ok", answer["timing"]["wall_seconds"], **answer["timing"])
    if answer["stopped"] == "timed_out":
        reason = f"took longer than {quantities.seconds(command.timeout or 0)}"
        return _not_ok(timing, "timed_out", reason)
    if answer["stopped"]:
        return _not_ok(timing, "failed" if full else "cancelled", full or "cancelled")
    if timing.exit_code != 0:
        return _failed(timing, output, _killed_for_memory() > killed)
    if command.marker is not None:
        return _marked(timing, command, output, answer["offsets"], answer["times"])
    return timing


def _untimed(status: Status, reason: str) -> Timing:
    """Of a run that nobody can say any more of."""
    return Timing(status, started=datetime.now(UTC).isoformat(timespec="seconds"), reason=reason)


def _not_ok(timing: Timing, status: Status, reason: str) -> Timing:
    return replace(timing, status=status, seconds=None, reason=reason)


def _failed(timing: Timing, output: Path, killed: bool) -> Timing:
    """A run that ended by itself, but not well, with the last line of its output as the reason."""
    last, quoted = _end_of(output), last_line(output)
    if killed or OUT_OF_MEMORY.search(last):
        return _not_ok(timing, "out_of_memory", f"ran out of memory{quoted}")
    code = timing.exit_code or 0
    how = f"exit code {code}" if code > 0 else f"ended by {_signal_name(-code)}"
    return _not_ok(timing, "failed", how + quoted)


def last_line(output: Path) -> str:
    """The last line of what was printed, as a reason goes on with it; empty where there is none."""
    line = re.split(r"[\r\n]", _end_of(output))[-1]
    return f": {one_line(line[:LONGEST])}" if line else ""


def _end_of(output: Path) -> str:
    return _kept(output, LAST_BYTES).decode(errors="replace").strip()


def _marked(
    timing: Timing, command: Command, output: Path, offsets: list[int], times: list[float]
) -> Timing:
    """The time that the marker finds in the output of a run that is ok so far."""
    assert command.marker is not None
    limit = command.output_limit
    whole = timing.printed_bytes <= limit
    text = _kept(output, limit if whole else tail_bytes(limit))
    try:
        seconds = command.marker.seconds(Printed(text, offsets, times, whole))
    except InputError as error:
        return _not_ok(timing, "failed", str(error))
    return replace(timing, seconds=seconds)


def _kept(output: Path, count: int) -> bytes:
    """The last bytes of what was kept; nothing where the program has removed it."""
    try:
        with output.open("rb") as file:
            file.seek(max(0, output.stat().st_size - count))
            return file.read(count)
    except OSError:
        return b""


def _launched(
    command: Command, output: Path, cancel: threading.Event | None
) -> tuple[dict[str, Any], str]:
    """What the launcher saw of the command, and how the disk was filling, if it was.

    Nothing where the program has kept its launcher from answering.
    """
    full = ""
    reserves = _reserves({command.directory or Path(), output.parent}, command.disk_reserve)
    limit = math.inf if command.timeout is None else time.monotonic() + command.timeout + ENDING
    with _launcher(_task(command, output)) as (launcher, lifeline, answer):
        answered = select.poll()
        answered.register(answer, select.POLLIN)
        while not answered.poll(1000 * TICK) and time.monotonic() < limit:
            os.kill(launcher, signal.SIGCONT)  # the program may have stopped it
            full = full or _full_disk(reserves)
            if not lifeline.closed and (full or (cancel is not None and cancel.is_set())):
                lifeline.close()
                limit = time.monotonic() + ENDING
        seen = json.loads((answered.poll(0) and answer.read()) or "{}")
        if not seen:
            _end_all(launcher)
    if "errno" in seen:
        raise OSError(seen["errno"], os.strerror(seen["errno"]))
    return seen, full


def _end_all(launcher: int) -> None:
    """End a launcher that does not do so itself, and all processes below it and of its session."""
    limit = time.monotonic() + FORCE
    found = {launcher}
    while found and time.monotonic() < limit:
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
        found = descendants(launcher, session=launcher)


def _task(command: Command, output: Path) -> Task:
    """What the launcher is to do."""
    program = check_program(command.words, command.directory, command.environment)
    # With a marker, or a Python program's lines would come many at once.
    unbuffered = {} if command.marker is None else {"PYTHONUNBUFFERED": "1"}
    environment = {**unbuffered, **command.environment}
    return Task(
        os.fsencode(program),
        [os.fsencode(word) for word in command.words],
        {os.fsencode(name): os.fsencode(value) for name, value in environment.items()},
        directory=os.fsencode((command.directory or Path()).absolute()),
        output=os.fsencode(output),
        output_limit=command.output_limit,
        timeout=math.inf if command.timeout is None else command.timeout,
        marks=command.marker is not None,
    )


@contextmanager
def _launcher(task: Task) -> Iterator[tuple[int, IO[bytes], IO[bytes]]]:
    """A launcher, its lifeline and its answer; with the context it ends, and so does the program.

    It leads a session of its own, so that its processes can be told even when it is gone.
    """
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", LAUNCH, Path(__file__).parent],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # what is typed at the terminal is meant for us
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with suppress(BrokenPipeError):
            process.stdin.write(task.packed())
            process.stdin.flush()
        yield process.pid, process.stdin, process.stdout
    finally:
        process.stdout.close()
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(ENDING)
        except subprocess.TimeoutExpired:
            _end_all(process.pid)
            process.wait()


def _reserves(paths: set[Path], most: int) -> dict[Path, int]:
    """The bytes that must stay free at each place: on a disk that is nearly full already, half."""
    found = {}
    for path in paths:
        with suppress(OSError):
            found[path] = min(most, shutil.disk_usage(path).free // 2)
    return found


def _full_disk(reserves: Mapping[Path, int]) -> str:
    """That one of these places has less than its reserve left; empty where none has."""
    for path, reserve in reserves.items():
        with suppress(OSError):  # the program may have removed it
            free = shutil.disk_usage(path).free
            if free < reserve:
                left, kept = (quantities.amount(size, "bytes") for size in (free, reserve))
                return f"fills the disk: {left} free at {path}, where {kept} must stay free"
    return ""


def _killed_for_memory() -> int:
    """How many processes the kernel has ended for want of memory since the machine started.

    0 where it does not tell, as in some containers.
    """
    with suppress(OSError), VMSTAT.open() as file:
        return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    return 0


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _passable(text: str) -> bool:
    """Whether the kernel takes this as an argument or a variable."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False
