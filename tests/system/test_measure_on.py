"""Campaigns on a real Slurm of four nodes: each run is a job."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from beds import small_cluster
from slurm import Cluster

from forerun.cli import main
from forerun.measuring.outputs import output_directory
from forerun.measuring.runner import output_of
from forerun.study import Run, Study
from forerun.workloads.environments import FRAMEWORKS, state, words

CLUSTER = """
name: quad
scheduler: slurm
partitions:
  debug:
    nodes: 4
    processors: {microarchitecture: x86_64, cores: 2}
    memory: 3 GiB
    default: true
  short:
    nodes: 4
    limits: {nodes: 2, walltime: 10min}
    processors: {microarchitecture: x86_64, cores: 2}
    memory: 3 GiB
"""
SLEEP = "sh -c 'echo on $SLURMD_NODENAME; touch begun-$SLURM_JOB_ID; sleep $0' {work}"
# The same, but it waits for a file first; and one that only sleeps once there is a file.
HELD = SLEEP.replace("sleep", "until test -e go; do sleep 0.1; done; sleep")
AGAIN = "sh -c 'test -e again && exec sleep $0; touch begun-$SLURM_JOB_ID; sleep 900' {work}"
ON = ("--on", "quad.yaml", "-o", "runs.db", "--warmup", "0", "--design", "grid")
PATIENCE = 600.0  # seconds for anything here to happen


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    yield from small_cluster()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
    (tmp_path / "quad.yaml").write_text(CLUSTER)
    return tmp_path


def runs() -> list[Run]:
    with Study.open("runs.db") as study:
        return study.runs()


def output(run: Run) -> str:
    return output_of(output_directory(Path("runs.db")), run.uid).read_text()


def jobs(cluster: Cluster, *options: str) -> list[str]:
    return cluster.run("squeue", "--noheader", "--format=%A", *options).split()


def most_at_once(found: list[Run]) -> int:
    """How many runs went on at the same time."""
    times = [(datetime.fromisoformat(run.started).timestamp(), run.seconds or 0) for run in found]
    return max(sum(begun <= at < begun + long for begun, long in times) for at, _ in times)


def started(cluster: Cluster, count: int, *given: str) -> subprocess.Popen[str]:
    """A forerun of its own, so many of whose jobs have begun."""
    command = [sys.executable, "-m", "forerun", "measure", *given]
    made = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    limit = time.monotonic() + PATIENCE
    while len(list(Path().glob("begun-*"))) < count:
        assert made.poll() is None, made.communicate()
        assert time.monotonic() < limit, cluster.run("squeue")
        time.sleep(0.1)
    return made


def test_several_jobs_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    factors = ("-f", "work=4,5", "-f", "nodes=1,2,8", "--repeats", "2", "--framework", "mpi")
    assert main(["measure", SLEEP, *factors, *ON]) == 0
    printed = capsys.readouterr()
    assert "runs.db: 8 runs made; 8 in all" in printed.out
    assert "of 6 points 2 are left out: 8 nodes, more than the 4 of debug" in printed.err
    found = runs()
    assert most_at_once(found) > 1
    for run in found:
        assert run.status == "ok"
        assert run.seconds is not None
        assert float(run.point["work"]) < run.seconds < time.monotonic() - began
        assert run.host in {"n1", "n2", "n3", "n4"}
        assert run.measures["memory_bytes"] > 1e5
    for run in found[-3:]:
        on = re.findall(r"^on (n\d)$", output(run), re.MULTILINE)
        assert len(set(on)) == run.point["nodes"]


def test_two_nodes_train_together(capsys: pytest.CaptureFixture[str]) -> None:
    framework = FRAMEWORKS["pytorch"]
    if state(framework) not in ("ready", "outdated"):
        pytest.skip("no environment of PyTorch: `forerun workload setup pytorch` makes it")
    options = "--chunks 1 --chunk-size 64 --batch 16 --kernel 3"
    command = f"{shlex.join(words(framework))} {options}"
    given = ("-f", "nodes=2", "--framework", "pytorch", "--json")
    assert main(["measure", command, *given, *ON]) == 0
    assert json.loads(capsys.readouterr().out)["made"] == 1
    (run,) = runs()
    assert run.seconds is not None
    assert run.measures["memory_bytes"] > 50e6
    weights = dict(re.findall(r"^rank (\d): weights (\w+)$", output(run), re.MULTILINE))
    assert set(weights) == {"0", "1"}
    assert weights["0"] == weights["1"]  # each has learnt from the other's data


def test_a_campaign_that_was_killed_goes_on(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    before, began = set(jobs(cluster, "--states=all")), time.monotonic()
    killed = started(cluster, 2, HELD, "-f", "work=1,2", *ON)
    killed.kill()
    killed.communicate()
    Path("go").touch()
    assert main(["measure", "runs.db"]) == 0
    printed = capsys.readouterr()
    assert "2 jobs of an earlier start are under way or over: gone on with" in printed.err
    assert "2 runs made; 2 in all" in printed.out
    assert len(set(jobs(cluster, "--states=all")) - before) == 2  # none was made anew
    assert sorted(run.point["work"] for run in runs()) == [1, 2]
    for run in runs():
        assert float(run.point["work"]) < (run.seconds or 0) < time.monotonic() - began


def test_ctrl_c_cancels_the_jobs(cluster: Cluster) -> None:
    stopped = started(cluster, 2, SLEEP, "-f", "work=900,901", *ON)
    stopped.send_signal(signal.SIGINT)
    out, _ = stopped.communicate(timeout=PATIENCE)
    assert stopped.returncode == 130
    assert "stopped on request; a new start goes on" in out
    assert jobs(cluster) == []
    assert runs() == []


def test_a_job_that_was_requeued_is_no_time(cluster: Cluster) -> None:
    began = time.monotonic()
    going = started(cluster, 1, AGAIN, "-f", "work=1", *ON)
    (job,) = jobs(cluster)
    Path("again").touch()
    cluster.run("scontrol", "requeue", job)
    _, err = going.communicate(timeout=2 * PATIENCE)
    assert "failed: it was started 2 times: no time; it will be tried again (1 of 1)" in err
    failed, good = runs()
    assert (failed.status, failed.seconds) == ("failed", None)
    assert good.seconds is not None
    assert 1 < good.seconds < time.monotonic() - began


def test_what_cannot_be_is_one_line(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.run("scontrol", "update", "PartitionName=short", "State=DOWN")
    try:
        assert main(["measure", SLEEP, "-f", "work=1", *ON, "--partition", "short"]) == 2
    finally:
        cluster.run("scontrol", "update", "PartitionName=short", "State=UP")
    (line,) = [one for one in capsys.readouterr().err.splitlines() if "error" in one]
    assert "will not start (Partition" in line
    assert jobs(cluster) == []
    Path("quad.yaml").write_text(CLUSTER.replace("  debug:", "  gone:"))
    assert main(["measure", SLEEP, "-f", "work=1", *ON]) == 2
    (line,) = [one for one in capsys.readouterr().err.splitlines() if "error" in one]
    assert "quad, partition gone: the queue: found gone, expected one that slurm has" in line
