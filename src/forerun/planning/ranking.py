"""Which candidate goes before which: by score, and of those that may be equal the simpler one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from forerun import levers
from forerun.errors import InputError
from forerun.factors import VARIANT
from forerun.modelling.steps import SURE, straight
from forerun.modelling.teaching import Lesson, Process, as_table
from forerun.planning.candidates import Candidate, baseline
from forerun.planning.estimates import Models
from forerun.planning.front import on_front
from forerun.planning.reasons import Considered, known
from forerun.planning.request import GOALS, Goal, Request

CLOSE = 0.01  # loss up to which the simpler candidate is taken


def ranked(request: Request, models: Models, fine: Sequence[Considered]) -> list[Considered]:
    """By score, the best first; a simpler candidate that is nearly as good goes before it."""
    for goal in (goal for goal in GOALS if request.objective.get(goal)):
        if any(known(one).amount(goal) is None for one in fine):
            word = {"cost": "prices", "energy": "power"}.get(goal, "times")
            found = f"no {word} for some partitions"
            raise InputError(f"objective {goal}", found, f"{word} in their description")
    amounts: list[dict[Goal, float]] = [
        {goal: float(known(one).amount(goal) or 0) for goal in request.objective} for one in fine
    ]
    for goal in amounts[0]:
        if not all(math.isfinite(one[goal]) for one in amounts):
            raise InputError(f"objective {goal}", "amounts without end", "fewer steps or samples")
    least = {goal: _least([one[goal] for one in amounts]) for goal in amounts[0]}
    scored = [
        replace(one, score=request.score(amount, least))
        for one, amount in zip(fine, amounts, strict=True)
    ]
    scored.sort(key=lambda one: (one.score, _plainness(models, one.candidate)))
    best = scored[0]
    close = [one for one in scored if one.score <= best.score * (1 + CLOSE)]
    for one in sorted(close, key=lambda one: _plainness(models, one.candidate)):
        if one is best or may_be_equal(request, models, one, best):
            scored.sort(key=lambda other: other is not one)
            break
    front = on_front(scored)
    return [replace(one, on_front=on) for one, on in zip(scored, front, strict=True)]


def _least(amounts: Sequence[float]) -> float:
    """What amounts are weighed by: the least that is anything, for some may cost nothing."""
    return min((amount for amount in amounts if amount > 0), default=1.0)


def may_be_equal(request: Request, models: Models, one: Considered, other: Considered) -> bool:
    """Whether the interval of the ratio of the two holds 1."""
    if one.score == other.score:
        return True
    if one.candidate.point == other.candidate.point or min(one.score, other.score) <= 0:
        return False  # what tells them apart is arithmetic, which the model has no part in
    deviation = _deviation(request, models, (one, other))
    return abs(math.log(one.score / other.score)) <= SURE * deviation


def _deviation(request: Request, models: Models, pair: tuple[Considered, Considered]) -> float:
    """Standard deviation of the log of the ratio of what two candidates take.

    The model knows the run alone; what is added to it is sure, so of a total the log moves by the
    run's share as far. Beyond the measured steps a run's time is that of the straight line.
    """
    space, model = models.space, models.seconds
    line = straight(model, space, as_table([one.candidate.point for one in pair], space))
    seen = pd.DataFrame(model.runs_["factors"])[list(space.names)]
    process = Process(space, pd.concat([seen, line.points], ignore_index=True), model)
    lesson = Lesson(process, seen, line.points, line.points)
    covariance = line.of(line.of(lesson.covariance).T)
    weights = np.array([1.0, -1.0]) * [_share(request, one) for one in pair]
    return math.sqrt(max(float(weights @ covariance @ weights), 0.0))


def _share(request: Request, one: Considered) -> float:
    """The run's share of what counts most: of the time, or of that which is paid for."""
    estimate = known(one)
    unpaid = 0.0 if request.main_goal == "time" else estimate.parts["wait"]
    return estimate.parts["run"] / (estimate.seconds - unpaid)


def _plainness(models: Models, one: Candidate) -> tuple[float, ...]:
    """What a person would try first sorts first: few nodes and workers, nothing compiled or set."""
    roles, point = models.roles, one.point
    named = [name for name in (VARIANT, roles["compiler"]) if name is not None and name in point]
    compiled = 0.0
    for name in named:
        levels = [str(level) for level in models.space[name].values] or [str(point[name])]
        compiled += str(point[name]) != baseline(levels)
    pulled = sum(not levers.is_plain(n, value) for n, value in point.items() if n not in named)
    counts = (float(roles.count(point, role)) for role in ("workers", "threads"))
    return (float(one.nodes), float(one.staged), compiled, float(pulled), *counts)
