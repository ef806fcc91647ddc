"""Which runs to measure next: those that lower the expected error most for what they cost."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.linalg import solve_triangular

from forerun.errors import ForerunWarning, InputError
from forerun.factors import Point, Space
from forerun.modelling.auto import AutoModel, place_of
from forerun.modelling.columns import EMPTY, Array, Columns
from forerun.modelling.correction import FIXED, Edges, Place, distances, kernel
from forerun.modelling.kept import model_of

if TYPE_CHECKING:
    from forerun.modelling.estimator import PerformanceModel
    from forerun.study import Study

CANDIDATES = 400  # points considered
JUDGED = 400  # points whose expected error is to fall
SLOPE = 0.3  # change of the log target over a standard deviation of a number, before any run
LEVEL = 0.3  # the same for a level


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A run worth measuring."""

    point: Point
    seconds: float | None  # predicted, with its 90 % interval; None where none were measured
    low: float | None
    high: float | None
    gain: float  # share of the model's expected squared error that this run takes away


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
    table = _table(points, study.space)
    seconds, low, high = np.ones((3, len(points)))
    if cost is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ForerunWarning)
            seconds, (low, high) = cost.predict(table), cost.predict_interval(table)
    chosen = _choose(model, table, _table(judged, study.space), seconds, runs, budget_seconds)
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
    fine = model.feasible(_table(points, space))
    return [point for point, is_fine in zip(points, fine, strict=True) if is_fine]


def _model_of_cost(study: Study) -> PerformanceModel | None:
    """The model of the seconds, where another column is being learnt."""
    return model_of(study, "seconds").model if "seconds" in study.targets() else None


def _choose(
    model: PerformanceModel,
    table: pd.DataFrame,
    judged: pd.DataFrame,
    seconds: Array,
    runs: int,
    budget: float | None,
) -> list[tuple[int, float]]:
    """Greedy choice by expected reduction of variance a second."""
    covariance, prior, noise = _covariances(model, table, judged)
    chosen: list[tuple[int, float]] = []
    left, is_left = np.inf if budget is None else budget, np.ones(len(table), bool)
    total = float(prior[len(table) :].sum()) or 1.0
    for _ in range(runs):
        own = np.diag(covariance)[: len(table)]
        reduction = (covariance[: len(table), len(table) :] ** 2).sum(1) / (own + noise)
        worth = np.where(is_left & (seconds <= left), reduction / seconds, -np.inf)
        best = int(np.argmax(worth))
        if not np.isfinite(worth[best]):
            break
        chosen.append((best, float(reduction[best] / total)))
        is_left[best] = False
        left -= seconds[best]
        column = covariance[:, best] / np.sqrt(own[best] + noise)
        covariance = covariance - np.outer(column, column)
    return chosen


def _covariances(
    model: PerformanceModel, table: pd.DataFrame, judged: pd.DataFrame
) -> tuple[Array, Array, float]:
    """Covariance of the log target at candidates and judged points, given the runs; the noise."""
    columns, fitted = model.model_.columns, model.model_
    place = _place(columns, pd.concat([table, judged], ignore_index=True))
    if isinstance(fitted, AutoModel):
        correction, seen, edges = fitted.members[0].correction, fitted.seen.place, fitted.seen.edges
        size, noise = np.exp(2 * correction.log_scales[:FIXED])
        inverse_lengths = np.exp(-2 * correction.log_scales[FIXED:])
        noises = noise * correction.noise_shares
    else:  # a neutral process about the expression: one standard deviation is far
        seen, edges = _place(columns, pd.DataFrame(model.runs_["factors"])), fitted.edges
        size = noise = fitted.deviation**2
        inverse_lengths = np.ones(place.numbers.shape[1] + place.codes.shape[1])
        noises = np.full(len(seen), noise)

    def prior(a: Place, b: Place) -> Array:
        """What the runs are to teach: the constants of a formula, and a smooth correction."""
        squared = np.tensordot(inverse_lengths, distances(a, b), 1)
        alike = (a.codes[:, None] == b.codes[None]).sum(2)
        constants = 1.0 + SLOPE**2 * a.numbers @ b.numbers.T + LEVEL**2 * alike
        result: Array = size * kernel("matern5", squared)[0] + constants
        return result

    known = np.linalg.cholesky(prior(seen, seen) + np.diag(np.maximum(noises, 1e-6)))
    solved = solve_triangular(known, prior(seen, place), lower=True)
    covariance = prior(place, place) - solved.T @ solved
    covariance += _outside(edges, place.numbers, fitted.intervals.growth)
    return covariance, np.diag(covariance).copy(), float(max(noise, 1e-6))


def _place(columns: Columns, table: pd.DataFrame) -> Place:
    return place_of(columns, columns.numbers(table), columns.codes(table))


def _outside(edges: Edges, numbers: Array, growth: Array) -> Array:
    """The error that grows outside the measured range, as in a random walk from each edge."""
    total = np.zeros((len(numbers), len(numbers)))
    for beyond in (np.maximum(numbers - edges.high, 0), np.maximum(edges.low - numbers, 0)):
        for one, rate in zip(beyond.T, growth, strict=True):
            total += rate**2 * np.minimum(one[:, None], one[None])
    return total


def _table(points: list[Point], space: Space) -> pd.DataFrame:
    return pd.DataFrame([dict(point) for point in points], columns=list(space.names))
