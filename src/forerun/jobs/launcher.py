"""Start one program, time it, keep its output, and leave nothing of it behind.

`time_command` runs this file as a script, a process of its own for each program. A program's peak
memory is counted from that of the process that started it, so that one must be small: nothing below
its own 12 MB can be told. It adopts whatever the program leaves behind, and so finds and ends it.
It learns what to do from one line of JSON on standard input, which then stays open as a lifeline:
when that ends, because forerun cancels or has died, so does the program. What it saw goes to
standard output. It must import little, for speed and size, and nothing of forerun.
"""

# pathlib would make it slower to start, and larger.
# ruff: noqa: PTH123, PTH208

import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import Any, NoReturn

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
PIPE_BYTES = 2**20  # of output that a program may be ahead of the reader
PIECE_BYTES = 2**16
TAIL_BYTES = 2**20
PAUSE = 0.001  # seconds between two reads: a program that prints a lot wakes no reader each time
SETTLE = 0.5  # seconds in which what a program leaves behind may end by itself
GRACE = 1.0  # seconds between asking to end and forcing it
FORCE = 10.0  # seconds of forcing, after which a process cannot be ended by anybody


class Output:
    """The first part and the last MiB of what a program prints, and when each piece of it came."""

    def __init__(self, path: str, limit: int) -> None:
        self.limit = limit
        self.room = limit - min(TAIL_BYTES, limit // 2)
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self.tail = bytearray()
        self.printed = self.written = 0
        self.marks: list[tuple[int, float]] = []  # bytes printed so far, time

    def read_all(self, pipe: int) -> None:
        """Read until nobody holds the other end; the disk may fill meanwhile."""
        while piece := os.read(pipe, PIECE_BYTES):
            self.add(piece, time.monotonic())
            if len(piece) < PIECE_BYTES:
                time.sleep(PAUSE)
        left_out = self.printed - self.written - len(self.tail)
        if left_out:
            self.write(b"\n[forerun left out %d bytes here]\n" % left_out)
        self.write(self.tail)

    def add(self, piece: bytes, now: float) -> None:
        self.printed += len(piece)
        if self.printed <= self.limit:
            self.marks.append((self.printed, now))
        if first := piece[: self.room]:
            written = self.write(first)
            self.written += written
            self.room = self.room - written if written == len(first) else 0
            piece = piece[written:]
        self.tail += piece
        if len(self.tail) > 2 * TAIL_BYTES:
            del self.tail[:-TAIL_BYTES]

    def write(self, text: bytes | bytearray) -> int:
        """How much of the text was written: less than all of it where the disk is full."""
        try:
            return os.write(self.file, text)
        except OSError:
            return 0


def descendants() -> set[int]:
    """Every living process below this one."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:
            state, parent = stat.read().rpartition(b")")[2].split()[:2]
            if state not in b"ZX":
                parents[int(name)] = int(parent)
    found = {os.getpid()}
    while new := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= new
    return found - {os.getpid()}


def send(number: signal.Signals) -> None:
    """Send a signal to every process below this one."""
    for pid in descendants():
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def hold_lifeline(timeout: float | None, why: list[str]) -> NoReturn:
    """Wait for the lifeline's end or the time-out, then end every process; for a thread."""
    readable, _, _ = select.select([0], [], [], timeout)
    why.append("cancelled" if readable else "timed_out")
    send(signal.SIGTERM)
    time.sleep(GRACE)
    forced = time.monotonic()
    while time.monotonic() < forced + FORCE:
        send(signal.SIGKILL)
        time.sleep(0.05)
    os._exit(1)


def reap(seconds: float) -> bool:
    """Wait this long for all children; whether none is left."""
    limit = time.monotonic() + seconds
    with suppress(ChildProcessError):
        while time.monotonic() < limit:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.002)
        return False
    return True


def end_left_behind(settle: float) -> int:
    """End what the program left behind; returns how many processes did not end by themselves."""
    if reap(settle):
        return 0
    count = len(descendants())
    send(signal.SIGTERM)
    limit = time.monotonic() + FORCE
    gone = reap(GRACE)
    while not gone and time.monotonic() < limit:
        send(signal.SIGKILL)
        gone = reap(0.05)
    return count


def busy_seconds() -> float:
    """Seconds for which the machine's processors were busy, all together, since it started."""
    with open("/proc/stat", "rb") as stat:
        user, nice, system, _, _, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """Seconds of processor that this process has used."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def start(spec: dict[str, Any], pipe: int) -> int:
    """Start the program, by vfork and so at no cost of its own; returns its process id."""
    return os.posix_spawn(
        spec["program"],
        spec["words"],
        {**os.environ, **spec["environment"]},
        file_actions=(
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, pipe, 1),
            (os.POSIX_SPAWN_DUP2, pipe, 2),
        ),
        setsid=True,  # what is typed at the terminal is for forerun
        setsigmask=(),
        setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # Python ignores them, others must not
    )


def run(spec: dict[str, Any]) -> dict[str, Any]:
    """Run the program that the specification names; returns what was seen of it."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    os.chdir(spec["directory"])
    output = Output(spec["output"], spec["output_limit"])
    read_end, write_end = os.pipe()
    with suppress(OSError):  # more than this user may have
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    reader = threading.Thread(target=output.read_all, args=(read_end,), daemon=True)
    reader.start()
    why: list[str] = []  # it was ended, if it was
    holder = threading.Thread(target=hold_lifeline, args=(spec["timeout"], why), daemon=True)

    busy, own = busy_seconds(), own_seconds()
    started, began = time.time(), time.monotonic()
    pid = start(spec, write_end)
    os.close(write_end)
    holder.start()
    while (ended := os.wait())[0] != pid:
        pass
    wall = time.monotonic() - began
    busy, own = busy_seconds() - busy, own_seconds() - own

    left_behind = end_left_behind(0 if why else SETTLE)
    reader.join(GRACE)  # somebody whom we did not start may hold the pipe
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "ended": why[0] if why else "",
        "exit_code": os.waitstatus_to_exitcode(ended[1]),
        "wall_seconds": wall,
        "user_seconds": usage.ru_utime,
        "system_seconds": usage.ru_stime,
        "memory_bytes": usage.ru_maxrss * 1024,
        "other_seconds": busy - own - usage.ru_utime - usage.ru_stime,
        "started": started,
        "left_behind": 0 if why else left_behind,
        "printed_bytes": output.printed,
        "marks": [(offset, now - began) for offset, now in output.marks] if spec["marks"] else [],
    }


def main() -> NoReturn:
    """Do as one line of standard input says, and answer with one line."""
    spec = json.loads(sys.stdin.buffer.readline())
    try:
        answer = run(spec)
    except OSError as error:
        answer = {"error": error.strerror}
    with suppress(BrokenPipeError):  # forerun is gone
        print(json.dumps(answer), flush=True)
    os._exit(0)  # past the threads, which wait


if __name__ == "__main__":
    main()
