"""What a worker's memory must hold where no run has measured it."""

from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper, save_model

from forerun.errors import InputError
from forerun.factors import Factor, Space
from forerun.infrastructure import Infrastructure
from forerun.planning.memory import MARGIN, NOTE, worker_bytes
from forerun.planning.planner import Plan, plan
from forerun.planning.request import Network, Request
from forerun.study import Run, Study

MIB = 2**20
RESNET = {"parameters": 25.6e6, "activation_bytes": "170 MB", "optimiser": "adam"}


def network(**changes: Any) -> Network:
    return Network.model_validate({**RESNET, **changes})


def test_weights_gradients_optimiser_activations_and_the_framework() -> None:
    assert worker_bytes(network(), 32, "pytorch") == pytest.approx(
        4 * 25.6e6 * 4 + 2 * 32 * 170e6 + 302 * MIB
    )
    assert worker_bytes(network(optimiser="sgd"), 1) == pytest.approx(2 * 4 * 25.6e6 + 2 * 170e6)
    with_momentum = worker_bytes(network(optimiser="momentum"), 1)
    assert with_momentum == pytest.approx(3 * 4 * 25.6e6 + 2 * 170e6)
    assert worker_bytes(network(), 8, half=True) == pytest.approx(4 * 4 * 25.6e6 + 8 * 170e6)
    assert worker_bytes(network(), 8, workers=2) == pytest.approx(5 * 4 * 25.6e6 + 16 * 170e6)
    assert worker_bytes(network(), 8, training=False) == pytest.approx(4 * 25.6e6 + 8 * 170e6)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    factors = ("batch=16,32,64", "workers=1,2", "precision=fp32,bf16")
    space = Space([Factor.parse(one) for one in factors])
    made = Study.create(tmp_path_factory.mktemp("memory") / "s.db", space)
    for point in space.grid():
        speed = 2 if point["precision"] == "bf16" else 1
        seconds = 1 + 1000 / float(point["batch"]) / float(point["workers"]) / speed
        made.add(Run(point, {"seconds": seconds}))
    return made


def planned(study: Study, memory: str, device: str | None = None, **changes: Any) -> Plan:
    node: dict[str, Any] = {
        "nodes": 2,
        "processors": {"microarchitecture": "zen3", "cores": 2},
        "memory": memory,
    }
    if device:
        node["accelerators"] = {"count": 1, "kind": "nvidia", "memory": device}
    given: dict[str, Any] = {
        "application": {"command": "train --precision {precision}", "framework": "pytorch"},
        "free": {"batch": [16, 32, 64]},
        "network": RESNET,
        **changes,
    }
    infrastructure = {"name": "c", "partitions": {"p": node}}
    request = Request.model_validate(given)
    return plan(request, Infrastructure.model_validate(infrastructure), study)


def test_what_needs_more_than_there_is_is_refused_and_the_plan_says_how_it_knows(
    study: Study,
) -> None:
    found = planned(study, "16 GiB")
    # 64 samples of 32 bits need too much; 32 of them, or 64 of 16 bits, for two in 16 GiB.
    assert found.refused["memory"] == 4
    assert NOTE in found.notes
    chosen = found.chosen
    assert chosen.candidate.point["precision"] == "bf16"
    assert chosen.estimate is not None
    need = MARGIN * worker_bytes(network(), 64, "pytorch", half=True)
    assert max(one.estimate.memory or 0 for one in found.considered if one.estimate) == need
    everything = planned(study, "64 GiB")
    assert "memory" not in everything.refused


def test_a_batch_of_all_workers_is_shared_by_them(study: Study) -> None:
    shared = planned(study, "64 GiB", batch_is="total")
    both = {tuple(one.candidate.point.values()): one.estimate for one in shared.considered}
    two, one = both[64, 2, "fp32"], both[32, 1, "fp32"]
    assert two is not None
    assert one is not None
    assert (two.memory or 0) - (one.memory or 0) == pytest.approx(MARGIN * 4 * 25.6e6)


def test_with_devices_their_memory_counts(study: Study) -> None:
    wish = {"accelerator": "nvidia"}
    found = planned(study, "4 GiB", "80 GiB", wishes=wish)
    assert "memory" not in found.refused
    assert planned(study, "256 GiB", "16 GiB", wishes=wish).refused["memory"] == 2


def test_what_was_measured_goes_before(tmp_path: Path) -> None:
    space = Space([Factor.parse("batch=16,32,64"), Factor.parse("workers=1,2")])
    made = Study.create(tmp_path / "s.db", space)
    for point in space.grid():
        made.add(Run(point, {"seconds": 1 + float(point["batch"]) / 10, "memory_bytes": 1e9}))
    found = planned(made, "4 GiB")
    assert found.chosen.estimate is not None
    assert found.chosen.estimate.memory == pytest.approx(1e9, rel=0.2)
    assert NOTE not in found.notes


def test_an_onnx_file_is_described(tmp_path: Path) -> None:
    weights = helper.make_tensor("w", TensorProto.FLOAT, (4, 3), [0.0] * 12)
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])
        for name, size in (("x", 4), ("y", 3))
    )
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    save_model(
        helper.make_model(
            helper.make_graph([node], "net", [x], [y], [weights]),
            opset_imports=[helper.make_opsetid("", 21)],
            ir_version=10,
        ),
        tmp_path / "net.onnx",
    )
    path = tmp_path / "request.yaml"
    path.write_text("application: {command: train}\nnetwork: net.onnx\n")
    assert Request.load(path).network == Network(parameters=12, activation_bytes=12.0)
    path.write_text("application: {command: train}\nnetwork: net.py:model\n")
    with pytest.raises(InputError, match=r"network: found net.py:model, expected an ONNX file"):
        Request.load(path)
