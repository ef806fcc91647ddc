"""Exact layouts that mix: rows, fused here and there, and another layout for the late layers.

They are told in few words, so that a plan can name one and `cut` can make it again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from forerun.errors import InputError
from forerun.splitting.graph import Graph
from forerun.splitting.layout import Layout, Placement, exchanged, layout
from forerun.splitting.placing import overlapping
from forerun.splitting.regions import checked_shares

Tail = Literal["rows", "one", "outputs", "inputs"]
TAILS: tuple[Tail, ...] = ("one", "outputs", "inputs")


@dataclass(frozen=True)
class Mixture:
    """An exact layout in few words: rows, fused here and there, and another layout after a tensor.

    `dropped` are tensors whose rows are computed where they are needed instead of being exchanged.
    """

    shares: tuple[float, ...]
    dropped: frozenset[str] = frozenset()
    start: str | None = None  # the last tensor of rows; None: all are
    tail: Tail = "rows"

    def to_dict(self) -> dict[str, Any]:
        """As `about` of a layout, and a plan, have it."""
        told: dict[str, Any] = {"shares": list(self.shares), "dropped": sorted(self.dropped)}
        return told if self.start is None else {**told, "start": self.start, "tail": self.tail}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], where: str = "layout") -> Mixture:
        """What `to_dict` wrote."""
        shares, dropped = document.get("shares"), document.get("dropped", [])
        start, tail = document.get("start"), document.get("tail", "rows")
        if not isinstance(shares, list) or not all(isinstance(x, int | float) for x in shares):
            raise InputError(f"{where}, shares", shares, "a number above 0 for each device")
        if not isinstance(dropped, list) or not all(isinstance(x, str) for x in dropped):
            raise InputError(f"{where}, dropped", dropped, "names of tensors")
        if tail not in ("rows", *TAILS) or not isinstance(start, str | None):
            raise InputError(f"{where}, tail", tail, f"one of rows, {', '.join(TAILS)}")
        return cls(checked_shares(shares), frozenset(dropped), start, tail)


def mixed(graph: Graph, mixture: Mixture) -> Layout:
    """The layout that a mixture is."""
    shares = mixture.shares
    rows = dict(layout(graph, "rows", shares).placements)
    if mixture.start is not None:
        rows.update(_tail(graph, mixture, mixture.start))
    kept = exchanged(graph, rows) - mixture.dropped
    for name in mixture.dropped:
        if name not in graph.makers:
            raise InputError("layout: dropped", name, "a tensor that a layer of the network makes")
    if mixture.dropped:
        rows = overlapping(graph, rows, kept)
    return Layout(rows, kept, "chosen", mixture.to_dict())


def _tail(graph: Graph, mixture: Mixture, start: str) -> dict[str, Placement]:
    """Where everything is that comes after a tensor."""
    order = [name for op in graph.operations for name in op.outputs]
    if start not in order:
        raise InputError("layout: start", start, "a tensor that a layer of the network makes")
    after = order[order.index(start) + 1 :]
    if mixture.tail == "rows":
        return {}
    late = "alone" if mixture.tail == "one" else mixture.tail
    placements = layout(graph, late, mixture.shares).placements
    return {name: placements[name] for name in after if name in placements}


def groups_of(graph: Graph) -> int:
    """Into how many parts that need each other little a network is decoupled; 1 where it is not."""
    found = 0
    for op in graph.operations:
        if op.kind == "Conv" and op.constants["weight"].shape[1] > 1:
            groups = int(op.attributes["group"])
            found = math.gcd(found, groups) if groups > 1 else found
    return max(found, 1)


def layout_of(graph: Graph, document: Mapping[str, Any], where: str = "layout") -> Layout:
    """The layout that a plan or a split names: {"name": …, and what it was made from}."""
    name = document.get("name")
    if name in ("chosen", "fused") and "dropped" in document:
        return replace(mixed(graph, Mixture.from_dict(document, where)), name=str(name))
    shares = Mixture.from_dict({**document, "dropped": []}, where).shares
    if name == "fused" and isinstance(document.get("boundaries"), list):
        return Layout.fused(graph, shares, [str(one) for one in document["boundaries"]])
    return layout(graph, str(name), shares)


def described(made: Layout) -> dict[str, Any]:
    """A layout in words that `layout_of` understands."""
    return {"name": made.name, **made.about}
