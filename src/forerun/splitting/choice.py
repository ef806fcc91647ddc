"""The best exact split of a network for given boards, by what each would take (see `cost`).

Rows are the start: weights are whole everywhere, and only edges travel. From there on

- the exchanges are dropped where computing some rows twice takes less than a message (by dynamic
  programming over the chain of places where rows are exchanged: which runs of layers are fused);
- late layers, which have few rows and many weights, are cut by channels or left to one device;
- shares follow the devices' speeds, and then what each was found to be busy with.

Layouts that have a name are considered as they are, and so is one device that does it all. What
does not fit into memory is no choice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from forerun import quantities
from forerun.errors import InputError
from forerun.infrastructure import Link
from forerun.splitting.cost import Cost, Device, lacking, linked, price
from forerun.splitting.cut import EARLY
from forerun.splitting.graph import Graph
from forerun.splitting.layers import Precision, Predictor, Wire, layer_times
from forerun.splitting.layout import Layout, layout
from forerun.splitting.mixtures import TAILS, Mixture, Tail, mixed
from forerun.splitting.regions import checked_shares
from forerun.splitting.segments import programs

Objective = Literal["latency", "throughput"]
ALONE = "alone"
NAMED = ("groups", "inputs", "outputs", "pipeline", "rows")
LONGEST = 6  # exchanges in a row that are dropped together
HOPELESS = 0.03  # more of the time by which longer runs are not looked at any more
ROUNDS = 3  # in which shares follow what devices are busy with
IN_FLIGHT = 4  # samples, where throughput is what counts


@dataclass(frozen=True)
class Alternative:
    """A layout that was considered."""

    name: str
    cost: Cost | None = None  # None where the network cannot be cut so
    reason: str = ""  # why it is no choice


@dataclass(frozen=True)
class Choice:
    """The best of them, and what the others would take."""

    layout: Layout
    cost: Cost
    early: float  # as `cut` takes it
    alternatives: tuple[Alternative, ...]  # the best first


def choose(
    graph: Graph,
    boards: Sequence[Device],
    link: Link | None = None,
    objective: Objective = "latency",
    memory: float | None = None,
    *,
    times: Predictor | None = None,
    precision: Precision = "float32",
    wire: Wire = "float32",
    in_flight: int | None = None,
    alone: bool = True,
) -> Choice:
    """The exact layout that answers soonest, or most often, within the boards' memory.

    It may be one device that does it all, unless `alone` is False.
    """
    flight = in_flight or (IN_FLIGHT if objective == "throughput" else 1)
    devices = linked(boards, link)
    predictor = times or Predictor(layer_times())
    search = _Search(graph, devices, predictor, objective, memory, precision, wire, flight)
    if len(devices) == 1:
        return search.choice(layout(graph, "whole", (1.0,)))
    for name in (ALONE, *NAMED) if alone else NAMED:
        search.named(name)
    best = search.mixture()
    return search.choice(*(() if best is None else (mixed(graph, best),)))


def fused(
    graph: Graph,
    boards: Sequence[Device],
    times: Predictor,
    link: Link | None = None,
    *,
    precision: Precision = "float32",
    wire: Wire = "float32",
) -> Choice:
    """Rows alone, with the runs of layers fused that gain by it."""
    devices = linked(boards, link)
    search = _Search(graph, devices, times, "latency", None, precision, wire, 1)
    start = Mixture(_shares(devices))
    best = search.fuse(start)
    search.kept.clear()
    return search.choice(replace(mixed(graph, best), name="fused"))


def _shares(devices: Sequence[Device]) -> tuple[float, ...]:
    return checked_shares([device.speed for device in devices])


@dataclass
class _Search:
    """Layouts on some devices, each priced once."""

    graph: Graph
    devices: tuple[Device, ...]
    predictor: Predictor
    objective: Objective
    memory: float | None
    precision: Precision
    wire: Wire
    in_flight: int
    kept: list[tuple[Layout, float, Cost]] = field(default_factory=list)
    refused: list[Alternative] = field(default_factory=list)
    _known: dict[tuple[Mixture, float], Cost] = field(default_factory=dict)

    def cost(self, made: Layout, early: float = 0.0, interval: bool = True) -> Cost:
        """What a layout takes; most are only compared, and need no interval."""
        found = programs(self.graph, made, early=early)
        return price(
            self.graph,
            found,
            self.devices,
            self.predictor,
            precision=self.precision,
            wire=self.wire,
            in_flight=self.in_flight,
            interval=interval,
        )

    def priced(self, mixture: Mixture, early: float = 0.0) -> Cost:
        """What a mixture takes."""
        key = (mixture, early)
        if key not in self._known:
            self._known[key] = self.cost(mixed(self.graph, mixture), early, interval=False)
        return self._known[key]

    def value(self, cost: Cost) -> float:
        """What is wanted little of; infinite where it does not fit."""
        if lacking(self.devices, cost, self.memory):
            return math.inf
        return cost.latency if self.objective == "latency" else cost.period

    def of(self, mixture: Mixture) -> float:
        """The value of a mixture; infinite where the network cannot be cut so."""
        try:
            return self.value(self.priced(mixture))
        except InputError:
            return math.inf

    def named(self, name: str) -> None:
        """Consider a layout by its name."""
        try:
            made = layout(self.graph, name, _shares(self.devices))
            self.consider(made)
        except InputError as error:
            self.refused.append(Alternative(name, reason=f"cannot be cut: {error}"))

    def consider(self, made: Layout, early: float = 0.0) -> None:
        """Price a layout, and keep it unless something is against it."""
        cost = self.cost(made, early)
        reason = lacking(self.devices, cost, self.memory)
        if reason:
            self.refused.append(Alternative(made.name, cost, reason))
        else:
            self.kept.append((made, early, cost))

    def mixture(self) -> Mixture | None:
        """The best that can be made of rows and what may follow them; None where rows cannot be."""
        try:
            first = Mixture(_shares(self.devices))
            mixed(self.graph, first)
        except InputError:
            return None
        # Either first may lead astray: by rows that are all exchanged, late layers look best alone.
        best = min(self.fuse(self.tail(first)), self.tail(self.fuse(first)), key=self.of)
        return self.balanced(best)

    def points(self, mixture: Mixture) -> list[str]:
        """The maps whose rows are exchanged, in their order."""
        made = mixed(self.graph, replace(mixture, dropped=frozenset()))
        order = [name for op in self.graph.operations for name in op.outputs]
        if mixture.start is not None:
            order = order[: order.index(mixture.start)]
        return [
            name
            for name in order
            if name in made.exchanged
            and self.graph.tensors[name].rows > 1
            and not made.placements[name].is_sum
        ]

    def tail(self, mixture: Mixture) -> Mixture:
        """With the late layers cut otherwise, where that is better: first coarse, then fine."""
        points = self.points(mixture)
        if not points:
            return mixture
        rows = [self.graph.tensors[name].rows for name in points]
        coarse = [i for i in range(len(points)) if i == 0 or rows[i] != rows[i - 1]]
        coarse = sorted({*coarse, len(points) - 1})
        best = mixture
        for tail in TAILS:

            def at(place: int, tail: Tail = tail) -> Mixture:
                dropped = mixture.dropped & set(points[:place])
                return replace(mixture, start=points[place], tail=tail, dropped=dropped)

            place = min(coarse, key=lambda i: self.of(at(i)))
            for step in (2, 1):
                near = [i for i in (place - step, place, place + step) if 0 <= i < len(points)]
                place = min(near, key=lambda i: self.of(at(i)))
            best = min(best, at(place), key=self.of)
        return best

    def fuse(self, mixture: Mixture) -> Mixture:
        """With the runs of layers fused that gain most, by what each run gains by itself."""
        points = self.points(mixture)
        base = self.of(mixture)
        if not math.isfinite(base):
            return mixture
        gains: dict[tuple[int, int], float] = {}
        for first in range(len(points)):
            for stop in range(first + 1, min(first + LONGEST, len(points)) + 1):
                dropped = mixture.dropped | set(points[first:stop])
                more = self.of(replace(mixture, dropped=dropped)) - base
                gains[first, stop] = more
                if more > HOPELESS * base:
                    break
        gaining = {points[i] for i in _runs(len(points), gains)}
        fused_ = replace(mixture, dropped=mixture.dropped | gaining)
        return min(mixture, fused_, key=self.of)

    def balanced(self, mixture: Mixture) -> Mixture:
        """With shares by which devices are busy for as long."""
        best = tried = mixture
        for _ in range(ROUNDS):
            busy = self.priced(tried).busy
            mean = sum(busy) / len(busy)
            if min(busy) <= 0:
                break
            shares = [s * (mean / b) ** 0.5 for s, b in zip(tried.shares, busy, strict=True)]
            total = sum(shares)
            tried = replace(tried, shares=tuple(round(s / total, 4) for s in shares))
            if not math.isfinite(self.of(tried)):
                break
            best = min(best, tried, key=self.of)
        return best

    def choice(self, *more: Layout) -> Choice:
        """The best of all that was considered."""
        for made in more:
            self.consider(made)
            if made.devices > 1:
                self.consider(made, EARLY)
        if not self.kept:
            raise self._nothing()
        order = sorted(self.kept, key=lambda one: self.value(one[2]))
        made, early, cost = order[0]
        told = [
            Alternative(one.name + (", edges first" if first else ""), takes)
            for one, first, takes in order
        ]
        return Choice(made, cost, early, (*told, *self.refused))

    def _nothing(self) -> InputError:
        needs = [max(one.cost.memory) for one in self.refused if one.cost is not None]
        if not needs:
            return InputError("layout", self.refused[0].reason, "a network that can be cut")
        least = quantities.amount(min(needs), "bytes")
        return InputError(
            "memory", "no layout that fits", f"at least {least} on each device, or more devices"
        )


def _runs(count: int, gains: Mapping[tuple[int, int], float]) -> list[int]:
    """The points to drop: consecutive runs, whose sum of what they add is least.

    best[k] is of the first k points of which the last is kept (as is an end after all of them).
    """
    best: list[float] = [0.0]
    came: list[int] = [0]
    for k in range(1, count + 2):
        ways = [(best[k - 1], k - 1)]
        ways += [
            (best[first] + gains[first, k - 1], first)
            for first in range(k - 1)
            if (first, k - 1) in gains
        ]
        value, first = min(ways)
        best.append(value)
        came.append(first)
    dropped: list[int] = []
    k = count + 1
    while k > 0:
        dropped += range(came[k], k - 1)
        k = came[k]
    return sorted(dropped)
