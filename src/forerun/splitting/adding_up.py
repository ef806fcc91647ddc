"""How well single layers add up to segments: by chains that were kept aside when layers were timed.

    seconds of a segment = call + operators * node + scale * sum of what its layers are said to take

Of a chain that the models have not seen, `each` layer's own time tells how well layers are
predicted, and the time of all of it what their sum leaves out.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from forerun.splitting.layers import (
    COVERAGE,
    KINDS,
    NOTE,
    PRECISIONS,
    Constants,
    Layer,
    PlainRule,
    Predictor,
    Timed,
)
from forerun.splitting.wiring import codings
from forerun.study import Study

FEWEST = 5  # chains that say anything about sums
SHORTEST = 5e-4  # seconds of a chain in which layers count for more than calls
LEAST = 0.05  # of the relative error that sums have in common: never less is believed


@dataclass(frozen=True)
class Whole:
    """A chain that was kept aside: its layers with their own seconds, and all of it together."""

    layers: tuple[Layer, ...]  # what the runtime does at the edges included
    each: tuple[float, ...]
    seconds: float  # of a call


def settle(study: Study, call: float, aside: Sequence[Whole]) -> None:
    """Fit the models, and note how well they do on what was kept aside."""
    constants = replace(
        PlainRule.constants, call=call, node=_per_node(aside, call), wires=codings()
    )
    study.set_note(NOTE, constants.to_dict())
    times = Timed(study)
    for kind in KINDS:
        for precision in PRECISIONS:
            times.has(kind, precision)  # which fits it, and keeps it
    found = _summed(times, constants, aside)
    document = {**found.to_dict(), "held_out": errors(times, aside), "aside": len(aside)}
    study.set_note(NOTE, document)


def errors(times: Timed, aside: Sequence[Whole]) -> dict[str, float]:
    """The median relative error of layers that the models have not seen, by kind."""
    found: dict[str, list[float]] = {}
    for one in aside:
        for layer, said, took in zip(one.layers, times.each(one.layers)[0], one.each, strict=True):
            found.setdefault(layer.kind, []).append(abs(float(said) / took - 1))
    return {kind: statistics.median(some) for kind, some in sorted(found.items())}


def _per_node(aside: Sequence[Whole], call: float) -> float:
    """What each operator takes besides its own work, by chains that were timed both ways."""
    found = [(one.seconds - sum(one.each) - call) / len(one.layers) for one in aside]
    return max(0.0, statistics.median(found)) if found else PlainRule.constants.node


def _summed(times: Timed, constants: Constants, aside: Sequence[Whole]) -> Constants:
    """With the scale of sums, and the error that they have in common besides their layers' own."""
    long = [one for one in aside if one.seconds >= SHORTEST]
    if len(long) < FEWEST:
        return constants
    fixed = [constants.call + constants.node * len(one.layers) for one in long]
    said = [float(times.each(one.layers)[0].sum()) for one in long]
    left = [max(one.seconds - part, 1e-9) for one, part in zip(long, fixed, strict=True)]
    scale = _middle([took / sum_ for took, sum_ in zip(left, said, strict=True)], said)
    times.constants = replace(constants, scale=scale, common=0.0)
    predictor = Predictor(times)
    shared = []
    for one, took, sum_ in zip(long, left, said, strict=True):
        own = predictor.half(predictor.segment(one.layers))
        shared.append(math.sqrt(max(math.log(took / (scale * sum_)) ** 2 - own**2, 0.0)))
    shared.sort()
    common = shared[min(len(shared) - 1, int(COVERAGE * len(shared)))]
    return replace(constants, scale=scale, common=max(common, LEAST))


def _middle(values: Sequence[float], weights: Sequence[float]) -> float:
    """The median by weight: long chains are more like networks."""
    reached = 0.0
    for value, weight in sorted(zip(values, weights, strict=True)):
        reached += weight
        if reached >= sum(weights) / 2:
            return value
    raise ValueError("no values")
