"""What fits onto a device beside what was measured on its node, and what 16 bits halve."""

from pathlib import Path
from typing import Any

import pytest

from forerun.factors import Factor, Point, Space
from forerun.infrastructure import Infrastructure
from forerun.planning.candidates import Roles
from forerun.planning.memory import beside_measured, estimated
from forerun.planning.planner import plan
from forerun.planning.request import Request
from forerun.study import Run, Study

SPACE = Space([Factor.parse("batch=16,32,64"), Factor.parse("precision=float32,bfloat16")])
RESNET = {"parameters": 25.6e6, "activation_bytes": "170 MB"}
NODE = {
    "nodes": 1,
    "processors": {"microarchitecture": "zen3", "cores": 2},
    "memory": "256 GiB",
    "accelerators": {"count": 1, "kind": "nvidia", "memory": "16 GiB"},
}
CLUSTER = Infrastructure.model_validate({"name": "c", "partitions": {"p": NODE}})


def request(command: str = "train", **changes: Any) -> Request:
    application = {"command": command}
    return Request.model_validate(
        {
            "application": application,
            "network": RESNET,
            "free": {"batch": "16,32,64"},
            "wishes": {"accelerator": "nvidia"},
            **changes,
        }
    )


def lacks(of: Request, batch: int) -> str:
    point = Point({"batch": batch, "precision": "float32"})
    return beside_measured(of, CLUSTER.partition("p"), Roles(SPACE), point, 1)


def test_the_estimate_must_fit_onto_the_device() -> None:
    assert lacks(request(), 32) == ""
    told = "memory: a worker may need 25.8 GiB of its device by estimate, more than 16 GiB"
    assert lacks(request(), 64) == told
    assert lacks(request(wishes={}), 64) == ""  # no device is used
    assert lacks(request(network=None), 64) == ""


def test_a_plan_checks_both_memories(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "s.db", SPACE)
    for point in SPACE.grid():
        seconds = 1 + 1000 / float(point["batch"])
        study.add(Run(point, {"seconds": seconds, "memory_bytes": 1e9}))
    found = plan(request(), CLUSTER, study)
    assert found.refused["memory"] == 2
    assert found.chosen.candidate.point["batch"] == 32


@pytest.mark.parametrize(
    ("command", "is_half"),
    [("train", False), ("train --precision {precision}", True)],
)
def test_only_what_the_application_is_told_halves_what_it_keeps(
    command: str, is_half: bool
) -> None:
    whole, half = (
        estimated(request(command), Roles(SPACE), Point({"batch": 64, "precision": precision}))
        for precision in ("float32", "bfloat16")
    )
    assert whole is not None
    assert half is not None
    assert (half < 0.6 * whole) is is_half
    assert is_half or half == whole
