"""Which way of running a network on boards is best, and why every other one lost.

The sibling of `planner`, which ranks ways to train: there a study of runs knows what each takes,
here a study of layers does, and arithmetic what goes over the links between devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forerun import __version__
from forerun.errors import InputError
from forerun.infrastructure import Infrastructure
from forerun.planning.inference_reasons import (
    Considered,
    Serving,
    broken,
    ranked,
    training_of,
    with_reasons,
)
from forerun.planning.inference_request import InferenceRequest, Served
from forerun.planning.inference_ways import CHOSEN, FUSED, ONE, REPLICAS, Fleet, Way, fleets, ways
from forerun.splitting import cost
from forerun.splitting.choice import Choice, Objective, choose, fused
from forerun.splitting.graph import Graph
from forerun.splitting.layers import Predictor, Timed, layer_times
from forerun.splitting.layout import Layout, layout
from forerun.splitting.mixtures import described, groups_of

if TYPE_CHECKING:
    from forerun.study import Study

FORMAT = 1  # of the document that a plan is written as
ROUNDED = "numbers on the wire keep eleven binary digits"


@dataclass(frozen=True)
class InferencePlan:
    """What can be had, the best first, and what cannot, with what it would take."""

    request: InferenceRequest
    infrastructure: Infrastructure
    considered: tuple[Considered, ...]  # without those that are refused
    refused: tuple[Considered, ...]  # the nearest to being the best first
    notes: tuple[str, ...] = ()
    layers: str = ""  # where the times of layers are from
    networks: Mapping[str, str] = field(default_factory=dict)  # their files, by their digests

    @property
    def chosen(self) -> Considered | None:
        """The best; None where nothing may be chosen, as when all must be trained first."""
        return self.considered[0] if self.considered else None

    @property
    def every(self) -> tuple[Considered, ...]:
        """All of them, as a table shows them."""
        return (*self.considered, *self.refused)

    @property
    def count(self) -> int:
        """How many were considered."""
        return len(self.every)

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON holds it."""
        return {
            "format": FORMAT,
            "forerun": __version__,
            "task": "inference",
            "request": self.request.absolute().model_dump(mode="json", exclude_defaults=True),
            "infrastructure": self.infrastructure.model_dump(mode="json", exclude_defaults=True),
            "layers": self.layers,
            "networks": dict(self.networks),
            "considered": self.count,
            "chosen": 0 if self.considered else None,
            "front": [place for place, one in enumerate(self.considered) if one.on_front],
            "candidates": [_document(one) for one in self.considered],
            "refused": dict(Counter(_kind(one.reason) for one in self.refused)),
            "refused_candidates": [_document(one) for one in self.refused],
            "notes": list(self.notes),
        }


def plan_inference(
    request: InferenceRequest, infrastructure: Infrastructure, study: Study | None = None
) -> InferencePlan:
    """The best way to run the request's network; `study` holds timed layers, where it is given."""
    path = None if request.layers is None else Path(request.layers)
    times = layer_times(path) if study is None else Timed(study)
    predictor = Predictor(times)
    every = fleets(request, infrastructure)
    judged: list[Considered] = []
    networks: dict[str, str] = {}
    notes = [times.told, *_unsaid(infrastructure)]
    for place, (_, served) in enumerate(request.named):
        graph = Graph.load(served.path)
        networks[graph.digest] = str(served.path.absolute())
        notes += [
            f"{served.path.name}: no rule for {operator} ({name}): "
            "computed whole, by every device that needs it"
            for name, operator in graph.unruled
        ]
        for fleet in every:
            known = _Known(request, predictor, graph, served, place > 0, fleet)
            judged += [known.considered(way) for way in ways(request, fleet, served, place > 0)]
    fine = [one for one in _different(judged) if not one.reason]
    refused = [one for one in judged if one.reason]
    order = with_reasons(request, ranked(request, fine)) if fine else []
    if not fine:
        kinds = Counter(_kind(one.reason) for one in refused).most_common(3)
        reasons = ", ".join(f"{kind} ({count})" for kind, count in kinds)
        notes.append(f"nothing can be chosen: {reasons}")
    refused.sort(key=lambda one: one.estimate.seconds if one.estimate else float("inf"))
    return InferencePlan(
        request,
        infrastructure,
        tuple(order),
        tuple(refused),
        tuple(notes),
        times.told,
        networks,
    )


@dataclass(frozen=True)
class _Made:
    """A layout, and whether rows that others need are computed first, as `cut` takes it."""

    layout: Layout
    early: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return {**described(self.layout), "early": self.early}


class _Known:
    """What is known of one network on some devices; layouts are looked for once."""

    def __init__(
        self,
        request: InferenceRequest,
        predictor: Predictor,
        graph: Graph,
        served: Served,
        decoupled: bool,
        fleet: Fleet,
    ) -> None:
        self._request, self._predictor = request, predictor
        self._graph, self._served, self._decoupled = graph, served, decoupled
        self._fleet = fleet
        self._layouts: dict[tuple[str, ...], _Made | InputError] = {}

    def considered(self, way: Way) -> Considered:
        """A way with what it takes, or with the reason for which it cannot be had."""
        try:
            found = self._layout(way)
        except InputError as error:
            digest = self._graph.digest
            return Considered(way, digest=digest, reason=f"cannot be cut: {error}")
        costs = self._costs(way, found)
        estimate = self._serving(way, list(costs.values()))
        one = Considered(way, estimate, layout=_told(way, found), digest=self._graph.digest)
        reason = self._lacking(costs) or broken(self._request, self._served, self._decoupled, one)
        if reason == "must be trained first":
            one = replace(one, training=training_of(self._served, groups_of(self._graph)))
        return replace(one, reason=reason)

    def _layout(self, way: Way) -> _Made:
        key = (way.way, way.precision, way.wire)
        if key not in self._layouts:
            try:
                self._layouts[key] = self._made(way)
            except InputError as error:
                self._layouts[key] = error
        found = self._layouts[key]
        if isinstance(found, InputError):
            raise found
        return found

    def _made(self, way: Way) -> _Made:
        devices, graph = self._fleet.devices, self._graph
        if way.way in (ONE, REPLICAS):
            return _Made(layout(graph, "whole", (1.0,)))
        if way.way not in (FUSED, CHOSEN):
            return _Made(layout(graph, way.way, [device.speed for device in devices]))
        if way.way == CHOSEN:
            found = self._choice(way)
        else:
            found = fused(graph, devices, self._predictor, precision=way.precision, wire=way.wire)
        return _Made(found.layout, found.early)

    def _choice(self, way: Way) -> Choice:
        goal: Objective = "throughput" if self._request.main_goal == "throughput" else "latency"
        return choose(
            self._graph,
            self._fleet.devices,
            objective=goal,
            memory=self._request.constraints.memory,
            times=self._predictor,
            precision=way.precision,
            wire=way.wire,
            in_flight=self._request.in_flight if goal == "throughput" else 1,
            alone=False,
        )

    def _costs(self, way: Way, found: _Made) -> dict[tuple[cost.Device, ...], cost.Cost]:
        """Of the whole split; or of each device, where each has all of the network."""
        devices = self._fleet.devices
        alone = way.way in (ONE, REPLICAS)
        return {
            each: cost.predict(
                self._graph,
                found.layout,
                each,
                self._predictor,
                precision=way.precision,
                wire=way.wire,
                in_flight=way.in_flight,
                early=found.early,
            )
            for each in ([(one,) for one in devices] if alone else [devices])
        }

    def _lacking(self, costs: Mapping[tuple[cost.Device, ...], cost.Cost]) -> str:
        """What the first device that has too little memory lacks of it."""
        most = self._request.constraints.memory
        lacking = (cost.lacking(devices, one, most) for devices, one in costs.items())
        return next(filter(None, lacking), "")

    def _serving(self, way: Way, costs: Sequence[cost.Cost]) -> Serving:
        worst = max(costs, key=lambda one: one.latency)
        # Samples go round the replicas, so the slowest of them sets the pace of all.
        throughput = (way.devices if way.way == REPLICAS else 1) / worst.period
        accuracy = self._served.accuracy_of(way.precision, way.wire)
        watts = [device.power for device in self._fleet.devices]
        cautions = [ROUNDED] if way.wire == "float16" else []
        return Serving(
            seconds=worst.latency,
            low=worst.low,
            high=worst.high,
            throughput=throughput,
            memory=max(max(one.memory) for one in costs),
            weights=max(max(one.weights) for one in costs),
            activations=max(max(one.activations) for one in costs),
            sent=sum(worst.sent),
            computing=max(worst.busy),
            joules=sum(watts) / throughput if all(watts) else None,
            accuracy=accuracy,
            cautions=tuple(cautions),
        )


def _unsaid(infrastructure: Infrastructure) -> list[str]:
    """Boards of which nobody has said how fast they are."""
    return [
        f"{name}: no speed is given; taken for as fast as the machine where layers were timed"
        for name, board in infrastructure.boards.items()
        if board.speed is None
    ]


def _different(judged: Sequence[Considered]) -> list[Considered]:
    """Without ways that are the same split under another name: the best may be a plain one."""
    found: dict[object, Considered] = {}
    for one in judged:
        estimate, way = one.estimate, one.candidate
        same = None if estimate is None else (estimate.seconds, estimate.memory, estimate.sent)
        key = (way.network, way.boards, way.devices, way.precision, way.wire, way.in_flight, same)
        if way.way in (ONE, REPLICAS) or estimate is None or one.reason:
            found[way] = one
        else:
            found.setdefault(key, one)
    return list(found.values())


def _told(way: Way, found: _Made) -> Mapping[str, Any] | None:
    """The layout as a file can hold it; a device alone and replicas need none."""
    return None if way.way in (ONE, REPLICAS) else found.to_dict()


def _kind(reason: str) -> str:
    """Reasons that differ in a number alone are counted together."""
    return reason.partition(":")[0]


def _document(one: Considered) -> dict[str, Any]:
    way, estimate = one.candidate, one.estimate
    where = {
        "way": way.way,
        "network": way.network,
        "boards": way.boards,
        "devices": way.devices,
        "precision": way.precision,
        "wire": way.wire,
        "in_flight": way.in_flight,
        "digest": one.digest,
    }
    if estimate is None:
        return {**where, "reason": one.reason}
    return {
        **where,
        "seconds": estimate.seconds,
        "low": estimate.low,
        "high": estimate.high,
        "throughput": estimate.throughput,
        "memory_bytes": estimate.memory,
        "weights_bytes": estimate.weights,
        "activations_bytes": estimate.activations,
        "sent_bytes": estimate.sent,
        "computing_seconds": estimate.computing,
        "joules": estimate.joules,
        "accuracy": estimate.accuracy,
        "score": one.score if one.score < float("inf") else None,
        "reason": one.reason,
        "layout": one.layout,
        "training": one.training,
        "cautions": list(estimate.cautions),
    }
