"""Run one job's script on this machine to its end, whether forerun is still there or not.

`Local` starts this module alone, in a process of its own that leads a session and outlives who
started it. What it sees goes into the file `process` of the job's folder, a line at a time:

    uid 0123…      whose job it is          memory 123456   bytes, peak of a process
    pid 4711       of this process          oom 1           the kernel ended processes for memory
    ticks 98765    when that started        timed_out T     its wall time was over
    boot 7f3a-…    of the machine           cancelled T     somebody asked for its end
    host n1        and its name             code 0          of the script, 128 + n for a signal
    began T        the script               ended T         nothing is left of it

Whoever makes that file runs the job: a second supervisor finds it there and goes. Nothing of
forerun is imported but `launcher`, for how processes are ended.
"""

# Neither pathlib nor forerun: this process stays for as long as the job runs, and stays small.
# ruff: noqa: PTH108, PTH118, PTH120, PTH123

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from forerun.jobs import launcher
else:
    import launcher  # beside this file, and on the path of whoever runs it

FILE = "process"
GRACE = 10.0  # seconds between asking the job to end, so that it can save, and forcing it to
LONGEST = 3600.0  # seconds of one wait
ASKED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
HEARD = {*ASKED, signal.SIGCHLD}


def write(record: int, *lines: str) -> None:
    """Append lines, whole or not at all."""
    with suppress(OSError):  # a full disk must not end the job
        os.write(record, "".join(f"{line}\n" for line in lines).encode())


def ticks(pid: int) -> int:
    """When a process started, in the kernel's ticks: with its number, no other one has that."""
    with open(f"/proc/{pid}/stat", "rb") as stat:
        return int(stat.read().rpartition(b")")[2].split()[19])


def killed_for_memory() -> int:
    """How many processes the kernel has ended for want of memory; 0 where it does not tell."""
    with suppress(OSError), open("/proc/vmstat", "rb") as file:
        return next((int(line.split()[1]) for line in file if line.startswith(b"oom_kill ")), 0)
    return 0


def started(folder: str, uid: str) -> int:
    """The file in which this process says that the job is its own; -1 where another one was first.

    It appears whole: a process that dies before has not started the job.
    """
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    own = os.path.join(folder, f".{FILE}-{os.urandom(8).hex()}")  # nobody can have put it there
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_APPEND | os.O_CLOEXEC
    record = os.open(own, flags, 0o644)
    try:
        pid, host = os.getpid(), os.uname().nodename
        lines = (f"uid {uid}", f"pid {pid}", f"ticks {ticks(pid)}", f"boot {boot}", f"host {host}")
        os.write(record, "".join(f"{line}\n" for line in lines).encode())
        os.link(own, os.path.join(folder, FILE))
    except FileExistsError:
        os.close(record)
        return -1
    finally:
        os.unlink(own)
    return record


def spawn(script: str) -> int:
    """Start the script; its output goes to the end of `job.out`, unless it sends it elsewhere.

    Never through a link, which somebody may have put there to have another file written to.
    """
    output = os.path.join(os.path.dirname(script), "job.out")
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    return os.posix_spawnp(
        "bash",
        ["bash", script],
        os.environ,
        file_actions=(
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, output, flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ),
        setsigmask=(),
        setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
    )


def reaped(pid: int) -> int | None:
    """The exit code of a child once it has ended; what else has ended is taken away too."""
    code = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            if ended[0] == pid:
                code = os.waitstatus_to_exitcode(ended[1])
    return code


def awaited(pid: int, walltime: float) -> tuple[int | None, str]:
    """The exit code, and why it did not end by itself: then it has not ended yet."""
    until = time.monotonic() + walltime
    while True:
        left = until - time.monotonic()
        heard = signal.sigtimedwait(HEARD, min(max(left, 0.0), LONGEST))
        if (code := reaped(pid)) is not None:
            return code, ""
        if heard is not None and heard.si_signo in ASKED:
            return None, "cancelled"
        if left <= 0:
            return None, "timed_out"


def end(pid: int) -> int:
    """Ask all processes of the job to end, and force those that do not; the script's exit code."""
    launcher.send(signal.SIGTERM)
    launcher.send(signal.SIGCONT)  # one that was stopped could not hear it
    code = None
    begun = time.monotonic()
    while (waited := time.monotonic() - begun) < GRACE + launcher.FORCE:
        found = reaped(pid)
        code = code if found is None else found
        if code is not None and not launcher.descendants(os.getpid()):
            break
        if waited > GRACE:
            launcher.send(signal.SIGKILL)
        signal.sigtimedwait({signal.SIGCHLD}, 0.1)
    return -signal.SIGKILL if code is None else code


def run(folder: str, script: str, uid: str, walltime: float, told: int) -> None:
    """Run the job, unless another process does; `told` is closed once it has started."""
    record = started(folder, uid)
    if record < 0:
        return
    ctypes.CDLL(None).prctl(launcher.SUBREAPER, 1, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    killed = killed_for_memory()
    write(record, f"began {time.time():.3f}")
    try:
        pid = spawn(script)
    except OSError:
        write(record, "code 127", f"ended {time.time():.3f}")
        raise
    os.close(told)
    code, why = awaited(pid, walltime)
    if why:
        write(record, f"{why} {time.time():.3f}")
        code = end(pid)
    assert code is not None
    launcher.end_left_behind(0 if why else launcher.SETTLE)
    if code and killed_for_memory() > killed:
        write(record, "oom 1")
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    code = code if code >= 0 else 128 - code
    write(record, f"memory {memory}", f"code {code}", f"ended {time.time():.3f}")


def main() -> NoReturn:
    """Leave who started this, once the job runs, and see it to its end."""
    folder, script, uid, walltime = sys.argv[2:6]
    answer, told = os.pipe()
    if os.fork():
        os.close(told)
        complaint = os.read(answer, 4096)  # nothing once the job has started
        os.write(2, complaint)
        os._exit(1 if complaint else 0)
    os.close(answer)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # or who reads what we print would wait for the job
        os.dup2(nothing, stream)
    try:
        os.chdir(folder)
        run(folder, script, uid, float(walltime), told)
    except OSError as error:
        with suppress(OSError):
            os.write(told, (error.strerror or "no reason").encode())
    os._exit(0)
