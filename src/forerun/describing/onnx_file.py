"""Describe an ONNX file: shapes inferred by the onnx library, layers counted here.

The file may come from anybody. It is parsed (protobuf, no code in it runs), weights that it keeps
in other files are not opened, and what it says is bounded before anything grows from it.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from forerun.describing.description import Description, Shape, Tally
from forerun.describing.onnx_shapes import fix_shapes
from forerun.describing.operators import Attributes, UnknownShapeError, macs
from forerun.errors import InputError

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

_AN_ONNX_FILE = "an ONNX model"
_LARGEST = 2**31 - 1  # bytes that protobuf reads; larger networks keep their weights beside
_MOST_NODES = 1_000_000
_DEEPEST = 64  # functions that call functions
_MOST_DIMS = 64  # of a tensor
_MOST_VALUES = 2**63  # in a tensor
_SMALL = 1024  # values of a stored tensor that shapes may depend on; others are not looked at
_OWN = ("", "ai.onnx")  # the domain of ONNX's own operators
_VIEWS = {"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"}  # the same bytes again
_DATA = (
    *("raw_data", "float_data", "int32_data", "int64_data", "double_data"),
    *("uint64_data", "string_data"),
)
# Whole numbers of these kinds are places, counts and sizes, not weights.
_NO_WEIGHTS = ("BOOL", "INT16", "INT32", "INT64", "STRING", "UINT16", "UINT32", "UINT64")


def describe_file(path: Path, inputs: Mapping[str, Shape], batch: int | None) -> Description:
    """Count what one forward pass of the file's network computes, holds and writes."""
    model = _read(path)
    _drop_data(model)
    model = _inlined(path, model)
    shapes = fix_shapes(str(path), model.graph, inputs, batch)
    try:
        parameters, size = _parameters(model.graph)
        count = _Count()
        model = _with_shapes(path, model, count.notes)
        tally = count.graph(model.graph, {})
    except UnknownShapeError:
        raise InputError(str(path), "a tensor of impossible size", _AN_ONNX_FILE) from None
    return Description(
        source=str(path),
        macs=tally.macs,
        parameters=parameters,
        parameter_bytes=size,
        activation_bytes=tally.activation_bytes,
        inputs=shapes,
        operators=tally.operators(),
        notes=(*dict.fromkeys(count.notes), *count.unknown()),
    )


def _read(path: Path) -> ModelProto:
    size = path.stat().st_size
    if not path.is_file():
        raise InputError(str(path), "no regular file", _AN_ONNX_FILE)
    if size > _LARGEST:
        raise InputError(
            str(path), f"{size} bytes", f"at most {_LARGEST}: save its weights as external data"
        )
    try:
        import onnx
    except ImportError:
        raise InputError(
            f"{path}: an ONNX file needs the onnx package: pip install 'forerun[onnx]'"
        ) from None
    try:
        model = onnx.load_model_from_string(path.read_bytes())
    except Exception:  # protobuf's DecodeError, and whatever else hostile bytes bring about
        raise InputError(
            str(path), "a file of another kind, or a damaged one", _AN_ONNX_FILE
        ) from None
    if not model.graph.node:
        raise InputError(str(path), "no layers", _AN_ONNX_FILE)
    return model


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """The graph, and those inside its If, Loop and Scan nodes."""
    yield graph
    for node in graph.node:
        for inner in _inner(node):
            yield from _graphs(inner)


def _inner(node: NodeProto) -> list[GraphProto]:
    return [
        inner
        for one in node.attribute
        for inner in ([one.g] if one.HasField("g") else [*one.graphs])
    ]


def _stored(nodes: list[NodeProto]) -> Iterator[TensorProto]:
    """The tensors that Constant nodes hold."""
    for node in nodes:
        if node.op_type == "Constant":
            yield from (one.t for one in node.attribute if one.HasField("t"))


def _drop_data(model: ModelProto) -> None:
    """Forget the weights themselves: only their sizes count, and inference copies what is there."""
    tensors: list[TensorProto] = []
    for graph in _graphs(model.graph):
        tensors += [*graph.initializer, *_stored([*graph.node])]
    for function in model.functions:
        tensors += _stored([*function.node])
    for tensor in tensors:
        if not _is_possible(tensor.dims) or prod(tensor.dims) > _SMALL:
            for name in _DATA:
                tensor.ClearField(name)


def _inlined(path: Path, model: ModelProto) -> ModelProto:
    """The model without functions of its own; InputError where calls would grow without bound."""
    if not model.functions:
        return model
    bodies = {(one.domain, one.name): [*one.node] for one in model.functions}
    sizes: dict[tuple[str, str], int] = {}

    def size(nodes: list[NodeProto], depth: int) -> int:
        if depth > _DEEPEST:
            raise InputError(str(path), f"functions {depth} deep", f"at most {_DEEPEST}")
        total = len(nodes)
        for node in nodes:
            called = (node.domain, node.op_type)
            if called in bodies:
                if called not in sizes:
                    sizes[called] = size(bodies[called], depth + 1)
                total += sizes[called]
            total += sum(size([*inner.node], depth + 1) for inner in _inner(node))
        if total > _MOST_NODES:
            raise InputError(str(path), "too many layers", f"at most {_MOST_NODES}")
        return total

    size([*model.graph.node], 0)
    from onnx import inliner

    try:
        return inliner.inline_local_functions(model)
    except Exception as error:  # whatever the library's C++ raises on broken content
        raise InputError(str(path), _first_line(error), _AN_ONNX_FILE) from None


def _with_shapes(path: Path, model: ModelProto, notes: list[str]) -> ModelProto:
    from onnx.shape_inference import infer_shapes

    try:
        return infer_shapes(model, strict_mode=True, data_prop=True)
    except Exception as error:  # what can still be told is told, with a note
        notes.append(f"shapes: {_first_line(error)}")
    try:
        return infer_shapes(model, data_prop=True)
    except Exception as error:
        raise InputError(str(path), _first_line(error), _AN_ONNX_FILE) from None


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _parameters(graph: GraphProto) -> tuple[int, int]:
    """How many numbers were trained, and their bytes.

    The running mean and variance of a normalisation were not, and single numbers without a
    dimension are constants of a formula.
    """
    from onnx import TensorProto

    count = size = 0
    others = {TensorProto.DataType.Value(name) for name in _NO_WEIGHTS}
    for one in _graphs(graph):
        statistics = {
            name
            for node in one.node
            if node.op_type == "BatchNormalization"
            for name in node.input[3:5]
        }
        sparse = [pair.values for pair in one.sparse_initializer]
        for tensor in (*one.initializer, *sparse, *_stored([*one.node])):
            if tensor.data_type in others or tensor.name in statistics or not tensor.dims:
                continue
            count += prod(_checked(tensor.dims))
            size += _bytes(tuple(tensor.dims), tensor.data_type)
    return count, size


def _checked(dims: Sequence[int]) -> Shape:
    if not _is_possible(dims):
        raise UnknownShapeError
    return tuple(dims)


def _is_possible(dims: Sequence[int]) -> bool:
    """Whether a tensor can have these sizes: what comes out of others may be multiplied further."""
    if len(dims) > _MOST_DIMS or min(dims, default=0) < 0:
        return False
    return prod(dims) <= _MOST_VALUES


def _bytes(shape: Shape, kind: int) -> int:
    """What a tensor takes; texts count nothing, and two numbers of 4 bits share a byte."""
    from onnx import TensorProto, helper

    if kind in (TensorProto.UNDEFINED, TensorProto.STRING):
        return 0
    try:
        itemsize = helper.tensor_dtype_to_np_dtype(kind).itemsize
    except KeyError:  # a kind that this version of the library does not know
        return 0
    four_bits = TensorProto.DataType.Name(kind).startswith(("INT4", "UINT4", "FLOAT4"))
    return -(-prod(shape) // 2) if four_bits else prod(shape) * itemsize


@dataclass(slots=True)
class _Tensor:
    shape: Shape | None
    kind: int


_UNKNOWN = _Tensor(None, 0)


@dataclass(slots=True)
class _Count:
    """Walks through a graph with inferred shapes, and remembers what it could not count."""

    notes: list[str] = field(default_factory=list)
    unsized: int = 0  # outputs whose bytes are not known
    uncounted: dict[str, int] = field(default_factory=dict)  # operators whose MACs are not known

    def graph(self, graph: GraphProto, outer: MutableMapping[str, _Tensor]) -> Tally:
        known = ChainMap({}, outer)
        for tensor in graph.initializer:
            known[tensor.name] = _Tensor(_checked(tensor.dims), tensor.data_type)
        for value in (*graph.input, *graph.value_info, *graph.output):
            known[value.name] = _tensor(value.type)
        tally = Tally()
        for node in graph.node:
            inner = [self.graph(one, known) for one in _inner(node)]
            if inner:
                tally.add_all(self._largest(node, inner))
            elif node.op_type != "Constant":
                self._layer(node, known, tally)
        return tally

    def _largest(self, node: NodeProto, inner: list[Tally]) -> Tally:
        if node.op_type == "If":
            self.notes.append("an If has several ways: the one with the most work is counted")
        else:
            self.notes.append(
                f"what a {node.op_type} repeats is counted once: how often is not in the file"
            )
        return max(inner, key=lambda one: (one.macs, one.activation_bytes))

    def _layer(self, node: NodeProto, known: Mapping[str, _Tensor], tally: Tally) -> None:
        ins = [known.get(name, _UNKNOWN) for name in node.input]
        outs = [known.get(name, _UNKNOWN) for name in node.output if name]
        own = node.domain in _OWN
        size = 0
        for out in outs if not (own and node.op_type in _VIEWS) else ():
            if out.shape is None:
                self.unsized += 1
            else:
                size += _bytes(out.shape, out.kind)
        work = 0
        name = (
            str(node.op_type) if own else f"{node.domain}.{node.op_type}"
        )  # protobuf gives bytes too
        try:
            if not own:
                raise UnknownShapeError
            shapes = [one.shape for one in ins], [one.shape for one in outs]
            work = macs(node.op_type, *shapes, _attributes(node))
        except UnknownShapeError:
            self.uncounted[name] = self.uncounted.get(name, 0) + 1
        tally.add(name, work, size)

    def unknown(self) -> Iterator[str]:
        for name, count in self.uncounted.items():
            yield f"{name} ({count} times): its multiply-accumulates are not known, nor counted"
        if self.unsized:
            yield f"{self.unsized} of the layers' outputs: their bytes are not known, nor counted"


def _tensor(kind: TypeProto) -> _Tensor:
    held = kind.tensor_type
    if not kind.HasField("tensor_type") or not held.HasField("shape"):
        return _Tensor(None, held.elem_type)
    dims = [one.dim_value if one.HasField("dim_value") else -1 for one in held.shape.dim]
    return _Tensor(tuple(dims) if _is_possible(dims) else None, held.elem_type)


def _attributes(node: NodeProto) -> Attributes:
    def value(one: AttributeProto) -> object:
        return one.s if one.HasField("s") else one.i

    return {one.name: value(one) for one in node.attribute}
