"""The layouts that have a name.

| name | each device has | exchanged |
|---|---|---|
| whole | everything | nothing |
| alone | everything, if it is the fastest; else nothing | nothing |
| rows | some rows of every map | rows at the edges, before each operator that sees them |
| fused | some rows, computed with overlap | rows at the edges, at stated tensors only |
| outputs | some channels of every map | all channels, before each convolution |
| inputs | some channels; every second convolution is a sum | channels, then sums, by turns |
| groups | some groups of every group convolution | what shuffles mix |
| pipeline | some consecutive operators | what passes from one to the next |

Vectors that end a network are cut by channels, and products with weights by their input, so that
each device stores its share of the weights. Where a map has fewer rows than there are devices, some
have none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from forerun.errors import InputError
from forerun.splitting.channel_layouts import groups, inputs, outputs
from forerun.splitting.graph import Graph
from forerun.splitting.layout import Layout, Placement
from forerun.splitting.placing import Shares, Tail, finished
from forerun.splitting.regions import checked_shares
from forerun.splitting.row_layouts import fused_by_default, rows
from forerun.splitting.rules import macs


def named(graph: Graph, name: str, shares: Sequence[float]) -> Layout:
    """A layout by its name, for devices of these relative speeds."""
    found = checked_shares(shares)
    if name not in LAYOUTS:
        raise InputError("layout", name, f"one of {', '.join(LAYOUTS)}")
    made = LAYOUTS[name](graph, found)
    return replace(made, about={**made.about, "shares": list(found)})


def _whole(graph: Graph, shares: Shares) -> Layout:
    shapes = graph.tensors
    every = {name: Placement.everywhere(shapes[name], len(shares)) for name in graph.makers}
    return Layout(every, frozenset(), "whole")


def _alone(graph: Graph, shares: Shares) -> Layout:
    tail = Tail(graph, shares)
    only = {name: tail.one(graph.tensors[name]) for name in graph.makers}
    return Layout(only, frozenset(), "alone")


def _pipeline(graph: Graph, shares: Shares) -> Layout:
    """Consecutive operators, so that the slowest device takes the least time."""
    costs = [macs(graph, op, graph.tensors[op.output].whole) for op in graph.operations]
    placements: dict[str, Placement] = {}
    for op, device in zip(graph.operations, _stages(costs, shares), strict=True):
        for name in op.outputs:
            placements[name] = Placement.only(graph.tensors[name], device, len(shares))
    return finished(graph, placements, "pipeline")


def _stages(costs: Sequence[int], shares: Shares) -> list[int]:
    """The device of each operator; the least of the largest cost over share, by bisection.

    A stage takes what fits under the limit, so that operators that cost nothing stay with those
    before them.
    """
    low, high = 0.0, sum(costs) / min(shares)

    def assigned(limit: float) -> list[int] | None:
        device, load, found = 0, 0, []
        for cost in costs:
            while (load + cost) / shares[device] > limit:
                device, load = device + 1, 0
                if device == len(shares):
                    return None
            load += cost
            found.append(device)
        return found

    for _ in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if assigned(middle) is None else (low, middle)
    return assigned(high) or [0] * len(costs)


LAYOUTS: dict[str, Callable[[Graph, Shares], Layout]] = {
    "whole": _whole,
    "alone": _alone,
    "rows": rows,
    "fused": fused_by_default,
    "outputs": outputs,
    "inputs": inputs,
    "groups": groups,
    "pipeline": _pipeline,
}
