"""Whatever the network and the layout, the devices together compute what one would."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from onnx import ModelProto
from random_networks import Maker, answers, decoupled, difference, networks, sample

from forerun.errors import InputError
from forerun.splitting import early as early_rows
from forerun.splitting.cut import Split, cut, cut_replicas, finish
from forerun.splitting.graph import Graph
from forerun.splitting.layout import Layout, Placement, exchanged, layout
from forerun.splitting.placing import by_channels, by_rows
from forerun.splitting.quantise import quantise
from forerun.splitting.regions import shared_out
from forerun.splitting.rules import WHOLE, summed
from forerun.splitting.simulate import Simulation, simulate

CLOSE = 2e-5  # the order of sums differs
EXACT = ("whole", "rows", "fused", "outputs", "inputs", "pipeline")
SHARES = st.lists(st.sampled_from([1.0, 1.0, 1.0, 0.5, 3.0]), min_size=1, max_size=4)
# The same networks each time: now and then onnxruntime cannot run a drawn one at all, or all that
# is left of a sum is rounding.
thorough = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module", autouse=True)
def _early_wherever_it_can_be() -> Iterator[None]:
    """Small networks have few weights: let them be stored twice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(early_rows, "MOST", 10.0)
        yield


def check(model: ModelProto, made: Layout, early: float, probes: bool = False) -> Split:
    """Cut, run, and compare with the whole network."""
    inputs = sample(model)
    right = answers(model, inputs)
    with tempfile.TemporaryDirectory() as folder:
        split = cut(
            Graph.of(model), made, Path(folder) / "split", name="net", early=early, probes=probes
        )
        simulation = Simulation(split.folder)
        for _ in range(2):  # the second sample finds nothing of the first
            found = simulation.run(inputs)
        for name, value in right.items():
            assert difference(found[name], value) <= CLOSE, name
        return split


@thorough
@given(networks(), st.sampled_from(EXACT), SHARES, st.booleans())
def test_every_layout_is_exact(
    model: ModelProto, name: str, shares: list[float], early: bool
) -> None:
    graph = Graph.of(model)
    assume(len(shares) <= max(shape.rows for shape in graph.tensors.values()))
    check(model, layout(graph, name, shares), 1e-9 if early else 0.0)


@thorough
@given(st.data(), st.integers(2, 4), SHARES)
def test_groups_are_exact(data: st.DataObject, groups: int, shares: list[float]) -> None:
    model = data.draw(decoupled(groups))
    assume(len(shares) <= groups)
    check(model, layout(Graph.of(model), "groups", shares), 0.0)


def mixed(draw: st.DrawFn, graph: Graph, shares: list[float]) -> Layout:
    """For each tensor a placement of its own."""
    devices = len(shares)
    placements: dict[str, Placement] = {}
    for op in graph.operations:
        for name in op.outputs:
            shape = graph.tensors[name]
            ways = ["everywhere", "only"]
            if op.kind not in WHOLE:
                ways += ["rows", "channels", "sum" if summed(op) else "rows"]
            if name not in graph.outputs:
                ways.append("local")
            way = draw(st.sampled_from(ways))
            if way == "everywhere":
                placements[name] = Placement.everywhere(shape, devices)
            elif way == "only":
                device = draw(st.integers(0, devices - 1))
                placements[name] = Placement.only(shape, device, devices)
            elif way == "rows":
                placements[name] = by_rows(shared_out(shape.rows, shares), shape)
            elif way == "channels":
                placements[name] = by_channels(shared_out(shape.channels, shares), shape)
            elif way == "sum":
                before = graph.tensors[op.inputs[0]]
                if summed(op) == "rows":
                    portions = by_rows(shared_out(before.rows, shares), before).regions
                else:
                    portions = by_channels(shared_out(before.channels, shares), before).regions
                regions = by_channels(shared_out(shape.channels, shares[::-1]), shape).regions
                placements[name] = Placement(regions, portions)
    return Layout(placements, exchanged(graph, placements))


@thorough
@given(st.data(), networks(most=4), SHARES, st.booleans())
def test_any_mixture_is_exact(
    data: st.DataObject, model: ModelProto, shares: list[float], early: bool
) -> None:
    made = data.draw(st.composite(mixed)(Graph.of(model), shares))
    check(model, made, 1e-9 if early else 0.0)


@pytest.fixture
def model() -> ModelProto:
    net = Maker({"x": (1, 3, 12, 6)})
    x = net.add("Relu", net.conv("x", 6))
    x = net.add("Relu", net.add("Add", x, net.conv(x, 6)))
    return net.model(net.head(x, 10))


def contents(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_the_same_network_and_layout_give_the_same_bytes(model: ModelProto, tmp_path: Path) -> None:
    for name in ("a", "b"):
        graph = Graph.of(model)
        cut(graph, layout(graph, "rows", (1, 1)), tmp_path / name, name="net", early=True)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    other = cut(graph, layout(graph, "rows", (1, 2)), tmp_path / "c", name="net")
    assert other.uid != Split.load(tmp_path / "a").uid


def finished(folder: Path, packages: list[dict[str, Any]]) -> str:
    """The uid of a split of these packages."""
    for package in packages:
        (folder / f"device-{package['device']}").mkdir(parents=True)
    about = {"format": 1, "network": "0" * 64, "name": "net", "devices": 2}
    finish(folder, {**about, "layout": "rows", "kind": "cut"}, packages)
    return str(json.loads((folder / "split.json").read_text())["split"])


def test_the_uid_is_of_all_that_devices_must_agree_on(model: ModelProto, tmp_path: Path) -> None:
    graph = Graph.of(model)
    split = cut(graph, layout(graph, "rows", (1, 1)), tmp_path / "split", name="net")
    packages = [split.description(device) for device in range(2)]
    for package in packages:
        del package["split"]
    uids = {finished(tmp_path / "same", packages)}
    assert uids == {finished(tmp_path / "again", packages)}
    fields = ("segments", "buffers", "copies", "sends", "receives", "inputs", "outputs")
    for field in fields:
        other = [packages[0], packages[1] | {field: type(packages[1][field])()}]
        assert other != packages
        uids.add(finished(tmp_path / field, other))
    assert len(uids) == 1 + len(fields)


def test_what_a_folder_says(model: ModelProto, tmp_path: Path) -> None:
    graph = Graph.of(model)
    split = cut(graph, layout(graph, "rows", (1, 1)), tmp_path / "split", name="net")
    about = json.loads((tmp_path / "split" / "split.json").read_text())
    assert about["network"] == graph.digest
    assert (about["name"], about["devices"], about["layout"]) == ("net", 2, "rows")
    assert (about["kind"], about["precision"]) == ("cut", "float32")
    assert (about["inputs"], about["outputs"]) == (
        {"x": [1, 3, 12, 6]},
        {graph.outputs[0]: [1, 10]},
    )
    for device in range(2):
        package = split.description(device)
        assert (package["split"], package["device"]) == (split.uid, device)
        assert package["macs"] == sum(one["macs"] for one in package["segments"])
        (given_rows,) = package["inputs"]
        assert given_rows["box_of_network_input"] == [[0, 3, 1], [[0, 7], [5, 12]][device]]
        assert all(one["add"] for one in package["outputs"])  # the host adds up the classes


def test_a_folder_that_holds_something_is_left_alone(model: ModelProto, tmp_path: Path) -> None:
    graph = Graph.of(model)
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="expected a new folder"):
        cut(graph, layout(graph, "rows", (1, 1)), tmp_path, name="net")
    assert contents(tmp_path) == {"mine.txt": b"mine"}


def test_an_interrupted_cut_leaves_nothing(
    model: ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = Graph.of(model)
    written = Path.write_bytes

    def fails(path: Path, content: bytes) -> int:
        if path.parent.name == "device-1":
            raise KeyboardInterrupt
        return written(path, content)

    monkeypatch.setattr(Path, "write_bytes", fails)
    with pytest.raises(KeyboardInterrupt):
        cut(graph, layout(graph, "rows", (1, 1)), tmp_path / "split", name="net")
    assert list(tmp_path.iterdir()) == []


def test_replicas_are_whole_networks(model: ModelProto, tmp_path: Path) -> None:
    graph = Graph.of(model)
    split = cut_replicas(graph, 3, tmp_path / "split", name="net")
    assert (split.devices, split.document["kind"]) == (3, "replicas")
    segments = [split.description(device)["segments"] for device in range(3)]
    assert segments[0] == segments[1] == segments[2]
    right = answers(model, sample(model))
    found = simulate(split.folder, sample(model))
    assert difference(found[graph.outputs[0]], right[graph.outputs[0]]) < CLOSE
    with pytest.raises(InputError, match="devices: found 0"):
        cut_replicas(graph, 0, tmp_path / "none", name="net")


def test_names_with_control_characters_are_refused(model: ModelProto, tmp_path: Path) -> None:
    graph = Graph.of(model)
    with pytest.raises(InputError, match="name"):
        cut(graph, layout(graph, "whole", (1,)), tmp_path / "split", name="a\nb")


def test_no_split() -> None:
    with pytest.raises(InputError, match=r"found no split\.json"):
        Split.load("nowhere")


def test_operators_without_a_rule_run_whole() -> None:
    net = Maker({"x": (1, 3, 12, 6)})
    x = net.add("InstanceNormalization", net.conv("x", 4), net.weight(4), net.weight(4))
    model = net.model(net.head(net.add("Relu", net.conv(x, 5)), 7))
    assert len(Graph.of(model).unruled) == 1
    for name in EXACT:
        check(model, layout(Graph.of(model), name, (1, 1, 1)), 0.0)


def test_whole_numbers_at_the_end(tmp_path: Path) -> None:
    """The class itself, which travels as float32."""
    net = Maker({"x": (1, 3, 12, 6)})
    x = net.head(net.conv("x", 4), 7)
    x = net.add("ArgMax", x, axis=1, keepdims=0)
    model = net.model(x)
    model.graph.output[0].type.tensor_type.elem_type = 7
    graph = Graph.of(model)
    split = cut(graph, layout(graph, "rows", (1, 1)), tmp_path / "split", name="net")
    found = simulate(split.folder, sample(model))[x]
    assert int(found.reshape(-1)[0]) == int(answers(model, sample(model))[x][0])


@pytest.mark.parametrize("counted", [0, 1])
@pytest.mark.parametrize("kind", ["AveragePool", "MaxPool"])
def test_windows_beyond_the_padding(kind: str, counted: int) -> None:
    """Where ceil_mode goes past the last row, at whatever device that lies."""
    net = Maker({"x": (1, 2, 10, 7)})
    given_window: dict[str, Any] = {
        "kernel_shape": [3, 3],
        "strides": [2, 2],
        "pads": [1, 1, 1, 1],
        "ceil_mode": 1,
    }
    if kind == "AveragePool":
        given_window["count_include_pad"] = counted
    x = net.add(kind, net.add("Relu", net.conv("x", 3)), **given_window)
    model = net.model(net.conv(x, 2))
    for shares in ((1.0,), (1.0, 1.0), (1.0, 1.0, 1.0)):
        check(model, layout(Graph.of(model), "rows", list(shares)), 0.0)


def test_unusual_shapes_travel_as_vectors() -> None:
    net = Maker({"x": (1, 4, 6, 5)})
    x = net.add("Reshape", net.conv("x", 4), net.constant(np.array([2, 2, 30])))
    model = net.model(net.add("Softmax", x, axis=2))
    for name in EXACT:
        check(model, layout(Graph.of(model), name, (1, 1)), 0.0)


def test_what_pictures_are_normalised_by_is_taken_along(model: ModelProto, tmp_path: Path) -> None:
    silent = cut_replicas(Graph.of(model), 1, tmp_path / "silent", name="net")
    assert not {"mean", "std"} & set(silent.document)
    for key, value in (("mean", "[0.5, 0.25, 0]"), ("std", "[1, 2, 3]")):
        model.metadata_props.add(key=key, value=value)
    made = cut_replicas(Graph.of(model), 1, tmp_path / "made", name="net")
    assert (made.document["mean"], made.document["std"]) == ([0.5, 0.25, 0.0], [1.0, 2.0, 3.0])
    small = quantise(made.folder, [sample(model)["x"]], tmp_path / "int8")
    assert (small.document["mean"], small.document["std"]) == ([0.5, 0.25, 0.0], [1.0, 2.0, 3.0])


def test_only_a_later_result_of_an_operator_is_read() -> None:
    """The best classes, without what speaks for them; and both."""
    net = Maker({"x": (1, 3, 12, 6)})
    best = net.add("TopK", net.head(net.conv("x", 4), 7), net.constant(np.array([3])), outputs=2)
    for outputs in ([f"{best}_1"], [best, f"{best}_1"], [best]):
        model = net.model(*outputs)
        for one in model.graph.output:
            if one.name != best:
                one.type.tensor_type.elem_type = 7
        for name in EXACT:
            check(model, layout(Graph.of(model), name, (1, 1, 1)), 0.0, probes=True)


def test_results_of_different_sizes() -> None:
    net = Maker({"x": (1, 3, 6, 6)})
    x = net.add("Reshape", net.conv("x", 4), net.constant(np.array([1, 144, 1])))
    small = net.add("Split", x, net.constant(np.array([64, 80])), outputs=2, axis=1)
    large = f"{small}_1"
    x = net.add("Concat", large, small, axis=1)
    x = net.conv(net.add("Reshape", x, net.constant(np.array([1, 4, 6, 6]))), 5)
    for outputs in ([x], [large], [x, small, large]):
        model = net.model(*outputs)
        for name in EXACT:
            check(model, layout(Graph.of(model), name, (1, 1, 1)), 0.0, probes=True)
