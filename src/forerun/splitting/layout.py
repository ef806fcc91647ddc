"""Which device computes what of each tensor, and what it must get from others for that.

A tensor is *exchanged* (its parts are given by the layout, and whoever needs more receives it) or
*local* (each device computes what it needs itself, twice if need be). That alone tells them all
apart: rows with halos, gathered channels, shuffled groups, a pipeline, and any mixture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from forerun.errors import InputError
from forerun.splitting.graph import Graph, Operation, Shape
from forerun.splitting.regions import EMPTY, Region, hull
from forerun.splitting.rules import MOVES, macs, needs, summed, weights, widened


@dataclass(frozen=True, slots=True)
class Placement:
    """The part of a tensor that each device has.

    With `portions`, the tensor is a sum: device i adds up what portion i of the operation's first
    input gives, and each receives the parts of its region from all. Where no device has a region
    of a sum, which is then a result of the network, the host adds it up.
    """

    regions: tuple[Region, ...]
    portions: tuple[Region, ...] | None = None

    @classmethod
    def everywhere(cls, shape: Shape, devices: int) -> Placement:
        """All of it on every device."""
        return cls((shape.whole,) * devices)

    @classmethod
    def only(cls, shape: Shape, device: int, devices: int) -> Placement:
        """All of it on one device."""
        return cls(tuple(shape.whole if i == device else EMPTY for i in range(devices)))

    @property
    def is_sum(self) -> bool:
        """Whether several devices have a part of each number."""
        return self.portions is not None and sum(map(bool, self.portions)) > 1


@dataclass(frozen=True)
class Layout:
    """A placement for tensors that are exchanged, and for others where it is known.

    The results of the network always have one.
    """

    placements: Mapping[str, Placement]
    exchanged: frozenset[str]
    name: str = "mixed"
    about: Mapping[str, Any] = field(default_factory=dict)  # what it was made from, for people

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return len(next(iter(self.placements.values())).regions)

    @classmethod
    def fused(cls, graph: Graph, shares: Sequence[float], boundaries: Sequence[str]) -> Layout:
        """Rows that are exchanged at these tensors only, and computed with overlap between them."""
        from forerun.splitting.row_layouts import fused

        return fused(graph, shares, boundaries)


@dataclass(frozen=True)
class Flow:
    """What follows from a layout: what each device computes of each tensor, and needs of it."""

    computed: Mapping[str, tuple[Region, ...]]
    needed: Mapping[str, tuple[Region, ...]]
    placements: Mapping[str, Placement]  # of what is exchanged
    devices: int

    def portion(self, op: Operation, device: int) -> Region | None:
        """The part of the first input that a device's partial sum runs over."""
        placement = self.placements.get(op.output)
        if placement is None or placement.portions is None or not placement.is_sum:
            return None
        return placement.portions[device]

    def leads(self, op: Operation, device: int) -> bool:
        """Whether a device adds the bias."""
        computing = self.computed[op.output]
        return self.portion(op, device) is None or not any(computing[:device])

    def macs(self, graph: Graph, device: int) -> int:
        """Multiply-accumulates of a device, by the formulas of its operations."""
        return sum(
            macs(graph, op, self.computed[op.output][device], self.portion(op, device))
            for op in graph.operations
        )

    def weights(self, graph: Graph, device: int) -> int:
        """Numbers that a device stores, by the formulas of its operations."""
        return sum(
            weights(graph, op, self.computed[op.output][device], self.portion(op, device))
            for op in graph.operations
        )


def layout(graph: Graph, name: str, shares: Sequence[float]) -> Layout:
    """A layout by its name (see `layouts`), for devices of these relative speeds."""
    from forerun.splitting.layouts import named

    return named(graph, name, shares)


# What a tensor that is needed so is: exchanged with this placement, or local where there is none.
Decision = Callable[[Operation, str, tuple[Region, ...]], Placement | None]


def settle(graph: Graph, layout: Layout) -> Flow:
    """What follows from a layout; InputError where it leaves out what somebody needs."""
    _check(graph, layout)

    def decide(_: Operation, tensor: str, __: tuple[Region, ...]) -> Placement | None:
        fixed = tensor in layout.exchanged or tensor in graph.outputs
        return layout.placements[tensor] if fixed else None

    flow = settled(graph, layout.devices, decide)
    for tensor, placement in flow.placements.items():
        missing = _missing(hull(flow.needed[tensor]), placement.regions)
        if missing:
            raise InputError(
                f"layout {layout.name}: {tensor}", f"nobody who has {missing[0]}", "all of it"
            )
    return flow


def _missing(wanted: Region, regions: Sequence[Region]) -> list[Region]:
    left = [wanted] if wanted else []
    for region in regions:
        left = list(chain.from_iterable(part.minus(region) for part in left))
    return left


def settled(graph: Graph, devices: int, decide: Decision) -> Flow:
    """Walk from the results to the inputs: what is computed tells what is needed."""
    nothing = (EMPTY,) * devices
    needed: dict[str, tuple[Region, ...]] = dict.fromkeys(graph.tensors, nothing)
    computed: dict[str, tuple[Region, ...]] = {}
    placements: dict[str, Placement] = {}
    flow = Flow(computed, needed, placements, devices)
    for op in reversed(graph.operations):
        for tensor in op.outputs:
            placement = decide(op, tensor, needed[tensor])
            if placement is not None:
                placements[tensor] = _plain(graph, tensor, placement)
            computed[tensor] = _computed(graph, tensor, needed[tensor], placements.get(tensor))
        _together(graph, op, computed)
        for device, region in enumerate(computed[op.output]):
            portion = flow.portion(op, device)
            for name, need in zip(op.inputs, needs(graph, op, region, portion), strict=True):
                before = needed[name]
                needed[name] = (*before[:device], before[device] | need, *before[device + 1 :])
    return flow


def _plain(graph: Graph, tensor: str, placement: Placement) -> Placement:
    """A sum that one device alone has the parts of is no sum: that device has all of it."""
    if placement.portions is None or placement.is_sum:
        return placement
    alone = next((i for i, part in enumerate(placement.portions) if part), 0)
    return Placement.only(graph.tensors[tensor], alone, len(placement.regions))


def _computed(
    graph: Graph, tensor: str, needed: tuple[Region, ...], placement: Placement | None
) -> tuple[Region, ...]:
    if placement is not None and placement.portions is not None:
        wanted = hull(placement.regions) or graph.tensors[tensor].whole
        return tuple(wanted if portion else EMPTY for portion in placement.portions)
    regions = needed if placement is None else placement.regions
    return tuple(widened(graph, tensor, region) for region in regions)


def _together(graph: Graph, op: Operation, computed: dict[str, tuple[Region, ...]]) -> None:
    """An operation with several results has no rule: it makes all of each of them, or nothing."""
    if len(op.outputs) == 1:
        return
    active = [any(parts) for parts in zip(*(computed[name] for name in op.outputs), strict=True)]
    for name in op.outputs:
        whole = graph.tensors[name].whole
        computed[name] = tuple(whole if some else EMPTY for some in active)


def exchanged(graph: Graph, placements: Mapping[str, Placement]) -> frozenset[str]:
    """The tensors that must be exchanged: what is needed of them is more than what is placed.

    What only moves numbers about is done by whoever needs it, so that they travel once.
    """
    found: set[str] = set()
    devices = len(next(iter(placements.values())).regions)

    def decide(op: Operation, tensor: str, need: tuple[Region, ...]) -> Placement | None:
        placement = placements.get(tensor)
        if placement is None:
            return None
        pairs = zip(need, placement.regions, strict=True)
        apart = op.kind not in MOVES and not all(part <= own for part, own in pairs)
        if placement.is_sum or apart:
            found.add(tensor)
            return placement
        return placement if tensor in graph.outputs else None

    settled(graph, devices, decide)
    return frozenset(found)


def _check(graph: Graph, layout: Layout) -> None:
    for name in (*sorted(layout.exchanged), *graph.outputs):
        if name not in graph.tensors:
            raise InputError(f"layout {layout.name}", name, "a tensor of the network")
        if name not in layout.placements:
            raise InputError(f"layout {layout.name}: {name}", "no placement", "one")
    for name, placement in layout.placements.items():
        counts = {len(placement.regions), len(placement.portions or placement.regions)}
        if counts != {layout.devices}:
            raise InputError(
                f"layout {layout.name}: {name}",
                f"parts of {counts}",
                f"of {layout.devices} devices",
            )
        if placement.is_sum:
            _check_sum(graph, layout, name, placement)


def _check_sum(graph: Graph, layout: Layout, name: str, placement: Placement) -> None:
    """Parts of a sum must not overlap, and cover all that is summed over."""
    op = graph.makers[name]
    axis = summed(op)
    where = f"layout {layout.name}: {op.name} ({op.kind})"
    if axis is None:
        raise InputError(where, "a partial sum", "an operator that sums over its input")
    parts = [getattr(portion, axis) for portion in placement.portions or () if portion]
    all_of_it = getattr(graph.tensors[op.inputs[0]].whole, axis)
    found = parts[0]
    for part in parts[1:]:
        found |= part
    if found != all_of_it or sum(map(len, parts)) != len(all_of_it):
        raise InputError(where, "portions that overlap or leave something out", f"all {axis} once")
    alone = not graph.readers[name] and name in graph.outputs
    if not any(placement.regions) and not alone:
        raise InputError(where, "a sum that nobody has", "a device that needs it")
