"""Segments in int8: near the float32 ones, smaller, and what travels is float32 as before."""

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto
from random_networks import Maker, sample

from forerun.errors import InputError
from forerun.splitting.cut import Split, cut, cut_replicas
from forerun.splitting.graph import Graph
from forerun.splitting.layout import layout
from forerun.splitting.quantise import quantise
from forerun.splitting.simulate import Simulation


@pytest.fixture
def model() -> ModelProto:
    net = Maker({"x": (1, 3, 16, 16)})
    x = net.add("Relu", net.conv("x", 16))
    x = net.add("Relu", net.add("Add", x, net.conv(x, 16)))
    return net.model(net.head(x, 10))


def pictures(model: ModelProto, count: int) -> list[dict[str, np.ndarray]]:
    return [dict(sample(model, seed)) for seed in range(count)]


@pytest.mark.parametrize("name", ["rows", "outputs", "pipeline"])
def test_int8_is_near(model: ModelProto, tmp_path: Path, name: str) -> None:
    graph = Graph.of(model)
    exact = cut(graph, layout(graph, name, (1, 1)), tmp_path / "exact", name="net")
    given = pictures(model, 4)
    made = quantise(exact.folder, given, tmp_path / "int8")
    assert made.document["precision"] == "int8"
    assert made.uid != exact.uid
    ours, theirs = Simulation(made.folder), Simulation(exact.folder)
    for inputs in given:
        (a,), (b,) = ours.run(inputs).values(), theirs.run(inputs).values()
        assert np.abs(a - b).max() < 0.1 * np.abs(b).max()
        assert np.abs(a - b).max() > 0  # or nothing was quantised


def test_what_changes_in_a_package(model: ModelProto, tmp_path: Path) -> None:
    graph = Graph.of(model)
    exact = cut(graph, layout(graph, "rows", (1, 1)), tmp_path / "exact", name="net")
    made = quantise(exact.folder, [sample(model)["x"]], tmp_path / "int8")
    before, after = exact.description(0), made.description(0)
    assert after["buffers"] == before["buffers"]
    assert after["sends"] == before["sends"]
    assert after["weights_bytes"] < before["weights_bytes"] / 2
    first = onnx.load(made.package(0) / after["segments"][0]["file"])
    kinds = {node.op_type for node in first.graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} <= kinds
    weights = [one for one in first.graph.initializer if one.data_type == onnx.TensorProto.INT8]
    assert any(len(one.dims) == 4 for one in weights)


def test_replicas_are_quantised_once(model: ModelProto, tmp_path: Path) -> None:
    exact = cut_replicas(Graph.of(model), 2, tmp_path / "exact", name="net")
    made = quantise(exact.folder, pictures(model, 2), tmp_path / "int8")
    assert made.description(0)["segments"] == made.description(1)["segments"]
    assert Split.load(made.folder).document["kind"] == "replicas"
    assert (made.package(1) / "segment-000.onnx").is_file()


def held() -> int:
    """The bytes of all arrays that were made since memory is traced."""
    arrays = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    return sum(one.size for one in tracemalloc.take_snapshot().filter_traces([arrays]).traces)


def test_what_segments_read_is_not_held_in_memory(model: ModelProto, tmp_path: Path) -> None:
    graph = Graph.of(model)
    exact = cut(graph, layout(graph, "rows", (1, 1)), tmp_path / "exact", name="net")
    bytes_held: list[int] = []

    def given() -> Iterator[dict[str, np.ndarray]]:
        for number in range(21):
            bytes_held.append(held())
            yield dict(sample(model, number))

    tracemalloc.start()
    try:
        quantise(exact.folder, given(), tmp_path / "int8")
    finally:
        tracemalloc.stop()
    one_map = 16 * 16 * 16 * 4  # bytes that a segment reads of each sample
    assert bytes_held[20] < bytes_held[10] + one_map
    assert sorted(one.name for one in tmp_path.iterdir()) == ["exact", "int8"]


def test_samples_are_all_looked_at(model: ModelProto, tmp_path: Path) -> None:
    exact = cut_replicas(Graph.of(model), 1, tmp_path / "exact", name="net")
    few, large = pictures(model, 2), {name: 9 * one for name, one in sample(model, 7).items()}
    made = [
        quantise(exact.folder, given, tmp_path / f"{len(given)}") for given in (few, [*few, large])
    ]
    assert made[0].uid != made[1].uid


def test_no_samples(model: ModelProto, tmp_path: Path) -> None:
    exact = cut_replicas(Graph.of(model), 1, tmp_path / "exact", name="net")
    with pytest.raises(InputError, match="samples to quantise by: found none"):
        quantise(exact.folder, [], tmp_path / "int8")
    assert not (tmp_path / "int8").exists()


@pytest.mark.parametrize("file", ["../../evil.onnx", "/tmp/evil.onnx", "device-0/evil.onnx"])
def test_nothing_is_written_elsewhere(model: ModelProto, tmp_path: Path, file: str) -> None:
    exact = cut_replicas(Graph.of(model), 1, tmp_path / "exact", name="net")
    package = exact.description(0)
    package["segments"][0]["file"] = file
    (exact.package(0) / "package.json").write_text(json.dumps(package))
    with pytest.raises(InputError, match="the name of a file in the package's own folder"):
        quantise(exact.folder, pictures(model, 1), tmp_path / "int8")
    assert [one.name for one in tmp_path.iterdir()] == ["exact"]
