"""One process of a job, as scripts start it."""

from __future__ import annotations

import ast
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from patience import ENDLESS, LONG, alive, wait_for

from forerun.jobs import worker

READY = "print('ready', flush=True)"


def start(attempt: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    """The program under its worker, in an environment without ranks but those that are given."""
    kept = {name: value for name, value in os.environ.items() if name not in worker.RANKS}
    return subprocess.Popen(
        [sys.executable, "-I", "-S", worker.__file__, str(attempt), *words],
        env={**kept, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(attempt: Path, *words: str, **variables: str) -> tuple[int, str, str]:
    with start(attempt, *words, **variables) as job:
        out, err = job.communicate(timeout=LONG)
        return job.returncode, out, err


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", code)


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    path = tmp_path / "1"
    path.write_text("begun 1\n")
    return path


def test_it_is_what_the_program_is(attempt: Path) -> None:
    assert run(attempt, "sh", "-c", "echo out; echo err >&2; exit 9") == (9, "out\n", "err\n")
    assert run(attempt, "sh", "-c", "kill -KILL $$")[0] == 128 + signal.SIGKILL
    code, _, err = run(attempt, "/no/such/program")
    assert (code, err) == (127, "/no/such/program: No such file or directory\n")
    code, _, err = run(attempt, str(attempt))
    assert (code, err) == (126, f"{attempt}: Permission denied\n")


def test_the_peak_and_the_time_are_appended(attempt: Path) -> None:
    code = f"import time; x = bytearray(b'x') * {50 * 2**20}; time.sleep(0.3)"
    before = time.monotonic()
    run(attempt, *python(code))
    most = time.monotonic() - before
    first, second, third = attempt.read_text().splitlines()
    key, rank, size = second.split()
    assert (first, key, rank) == ("begun 1", "peak", "0")
    assert 50 * 2**20 < int(size) < 120 * 2**20
    key, rank, seconds = third.split()
    assert (key, rank) == ("ran", "0")
    assert 0.3 <= float(seconds) <= most


@pytest.mark.parametrize(
    ("variables", "rank"),
    [
        ({"SLURM_PROCID": "3"}, "3"),
        ({"FORERUN_RANK": "2", "SLURM_PROCID": "0"}, "2"),
        ({"OMPI_COMM_WORLD_RANK": "5", "SLURM_PROCID": "0"}, "5"),
        ({"RANK": "7"}, "7"),
        ({"RANK": "x; y"}, "0"),
    ],
)
def test_the_rank_is_that_of_the_launcher(
    attempt: Path, variables: dict[str, str], rank: str
) -> None:
    run(attempt, "true", **variables)
    assert attempt.read_text().splitlines()[1].split()[:2] == ["peak", rank]


def test_a_file_that_cannot_be_written_does_not_matter(tmp_path: Path) -> None:
    assert run(tmp_path / "no/such/file", "sh", "-c", "exit 2")[0] == 2
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM, signal.SIGINT])
def test_signals_are_passed_on(attempt: Path, number: signal.Signals) -> None:
    code = f"""
import signal, sys, time
signal.signal({int(number)}, lambda *_: sys.exit(40))
{READY}
time.sleep({ENDLESS})"""
    with start(attempt, *python(code)) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "ready\n"
        job.send_signal(number)
        assert job.wait(timeout=LONG) == 40


def test_who_signals_the_whole_tree_reaches_the_program_once(attempt: Path) -> None:
    code = f"""
import os, signal, time
got, begun = [], time.monotonic()
signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
print(os.getpid())
{READY}
while not got and time.monotonic() < begun + {LONG}:
    time.sleep(0.01)
time.sleep(1)  # so long a second one may take
raise SystemExit(40 + len(got))"""
    with start(attempt, *python(code)) as job:
        assert job.stdout is not None
        program = int(job.stdout.readline())
        job.stdout.readline()
        os.kill(program, signal.SIGWINCH)
        job.send_signal(signal.SIGWINCH)
        assert job.wait(timeout=LONG) == 41


def test_a_signal_that_the_program_does_not_know_ends_both(attempt: Path) -> None:
    with start(attempt, *python(f"import time; {READY}; time.sleep({ENDLESS})")) as job:
        assert job.stdout is not None
        job.stdout.readline()
        job.send_signal(signal.SIGUSR1)
        assert job.wait(timeout=LONG) == 128 + signal.SIGUSR1
    assert "peak 0 " in attempt.read_text()


def test_below_a_launcher_its_processes_are_asked_to_save(attempt: Path) -> None:
    inner = (
        "import signal, sys, time;"
        "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(41));"
        f"{READY}; time.sleep({ENDLESS})"
    )
    code = f"import subprocess, sys; sys.exit(subprocess.call({list(python(inner))!r}))"
    with start(attempt, *python(code), FORERUN_SAVE_BELOW="1") as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "ready\n"
        job.send_signal(signal.SIGUSR1)
        assert job.wait(timeout=LONG) == 41


def test_the_program_does_not_outlive_its_worker(attempt: Path) -> None:
    code = f"import os, time; print(os.getpid(), flush=True); {READY}; time.sleep({ENDLESS})"
    with start(attempt, *python(code)) as job:
        assert job.stdout is not None
        pid = int(job.stdout.readline())
        job.kill()
    wait_for(lambda: not alive(pid))


def test_without_a_program_it_says_what_it_takes(attempt: Path) -> None:
    code, _, err = run(attempt)
    assert code == 1
    assert err == "worker.py: found no program, expected ATTEMPT_FILE program argument …\n"


def test_it_stands_alone_and_runs_on_old_pythons() -> None:
    text = Path(worker.__file__).read_text()
    tree = ast.parse(text, feature_version=(3, 8))
    names = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    origins = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names | origins == {"contextlib", "ctypes", "os", "signal", "sys", "time"}
    assert shutil.which("python3")
