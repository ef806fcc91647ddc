"""Ways to place tensors that several layouts share: by channels, by rows, and how networks end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from forerun.splitting.graph import Graph, Operation, Shape
from forerun.splitting.layout import Layout, Placement, exchanged
from forerun.splitting.regions import EMPTY, Indices, Region, shared_out
from forerun.splitting.rules import MOVES, WHOLE, flattened, needs
from forerun.splitting.translation import PAIRWISE, POINTWISE

Shares = tuple[float, ...]
Cut = list[Indices]
# What keeps channels apart.
_POOLS = frozenset(("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"))
_EACH_CHANNEL = POINTWISE | PAIRWISE | _POOLS | {"BatchNormalization"}


def finished(graph: Graph, placements: dict[str, Placement], name: str) -> Layout:
    """A layout that exchanges what it must."""
    return Layout(placements, exchanged(graph, placements), name)


def by_channels(channels: Cut, shape: Shape) -> Placement:
    """Some channels for each device, in all rows."""
    return Placement(tuple(Region(part, shape.whole.rows) if part else EMPTY for part in channels))


def by_rows(rows: Cut, shape: Shape) -> Placement:
    """Some rows for each device, of all channels."""
    every = shape.whole.channels
    return Placement(tuple(Region(every, part) if part else EMPTY for part in rows))


def overlapping(
    graph: Graph, placements: Mapping[str, Placement], exchanged: Collection[str]
) -> dict[str, Placement]:
    """The same, and what is around them where they are computed rather than exchanged.

    h rows of a result are computed from (h - 1)·stride + kernel rows.
    """
    found = dict(placements)
    local = found.keys() - {*exchanged, *graph.outputs}
    for op in reversed(graph.operations):
        placement = found.get(op.output)
        if placement is None or placement.is_sum or local.isdisjoint(op.inputs):
            continue
        wanted = [needs(graph, op, region) for region in placement.regions]
        for name, parts in zip(op.inputs, zip(*wanted, strict=True), strict=True):
            if name in local:
                both = zip(found[name].regions, parts, strict=True)
                found[name] = Placement(tuple(own | part for own, part in both))
    return found


class Tail:
    """The vectors of a network: cut by channels, and products with weights by their input."""

    def __init__(self, graph: Graph, shares: Shares) -> None:
        self.graph, self.shares = graph, shares
        self.placements: dict[str, Placement] = {}
        self._before_maps = leading_to(graph, lambda op: graph.tensors[op.output].rows > 1)

    def channels(self, shape: Shape) -> Placement:
        """Channels by shares."""
        return by_channels(shared_out(shape.channels, self.shares), shape)

    def sum(self, op: Operation, portions: Sequence[Region]) -> Placement:
        """A sum over the portions, for whoever goes on with it."""
        graph, shape = self.graph, self.graph.tensors[op.output]
        readers = graph.readers[op.output]
        if not readers:
            regions: tuple[Region, ...] = (EMPTY,) * len(self.shares)
        elif op.output in self._before_maps:
            regions = Placement.everywhere(shape, len(self.shares)).regions
        elif all(reader.kind in WHOLE for reader in readers):
            regions = self.one(shape).regions
        else:
            regions = self.channels(shape).regions
        return Placement(regions, tuple(portions))

    def one(self, shape: Shape) -> Placement:
        """All of it on the fastest device."""
        fastest = max(range(len(self.shares)), key=lambda device: self.shares[device])
        return Placement.only(shape, fastest, len(self.shares))

    def whole(self, name: str) -> Placement:
        """What cannot be cut: everywhere where maps follow, else on one device."""
        shape = self.graph.tensors[name]
        if name in self._before_maps:
            return Placement.everywhere(shape, len(self.shares))
        return self.one(shape)

    def vector(self, op: Operation) -> Placement:
        """A vector that no rows are left of."""
        shape, before = self.graph.tensors[op.output], self.graph.tensors[op.inputs[0]]
        if op.output in self._before_maps:
            return Placement.everywhere(shape, len(self.shares))
        if op.kind in MOVES and (moved := _moved(self.graph, op, self.placements)) is not None:
            return moved
        placed = self.placements.get(op.inputs[0])
        if op.kind == "Gemm" and placed is not None and covers(placed, before):
            return self.sum(op, placed.regions)
        return self.channels(shape)


def _moved(graph: Graph, op: Operation, placements: dict[str, Placement]) -> Placement | None:
    """Where numbers are once they were moved about, if every device moves its own."""
    if any(name not in placements for name in op.inputs):
        return None
    shape, before = graph.tensors[op.output], graph.tensors[op.inputs[0]]
    inputs = [placements[name].regions for name in op.inputs]
    if op.kind == "Flatten":
        return Placement(tuple(flattened(before, part) for part in inputs[0]))
    starts = [0]
    for name in op.inputs[:-1]:
        starts.append(starts[-1] + graph.tensors[name].channels)
    cut = []
    for parts in zip(*inputs, strict=True):
        mask = 0
        for start, part in zip(starts, parts, strict=True):
            mask |= part.channels.mask << start
        own = Indices(mask)
        if op.kind == "Select":
            places = op.constants["places"]
            own = Indices.of(np.flatnonzero(np.isin(places, own.array)))
        cut.append(own)
    return by_channels(cut, shape)


def followed(graph: Graph, op: Operation, placements: dict[str, Placement]) -> Placement | None:
    """Where channels stay if each result needs nothing but its own channel."""
    if op.kind in MOVES:
        return _moved(graph, op, placements)
    depthwise = op.kind == "Conv" and op.constants["weight"].shape[:2] == (
        op.attributes["group"],
        1,
    )
    if not (op.kind in _EACH_CHANNEL or depthwise):
        return None
    if any(name not in placements for name in op.inputs):
        return None
    shape = graph.tensors[op.output]
    cuts = [[part.channels for part in placements[name].regions] for name in op.inputs]
    alike = all(graph.tensors[name].channels == shape.channels for name in op.inputs)
    return by_channels(cuts[0], shape) if alike and all(cut == cuts[0] for cut in cuts) else None


def covers(placement: Placement, shape: Shape) -> bool:
    """Whether each channel is on just one device."""
    parts = [part.channels for part in placement.regions]
    return sum(map(len, parts)) == shape.channels


def placed_by_channels(tail: Tail, op: Operation) -> bool:
    """Whether each channel that an operation reads is on just one device."""
    placed = tail.placements.get(op.inputs[0])
    return placed is not None and covers(placed, tail.graph.tensors[op.inputs[0]])


def leading_to(graph: Graph, wanted: Callable[[Operation], bool]) -> frozenset[str]:
    """Tensors that some operations depend on, directly or not."""
    found: set[str] = set()
    for op in reversed(graph.operations):
        if wanted(op) or not found.isdisjoint(op.outputs):
            found.update(op.inputs)
    return frozenset(found)
