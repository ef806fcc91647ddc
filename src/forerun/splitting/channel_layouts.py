"""Layouts by channels: gathered before each convolution, summed by turns, or in groups."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from forerun.errors import InputError
from forerun.splitting.graph import Graph, Operation, Shape
from forerun.splitting.layout import Layout, Placement
from forerun.splitting.placing import (
    Cut,
    Shares,
    Tail,
    by_channels,
    finished,
    followed,
    leading_to,
    placed_by_channels,
)
from forerun.splitting.regions import Indices, shared_out
from forerun.splitting.rules import WHOLE


def _channel_placements(
    graph: Graph, shares: Shares, cut: Callable[[Operation, Shape], Cut]
) -> Tail:
    """Every tensor by channels; products with weights by output."""
    tail = Tail(graph, shares)
    for op in graph.operations:
        if op.kind in WHOLE:
            for name in op.outputs:
                shape = graph.tensors[name]
                every = Placement.everywhere(shape, len(shares))
                tail.placements[name] = every if graph.readers[name] else tail.one(shape)
        elif (kept := followed(graph, op, tail.placements)) is not None:
            tail.placements[op.output] = kept
        else:
            shape = graph.tensors[op.output]
            tail.placements[op.output] = by_channels(cut(op, shape), shape)
    return tail


def outputs(graph: Graph, shares: Shares) -> Layout:
    """Some output channels of every convolution; all of them travel to all before the next."""
    tail = _channel_placements(graph, shares, lambda _, s: shared_out(s.channels, shares))
    return finished(graph, tail.placements, "outputs")


def inputs(graph: Graph, shares: Shares) -> Layout:
    """A convolution by outputs, the next one by inputs of what is already there, and so on."""
    tail = _channel_placements(graph, shares, lambda _, s: shared_out(s.channels, shares))
    fresh: set[str] = set()  # cut by channels, and complete, since the last convolution by outputs
    for op in graph.operations:
        ready = bool(op.inputs) and all(name in fresh for name in op.inputs)
        dense = op.kind == "Gemm" or (op.kind == "Conv" and op.attributes["group"] == 1)
        if not dense:
            if ready and op.kind not in WHOLE:
                fresh.update(op.outputs)
        elif (ready or op.kind == "Gemm") and placed_by_channels(tail, op):
            tail.placements[op.output] = _channel_sum(tail, op)
        else:
            fresh.add(op.output)
    return finished(graph, tail.placements, "inputs")


def _channel_sum(tail: Tail, op: Operation) -> Placement:
    """A sum over what each device has; whoever goes on has channels of it."""
    placed, shape = tail.placements[op.inputs[0]], tail.graph.tensors[op.output]
    if not tail.graph.readers[op.output] or shape.rows == 1:
        return tail.sum(op, placed.regions)
    return Placement(tail.placements[op.output].regions, placed.regions)


def groups(graph: Graph, shares: Shares) -> Layout:
    """Some groups of every group convolution; only what shuffles mix travels."""
    count = _count_groups(graph)
    if count < len(shares):
        raise InputError("layout groups", f"{len(shares)} devices", f"at most {count}, as groups")
    owned = shared_out(count, shares)
    before = leading_to(graph, _has_groups)

    def cut(op: Operation, shape: Shape) -> Cut:
        if shape.channels % count:
            if op.output not in before:
                return shared_out(shape.channels, shares)
            raise InputError(
                f"layout groups: {op.name} ({op.kind})",
                f"{shape.channels} channels",
                f"a multiple of {count}, the number of groups",
            )
        width = shape.channels // count
        return [
            Indices.span(part.start * width, part.stop * width) if part else part for part in owned
        ]

    tail = _channel_placements(graph, shares, cut)
    for op in graph.operations:
        if op.kind == "Gemm" and placed_by_channels(tail, op):
            tail.placements[op.output] = tail.sum(op, tail.placements[op.inputs[0]].regions)
    return finished(graph, tail.placements, "groups")


def _has_groups(op: Operation) -> bool:
    """Whether a convolution has groups; a channel each is no group."""
    if op.kind != "Conv" or op.attributes["group"] == 1:
        return False
    return bool(op.constants["weight"].shape[1] > 1)


def _count_groups(graph: Graph) -> int:
    """What divides the groups of all convolutions that have some."""
    found = gcd(*(op.attributes["group"] for op in graph.operations if _has_groups(op)))
    if found < 2:
        raise InputError(
            "layout groups",
            f"convolutions with {found or 'no'} common groups",
            "a decoupled network",
        )
    return found
