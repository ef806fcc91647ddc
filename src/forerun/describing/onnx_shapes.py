"""The sizes that an ONNX file leaves open: named ones such as `batch`, and those with no name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from forerun.describing.description import Shape
from forerun.errors import InputError

if TYPE_CHECKING:
    from onnx import GraphProto, TensorShapeProto, ValueInfoProto

    Dimension = TensorShapeProto.Dimension

_HOW = "a shape: --batch N for the first size, or --input {name}={example}"


def fix_shapes(
    source: str, graph: GraphProto, inputs: Mapping[str, Shape], batch: int | None
) -> dict[str, Shape]:
    """Write the sizes that were given into the graph; the shape of every input.

    A name that several inputs share has one size. InputError where a size stays open, or where
    one that was given is not the one that the file fixes.
    """
    stored = {tensor.name for tensor in graph.initializer}
    open_inputs = {one.name: one for one in graph.input if one.name not in stored}
    for name in inputs:
        if name not in open_inputs:
            names = ", ".join(open_inputs) or "none: the file has no input"
            raise InputError(f"{source}: --input", name, f"one of {names}")
    named: dict[str, int] = {}
    for name, shape in inputs.items():
        _give(source, open_inputs[name], shape, named)
    if batch is not None:
        _give_batch(source, open_inputs, inputs, batch, named)
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in named and not dim.HasField("dim_value"):
                dim.dim_value = named[dim.dim_param]
    # A text that is no UTF-8 comes as bytes.
    return {str(name): _shape(source, one) for name, one in open_inputs.items()}


def _give(source: str, value: ValueInfoProto, shape: Shape, named: dict[str, int]) -> None:
    where = f"{source}: --input {value.name}"
    held = value.type.tensor_type
    if not held.HasField("shape"):
        for _ in shape:
            held.shape.dim.add()
    dims = held.shape.dim
    if len(dims) != len(shape):
        raise InputError(where, f"{len(shape)} sizes", f"{len(dims)}: {_shown(value)}")
    for dim, size in zip(dims, shape, strict=True):
        _set(where, value, dim, size, named)


def _give_batch(
    source: str,
    values: Mapping[str, ValueInfoProto],
    given: Mapping[str, Shape],
    batch: int,
    named: dict[str, int],
) -> None:
    others = [one for name, one in values.items() if name not in given and _first(one) is not None]
    for value in others:
        first = _first(value)
        assert first is not None
        if _is_open(first):
            _set(f"{source}: --batch", value, first, batch, named)
    firsts = {first.dim_value for one in others if (first := _first(one)) is not None}
    if others and batch not in firsts:
        fixed = ", ".join(f"{one.name} is {_shown(one)}" for one in others)
        raise InputError(
            f"{source}: --batch", batch, f"the first size that the file fixes: {fixed}"
        )


def _set(
    where: str, value: ValueInfoProto, dim: Dimension, size: int, named: dict[str, int]
) -> None:
    fixed = dim.dim_value if not _is_open(dim) else named.get(dim.dim_param, size)
    if fixed != size:
        raise InputError(where, size, f"{fixed}, as elsewhere: {value.name} is {_shown(value)}")
    if dim.dim_param:
        named[dim.dim_param] = size
    dim.dim_value = size


def _shape(source: str, value: ValueInfoProto) -> Shape:
    held = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        raise InputError(f"{source}: input {value.name}", "no tensor", "a tensor")
    dims = held.shape.dim
    if not held.HasField("shape") or any(_is_open(dim) for dim in dims):
        example = "x".join("1" if _is_open(dim) else str(dim.dim_value) for dim in dims)
        how = _HOW.format(name=value.name, example=example or "1x3x224x224")
        raise InputError(f"{source}: input {value.name}", _shown(value), how)
    return tuple(dim.dim_value for dim in dims)


def _first(value: ValueInfoProto) -> Dimension | None:
    dims = value.type.tensor_type.shape.dim
    return dims[0] if dims else None


def _is_open(dim: Dimension) -> bool:
    return not dim.HasField("dim_value") or dim.dim_value < 1  # exporters write -1 and 0 for open


def _shown(value: ValueInfoProto) -> str:
    dims = value.type.tensor_type.shape.dim
    if not dims:
        return "no shape" if not value.type.tensor_type.HasField("shape") else "a single number"
    return "x".join((dim.dim_param or "?") if _is_open(dim) else str(dim.dim_value) for dim in dims)
