"""A check finds what is wrong, and nothing else."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import save_model
from random_networks import Array, Maker

from forerun.errors import InputError
from forerun.splitting import check as checking
from forerun.splitting.check import check, probed
from forerun.splitting.emitting import Builder, Task
from forerun.splitting.graph import Graph
from forerun.splitting.layout import Layout, layout, settle
from forerun.splitting.mixtures import Mixture, mixed
from forerun.splitting.simulate import Simulation


@pytest.fixture
def path(tmp_path: Path) -> Path:
    net = Maker({"x": (1, 3, 12, 6)})
    x = net.add("Relu", net.conv("x", 8))
    x = net.add("Relu", net.add("Add", x, net.conv(x, 8)))
    save_model(net.model(net.head(net.conv(x, 8, group=2), 10)), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_all_layouts_pass(path: Path) -> None:
    layouts = ["whole", "rows", "fused", "outputs", "inputs", "groups", "pipeline"]
    seen: list[tuple[str, int, int]] = []
    found = list(
        check(
            path,
            layouts,
            [1, 2, (1.0, 2.0)],
            samples=2,
            progress=lambda name, devices, done, _: seen.append((name, devices, done)),
        )
    )
    assert [(one.layout, one.devices) for one in found] == [
        (name, devices) for name in layouts for devices in (1, 2, 2)
    ]
    assert all(one.passed and one.difference < 1e-5 for one in found)
    assert all(load.excess <= 1.0 for one in found for load in one.loads)
    assert len(seen) == len(found) * 2
    assert {one.tensors for one in found} == {7}


def test_what_is_looked_at(path: Path) -> None:
    """Layers with their activations; never what only waits to be activated."""
    graph = Graph.load(path)
    waiting = {op.inputs[0] for op in graph.operations if op.kind == "Relu"}
    assert set(probed(graph)) == set(graph.makers) - waiting


def test_weights_of_the_wrong_channel_are_found(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Builder.task

    def wrong(self: Builder, given: Task, inputs: list[str]) -> list[str]:
        op = given.op
        if op.kind == "Conv" and op.inputs == ("t1",):
            mixed = {**op.constants, "weight": op.constants["weight"][::-1]}
            given = replace(given, op=replace(op, constants=mixed))
        return task(self, given, inputs)

    monkeypatch.setattr(Builder, "task", wrong)
    (found,) = check(path, ["rows"], [2], samples=1)
    assert not found.passed
    assert "differs by" in found.problem


def test_a_device_that_does_too_much_is_found(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "MOST", 0.5)
    (found,) = check(path, ["rows"], [2], samples=1)
    assert found.problem == "device 0 does 1 times its layout's share"


def test_fused_rows_that_are_more_than_a_halo_are_found(path: Path) -> None:
    graph = Graph.load(path)
    made = Layout.fused(graph, (1, 1, 1), ["t1", "t4"])
    (found,) = check(path, [made], [3], samples=1)
    assert found.passed
    silent = replace(made, exchanged=made.exchanged - {"t1", "t4"})
    (found,) = check(path, [silent], [3], samples=1)
    assert found.difference < 1e-5
    assert found.problem.startswith("device 0 does 1.2")
    # Of 4 rows each, the device in the middle computes 8 and 6 for the layers before: 6336 / 4320.
    assert found.loads[1].excess == pytest.approx(6336 / 4320, rel=0.01)


def test_what_is_computed_twice_for_fewer_exchanges_is_no_excess(path: Path) -> None:
    graph = Graph.load(path)
    dropped = mixed(graph, Mixture((1.0,) * 3, dropped=frozenset(["t1", "t4"])))
    rows = settle(graph, layout(graph, "rows", (1.0,) * 3))
    assert settle(graph, dropped).macs(graph, 1) > 1.2 * rows.macs(graph, 1)
    (found,) = check(path, [dropped], [3], samples=1)
    assert found.passed


def answers_of(folder: Path, samples: Iterable[Mapping[str, Array]]) -> Iterator[dict[str, Array]]:
    simulation = Simulation(folder)
    for sample in samples:
        yield simulation.run(sample)


def test_real_devices_are_asked(path: Path) -> None:
    (found,) = check(path, ["rows"], [2], samples=2, run=answers_of)
    assert found.passed
    assert found.answers is not None
    assert found.answers < 1e-5

    def late(folder: Path, samples: Iterable[Mapping[str, Array]]) -> Iterator[Mapping[str, Array]]:
        for answer in answers_of(folder, samples):
            yield {name: np.roll(value, 1) for name, value in answer.items()}

    (found,) = check(path, ["rows"], [2], samples=2, run=late)
    assert found.problem.startswith("answers of devices differ by")


def test_numbers_that_are_none_are_wrong(path: Path) -> None:
    def broken(
        folder: Path, samples: Iterable[Mapping[str, Array]]
    ) -> Iterator[Mapping[str, Array]]:
        for answer in answers_of(folder, samples):
            yield {name: value * np.float32("nan") for name, value in answer.items()}

    (found,) = check(path, ["rows"], [2], samples=1, run=broken)
    assert found.answers == float("inf")


def test_bad_input(path: Path) -> None:
    with pytest.raises(InputError, match="samples: found 0"):
        list(check(path, ["rows"], [2], samples=0))
    with pytest.raises(InputError, match="13 devices for 12 rows"):
        list(check(path, ["rows"], [13], samples=1))
