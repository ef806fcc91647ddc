"""Small networks as ONNX files, for tests of what splits of them take."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper


class Network:
    """Layers one after another; every tensor is named by its number."""

    def __init__(self, channels: int, size: int, seed: int = 0) -> None:
        self.shape = [1, channels, size, size]
        self._nodes: list[NodeProto] = []
        self._weights: list[TensorProto] = []
        self._rng = np.random.default_rng(seed)

    def layer(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"t{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], name, **attributes))
        return name

    def weight(self, *shape: int) -> str:
        name = f"w{len(self._weights)}"
        values = self._rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        self._weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def conv(
        self, x: str, before: int, after: int, kernel: int = 3, stride: int = 1, groups: int = 1
    ) -> str:
        weight = self.weight(after, before // groups, kernel, kernel)
        pads = [kernel // 2] * 4
        found = self.layer("Conv", x, weight, strides=[stride] * 2, pads=pads, group=groups)
        return self.layer("Relu", found)

    def block(self, x: str, channels: int, groups: int = 1) -> str:
        """A residual block of two convolutions."""
        found = self.conv(x, channels, channels, groups=groups)
        weight = self.weight(channels, channels // groups, 3, 3)
        found = self.layer("Conv", found, weight, pads=[1] * 4, group=groups)
        return self.layer("Relu", self.layer("Add", found, x))

    def shuffle(self, x: str, channels: int, groups: int) -> str:
        order = np.arange(channels).reshape(groups, -1).T.reshape(-1)
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(order.astype(np.int64), name))
        return self.layer("Gather", x, name, axis=1)

    def model(self, x: str, channels: int, classes: int = 10) -> ModelProto:
        """With a mean over what is left and a layer that tells classes apart."""
        vector = self.layer("Flatten", self.layer("GlobalAveragePool", x))
        found = self.layer("Gemm", vector, self.weight(classes, channels), transB=1)
        graph = helper.make_graph(
            self._nodes,
            "network",
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(found, TensorProto.FLOAT, [1, classes])],
            self._weights,
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(made, full_check=True)
        return made


def plain(size: int = 32, width: int = 16) -> ModelProto:
    """Rows first, then channels: three stages, the last with few rows and most of the weights."""
    made = Network(3, size)
    x = made.conv("image", 3, width)
    x = made.block(x, width)
    x = made.conv(x, width, 2 * width, stride=2)
    x = made.block(x, 2 * width)
    x = made.conv(x, 2 * width, 8 * width, stride=2)
    x = made.block(x, 8 * width)
    return made.model(x, 8 * width)


def decoupled(size: int = 32, width: int = 16, groups: int = 4) -> ModelProto:
    """The same in groups, with a shuffle between the stages."""
    made = Network(3, size)
    x = made.conv("image", 3, width)
    x = made.block(x, width, groups)
    x = made.shuffle(x, width, groups)
    x = made.conv(x, width, 4 * width, stride=2, groups=groups)
    x = made.block(x, 4 * width, groups)
    return made.model(x, 4 * width)


def saved(model: ModelProto, path: Path) -> Path:
    onnx.save(model, path)
    return path
