"""Who starts workers, and what each gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from forerun.deploying.launching import shape_of, starts_workers
from forerun.errors import InputError

if TYPE_CHECKING:
    from forerun.planning.planner import Plan
    from tests.deploying.conftest import MakePlan


def shaped(plan: Plan, holes: tuple[str, ...] = (), **options: Any) -> tuple[Any, ...]:
    found = shape_of(plan, plan.chosen.candidate, ["python", "train.py"], holes, **options)
    return (found.launcher, found.nodes, found.processes, found.cores, found.accelerators)


def torch(**more: Any) -> dict[str, Any]:
    return {"application": {"command": "train", "framework": "pytorch"}, **more}


def test_an_application_starts_its_own_workers_on_one_node(make_plan: MakePlan) -> None:
    plan = make_plan({"workers": 4}, **torch())
    assert shaped(plan, ("workers",)) == ("plain", 1, 1, 16, 0)
    threads = make_plan({"workers": 4, "threads": 2}, **torch())
    assert shaped(threads, ("workers",)) == ("plain", 1, 1, 8, 0)


def test_the_frameworks_launcher_does_over_several_nodes(make_plan: MakePlan) -> None:
    plan = make_plan({"workers": 4}, nodes=2, **torch())
    assert shaped(plan, ("workers",)) == ("torchrun", 2, 2, 8, 0)
    assert shaped(plan) == ("torchrun", 2, 2, 8, 0)
    assert shaped(plan, ("workers",), one_machine=True) == ("plain", 1, 1, 16, 0)


def test_and_where_the_command_has_no_hole_for_them(make_plan: MakePlan) -> None:
    assert shaped(make_plan({"workers": 4, "threads": 3}, **torch())) == ("torchrun", 1, 4, 3, 0)
    assert shaped(make_plan({"workers": 1}, **torch())) == ("plain", 1, 1, 16, 0)


@pytest.mark.parametrize(
    ("framework", "launcher"),
    [("tensorflow", "tensorflow"), ("mxnet", "mxnet"), ("jax", "mpi"), ("mpi", "mpi")],
)
def test_each_framework_has_its_own(framework: str, launcher: str, make_plan: MakePlan) -> None:
    application = {"command": "train", "framework": framework}
    plan = make_plan({"workers": 2}, nodes=2, application=application)
    assert shaped(plan)[0] == launcher


def test_a_command_that_is_a_launcher_is_left_alone(make_plan: MakePlan) -> None:
    plan = make_plan({"workers": 4}, **torch())
    found = shape_of(plan, plan.chosen.candidate, ["torchrun", "train.py"], ())
    assert (found.launcher, found.nodes, found.processes) == ("plain", 1, 1)
    several = make_plan({"workers": 4}, nodes=2, **torch())
    with pytest.raises(InputError, match="found torchrun, expected the program alone"):
        shape_of(several, several.chosen.candidate, ["torchrun", "train.py"], ())
    for words in (["/usr/bin/mpirun", "a"], ["python3", "-m", "torch.distributed.run", "a"]):
        assert starts_workers(words)
    for words in (["python3", "-m", "train"], ["python", "srun.py"], ["python", "-m"]):
        assert not starts_workers(words)


def test_an_accelerator_for_each_worker(make_plan: MakePlan) -> None:
    plan = make_plan({"gpus": 4}, partition="gpu", nodes=2, **torch())
    assert shaped(plan) == ("torchrun", 2, 2, 4, 2)


def test_ranks_and_cores_as_modak_has_them(make_plan: MakePlan) -> None:
    mpi = {"application": {"command": "./xthi", "framework": "mpi"}}
    job = {"ranks": 8, "threads": 2, "processes": 4}
    assert shaped(make_plan({}, nodes=2, job=job, **mpi)) == ("mpi", 2, 4, 2, 0)
    job = {"ranks": 8, "threads": 2, "processes": 4, "cores": 4}
    assert shaped(make_plan({}, nodes=2, job=job, **mpi)) == ("mpi", 2, 4, 1, 0)
    tf = {"application": {"command": "./a.sh", "framework": "tensorflow"}}
    assert shaped(make_plan({}, job={"processes": 12}, **tf)) == ("plain", 1, 1, 12, 0)


def test_what_nobody_could_start_is_refused(make_plan: MakePlan) -> None:
    with pytest.raises(InputError, match="found 3, expected a multiple of its 2 nodes"):
        shaped(make_plan({"workers": 3}, nodes=2, **torch()))
    with pytest.raises(InputError, match="found other, expected one of pytorch"):
        shaped(make_plan({"workers": 2}, nodes=2))
