"""Job scripts under a real Slurm and under shellcheck.

Slurm reads `#PBS` lines as well, as its `qsub` does, so scripts for PBS run here too.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import slurm
from hostile import CANARY, STRINGS
from job_specs import FULL, PLAIN, SPECS
from slurm import Cluster, Nodes, Partition

from forerun.errors import InputError
from forerun.jobs import worker
from forerun.jobs.attempts import Attempt, read_attempts, run_seconds
from forerun.jobs.script import Scheduler, render
from forerun.jobs.spec import JobSpec, Staging

GOLDEN = Path(__file__).parents[1] / "jobs" / "golden"
PATIENCE = 600.0  # seconds for a job to end
NODES = {"n": Nodes(4, cpus=64, memory=64_000, gpus=2, features=("mc", "ssd"))}
PARTITIONS = {
    "debug": Partition(default=True),
    "normal": Partition(walltime="2-00:00:00"),
}
SAVES = """
import os, signal, sys, time
def save(*_):
    print("saved", os.environ["SLURM_PROCID"], flush=True)
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
print("ready", os.environ.get("SLURM_RESTART_COUNT", "0"), flush=True)
time.sleep(900)
"""
GOES_ON = """
while not os.path.exists("go"):
    time.sleep(0.1)
"""


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.sh")), ids=lambda path: path.name)
def test_shellcheck_has_nothing_to_say(shellcheck: str, path: Path) -> None:
    done = subprocess.run([shellcheck, path], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    if reason := slurm.why_not():
        pytest.skip(reason)
    # A job that is put back waits for so long, as jobs of the old credential might still run.
    soon = {"AuthInfo": "socket={folder}/munge.socket,cred_expire=5"}
    with slurm.cluster(NODES, PARTITIONS, settings=soon) as made:
        yield made


def written(folder: Path, scheduler: Scheduler, *words: str, **changes: Any) -> JobSpec:
    folder.mkdir(exist_ok=True)
    spec = replace(PLAIN, words=words, folder=str(folder), **changes)
    (folder / "job.sh").write_text(render(spec, scheduler))
    shutil.copy(worker.__file__, folder / "worker.py")
    return spec


def submitted(cluster: Cluster, folder: Path) -> str:
    return cluster.run("sbatch", "--parsable", str(folder / "job.sh")).strip()


def wait_for(what: str, happened: Callable[[], bool], folder: Path) -> None:
    limit = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < limit, f"no {what}: {output(folder)}"
        time.sleep(0.1)


def output(folder: Path) -> str:
    path = folder / "job.out"
    return path.read_text() if path.exists() else ""


def ended(cluster: Cluster, job: str, folder: Path) -> list[Attempt]:
    """The starts of a job that has left the queue."""
    listed = ("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T")
    over = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}
    wait_for("end", lambda: set(cluster.run(*listed).split()) <= over, folder)
    return read_attempts(folder)


def ran(
    cluster: Cluster, folder: Path, scheduler: Scheduler, *words: str, **changes: Any
) -> list[Attempt]:
    written(folder, scheduler, *words, **changes)
    return ended(cluster, submitted(cluster, folder), folder)


@pytest.mark.parametrize("scheduler", ["slurm", "pbs"])
def test_slurm_would_take_every_kind(
    cluster: Cluster, tmp_path: Path, scheduler: Scheduler
) -> None:
    for name, (spec, schedulers) in SPECS.items():
        if scheduler not in schedulers:
            continue
        # An account, a quality of service and jobs to wait for would have to be there; GPUs and
        # features in `nodes` are Torque's own.
        wanted = replace(spec, folder=str(tmp_path), account=None, qos=None, after=None)
        if scheduler == "pbs":
            wanted = replace(wanted, accelerators=0, features=(), begin=None)
        script = tmp_path / f"{name}.sh"
        script.write_text(render(wanted, scheduler))
        cluster.run("sbatch", "--test-only", str(script))


def test_what_slurm_makes_of_all_directives(cluster: Cluster, tmp_path: Path) -> None:
    tomorrow = datetime.now() + timedelta(days=1)
    begin = tomorrow.strftime("%Y-%m-%dT%H:%M")
    spec = replace(FULL, folder=str(tmp_path), account=None, qos=None, after=None, array=None)
    spec = replace(spec, begin=begin)
    (tmp_path / "job.sh").write_text(render(spec, "slurm"))
    job = submitted(cluster, tmp_path)
    shown = cluster.run("scontrol", "show", "job", "--oneliner", job)
    cluster.run("scancel", job)
    fields = dict(re.findall(r"(\S+?)=(.*?)(?=\s+\S+?=|\s*$)", shown))
    assert fields["JobName"] == "all-options"
    assert fields["Comment"] == f"forerun:{spec.uid}"
    assert fields["TimeLimit"] == "1-01:02:00"
    assert fields["Requeue"] == "1"
    assert fields["ReqNodeList"] == "n1"
    assert fields["CPUs/Task"] == "4"
    assert fields["Features"] == "mc&ssd"
    assert fields["Partition"] == "normal"
    assert fields["StdOut"] == f"{tmp_path}/train.out"
    assert fields["StdErr"] == f"{tmp_path}/train.err"
    assert fields["EligibleTime"] == f"{begin}:00"
    assert fields["MailUser"] == "user@example.org"
    assert fields["MailType"] == "BEGIN,END,FAIL"
    assert "gpu:2" in fields["TresPerNode"]


@pytest.mark.parametrize("scheduler", ["slurm", "pbs"])
def test_processes_on_two_nodes(cluster: Cluster, tmp_path: Path, scheduler: Scheduler) -> None:
    code = (
        "import os; print(os.environ['SLURM_PROCID'], os.environ['SLURMD_NODENAME'], os.getcwd())"
    )
    words = (sys.executable, "-c", code)
    (attempt,) = ran(cluster, tmp_path, scheduler, *words, nodes=2, processes=2)
    where = str(tmp_path)
    first, second = attempt.nodes
    lines = sorted(output(tmp_path).splitlines())
    assert lines == [f"{n} {node} {where}" for n, node in enumerate((first,) * 2 + (second,) * 2)]
    assert attempt.code == 0
    assert set(attempt.peaks) == {0, 1, 2, 3}
    assert run_seconds([attempt]) is not None


def test_tensorflow_on_two_nodes(cluster: Cluster, tmp_path: Path) -> None:
    words = (sys.executable, "-c", "import os; print(os.environ['TF_CONFIG'])")
    ran(cluster, tmp_path, "slurm", *words, nodes=2, processes=2, launcher="tensorflow")
    found = sorted(map(json.loads, output(tmp_path).splitlines()), key=lambda x: x["task"]["index"])
    assert [one["task"]["index"] for one in found] == [0, 1, 2, 3]
    assert len(set(found[0]["cluster"]["worker"])) == 4
    assert all(one["cluster"] == found[0]["cluster"] for one in found)


def test_only_wanted_variables_reach_the_job_and_all_of_it_its_processes(
    cluster: Cluster, tmp_path: Path
) -> None:
    theirs = {**cluster.environment, "WANTED": "w", "UNWANTED": "u"}
    words = ("sh", "-c", 'echo "${WANTED-} ${UNWANTED-} $SET"')
    changes: dict[str, Any] = {"variables": ("WANTED",), "environment": {"SET": "s"}}
    asking = replace(cluster, environment=theirs)
    ran(asking, tmp_path, "slurm", *words, processes=2, **changes)
    assert output(tmp_path) == "w  s\nw  s\n"


def test_an_array_has_files_for_each_task(cluster: Cluster, tmp_path: Path) -> None:
    words = ("sh", "-c", "echo task $SLURM_ARRAY_TASK_ID")
    attempts = ran(cluster, tmp_path, "slurm", *words, array="1-5:2%2")
    assert [(one.task, one.number, one.code) for one in attempts] == [
        (1, 1, 0),
        (3, 1, 0),
        (5, 1, 0),
    ]
    assert (tmp_path / "job.out.3").read_text() == "task 3\n"


def test_data_is_staged_on_each_node_once(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x").write_text("y\n")
    staging = Staging(str(tmp_path / "data"), str(tmp_path / "fast"))
    words = ("sh", "-c", 'cat "$FORERUN_DATA/x"')
    (attempt,) = ran(cluster, tmp_path / "job", "slurm", *words, nodes=2, staging=staging)
    assert attempt.code == 0
    assert attempt.staged is not None
    assert output(tmp_path / "job") == "y\ny\n"


def test_a_job_that_is_warned_saves_and_starts_again(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "saves.py").write_text(SAVES)
    written(tmp_path, "slurm", sys.executable, "saves.py", processes=2, requeues=1)
    job = submitted(cluster, tmp_path)
    shown = ("squeue", "--noheader", f"--jobs={job}", "--format=%T")
    warning = ("scancel", "--batch", "--signal=USR1", job)
    wait_for("start", lambda: output(tmp_path).count("ready 0") == 2, tmp_path)
    cluster.run(*warning)
    wait_for(
        "requeue",
        lambda: cluster.run(*shown).strip() == "PENDING" or "ready 1" in output(tmp_path),
        tmp_path,
    )
    wait_for("second start", lambda: output(tmp_path).count("ready 1") == 2, tmp_path)
    cluster.run(*warning)
    attempts = ended(cluster, job, tmp_path)
    assert [one.requeued is not None for one in attempts] == [True, False]
    assert all(one.warned is not None and one.ended is not None for one in attempts)
    assert [one.done is not None for one in attempts] == [True, True]
    assert sorted(re.findall("saved [01]", output(tmp_path))) == ["saved 0"] * 2 + ["saved 1"] * 2
    assert "Traceback" not in output(tmp_path)
    assert run_seconds(attempts) is None


def test_a_task_of_an_array_that_is_warned_disturbs_no_other(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "saves.py").write_text(SAVES.replace("time.sleep(900)", GOES_ON))
    words = (sys.executable, "saves.py")
    written(tmp_path, "slurm", *words, processes=2, requeues=1, array="1-3")
    job = submitted(cluster, tmp_path)
    printed = {task: tmp_path / f"job.out.{task}" for task in (1, 2, 3)}

    def said(task: int, what: str) -> int:
        return printed[task].read_text().count(what) if printed[task].exists() else 0

    wait_for("start", lambda: all(said(task, "ready 0") == 2 for task in printed), tmp_path)
    # The one whose number is that of all: Slurm takes it for the whole array.
    (task,) = [one.task for one in read_attempts(tmp_path) if one.job == job]
    assert task is not None
    cluster.run("scancel", "--batch", "--signal=USR1", f"{job}_{task}")
    wait_for("second start", lambda: said(task, "ready 1") == 2, tmp_path)
    assert said(task, "saved") == 2
    (tmp_path / "go").touch()
    attempts = ended(cluster, job, tmp_path)
    found = {(one.task, one.number): one for one in attempts}
    others = [(one, 1) for one in printed if one != task]
    assert set(found) == {(task, 1), (task, 2), *others}
    assert found[task, 1].requeued is not None
    assert all(found[one].code == 0 for one in found)
    for other in others:
        assert (found[other].warned, found[other].requeued) == (None, None)
        assert printed[other[0]].read_text() == "ready 0\nready 0\n"


def test_a_cancelled_job_says_so_and_does_not_come_back(cluster: Cluster, tmp_path: Path) -> None:
    written(tmp_path, "slurm", "sh", "-c", "echo ready; sleep 900", epilogue=(("echo", "bye"),))
    job = submitted(cluster, tmp_path)
    wait_for("start", lambda: "ready" in output(tmp_path), tmp_path)
    cluster.run("scancel", job)
    (attempt,) = ended(cluster, job, tmp_path)
    wait_for("epilogue", lambda: "bye" in output(tmp_path), tmp_path)
    assert attempt.requeued is None


def test_no_string_becomes_a_directive(cluster: Cluster, tmp_path: Path) -> None:
    """A sample in all free text and in each directive that takes it: sbatch reads what is meant."""
    for text in STRINGS[::9]:
        try:
            spec = replace(PLAIN, folder=str(tmp_path), words=("true", text), made_by=(text,))
            spec = replace(spec, environment={"X": text}, epilogue=(("true", text),))
        except InputError:
            continue
        (tmp_path / "job.sh").write_text(render(spec, "slurm"))
        job = cluster.run("sbatch", "--parsable", "--hold", str(tmp_path / "job.sh")).strip()
        shown = cluster.run("scontrol", "show", "job", "--oneliner", job)
        cluster.run("scancel", job)
        assert " NumNodes=1 " in shown.replace("NumNodes=1-1", "NumNodes=1")
        assert " JobName=lenet " in shown
    assert not list(tmp_path.rglob(f"*{CANARY}*"))
