"""Whatever shape and type a network's outputs have, its split's answers have them too."""

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, shape_inference
from random_networks import Maker, answers, difference, sample

from forerun.errors import ForerunWarning, InputError
from forerun.splitting.answers import losses, output_types
from forerun.splitting.check import check
from forerun.splitting.cut import cut, cut_replicas
from forerun.splitting.graph import Graph
from forerun.splitting.layout import layout
from forerun.splitting.quantise import quantise
from forerun.splitting.running import Local
from forerun.splitting.simulate import simulate
from forerun.splitting.split import Split, split

End = Callable[[Maker, str], str]  # from a vector of classes to an output


def classes(net: Maker) -> str:
    return net.head(net.add("Relu", net.conv("x", 4)), 10)


def made(end: End) -> ModelProto:
    """A small network with an end, whose outputs have the types that onnx infers."""
    net = Maker({"x": (1, 3, 12, 6)})
    return typed(net, end(net, classes(net)))


def typed(net: Maker, *outputs: str) -> ModelProto:
    model = net.model(*outputs)
    del model.graph.output[:]
    model.graph.output.extend(map(helper.make_empty_tensor_value_info, outputs))
    return shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)


def reshaped(*dims: int) -> End:
    return lambda net, x: net.add("Reshape", x, net.constant(np.array(dims, np.int64)))


def cast(to: int) -> End:
    return lambda net, x: net.add("Cast", net.add("ArgMax", x, axis=1), to=to)


def best(net: Maker, x: str) -> str:
    return net.add("TopK", x, net.constant(np.array([3])), outputs=2) + "_1"


ENDS: list[tuple[End, tuple[int, ...], str]] = [
    (reshaped(1, 10, 1, 1), (1, 10, 1, 1), "float32"),
    (reshaped(10), (10,), "float32"),
    (reshaped(10, 1), (10, 1), "float32"),
    (reshaped(1, 2, 5), (1, 2, 5), "float32"),
    (reshaped(5, 1, 2, 1), (5, 1, 2, 1), "float32"),
    (reshaped(1, 1, 5, 2, 1), (1, 1, 5, 2, 1), "float32"),
    (lambda net, x: net.add("ReduceMax", x, keepdims=0), (), "float32"),
    (lambda net, x: net.add("ArgMax", x, axis=1, keepdims=0), (1,), "int64"),
    (lambda net, x: net.add("ArgMin", x, axis=1), (1, 1), "int64"),
    (best, (1, 3), "int64"),
    (lambda net, x: net.add("IsNaN", x), (1, 10), "bool"),
    (lambda net, x: net.add("Cast", x, to=TensorProto.DOUBLE), (1, 10), "float64"),
    (lambda net, x: net.add("Cast", x, to=TensorProto.FLOAT16), (1, 10), "float16"),
    (cast(TensorProto.UINT8), (1, 1), "uint8"),
    (cast(TensorProto.INT32), (1, 1), "int32"),
]


@pytest.mark.parametrize("name", ["whole", "rows", "inputs", "pipeline"])
@pytest.mark.parametrize(("end", "shape", "kind"), ENDS)
def test_answers_have_the_outputs_shape_and_type(
    end: End, shape: tuple[int, ...], kind: str, name: str, tmp_path: Path
) -> None:
    model = made(end)
    graph = Graph.of(model)
    found = cut(graph, layout(graph, name, (1, 1)), tmp_path / "split", name="net")
    assert found.document["outputs"] == {graph.outputs[0]: list(shape)}
    (answer,) = simulate(found.folder, sample(model)).values()
    (right,) = answers(model, sample(model)).values()
    assert (answer.shape, answer.dtype) == (right.shape, right.dtype) == (shape, np.dtype(kind))
    if right.dtype.kind == "f":
        close = 1e-3 if kind == "float16" else 2e-5
        assert difference(answer.astype(np.float64), right.astype(np.float64)) < close
    else:
        np.testing.assert_array_equal(answer, right)


def every_end() -> ModelProto:
    """A network with many outputs, and an input of three sizes."""
    net = Maker({"y": (1, 3, 72)})
    x = net.add("Reshape", "y", net.constant(np.array([1, 3, 12, 6])))
    x = net.head(net.add("Relu", net.conv(x, 4)), 10)
    ends = [end(net, x) for end, _, kind in ENDS if kind in ("float32", "int64", "bool")]
    return typed(net, x, *ends)


@pytest.mark.usefixtures("patient_devices")
def test_devices_answer_so_too(tmp_path: Path) -> None:
    """Real ones, by turns, as a whole and in int8; a sample is of the input's own shape."""
    model = every_end()
    onnx.save(model, tmp_path / "net.onnx")
    graph, given = Graph.of(model), sample(model)
    right = answers(model, given)
    rows = cut(graph, layout(graph, "rows", (1, 1)), tmp_path / "rows", name="net")
    whole = cut_replicas(graph, 2, tmp_path / "whole", name="net")
    small = quantise(rows.folder, [given], tmp_path / "int8")
    for folder in (rows.folder, whole.folder, small.folder):
        with Local(folder) as devices:
            (answer,) = devices.run([given["y"]])
        found = {name: (one.shape, one.dtype) for name, one in answer.outputs.items()}
        assert found == {name: (one.shape, one.dtype) for name, one in right.items()}
    opened = Split.load(rows.folder)
    assert opened.inputs == {"y": [1, 3, 72]}
    assert list(opened.types.values()).count("int64") == 3
    assert opened.check(tmp_path / "net.onnx") < 2e-5


def test_a_check_looks_at_shapes_and_types(tmp_path: Path) -> None:
    model = made(ENDS[7][0])
    (name,) = (one.name for one in model.graph.output)
    onnx.save(model, tmp_path / "net.onnx")

    def run(kind: str, folder: Path, samples: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [{name: simulate(folder, one)[name].astype(kind)} for one in samples]

    for kind, problem in (
        ("int64", ""),
        ("float32", f"answers of devices: {name} is float32 [1], and not int64 [1]"),
    ):
        devices = partial(run, kind)
        (found,) = check(tmp_path / "net.onnx", ["rows"], [2], samples=3, run=devices)
        assert found.problem == problem


def test_what_is_exact_is_not_warned_of(tmp_path: Path) -> None:
    for number, (end, _, _) in enumerate(ENDS):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            split(Graph.of(made(end)), 2, "rows", tmp_path / str(number))


def squared(net: Maker, x: str) -> str:
    places = net.add("ArgMax", x, axis=1)
    return net.add("Mul", places, places)


def summed(net: Maker, x: str) -> str:
    wide = net.add("Cast", x, to=TensorProto.DOUBLE)
    return net.add("Add", wide, wide)


def largest(net: Maker, x: str) -> str:
    """The numbers of a TopK, not their places."""
    return net.add("TopK", summed(net, x), net.constant(np.array([3])), outputs=2)


def named(net: Maker, x: str) -> str:
    """A class by a number of its own."""
    return net.add("Gather", net.constant(np.arange(10) * 10**8), net.add("ArgMax", x, axis=1))


@pytest.mark.parametrize(
    ("end", "line"),
    [
        (squared, "int64, but devices give float32: whole numbers beyond 16777216 are rounded"),
        (named, "int64, but devices give float32: whole numbers beyond 16777216 are rounded"),
        (largest, "float64, but devices give float32: rounded to 7 digits"),
        (summed, "float64, but devices give float32: rounded to 7 digits"),
        (cast(TensorProto.BFLOAT16), "bfloat16, a type that NumPy lacks: answered as float32"),
    ],
)
def test_what_may_be_rounded_is_said_in_one_line(end: End, line: str, tmp_path: Path) -> None:
    graph = Graph.of(made(end))
    with pytest.warns(ForerunWarning) as caught:
        split(graph, 2, "rows", tmp_path / "split")
    (only,) = caught
    assert str(only.message) == f"output {graph.outputs[0]}: {line}"
    assert list(losses(graph)) == [str(only.message)]


def test_an_output_that_is_no_number_is_refused(tmp_path: Path) -> None:
    graph = Graph.of(made(lambda net, x: net.add("Cast", x, to=TensorProto.STRING)))
    expected = f"output {graph.outputs[0]}: found text, expected numbers: devices give float32"
    with pytest.raises(InputError, match=f"^{expected}$"):
        split(graph, 2, "rows", tmp_path / "split")
    with pytest.raises(InputError, match=f"^{expected}$"):
        output_types(graph)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"types": ["int64"]}, "types: found ['int64'], expected a table of types"),
        ({"types": {"t5": "object"}}, "types: t5: found object, expected one of bool, float16,"),
        ({"types": {"t5": ["int64"]}}, "types: t5: found ['int64'], expected one of bool, float16"),
        ({"outputs": {"t5": [[1]]}}, "outputs: t5: found [[1]], expected [1, channels, rows,"),
        ({"outputs": {"t5": [1] * 40}}, "expected [1, channels, rows, columns]"),
        ({"outputs": {"t5": [0]}}, "outputs: t5: found [0], expected [1, channels, rows, columns]"),
    ],
)
def test_a_damaged_description_is_refused(
    change: dict[str, object], told: str, tmp_path: Path
) -> None:
    graph = Graph.of(made(ENDS[7][0]))
    assert graph.outputs == ("t5",)
    cut(graph, layout(graph, "rows", (1, 1)), tmp_path / "split", name="net")
    path = tmp_path / "split" / "split.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    for reads in (Split.load, lambda folder: simulate(folder, {})):
        with pytest.raises(InputError) as error:
            reads(tmp_path / "split")
        assert told in str(error.value)


def test_a_split_that_says_nothing_of_types_gives_float32(tmp_path: Path) -> None:
    """As those of earlier versions, whose shapes are those that devices have."""
    model = made(ENDS[7][0])
    graph = Graph.of(model)
    cut(graph, layout(graph, "rows", (1, 1)), tmp_path / "split", name="net")
    path = tmp_path / "split" / "split.json"
    about = json.loads(path.read_text())
    del about["types"]
    path.write_text(json.dumps(about | {"outputs": {graph.outputs[0]: [1, 1]}}))
    (answer,) = simulate(tmp_path / "split", sample(model)).values()
    assert (answer.shape, answer.dtype) == ((1, 1), np.dtype(np.float32))
