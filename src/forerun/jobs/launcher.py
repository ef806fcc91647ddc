"""Start one program, time it, keep what it prints, and leave nothing of it behind.

`time_command` runs this module alone, in a process of its own for every run. That process is
small, for the kernel counts a program's peak memory from that of the process that started it: less
than about 12 MB cannot be told. It adopts what the program leaves behind, and so can end it. What
to do comes on standard input, which then stays open as a lifeline: when that ends, because forerun
cancels the run or has died, every process of the run is ended. What it saw goes to standard output,
as JSON. It imports little, for speed and size, and nothing of forerun.
"""

# Neither pathlib nor typing nor json: they would make it slower to start, and larger.
# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import select
import signal
import sys
import threading
import time
from array import array
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, of prctl(2)
PIPE_BYTES = 2**20  # that a program can be ahead of the reader
PIECE_BYTES = 2**16  # read at once
TAIL_BYTES = 2**20  # of a long output's end that are kept
PAUSE = 0.001  # seconds after a small read, so that a program does not wake us for each line
SHORTEST = 0.1  # seconds of a run in which the load can be told: the kernel counts it in 10 ms
REST = 0.001  # seconds before the start: on a busy machine our turn is used up, and it would wait
SETTLE = 0.5  # seconds in which what was left behind may end by itself
GRACE = 1.0  # seconds between asking a process to end and forcing it to
FORCE = 10.0  # seconds of forcing, after which nobody can end it


class Task:
    """What to run and how: bytes, as the kernel takes them, and numbers."""

    def __init__(
        self,
        program: bytes,
        words: list[bytes],
        environment: Mapping[bytes, bytes],  # added to the inherited one
        directory: bytes,
        output: bytes,
        output_limit: int,
        timeout: float,  # inf: none
        marks: bool,  # whether to answer when its lines came
    ) -> None:
        self.program, self.words, self.environment = program, words, environment
        self.directory, self.output, self.output_limit = directory, output, output_limit
        self.timeout, self.marks = timeout, marks

    def packed(self) -> bytes:
        """As it goes through the pipe: its length, then fields, which nothing but NUL can part."""
        numbers = b"%d %r %d %d" % (self.output_limit, self.timeout, self.marks, len(self.words))
        pairs = (part for pair in self.environment.items() for part in pair)
        fields = (self.program, self.directory, self.output, numbers, *self.words, *pairs)
        packed = b"\0".join(fields)
        return b"%d\n%b" % (len(packed), packed)

    @staticmethod
    def unpacked(packed: bytes) -> Task:
        program, directory, output, numbers, *rest = packed.split(b"\0")
        limit, timeout, marks, count = numbers.split()
        words, pairs = rest[: int(count)], rest[int(count) :]
        environment = dict(zip(pairs[::2], pairs[1::2], strict=True))
        seconds, wanted = float(timeout), marks == b"1"
        return Task(program, words, environment, directory, output, int(limit), seconds, wanted)


class Output:
    """The first part and the end of what a program prints, and when its lines came."""

    def __init__(self, path: bytes | str, limit: int) -> None:
        self.limit = limit
        self.tail_limit = tail_bytes(limit)
        self.room = limit - self.tail_limit
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666)
        self.tail = bytearray()
        self.printed = self.written = 0
        # Where and when pieces ended in which a line did; none past the limit.
        self.offsets, self.times = array("q"), array("d")

    def read_all(self, pipe: int) -> None:
        """Read until nobody holds the pipe's other end."""
        while piece := os.read(pipe, PIECE_BYTES):
            self.add(piece, time.monotonic())
            if len(piece) < PIECE_BYTES:
                time.sleep(PAUSE)
        time.sleep(PAUSE)  # the program has ended: leave the processor to who takes its time

    def add(self, piece: bytes, now: float) -> None:
        """Keep what there is room for. A full disk is no reason to stop reading."""
        self.printed += len(piece)
        if self.printed <= self.limit and (b"\n" in piece or b"\r" in piece):
            self.offsets.append(self.printed)
            self.times.append(now)
        if first := piece[: self.room]:
            written = self.write(first)
            self.written += written
            self.room = self.room - written if written == len(first) else 0
            piece = piece[written:]
        self.tail += piece
        if len(self.tail) > self.tail_limit + PIECE_BYTES:
            self.cut_tail()

    def finish(self) -> None:
        """Write the end of what was printed."""
        if self.printed > self.limit:
            self.cut_tail()
            left_out = self.printed - self.written - len(self.tail)
            self.write(b"\n[forerun left out %d bytes here]\n" % left_out)
        self.write(self.tail)

    def cut_tail(self) -> None:
        """Forget what is too far from the end."""
        del self.tail[: len(self.tail) - self.tail_limit]

    def write(self, text: bytes | bytearray) -> int:
        """How much could be written: less than all of it where the disk is full."""
        try:
            return os.write(self.file, text)
        except OSError:
            return 0


def tail_bytes(limit: int) -> int:
    """How much is kept of the end of an output that is longer than the limit."""
    return min(TAIL_BYTES, limit // 2)


def descendants(root: int, session: int | None = None) -> set[int]:
    """The living processes below this one, and below those of the session."""
    parents, found = {}, {root}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:
            state, parent, _, leader = stat.read().rpartition(b")")[2].split()[:4]
            if state not in b"ZX":
                parents[int(name)] = int(parent)
                if int(leader) == session:
                    found.add(int(name))
    while new := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= new
    return found - {root}


def send(number: signal.Signals) -> None:
    """Send a signal to every process below this one."""
    for pid in descendants(os.getpid()):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def reap(seconds: float) -> bool:
    """Wait so long for all children to end; whether they did."""
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
    count = len(descendants(os.getpid()))
    send(signal.SIGTERM)
    gone = reap(GRACE)
    limit = time.monotonic() + FORCE
    while not gone and time.monotonic() < limit:
        send(signal.SIGKILL)
        gone = reap(0.05)
    return count


def hold_lifeline(timeout: float, why: list[str], ended: threading.Event) -> None:
    """Wait for the time-out or the lifeline's end, say which, and end the program; for a thread.

    Once the program has ended the main thread ends what is left, within a time of its own, and
    exits; if the program cannot be ended, this thread exits.
    """
    limit = min(timeout + REST, threading.TIMEOUT_MAX)
    lifeline, _, _ = select.select([sys.stdin], [], [], limit)
    if ended.is_set():
        return
    why.append("cancelled" if lifeline else "timed_out")
    send(signal.SIGTERM)
    pause, limit = GRACE, time.monotonic() + GRACE + FORCE
    while time.monotonic() < limit:
        if ended.wait(pause):
            return
        send(signal.SIGKILL)
        pause = 0.05
    os._exit(1)


def busy_seconds() -> float:
    """Seconds of processor that all others have used, and that a host withheld from its guest."""
    with open("/proc/stat", "rb") as stat:
        user, nice, system, _, _, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    own = resource.getrusage(resource.RUSAGE_SELF)
    return busy - own.ru_utime - own.ru_stime


def start(task: Task, pipe: int) -> tuple[int, float]:
    """Start the program by vfork, without a copy of this process; returns its id and the time."""
    environment = {**os.environb, **task.environment}
    files = (
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, pipe, 1),
        (os.POSIX_SPAWN_DUP2, pipe, 2),
    )
    began = time.monotonic()
    pid = os.posix_spawn(
        task.program,
        task.words,
        environment,
        file_actions=files,
        setpgroup=0,  # not a session: a kernel that shares time by session would start it late
        setsigmask=(),
        setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # Python ignores them; others count on them
    )
    return pid, began


def run(task: Task) -> dict[str, Any]:
    """Run the program; returns what was seen of it."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    os.chdir(task.directory)
    output = Output(task.output, task.output_limit)
    read_end, write_end = os.pipe()
    with suppress(OSError):  # more than this user may have
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    reader = threading.Thread(target=output.read_all, args=(read_end,), daemon=True)
    reader.start()
    why: list[str] = []
    over = threading.Event()
    holder = threading.Thread(target=hold_lifeline, args=(task.timeout, why, over), daemon=True)
    holder.start()
    time.sleep(REST)

    busy, started = busy_seconds(), time.gmtime()
    pid, began = start(task, write_end)
    os.close(write_end)
    while (ended := os.wait())[0] != pid:
        pass  # an orphan of the program that had ended before it
    wall = time.monotonic() - began
    busy = busy_seconds() - busy

    over.set()
    stopped = "".join(why[:1])  # a time-out from here on is none
    left_behind = end_left_behind(0 if stopped else SETTLE)
    reader.join(FORCE)  # or a process that is not ours holds the pipe
    output.finish()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    others = max(0.0, busy - usage.ru_utime - usage.ru_stime)
    return {
        "stopped": stopped,
        "offsets": output.offsets.tolist() if task.marks else [],
        "times": output.times.tolist() if task.marks else [],
        "timing": {
            "wall_seconds": wall,
            "user_seconds": usage.ru_utime,
            "system_seconds": usage.ru_stime,
            "memory_bytes": usage.ru_maxrss * 1024,
            "exit_code": os.waitstatus_to_exitcode(ended[1]),
            "started": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", started),
            "other_load": others / wall if wall >= SHORTEST else 0.0,
            "left_behind": 0 if stopped else left_behind,
            "printed_bytes": output.printed,
        },
    }


def main() -> NoReturn:
    """Do what standard input says, and answer with a line."""
    size = sys.stdin.buffer.readline()
    packed = sys.stdin.buffer.read(int(size or 0))
    if not size or len(packed) < int(size):
        os._exit(0)  # forerun was killed before it had said what to run
    try:
        answer = run(Task.unpacked(packed))
    except OSError as error:
        answer = {"errno": error.errno}
    with suppress(BrokenPipeError):  # forerun is gone
        # JSON: there are only numbers, lists of them, and texts of our own without quotes.
        print(repr(answer).replace("'", '"'), flush=True)
    os._exit(0)  # past the threads, which may still wait
