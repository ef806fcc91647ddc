"""Small networks of any form, drawn by Hypothesis, and what onnxruntime says that they compute."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, shape_inference

from forerun.splitting.simulate import session

Array = NDArray[np.float32]
Draw = st.DrawFn


@dataclass
class Maker:
    """Adds layers to a network, and knows the sizes of what each makes."""

    dims: dict[str, tuple[int, ...]]
    seed: int = 0
    opset: int = 17
    nodes: list[NodeProto] = field(default_factory=list)
    stored: list[TensorProto] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.inputs = dict(self.dims)

    def weight(self, *shape: int) -> str:
        values = self.random.normal(size=shape) / math.sqrt(math.prod(shape[1:]))
        return self.constant(values.astype(np.float32))

    def constant(self, values: NDArray[Any]) -> str:
        name = f"w{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(values, name))
        return name

    def add(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        names = [name, *(f"{name}_{i}" for i in range(1, outputs))]
        self.nodes.append(helper.make_node(kind, inputs, names, name=f"n{name}", **attributes))
        for one, dims in self._sizes(names).items():
            self.dims[one] = dims
        return name

    def _sizes(self, names: list[str]) -> dict[str, tuple[int, ...]]:
        """Of the last node's results, as onnx infers them."""
        node = self.nodes[-1]
        known = {one.name: one for one in self.stored}
        values = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, self.dims[name])
            for name in dict.fromkeys(node.input)
            if name and name not in known
        ]
        used = [known[name] for name in dict.fromkeys(node.input) if name in known]
        outs = [helper.make_empty_tensor_value_info(name) for name in names]
        graph = helper.make_graph([node], "one", values, outs, used)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        found = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph.output
        return {
            one.name: tuple(dim.dim_value for dim in one.type.tensor_type.shape.dim)
            for one in found
        }

    def model(self, *outputs: str) -> ModelProto:
        def infos(names: dict[str, tuple[int, ...]]) -> list[Any]:
            return [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
                for name, dims in names.items()
            ]

        results = {name: self.dims[name] for name in outputs}
        graph = helper.make_graph(
            self.nodes, "net", infos(self.inputs), infos(results), self.stored
        )
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def conv(self, x: str, out: int, kernel: int = 3, *, bias: bool = True, **given: Any) -> str:
        groups = given.get("group", 1)
        channels = self.dims[x][1] // groups
        names = [self.weight(out, channels, kernel, kernel)]
        names += [self.weight(out)] if bias else []
        given.setdefault("pads", [kernel // 2] * 4)
        return self.add("Conv", x, *names, **given)

    def head(self, x: str, classes: int) -> str:
        x = self.add("Flatten", self.add("GlobalAveragePool", x))
        return self.add(
            "Gemm", x, self.weight(classes, self.dims[x][1]), self.weight(classes), transB=1
        )


def answers(model: ModelProto, inputs: dict[str, Array]) -> dict[str, Array]:
    """What onnxruntime computes on the whole network."""
    made = session(model.SerializeToString())
    names = [one.name for one in made.get_outputs()]
    return dict(zip(names, made.run(names, inputs), strict=True))


def sample(model: ModelProto, seed: int = 0) -> dict[str, Array]:
    """Random numbers for each input."""
    random = np.random.default_rng(seed)
    return {
        one.name: random.normal(
            size=[dim.dim_value or 1 for dim in one.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for one in model.graph.input
    }


def difference(found: Array, right: Array) -> float:
    """Largest difference, in units of the largest number; numbers near 0 are what sums leave."""
    return float(np.abs(found.reshape(right.shape) - right).max() / max(np.abs(right).max(), 0.05))


def _window(draw: Draw, size: int, pool: bool = False) -> dict[str, Any]:
    """Kernel, strides, dilations and pads of which some result is left."""
    kernel = draw(st.integers(1, min(5, size)))
    dilation = draw(st.sampled_from([1, 1, 1, 2])) if (kernel - 1) * 2 < size else 1
    most = kernel - 1 if pool else kernel
    pads = [draw(st.integers(0, most)) for _ in range(4)]
    if pool and dilation > 1:
        pads = [0] * 4
    return {
        "kernel_shape": [kernel, kernel],
        "strides": [draw(st.integers(1, 3)), draw(st.integers(1, 2))],
        "dilations": [dilation, dilation],
        "pads": pads,
    }


def _convolution(draw: Draw, net: Maker, x: str) -> str:
    channels = net.dims[x][1]
    divisors = [n for n in range(1, channels + 1) if channels % n == 0]
    groups = draw(st.sampled_from([1, 1, *divisors]))
    out = groups * draw(st.integers(1, max(1, 9 // groups)))
    given = _window(draw, min(net.dims[x][2:]))
    kernel = given["kernel_shape"][0]
    return net.conv(x, out, kernel, bias=draw(st.booleans()), group=groups, **given)


def _normalised(_: Draw, net: Maker, x: str) -> str:
    channels = net.dims[x][1]
    variance = net.constant(net.random.uniform(0.5, 2, channels).astype(np.float32))
    return net.add("BatchNormalization", x, *(net.weight(channels) for _ in range(3)), variance)


def _pool(draw: Draw, net: Maker, x: str) -> str:
    given = _window(draw, min(net.dims[x][2:]), pool=True)
    given["ceil_mode"] = draw(st.integers(0, 1))
    kind = draw(st.sampled_from(["MaxPool", "AveragePool"]))
    if kind == "AveragePool":
        given.pop("dilations")  # of which averages know only since later versions
        given["count_include_pad"] = draw(st.integers(0, 1))
    made = net.add(kind, x, **given)
    starts = [
        (net.dims[made][i] - 1) * given["strides"][i - 2] - given["pads"][i - 2] for i in (2, 3)
    ]
    if starts[0] < net.dims[x][2] and starts[1] < net.dims[x][3]:
        return made
    net.nodes.pop()  # the onnx library counts windows that start in the padding; see test_graph
    return net.add(kind, x, **{**given, "ceil_mode": 0})


def _activation(draw: Draw, net: Maker, x: str) -> str:
    kind = draw(st.sampled_from(["Relu", "Clip", "Sigmoid", "HardSwish", "LeakyRelu", "Tanh"]))
    if kind == "Clip":
        ends = [net.constant(np.array(end, np.float32)) for end in (0.0, 6.0)]
        return net.add("Clip", x, *ends)
    return net.add(kind, x)


def _residual(draw: Draw, net: Maker, x: str) -> str:
    channels = net.dims[x][1]
    y = net.conv(x, channels, 3, bias=False)
    if draw(st.booleans()):
        y = net.conv(net.add("Relu", y), channels, 1)
    kind = draw(st.sampled_from(["Add", "Sub", "Mul"]))
    return net.add(kind, *draw(st.permutations([x, y])))


def _joined(draw: Draw, net: Maker, x: str) -> str:
    other = net.conv(x, draw(st.integers(1, 5)), draw(st.sampled_from([1, 3])))
    return net.add(
        "Concat", *draw(st.permutations([x, other, x][: draw(st.integers(2, 3))])), axis=1
    )


def _shuffled(draw: Draw, net: Maker, x: str) -> str:
    _, channels, *rest = net.dims[x]
    groups = draw(st.sampled_from([n for n in range(1, channels + 1) if channels % n == 0]))
    sizes = [np.array(dims, np.int64) for dims in ([1, groups, -1, *rest], [1, channels, *rest])]
    x = net.add("Reshape", x, net.constant(sizes[0]))
    x = net.add("Transpose", x, perm=[0, 2, 1, 3, 4])
    return net.add("Reshape", x, net.constant(sizes[1]))


def _chosen(draw: Draw, net: Maker, x: str) -> str:
    channels = net.dims[x][1]
    places = draw(st.lists(st.integers(0, channels - 1), min_size=1, max_size=8))
    return net.add("Gather", x, net.constant(np.array(places, np.int64)), axis=1)


def _excited(draw: Draw, net: Maker, x: str) -> str:
    """Channels weighed by their mean."""
    mean = net.add("GlobalAveragePool", x)
    inner = net.add("Relu", net.conv(mean, draw(st.integers(1, 4)), 1))
    weight = net.add("Sigmoid", net.conv(inner, net.dims[x][1], 1))
    return net.add("Mul", *draw(st.permutations([x, weight])))


def _scaled(draw: Draw, net: Maker, x: str) -> str:
    _, channels, rows, columns = net.dims[x]
    shapes = [(), (1,), (channels, 1, 1), (1, channels, 1, 1), (rows, 1), (rows, columns)]
    shape = draw(st.sampled_from(shapes))
    constant = net.constant(net.random.uniform(0.5, 1, shape).astype(np.float32))
    return net.add(draw(st.sampled_from(["Mul", "Add"])), *draw(st.permutations([x, constant])))


def _padded(draw: Draw, net: Maker, x: str) -> str:
    """Padding of its own, as exporters write it before a convolution.

    Before a pool, onnxruntime 1.31 takes any number that is padded with for the pool's own.
    """
    top, left, bottom, right = (draw(st.integers(0, 2)) for _ in range(4))
    pads = np.array([0, 0, top, left, 0, 0, bottom, right], np.int64)
    value = net.constant(np.array(draw(st.sampled_from([0.0, 1.5])), np.float32))
    x = net.add("Pad", x, net.constant(pads), value)
    kernel = min(draw(st.integers(1, 3)), *net.dims[x][2:])
    return net.conv(x, draw(st.integers(1, 6)), kernel, pads=[0] * 4)


def _without_rule(draw: Draw, net: Maker, x: str) -> str:
    """Operators that need to see everything."""
    kind = draw(st.sampled_from(["normalised", "turned", "divided"]))
    if kind == "normalised":
        return net.add("InstanceNormalization", x, *(net.weight(net.dims[x][1]) for _ in range(2)))
    if kind == "divided":
        return _divided(draw, net, x)
    return net.add("Transpose", net.add("Transpose", x, perm=[0, 1, 3, 2]), perm=[0, 1, 3, 2])


def _divided(draw: Draw, net: Maker, x: str) -> str:
    """Two results of different sizes, in another order."""
    _, channels, rows, columns = net.dims[x]
    flat = [1, channels, rows * columns]
    first = draw(st.integers(1, flat[2] - 1))
    sizes = [net.constant(np.array(s)) for s in (flat, [first, flat[2] - first], net.dims[x])]
    parts = net.add("Split", net.add("Reshape", x, sizes[0]), sizes[1], outputs=2, axis=2)
    joined = net.add("Concat", *draw(st.permutations([parts, f"{parts}_1"])), axis=2)
    return net.add("Reshape", joined, sizes[2])


LAYERS = [
    *(_convolution, _convolution, _convolution, _activation, _activation, _normalised, _pool),
    *(_residual, _joined, _shuffled, _chosen, _excited, _scaled, _padded, _without_rule),
]


@st.composite
def networks(draw: Draw, most: int = 6) -> ModelProto:
    """A network of a few layers, with a vector or a map at its end, or both."""
    rows, columns = draw(st.integers(4, 14)), draw(st.integers(3, 8))
    net = Maker({"x": (1, draw(st.integers(1, 6)), rows, columns)}, draw(st.integers(0, 99)))
    x = _convolution(draw, net, "x")
    for _ in range(draw(st.integers(1, most))):
        if min(net.dims[x][2:]) > 1:
            x = draw(st.sampled_from(LAYERS))(draw, net, x)
    ends = draw(st.sampled_from(["head", "map", "both", "vector", "softmax"]))
    if ends == "map":
        return net.model(x)
    if ends == "vector":
        x = net.add("Flatten", x)
        x = net.add("Relu", net.add("Gemm", x, net.weight(7, net.dims[x][1]), transB=1))
        return net.model(net.add("Gemm", x, net.weight(7, 5), net.weight(5)))
    head = net.head(x, draw(st.integers(1, 9)))
    head = net.add("Softmax", head, axis=1) if ends == "softmax" else head
    return net.model(head, x) if ends == "both" else net.model(head)


@st.composite
def decoupled(draw: Draw, groups: int) -> ModelProto:
    """Group convolutions with shuffles between them, after a dense stem."""
    net = Maker({"x": (1, 3, 9, 7)}, draw(st.integers(0, 99)))
    width = groups * draw(st.integers(1, 3)) * groups
    x = net.add("Relu", net.conv("x", width, 3, strides=[2, 2]))
    for _ in range(draw(st.integers(1, 3))):
        y = net.add("Relu", net.conv(x, width, 3, group=groups))
        y = net.conv(y, width, 1, group=groups)
        x = net.add("Relu", net.add("Add", x, y))
        if draw(st.booleans()):
            order = np.arange(width).reshape(groups, -1).T.reshape(-1)
            x = net.add("Gather", x, net.constant(order.astype(np.int64)), axis=1)
            x = net.add("MaxPool", x, kernel_shape=[2, 2]) if net.dims[x][2] > 3 else x
    x = net.add("Relu", net.conv(x, width, 1, group=groups))
    return net.model(net.head(x, 10))
