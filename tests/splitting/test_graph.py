"""What is read from ONNX files, whatever made them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save_model
from random_networks import Maker, answers, difference, sample

from forerun.errors import InputError
from forerun.splitting.cut import cut
from forerun.splitting.graph import Graph, Shape
from forerun.splitting.layout import layout
from forerun.splitting.simulate import simulate


def kinds(net: Maker, *outputs: str) -> list[str]:
    return [op.kind for op in Graph.of(net.model(*outputs)).operations]


def numbers(*values: int) -> Any:
    return np.array(values, np.int64)


def test_shapes() -> None:
    assert Shape.of((1, 3, 5, 7)) == Shape(3, 5, 7, (1, 3, 5, 7))
    assert Shape.of((1, 12)) == Shape(12, 1, 1, (1, 12))
    odd = Shape.of((2, 3, 4))  # can only be had whole
    assert (odd.channels, odd.rows, odd.is_usual) == (24, 1, False)
    assert Shape.of((1, 3, 5, 7)).laid_out == [1, 3, 5, 7]
    for dims in ((1, 12), (12,), (2, 6), (1, 3, 4), (2, 3, 2, 1)):
        assert Shape.of(dims).laid_out == [1, 12]
    assert Shape.of(()).laid_out == [1, 1]


def test_a_normalisation_becomes_part_of_its_convolution() -> None:
    net = Maker({"x": (1, 2, 5, 5)})
    x = net.conv("x", 3)
    variance = net.constant(np.array([0.5, 1, 2], np.float32))
    x = net.add("BatchNormalization", x, *(net.weight(3) for _ in range(3)), variance)
    model = net.model(net.add("Relu", x))
    graph = Graph.of(model)
    assert [op.kind for op in graph.operations] == ["Conv", "Relu"]
    assert graph.operations[0].output == x
    assert graph.operations[0].constants["bias"].shape == (3,)


def test_a_normalisation_stays_where_others_read_the_convolution() -> None:
    net = Maker({"x": (1, 2, 5, 5)})
    x = net.conv("x", 3)
    ones = net.constant(np.ones(3, np.float32))
    y = net.add("BatchNormalization", x, *(net.weight(3) for _ in range(3)), ones)
    assert kinds(net, net.add("Add", x, y)) == ["Conv", "BatchNormalization", "Add"]


def test_a_shuffle_is_one_choice_of_channels() -> None:
    net = Maker({"x": (1, 8, 3, 3)})
    x = net.add("Reshape", "x", net.constant(numbers(1, 2, 4, 3, 3)))
    x = net.add("Transpose", x, perm=[0, 2, 1, 3, 4])
    x = net.add("Reshape", x, net.constant(numbers(1, 8, 3, 3)))
    graph = Graph.of(net.model(net.conv(x, 2)))
    assert [op.kind for op in graph.operations] == ["Select", "Conv"]
    assert graph.operations[0].constants["places"].tolist() == [0, 4, 1, 5, 2, 6, 3, 7]


def test_a_transposition_of_rows_is_no_shuffle() -> None:
    net = Maker({"x": (1, 8, 3, 3)})
    x = net.add("Reshape", "x", net.constant(numbers(1, 2, 4, 3, 3)))
    x = net.add("Transpose", x, perm=[0, 2, 1, 4, 3])
    x = net.add("Reshape", x, net.constant(numbers(1, 8, 3, 3)))
    assert kinds(net, x) == ["Unruled"] * 3


def test_channels_that_are_split_and_sliced() -> None:
    net = Maker({"x": (1, 8, 3, 3)})
    x = net.add("Split", "x", net.constant(numbers(3, 5)), outputs=2, axis=1)
    second = f"{x}_1"
    cut_out = net.add("Slice", second, *map(net.constant, map(numbers, (4, 0, 1, -2))))
    graph = Graph.of(net.model(net.add("Concat", x, cut_out, axis=1)))
    found = [op.constants["places"].tolist() for op in graph.operations if op.kind == "Select"]
    assert found == [[0, 1, 2], [3, 4, 5, 6, 7], [4, 2]]


def test_what_changes_nothing_is_dropped() -> None:
    net = Maker({"x": (1, 2, 4, 4)})
    x = net.add("Dropout", net.add("Identity", net.conv("x", 3)))
    x = net.add("Reshape", x, net.constant(numbers(1, 3, 4, 4)))
    assert kinds(net, net.add("Relu", x)) == ["Conv", "Relu"]


def test_constants_that_are_computed() -> None:
    """As exporters write the view of a batch as vectors."""
    net = Maker({"x": (1, 2, 4, 4)})
    x = net.conv("x", 3)
    net.nodes.append(helper.make_node("Shape", [x], ["shape"], start=0, end=1))
    minus = net.constant(numbers(-1))
    net.nodes.append(helper.make_node("Concat", ["shape", minus], ["sizes"], axis=0))
    net.nodes.append(helper.make_node("Reshape", [x, "sizes"], ["flat"]))
    net.dims["flat"] = (1, 48)
    assert kinds(net, net.add("Gemm", "flat", net.weight(48, 5))) == ["Conv", "Flatten", "Gemm"]


def test_a_product_and_a_sum_are_one_layer() -> None:
    net = Maker({"x": (1, 6)})
    x = net.add("MatMul", "x", net.weight(6, 4))
    graph = Graph.of(net.model(net.add("Add", x, net.weight(4))))
    (only,) = graph.operations
    assert (only.kind, only.constants["weight"].shape) == ("Gemm", (4, 6))


def test_means_over_rows_and_columns() -> None:
    for keep, expected in ((1, ["GlobalAveragePool"]), (0, ["GlobalAveragePool", "Flatten"])):
        net = Maker({"x": (1, 6, 3, 3)})
        x = net.add("ReduceMean", "x", axes=[-1, 2], keepdims=keep)
        assert kinds(net, x) == expected
    net = Maker({"x": (1, 6, 3, 3)})
    assert kinds(net, net.add("AveragePool", "x", kernel_shape=[3, 3])) == ["GlobalAveragePool"]


def test_operators_without_a_rule_are_named() -> None:
    net = Maker({"x": (1, 2, 4, 4)})
    x = net.add("InstanceNormalization", net.conv("x", 3), net.weight(3), net.weight(3))
    graph = Graph.of(net.model(net.conv(x, 2)))
    assert graph.unruled == ((f"n{x}", "InstanceNormalization"),)


def test_the_batch_is_one() -> None:
    net = Maker({"x": (4, 2, 5, 5)})
    graph = Graph.of(net.model(net.head(net.conv("x", 3), 5)))
    assert graph.tensors["x"].dims == (1, 2, 5, 5)
    assert graph.tensors[graph.outputs[0]].dims == (1, 5)


def test_groups_that_do_not_divide_the_channels_are_named() -> None:
    """ONNX's own checks do not look at it, and what a part of it computes is no answer."""
    net = Maker({"x": (1, 3, 5, 5)})
    y = net.add("Conv", "x", net.weight(4, 1, 3, 3), group=2)
    found = rf"node n{y} \(Conv\): found 3 channels in 2 groups, and weights of 4 x 1, expected"
    with pytest.raises(InputError, match=found):
        Graph.of(net.model(y))


@pytest.mark.parametrize(
    ("content", "found"), [(b"", "no layers"), (b"PK\x03\x04 weights", "something else")]
)
def test_files_that_are_no_networks(tmp_path: Path, content: bytes, found: str) -> None:
    path = tmp_path / "network.onnx"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"network.onnx: found {found}, expected an ONNX model"):
        Graph.load(path)


def test_a_folder_is_no_network(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found a folder, expected an ONNX model"):
        Graph.load(tmp_path)


def test_an_input_without_a_batch_is_named() -> None:
    net = Maker({"x": (1, 2, 5, 5), "scales": (5,)})
    model = net.model(net.add("Mul", net.conv("x", 3), "scales"))
    with pytest.raises(InputError, match="input scales: found 5, expected a batch, and sizes"):
        Graph.of(model)


def test_the_digest_is_of_weights_and_not_of_names() -> None:
    def digest(seed: int, name: str) -> str:
        net = Maker({"x": (1, 2, 5, 5)}, seed)
        model = net.model(net.conv("x", 3))
        model.graph.node[0].name = name
        return Graph.of(model).digest

    assert digest(0, "a") == digest(0, "b") != digest(1, "a")


@pytest.mark.parametrize("size", [5, 6, 7])
def test_windows_that_start_in_the_padding_are_left_out(tmp_path: Path, size: int) -> None:
    net = Maker({"x": (1, 2, size, 4)})
    given: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [3, 1], "ceil_mode": 1}
    x = net.add("MaxPool", net.conv("x", 2), pads=[1, 0, 0, 0], **given)
    model = net.model(x)
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    right = answers(model, sample(model))[x]
    graph = Graph.of(model)
    assert graph.tensors[x].dims == right.shape
    made = cut(graph, layout(graph, "rows", (1, 1)), tmp_path / "s", name="net")
    assert difference(simulate(made.folder, sample(model))[x], right) < 1e-6


def saved(path: Path, net: Maker, *outputs: str) -> Path:
    save_model(net.model(*outputs), path / "net.onnx")
    return path / "net.onnx"


def test_files(tmp_path: Path) -> None:
    net = Maker({"x": (1, 2, 5, 5)})
    path = saved(tmp_path, net, net.conv("x", 3))
    assert Graph.load(path).digest == Graph.load(str(path)).digest
    (tmp_path / "text.onnx").write_text("no network")
    with pytest.raises(InputError, match=r"text\.onnx: found .*expected an ONNX model"):
        Graph.load(tmp_path / "text.onnx")
    with pytest.raises(InputError, match=r"none\.onnx: found no such file"):
        Graph.load(tmp_path / "none.onnx")


def test_sizes_that_are_open() -> None:
    net = Maker({"x": (1, 2, 5, 5)})
    model = net.model(net.conv("x", 3))
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "height"
    with pytest.raises(InputError, match="input x: found 1x2xheightx5, expected fixed sizes"):
        Graph.of(model)


def test_graphs_inside() -> None:
    net = Maker({"x": (1, 2, 5, 5)})
    x = net.conv("x", 3)
    inner = helper.make_graph(
        [helper.make_node("Relu", [x], ["inside"])],
        "inner",
        [],
        [helper.make_tensor_value_info("inside", TensorProto.FLOAT, [1, 3, 5, 5])],
    )
    net.stored.append(numpy_helper.from_array(np.array(True), "yes"))
    node = helper.make_node("If", ["yes"], ["y"], "branch", then_branch=inner, else_branch=inner)
    net.nodes.append(node)
    net.dims["y"] = (1, 3, 5, 5)
    with pytest.raises(InputError, match=r"node branch \(If\): found If, which has a graph inside"):
        Graph.of(net.model("y"))


@pytest.mark.parametrize(
    ("mean", "std", "normal"),
    [
        ("[0.5, 0.25]", "[1, 2]", ((0.5, 0.25), (1.0, 2.0))),
        ("[0.5, 0.25]", "[1, 0]", None),
        ("[0.5]", "[1]", None),
        ("(0.5, 0.25)", "[1, 2]", None),
        ("[" * 10**5, "[1, 2]", None),
        ("[0.5, 0.25]", None, None),
    ],
)
def test_what_a_file_says_of_its_pictures(mean: str, std: str | None, normal: object) -> None:
    net = Maker({"x": (1, 2, 5, 5)})
    model = net.model(net.conv("x", 3))
    silent = Graph.of(model)
    for key, value in (("mean", mean), ("std", std), ("author", "ada")):
        if value is not None:
            model.metadata_props.add(key=key, value=value)
    graph = Graph.of(model)
    assert graph.normal == normal
    assert (silent.normal, silent.digest) == (None, graph.digest)
