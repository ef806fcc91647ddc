"""How `forerun split cut` divides a network where nobody says it: by what it should take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forerun.cli.common import counted
from forerun.errors import InputError
from forerun.quantities import between, seconds

if TYPE_CHECKING:
    from forerun.infrastructure import Infrastructure
    from forerun.planning.inference_plans import PlannedSplit
    from forerun.splitting.graph import Graph
    from forerun.splitting.layers import Precision
    from forerun.splitting.layout import Layout

    Devices = int | Sequence[float] | Infrastructure

ALONE = "alone"  # the layout by which one device does it all


@dataclass(frozen=True, slots=True)
class Division:
    """A layout for some devices, and what it and others should take, as JSON has it."""

    devices: Devices
    layout: str | Layout
    early: float = 0.0
    predicted: Mapping[str, Any] | None = None
    alternatives: Sequence[Mapping[str, Any]] = ()
    about: str = ""  # where what is predicted is from


def best(graph: Graph, devices: Devices, precision: Precision) -> Division:
    """What should answer soonest."""
    from forerun.splitting.choice import choose
    from forerun.splitting.layers import Predictor, layer_times
    from forerun.splitting.split import boards_of

    times = layer_times()
    found = choose(graph, boards_of(devices), times=Predictor(times), precision=precision)
    considered = [
        {
            "layout": one.name,
            "seconds": one.cost and one.cost.latency,
            "low": one.cost and one.cost.low,
            "high": one.cost and one.cost.high,
            "reason": one.reason or None,
        }
        for one in found.alternatives
    ]
    first = {name: considered[0][name] for name in ("seconds", "low", "high")}
    predicted = {**first, "wire": "float32", "in_flight": 1}
    return Division(devices, found.layout, found.early, predicted, considered, times.told)


def read_planned(
    path: Path | None, number: int | None, others: Mapping[str, object]
) -> PlannedSplit | None:
    """What a plan has chosen, where there is one; InputError for options that it says itself."""
    if path is None:
        if number is not None:
            raise InputError("--candidate", number, "none without --plan")
        return None
    for name, given in others.items():
        if given is not None and given is not False:
            raise InputError(f"--{name}", given, "none with --plan, which says it")
    from forerun.planning.inference_plans import read_split

    return read_split(path, number)


def planned(plan: PlannedSplit, graph: Graph, file: Path) -> Division:
    """What a plan has chosen; InputError where that was for another network."""
    if plan.digest != graph.digest:
        raise InputError(str(file), "another network than the plan's", "the one that was planned")
    layout, early = plan.layout_for(graph)
    fields = {"seconds", "low", "high", "wire", "in_flight"}
    about = f"planned for {counted(plan.devices, 'device')} of {plan.boards}"
    predicted = plan.model_dump(include=fields)
    return Division(plan.devices, layout, early, predicted, about=about)


def told(document: Mapping[str, Any]) -> str:
    """What an answer should take, beside one device alone or the best split."""
    alone = document["layout"] == ALONE
    line = f"predicted: {_time(document['predicted'])}{', by one device alone' * alone}"
    others = [one for one in document["alternatives"] if (one["layout"] == ALONE) != alone]
    if not others:
        return line
    other = others[0]
    takes = _time(other) if other["reason"] is None else other["reason"]
    return f"{line}; {'the best split' if alone else 'one device alone'}: {takes}"


def _time(one: Mapping[str, Any]) -> str:
    return f"{seconds(one['seconds'])} ({between(one['low'], one['high'])})"
