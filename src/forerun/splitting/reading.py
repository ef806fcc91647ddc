"""From an ONNX file to a graph: what it means once constants, names and shapes are settled.

The file may come from anybody: it is parsed, and no code in it runs. What cannot be read is
refused in a line that names the node; what has no rule is kept as it stands, and runs whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from forerun.errors import InputError
from forerun.splitting.constants import Dims, Folding, array, dims_of
from forerun.splitting.folding import fold_batch_normalisation, fold_bias
from forerun.splitting.graph import Constant, Graph, Operation, Shape
from forerun.splitting.inlining import inlined, named
from forerun.splitting.inputs import Normal, normal_of
from forerun.splitting.nodes import Source
from forerun.splitting.pools import drop_windows_in_padding
from forerun.splitting.translation import translated

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

_OLDEST = 13  # version of ONNX's operators: since then, sizes and limits are inputs
_STANDARD = ("", "ai.onnx")  # the domain of ONNX's own operators
_RESHAPES = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")
_FLOAT = 1  # ONNX's number of float32


def load(path: Path) -> Graph:
    """Read a file."""
    import onnx
    from google.protobuf.message import DecodeError

    if not path.is_file():
        found = "a folder" if path.is_dir() else "no such file"
        raise InputError(str(path), found, "an ONNX model")
    try:
        model = onnx.load(path)
    except DecodeError:
        expected = "an ONNX model: export other networks as one first (torch.onnx.export)"
        raise InputError(str(path), "something else", expected) from None
    except Exception as error:  # weights that are not beside it …
        raise InputError(str(path), _first_line(error), "an ONNX model") from None
    if not model.graph.node:
        raise InputError(str(path), "no layers", "an ONNX model")
    return read(model, str(path))


def read(model: ModelProto, where: str = "network") -> Graph:
    """The graph of a model."""
    about = {one.key: one.value for one in model.metadata_props}
    model = _prepared(model, where)
    opsets = {
        one.domain if one.domain != "ai.onnx" else "": one.version for one in model.opset_import
    }
    reader = _Reader.of(model.graph, where, opsets[""])
    reader.simplify(model.graph.node)
    reader.drop_dead()
    operations = fold_bias(reader.operations(), reader.outputs)
    operations = fold_batch_normalisation(operations, reader.outputs)
    if not operations:
        raise InputError(where, "no layers", "an ONNX model")
    graph = reader.graph(operations, opsets)
    return replace(graph, normal=_normal(about, [graph.tensors[one] for one in graph.inputs]))


def _normal(about: Mapping[str, str], inputs: Sequence[Shape]) -> Normal | None:
    """What `forerun.splitting.train` keeps; other programs may mean other things by these words."""
    if len(inputs) != 1 or len(inputs[0].dims) != 4:
        return None
    try:
        mean, std = (json.loads(about[name]) for name in ("mean", "std"))
    except (KeyError, ValueError, RecursionError):
        return None
    return normal_of(mean, std, inputs[0].channels)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _prepared(model: ModelProto, where: str) -> ModelProto:
    """The model with batch 1, without functions of its own, and with the shape of every tensor."""
    from onnx import ModelProto, shape_inference, version_converter

    found = ModelProto()
    found.CopyFrom(model)
    if found.graph.sparse_initializer:
        raise InputError(where, "sparse weights", "dense ones")
    fix_batch(found.graph, where)
    try:
        found = inlined(found, where)
        version = next(one.version for one in found.opset_import if one.domain in _STANDARD)
        if version < _OLDEST:
            found = version_converter.convert_version(found, _OLDEST)
        found = shape_inference.infer_shapes(found, strict_mode=True, data_prop=True)
        while drop_windows_in_padding(found.graph, where):
            _forget_shapes(found.graph)
            found = shape_inference.infer_shapes(found, strict_mode=True, data_prop=True)
        return found
    except InputError:
        raise
    except Exception as error:  # whatever the library's C++ raises on broken content
        raise InputError(
            where, _first_line(error), "an ONNX model whose shapes can be told"
        ) from None


def fix_batch(graph: GraphProto, where: str) -> None:
    """One sample at a time; every other size must be stated."""
    stored = {tensor.name for tensor in graph.initializer}
    for value in graph.input:
        if value.name in stored:
            continue
        dims = value.type.tensor_type.shape.dim
        if not dims:
            raise InputError(f"{where}: input {value.name}", "no shape", "sizes, batch first")
        shown = "x".join(str(d.dim_value or d.dim_param or "?") for d in dims)
        if len(dims) == 1:
            raise InputError(f"{where}: input {value.name}", shown, "a batch, and sizes after it")
        dims[0].dim_value = 1
        if any(dim.dim_value <= 0 for dim in dims):
            raise InputError(
                f"{where}: input {value.name}", shown, "fixed sizes, but for the batch"
            )
    _forget_shapes(graph)


def _forget_shapes(graph: GraphProto) -> None:
    """What was inferred for another batch, or from other windows, is inferred again."""
    del graph.value_info[:]
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")


@dataclass
class _Reader:
    """What is known of a model while it is read."""

    where: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dims: dict[str, Dims]
    types: dict[str, int]
    folding: Folding
    names: dict[str, str] = field(default_factory=dict)  # tensors that are another one
    nodes: list[NodeProto] = field(default_factory=list)

    @classmethod
    def of(cls, graph: GraphProto, where: str, version: int) -> _Reader:
        constants = {one.name: array(one, where) for one in graph.initializer}
        values = [*graph.input, *graph.value_info, *graph.output]
        dims = {one.name: dims for one in values if (dims := dims_of(one.type)) is not None}
        return cls(
            where=where,
            inputs=tuple(value.name for value in graph.input if value.name not in constants),
            outputs=tuple(value.name for value in graph.output),
            dims=dims,
            types={value.name: value.type.tensor_type.elem_type for value in values},
            folding=Folding(where, version, dims, constants),
        )

    @property
    def constants(self) -> dict[str, Constant]:
        return self.folding.known

    def simplify(self, nodes: Sequence[NodeProto]) -> None:
        """Evaluate what is constant, and pass over what changes nothing."""
        for given in nodes:
            node = type(given)()
            node.CopyFrom(given)
            node.input[:] = [self.names.get(name, name) for name in node.input]
            while len(node.output) > 1 and not node.output[-1]:
                node.output.pop()
            own = node.domain in _STANDARD  # others mean other things by the same names
            if node.domain == "ai.onnx":
                node.ClearField("domain")
            ends = any(name in self.outputs for name in node.output)
            if own and not ends and self.folding.fold(node):
                continue
            if own and self._does_nothing(node):
                self.names[node.output[0]] = node.input[0]
            else:
                self.nodes.append(node)

    def _does_nothing(self, node: NodeProto) -> bool:
        first, out = next(iter(node.input), ""), node.output[0]
        if out in self.outputs or first in self.constants:
            return False
        same = self.dims.get(first) == self.dims.get(out) is not None
        same &= self.types.get(first) == self.types.get(out)
        if node.op_type == "Dropout":
            training = self.constants.get(node.input[2]) if len(node.input) > 2 else None
            return len(node.output) == 1 and same and not (training is not None and training.any())
        return same and node.op_type in ("Identity", "Cast", *_RESHAPES)

    def drop_dead(self) -> None:
        """Forget what no output depends on."""
        wanted = set(self.outputs)
        kept: list[NodeProto] = []
        for node in reversed(self.nodes):
            if wanted.intersection(node.output):
                wanted.update(node.input)
                kept.append(node)
        self.nodes = kept[::-1]

    def operations(self) -> list[Operation]:
        """All nodes in the words of splitting."""
        made: list[Operation] = []
        for source in self._sources():
            missing = [n for n in source.node.output if n and n not in self.dims]
            if missing:
                raise InputError(
                    named(self.where, source.node), "a shape that is not known", "fixed sizes"
                )
            self._check_groups(source.node)
            made += translated(source)
        return made

    def _check_groups(self, node: NodeProto) -> None:
        """That a convolution's groups divide its channels, which nobody has looked at so far."""
        weight = self.dims_of(node.input[1]) if node.op_type == "Conv" else None
        given = self.dims_of(node.input[0]) if weight else None
        if not weight or not given or node.domain not in _STANDARD:
            return
        groups = next((one.i for one in node.attribute if one.name == "group"), 1)
        if groups < 1 or weight[0] % groups or given[1] != weight[1] * groups:
            raise InputError(
                named(self.where, node),
                f"{given[1]} channels in {groups} groups, and weights of {weight[0]} x {weight[1]}",
                "groups that divide the channels, as the weights do",
            )

    def dims_of(self, name: str) -> Dims | None:
        """The sizes of a tensor, constant or not, where they are known."""
        constant = self.constants.get(name)
        return self.dims.get(name) if constant is None else constant.shape

    def _sources(self) -> Iterator[Source]:
        readers: dict[str, list[NodeProto]] = {}
        for node in self.nodes:
            for name in node.input:
                readers.setdefault(name, []).append(node)
        done: set[int] = set()
        for node in self.nodes:
            if id(node) not in done:
                source = Source(node, self.dims, self.types, self.constants, readers, self.outputs)
                yield source
                done |= source.swallowed

    def graph(self, operations: Sequence[Operation], opsets: dict[str, int]) -> Graph:
        names = [*self.inputs, *(name for op in operations for name in op.outputs)]
        missing = [name for name in self.outputs if name not in names]
        if missing:
            raise InputError(f"{self.where}: output {missing[0]}", "no layer", "one that makes it")
        return Graph(
            inputs=self.inputs,
            outputs=self.outputs,
            operations=tuple(operations),
            tensors={name: Shape.of(self.dims[name]) for name in names},
            opsets=opsets,
            types={n: self.types[n] for n in names if self.types.get(n, _FLOAT) != _FLOAT},
        )
