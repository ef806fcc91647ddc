"""One operation on one device, as ONNX nodes with nothing but that device's weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from forerun.splitting.graph import Constant, Graph, Operation, Shape
from forerun.splitting.regions import Indices, Places, Region
from forerun.splitting.rules import flattened, needs, pad_window
from forerun.splitting.translation import NEEDS_ALL, PAIRWISE, POINTWISE
from forerun.splitting.windows import Reach, windows

if TYPE_CHECKING:
    from onnx import NodeProto

_FLOAT = 1  # ONNX's number of float32


@dataclass(frozen=True)
class Task:
    """What one device computes of one operation."""

    op: Operation
    region: Region  # of the result
    portion: Region | None = None  # of the first input, where the result is a partial sum
    leads: bool = True  # whether it adds the bias: one device does


@dataclass
class Builder:
    """Collects nodes and weights of one ONNX graph; the same calls give the same names."""

    graph: Graph
    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, Constant] = field(default_factory=dict)

    def node(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add a node, and name its result."""
        from onnx import helper

        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, name: str, value: Constant) -> str:
        """Store a constant, once where it is the same."""
        value = np.ascontiguousarray(value).reshape(value.shape)  # which keeps a plain number one
        number, chosen = 0, name
        while chosen in self.constants and not _same(self.constants[chosen], value):
            number += 1
            chosen = f"{name}.{number}"
        self.constants[chosen] = value
        return chosen

    def whole_numbers(self, values: Sequence[int] | Places) -> str:
        """Store sizes or places."""
        found = np.asarray(values, np.int64)
        text = "_".join(map(str, found[:8]))
        return self.constant(f"n{text}", found)

    def narrowed(self, name: str, have: Region, want: Region) -> str:
        """What a larger part holds of a smaller one."""
        cuts: list[tuple[int, range]] = []
        for axis, (held, wanted) in enumerate(
            ((have.channels, want.channels), (have.rows, want.rows)), 1
        ):
            if held == wanted:
                continue
            places = held.ranks(wanted)
            step = _even_step(places)
            if step is None:
                name = self.node("Gather", [name, self.whole_numbers(places)], axis=axis)
            else:
                cuts.append((axis, range(int(places[0]), int(places[-1]) + 1, step)))
        return self.sliced(name, cuts) if cuts else name

    def sliced(self, name: str, cuts: Sequence[tuple[int, range]]) -> str:
        """Slices along some axes."""
        parts = [
            [cut.start for _, cut in cuts],
            [cut.stop for _, cut in cuts],
            [axis for axis, _ in cuts],
            [cut.step for _, cut in cuts],
        ]
        return self.node("Slice", [name, *map(self.whole_numbers, parts)])

    def outside(self, name: str, shape: Shape, kind: int = _FLOAT) -> str:
        """A tensor as it leaves a segment: float32, and a vector if it cannot be cut."""
        if kind != _FLOAT:
            name = self.node("Cast", [name], to=_FLOAT)
        if not shape.is_usual:
            name = self.node("Reshape", [name, self.whole_numbers([1, shape.channels])])
        return name

    def inside(self, name: str, shape: Shape, kind: int = _FLOAT) -> str:
        """A tensor that came from outside, as its operations know it."""
        if not shape.is_usual:
            name = self.node("Reshape", [name, self.whole_numbers(shape.dims)])
        return self.node("Cast", [name], to=kind) if kind != _FLOAT else name

    def task(self, task: Task, inputs: Sequence[str]) -> list[str]:
        """Add a task whose inputs are what it needs, see `uncut`; the names of its results."""
        if task.op.kind == "Unruled":
            return _unruled(self, task, inputs)
        return [_EMITTERS[task.op.kind](self, task, inputs)]


def _same(one: Constant, other: Constant) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return one.tobytes() == other.tobytes()


def _even_step(places: Places) -> int | None:
    """The distance between places, where it is the same everywhere."""
    if len(places) < 2:
        return 1
    steps = np.diff(places)
    return int(steps[0]) if steps[0] > 0 and (steps == steps[0]).all() else None


def _pick(builder: Builder, name: str, places: Places, held: int) -> str:
    """Channels in a given order."""
    if len(places) == held and (places == np.arange(held)).all():
        return name
    step = _even_step(places)
    if step is None:
        return builder.node("Gather", [name, builder.whole_numbers(places)], axis=1)
    return builder.sliced(name, [(1, range(int(places[0]), int(places[-1]) + 1, step))])


def _weight(builder: Builder, op: Operation, role: str, value: Constant) -> str:
    return builder.constant(f"{op.name}.{role}", value)


def _reaches(builder: Builder, task: Task) -> tuple[Reach, Reach]:
    tensors = builder.graph.tensors
    rows, columns = windows(task.op, tensors[task.op.inputs[0]], tensors[task.op.output])
    return rows.under(task.region.rows), columns.under(Indices.span(0, columns.results))


def _kept(builder: Builder, name: str, rows: Reach, wanted: int) -> str:
    """Without results that were computed only because others see nothing but padding."""
    if rows.results == wanted:
        return name
    return builder.sliced(name, [(2, range(rows.skipped, rows.skipped + wanted))])


def _convolution(builder: Builder, task: Task, inputs: Sequence[str]) -> str:
    """One convolution for each stretch of groups of which equally many outputs are wanted."""
    op = task.op
    weight, groups = op.constants["weight"], op.attributes["group"]
    width = weight.shape[1]  # inputs of a group
    outputs = task.region.channels.array
    group_of = outputs // (weight.shape[0] // groups)
    touched, counts = np.unique(group_of, return_counts=True)
    rows, columns = _reaches(builder, task)
    parts, first = [], 0
    for count, members in groupby(range(len(touched)), key=lambda place: counts[place]):
        places = list(members)
        wanted = outputs[first : first + count * len(places)]
        x = inputs[0]
        if len(places) < len(touched):
            x = builder.sliced(x, [(1, range(places[0] * width, (places[-1] + 1) * width))])
        first += len(wanted)
        names = [x, *_filters(builder, task, wanted)]
        parts.append(
            builder.node(
                "Conv",
                names,
                dilations=op.attributes["dilations"],
                group=len(places),
                kernel_shape=op.attributes["kernel"],
                pads=[rows.before, columns.before, rows.after, columns.after],
                strides=op.attributes["strides"],
            )
        )
    made = parts[0] if len(parts) == 1 else builder.node("Concat", parts, axis=1)
    return _kept(builder, made, rows, len(task.region.rows))


def _filters(builder: Builder, task: Task, outputs: Places) -> list[str]:
    """Weights and bias of some outputs, and of the inputs that are summed over."""
    weight = task.op.constants["weight"][outputs]
    if task.portion is not None:
        weight = weight[:, task.portion.channels.array]
    names = [_weight(builder, task.op, "weight", weight)]
    if "bias" in task.op.constants and task.leads:
        names.append(_weight(builder, task.op, "bias", task.op.constants["bias"][outputs]))
    return names


def _gemm(builder: Builder, task: Task, inputs: Sequence[str]) -> str:
    names = [*inputs, *_filters(builder, task, task.region.channels.array)]
    return builder.node("Gemm", names, transB=1)


def _padded(builder: Builder, name: str, pads: Sequence[int], value: float) -> str:
    """Rows before, columns before, rows after, columns after."""
    top, left, bottom, right = pads
    if not any(pads):
        return name
    sizes = builder.whole_numbers([0, 0, top, left, 0, 0, bottom, right])
    fill = builder.constant(f"fill{value:g}", np.array(value, np.float32))
    return builder.node("Pad", [name, sizes, fill], mode="constant")


def _maximum(builder: Builder, task: Task, inputs: Sequence[str]) -> str:
    rows, columns = _reaches(builder, task)
    pads = [rows.before, columns.before, rows.after, columns.after]
    x, kernel = inputs[0], task.op.attributes["kernel"]
    if any(pad >= size for pad, size in zip(pads, [*kernel, *kernel], strict=True)):
        x, pads = _padded(builder, x, pads, -np.inf), [0] * 4  # a pool takes no padding so wide
    made = _pooled(builder, task, x, pads, dilations=task.op.attributes["dilations"])
    return _kept(builder, made, rows, len(task.region.rows))


def _average(builder: Builder, task: Task, inputs: Sequence[str]) -> str:
    """Padding counts where the layer says so; what ceil_mode adds to it never does."""
    tensors, op = builder.graph.tensors, task.op
    rows, columns = _reaches(builder, task)
    pads = [rows.before, columns.before, rows.after, columns.after]
    counted = op.attributes["count_include_pad"]
    most = [window.after for window in windows(op, tensors[op.inputs[0]], tensors[op.output])]
    x = inputs[0]
    if counted and (rows.after > most[0] or columns.after > most[1]):
        inner = [*pads[:2], min(rows.after, most[0]), min(columns.after, most[1])]
        x = _padded(builder, x, inner, 0.0)
        pads, counted = [all_ - part for all_, part in zip(pads, inner, strict=True)], 0
    made = _pooled(builder, task, x, pads, count_include_pad=counted)
    return _kept(builder, made, rows, len(task.region.rows))


def _pooled(builder: Builder, task: Task, x: str, pads: Sequence[int], **attributes: Any) -> str:
    kernel, strides = task.op.attributes["kernel"], task.op.attributes["strides"]
    return builder.node(
        task.op.kind, [x], kernel_shape=kernel, pads=pads, strides=strides, **attributes
    )


def _global_average(builder: Builder, task: Task, inputs: Sequence[str]) -> str:
    """The mean, or over some rows their part of it."""
    mean = builder.node("GlobalAveragePool", inputs)
    rows = builder.graph.tensors[task.op.inputs[0]].rows
    if task.portion is None or len(task.portion.rows) == rows:
        return mean
    part = np.array(len(task.portion.rows) / rows, np.float32)
    return builder.node("Mul", [mean, _weight(builder, task.op, "part", part)])


def _simple(builder: Builder, task: Task, inputs: Sequence[str]) -> str:
    """The node as it was, with its constants at their places."""
    names = list(inputs)
    for place, value in sorted(task.op.constants.items()):
        names += [""] * (int(place) - len(names))
        names.append(_weight(builder, task.op, f"input{place}", value))
    return builder.node(task.op.kind, names, **task.op.attributes)


def _pairwise(builder: Builder, task: Task, inputs: Sequence[str]) -> str:
    """Constants are cut as the tensor is."""
    op, rank = task.op, len(builder.graph.tensors[task.op.output].dims)
    names = list(inputs)
    for place, value in sorted(op.constants.items()):
        cut = value.reshape((1,) * (rank - value.ndim) + value.shape) if value.ndim else value
        if cut.ndim and cut.shape[1] > 1:
            cut = cut[:, task.region.channels.array]
        if cut.ndim > 2 and cut.shape[2] > 1:
            cut = cut[:, :, task.region.rows.array]
        names.insert(int(place), _weight(builder, op, f"input{place}", cut))
    return builder.node(op.kind, names, **op.attributes)


def _normalisation(builder: Builder, task: Task, inputs: Sequence[str]) -> str:
    rank = len(builder.graph.tensors[task.op.output].dims)
    name = inputs[0]
    for kind, role in (("Mul", "scale"), ("Add", "shift")):
        value = task.op.constants[role][task.region.channels.array].astype(np.float32)
        stored = _weight(builder, task.op, role, value.reshape(1, -1, *[1] * (rank - 2)))
        name = builder.node(kind, [name, stored])
    return name


def _concat(builder: Builder, _: Task, inputs: Sequence[str]) -> str:
    """Inputs of which nothing is wanted have no name."""
    names = [name for name in inputs if name]
    return names[0] if len(names) == 1 else builder.node("Concat", names, axis=1)


def _pad(builder: Builder, task: Task, inputs: Sequence[str]) -> str:
    op = task.op
    rows = pad_window(builder.graph, op).under(task.region.rows)
    _, left, _, right = op.attributes["pads"]
    pads = [rows.before, left, rows.after, right]
    made = _padded(builder, inputs[0], pads, op.attributes["value"])
    return _kept(builder, made, rows, len(task.region.rows))


def _select(builder: Builder, task: Task, inputs: Sequence[str]) -> str:
    had = needs(builder.graph, task.op, task.region)[0].channels
    places = np.searchsorted(had.array, task.op.constants["places"][task.region.channels.array])
    return _pick(builder, inputs[0], places, len(had))


def _flatten(builder: Builder, task: Task, inputs: Sequence[str]) -> str:
    """A part of a map, laid out, is what is wanted of the vector, or holds it."""
    had = needs(builder.graph, task.op, task.region)[0]
    laid_out = flattened(builder.graph.tensors[task.op.inputs[0]], had).channels
    name = builder.node("Reshape", [inputs[0], builder.whole_numbers([1, len(laid_out)])])
    return _pick(builder, name, laid_out.ranks(task.region.channels), len(laid_out))


def _unflatten(builder: Builder, task: Task, inputs: Sequence[str]) -> str:
    sizes = builder.whole_numbers([1, len(task.region.channels), 1, 1])
    return builder.node("Reshape", [inputs[0], sizes])


def _unruled(builder: Builder, task: Task, inputs: Sequence[str]) -> list[str]:
    """The node of the file, with its inputs and outputs under new names."""
    op = task.op
    if op.node is None:
        raise TypeError(f"{op.name} has no node")
    names = dict(zip(op.inputs, inputs, strict=True))
    for name, value in op.constants.items():
        names[name] = _weight(builder, op, f"constant.{name}", value)
    node = type(op.node)()
    node.CopyFrom(op.node)
    node.input[:] = [names[name] if name else "" for name in op.node.input]
    made = {name: f"t{len(builder.nodes)}_{i}" for i, name in enumerate(op.outputs)}
    node.output[:] = [made.get(name, "") for name in op.node.output]
    builder.nodes.append(node)
    return list(made.values())


_EMITTERS: dict[str, Callable[[Builder, Task, Sequence[str]], str]] = {
    **dict.fromkeys((*POINTWISE, *NEEDS_ALL), _simple),
    **dict.fromkeys(PAIRWISE, _pairwise),
    "AveragePool": _average,
    "BatchNormalization": _normalisation,
    "Concat": _concat,
    "Conv": _convolution,
    "Flatten": _flatten,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_average,
    "GlobalMaxPool": lambda builder, _, inputs: builder.node("GlobalMaxPool", inputs),
    "MaxPool": _maximum,
    "Pad": _pad,
    "Select": _select,
    "Unflatten": _unflatten,
}
