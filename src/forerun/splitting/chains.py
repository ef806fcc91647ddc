"""Small random networks to time layers in: what a layer takes, it takes among others.

Alone an operator would be timed with what the runtime does at the edges of a network: it brings
tensors into an order of its own, and back. So layers of all kinds are put one after another, with
shapes as networks have them, thin slices of rows included; each knows the nodes that belong to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from forerun.splitting.layers import Layer, Precision

OPSET, IR = 17, 8  # which onnxruntime 1.20 reads
LAYERS = 8  # of a chain
NUMBER = 4  # bytes
_MOST_MACS = 3e8  # of a layer: a few milliseconds
_MOST_BYTES = 6e6  # of a tensor, or of a layer's weights
_SCALE = np.float32(0.03)  # of every quantised tensor: what it is does not change the time
_MIDDLE = 128  # the byte that stands for 0 where numbers may be negative
_KERNELS, _KERNEL_SHARES = (1, 3, 5, 7), (0.5, 0.38, 0.06, 0.06)


@dataclass
class Chain:
    """A network under construction: its nodes, weights and layers, and the tensor it ends in."""

    rng: np.random.Generator
    precision: Precision
    channels: int
    rows: int
    columns: int
    nodes: list[NodeProto] = field(default_factory=list)
    weights: list[TensorProto] = field(default_factory=list)
    layers: dict[str, Layer] = field(default_factory=dict)  # by the name that their nodes begin by
    tensor: str = "x"
    shape: tuple[int, ...] = ()  # of the input

    def __post_init__(self) -> None:
        self.shape = self.shape or (1, self.channels, self.rows, self.columns)
        if self.precision == "int8":
            self.tensor = self._quantised("x", "edge.in")

    @property
    def bytes(self) -> int:
        """Of the tensor that it ends in, in float32."""
        return NUMBER * self.channels * self.rows * self.columns

    def model(self) -> ModelProto:
        """The network; its one output is the last tensor."""
        end = helper.make_node("Identity", [self.tensor], ["y"], name="edge.out")
        last = (1, self.channels, self.rows, self.columns)[: len(self.shape)]
        graph = helper.make_graph(
            [*self.nodes, end],
            "chain",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, last)],
            self.weights,
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR
        )

    def node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """A node whose output has its name."""
        self.nodes.append(helper.make_node(operator, inputs, [output], output, **attributes))
        return output

    def constant(self, values: np.ndarray, name: str) -> str:
        """A tensor of the network itself."""
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def random(self, *shape: int, name: str) -> str:
        """Weights that keep numbers of order 1; quantised by channel where the network is."""
        size, inputs = math.prod(shape), math.prod(shape[1:])
        values = np.resize(self.rng.standard_normal(min(size, 4096)), size).reshape(shape)
        if self.precision == "float32":
            return self.constant((values * math.sqrt(2 / inputs)).astype(np.float32), name)
        whole = self.constant(np.clip(values * 40, -127, 127).astype(np.int8), f"{name}.whole")
        scales = np.full(shape[0], math.sqrt(2 / inputs) / 40, np.float32)
        zeros = self.constant(np.zeros(shape[0], np.int8), f"{name}.zeros")
        inputs_ = [whole, self.constant(scales, f"{name}.scales"), zeros]
        return self.node("DequantizeLinear", inputs_, name, axis=0)

    def end(self, tensor: str, name: str, layer: Layer) -> None:
        """The next layer is there: what it gives goes on."""
        self.layers[name] = layer
        self.tensor = self.stored(tensor, name)

    def stored(self, tensor: str, name: str) -> str:
        """A layer's result as the next one reads it: in bytes, where the network is in int8."""
        return self._quantised(tensor, name) if self.precision == "int8" else tensor

    def _quantised(self, tensor: str, name: str) -> str:
        """As `quantise` has it: of what an activation gives, which is not negative, 0 is byte 0.

        So the activation costs nothing. With another 0 the runtime would compute it, and the layer
        before it, in float32.
        """
        zero = 0 if self.nodes and self.nodes[-1].op_type == "Relu" else _MIDDLE
        pair = [
            self.constant(np.array(_SCALE), f"{name}.scale"),
            self.constant(np.array(zero, np.uint8), f"{name}.zero"),
        ]
        whole = self.node("QuantizeLinear", [tensor, *pair], f"{name}.quantised")
        return self.node("DequantizeLinear", [whole, *pair], f"{name}.again")


def chain(rng: np.random.Generator, precision: Precision = "float32") -> Chain:
    """A random one: of convolutions and what stands between them, or of matrices."""
    if rng.random() < 0.12:
        made = Chain(rng, precision, _between(rng, 32, 4096), 1, 1, shape=())
        made.shape = (1, made.channels)
        for number in range(3):
            _gemm(made, f"layer{number}")
        return made
    columns = _between(rng, 7, 112)
    rows = _between(rng, max(1, columns // 6), columns)
    first = 3 if rng.random() < 0.1 else _channels(rng)
    made = Chain(rng, precision, first, rows, columns)
    while made.bytes > _MOST_BYTES:
        made = Chain(rng, precision, max(3, made.channels // 2), rows, columns)
    ways, shares = zip(*_WAYS, strict=True)
    for number in range(LAYERS):
        way = ways[int(rng.choice(len(ways), p=shares))]
        way(made, f"layer{number}")
    return made


def _between(rng: np.random.Generator, low: int, high: int) -> int:
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


def _channels(rng: np.random.Generator) -> int:
    """Most networks have multiples of 8 or 16; slices of them and widened ones do not."""
    found = _between(rng, 16, 1024)
    if rng.random() < 0.75:
        step = 16 if found >= 64 else 8
        found = max(step, found // step * step)
    return found


def _convolution(made: Chain, name: str) -> None:
    rng, before = made.rng, made.channels
    kernel = int(rng.choice(_KERNELS, p=_KERNEL_SHARES))
    stride = 2 if rng.random() < 0.12 and made.rows > 3 else 1
    groups = next((g for g in (8, 4, 2) if before % g == 0 and rng.random() < 0.05), 1)
    after = max(groups, _channels(rng) // groups * groups)
    rows, columns = -(-made.rows // stride), -(-made.columns // stride)
    while after > groups and (
        rows * columns * after * before // groups * kernel**2 > _MOST_MACS
        or NUMBER * after * max(rows * columns, before // groups * kernel**2) > _MOST_BYTES
    ):
        after = max(groups, after // 2 // groups * groups)
    convolve(made, name, after, kernel, stride, groups)


def convolve(
    made: Chain, name: str, after: int, kernel: int, stride: int, groups: int, add: bool = False
) -> None:
    """A convolution with its activation, and where told the sum with what went in before it."""
    before, read = made.channels, made.bytes
    each = before // groups
    weights = made.random(after, each, kernel, kernel, name=f"{name}.weights")
    bias = made.constant(np.zeros(after, np.float32), f"{name}.bias")
    found, summed = (
        made.node(
            "Conv",
            [made.tensor, weights, bias],
            f"{name}.conv",
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
            group=groups,
        ),
        made.tensor,
    )
    made.channels = after
    made.rows, made.columns = -(-made.rows // stride), -(-made.columns // stride)
    if add:
        found = made.node("Add", [made.stored(found, f"{name}.conv"), summed], f"{name}.sum")
        read += made.bytes
    if made.rng.random() < 0.8:
        found = made.node("Relu", [found], f"{name}.out")
    each_output = each * kernel**2
    outputs = made.rows * made.columns * after
    kind = "depthwise" if each == 1 and groups > 1 else "conv"
    size = 1 if made.precision == "int8" else NUMBER
    layer = Layer(
        kind=kind,  # type: ignore[arg-type]  # one of two literals
        macs=outputs * each_output,
        weights_bytes=size * after * each_output,
        in_bytes=read // NUMBER * size,
        out_bytes=made.bytes // NUMBER * size,
        kernel=kernel,
        channels=each,
        outputs=after // groups,
        groups=groups,
        precision=made.precision,
    )
    made.end(found, name, layer)


def _residual(made: Chain, name: str) -> None:
    """As the last convolution of a block: the sum and what follows are computed with it."""
    kernel = int(made.rng.choice((1, 3)))
    macs = made.rows * made.columns * made.channels**2 * kernel**2
    if macs > _MOST_MACS or NUMBER * (made.channels * kernel) ** 2 > _MOST_BYTES:
        return _depthwise(made, name)
    return convolve(made, name, made.channels, kernel, 1, 1, add=True)


def _depthwise(made: Chain, name: str) -> None:
    kernel = int(made.rng.choice((3, 5)))
    stride = 2 if made.rng.random() < 0.2 and made.rows > 3 else 1
    convolve(made, name, made.channels, kernel, stride, made.channels)


def _moved(made: Chain, kind: str, macs: float, read: float) -> Layer:
    """A layer without weights."""
    size = 1 if made.precision == "int8" else NUMBER
    each = made.bytes // NUMBER
    return Layer(kind, macs, 0, read * size, each * size, precision=made.precision)  # type: ignore[arg-type]


def _pool(made: Chain, name: str) -> None:
    if made.rows < 4:
        return _elementwise(made, name)
    read = made.bytes // NUMBER
    operator = "MaxPool" if made.rng.random() < 0.6 else "AveragePool"
    kernel, stride = (3, 2) if made.rng.random() < 0.5 else (2, 2)
    pad = kernel // 2 if kernel == 3 else 0
    found = made.node(
        operator,
        [made.tensor],
        f"{name}.out",
        kernel_shape=[kernel, kernel],
        strides=[stride, stride],
        pads=[pad] * 4,
    )
    made.rows = (made.rows + 2 * pad - kernel) // stride + 1
    made.columns = (made.columns + 2 * pad - kernel) // stride + 1
    layer = _moved(made, "pool", made.bytes // NUMBER * kernel**2, read)
    return made.end(found, name, replace(layer, kernel=kernel))


def _elementwise(made: Chain, name: str) -> None:
    """An activation that is computed by itself, or a product of two tensors."""
    each = made.bytes // NUMBER
    if made.rng.random() < 0.5:
        found, read = made.node("HardSigmoid", [made.tensor], f"{name}.out"), each
    else:
        found, read = made.node("Mul", [made.tensor, made.tensor], f"{name}.out"), 2 * each
    made.end(found, name, _moved(made, "elementwise", each, read))


def _copy(made: Chain, name: str) -> None:
    """Channels in another order, or twice as many."""
    each = made.bytes // NUMBER
    if made.rng.random() < 0.5 and 2 * made.bytes < _MOST_BYTES:
        found = made.node("Concat", [made.tensor, made.tensor], f"{name}.out", axis=1)
        made.channels *= 2
    else:
        order = made.rng.permutation(made.channels).astype(np.int64)
        places = made.constant(order, f"{name}.order")
        found = made.node("Gather", [made.tensor, places], f"{name}.out", axis=1)
    made.end(found, name, _moved(made, "copy", made.bytes // NUMBER, each))


def _gemm(made: Chain, name: str) -> None:
    before = made.channels
    after = min(_between(made.rng, 10, 4096), int(_MOST_BYTES // (NUMBER * before)) + 1)
    weights = made.random(after, before, name=f"{name}.weights")
    bias = made.constant(np.zeros(after, np.float32), f"{name}.bias")
    found = made.node("Gemm", [made.tensor, weights, bias], f"{name}.gemm", transB=1)
    made.channels = after
    size = 1 if made.precision == "int8" else NUMBER
    layer = Layer(
        "gemm",
        macs=before * after,
        weights_bytes=size * before * after,
        in_bytes=size * before,
        out_bytes=size * after,
        channels=before,
        outputs=after,
        precision=made.precision,
    )
    made.end(made.node("Relu", [found], f"{name}.out"), name, layer)


_WAYS: tuple[tuple[Callable[[Chain, str], None], float], ...] = (
    (_convolution, 0.55),
    (_residual, 0.12),
    (_depthwise, 0.13),
    (_pool, 0.06),
    (_elementwise, 0.07),
    (_copy, 0.07),
)
