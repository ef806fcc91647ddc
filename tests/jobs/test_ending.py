"""Runs that do not end by themselves, and what is left of them: nothing."""

import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from patience import ENDLESS, LONG, alive, time_outs_begin, wait_for

from forerun.jobs import Command, Timing, time_command
from forerun.jobs import command as jobs_command
from forerun.jobs.launcher import Task

# A program of three processes, one of which has left its group and session.
FAMILY = f"echo $$ >> pids; sleep {ENDLESS} & echo $! >> pids; "
FAMILY += f"setsid sh -c 'echo $$ >> pids; sleep {ENDLESS}'"
STUBBORN = "trap '' TERM; " + FAMILY
DAEMON = f"setsid sh -c 'echo $$ >> pids; exec sleep {ENDLESS}' & sleep 0.1"
# For launchers: whether so many processes of a program are there.
STARTED = "os.path.exists('pids') and open('pids').read().count(chr(10)) == {}"


def shell(text: str, directory: Path, **options: object) -> Command:
    return Command(("sh", "-c", text), directory, **options)  # type: ignore[arg-type]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "output.txt"


def pids(directory: Path) -> list[int]:
    file = directory / "pids"
    return [int(pid) for pid in file.read_text().split()] if file.exists() else []


@pytest.mark.parametrize("program", [FAMILY, STUBBORN], ids=["family", "stubborn"])
def test_a_time_out_ends_every_process(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    time_outs_begin(monkeypatch, STARTED.format(3))
    timing = time_command(shell(program, tmp_path, timeout=0.3), output)
    assert (timing.status, timing.seconds) == ("timed_out", None)
    assert timing.reason == "took longer than 300 ms"
    assert 0.3 <= timing.wall_seconds < 2 * LONG
    assert len(pids(tmp_path)) == 3
    assert not any(map(alive, pids(tmp_path)))


def test_a_program_that_stops_itself_is_timed_out(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_outs_begin(monkeypatch, "True")
    timing = time_command(shell("kill -STOP $$", tmp_path, timeout=0.2), output)
    assert timing.status == "timed_out"


def test_a_program_that_ends_well_when_asked_to_is_still_timed_out(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_outs_begin(monkeypatch, STARTED.format(1), GRACE=LONG)
    polite = "trap 'echo saved; exit 0' TERM; echo $$ >> pids; while :; do sleep 0.05; done"
    timing = time_command(shell(polite, tmp_path, timeout=0.3), output)
    assert (timing.status, timing.exit_code) == ("timed_out", 0)
    assert output.read_text().endswith("saved\n")


def test_any_time_out_is_taken(tmp_path: Path, output: Path) -> None:
    assert time_command(shell("sleep 0.1", tmp_path, timeout=1e300), output).status == "ok"


def test_what_goes_on_in_the_background_is_ended(tmp_path: Path, output: Path) -> None:
    timing = time_command(shell(DAEMON, tmp_path), output)
    assert (timing.status, timing.left_behind) == ("ok", 1)
    assert timing.wall_seconds < 2 * LONG
    assert not any(map(alive, pids(tmp_path)))


def test_what_ends_by_itself_soon_after_is_not_left_behind(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_outs_begin(monkeypatch, "True", SETTLE=LONG)
    timing = time_command(shell("(sleep 0.1; echo late) &", tmp_path), output)
    assert (timing.status, timing.left_behind) == ("ok", 0)
    assert output.read_text() == "late\n"


def test_a_time_out_after_the_program_has_ended_is_none(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_outs_begin(monkeypatch, "False")  # while what is left behind may end by itself
    timing = time_command(shell(DAEMON, tmp_path, timeout=0.1), output)
    assert timing.status == "ok"
    assert not any(map(alive, pids(tmp_path)))


def test_cancelling(tmp_path: Path, output: Path) -> None:
    cancel = threading.Event()
    threading.Timer(0.3, cancel.set).start()
    command = shell(FAMILY, tmp_path, cleanup=("touch", "cleaned"))
    timing = time_command(command, output, cancel)
    assert (timing.status, timing.reason, timing.seconds) == ("cancelled", "cancelled", None)
    assert not any(map(alive, pids(tmp_path)))
    assert (tmp_path / "cleaned").exists()


def test_cancelling_while_it_is_prepared(tmp_path: Path, output: Path) -> None:
    cancel = threading.Event()
    cancel.set()
    command = shell("touch ran", tmp_path, prepare=("sleep", str(ENDLESS)))
    timing = time_command(command, output, cancel)
    assert (timing.status, timing.reason) == ("cancelled", "prepare: cancelled")
    assert not (tmp_path / "ran").exists()


def test_the_time_out_is_for_the_run_alone(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []
    task_of = jobs_command._task

    def noted(command: Command, kept: Path) -> Task:
        task = task_of(command, kept)
        limits.append(task.timeout)
        return task

    monkeypatch.setattr(jobs_command, "_task", noted)
    around = {"prepare": ("sleep", "0.1"), "cleanup": ("sleep", "0.1")}
    timing = time_command(shell("true", tmp_path, timeout=LONG, **around), output)
    assert (timing.status, timing.reason) == ("ok", "")
    assert limits == [math.inf, LONG, jobs_command.CLEANUP]  # each from its own beginning


def test_a_cleanup_that_hangs_is_ended(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_outs_begin(monkeypatch, "True")
    monkeypatch.setattr(jobs_command, "CLEANUP", 0.3)
    command = shell("true", tmp_path, cleanup=("sleep", str(ENDLESS)))
    timing = time_command(command, output)
    assert (timing.status, timing.reason) == ("ok", "cleanup: took longer than 300 ms")


def test_a_cleanup_can_be_ended_but_not_by_what_ends_the_run(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_command, "CLEANUP", LONG)
    cancel, hurry = threading.Event(), threading.Event()
    cancel.set()
    cleanup = ("sh", "-c", "sleep 0.5; touch cleaned")
    cleaning = shell(f"sleep {ENDLESS}", tmp_path, cleanup=cleanup)
    timing = time_command(cleaning, output, cancel, hurry)
    assert (timing.status, timing.reason) == ("cancelled", "cancelled")
    assert (tmp_path / "cleaned").exists()
    threading.Timer(0.3, hurry.set).start()
    hanging = shell("true", tmp_path, cleanup=("sh", "-c", FAMILY))
    timing = time_command(hanging, output, None, hurry)
    assert (timing.status, timing.reason) == ("ok", "cleanup: cancelled")
    assert not any(map(alive, pids(tmp_path)))


class InterruptionError(Exception):
    pass


@pytest.fixture
def interrupted(tmp_path: Path) -> Iterator[None]:
    """An exception in the main thread once the program runs, as Control-C makes one."""

    def interrupt(*_: object) -> None:
        raise InterruptionError

    def interrupt_soon() -> None:
        wait_for(lambda: len(pids(tmp_path)) == 3)
        ident = threading.main_thread().ident
        assert ident is not None
        signal.pthread_kill(ident, signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, interrupt)
    other = threading.Thread(target=interrupt_soon)
    other.start()
    yield
    other.join()
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("interrupted")
def test_an_interruption_ends_the_program_and_cleans_up(tmp_path: Path, output: Path) -> None:
    command = shell(STUBBORN, tmp_path, cleanup=("touch", "cleaned"))
    with pytest.raises(InterruptionError):
        time_command(command, output)
    assert len(pids(tmp_path)) == 3
    assert not any(map(alive, pids(tmp_path)))
    assert (tmp_path / "cleaned").exists()


def forerun_process(text: str, directory: Path) -> subprocess.Popen[str]:
    """Another process that times this text for a shell."""
    program = f"""
import signal
from pathlib import Path
from forerun.jobs import Command, time_command
signal.signal(signal.SIGINT, lambda *_: None)
timing = time_command(Command(("sh", "-c", {text!r})), Path("output.txt"))
print(timing.status)
"""
    return subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=directory,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def launchers_of(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(child) for child in found.stdout.split()]


@pytest.mark.parametrize("program", [FAMILY, STUBBORN], ids=["family", "stubborn"])
def test_nothing_outlives_forerun(tmp_path: Path, program: str) -> None:
    with forerun_process(program, tmp_path) as forerun:
        wait_for(lambda: len(pids(tmp_path)) == 3)
        launchers = launchers_of(forerun.pid)
        assert len(launchers) == 1
        forerun.kill()
    wait_for(lambda: not any(map(alive, [*pids(tmp_path), *launchers])))


def test_what_is_typed_at_the_terminal_does_not_reach_the_program(tmp_path: Path) -> None:
    text = "echo $$ >> pids; sleep 0.5; echo done"
    with forerun_process(text, tmp_path) as forerun:
        wait_for(lambda: len(pids(tmp_path)) == 1)
        os.killpg(forerun.pid, signal.SIGINT)
        assert forerun.communicate()[0] == "ok\n"
    assert (tmp_path / "output.txt").read_text() == "done\n"


def test_a_program_that_ends_its_launcher_is_ended(tmp_path: Path, output: Path) -> None:
    text = f"echo $$ >> pids; sleep {ENDLESS} & echo $! >> pids; "
    text += f"kill -KILL $PPID; sleep {ENDLESS}"
    timing = time_command(shell(text, tmp_path), output)
    assert (timing.status, timing.reason) == ("failed", "its launcher was ended or stopped")
    assert len(pids(tmp_path)) == 2
    assert not any(map(alive, pids(tmp_path)))


def test_a_program_that_stops_its_launcher_has_the_time_of_any_other(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_outs_begin(monkeypatch, "True")
    text = "kill -STOP $PPID; " + FAMILY
    timing = time_command(shell(text, tmp_path, timeout=0.5), output)
    assert (timing.status, timing.reason) == ("timed_out", "took longer than 500 ms")
    assert not any(map(alive, pids(tmp_path)))


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_program_that_goes_on_stopping_its_launcher_is_ended(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch, cancelled: bool
) -> None:
    time_outs_begin(monkeypatch, "True", GRACE=LONG)  # and it ends nothing in time
    monkeypatch.setattr(jobs_command, "ENDING", 0.5)

    class Started(threading.Event):
        """Set once all processes of the program are there."""

        def is_set(self) -> bool:
            return len(pids(tmp_path)) == 3

    started = Started()

    def clock() -> float:
        """No time passes before that."""
        return time.monotonic() if started.is_set() else 0.0

    if not cancelled:
        patient = SimpleNamespace(monotonic=clock, sleep=time.sleep)
        monkeypatch.setattr(jobs_command, "time", patient)
    text = f"trap '' TERM; while :; do kill -STOP $PPID; done & {FAMILY}"
    command = shell(text, tmp_path, timeout=ENDLESS if cancelled else 0.5)
    timing = time_command(command, output, started if cancelled else None)
    expected = "cancelled" if cancelled else "its launcher was ended or stopped"
    assert (timing.status, timing.reason) == ("cancelled" if cancelled else "failed", expected)
    assert len(pids(tmp_path)) == 3
    assert not any(map(alive, pids(tmp_path)))


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that has 64 MB free, less what the file `big` takes."""

    def usage(_: Path) -> SimpleNamespace:
        big = tmp_path / "big"
        return SimpleNamespace(free=2**26 - (big.stat().st_size if big.exists() else 0))

    monkeypatch.setattr(shutil, "disk_usage", usage)


@pytest.mark.usefixtures("small_disk")
def test_a_disk_that_was_nearly_full_before_ends_no_run(tmp_path: Path, output: Path) -> None:
    timing = time_command(shell("truncate -s 30M big; sleep 0.4", tmp_path), output)
    assert (timing.status, timing.reason) == ("ok", "")


@pytest.mark.usefixtures("small_disk")
def test_a_program_that_fills_the_disk(tmp_path: Path, output: Path) -> None:
    command = shell(
        f"truncate -s 40M big; sleep {ENDLESS}",
        tmp_path,
        cleanup=("sh", "-c", "sleep 0.3; rm big"),
    )
    timing = time_command(command, output)
    assert timing.status == "failed"
    assert timing.reason.startswith("fills the disk: 24 MiB free at ")
    assert timing.reason.endswith(", where 32 MiB must stay free")
    assert not (tmp_path / "big").exists()


def test_a_program_that_removes_what_it_stands_on(tmp_path: Path) -> None:
    directory = tmp_path / "work"
    directory.mkdir()
    command = shell('rm -r "$PWD"; sleep 0.3', directory, cleanup=("true",))
    timing = time_command(command, directory / "output.txt")
    assert timing.status == "ok"
    assert timing.reason.startswith("cleanup: cannot be started: directory: found ")
    directory.mkdir()
    timing = time_command(shell('rm -r "$PWD"; exit 3', directory), directory / "output.txt")
    assert (timing.status, timing.reason) == ("failed", "exit code 3")


def out_of_memory(timing: Timing) -> bool:
    return timing.status == "out_of_memory" and timing.seconds is None


def test_memory_that_is_refused(tmp_path: Path, output: Path) -> None:
    greedy = f"ulimit -v 1000000; exec {sys.executable} -c 'bytearray(2**31)'"
    timing = time_command(shell(greedy, tmp_path), output)
    assert out_of_memory(timing)
    assert timing.reason == "ran out of memory: MemoryError"


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory: you tried",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "OSError: [Errno 12] Cannot allocate memory",
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1 bytes",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=1.batch",
    ],
)
def test_words_for_a_want_of_memory(output: Path, line: str) -> None:
    words = ("sh", "-c", 'echo "$0"; echo "at line 3"; exit $1', line)
    assert out_of_memory(time_command(Command((*words, "1")), output))
    assert time_command(Command((*words, "0")), output).status == "ok"


@pytest.mark.parametrize(("kills", "status"), [((3, 4), "out_of_memory"), ((3, 3), "failed")])
def test_the_kernel_counts_what_it_kills_for_memory(
    tmp_path: Path,
    output: Path,
    monkeypatch: pytest.MonkeyPatch,
    kills: tuple[int, int],
    status: str,
) -> None:
    count = iter(kills)
    monkeypatch.setattr(jobs_command, "_killed_for_memory", lambda: next(count))
    timing = time_command(shell("kill -KILL $$", tmp_path), output)
    assert (timing.status, timing.exit_code) == (status, -signal.SIGKILL)


def test_the_kernel_tells_how_often_it_did() -> None:
    assert jobs_command._killed_for_memory() >= 0


def test_a_kernel_that_does_not_tell(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_command, "VMSTAT", tmp_path / "none")
    assert time_command(shell("exit 3", tmp_path), output).reason == "exit code 3"
