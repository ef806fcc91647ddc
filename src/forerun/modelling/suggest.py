"""Which runs to measure next: those that lower the expected error most for what they cost."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from forerun.errors import ForerunWarning, InputError
from forerun.factors import Point, Space
from forerun.modelling.columns import EMPTY, Array
from forerun.modelling.kept import model_of
from forerun.modelling.teaching import Lesson, Process, as_table

if TYPE_CHECKING:
    from forerun.modelling.estimator import PerformanceModel
    from forerun.study import Study

CANDIDATES = 400  # points considered
JUDGED = 400  # points whose expected error is to fall


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A run worth measuring."""

    point: Point
    seconds: float | None  # predicted, with its 90 % interval; None where none were measured
    low: float | None
    high: float | None
    gain: float  # share of the model's expected error that this run takes away


def suggest(
    study: Study,
    runs: int = 5,
    budget_seconds: float | None = None,
    target: str = "seconds",
    random_state: int = 0,
) -> list[Suggestion]:
    """Up to `runs` points of the study's space that would teach the model most for their cost.

    Each is chosen as if those before it were measured already, and none comes twice. Levels that
    were never measured cannot be judged, so they do not come.
    """
    if runs < 1:
        raise InputError("runs", runs, "a whole number of at least 1")
    model = model_of(study, target).model
    cost = model if target == "seconds" else _model_of_cost(study)
    if cost is None and budget_seconds is not None:
        raise InputError(f"{study.path}: budget", budget_seconds, "runs with measured seconds")
    points = _askable(model, study.space, CANDIDATES, random_state)
    done = {run.point for run in study.runs()}
    points = [point for point in points if point not in done] or points  # new ones, if there are
    judged = _askable(model, study.space, JUDGED, random_state + 1)
    if not points or not judged:
        return []
    table = as_table(points, study.space)
    seconds, low, high = np.ones((3, len(points)))
    if cost is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ForerunWarning)
            seconds, (low, high) = cost.predict(table), cost.predict_interval(table)
    asked = as_table(judged, study.space)
    seen = pd.DataFrame(model.runs_["factors"])[list(study.space.names)]
    lesson = Lesson(Process(study.space, asked, model), seen, table, asked)
    chosen = _choose(lesson, seconds, runs, budget_seconds)
    if cost is None:
        return [Suggestion(points[i], None, None, None, gain) for i, gain in chosen]
    return [
        Suggestion(points[i], float(seconds[i]), float(low[i]), float(high[i]), gain)
        for i, gain in chosen
    ]


def _askable(model: PerformanceModel, space: Space, count: int, seed: int) -> list[Point]:
    """Random points of the space whose levels were measured and that fit into memory."""
    measured = {c.name: set(c.levels) for c in model.model_.columns.all if c.kind == "levels"}
    points = [
        point
        for point in space.sample(count, seed)
        if all((str(point[name]) or EMPTY) in levels for name, levels in measured.items())
    ]
    if not points:
        return []
    fine = model.feasible(as_table(points, space))
    return [point for point, is_fine in zip(points, fine, strict=True) if is_fine]


def _model_of_cost(study: Study) -> PerformanceModel | None:
    """The model of the seconds, where another column is being learnt."""
    return model_of(study, "seconds").model if "seconds" in study.targets() else None


def _choose(
    lesson: Lesson, seconds: Array, runs: int, budget: float | None
) -> list[tuple[int, float]]:
    """Greedy choice by what each run teaches a second."""
    chosen: list[tuple[int, float]] = []
    left, is_left = np.inf if budget is None else budget, np.ones(len(seconds), bool)
    total = lesson.expected or 1.0
    for _ in range(runs):
        gains = lesson.gains()
        worth = np.where(is_left & (seconds <= left), gains / seconds, -np.inf)
        best = int(np.argmax(worth))
        if not np.isfinite(worth[best]):
            break
        chosen.append((best, float(gains[best] / total)))
        is_left[best] = False
        left -= seconds[best]
        lesson.learn(best)
    return chosen
