"""Layouts by rows: exchanged before each operator that sees other rows, or computed twice."""

from __future__ import annotations

from collections.abc import Sequence

from forerun.errors import InputError
from forerun.splitting.graph import Graph
from forerun.splitting.layout import Layout, Placement, exchanged, settle
from forerun.splitting.placing import Cut, Shares, Tail, by_rows, finished, overlapping
from forerun.splitting.regions import Indices, checked_shares, shared_out
from forerun.splitting.rules import WHOLE

_LITTLE = 0.01  # of a device's multiply-accumulates: what an exchange less may cost
_MOST = 0.05  # and what all of them may cost together


def rows(graph: Graph, shares: Shares) -> Layout:
    """One exchange before each operator that sees other rows."""
    return finished(graph, _row_placements(graph, shares), "rows")


def fused(graph: Graph, shares: Sequence[float], boundaries: Sequence[str]) -> Layout:
    """Rows that are exchanged at the boundaries alone; sums are, too, wherever they stand."""
    found = checked_shares(shares)
    for name in boundaries:
        if name not in graph.makers:
            raise InputError("boundary", name, "a tensor that a layer of the network makes")
    every = _row_placements(graph, found)
    kept = {
        name: placement
        for name, placement in every.items()
        if name in boundaries or name in graph.outputs or graph.tensors[name].rows == 1
    }
    sent = exchanged(graph, kept) | set(boundaries)
    about = {"shares": list(found), "boundaries": sorted(boundaries)}
    return Layout(overlapping(graph, every, sent), sent, "fused", about)


def fused_by_default(graph: Graph, shares: Shares) -> Layout:
    """Exchanges are left out, one after the other, where that costs little computing."""
    placements = _row_placements(graph, shares)
    kept = [name for name in exchanged(graph, placements) if graph.tensors[name].rows > 1]
    kept.sort(key=list(graph.makers).index)
    before = first = _slowest(graph, fused(graph, shares, kept), shares)
    for name in list(kept):
        fewer = [one for one in kept if one != name]
        slowest = _slowest(graph, fused(graph, shares, fewer), shares)
        if slowest <= before + _LITTLE * first and slowest <= first * (1 + _MOST):
            kept, before = fewer, slowest
    return fused(graph, shares, kept)


def _slowest(graph: Graph, layout: Layout, shares: Shares) -> float:
    flow = settle(graph, layout)
    return max(flow.macs(graph, device) / share for device, share in enumerate(shares))


def _row_placements(graph: Graph, shares: Shares) -> dict[str, Placement]:
    cuts = _Rows(graph, shares)
    tail = Tail(graph, shares)
    for op in graph.operations:
        shape = graph.tensors[op.output]
        height = max((graph.tensors[name].rows for name in op.inputs), default=1)
        if op.kind in WHOLE:
            tail.placements.update({name: tail.whole(name) for name in op.outputs})
        elif shape.rows > 1:
            tail.placements[op.output] = by_rows(cuts.after(height, shape.rows), shape)
        elif op.kind == "GlobalAveragePool" and height > 1:
            before = graph.tensors[op.inputs[0]]
            portions = by_rows(cuts.after(height, height), before).regions
            tail.placements[op.output] = tail.sum(op, portions)
        else:
            tail.placements[op.output] = tail.vector(op)
    return tail.placements


class _Rows:
    """Rows by shares; after a stride, cuts stay where they were if that is as fair."""

    def __init__(self, graph: Graph, shares: Shares) -> None:
        self.shares = shares
        rows = max(shape.rows for shape in graph.tensors.values())
        if rows < len(shares):
            first = graph.operations[0]
            raise InputError(
                f"layout rows: {first.name} ({first.kind})",
                f"{len(shares)} devices for {rows} rows",
                "at most as many devices as rows",
            )
        self._cuts: dict[int, Cut] = {}

    def after(self, before: int, rows: int) -> Cut:
        """The rows of each device, where the map before had so many."""
        if rows not in self._cuts:
            fair = shared_out(rows, self.shares)
            if before in self._cuts and before > rows:
                same = _scaled(self._cuts[before], before, rows)
                fair = min((same, fair), key=self._slowest)
            self._cuts[rows] = fair
        return self._cuts[rows]

    def _slowest(self, cut: Cut) -> float:
        return max(len(part) / share for part, share in zip(cut, self.shares, strict=True))


def _scaled(cut: Cut, before: int, rows: int) -> Cut:
    """Cuts at the same height of a smaller map; row i of it stands for row i·before/rows."""
    ends, stop = [], 0
    for part in cut:
        stop = max(stop, part.stop)
        ends.append(min(rows, -(-stop * rows // before)))
    ends[-1] = rows
    return [Indices.span(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
