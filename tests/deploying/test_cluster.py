"""A cluster as a place to measure: which points it has room for, and the job of each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from forerun.deploying.cluster import Cluster
from forerun.errors import InputError
from forerun.factors import Factor, Point, Space
from forerun.infrastructure import Infrastructure
from forerun.jobs.spec import JobSpec
from forerun.measuring.opening import Opened, open_study
from forerun.measuring.program import Program
from forerun.measuring.runner import Task
from tests.deploying.conftest import CLUSTER, MACHINE


def cluster(partition: str | None = None, framework: Any = "other", **changes: Any) -> Cluster:
    infrastructure = Infrastructure.model_validate({**CLUSTER, **changes})
    return Cluster(infrastructure, partition, framework)


def space_of(*factors: str) -> Space:
    return Space([Factor.parse(text) for text in factors])


def program(place: Cluster, command: str, **given: Any) -> Program:
    return replace(Program.parse(command, **given), placed=place.sees_to)


def opened(folder: Path, place: Cluster, command: str, *factors: str, **given: Any) -> Opened:
    made = {"": program(place, command, **given)}
    return open_study(folder / "toy.db", space_of(*factors), made)


def spec_at(place: Cluster, study: Opened, warmups: int = 0, **point: Any) -> JobSpec:
    own = study.programs[""]
    task = Task(uuid4().hex, Point(point), "chosen", "", own.command(Point(point)), warmups)
    return place._spec(study.space, own, task, Path("/scratch/job"), study.study.path)


def test_a_point_becomes_a_job(tmp_path: Path) -> None:
    place = cluster()
    study = opened(tmp_path, place, "train {work}", "work=1,2", "threads=2,4", timeout=60.0)
    found = spec_at(place, study, work=2, threads=4)
    assert found.words == ("train", "2")
    assert (found.launcher, found.nodes, found.processes, found.cores) == ("plain", 1, 1, 4)
    assert found.environment["OMP_NUM_THREADS"] == "4"
    assert (found.queue, found.features, found.name) == ("cpu", (), "toy")
    assert (found.walltime, found.exclusive, found.copy_environment) == (120, True, True)
    assert found.made_by[1:] == (f"a run of {tmp_path / 'toy.db'}", "work 2, threads 4")


def test_the_account_is_what_this_user_has_set_for_slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = cluster()
    study = opened(tmp_path, place, "train {work}", "work=1,2")
    monkeypatch.setenv("SBATCH_ACCOUNT", "ada-lab")
    assert spec_at(place, study, work=2).account == "ada-lab"
    monkeypatch.delenv("SBATCH_ACCOUNT")
    assert spec_at(place, study, work=2).account is None


def test_the_frameworks_launcher_starts_workers(tmp_path: Path) -> None:
    place = cluster(framework="pytorch")
    study = opened(tmp_path, place, "python train.py", "nodes=1,2", "workers=2,4")
    two = spec_at(place, study, nodes=2, workers=4)
    assert (two.launcher, two.nodes, two.processes, two.cores) == ("torchrun", 2, 2, 8)
    one = spec_at(place, study, nodes=1, workers=2)
    assert (one.launcher, one.nodes, one.processes) == ("torchrun", 1, 2)
    assert one.walltime == 7200  # of the partition: nobody said how long a run may take


def test_a_device_for_each_worker_and_the_features_of_a_shared_queue(tmp_path: Path) -> None:
    place = cluster("gpu", "pytorch")
    study = opened(tmp_path, place, "python train.py", "gpus=4,8")
    found = spec_at(place, study, gpus=8)
    assert (found.nodes, found.processes, found.accelerators) == (2, 4, 4)
    assert (found.accelerator, found.queue, found.features) == ("nvidia", "batch", ("a100",))


def test_a_factor_may_name_the_partition(tmp_path: Path) -> None:
    place = cluster()
    study = opened(tmp_path, place, "train", "partition=cpu,slow")
    assert spec_at(place, study, partition="slow").queue == "batch"
    with pytest.raises(InputError, match="quad, partition: found fast"):
        place.check(space_of("partition=cpu,fast"), study.programs)


def test_what_surrounds_a_run(tmp_path: Path) -> None:
    place = cluster()
    around = {"prepare": "make data", "cleanup": "rm {work}", "timeout": 10.0}
    study = opened(tmp_path, place, "train {work}", "work=1,2", **around)
    plain = spec_at(place, study, work=1)
    assert plain.prologue == (("make", "data"),)
    assert plain.epilogue == (("timeout", "60", "rm", "1"),)
    warm = spec_at(place, study, warmups=1, work=1)
    assert warm.prologue == (("make", "data"), ("train", "1"), ("rm", "1"), ("make", "data"))
    assert (plain.walltime, warm.walltime) == (670, 680)


def test_warm_ups_are_for_what_no_launcher_starts(tmp_path: Path) -> None:
    place = cluster(framework="mpi")
    study = opened(tmp_path, place, "train", "nodes=1,2")
    assert spec_at(place, study, warmups=2, nodes=2).prologue == ()


@pytest.mark.parametrize(
    ("factors", "point", "why"),
    [
        (("nodes=1,8",), {"nodes": 8}, "8 nodes, more than the 4 of cpu"),
        (("threads=2,32",), {"threads": 32}, "32 threads, more than the 16 of a node of cpu"),
        (("gpus=1,2",), {"gpus": 2}, "no accelerators in cpu"),
        (
            ("nodes=1,2", "workers=1,3"),
            {"nodes": 2, "workers": 3},
            "3 workers cannot be shared out evenly over 2 nodes",
        ),
        (("nodes=1,4",), {"nodes": 4}, ""),
    ],
)
def test_points_that_there_is_no_room_for(
    factors: tuple[str, ...], point: dict[str, Any], why: str
) -> None:
    assert cluster().why_not(space_of(*factors), {}, Point(point)) == why


def test_without_a_scheduler_there_is_one_machine() -> None:
    place = cluster(scheduler="none")
    why = "2 nodes, where without a scheduler there is one machine"
    assert place.why_not(space_of("nodes=1,2"), {}, Point({"nodes": 2})) == why


@pytest.mark.parametrize(
    ("factors", "slots"),
    [(("nodes=1,2",), 4), (("nodes=2,4",), 2), (("nodes=4",), 1), (("work=1",), 4)],
)
def test_as_many_at_a_time_as_fit(tmp_path: Path, factors: tuple[str, ...], slots: int) -> None:
    place = cluster(framework="mpi")
    command = "train {work}" if factors[0].startswith("work") else "train"
    study = opened(tmp_path, place, command, *factors)
    assert place.runner(study, None).slots == slots
    assert place.runner(study, 7).slots == 7


def test_one_machine_runs_one_at_a_time(tmp_path: Path) -> None:
    place = Cluster(Infrastructure.model_validate(MACHINE))
    assert place.runner(opened(tmp_path, place, "train {n}", "n=1,2"), None).slots == 1


def test_who_starts_the_workers_must_be_known() -> None:
    place, space = cluster(), space_of("nodes=1,2")
    with pytest.raises(InputError, match="framework of the application: found other"):
        place.check(space, {"": program(place, "train")})
    with pytest.raises(InputError, match="found torchrun, expected the program alone"):
        cluster(framework="pytorch").check(space, {"": program(place, "torchrun train")})


def test_a_marker_must_capture_seconds() -> None:
    place, space = cluster(), space_of("n=1,2")
    with pytest.raises(InputError, match="a group that captures seconds"):
        place.check(space, {"": program(place, "train {n}", marker="^epoch")})
    place.check(space, {"": program(place, "train {n}", marker="took (.*) s")})


def test_which_partition() -> None:
    assert cluster().partition == "cpu"
    slow = {**CLUSTER["partitions"]["slow"], "default": True}
    assert cluster(partitions={**CLUSTER["partitions"], "slow": slow}).partition == "slow"
    assert cluster("gpu").name == "quad, partition gpu"
    with pytest.raises(InputError, match="found fast, expected one of cpu, gpu, slow"):
        cluster("fast")
    with pytest.raises(InputError, match="found kubernetes, expected one of slurm, pbs, none"):
        cluster(scheduler="kubernetes")


def test_no_scheduler_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="sbatch: found no such program"):
        cluster().check_scheduler()
