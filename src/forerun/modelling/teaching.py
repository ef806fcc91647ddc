"""What a run would teach: how far it lowers the expected error at other points of the space.

The log of the target is taken for a Gaussian process. Its covariance has two parts: what is not
known of the constants of the fitted formulas, and the smooth correction. Where a formula is a sum
of terms, its logarithm depends on the constants of each by that term's share of the time,

    d log t / d theta_k = share_k(x) * phi(x),

so a run that is nearly all start-up teaches little of what large runs cost, however cheap it is.
Levels and factors that no run has varied yet have their place in it too: the whole of what is
assumed of them beforehand is unknown.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.linalg import solve_triangular

from forerun.errors import ForerunWarning
from forerun.factors import Space, Value
from forerun.modelling.auto import AutoModel
from forerun.modelling.columns import Array, Columns, Mask, as_levels
from forerun.modelling.correction import FIXED, Place, cholesky, kernel, weighted_distances
from forerun.modelling.expression import log_sum

if TYPE_CHECKING:
    from forerun.modelling.estimator import PerformanceModel

SLOPE = 0.5  # change of the log target over a standard deviation of a number, before any run
LEVEL = 0.5  # the same for a level
CONSTANT = 1.0  # and of the whole
SIZE = 0.2  # of the smooth correction before there is a model
LENGTH = 2.0  # and how far it reaches, in standard deviations
NOISE = 0.1  # of a run's log target, before there is a model
LEAST_NOISE = 0.01
MOST_SEEN = 1_000  # runs that the process is conditioned on


@dataclass(frozen=True)
class Where:
    """Points as the process sees them."""

    place: Place  # numbers in standard deviations over the space; level codes
    shares: tuple[Array, ...]  # of each formula: the terms' shares of the time, one row a point

    def rows(self, keep: Array | Mask | list[int]) -> Where:
        return Where(self.place.rows(keep), tuple(share[keep] for share in self.shares))


class Process:
    """The log target over a space, as far as the model does not know it.

    `reference` holds random points of the space, which set what is near and far.
    """

    def __init__(
        self, space: Space, reference: pd.DataFrame, model: PerformanceModel | None = None
    ) -> None:
        self.space, self.model = space, model
        numeric = [name for name, factor in space.items() if factor.kind == "numeric"]
        self._numeric, self._categories = numeric, [n for n in space.names if n not in numeric]
        self._levels = {
            name: pd.Index(as_levels(pd.Series([*space[name].values, *reference[name]])).unique())
            for name in self._categories
        }
        values = [reference[name].to_numpy(float) for name in numeric]
        self._is_power = [bool((column > 0).all()) for column in values]
        logs = [self._scaled(i, column) for i, column in enumerate(values)]
        self._centres = [float(column.mean()) for column in logs]
        self._spreads = [float(column.std()) or 1.0 for column in logs]
        self.weights, self.size, self.noise, self._inverse_lengths = self._learnt()
        self._slopes = np.full(len(numeric), SLOPE)
        self._steps = np.full(len(self._categories), LEVEL)

    def where(self, table: pd.DataFrame) -> Where:
        """Where the points of a table lie; their levels need not have been measured."""
        columns = [
            (self._scaled(i, table[name].to_numpy(float)) - self._centres[i]) / self._spreads[i]
            for i, name in enumerate(self._numeric)
        ]
        codes = [self._levels[n].get_indexer(as_levels(table[n])) for n in self._categories]
        place = Place(
            np.array(columns, float).reshape(len(columns), len(table)).T,
            np.array(codes, np.int64).reshape(len(codes), len(table)).T,
        )
        return Where(place, self._shares(table))

    def covariance(self, a: Where, b: Where) -> Array:
        """Before any run, between the points of `a` and of `b`."""
        squared = weighted_distances(a.place, b.place, self._inverse_lengths)
        alike = np.zeros_like(squared)
        for step, one, other in zip(self._steps, a.place.codes.T, b.place.codes.T, strict=True):
            alike += step**2 * (one[:, None] == other[None])
        terms = CONSTANT**2 + (self._slopes**2 * a.place.numbers) @ b.place.numbers.T + alike
        total: Array = self.size * kernel("matern5", squared)[0]
        for weight, one, other in zip(self.weights, a.shares, b.shares, strict=True):
            total += weight * (one @ other.T) * terms
        return total

    def variance(self, a: Where) -> Array:
        """Before any run, at each point."""
        terms = CONSTANT**2 + a.place.numbers**2 @ self._slopes**2 + (self._steps**2).sum()
        shares = [w * (share**2).sum(1) for w, share in zip(self.weights, a.shares, strict=True)]
        result: Array = self.size + sum(shares) * terms
        return result

    def _scaled(self, i: int, values: Array) -> Array:
        if not self._is_power[i]:
            return values
        return np.log(np.maximum(values, 1e-300))

    @property
    def _fitted(self) -> AutoModel | None:
        found = None if self.model is None else self.model.model_
        return found if isinstance(found, AutoModel) else None

    def _learnt(self) -> tuple[Array, float, float, Array]:
        """Weights of the formulas; size, noise and inverse squared lengths of the correction."""
        lengths = np.full(len(self._numeric) + len(self._categories), LENGTH**-2)
        fitted = self._fitted
        if fitted is None:
            deviation = NOISE if self.model is None else float(self.model.model_.deviation)  # type: ignore[union-attr]
            noise = max(deviation, LEAST_NOISE) ** 2
            return np.ones(1), max(SIZE**2, noise), noise, lengths
        scales = np.array([m.correction.log_scales for m in fitted.members])
        own = fitted.weights @ np.exp(-2 * scales[:, FIXED:])
        size, noise = fitted.weights @ np.exp(2 * scales[:, :FIXED])
        names = [c.name for c in (*fitted.columns.numeric, *fitted.columns.levels)]
        for place, name in enumerate([*self._numeric, *self._categories]):
            if name in names:
                lengths[place] = own[names.index(name)] * self._stretch(fitted.columns, name, place)
        return fitted.weights, float(size), max(float(noise), LEAST_NOISE**2), lengths

    def _stretch(self, columns: Columns, name: str, place: int) -> float:
        """Squared ratio of the spread in the space to that of the runs, which lengths refer to."""
        if place >= len(self._numeric):
            return 1.0
        column = columns[name]
        same = (column.kind == "power") == self._is_power[place]
        return (self._spreads[place] / column.spread) ** 2 if same else 1.0

    def _shares(self, table: pd.DataFrame) -> tuple[Array, ...]:
        fitted = self._fitted
        if fitted is None:
            return (np.ones((len(table), 1)),)
        known = stand_in(fitted.columns, table)
        phi = fitted.design.phi(fitted.columns.numbers(known), fitted.columns.codes(known))
        return tuple(log_sum(phi, member.formula.theta)[1] for member in fitted.members)


def stand_in(columns: Columns, table: pd.DataFrame) -> pd.DataFrame:
    """The table with a measured level in place of each that was not, so that it can be asked."""
    changed = {}
    for column in columns.all:
        values = table[column.name]
        if column.kind == "levels":
            text = as_levels(values)
            known = text.isin(column.levels)
            if not known.all():
                changed[column.name] = text.where(known, column.levels[0])
        elif column.kind == "power" and (values <= 0).any():
            changed[column.name] = values.where(values > 0, column.low)
    return table.assign(**changed) if changed else table


class Lesson:
    """The process given what was run, at candidates for a run and at points to be judged by."""

    def __init__(
        self, process: Process, seen: pd.DataFrame, candidates: pd.DataFrame, judged: pd.DataFrame
    ) -> None:
        self.process = process
        self._seen = process.where(seen.iloc[-MOST_SEEN:])
        self._candidates, self._judged = process.where(candidates), process.where(judged)
        self._cross = self._given(self._candidates, self._judged)
        self.own = np.maximum(
            process.variance(self._candidates) - (self._solved(self._candidates) ** 2).sum(0), 0
        )
        self.left = np.maximum(
            process.variance(self._judged) - (self._solved(self._judged) ** 2).sum(0), 0
        )
        self._learnt: list[Array] = []  # one column of candidates' covariance a run taken for made

    @property
    def expected(self) -> float:
        """The sum of the judged points' deviations."""
        return float(np.sqrt(self.left).sum())

    def gains(self) -> Array:
        """For each candidate: by how much the sum of the judged points' deviations would fall."""
        after = self.left - self.moves() ** 2
        gains: Array = (np.sqrt(self.left) - np.sqrt(np.maximum(after, 0))).sum(1)
        return gains

    def moves(self) -> Array:
        """For each candidate and judged point: how far a run there moves what is expected here.

        It is the deviation of that move; all judged points move by the same multiple of it.
        """
        result: Array = self._cross / np.sqrt(self.own + self.process.noise)[:, None]
        return result

    @property
    def covariance(self) -> Array:
        """Of each candidate and each judged point."""
        return self._cross

    def alike(self) -> Array:
        """Covariance of each candidate and the judged point beside it."""
        result: Array = np.diagonal(self._cross)
        return result

    def ratios(self) -> Array:
        """Deviation of the difference between each candidate and the judged point beside it."""
        result: Array = np.sqrt(np.maximum(self.own + self.left - 2 * self.alike(), 0.0))
        return result

    def learn(self, candidate: int) -> None:
        """Take a run at this candidate for made."""
        one = self._candidates.rows([candidate])
        column = self._given(self._candidates, one)[:, 0]
        for earlier in self._learnt:
            column = column - earlier * earlier[candidate]
        spread = np.sqrt(self.own[candidate] + self.process.noise)
        row = self._cross[candidate] / spread
        column = column / spread
        self._cross = self._cross - np.outer(column, row)
        self.own = np.maximum(self.own - column**2, 0)
        self.left = np.maximum(self.left - row**2, 0)
        self._learnt.append(column)

    def _given(self, a: Where, b: Where) -> Array:
        """Covariance between two sets of points, given what was run."""
        return self.process.covariance(a, b) - self._solved(a).T @ self._solved(b)

    def _solved(self, a: Where) -> Array:
        before = self.process.covariance(self._seen, a)
        found: Array = solve_triangular(self._factor, before, lower=True, check_finite=False)
        return found

    @cached_property
    def _factor(self) -> Array:
        covariance = self.process.covariance(self._seen, self._seen)
        covariance[np.diag_indices_from(covariance)] += self.process.noise
        return cholesky(covariance)


def predicted(model: PerformanceModel, table: pd.DataFrame) -> Array:
    """What the model says, with a measured level in place of each that was not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForerunWarning)
        return model.predict(stand_in(model.model_.columns, table))


def expected_seconds(model: PerformanceModel, table: pd.DataFrame) -> Array:
    """Predicted times, never below half the quickest run."""
    floor = 0.5 * min(model.runs_["target"])
    result: Array = np.maximum(predicted(model, table), floor)
    return result


def interpolated(process: Process, seen: pd.DataFrame, logs: Array, table: pd.DataFrame) -> Array:
    """What the process alone expects at the points of a table, given the logs at those seen."""
    where = process.where(seen)
    covariance = process.covariance(where, where) + process.noise * np.eye(len(seen))
    centre = float(np.mean(logs))
    coefficients = np.linalg.solve(covariance, logs - centre)
    result: Array = process.covariance(process.where(table), where) @ coefficients + centre
    return result


def as_table(points: Iterable[Mapping[str, Value]], space: Space) -> pd.DataFrame:
    """One row a point, the factors in the order of the space."""
    return pd.DataFrame([dict(point) for point in points], columns=list(space.names))


def ratio_deviation(
    model: PerformanceModel, space: Space, one: pd.DataFrame, other: pd.DataFrame
) -> Array:
    """Standard deviation of the log of the ratio of two times, row by row, as the model knows it.

    What the model does not know of both alike says nothing of their ratio: two points that differ
    in one factor are told apart far better than either is known.
    """
    seen = pd.DataFrame(model.runs_["factors"])[list(space.names)]
    process = Process(space, pd.concat([seen, one, other], ignore_index=True), model)
    return Lesson(process, seen, one, other).ratios()
