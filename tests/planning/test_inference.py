"""Plans for a network on boards, over layers whose times are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from onnx_networks import decoupled, plain, saved

import forerun
from forerun.errors import InputError
from forerun.infrastructure import Infrastructure
from forerun.planning import inference
from forerun.planning.inference import InferencePlan, plan_inference
from forerun.planning.inference_reasons import Considered
from forerun.planning.inference_request import InferenceRequest, load_request
from forerun.planning.plans import read_plan, write_plan
from forerun.planning.request import Request
from forerun.plots.front import front_of_ways
from forerun.splitting.choice import Choice, choose
from forerun.splitting.cost import Device, predict
from forerun.splitting.graph import Graph
from forerun.splitting.layers import PlainRule, Predictor
from forerun.splitting.layout import layout

BOARDS: dict[str, Any] = {
    "name": "shelf",
    "boards": {
        "pi": {
            "count": 2,
            "processors": {"microarchitecture": "cortex_a72", "cores": 4},
            "memory": "1 GiB",
            "link": {"bandwidth": "1 Gbit/s", "latency": "100us"},
            "speed": 0.02,
            "power": 5,
        }
    },
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With networks in it, and nobody's timed layers."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    saved(plain(32, 16), tmp_path / "plain.onnx")
    saved(decoupled(32, 16), tmp_path / "grouped.onnx")
    return tmp_path


def asked(folder: Path, **changes: Any) -> InferenceRequest:
    document = {"name": "shelf", "task": "inference", "network": "plain.onnx", **changes}
    path = folder / "request.yaml"
    path.write_text(yaml.safe_dump(document))
    found = load_request(path)
    assert isinstance(found, InferenceRequest)
    return found


def planned(folder: Path, **changes: Any) -> InferencePlan:
    return plan_inference(asked(folder, **changes), Infrastructure.model_validate(BOARDS))


def by_way(found: InferencePlan, **wanted: object) -> Considered:
    """The one candidate that has this setting."""
    one = [
        each
        for each in found.every
        if all(getattr(each.candidate, name) == value for name, value in wanted.items())
    ]
    assert len(one) == 1, [each.candidate for each in one]
    return one[0]


def test_every_way_is_in_one_table_with_its_reason(folder: Path) -> None:
    found = planned(folder, decoupled=["grouped.onnx"])
    assert {one.candidate.way for one in found.every} >= {
        "alone",
        "replicas",
        "pipeline",
        "rows",
        "outputs",
        "inputs",
        "chosen",
        "groups",
    }
    assert all(one.reason for one in found.every)
    assert found.count == len(found.every)
    first = found.chosen
    assert first is not None
    assert first.estimate is not None
    assert first.candidate.way in ("rows", "fused", "chosen")
    assert first.reason.startswith(("fastest, by ", "simplest of those"))
    assert first.estimate.low < first.estimate.seconds < first.estimate.high
    times = [one.estimate.seconds for one in found.considered if one.estimate]
    assert times[1:] == sorted(times[1:])


def test_why_the_others_lost(folder: Path) -> None:
    found = planned(folder)
    told = {(one.candidate.way, one.candidate.precision): one.reason for one in found.every}
    assert told["alone", "float32"].endswith("more: one device computes it all")
    assert told["replicas", "float32"].endswith("more: each sample stays on one device")
    assert told["pipeline", "float32"].endswith("more: one device works after the other")
    assert "no measured accuracy" in told["alone", "int8"]
    assert told["outputs", "float32"].endswith(
        ("of it waiting for other devices", "of it computing on the busiest device")
    )


def test_a_network_that_is_not_trained_names_its_training(folder: Path) -> None:
    training = {"network": "resnet-20", "width": 1.5, "data": "my images", "epochs": 30}
    found = planned(folder, decoupled=[{"file": "grouped.onnx", "training": training}])
    one = by_way(found, way="groups", wire="float32", precision="float32")
    assert one.reason == "must be trained first"
    assert one.training is not None
    request = Request.model_validate(one.training)  # which can be planned itself
    command = request.application.command
    assert command is not None
    assert command.startswith("python -m forerun.splitting.train --network resnet-20 --groups 4")
    assert "--width 1.5 --shuffles stages --data 'my images'" in command
    assert command.endswith("grouped.onnx --epochs {epochs}")
    assert request.fixed == {"epochs": "30"}
    untold = planned(folder, decoupled=["grouped.onnx"])
    other = by_way(untold, way="groups", wire="float32", precision="float32").training
    assert other is not None
    assert "--network NETWORK --groups 4 --width WIDTH" in other["application"]["command"]


def test_a_decoupled_network_is_chosen_where_its_accuracy_was_measured(folder: Path) -> None:
    measured = {"file": "grouped.onnx", "accuracy": "70%", "wire": {"int8": "69.9%"}}
    found = planned(
        folder,
        network={"file": "plain.onnx", "accuracy": "71%"},
        decoupled=[measured],
        constraints={"accuracy": "69%"},
    )
    assert found.chosen is not None
    assert found.chosen.candidate.network == "grouped.onnx"
    strict = planned(
        folder,
        network={"file": "plain.onnx", "accuracy": "71%"},
        decoupled=[measured],
        constraints={"accuracy": "70.5%"},
    )
    assert strict.chosen is not None
    assert strict.chosen.candidate.network == "plain.onnx"
    lost = by_way(strict, way="groups", wire="float32", precision="float32")
    assert lost.reason == "accuracy: 70.0 %, less than 70.5 %"


def test_nobody_has_measured_both_together(folder: Path) -> None:
    measured = {"file": "plain.onnx", "accuracy": "71%", "int8": "70%", "wire": {"int8": "70.5%"}}
    served = asked(folder, network=measured).network
    assert served.accuracy_of("float32", "float16") == 0.71
    assert served.accuracy_of("int8", "float32") == served.accuracy_of("int8", "float16") == 0.7
    assert served.accuracy_of("float32", "int8") == 0.705
    assert served.accuracy_of("int8", "int8") is None
    said = asked(folder, network={**measured, "wire": {"float16": "70.9%"}}).network
    assert said.accuracy_of("float32", "float16") == pytest.approx(0.709)
    assert said.accuracy_of("int8", "float16") is None
    found = planned(folder, network=measured)
    one = by_way(found, way="chosen", precision="int8", wire="int8")
    both = "with whole numbers of 8 bits inside and on the wire"
    assert one.reason == f"no measured accuracy: {both}"


def test_constraints_refuse_with_their_numbers(folder: Path) -> None:
    free = planned(folder)
    alone = by_way(free, way="alone", precision="float32").estimate
    assert alone is not None
    assert free.chosen is not None
    assert free.chosen.estimate is not None
    limit = (alone.seconds + free.chosen.estimate.seconds) / 2
    found = planned(folder, constraints={"latency": limit})
    assert by_way(found, way="alone", precision="float32").reason.startswith("latency: ")
    assert found.chosen == free.chosen or found.chosen is not None
    tight = planned(folder, constraints={"memory": alone.memory - 1})
    reason = by_way(tight, way="alone", precision="float32").reason
    assert reason.startswith("memory: pi-0 needs ")


def test_each_device_has_its_own_memory(folder: Path) -> None:
    """The first part of a pipeline has few weights, and fits into a small board; not the last."""
    graph = Graph.load(folder / "plain.onnx")
    devices = [Device("a"), Device("b")]
    halves = predict(graph, layout(graph, "pipeline", (1, 1)), devices, Predictor(PlainRule()))
    least, most = halves.memory
    assert least < most
    small = {**BOARDS["boards"]["pi"], "count": 1, "memory": (least + most) / 2}
    large = {**small, "memory": "1 GiB"}
    for boards, reason in (
        ({"small": small, "large": large}, ""),
        ({"large": large, "small": small}, "memory: small needs "),
    ):
        infrastructure = Infrastructure.model_validate({"name": "two", "boards": boards})
        found = plan_inference(asked(folder), infrastructure)
        one = by_way(found, way="pipeline", boards=" + ".join(boards))
        assert one.reason.startswith(reason)
        assert ("memory" in one.reason) == bool(reason)


def test_layouts_are_looked_for_with_the_numbers_that_they_are_run_with(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, str]] = []

    def noted(*given: Any, **more: Any) -> Choice:
        seen.append((more["precision"], more["wire"]))
        return choose(*given, **more)

    monkeypatch.setattr(inference, "choose", noted)
    planned(folder, network={"file": "plain.onnx", "wire": {"int8": "70%"}})
    numbers = ("float32", "int8")
    assert sorted(seen) == [(inside, wire) for inside in numbers for wire in numbers]


def test_nothing_may_be_chosen_and_the_table_says_why(folder: Path) -> None:
    found = planned(folder, constraints={"latency": "1us"})
    assert found.chosen is None
    assert found.count > 5
    assert found.notes[-1].startswith("nothing can be chosen: latency (")
    assert found.to_dict()["chosen"] is None


def test_throughput_is_another_goal(folder: Path) -> None:
    found = planned(folder, objective="throughput")
    assert found.chosen is not None
    assert found.chosen.estimate is not None
    assert {one.candidate.in_flight for one in found.every} == {1, 4}
    alone = by_way(found, way="alone", precision="float32").estimate
    replicas = by_way(found, way="replicas", precision="float32").estimate
    assert alone is not None
    assert replicas is not None
    assert replicas.throughput == pytest.approx(2 * alone.throughput)
    assert found.chosen.estimate.throughput >= replicas.throughput * 0.99


def test_energy_needs_power(folder: Path) -> None:
    found = planned(folder, objective="energy")
    assert found.chosen is not None
    assert found.chosen.candidate.devices == 1  # two boards take twice the power
    board = {**BOARDS["boards"]["pi"], "power": 0}
    with pytest.raises(InputError, match="objective energy: found no power for some boards"):
        plan_inference(
            asked(folder, objective="energy"),
            Infrastructure.model_validate({"name": "x", "boards": {"pi": board}}),
        )


def test_boards_of_two_kinds_work_together(folder: Path) -> None:
    slow = {**BOARDS["boards"]["pi"], "speed": 0.01, "count": 1}
    both = {"name": "two", "boards": {**BOARDS["boards"], "old": slow}}
    found = plan_inference(asked(folder), Infrastructure.model_validate(both))
    assert {one.candidate.boards for one in found.every} == {"pi", "old", "pi + old"}
    together = by_way(found, way="rows", boards="pi + old")
    assert together.candidate.devices == 3
    assert together.layout is not None
    assert together.layout["shares"] == [0.02, 0.02, 0.01]


def test_what_nobody_has_said_is_noted(folder: Path) -> None:
    board = {name: value for name, value in BOARDS["boards"]["pi"].items() if name != "speed"}
    found = plan_inference(
        asked(folder), Infrastructure.model_validate({"name": "x", "boards": {"pi": board}})
    )
    assert "no layers were timed" in found.notes[0]
    assert found.notes[1].startswith("pi: no speed is given")


def test_a_plan_is_written_and_is_no_job(folder: Path) -> None:
    found = planned(folder, decoupled=["grouped.onnx"])
    write_plan(found, folder / "plan.json")
    document = json.loads((folder / "plan.json").read_text())
    assert document["task"] == "inference"
    assert document["candidates"][0]["layout"]["name"]
    assert document["request"]["network"]["file"] == str(folder / "plain.onnx")
    assert document["seal"]
    assert len(document["candidates"]) + len(document["refused_candidates"]) == found.count
    with pytest.raises(InputError, match=r"plan\.json: found a plan for boards, expected"):
        read_plan(folder / "plan.json")


def test_the_figure_has_the_front(folder: Path) -> None:
    found = planned(folder)
    figure = front_of_ways(found)
    assert figure.rows["chosen"].sum() == 1
    assert figure.x.title == "devices"
    assert set(figure.rows.loc[figure.rows["front"], "taken"]) == {1.0, 2.0}


def test_the_one_function_plans_both(folder: Path) -> None:
    request = asked(folder)
    found = forerun.plan(request, Infrastructure.model_validate(BOARDS))
    assert isinstance(found, InferencePlan)
    assert found.count == planned(folder).count


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"network": "nowhere.onnx"}, "nowhere.onnx: found no such file, expected an ONNX model"),
        ({"network": "plain.pt"}, "request.yaml: network: found plain.pt, expected an ONNX file"),
        ({"network": 3}, "request.yaml: network: found 3, expected"),
        ({"objective": "speed"}, "objective.speed"),
        ({"objective": {"time": 0}}, "an objective with at least one weight above 0"),
        ({"constraints": {"latency": "soon"}}, "constraints.latency: found soon"),
        ({"decoupled": ["plain.onnx"]}, "expected each network once"),
        ({"in_flight": 0}, "in_flight: found 0, expected at least 1"),
        ({"target": {"boards": "nano"}}, "boards: found nano, expected one of pi"),
        ({"target": {"devices": 3}}, "devices: found 3, expected at most 2"),
        ({"target": {"infrastructure": "x"}}, "target of shelf: found x, expected shelf"),
        ({"layers": "none.db"}, "none.db"),
        ({"speed": 3}, "speed: found a field of that name, expected one of name, task"),
        ({"decoupled": [{"file": "a.onnx", "accuracy": "120%"}]}, "accuracy: found 120%"),
    ],
)
def test_bad_input_is_told_in_one_line(folder: Path, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as refused:
        planned(folder, **changes)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_partitions_alone_run_no_network(folder: Path) -> None:
    cluster = {
        "name": "cluster",
        "partitions": {
            "cpu": {
                "nodes": 1,
                "processors": {"microarchitecture": "x86_64", "cores": 1},
                "memory": "1 GiB",
            }
        },
    }
    with pytest.raises(InputError, match="cluster: found partitions alone, expected boards"):
        plan_inference(asked(folder), Infrastructure.model_validate(cluster))


def test_a_request_with_a_command_is_measured_as_before(folder: Path) -> None:
    path = folder / "other.yaml"
    path.write_text("task: inference\napplication: {command: serve}\n")
    assert isinstance(load_request(path), Request)
