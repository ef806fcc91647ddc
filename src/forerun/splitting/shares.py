"""What a device has to compute and store under a layout, and what its package really has.

The first is counted by each operator's formula from the layout's regions, the second from the ONNX
files that were written: so that a cut that does more than its layout says is found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from forerun.describing import describe
from forerun.splitting.cut import Split
from forerun.splitting.graph import Graph, Operation
from forerun.splitting.layout import Flow, Layout, settle
from forerun.splitting.regions import Region
from forerun.splitting.rules import macs, weights

Formula = Callable[[Graph, Operation, Region, Region | None], int]


@dataclass(frozen=True, slots=True)
class Load:
    """Multiply-accumulates and weights of a device, and its layout's share of them."""

    device: int
    macs: int
    macs_share: int
    weights: int
    weights_share: int

    @property
    def excess(self) -> float:
        """How many times its share it computes or stores, whichever is more."""
        return max(_ratio(self.macs, self.macs_share), _ratio(self.weights, self.weights_share))


def _ratio(found: int, share: int) -> float:
    if found <= share:
        return 1.0 if not share else found / share
    return found / share if share else float("inf")


def loads(graph: Graph, layout: Layout, split: Split) -> list[Load]:
    """What each device of a split has to do, and does."""
    flow = settle(graph, layout)
    found = []
    for device in range(split.devices):
        folder = split.package(device)
        files = [folder / one["file"] for one in split.description(device)["segments"]]
        described = [describe(str(file)) for file in files]
        found.append(
            Load(
                device=device,
                macs=sum(one.macs for one in described),
                macs_share=_share(graph, layout, flow, device, macs),
                weights=sum(one.parameters for one in described),
                weights_share=_share(graph, layout, flow, device, weights),
            )
        )
    return found


def _share(graph: Graph, layout: Layout, flow: Flow, device: int, formula: Formula) -> int:
    """Of what the layout places, the device's own part; of the rest, what it needs."""
    total = 0
    for op in graph.operations:
        placement, region = layout.placements.get(op.output), flow.computed[op.output][device]
        portion = flow.portion(op, device)
        if placement is not None and portion is None and op.output not in flow.placements:
            region = placement.regions[device]
        total += formula(graph, op, region, portion)
    return total
