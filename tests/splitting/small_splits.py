"""Small networks that are cut by hand, for tests of what runs on devices."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

Floats = NDArray[np.float32]
Box = list[list[int]]

ROWS, COLUMNS = 6, 5


def model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Sequence[int]],
    outputs: Mapping[str, Sequence[int]],
    weights: Mapping[str, Any],
) -> onnx.ModelProto:
    def values(named: Mapping[str, Sequence[int]]) -> list[Any]:
        return [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, list(dims))
            for name, dims in named.items()
        ]

    constants = [numpy_helper.from_array(np.asarray(one), name) for name, one in weights.items()]
    graph = helper.make_graph(list(nodes), "segment", values(inputs), values(outputs), constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    return made


def answer(network: onnx.ModelProto, sample: Floats) -> dict[str, Floats]:
    """What the whole network says."""
    session = onnxruntime.InferenceSession(
        network.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [one.name for one in session.get_outputs()]
    outputs = session.run(names, {session.get_inputs()[0].name: sample})
    return dict(zip(names, outputs, strict=True))


class Package:
    """What one device gets, put together by hand."""

    def __init__(self, device: int, devices: int, split: str, kind: str = "cut") -> None:
        self.segments: list[tuple[bytes, dict[str, Any]]] = []
        self.content: dict[str, Any] = {
            "format": 1,
            "split": split,
            "network": "0" * 64,
            "name": "by hand",
            "device": device,
            "devices": devices,
            "layout": "by hand",
            "kind": kind,
            "buffers": {},
            "segments": [],
            "copies": [],
            "sends": [],
            "receives": [],
            "inputs": [],
            "outputs": [],
        }

    def buffers(self, **dims: Sequence[int]) -> None:
        self.content["buffers"] |= {name: list(one) for name, one in dims.items()}

    def segment(
        self, made: onnx.ModelProto, inputs: Mapping[str, str], outputs: Mapping[str, str]
    ) -> None:
        names = {"inputs": dict(inputs), "outputs": dict(outputs)}
        self.segments.append((made.SerializeToString(), names))

    def copy(self, source: str, at: Box, target: str, to: Box, add: bool = False) -> None:
        self.content["copies"].append(
            {"from": source, "from_box": at, "to": target, "to_box": to, "add": add}
        )

    def send(self, message: int, to: int, *parts: tuple[str, Box]) -> None:
        named = [{"buffer": name, "box": box} for name, box in parts]
        self.content["sends"].append({"message": message, "to": to, "parts": named})

    def receive(
        self, message: int, source: int, *parts: tuple[str, Box], add: bool = False
    ) -> None:
        named = [{"buffer": name, "box": box, "add": add} for name, box in parts]
        self.content["receives"].append({"message": message, "from": source, "parts": named})

    def takes(self, name: str, buffer: str, box: Box) -> None:
        piece = {"name": name, "buffer": buffer, "box_of_network_input": box}
        self.content["inputs"].append(piece)

    def gives(self, name: str, buffer: str, box: Box, add: bool = False) -> None:
        piece = {"name": name, "buffer": buffer, "box_of_network_output": box, "add": add}
        self.content["outputs"].append(piece)

    def write(self, folder: Path) -> None:
        place = folder / f"device-{self.content['device']}"
        place.mkdir(parents=True)
        for i, (made, names) in enumerate(self.segments):
            file = f"segment-{i:03}.onnx"
            (place / file).write_bytes(made)
            digest = hashlib.sha256(made).hexdigest()
            self.content["segments"].append({"file": file, "sha256": digest, **names})
        (place / "package.json").write_text(json.dumps(self.content))


def write_split(
    folder: Path,
    split: str,
    packages: Sequence[Package],
    inputs: Mapping[str, Sequence[int]],
    outputs: Mapping[str, Sequence[int]],
    kind: str = "cut",
) -> None:
    for package in packages:
        package.write(folder)
    content = {"format": 1, "split": split, "network": "0" * 64, "name": "by hand", "kind": kind}
    content |= {"devices": len(packages), "layout": "by hand", "precision": "float32"}
    content |= {"inputs": dict(inputs), "outputs": dict(outputs)}
    (folder / "split.json").write_text(json.dumps(content))


def samples(count: int, channels: int = 2, seed: int = 0) -> list[Floats]:
    random = np.random.default_rng(seed)
    return [
        random.standard_normal((1, channels, ROWS, COLUMNS)).astype(np.float32)
        for _ in range(count)
    ]


def _conv(name: str, source: str, target: str, top: int, bottom: int) -> NodeProto:
    pads = [top, 1, bottom, 1]
    weights = [f"{name}_weight", f"{name}_bias"]
    return helper.make_node("Conv", [source, *weights], [target], pads=pads)


def _weights(seed: int = 1) -> dict[str, Floats]:
    random = np.random.default_rng(seed)
    shapes = {
        "first_weight": (4, 2, 3, 3),
        "first_bias": (4,),
        "second_weight": (3, 4, 3, 3),
        "second_bias": (3,),
        "last": (3, 5),
    }
    return {
        name: (random.standard_normal(dims) / 3).astype(np.float32) for name, dims in shapes.items()
    }


def _sum_nodes() -> list[NodeProto]:
    return [
        helper.make_node("ReduceSum", ["y", "axes"], ["sum"], keepdims=0),
        helper.make_node("MatMul", ["sum", "last"], ["logits"]),
    ]


def rows(folder: Path, devices: int, split: str = "ab" * 32) -> onnx.ModelProto:
    """Two convolutions over rows with a halo between them, then a sum over all devices.

    The host adds up one copy of the sums (`logits`), device 0 another (`total`). The whole network
    is returned.
    """
    weights = _weights()
    axes = {"axes": np.array([2, 3], np.int64)}
    share = ROWS // devices
    packages = []
    for i in range(devices):
        first, stop = i * share, (i + 1) * share
        above, below = int(i > 0), int(i < devices - 1)
        high = share + above + below
        one = Package(i, devices, split)
        one.buffers(x=(1, 2, high, COLUMNS), a=(1, 4, share, COLUMNS), b=(1, 4, high, COLUMNS))
        one.buffers(y=(1, 3, share, COLUMNS), p=(1, 5))
        one.takes("image", "x", [[0, 2, 1], [first - above, stop + below]])
        one.segment(
            model(
                [
                    _conv("first", "x", "c", 1 - above, 1 - below),
                    helper.make_node("Relu", ["c"], ["a"]),
                ],
                {"x": (1, 2, high, COLUMNS)},
                {"a": (1, 4, share, COLUMNS)},
                {name: weights[name] for name in ("first_weight", "first_bias")},
            ),
            {"x": "x"},
            {"a": "a"},
        )
        every = [0, 4, 1]
        one.copy("a", [every, [0, share]], "b", [every, [above, above + share]])
        if above:
            one.send(2 * i, i - 1, ("a", [every, [0, 1]]))
            one.receive(2 * i + 1, i - 1, ("b", [every, [0, 1]]))
        if below:
            one.send(2 * i + 3, i + 1, ("a", [every, [share - 1, share]]))
            one.receive(2 * i + 2, i + 1, ("b", [every, [high - 1, high]]))
        one.segment(
            model(
                [_conv("second", "b", "y", 1 - above, 1 - below)],
                {"b": (1, 4, high, COLUMNS)},
                {"y": (1, 3, share, COLUMNS)},
                {name: weights[name] for name in ("second_weight", "second_bias")},
            ),
            {"b": "b"},
            {"y": "y"},
        )
        one.segment(
            model(
                _sum_nodes(),
                {"y": (1, 3, share, COLUMNS)},
                {"logits": (1, 5)},
                {"last": weights["last"], **axes},
            ),
            {"y": "y"},
            {"logits": "p"},
        )
        one.gives("y", "y", [[0, 3, 1], [first, stop]])
        one.gives("logits", "p", [[0, 5, 1], [0, 1]], add=True)
        vector: Box = [[0, 5, 1], [0, 1]]
        if i:
            one.send(100, 0, ("p", vector))
        else:
            one.buffers(t=(1, 5))
            one.copy("p", vector, "t", vector, add=True)
            for other in range(1, devices):
                one.receive(100, other, ("t", vector), add=True)
            one.gives("total", "t", vector)
        packages.append(one)
    outputs = {"y": (1, 3, ROWS, COLUMNS), "logits": (1, 5), "total": (1, 5)}
    write_split(folder, split, packages, {"image": (1, 2, ROWS, COLUMNS)}, outputs)
    nodes = [
        _conv("first", "image", "c", 1, 1),
        helper.make_node("Relu", ["c"], ["a"]),
        _conv("second", "a", "y", 1, 1),
        *_sum_nodes(),
        helper.make_node("Identity", ["logits"], ["total"]),
    ]
    return model(nodes, {"image": (1, 2, ROWS, COLUMNS)}, outputs, {**weights, **axes})


def groups(folder: Path, devices: int, split: str = "cd" * 32) -> onnx.ModelProto:
    """A group of channels a device, and a shuffle between two layers: all to all, with steps."""
    own = 2 * devices  # channels of a device
    channels = own * devices
    random = np.random.default_rng(2)
    scales = random.standard_normal((2, 1, channels, 1, 1)).astype(np.float32)
    whole, part = (1, channels, ROWS, COLUMNS), (1, own, ROWS, COLUMNS)
    every = [0, ROWS]
    packages = []
    for i in range(devices):
        mine = [i * own, (i + 1) * own, 1]
        one = Package(i, devices, split)
        one.buffers(x=part, a=part, b=part, y=part)
        one.takes("image", "x", [mine, every])
        for source, target, layer in (("x", "a", 0), ("b", "y", 1)):
            nodes = [
                helper.make_node("Mul", [source, "scale"], ["scaled"]),
                helper.make_node("Tanh", ["scaled"], [target]),
            ]
            scale = {"scale": scales[layer][:, mine[0] : mine[1]]}
            one.segment(
                model(nodes, {source: part}, {target: part}, scale),
                {source: source},
                {target: target},
            )
        for other in range(devices):
            there: Box = [[2 * other, 2 * other + 2, 1], every]
            here: Box = [[other, other + devices + 1, devices], every]
            if other == i:
                one.copy("a", there, "b", here)
            else:
                one.send(10, other, ("a", there))
                one.receive(10, other, ("b", here))
        one.gives("y", "y", [mine, every])
        packages.append(one)
    write_split(folder, split, packages, {"image": whole}, {"y": whole})
    order = np.arange(channels).reshape(devices, own).T.reshape(-1)
    nodes = [
        helper.make_node("Mul", ["image", "scale0"], ["s"]),
        helper.make_node("Tanh", ["s"], ["a"]),
        helper.make_node("Gather", ["a", "order"], ["b"], axis=1),
        helper.make_node("Mul", ["b", "scale1"], ["t"]),
        helper.make_node("Tanh", ["t"], ["y"]),
    ]
    constants = {"scale0": scales[0], "scale1": scales[1], "order": order}
    return model(nodes, {"image": whole}, {"y": whole}, constants)


def replicas(folder: Path, devices: int, split: str = "ef" * 32) -> onnx.ModelProto:
    """The whole network on every device."""
    dims = (1, 2, ROWS, COLUMNS)
    random = np.random.default_rng(3)
    scale = random.standard_normal((1, 2, 1, 1)).astype(np.float32)
    nodes = [helper.make_node("Mul", ["image", "scale"], ["y"])]
    made = model(nodes, {"image": dims}, {"y": dims}, {"scale": scale})
    packages = []
    for i in range(devices):
        one = Package(i, devices, split, "replicas")
        one.buffers(x=dims, y=dims)
        one.takes("image", "x", [[0, 2, 1], [0, ROWS]])
        one.segment(made, {"image": "x"}, {"y": "y"})
        one.gives("y", "y", [[0, 2, 1], [0, ROWS]])
        packages.append(one)
    write_split(folder, split, packages, {"image": dims}, {"y": dims}, "replicas")
    return made
