"""`forerun split cut --plan`: what a plan has chosen, as a folder of packages."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml
from onnx_networks import plain, saved

from forerun.splitting.cut import Split, cut
from forerun.splitting.graph import Graph
from forerun.splitting.mixtures import layout_of

if TYPE_CHECKING:
    from tests.cli.conftest import Forerun, Planned, Printed

BOARDS = """
name: pair
boards:
  pi:
    count: 2
    processors: {microarchitecture: cortex_a72, cores: 4}
    memory: 1 GiB
    link: {bandwidth: 1 Gbit/s, latency: 100us}
    speed: 0.02
"""
MEASURED = {"file": "plain.onnx", "accuracy": "71%", "int8": "70%", "wire": {"int8": "70.5%"}}

Plan = Callable[..., "Printed"]


@pytest.fixture
def plan(forerun: Forerun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Plans a network on boards into `plan.json`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("boards.yaml").write_text(BOARDS)
    saved(plain(32, 16), Path("plain.onnx"))

    def planned(**changes: Any) -> Printed:
        document = {"task": "inference", "network": "plain.onnx", **changes}
        Path("request.yaml").write_text(yaml.safe_dump(document))
        return forerun("plan", "request.yaml", "--on", "boards.yaml", "-o", "plan.json")

    return planned


def candidates() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(Path("plan.json").read_text())["candidates"]
    return found


def number_of(**wanted: object) -> int:
    """The number of the first candidate that has this setting."""
    return 1 + next(
        place
        for place, one in enumerate(candidates())
        if all(one[name] == value for name, value in wanted.items())
    )


def test_what_was_chosen_is_what_is_cut(forerun: Forerun, plan: Plan, tmp_path: Path) -> None:
    assert plan().out.splitlines()[-1] == "next: forerun split cut --plan plan.json"
    chosen = candidates()[0]
    document = forerun("split", "cut", "--plan", "plan.json", "-o", "s", "--json").document
    assert (document["network"], document["layout"]) == ("plain", chosen["layout"]["name"])
    assert len(document["devices"]) == chosen["devices"] == 2
    assert document["predicted"]["seconds"] == chosen["seconds"]
    graph = Graph.load("plain.onnx")
    early = chosen["layout"]["early"]
    made = cut(graph, layout_of(graph, chosen["layout"]), "t", name="plain", early=early)
    assert Split.load("s").uid == made.uid
    elsewhere = forerun("split", "cut", tmp_path / "plain.onnx", "--plan", "plan.json", "-o", "u")
    assert (elsewhere.code, elsewhere.err) == (0, "planned for 2 devices of pi\n")
    assert Split.load("u").uid == made.uid


def test_any_candidate_can_be_cut(forerun: Forerun, plan: Plan) -> None:
    plan()
    for way, layout, devices in (
        ("alone", "whole", 1),
        ("replicas", "replicas", 2),
        ("pipeline", "pipeline", 2),
        ("outputs", "outputs", 2),
    ):
        words = ("--plan", "plan.json", "--candidate", number_of(way=way), "-o", way)
        document = forerun("split", "cut", *words, "--json").document
        assert (document["layout"], len(document["devices"])) == (layout, devices)


def test_int8_needs_samples(forerun: Forerun, plan: Plan) -> None:
    done = plan(network=MEASURED)
    assert candidates()[0]["precision"] == "int8"
    command = "next: forerun split cut --plan plan.json --samples TYPICAL.npy"
    assert done.out.splitlines()[-1] == command
    words = ("split", "cut", "--plan", "plan.json", "-o", "s")
    refused = forerun(*words)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "--samples: found none, expected typical inputs" in refused.err
    np.save("few.npy", np.random.default_rng(0).random((4, 3, 32, 32), np.float32))
    assert forerun(*words, "--samples", "few.npy", "--json").document["precision"] == "int8"
    plain_numbers = ("--candidate", number_of(precision="float32"), "--samples", "few.npy")
    assert "with a plan that computes in float32" in forerun(*words, *plain_numbers).err


def test_what_comes_next_is_run_as_planned(forerun: Forerun, plan: Plan) -> None:
    plan(network=MEASURED, objective="throughput")
    number = number_of(wire="int8", precision="float32", in_flight=4)
    done = forerun("split", "cut", "--plan", "plan.json", "--candidate", number, "-o", "s")
    next_ = "next: forerun split bench s --wire int8 --in-flight 4"
    assert done.out.splitlines()[-1] == next_


def test_another_network_is_refused(forerun: Forerun, plan: Plan) -> None:
    plan()
    saved(plain(32, 8), Path("other.onnx"))
    done = forerun("split", "cut", "other.onnx", "--plan", "plan.json", "-o", "s")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "other.onnx: found another network than the plan's, expected" in done.err
    Path("other.onnx").replace("plain.onnx")
    done = forerun("split", "cut", "--plan", "plan.json", "-o", "s")
    assert "plain.onnx: found another network than the plan's" in done.err
    assert not Path("s").exists()


def test_a_plan_of_a_training_is_refused(forerun: Forerun, planned: Planned) -> None:
    planned()
    done = forerun("split", "cut", "--plan", "plan.json")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "plan.json: found a plan of a training, expected a plan for boards" in done.err


def test_nothing_was_chosen(forerun: Forerun, plan: Plan) -> None:
    assert "next:" not in plan(constraints={"latency": "1us"}).out
    done = forerun("split", "cut", "--plan", "plan.json")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "plan.json: found nothing that can be chosen, expected" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--candidate", "99"), "plan.json: candidate: found 99, expected a number from 1 to"),
        (("--layout", "rows"), "--layout: found rows, expected none with --plan"),
        (("--devices", "0"), "--devices: found 0, expected none with --plan"),
        (("--on", "boards.yaml"), "--on: found boards.yaml, expected none with --plan"),
        (("--int8",), "--int8: found True, expected none with --plan"),
    ],
)
def test_the_plan_says_it(forerun: Forerun, plan: Plan, words: tuple[str, ...], said: str) -> None:
    plan()
    done = forerun("split", "cut", "--plan", "plan.json", *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err


def test_a_damaged_plan_is_refused(forerun: Forerun, plan: Plan) -> None:
    plan()
    document = json.loads(Path("plan.json").read_text())
    for change, said in (
        ({"layout": None}, "layout of"),
        ({"digest": "0"}, "candidate 1: digest: found 0, expected one of its networks"),
        ({"devices": 3}, "found 2 shares, expected 3: one a device"),
        ({"precision": "int4"}, "candidate 1: precision: found int4"),
    ):
        changed = {**document["candidates"][0], **change}
        Path("plan.json").write_text(json.dumps({**document, "candidates": [changed]}))
        done = forerun("split", "cut", "--plan", "plan.json", "-o", "s")
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert said in done.err


def test_neither_a_network_nor_a_plan(forerun: Forerun) -> None:
    done = forerun("split", "cut")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "NETWORK: found none, expected an ONNX file" in done.err
