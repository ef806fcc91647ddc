"""What is computed while a file is read, and what never is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from random_networks import Maker, answers, difference, sample

from forerun.errors import InputError
from forerun.splitting import constants
from forerun.splitting.constants import Folding
from forerun.splitting.cut import cut
from forerun.splitting.graph import Graph
from forerun.splitting.layout import layout
from forerun.splitting.simulate import simulate


def folding(**known: Any) -> Folding:
    return Folding("net", 17, {}, {name: np.array(value) for name, value in known.items()})


def fold(made: Folding, kind: str, *inputs: str, output: str = "y", **attributes: Any) -> bool:
    return made.fold(helper.make_node(kind, inputs, [output], **attributes))


def test_what_exporters_leave_behind_is_computed() -> None:
    """Weights that are scaled by a normalisation's numbers, before anybody runs the network."""
    net = Maker({"x": (1, 2, 5, 5)})
    variance = net.constant(np.array([0.5, 1, 2], np.float32))
    little = net.constant(np.array(1e-5, np.float32))
    scale = net.add("Reciprocal", net.add("Sqrt", net.add("Add", variance, little)))
    scale = net.add("Unsqueeze", scale, net.constant(np.array([1, 2, 3])))
    weight = net.add("Mul", net.weight(3, 2, 3, 3), scale)
    model = net.model(net.add("Conv", "x", weight, pads=[1] * 4))
    (only,) = Graph.of(model).operations
    assert only.kind == "Conv"
    stored = numpy_helper.to_array(model.graph.initializer[-1])
    right = stored / np.sqrt(np.array([0.5, 1, 2]) + 1e-5).reshape(3, 1, 1, 1)
    np.testing.assert_allclose(only.constants["weight"], right, rtol=1e-6)


def test_sizes_that_follow_from_computed_ones() -> None:
    made = folding(zero=np.int64(0), one=np.int64(1), weights=np.ones((4, 3), np.float32))
    assert fold(made, "Shape", "weights", output="shape")
    assert fold(made, "Gather", "shape", "zero", output="four", axis=0)
    assert fold(made, "Range", "zero", "four", "one")
    assert made.known["y"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("attribute", "value", "kind"),
    [
        ("value", numpy_helper.from_array(np.array([1.5], np.float16)), "float16"),
        ("value_float", 1.5, "float32"),
        ("value_floats", [1.5, 2.5], "float32"),
        ("value_int", 7, "int64"),
        ("value_ints", [7, 8], "int64"),
    ],
)
def test_constants_as_nodes(attribute: str, value: Any, kind: str) -> None:
    made = folding()
    assert fold(made, "Constant", **{attribute: value})
    assert made.known["y"].dtype == kind
    if not isinstance(value, TensorProto):
        assert made.known["y"].tolist() == value


def test_other_operators_are_not_computed_but_run(tmp_path: Path) -> None:
    net = Maker({"x": (1, 2, 5, 5)})
    x = net.add("Add", net.conv("x", 3), net.add("Erf", net.weight(3, 1, 1)))
    model = net.model(x)
    graph = Graph.of(model)
    assert graph.unruled == (("nt1", "Erf"), ("nt2", "Add"))  # of what is no map
    made = cut(graph, layout(graph, "rows", (1, 1)), tmp_path / "split", name="net")
    right = answers(model, sample(model))[x]
    assert difference(simulate(made.folder, sample(model))[x], right) < 1e-5


def matching() -> ModelProto:
    """A network that waits for a pattern that takes ages to fail, where Python looks for it."""
    net = Maker({"x": (1, 2, 5, 5)}, opset=20)
    text = net.constant(np.array(["a" * 40 + "!"], object))
    found = net.add("Cast", net.add("RegexFullMatch", text, pattern="(a+)+b"), to=TensorProto.FLOAT)
    return net.model(net.add("Add", net.conv("x", 3), found))


def test_a_pattern_that_never_ends_is_not_looked_for() -> None:
    assert Graph.of(matching()).unruled[0] == ("nt0", "RegexFullMatch")


def test_pictures_in_a_network_are_not_decoded() -> None:
    net = Maker({"x": (1, 2, 5, 5)}, opset=20)
    content = net.constant(np.frombuffer(b"%!PS-Adobe-3.0 EPSF-3.0", np.uint8))
    net.nodes.append(helper.make_node("ImageDecoder", [content], ["picture"], "decode"))
    net.nodes.append(helper.make_node("Cast", ["picture"], ["floats"], to=TensorProto.FLOAT))
    net.dims["floats"] = (1, 1, 1)
    x = net.add("Add", net.conv("x", 3), "floats")
    with pytest.raises(InputError, match=r"decode \(ImageDecoder\): found a shape that is not kno"):
        Graph.of(net.model(x))


def test_texts_are_not_computed() -> None:
    assert not fold(folding(x=np.array(["a"], object)), "Identity", "x")
    assert not fold(folding(x=np.ones(3, np.float32)), "Cast", "x", to=TensorProto.STRING)


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        ("ConstantOfShape", {"shape": [2**40]}),
        ("Expand", {"x": np.ones(1, np.float32), "shape": [2**20, 2**20]}),
        ("Tile", {"x": np.ones(1, np.float32), "repeats": [2**40]}),
        ("Range", {"start": np.int64(0), "limit": np.int64(2**40), "step": np.int64(1)}),
    ],
)
def test_nothing_huge_is_made(kind: str, inputs: dict[str, Any]) -> None:
    made = folding(**inputs)
    assert not fold(made, kind, *inputs)
    assert "y" not in made.known


def test_sizes_that_are_only_computed_are_known_too() -> None:
    """What the library infers of a whole network does not follow them, and they counted as 1."""
    made = folding(many=np.int64(2**20), zero=np.int64(0), one=np.int64(1))
    assert fold(made, "Mul", "many", "many", output="more")
    assert not fold(made, "Range", "zero", "more", "one")


def test_there_is_an_end_to_all_of_them_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "_MOST", 100)
    made = folding(shape=[60])
    assert fold(made, "ConstantOfShape", "shape")
    assert not fold(made, "ConstantOfShape", "shape")
    made = folding(shape=[60], weights=np.ones(50))  # a large network may have more of them
    assert all(fold(made, "ConstantOfShape", "shape") for _ in range(3))


def test_what_is_read_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "_MOST", 0)
    made = folding(weights=np.ones(50, np.float32))
    found = [fold(made, "ReduceSum", "weights", output=f"y{i}") for i in range(6)]
    assert found == [True] * 3 + [False] * 3


def test_operators_of_other_domains_are_others() -> None:
    net = Maker({"x": (1, 2, 5, 5)})
    x = net.conv("x", 3)
    net.nodes.append(helper.make_node("Shape", [x], ["shape"], "mine", domain="com.example"))
    net.nodes.append(helper.make_node("Reshape", [x, "shape"], ["y"]))
    net.dims["y"] = (1, 3, 5, 5)
    model = net.model("y")
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    with pytest.raises(InputError, match=r"node mine \(Shape\): found a shape that is not known"):
        Graph.of(model)


def test_damaged_weights_are_named() -> None:
    net = Maker({"x": (1, 2, 5, 5)})
    model = net.model(net.conv("x", 3))
    model.graph.initializer[0].raw_data = model.graph.initializer[0].raw_data[:-3]
    with pytest.raises(InputError, match=r"network: tensor w0: found .*, expected as many number"):
        Graph.of(model)


def test_damaged_weights_in_a_node_are_named() -> None:
    net = Maker({"x": (1, 2, 5, 5)})
    weight = numpy_helper.from_array(np.ones((3, 2, 1, 1), np.float32), "inner")
    weight.raw_data = weight.raw_data[:-4]
    net.nodes.append(helper.make_node("Constant", [], ["w"], "stored", value=weight))
    net.nodes.append(helper.make_node("Conv", ["x", "w"], ["y"]))
    net.dims["y"] = (1, 3, 5, 5)
    with pytest.raises(InputError, match="node stored: tensor inner: found "):
        Graph.of(net.model("y"))


def test_weights_elsewhere_are_not_looked_for() -> None:
    """The library reads those beside a file when it loads that; it forgets those of functions."""
    net = Maker({"x": (1, 2, 5, 5)})
    model = net.model(net.conv("x", 3))
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="elsewhere.bin")
    with pytest.raises(InputError, match="tensor w0: found weights in another file"):
        Graph.of(model)
