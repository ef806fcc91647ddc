"""Why a way to run a network was chosen, or lost, or cannot be chosen at all."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from forerun import quantities
from forerun.errors import InputError
from forerun.planning.inference_request import InferenceGoal, InferenceRequest, Served
from forerun.planning.inference_ways import ONE, PIPELINE, REPLICAS, SIMPLEST, Way

CLOSE = 0.01  # loss up to which the simpler way is taken
TRAIN = "python -m forerun.splitting.train"


@dataclass(frozen=True, slots=True)
class Serving:
    """What a way is expected to take."""

    seconds: float  # from a sample to its answer
    low: float  # 90 % interval of it
    high: float
    throughput: float  # samples a second
    memory: float  # resident bytes of the device that needs most
    weights: float  # bytes, of the device that has most
    activations: float
    sent: float  # bytes a sample, of all devices
    computing: float  # seconds of the busiest device
    joules: float | None = None  # a sample
    accuracy: float | None = None  # None where nobody has measured it
    cautions: tuple[str, ...] = ()

    def amount(self, goal: InferenceGoal) -> float | None:
        """What it takes of what is wanted little of."""
        return {"time": self.seconds, "throughput": 1 / self.throughput, "energy": self.joules}[
            goal
        ]


@dataclass(frozen=True, slots=True)
class Considered:
    """A way, what it would take, and why it is chosen or not."""

    candidate: Way
    estimate: Serving | None = None  # None where it cannot be cut that way
    score: float = math.inf
    reason: str = ""
    on_front: bool = False  # no fewer devices are as fast
    layout: Mapping[str, Any] | None = None  # as `forerun split cut --plan` takes it
    training: Mapping[str, Any] | None = None  # a request: it must be trained first
    digest: str = ""  # of the network


def broken(request: InferenceRequest, served: Served, decoupled: bool, one: Considered) -> str:
    """Why a way that fits into memory must not be chosen; empty where it may."""
    estimate, wanted = one.estimate, request.constraints
    assert estimate is not None
    if wanted.latency is not None and estimate.seconds > wanted.latency:
        long, most = map(quantities.seconds, (estimate.seconds, wanted.latency))
        return f"latency: {long}, more than {most}"
    if wanted.throughput is not None and estimate.throughput < wanted.throughput:
        few, least = map(quantities.number, (estimate.throughput, wanted.throughput))
        return f"throughput: {few} a second, less than {least}"
    return _inaccurate(request, served, decoupled, one)


def _inaccurate(request: InferenceRequest, served: Served, decoupled: bool, one: Considered) -> str:
    """Whether nobody knows how accurate it is, while its answers are not the network's own."""
    assert one.estimate is not None
    accuracy, least = one.estimate.accuracy, request.constraints.accuracy
    way = one.candidate
    if accuracy is None:
        if decoupled and served.accuracy is None:
            return "must be trained first"
        short = {"inside": way.precision, "on the wire": way.wire}
        places = [place for place, numbers in short.items() if numbers == "int8"]
        if places:
            return f"no measured accuracy: with whole numbers of 8 bits {' and '.join(places)}"
        return "" if least is None else "no measured accuracy: the request has none for it"
    if least is not None and accuracy < least:
        return f"accuracy: {_points(accuracy)}, less than {_points(least)}"
    return ""


def _points(share: float) -> str:
    return f"{100 * share:.1f} %"


def ranked(request: InferenceRequest, fine: Sequence[Considered]) -> list[Considered]:
    """By score, the best first; a simpler way that is nearly as good goes before it."""
    amounts: dict[InferenceGoal, list[float]] = {}
    for goal, weight in request.objective.items():
        found = [_amount(one, goal) for one in fine]
        if weight and any(amount is None for amount in found):
            raise InputError(
                f"objective {goal}", "no power for some boards", "power: WATTS of each"
            )
        amounts[goal] = [amount or 0.0 for amount in found]
    least = {goal: min((x for x in each if x > 0), default=1.0) for goal, each in amounts.items()}
    total = sum(request.objective.values())
    scored = []
    for place, one in enumerate(fine):
        parts = [
            weight * amounts[goal][place] / least[goal]
            for goal, weight in request.objective.items()
        ]
        scored.append(replace(one, score=sum(parts) / total))
    scored.sort(key=lambda one: (one.score, _plainness(one.candidate)))
    best = scored[0].score * (1 + CLOSE)
    first = min((one for one in scored if one.score <= best), key=lambda x: _plainness(x.candidate))
    scored.sort(key=lambda one: one is not first)
    return _with_front(scored)


def _plainness(way: Way) -> tuple[int, ...]:
    """What a person would try first sorts first."""
    changed = (way.precision != "float32") + (way.wire != "float32")
    return (way.devices, changed, SIMPLEST.index(way.way), way.in_flight)


def _with_front(considered: Sequence[Considered]) -> list[Considered]:
    """Marked where no fewer devices answer as fast."""

    def place(one: Considered) -> tuple[float, int]:
        return (one.estimate.seconds if one.estimate else math.inf, one.candidate.devices)

    least, marked = math.inf, set()
    for one in sorted(considered, key=place):
        if one.candidate.devices < least:
            least = one.candidate.devices
            marked.add(one.candidate)
    return [replace(one, on_front=one.candidate in marked) for one in considered]


def with_reasons(request: InferenceRequest, order: Sequence[Considered]) -> list[Considered]:
    """Each with its reason, by what weighs most."""
    if not order:
        return []
    goal, first = request.main_goal, order[0]
    told = [replace(first, reason=_won(request, order))]
    for one in order[1:]:
        more = (_amount(one, goal) or 0.0) - (_amount(first, goal) or 0.0)
        told.append(replace(one, reason=_lost(goal, first, one, more)))
    return told


def _won(request: InferenceRequest, order: Sequence[Considered]) -> str:
    goal = request.main_goal
    if len(order) == 1:
        return "the only one that can be had"
    if sum(weight > 0 for weight in request.objective.values()) > 1:
        return "best by the objective's weights"
    more = (_amount(order[1], goal) or 0.0) - (_amount(order[0], goal) or 0.0)
    if more <= 0:
        return "simplest of those that are nearly as good"
    word = {"time": "fastest", "throughput": "most samples a second", "energy": "least energy"}
    return f"{word[goal]}, by {_spelt(goal, more)}"


def _lost(goal: InferenceGoal, first: Considered, one: Considered, more: float) -> str:
    """How much more it takes, and what most of that is."""
    if more <= 0:
        return "as good, and less simple"
    spelt = f"{_spelt(goal, more)} more"
    if goal != "time":
        return spelt
    ours, best = one.estimate, first.estimate
    assert ours is not None
    assert best is not None
    if one.candidate.way == REPLICAS:
        return f"{spelt}: each sample stays on one device"
    if one.candidate.way == PIPELINE:
        return f"{spelt}: one device works after the other"
    if one.candidate.way == ONE:
        return f"{spelt}: one device computes it all"
    waits = (ours.seconds - ours.computing) - (best.seconds - best.computing)
    if waits >= more / 2:
        return f"{spelt}: {quantities.seconds(min(waits, more))} of it waiting for other devices"
    computes = min(ours.computing - best.computing, more)
    return f"{spelt}: {quantities.seconds(computes)} of it computing on the busiest device"


def _amount(one: Considered, goal: InferenceGoal) -> float | None:
    assert one.estimate is not None
    return one.estimate.amount(goal)


def _spelt(goal: InferenceGoal, amount: float) -> str:
    if goal == "energy":
        return quantities.amount(amount, "joules")
    return f"{quantities.seconds(amount)}{' a sample' if goal == 'throughput' else ''}"


def training_of(served: Served, groups: int) -> dict[str, Any]:
    """A request to train a decoupled network: it can be planned and deployed like any other.

    Where the request for inference does not say how, the command has words to be filled in.
    """
    given = served.training
    words = {
        "network": "NETWORK" if given is None else given.network,
        "groups": groups if given is None else given.groups,
        "width": "WIDTH" if given is None else quantities.number(given.width, 6),
        "shuffles": "stages" if given is None else given.shuffles,
        "data": "FOLDER" if given is None else given.data,
    }
    options = [text for name, value in words.items() for text in (f"--{name}", str(value))]
    if given is not None and given.teacher is not None:
        options += ["--teacher", given.teacher]
    command = " ".join(map(_held, [*TRAIN.split(), *options, "--output", served.file]))
    epochs = 15 if given is None else given.epochs
    return {
        "name": f"train-{served.path.stem}",
        "application": {"command": f"{command} --epochs {{epochs}}", "framework": "pytorch"},
        "fixed": {"epochs": str(epochs)},
        "trial": {"epochs": "1,2"},
    }


def _held(word: str) -> str:
    """A word of a command with holes, whose own braces are no holes."""
    return shlex.quote(word).replace("{", "{{").replace("}", "}}")
