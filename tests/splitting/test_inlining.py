"""Functions of a model's own, whatever they call."""

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto, helper
from random_networks import Maker, answers, sample

from forerun.errors import InputError
from forerun.splitting.graph import Graph

OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]


def function(name: str, nodes: Sequence[NodeProto]) -> FunctionProto:
    """From x to y."""
    return helper.make_function("mine", name, ["x"], ["y"], nodes, OPSETS)


def call(name: str, x: str, y: str) -> NodeProto:
    return helper.make_node(name, [x], [y], f"call of {name}", domain="mine")


def calling(name: str, *functions: FunctionProto) -> ModelProto:
    """A convolution, and then a function of its result."""
    net = Maker({"x": (1, 2, 5, 5)})
    net.nodes.append(call(name, net.conv("x", 3), "out"))
    net.dims["out"] = (1, 3, 5, 5)
    model = net.model("out")
    model.opset_import.append(OPSETS[1])
    model.functions.extend(functions)
    return model


def test_functions_are_written_out() -> None:
    twice = function("twice", [helper.make_node("Add", ["x", "x"], ["y"])])
    both = function("both", [call("twice", "x", "a"), helper.make_node("Relu", ["a"], ["y"])])
    model = calling("both", twice, both)
    graph = Graph.of(model)
    assert [op.kind for op in graph.operations] == ["Conv", "Add", "Relu"]
    assert answers(model, sample(model))["out"].shape == graph.tensors["out"].dims


def test_graphs_in_functions_are_found() -> None:
    inner = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["inside"])],
        "inner",
        [],
        [helper.make_tensor_value_info("inside", TensorProto.FLOAT, None)],
    )
    yes = helper.make_node("Constant", [], ["yes"], value_int=1)
    truth = helper.make_node("Cast", ["yes"], ["truth"], to=TensorProto.BOOL)
    branch = helper.make_node(
        "If", ["truth"], ["y"], "branch", then_branch=inner, else_branch=inner
    )
    hiding = function("hiding", [yes, truth, branch])
    outer = function("outer", [call("hiding", "x", "y")])
    with pytest.raises(InputError, match=r"branch \(If\): found If, which has a graph inside"):
        Graph.of(calling("outer", hiding, outer))


def test_a_few_functions_that_would_make_a_billion_nodes() -> None:
    last = function("f40", [helper.make_node("Relu", ["x"], ["y"])])
    others = [
        function(f"f{i}", [call(f"f{i + 1}", "x", "a"), call(f"f{i + 1}", "a", "y")])
        for i in range(40)
    ]
    with pytest.raises(InputError, match=r"found functions of [0-9]+ bytes, written out"):
        Graph.of(calling("f0", last, *others))


def test_functions_that_call_each_other() -> None:
    first, second = (
        function("first", [call("second", "x", "y")]),
        function("second", [call("first", "x", "y")]),
    )
    with pytest.raises(InputError, match="found 2 functions that call each other"):
        Graph.of(calling("first", first, second))


def test_weights_of_functions_must_be_in_the_file() -> None:
    weight = helper.make_tensor("secret", TensorProto.FLOAT, [1], np.ones(1))
    weight.ClearField("float_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="elsewhere.bin")
    nodes = [
        helper.make_node("Constant", [], ["w"], value=weight),
        helper.make_node("Mul", ["x", "w"], ["y"]),
    ]
    with pytest.raises(InputError, match="tensor secret: found weights in another file"):
        Graph.of(calling("scaled", function("scaled", nodes)))
