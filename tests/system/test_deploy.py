"""From a plan to a job on a real Slurm of four nodes, and its time back into the study."""

from __future__ import annotations

import json
import re
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from beds import set_up, small_cluster
from patience import wait_for
from slurm import Cluster

from forerun.cli import main
from forerun.deploying.deployment import Deployment
from forerun.factors import Factor, Space
from forerun.study import Run, Study
from forerun.workloads.environments import FRAMEWORKS, words

# Each of its workers is told of the others, as TensorFlow's are, and the first one says so.
TRAIN = """
import json, os, sys, time
told = json.loads(os.environ.get("TF_CONFIG", "{}"))
workers = told.get("cluster", {}).get("worker", [])
time.sleep(float(sys.argv[1]))
print(len(workers), "workers on", os.environ.get("SLURMD_NODENAME"), flush=True)
"""
REQUEST = """
name: toy
application:
  command: "{python} train.py {{epochs}} {{workers}}"
  framework: tensorflow
study: toy.db
fixed: {{epochs: {epochs}, workers: {workers}}}
target: {{nodes: {workers}}}
job: {{walltime: 10min}}
"""
CLUSTER = """
name: test
scheduler: slurm
partitions:
  PARTITION:
    nodes: 4
    processors: {microarchitecture: x86_64, cores: 2}
    memory: 3 GiB
"""


MNIST = """
name: mnist-cnn
application: {{command: "{command}", framework: pytorch}}
study: mnist.db
fixed: {{chunks: 4, nodes: 2}}
free: {{batch: "32,64"}}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    yield from small_cluster()


@pytest.fixture
def folder(tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
    partition = cluster.run("sinfo", "--noheader", "--format=%R").split()[0]
    (tmp_path / "cluster.yaml").write_text(CLUSTER.replace("PARTITION", partition))
    (tmp_path / "train.py").write_text(TRAIN)
    space = Space([Factor.parse("epochs=1,2,3"), Factor.parse("workers=1,2")])
    with Study.create(tmp_path / "toy.db", space) as study:
        for point in space.grid():
            for wobble in (0.95, 1.05):
                study.add(Run(point, {"seconds": wobble * (0.3 + float(point["epochs"]))}))
    return tmp_path


def planned(epochs: int, workers: int) -> None:
    text = REQUEST.format(python=sys.executable, epochs=epochs, workers=workers)
    Path("request.yaml").write_text(text)
    assert main(["plan", "request.yaml", "--on", "cluster.yaml", "-o", "plan.json"]) == 0


def test_a_plan_for_two_nodes_comes_back_as_a_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned(2, 2)
    capsys.readouterr()
    began = time.monotonic()
    assert main(["deploy", "plan.json", "-o", "run", "--wait"]) == 0
    printed = capsys.readouterr().out
    assert "predicted: " in printed
    assert "the run took " in printed
    output = (folder / "run" / "job.out").read_text()
    assert output.count("2 workers on n") == 2
    with Study.open(folder / "toy.db") as study:
        run = study.runs()[-1]
        assert run.point == {"epochs": 2, "workers": 2}
        assert run.seconds is not None
        assert 2 < run.seconds < time.monotonic() - began
        assert run.measures["memory_bytes"] > 1e6
    assert main(["plan", "request.yaml", "--on", "cluster.yaml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 13


def test_an_mnist_cnn_on_two_nodes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Measured, planned, trained on two nodes as predicted or not, and planned again."""
    set_up("pytorch")
    framework = FRAMEWORKS["pytorch"]
    training = "--network mnist-cnn --chunk-size 200 --chunks {chunks} --batch {batch}"
    command = f"{shlex.join(words(framework))} {training}"
    factors = ("-f", "chunks=1,2,4", "-f", "batch=32,64", "-f", "nodes=1,2")
    on = ("--on", "cluster.yaml", "--framework", "pytorch", "--slots", "1")
    assert main(["measure", command, *factors, *on, "--runs", "8", "-o", "mnist.db"]) == 0
    (folder / "request.yaml").write_text(MNIST.format(command=command))
    planning = ["plan", "request.yaml", "--on", "cluster.yaml"]
    assert main([*planning, "-o", "plan.json"]) == 0
    capsys.readouterr()
    assert main(["deploy", "plan.json", "-o", "run", "--wait"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^predicted: .* s, 90 % interval .* to .* s$", printed, re.MULTILINE)
    assert re.search(r"^job \d+: done on n\d, n\d$", printed, re.MULTILINE)
    assert re.search(r"the run took .* s; predicted were .* 90 % interval", printed)
    output = (folder / "run" / "job.out").read_text()
    assert len(set(re.findall(r"^rank [01]: weights (\w+)$", output, re.MULTILINE))) == 1
    assert output.count("weights") == 2
    with Study.open(folder / "mnist.db") as study:
        run = study.runs()[-1]
        assert (run.point["nodes"], run.point["chunks"]) == (2, 4)
        assert run.seconds is not None
    assert main([*planning, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 9


def test_the_same_plan_on_this_machine(folder: Path) -> None:
    planned(1, 1)
    assert main(["deploy", "plan.json", "-o", "here", "--on", "local", "--wait"]) == 0
    made = Deployment.open(folder / "here")
    assert made.record.result is not None
    # The study's runs are from nowhere in particular: nobody can say that this is their machine.
    assert made.record.result.stored == "apart"


def test_an_unknown_partition_is_told_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (folder / "cluster.yaml").read_text()
    (folder / "cluster.yaml").write_text(
        text.replace("    nodes: 4", "    queue: gone\n    nodes: 4")
    )
    planned(1, 1)
    capsys.readouterr()
    assert main(["deploy", "plan.json", "-o", "run"]) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert len(said) == 1
    assert "partition" in said[0]
    assert Deployment.open(folder / "run").record.submitted is None


def test_a_lost_node_makes_no_clean_time(folder: Path, cluster: Cluster) -> None:
    planned(30, 1)
    # Its first start would go on for longer than it takes to lose the node.
    first = "if os.environ.get('SLURM_RESTART_COUNT', '0') == '0': time.sleep(500)\n"
    (folder / "train.py").write_text(TRAIN.replace("time.sleep(", f"{first}time.sleep("))
    assert main(["deploy", "plan.json", "-o", "run"]) == 0
    made = Deployment.open(folder / "run")
    wait_for(lambda: made.attempts and made.attempts[-1].begun)
    cluster.lose(made.attempts[-1].host)
    result = made.wait()
    assert (result.status, result.starts, result.stored) == ("ok", 2, "apart")
    with Study.open(folder / "toy.db") as study:
        run = study.runs()[-1]
        assert run.seconds is None
        assert run.measures["elapsed_seconds"] > 30
