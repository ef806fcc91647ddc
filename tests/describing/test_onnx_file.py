"""Counts of small networks that were worked out by hand, and of ResNet-50, which are known."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import GraphProto, NodeProto, TensorProto, helper, save_model

from forerun.describing import Description, describe
from forerun.errors import InputError

FLOAT = 4  # bytes
Shapes = Mapping[str, Sequence[int | str] | None]


def weights(name: str, *shape: int, kind: int = TensorProto.FLOAT) -> TensorProto:
    """A stored tensor whose values lie in a file that does not exist: only its size counts."""
    made = TensorProto(name=name, dims=shape, data_type=kind)
    made.data_location = TensorProto.EXTERNAL
    made.external_data.add(key="location", value="nowhere.bin")
    return made


def graph(
    nodes: Sequence[NodeProto], inputs: Shapes, outputs: Shapes, stored: Sequence[TensorProto] = ()
) -> GraphProto:
    def values(shapes: Shapes) -> list[Any]:
        return [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in shapes.items()
        ]

    return helper.make_graph(nodes, "net", values(inputs), values(outputs), stored)


def saved(directory: Path, made: GraphProto, opset: int = 21, **fields: Any) -> str:
    domains = fields.pop("domains", ())
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(one, 1) for one in domains)]
    model = helper.make_model(made, opset_imports=opsets, ir_version=10, **fields)
    save_model(model, directory / "net.onnx")
    return str(directory / "net.onnx")


def lenet(batch: int | str = 1) -> GraphProto:
    """LeNet-5 on images of 28x28, as every textbook has it: 61,706 parameters."""
    nodes = [
        helper.make_node("Conv", ["image", "w1", "b1"], ["c1"], pads=[2, 2, 2, 2]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p1", "w2", "b2"], ["c2"]),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("MaxPool", ["r2"], ["p2"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p2"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["d1"], transB=1),
        helper.make_node("Gemm", ["d1", "w4", "b4"], ["d2"], transB=1),
        helper.make_node("Gemm", ["d2", "w5", "b5"], ["out"], transB=1),
    ]
    shapes = [(6, 1, 5, 5), (16, 6, 5, 5), (120, 400), (84, 120), (10, 84)]
    stored = [weights(f"w{i}", *shape) for i, shape in enumerate(shapes, 1)]
    stored += [weights(f"b{i}", shape[0]) for i, shape in enumerate(shapes, 1)]
    return graph(nodes, {"image": [batch, 1, 28, 28]}, {"out": [batch, 10]}, stored)


LENET_MACS = 28 * 28 * 6 * 25 + 10 * 10 * 16 * 150 + 400 * 120 + 120 * 84 + 84 * 10
LENET_WRITTEN = FLOAT * (
    2 * 6 * 28 * 28 + 6 * 14 * 14 + 2 * 16 * 10 * 10 + 16 * 5 * 5 + 120 + 84 + 10
)


def test_lenet(tmp_path: Path) -> None:
    found = describe(saved(tmp_path, lenet()))
    assert found.macs == LENET_MACS == 416_520
    assert found.parameters == 61_706
    assert found.parameter_bytes == 61_706 * FLOAT
    assert found.activation_bytes == LENET_WRITTEN  # Flatten writes nothing
    assert found.inputs == {"image": (1, 1, 28, 28)}
    assert found.notes == ()
    layers = {one.operator: one.layers for one in found.operators}
    assert layers == {"Conv": 2, "Gemm": 3, "Relu": 2, "MaxPool": 2, "Flatten": 1}
    assert found.operators[0].operator == "Conv"


@pytest.mark.parametrize("given", [{"batch": 8}, {"inputs": {"image": (8, 1, 28, 28)}}])
def test_a_size_that_the_file_leaves_open(tmp_path: Path, given: dict[str, Any]) -> None:
    found = describe(saved(tmp_path, lenet("N")), **given)
    assert (found.macs, found.activation_bytes) == (8 * LENET_MACS, 8 * LENET_WRITTEN)
    assert found.parameters == 61_706


class ResNet50:
    """The standard network, stride in the 3x3 convolutions, built layer by layer."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.stored: list[TensorProto] = []

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def conv(self, x: str, into: int, out: int, kernel: int, stride: int = 1) -> str:
        number = len(self.nodes)
        self.stored.append(weights(f"w{number}", out, into, kernel, kernel))
        self.stored += [
            weights(f"{part}{number}", out) for part in ("scale", "shift", "mean", "var")
        ]
        made = self.add("Conv", x, f"w{number}", strides=[stride] * 2, pads=[kernel // 2] * 4)
        parts = [f"{part}{number}" for part in ("scale", "shift", "mean", "var")]
        return self.add("BatchNormalization", made, *parts)

    def block(self, x: str, into: int, width: int, stride: int) -> str:
        y = self.add("Relu", self.conv(x, into, width, 1))
        y = self.add("Relu", self.conv(y, width, width, 3, stride))
        y = self.conv(y, width, 4 * width, 1)
        shortcut = x if into == 4 * width else self.conv(x, into, 4 * width, 1, stride)
        return self.add("Relu", self.add("Add", y, shortcut))

    def graph(self) -> GraphProto:
        x = self.add("Relu", self.conv("x", 3, 64, 7, 2))
        x = self.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        into = 64
        for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for number in range(blocks):
                x = self.block(x, into, width, stride if number == 0 else 1)
                into = 4 * width
        x = self.add("Flatten", self.add("GlobalAveragePool", x))
        self.stored += [weights("w", 1000, 2048), weights("b", 1000)]
        self.nodes.append(helper.make_node("Gemm", [x, "w", "b"], ["out"], transB=1))
        return graph(self.nodes, {"x": ["N", 3, 224, 224]}, {"out": ["N", 1000]}, self.stored)


def test_resnet_50_has_the_figures_that_everybody_knows(tmp_path: Path) -> None:
    found = describe(saved(tmp_path, ResNet50().graph()), batch=1)
    assert found.macs == 4_089_184_256
    assert found.parameters == 25_557_032  # running means and variances are not trained
    assert {one.operator: one.layers for one in found.operators}["Conv"] == 53


def one(
    directory: Path, kind: str, inputs: Shapes, *, stored: Sequence[TensorProto] = (), **given: Any
) -> Description:
    """The description of a network of one layer."""
    domain, opset = given.pop("domain", ""), given.pop("opset", 21)
    names = given.pop("names", [*inputs, *(tensor.name for tensor in stored)])
    node = helper.make_node(kind, names, ["out"], domain=domain, **given)
    made = graph([node], inputs, {"out": None}, stored)
    return describe(saved(directory, made, opset, domains=[domain] if domain else []))


def test_grouped_and_transposed_convolutions(tmp_path: Path) -> None:
    x = {"x": [1, 8, 10, 10]}
    grouped = one(tmp_path, "Conv", x, stored=[weights("w", 16, 2, 3, 3)], group=4)
    assert grouped.macs == 16 * 8 * 8 * 2 * 9
    # 8 channels to 4 by a 2x2 kernel with stride 2: each input touches 4 channels x 4 places.
    back = one(tmp_path, "ConvTranspose", x, stored=[weights("w", 8, 4, 2, 2)], strides=[2, 2])
    assert back.macs == 8 * 10 * 10 * 4 * 4
    assert back.activation_bytes == 4 * 20 * 20 * FLOAT


def test_products(tmp_path: Path) -> None:
    assert one(tmp_path, "MatMul", {"a": [2, 4, 7, 5], "b": [5, 3]}).macs == 2 * 4 * 7 * 3 * 5
    assert one(tmp_path, "MatMul", {"a": [5], "b": [5]}).macs == 5
    assert one(tmp_path, "Gemm", {"a": [5, 7], "b": [5, 3]}, transA=1).macs == 7 * 5 * 3
    heads = {"a": [2, 3, 4], "b": [2, 5, 4]}
    assert one(tmp_path, "Einsum", heads, equation="bij, bkj -> bik").macs == 2 * 3 * 4 * 5


def test_attention_by_its_own_operator_and_by_products(tmp_path: Path) -> None:
    heads = {"q": [2, 4, 7, 8], "k": [2, 4, 9, 8], "v": [2, 4, 9, 8]}
    whole = one(tmp_path, "Attention", heads, opset=23)
    assert whole.macs == 2 * (2 * 4 * 7 * 9 * 8)
    nodes = [
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "kt"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"]),
        helper.make_node("MatMul", ["p", "v"], ["out"]),
    ]
    assert describe(saved(tmp_path, graph(nodes, heads, {"out": None}))).macs == whole.macs


def test_a_recurrent_layer(tmp_path: Path) -> None:
    stored = [weights("w", 2, 4 * 16, 8), weights("r", 2, 4 * 16, 16)]
    found = one(tmp_path, "LSTM", {"x": [5, 3, 8]}, stored=stored, hidden_size=16,
                direction="bidirectional")  # fmt: skip
    assert found.macs == 5 * 3 * 2 * 4 * 16 * (8 + 16)


def test_half_precision_takes_half_the_bytes(tmp_path: Path) -> None:
    node = helper.make_node("Cast", ["x"], ["out"], to=TensorProto.FLOAT16)
    made = graph([node], {"x": [3, 5]}, {}, [weights("w", 7, 9, kind=TensorProto.INT4)])
    made.output.add(name="out")
    found = describe(saved(tmp_path, made))
    assert found.activation_bytes == 3 * 5 * 2
    assert (found.parameters, found.parameter_bytes) == (63, 32)


def test_constants_are_no_parameters(tmp_path: Path) -> None:
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [3, 4])
    half = helper.make_tensor("half", TensorProto.FLOAT, [], [0.5])
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
        helper.make_node("Mul", ["y", "half"], ["out"]),
    ]
    found = describe(saved(tmp_path, graph(nodes, {"x": [12]}, {"out": None}, [shape, half])))
    assert found.parameters == 0
    assert found.activation_bytes == 12 * FLOAT


def branch(width: int) -> GraphProto:
    node = helper.make_node("MatMul", ["x", f"w{width}"], [f"y{width}"])
    return graph([node], {}, {f"y{width}": None}, [weights(f"w{width}", 4, width)])


def test_the_larger_way_of_an_if(tmp_path: Path) -> None:
    node = helper.make_node("If", ["flag"], ["out"], then_branch=branch(5), else_branch=branch(9))
    made = graph([node], {"x": [2, 4]}, {"out": None})
    made.input.append(helper.make_tensor_value_info("flag", TensorProto.BOOL, []))
    found = describe(saved(tmp_path, made))
    assert found.macs == 2 * 4 * 9
    assert found.parameters == 4 * (5 + 9)
    assert "If" in found.notes[0]


def test_the_body_of_a_loop_is_counted_once(tmp_path: Path) -> None:
    body = graph(
        [
            helper.make_node("MatMul", ["state", "w"], ["next"]),
            helper.make_node("Identity", ["go"], ["still"]),
        ],
        {},
        {},
        [weights("w", 4, 4)],
    )
    body.input.append(helper.make_tensor_value_info("turn", TensorProto.INT64, []))
    body.input.append(helper.make_tensor_value_info("go", TensorProto.BOOL, []))
    body.input.append(helper.make_tensor_value_info("state", TensorProto.FLOAT, [2, 4]))
    body.output.append(helper.make_tensor_value_info("still", TensorProto.BOOL, []))
    body.output.append(helper.make_tensor_value_info("next", TensorProto.FLOAT, [2, 4]))
    node = helper.make_node("Loop", ["", "", "x"], ["out"], body=body)
    found = describe(saved(tmp_path, graph([node], {"x": [2, 4]}, {"out": None})))
    assert found.macs == 2 * 4 * 4
    assert found.notes == ("what a Loop repeats is counted once: how often is not in the file",)


def test_functions_are_looked_into(tmp_path: Path) -> None:
    inner = [helper.make_node("MatMul", ["a", "b"], ["c"])]
    function = helper.make_function(
        "mine", "Twice", ["a", "b"], ["c"], inner, [helper.make_opsetid("", 21)]
    )
    node = helper.make_node("Twice", ["a", "b"], ["out"], domain="mine")
    made = graph([node], {"a": [2, 3], "b": [3, 4]}, {"out": None})
    path = saved(tmp_path, made, domains=["mine"], functions=[function])
    assert describe(path).macs == 2 * 3 * 4


def test_functions_that_grow_without_bound(tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("mine", 1)]

    def function(number: int) -> Any:
        kind, domain = ("Relu", "") if number == 0 else (f"F{number - 1}", "mine")
        nodes = [
            helper.make_node(kind, ["a"], ["b"], domain=domain),
            helper.make_node(kind, ["b"], ["c"], domain=domain),
        ]
        return helper.make_function("mine", f"F{number}", ["a"], ["c"], nodes, opsets)

    node = helper.make_node("F39", ["x"], ["out"], domain="mine")
    made = graph([node], {"x": [2]}, {"out": None})
    path = saved(tmp_path, made, domains=["mine"], functions=[function(i) for i in range(40)])
    with pytest.raises(InputError, match="too many layers"):
        describe(path)


def test_a_function_that_calls_itself(tmp_path: Path) -> None:
    inner = [helper.make_node("Again", ["a"], ["b"], domain="mine")]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("mine", 1)]
    function = helper.make_function("mine", "Again", ["a"], ["b"], inner, opsets)
    made = graph([helper.make_node("Again", ["x"], ["out"], domain="mine")], {"x": [2]}, {})
    path = saved(tmp_path, made, domains=["mine"], functions=[function])
    with pytest.raises(InputError, match="deep"):
        describe(path)


def test_an_operator_of_somebody_elses_is_named(tmp_path: Path) -> None:
    found = one(tmp_path, "Fused", {"x": [2, 4]}, domain="com.example")
    assert found.macs == 0
    assert [one.operator for one in found.operators] == ["com.example.Fused"]
    assert "com.example.Fused (1 times)" in found.notes[0]
    assert "1 of the layers' outputs" in found.notes[1]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "image: found Nx1x28x28"),
        ({"inputs": {"picture": (1, 1, 28, 28)}}, "one of image"),
        ({"inputs": {"image": (1, 28, 28)}}, "4: Nx1x28x28"),
        ({"inputs": {"image": (1, 3, 28, 28)}}, "found 3, expected 1"),
        ({"batch": 0}, "from 1 to 2147483647"),
        ({"inputs": {"image": (0, 1, 28, 28)}}, "from 1 to 2147483647"),
    ],
)
def test_wrong_shapes_are_refused(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        describe(saved(tmp_path, lenet("N")), **given)


def test_a_batch_that_the_file_fixes(tmp_path: Path) -> None:
    path = saved(tmp_path, lenet(1))
    assert describe(path, batch=1).macs == LENET_MACS
    with pytest.raises(InputError, match="image is 1x1x28x28"):
        describe(path, batch=8)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    for content in (b"", b"PK\x03\x04 weights", b"\x08\x07", bytes(range(256)) * 64):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"net\.onnx"):
            describe(str(path))
    with pytest.raises(InputError, match="no regular file"):
        describe(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        describe(str(tmp_path / "none.onnx"))


@pytest.mark.parametrize("dims", [[-6, 1, 5, 5], [2**62] * 20, [2**62] * 100_000, [1] * 65])
def test_impossible_sizes_are_refused(tmp_path: Path, dims: list[int]) -> None:
    made = lenet()
    del made.initializer[0].dims[:]
    made.initializer[0].dims.extend(dims)
    with pytest.raises(InputError, match="found a tensor of impossible size, expected an ONNX mod"):
        describe(saved(tmp_path, made))


def test_the_bytes_of_a_layer_of_impossible_size_are_not_known(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    huge = [2**62] * 20
    found = describe(saved(tmp_path, graph([node], {"x": huge}, {"y": huge})))
    assert found.activation_bytes == 0
    assert any("bytes are not known" in line for line in found.notes)


def test_a_batch_larger_than_any_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a whole number from 1 to 2147"):
        describe(saved(tmp_path, lenet("n")), batch=10**30)


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_a_damaged_file_never_ends_in_anything_but_one_line(
    tmp_path: Path, data: st.DataObject
) -> None:
    path = Path(saved(tmp_path, lenet("N")))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    with suppress(InputError):  # whose message is one line, whatever it tells
        describe(str(path), batch=2)
