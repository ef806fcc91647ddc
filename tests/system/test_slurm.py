"""What a real Slurm says of itself, and plans on it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import slurm
from slurm import Cluster, Nodes, Partition

from forerun.cli import main
from forerun.infrastructure import Infrastructure

pytestmark = pytest.mark.skipif(bool(slurm.why_not()), reason=slurm.why_not())

NODES = {
    "n": Nodes(3, cpus=64, memory=64_000, features=("mc", "CPU_GEN:RME")),
    "g": Nodes(1, cpus=8, memory=16_000, gpus=2, model="a100", features=("zen3",)),
}
PARTITIONS = {
    "standard": Partition(("n",), walltime="12:00:00", default=True),
    "normal": Partition(("n",), walltime="1-06:00:00", most_nodes="2"),
    "mixed": Partition(walltime="UNLIMITED"),
}
# An MPI program as a MODAK file asks for it.
JOB: dict[str, Any] = {
    "job_options": {
        "job_name": "halo",
        "queue": "standard",
        "wall_time_limit": "0:20:00 ",
        "node_count": 3,
        "process_count_per_node": 16,
        "standard_output_file": "halo.log",
    },
    "target": {"name": "here", "job_scheduler_type": "slurm"},
    "application": {
        "app_tag": "halo",
        "app_type": "mpi",
        "executable": "./halo",
        "arguments": "--cells 400",
        "mpi_ranks": 48,
        "threads": 1,
        "build": {"src": "https://example.org/halo.c", "build_command": "mpicc -o halo halo.c"},
    },
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with slurm.cluster(NODES, PARTITIONS, name="here") as made:
        yield made


@pytest.fixture(scope="module")
def description(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("described") / "here.yaml"
    file.write_text(cluster.run(sys.executable, "-m", "forerun", "infra", "detect"))
    return file


def planned(folder: Path, description: Path, **options: object) -> int:
    """How `forerun plan` ends for the job above with other options."""
    request = folder / "request.json"
    request.write_text(json.dumps({"job": {**JOB, "job_options": JOB["job_options"] | options}}))
    return main(["plan", str(request), "--on", str(description), "--json"])


def test_the_description_is_what_slurm_has(description: Path) -> None:
    found = Infrastructure.load(description)
    assert (found.name, found.scheduler) == ("here", "slurm")
    nodes = {name: (part.nodes, part.queue) for name, part in found.partitions.items()}
    assert nodes == {
        "standard": (3, None),
        "normal": (3, None),
        "mixed": (1, None),
        "mixed-2": (3, "mixed"),
    }
    standard, normal, gpu, rest = found.partitions.values()
    assert (standard.processors.all_cores, standard.memory) == (64, 64_000 * 2**20)
    assert (standard.features, standard.accelerators) == (("mc", "CPU_GEN:RME"), None)
    assert (standard.limits.walltime, standard.limits.nodes) == (12 * 3600, None)
    assert (normal.limits.walltime, normal.limits.nodes) == (30 * 3600, 2)
    assert [name for name, part in found.partitions.items() if part.default] == ["standard"]
    assert (gpu.processors.microarchitecture, gpu.processors.all_cores) == ("zen3", 8)
    assert gpu.accelerators is not None
    assert (gpu.accelerators.count, gpu.accelerators.model) == (2, "a100")
    assert (gpu.limits.walltime, rest.limits.walltime, rest.memory) == (None, None, standard.memory)


def test_a_program_for_a_queue(
    tmp_path: Path, description: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planned(tmp_path, description) == 0
    found = json.loads(capsys.readouterr().out)
    (one,) = found["candidates"]
    assert (one["partition"], one["nodes"], one["reason"]) == ("standard", 3, "not measured")
    assert "seconds" not in one
    assert (found["considered"], found["refused"]) == (1, {})


def test_a_queue_whose_nodes_have_a_feature(
    tmp_path: Path, description: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = {"queue": "normal", "node_count": 2, "architecture_constraint": "mc"}
    assert planned(tmp_path, description, **wanted) == 0
    (one,) = json.loads(capsys.readouterr().out)["candidates"]
    assert (one["partition"], one["nodes"]) == ("normal", 2)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"queue": "express"}, "found express, expected one of standard, normal, mixed"),
        ({"queue": "normal", "architecture_constraint": "gpu"}, "lack the feature gpu"),
        ({"queue": "normal"}, "3 nodes, more than the 2 that a job of normal may have"),
        ({"process_count_per_node": 65}, "65 cores a node, more than the 64 of standard"),
        ({"wall_time_limit": "13:00:00"}, "a job of 13 h, longer than the 12 h of standard"),
    ],
)
def test_what_slurm_would_refuse_is_refused_in_one_line(
    cluster: Cluster,
    tmp_path: Path,
    description: Path,
    capsys: pytest.CaptureFixture[str],
    options: dict[str, object],
    told: str,
) -> None:
    assert planned(tmp_path, description, **options) == 2
    printed = capsys.readouterr()
    assert told in printed.err
    assert (printed.out, len(printed.err.splitlines())) == ("", 1)
    asked = {**JOB["job_options"], **options}
    words = ["sbatch", "--test-only", "--wrap=true", f"--partition={asked['queue']}"]
    words += [f"--nodes={asked['node_count']}", f"--time={asked['wall_time_limit'].strip()}"]
    words += [f"--ntasks-per-node={asked['process_count_per_node']}"]
    if feature := asked.get("architecture_constraint"):
        words.append(f"--constraint={feature}")
    with pytest.raises(RuntimeError, match="allocation failure"):
        cluster.run(*words)


def test_where_no_controller_answers(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").touch()  # names no controller
    nowhere = {**os.environ, "SLURM_CONF": str(tmp_path / "slurm.conf")}
    words = [sys.executable, "-m", "forerun", "infra", "detect"]
    done = subprocess.run(words, env=nowhere, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "expected an answer; --local describes this machine alone" in done.stderr


def test_a_job_runs_and_nothing_is_left(tmp_path: Path) -> None:
    with slurm.cluster({"n": Nodes(2)}, {"debug": Partition(default=True)}) as made:
        output = tmp_path / "job.out"
        words = ("sbatch", "--parsable", "--wait", f"--output={output}", "--wrap=hostname; nproc")
        assert made.run(*words).strip() == "1"
        assert len(output.read_text().split()) == 2
        folder = made.folder
    assert not folder.exists()
    left = subprocess.run(["pgrep", "-f", str(folder)], capture_output=True, check=False)
    assert left.stdout == b""
