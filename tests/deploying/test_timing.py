"""What the run of a job took, by what it left behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forerun.deploying.timing import timing_of
from forerun.jobs.attempts import Attempt
from forerun.jobs.backend import State
from forerun.jobs.command import Command, Timing
from forerun.jobs.marker import Marker

CLEAN = Attempt(
    1,
    job="42",
    host="n1",
    started=1_800_000_000.0,
    begun=1_800_000_010.0,
    done=1_800_000_012.5,
    code=0,
    ended=1_800_000_013.0,
    peaks={0: 200_000_000, 1: 300_000_000},
)
DONE = State("done", starts=1, exit_code=0)


def timed(
    folder: Path, state: State = DONE, *attempts: Attempt, printed: str = "", **given: Any
) -> Timing:
    (folder / "job.out").write_text(printed)
    command = Command(("train",), **given)
    return timing_of(command, state, attempts or (CLEAN,), folder / "job.out")


def test_a_job_that_ran_once_has_a_time(tmp_path: Path) -> None:
    found = timed(tmp_path)
    assert (found.status, found.seconds, found.reason) == ("ok", 2.5, "")
    assert found.memory_bytes == 300_000_000
    assert found.started == "2027-01-15T08:00:10.000+00:00"
    assert found.measures == {"seconds": 2.5, "memory_bytes": 3e8}


def test_the_memory_is_the_programs_own(tmp_path: Path) -> None:
    copied = replace(DONE, memory_bytes=10**10)  # what staged its data, say
    assert timed(tmp_path, copied).memory_bytes == 300_000_000
    assert timed(tmp_path, copied, replace(CLEAN, peaks={})).memory_bytes == 10**10
    assert timed(tmp_path, DONE, replace(CLEAN, peaks={})).memory_bytes == 0


def test_one_that_was_requeued_has_none(tmp_path: Path) -> None:
    lost = replace(CLEAN, done=None, code=None, ended=None)
    found = timed(tmp_path, replace(DONE, starts=2), lost, replace(CLEAN, number=2))
    assert (found.status, found.seconds) == ("failed", None)
    assert found.reason == "it was started 2 times: no time"
    # Only the scheduler may know of the first start.
    assert timed(tmp_path, replace(DONE, starts=2)).status == "failed"


def test_one_that_was_suspended_has_none(tmp_path: Path) -> None:
    found = timed(tmp_path, replace(DONE, suspended=True))
    assert (found.status, found.seconds) == ("failed", None)
    assert found.reason == "it was suspended for a while: no time"


def test_a_marker_finds_its_time_in_the_output(tmp_path: Path) -> None:
    marker = Marker(r"epoch took ([0-9.]+) s")
    found = timed(tmp_path, printed="epoch took 3 s\nepoch took 1.5 s\n", marker=marker)
    assert (found.seconds, found.wall_seconds) == (1.5, 2.5)
    none = timed(tmp_path, printed="nothing\n", marker=marker)
    assert none.status == "failed"
    assert "no match in the output" in none.reason


def test_a_run_that_took_too_long(tmp_path: Path) -> None:
    for state in (State("timed_out", "its wall time was over"), DONE):
        found = timed(tmp_path, state, timeout=2.0)
        assert (found.status, found.seconds) == ("timed_out", None)
        assert found.reason == "took longer than 2 s"
    assert timed(tmp_path, timeout=3.0).status == "ok"


@pytest.mark.parametrize(
    ("state", "status", "reason"),
    [
        (State("failed", "exit code 3"), "failed", "exit code 3: no such data"),
        (State("out_of_memory", "killed"), "out_of_memory", "killed: no such data"),
        (State("node_lost", "NODE_FAIL"), "failed", "NODE_FAIL: no such data"),
        (State("timed_out", "TIMEOUT"), "timed_out", "TIMEOUT: no such data"),
        (
            State("cancelled", "preempted"),
            "failed",
            "ended by others than forerun (preempted): no such data",
        ),
        (State("cancelled"), "failed", "ended by others than forerun: no such data"),
    ],
)
def test_what_did_not_end_well(tmp_path: Path, state: State, status: str, reason: str) -> None:
    failed = replace(CLEAN, code=3)
    found = timed(tmp_path, state, failed, printed="so far so good\nno such data\n")
    assert (found.status, found.seconds, found.reason) == (status, None, reason)
    assert found.wall_seconds == 2.5


def test_what_failed_before_the_run(tmp_path: Path) -> None:
    never = replace(CLEAN, begun=None, done=None, code=1)
    found = timed(tmp_path, State("failed", "exit code 1"), never)
    assert found.reason == "before the run, exit code 1"


def test_a_job_without_a_trace(tmp_path: Path) -> None:
    found = timing_of(Command(("train",)), State("failed", "no trace"), (), tmp_path / "job.out")
    assert (found.status, found.reason, found.wall_seconds) == ("failed", "no trace", 0)
    unclear = timing_of(Command(("train",)), DONE, (), tmp_path / "job.out")
    assert (unclear.status, unclear.seconds) == ("failed", None)
