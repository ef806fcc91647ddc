"""The layers of a segment, as the runtime will see them: what is fused counts once.

An activation after a convolution, and the sum that ends a residual block, are computed with the
convolution; whatever goes into a segment or out of it is brought into the runtime's own order and
back. That is how layers were timed, see `timing`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import Protocol

from forerun.splitting.graph import Graph
from forerun.splitting.layers import Kind, Layer, Precision
from forerun.splitting.rules import macs, weights
from forerun.splitting.steps import Step, Value

FLOAT = 4  # bytes
_ACTIVATIONS = frozenset(["Clip", "HardSigmoid", "LeakyRelu", "Relu", "Sigmoid", "Tanh"])
_FREE = frozenset(("Flatten", "Identity", "Unflatten"))  # the same numbers in the same order
_POOLS = frozenset(("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"))
_MOVED = frozenset(("Concat", "Pad", "Select"))
_FEWEST = 4  # channels of a tensor that the runtime keeps in an order of its own


class Segment(Protocol):
    """What this module must know of one."""

    steps: list[Step]
    inputs: list[Value]
    outputs: list[Value]


def layers_of(graph: Graph, segment: Segment, precision: Precision = "float32") -> list[Layer]:
    """All layers of a segment, with what is done at its edges."""
    size = 1 if precision == "int8" else FLOAT
    hosts = _fused(segment)
    extra: Counter[Step] = Counter()  # numbers that a convolution reads for the sum after it
    found: list[Layer] = []
    for step in segment.steps:
        if step in hosts:
            _, *others = (_numbers(graph, value) for value in step.inputs if value is not None)
            extra[hosts[step]] += sum(others)
    for step in segment.steps:
        cut = _cut(graph, step, size, precision)
        found += cut
        if step not in hosts and (layer := _layer(graph, step, size, precision, extra[step])):
            found.append(layer)
    return found + _edges(graph, segment, precision)


def _fused(segment: Segment) -> dict[Step, Step]:
    """The convolution that each activation or sum is computed with."""
    readers = Counter(id(value) for step in segment.steps for value in step.inputs)
    outside = {id(value) for value in segment.outputs}
    inside = set(segment.steps)
    hosts: dict[Step, Step] = {}
    summed: set[Step] = set()
    active: set[Step] = set()
    for step in segment.steps:
        kind = step.task.op.kind
        for value in step.inputs:
            if value is None or value.step not in inside or value.step is None:
                continue
            host = hosts.get(value.step, value.step)
            alone = readers[id(value)] == 1 and id(value) not in outside
            if host.task.op.kind != "Conv" or host in active or not alone:
                continue
            if kind in _ACTIVATIONS:
                hosts[step] = host
                active.add(host)
                break
            if kind == "Add" and len(step.inputs) == 2 and host not in summed:
                hosts[step] = host
                summed.add(host)
                break
    return hosts


def _layer(graph: Graph, step: Step, size: int, precision: Precision, extra: int) -> Layer | None:
    task, op = step.task, step.task.op
    if op.kind in _FREE:
        return None
    output = graph.tensors[op.output]
    made = task.region.size * output.columns
    read = sum(
        need.size * graph.tensors[name].columns
        for name, need in zip(op.inputs, step.needs, strict=True)
    )
    if op.kind in ("Conv", "Gemm"):
        weight = op.constants["weight"]
        each = weight.shape[1] if task.portion is None else len(task.portion.channels)
        groups = 1
        if op.kind == "Conv":
            groups = max(1, round(len(step.needs[0].channels) / max(each, 1)))
        kind: Kind = "gemm" if op.kind == "Gemm" else "conv"
        if op.kind == "Conv" and each == 1 and groups > 1:
            kind = "depthwise"
        return Layer(
            kind,
            macs=macs(graph, op, task.region, task.portion),
            weights_bytes=size * weights(graph, op, task.region, task.portion),
            in_bytes=size * (read + extra),
            out_bytes=size * made,
            kernel=weight.shape[2] if weight.ndim == 4 else 1,
            channels=each,
            outputs=max(1, len(task.region.channels) // groups),
            groups=groups,
            precision=precision,
        )
    if op.kind in _POOLS:
        kernel = op.attributes.get("kernel")
        looked = read if kernel is None else made * prod(kernel)
        side = 1 if kernel is None else kernel[0]
        return Layer("pool", looked, 0, size * read, size * made, kernel=side, precision=precision)
    kind = "copy" if op.kind in _MOVED else "elementwise"
    return Layer(kind, made, 0, size * read, size * made, precision=precision)


def _cut(graph: Graph, step: Step, size: int, precision: Precision) -> list[Layer]:
    """What is cut out of a larger value before a step can use it."""
    found = []
    for value, need in zip(step.inputs, step.needs, strict=True):
        if value is None or value.region == need or not need:
            continue
        numbers = need.size * graph.tensors[value.tensor].columns
        both = size * numbers
        found.append(Layer("copy", numbers, 0, both, both, precision=precision))
    return found


def _edges(graph: Graph, segment: Segment, precision: Precision) -> list[Layer]:
    """What the runtime does to tensors that come in and go out."""
    maps = _maps(segment.steps)
    found = []
    for value in (*segment.inputs, *segment.outputs):
        channels = len(value.region.channels)
        if id(value) in maps and channels >= _FEWEST:
            numbers = _numbers(graph, value)
            found.append(
                Layer(
                    "reorder",
                    macs=numbers,
                    weights_bytes=0,
                    in_bytes=FLOAT * numbers,
                    out_bytes=FLOAT * numbers,
                    channels=channels,
                    precision=precision,
                )
            )
    return found


def _maps(steps: Sequence[Step]) -> set[int]:
    """Values that convolutions or pools read or make, with what is fused into these."""
    found: set[int] = set()
    for step in steps:
        if step.task.op.kind in ("Conv", *_POOLS, *_ACTIVATIONS, "Add"):
            found.update(id(value) for value in (*step.inputs, *step.outputs) if value is not None)
    return found


def _numbers(graph: Graph, value: Value) -> int:
    return value.region.size * graph.tensors[value.tensor].columns
