"""What a compiler cannot do is kept with its reason."""

from typing import Any

import pytest

from forerun.compilers import Variant, variants
from forerun.infrastructure import Infrastructure
from forerun.planning.planner import Plan, unmeasured
from forerun.planning.request import Request


def listed(task: str, microarchitecture: str = "zen3", **application: Any) -> Plan:
    node = {
        "nodes": 1,
        "processors": {"microarchitecture": microarchitecture, "cores": 2},
        "memory": "1 GiB",
    }
    given = {"command": "run", "framework": "pytorch", **application}
    request = Request.model_validate({"task": task, "application": given})
    cluster = Infrastructure.model_validate({"name": "c", "partitions": {"p": node}})
    return unmeasured(request, cluster)


def names(found: Plan) -> list[str]:
    return sorted(str(one.candidate.point["variant"]) for one in found.considered)


def test_openvino_cannot_train() -> None:
    found = listed("training")
    assert names(found) == ["inductor", "plain"]
    assert found.refused == {"openvino cannot train": 1}


def test_it_infers_on_processors_that_it_compiles_for() -> None:
    assert names(listed("inference")) == ["inductor", "openvino", "plain"]
    assert names(listed("inference", "neoverse_n1")) == ["inductor", "openvino", "plain"]
    power = listed("inference", "power9le")
    assert power.refused == {"openvino does not compile for power processors": 1}


def test_a_command_of_that_name_is_that_compiler() -> None:
    found = listed("training", command=None, commands={"eager": "a", "openvino": "b"})
    assert names(found) == ["eager"]
    assert found.refused == {"openvino cannot train": 1}


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "jax", "mxnet"])
def test_plain_comes_first_and_can_do_all(framework: Any) -> None:
    plain = variants(framework)[0]
    assert plain.name == "plain"
    assert plain.why_not("training", "power") == plain.why_not("inference", "other") == ""
    assert Variant("x", framework, tasks=("training",)).why_not("inference", "arm") == (
        "x cannot infer"
    )
