"""What each operator needs of its inputs for a part of its result, and what that part costs.

A rule also says whether results can be partial sums, to be added up by whoever needs them: of a
convolution or a product over some of the input's channels, of a mean over some of its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Literal

import numpy as np

from forerun.describing import operators
from forerun.splitting.graph import Graph, Operation, Shape
from forerun.splitting.regions import EMPTY, Indices, Region
from forerun.splitting.translation import NEEDS_ALL, PAIRWISE, POINTWISE
from forerun.splitting.windows import Window, windows

if TYPE_CHECKING:
    from onnx import NodeProto

MOVES = frozenset(  # they compute nothing
    ("Concat", "Flatten", "Identity", "Pad", "Select", "Unflatten")
)
WINDOWED = frozenset(("AveragePool", "Conv", "MaxPool"))
WHOLE = NEEDS_ALL | {"Unruled"}  # nothing less than all of it can be computed
_ALONE = Indices.span(0, 1)

Need = Callable[[Graph, Operation, Region], list[Region]]


def needs(
    graph: Graph, op: Operation, region: Region, portion: Region | None = None
) -> list[Region]:
    """What must be had of each input to compute a region of the result.

    `portion` is the part of the first input that a partial sum runs over.
    """
    if not region:
        return [EMPTY] * len(op.inputs)
    found = _NEEDS[op.kind](graph, op, region)
    return found if portion is None else [found[0] & portion, *found[1:]]


def widened(graph: Graph, tensor: str, region: Region) -> Region:
    """What is computed where a region is wanted: all, or rows without gaps, if need be."""
    op = graph.makers[tensor]
    if not region:
        return EMPTY
    if op.kind in WHOLE:
        return graph.tensors[tensor].whole
    if op.kind == "Pad" or (op.kind in WINDOWED and not _rows(graph, op).is_point):
        return Region(region.channels, region.rows.hull())
    return region


def uncut(graph: Graph, op: Operation, need: Region, held: Region) -> Region:
    """What may be given where a need is: after it, the rows that the last stride steps over.

    They change no result, and cutting them off would copy all the others.
    """
    if op.kind not in WINDOWED or not need.rows:
        return need
    rows = Indices.span(need.rows.start, held.rows.stop)
    over = rows.stop - need.rows.stop
    if not 0 < over < _rows(graph, op).stride or not rows <= held.rows:
        return need
    return Region(need.channels, rows)


def summed(op: Operation) -> Literal["channels", "rows"] | None:
    """The axis of the input over which results may be partial sums."""
    if op.kind == "Gemm" or (op.kind == "Conv" and op.attributes["group"] == 1):
        return "channels"
    return "rows" if op.kind == "GlobalAveragePool" else None


def macs(graph: Graph, op: Operation, region: Region, portion: Region | None = None) -> int:
    """Multiply-accumulates of a region of the result."""
    if not region:
        return 0
    if op.node is not None:
        return _unruled_macs(graph, op, op.node)
    weight = op.constants.get("weight")
    if weight is None or op.kind not in ("Conv", "Gemm"):
        return 0
    results = region.size * graph.tensors[op.output].columns
    terms = prod(weight.shape[1:])
    if portion is not None:
        terms = terms // weight.shape[1] * len(portion.channels)
    return results * terms


def _unruled_macs(graph: Graph, op: Operation, node: NodeProto) -> int:
    """Of an operation that no rule is known of, which is always computed whole."""
    from onnx import helper

    def dims(name: str) -> tuple[int, ...] | None:
        constant = op.constants.get(name)
        if constant is not None:
            return constant.shape
        return graph.tensors[name].dims if name in graph.tensors else None

    if node.domain:
        return 0
    attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    try:
        return operators.macs(
            node.op_type, [*map(dims, node.input)], [*map(dims, node.output)], attributes
        )
    except operators.UnknownShapeError:
        return 0


def weights(graph: Graph, op: Operation, region: Region, portion: Region | None = None) -> int:
    """The numbers that must be stored for a region of the result; biases with the first portion."""
    if not region:
        return 0
    if op.kind not in ("Conv", "Gemm"):
        return sum(_stored(graph, op, value.shape, region) for value in op.constants.values())
    weight = op.constants["weight"]
    inputs = weight.shape[1] if portion is None else len(portion.channels)
    found = len(region.channels) * inputs * prod(weight.shape[2:])
    return found + (len(region.channels) if "bias" in op.constants else 0)


def _stored(graph: Graph, op: Operation, dims: tuple[int, ...], region: Region) -> int:
    """The numbers of a constant that go with a region: all of them, or those of its channels."""
    if op.kind not in PAIRWISE and op.kind != "BatchNormalization":
        return 0 if op.kind in ("Select", *POINTWISE) else prod(dims)
    if op.kind == "BatchNormalization":
        return len(region.channels)
    full = graph.tensors[op.output]
    padded = (1,) * (len(full.dims) - len(dims)) + dims
    sizes = [len(region.channels), len(region.rows)]
    cut = [min(size, sizes[axis]) if axis < 2 else size for axis, size in enumerate(padded[1:])]
    return prod(cut)


def _rows(graph: Graph, op: Operation) -> Window:
    return windows(op, graph.tensors[op.inputs[0]], graph.tensors[op.output])[0]


def _same(_: Graph, op: Operation, region: Region) -> list[Region]:
    return [region] * len(op.inputs)


def _broadcast(graph: Graph, op: Operation, region: Region) -> list[Region]:
    """The same places, but for axes along which an input has only one."""
    out = graph.tensors[op.output]

    def of(shape: Shape) -> Region:
        channels = _ALONE if shape.channels < out.channels else region.channels
        return Region(channels, _ALONE if shape.rows < out.rows else region.rows)

    return [of(graph.tensors[name]) for name in op.inputs]


def _convolution(graph: Graph, op: Operation, region: Region) -> list[Region]:
    """The channels of all groups that are touched, and the rows that the kernel sees."""
    before, after = graph.tensors[op.inputs[0]], graph.tensors[op.output]
    groups = op.attributes["group"]
    touched = np.unique(region.channels.array // (after.channels // groups))
    inside = np.arange(before.channels // groups)
    channels = (touched[:, None] * len(inside) + inside).reshape(-1)
    return [Region(Indices.of(channels), _rows(graph, op).under(region.rows).places)]


def _pool(graph: Graph, op: Operation, region: Region) -> list[Region]:
    return [Region(region.channels, _rows(graph, op).under(region.rows).places)]


def _all_rows(graph: Graph, op: Operation, region: Region) -> list[Region]:
    return [Region(region.channels, graph.tensors[op.inputs[0]].whole.rows)]


def _everything(graph: Graph, op: Operation, _: Region) -> list[Region]:
    return [graph.tensors[name].whole for name in op.inputs]


def _concat(graph: Graph, op: Operation, region: Region) -> list[Region]:
    found, start = [], 0
    for name in op.inputs:
        channels = graph.tensors[name].channels
        inside = Indices((region.channels.mask >> start) & ((1 << channels) - 1))
        found.append(Region(inside, region.rows) if inside else EMPTY)
        start += channels
    return found


def pad_window(graph: Graph, op: Operation) -> Window:
    """Padding along the rows, as a window of one place."""
    size, results = graph.tensors[op.inputs[0]].rows, graph.tensors[op.output].rows
    return Window(1, 1, 1, op.attributes["pads"][0], op.attributes["pads"][2], size, results)


def _pad(graph: Graph, op: Operation, region: Region) -> list[Region]:
    return [Region(region.channels, pad_window(graph, op).under(region.rows).places)]


def _select(_: Graph, op: Operation, region: Region) -> list[Region]:
    return [Region(Indices.of(op.constants["places"][region.channels.array]), region.rows)]


def flattened(shape: Shape, region: Region) -> Region:
    """A region of a map as places of the vector that it is laid out as."""
    rows = shape.rows
    lines = (region.channels.array[:, None] * rows + region.rows.array).reshape(-1)
    places = (lines[:, None] * shape.columns + np.arange(shape.columns)).reshape(-1)
    return Region(Indices.of(places), _ALONE) if region else EMPTY


def _flatten(graph: Graph, op: Operation, region: Region) -> list[Region]:
    """The channels and rows that the vector's places come from."""
    shape = graph.tensors[op.inputs[0]]
    lines = region.channels.array // shape.columns
    return [Region(Indices.of(lines // shape.rows), Indices.of(lines % shape.rows))]


_NEEDS: dict[str, Need] = {
    **dict.fromkeys((*POINTWISE, "BatchNormalization", "Unflatten"), _same),
    **dict.fromkeys(PAIRWISE, _broadcast),
    **dict.fromkeys((*WHOLE, "Gemm"), _everything),
    **dict.fromkeys(("AveragePool", "MaxPool"), _pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), _all_rows),
    "Concat": _concat,
    "Conv": _convolution,
    "Flatten": _flatten,
    "Pad": _pad,
    "Select": _select,
}
