"""Campaigns whose runs are jobs: of this machine, which needs no set-up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from patience import ENDLESS, LONG

from forerun.jobs.local import Local
from forerun.measuring.outputs import job_folder, output_directory
from forerun.study import Study

if TYPE_CHECKING:
    from tests.cli.conftest import Forerun

HERE = """
name: here
scheduler: none
partitions:
  local:
    nodes: 1
    processors: {microarchitecture: x86_64, cores: 2}
    memory: 4 GiB
"""
GRID = ("sh -c 'sleep $0' {pause}", "-f", "pause=0.1,0.2", "--warmup", "0", "--design", "grid")
ON = ("--on", "here.yaml", "-o", "runs.db")


@pytest.fixture(autouse=True)
def _somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("forerun.jobs.local._STARTING", LONG)
    Path("here.yaml").write_text(HERE)


def test_each_run_is_a_job(forerun: Forerun) -> None:
    began = time.monotonic()
    done = forerun("measure", *GRID, *ON)
    assert done.code == 0
    assert "runs.db: 2 runs made; 2 in all" in done.out
    assert "processors" not in done.err  # this machine's noise is nobody's there
    with Study.open("runs.db") as study:
        runs = study.runs()
        assert {run.point["pause"] for run in runs} == {0.1, 0.2}
        for run in runs:
            assert run.seconds is not None
            assert float(run.point["pause"]) < run.seconds < time.monotonic() - began
            assert run.host == os.uname().nodename
            assert set(run.versions) == {"forerun"}
            folder = job_folder(output_directory(study.path.resolve()), run.uid)
            assert f"# forerun uid {run.uid}" in (folder / "job.sh").read_text()


def test_where_it_was_is_kept(forerun: Forerun, tmp_path: Path) -> None:
    forerun("measure", *GRID, *ON)
    with Study.open("runs.db") as study:
        assert study.note("measure")["on"] == str(tmp_path / "here.yaml")  # type: ignore[index]
    again = forerun("measure", "runs.db", "--repeats", "2")
    assert "2 runs made; 4 in all" in again.out
    assert len(list(Path("runs.output/jobs").iterdir())) == 4
    here = forerun("measure", "runs.db", "--repeats", "3", "--on", "local")
    assert "2 runs made; 6 in all" in here.out
    assert len(list(Path("runs.output/jobs").iterdir())) < 5  # those of old good runs go


def test_a_study_file_names_it_too(forerun: Forerun) -> None:
    Path("study.toml").write_text(
        """
        command = "sleep {pause}"
        [factors]
        pause = [0.1]
        [measure]
        design = "grid"
        warmup = 0
        on = "here.yaml"
        """
    )
    assert "1 run made" in forerun("measure", "study.toml").out
    assert len(list(Path("study.output/jobs").iterdir())) == 1


def test_points_without_room_are_left_out(forerun: Forerun) -> None:
    done = forerun("measure", *GRID, "-f", "nodes=1,2", *ON)
    assert "2 runs made" in done.out
    assert "here, partition local: of 4 points 2 are left out: 2 nodes, more than" in done.err


def test_a_dry_run_submits_nothing(forerun: Forerun) -> None:
    done = forerun("measure", *GRID, "-f", "nodes=1", *ON, "--dry-run")
    assert done.code == 0
    assert "$ sh -c 'sleep $0' 0.2  # nodes 1" in done.out
    assert not Path("runs.db").exists()
    assert not Path("runs.output").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--partition", "fast"), "here, partition: found fast, expected one of local"),
        (("-f", "nodes=2,4"), "expected a point that it has room for"),
        (("--marker", "^epoch"), "expected a group that captures seconds"),
        (("--on", "gone.yaml"), "infrastructure: found gone.yaml"),
        (("--on", "slurm.yaml"), "sbatch: found no such program"),
        (("--framework", "caffe"), "--framework: found caffe"),
    ],
)
def test_what_cannot_be_is_one_line(
    forerun: Forerun,
    words: tuple[str, ...],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    Path("slurm.yaml").write_text(HERE.replace("none", "slurm"))
    if "slurm.yaml" in words:
        monkeypatch.setenv("PATH", str(tmp_path))
    done = forerun("measure", *GRID, *ON, *words)
    assert done.code == 2
    assert len(done.errors) == 1
    assert expected in done.errors[0]
    assert not Path("runs.db").exists()


def test_a_partition_is_one_of_a_cluster(forerun: Forerun) -> None:
    done = forerun("measure", *GRID, "-o", "runs.db", "--partition", "local")
    assert done.code == 2
    assert "--partition: found local, expected with --on" in done.errors[0]


def started(*words: str) -> subprocess.Popen[str]:
    """A forerun of its own, whose job has begun."""
    command = [sys.executable, "-m", "forerun", "measure", *words]
    made = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    limit = time.monotonic() + LONG
    while not Path("begun").exists():
        assert made.poll() is None, made.communicate()
        assert time.monotonic() < limit
        time.sleep(0.05)
    return made


SLOW = "sh -c 'touch begun; sleep $0' {pause}"
# The same, but it waits for a file first.
WAITS = f'timeout {ENDLESS} sh -c "until test -e go; do sleep 0.05; done"'
HELD = SLOW.replace("sleep", f"{WAITS}; sleep")


def test_a_campaign_that_was_killed_finds_its_job_again(forerun: Forerun) -> None:
    began = time.monotonic()
    killed = started(HELD, "-f", "pause=0.5", "--warmup", "0", "--design", "grid", *ON)
    killed.kill()
    killed.communicate()
    Path("go").touch()
    (folder,) = Path("runs.output/jobs").iterdir()
    beside = forerun("measure", "runs.db", "--on", "local", "--dry-run")
    assert "1 job of an earlier start is not seen to" in beside.err
    done = forerun("measure", "runs.db")
    assert "1 job of an earlier start is under way or over: gone on with" in done.err
    assert "1 run made; 1 in all" in done.out
    with Study.open("runs.db") as study:
        (run,) = study.runs()
    assert run.uid == folder.name
    assert run.seconds is not None
    assert 0.5 < run.seconds < time.monotonic() - began


def test_ctrl_c_cancels_the_job() -> None:
    pause = ("-f", f"pause={ENDLESS}", "--warmup", "0")
    stopped = started(SLOW, *pause, "--design", "grid", "--json", *ON)
    (folder,) = Path("runs.output/jobs").iterdir()
    stopped.send_signal(signal.SIGINT)
    out, _ = stopped.communicate(timeout=LONG)
    assert (stopped.returncode, json.loads(out)["ended"]) == (130, "interrupted")
    assert not folder.exists()
    assert Local().find(folder.name) is None
    with Study.open("runs.db") as study:
        assert study.runs() == []
