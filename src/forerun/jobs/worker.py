"""One process of a job: run the program, pass signals on to it, note its memory and its time.

    python3 worker.py ATTEMPT_FILE program argument …

A copy of this file lies in the folder of each job, and is run by whatever Python the node or the
image has: it needs nothing but the standard library of Python 3.8, and nothing of forerun.

It exits as the program did: with its code, or with 128 and the number of the signal that ended it.
With FORERUN_SAVE_BELOW in the environment the program is a launcher that does not know SIGUSR1
(torchrun): it ignores the signal, and the processes that it started get it. SIGWINCH, which means
nothing to a program without a screen, is passed on as SIGUSR1: whoever signals a whole tree of
processes reaches the program by that one way alone.
"""

# Not pathlib: it would make this slower to start, and larger.
# ruff: noqa: PTH123, PTH208

import os
import signal
import sys
import time
from contextlib import suppress

PASSED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGCONT, signal.SIGWINCH)
SAVE = signal.SIGUSR1
BELOW = "FORERUN_SAVE_BELOW"
PR_SET_PDEATHSIG = 1  # of prctl(2)
# Where launchers say which process this is; those that start it last come first.
RANKS = (
    *("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"),
    *("FORERUN_RANK", "SLURM_PROCID", "RANK", "JOB_COMPLETION_INDEX"),
)


def main(attempt: str, words: "list[str]") -> int:
    """Run the program to its end; the code to exit with."""
    below = os.environ.pop(BELOW, "") != ""
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED)  # none is lost before there is a program
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        become(words, below)

    def pass_on(number: int, _: object) -> None:
        passed = SAVE if number == signal.SIGWINCH else number
        for one in children(pid) if below and passed == SAVE else [pid]:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(one, passed)

    for number in PASSED:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED)
    _, status, usage = os.wait4(pid, 0)
    note(attempt, usage.ru_maxrss * 1024, time.monotonic() - began)
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status)
    return os.WEXITSTATUS(status)


def become(words: "list[str]", below: bool) -> None:
    """Turn this process into the program; it ends with the one that started it."""
    with suppress(Exception):  # a Python without ctypes
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    # A shell ignores SIGINT for what it runs in the background, and Python ignores SIGPIPE.
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    if below:
        signal.signal(SAVE, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED)
    try:
        os.execvp(words[0], words)
    except OSError as error:
        print(f"{words[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def children(parent: int) -> "list[int]":
    """The processes that a process has started."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError, ValueError), open(f"/proc/{name}/stat", "rb") as stat:
            if int(stat.read().rpartition(b")")[2].split()[1]) == parent:
                found.append(int(name))
    return found


def note(attempt: str, peak: int, seconds: float) -> None:
    """Append the peak in bytes and the time, by one write: others append to the same file.

    The time is by a clock that nobody sets: the job's own, of the day, may have been.
    """
    rank = next((os.environ[name] for name in RANKS if os.environ.get(name, "").isdigit()), "0")
    with suppress(OSError):
        file = os.open(attempt, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        os.write(file, f"peak {rank} {peak}\nran {rank} {seconds:.3f}\n".encode())
        os.close(file)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("worker.py: found no program, expected ATTEMPT_FILE program argument …")
    sys.exit(main(sys.argv[1], sys.argv[2:]))
