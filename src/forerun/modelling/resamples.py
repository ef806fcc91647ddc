"""How stable a formula's constants are: refits to bootstrap resamples of the runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from forerun.modelling.auto import AutoModel
from forerun.modelling.columns import Array
from forerun.modelling.expression import Phases, log_sum, prior, solve, spread_of, tail_weights
from forerun.modelling.generic import design_from, fit_resamples
from forerun.modelling.phases import Data, single
from forerun.modelling.terms import constants

if TYPE_CHECKING:
    from forerun.modelling.estimator import PerformanceModel

RESAMPLES = 60
STEP = 0.01  # of a logarithm, for slopes


@dataclass(frozen=True)
class Resamples:
    """Each constant's value, and its values over the resamples; likewise the elasticities."""

    values: dict[str, float]
    over: dict[str, Array]
    elasticities: dict[str, Array]

    def spread(self, name: str, value: float) -> tuple[float, float]:
        found = self.over.get(name, np.array([value]))
        low, high = np.quantile(found, [0.05, 0.95])
        return float(min(low, value)), float(max(high, value))


def resampled_constants(model: PerformanceModel, table: pd.DataFrame, measured: Array) -> Resamples:
    """Refit the formula to resamples of the remembered runs."""
    fitted = model.model_
    if isinstance(fitted, AutoModel):
        return _of_phases(fitted, table, measured)
    design = design_from(fitted.columns, table, model.intrinsic_)
    resamples = fit_resamples(
        design, np.exp(measured), loss=model.loss, penalty=model.penalty,
        strength=fitted.strength, exponent_bound=model.exponent_bound, count=RESAMPLES,
    )  # fmt: skip
    listed = [one.constants() for one in resamples]
    values = fitted.expression.constants()
    over = _over(values, listed)
    numbers, codes = fitted.columns.numbers(table), fitted.columns.codes(table)
    elasticities = {}
    for place, column in enumerate(fitted.columns.numeric):
        if column.kind == "power":
            step = np.where(np.arange(numbers.shape[1]) == place, STEP, 0.0)
            up, down = numbers + step, numbers - step
            slopes = [one.log_time(up, codes) - one.log_time(down, codes) for one in resamples]
            elasticities[column.name] = np.array(slopes).mean(axis=1) / (2 * STEP)
    return Resamples(values, over, elasticities)


def _of_phases(fitted: AutoModel, table: pd.DataFrame, measured: Array) -> Resamples:
    design, columns = fitted.design, fitted.columns
    codes = columns.codes(table)
    phi = design.phi(columns.numbers(table), codes)
    data = Data(design, phi, codes, measured - fitted.centre)
    random = np.random.default_rng(0)
    count = len(measured)
    drawn = random.multinomial(count, np.full(count, 1 / count), RESAMPLES).astype(float)
    refit = _simple if fitted.kind == "simple" else _free
    thetas = refit(fitted.formula, data, drawn)
    values = constants(fitted.formula, design, fitted.centre)
    if fitted.kind == "simple":  # its exponents were chosen from a list, not estimated
        values = {name: value for name, value in values.items() if "exponent" not in name}
    listed = [
        constants(Phases(theta, fitted.formula.outer), design, fitted.centre) for theta in thetas
    ]
    over = _over(values, listed)
    shares = [log_sum(phi, theta)[1] for theta in thetas]
    elasticities = {
        column.name: np.array(
            [
                design.elasticities(phi, theta, share, place).mean()
                for theta, share in zip(thetas, shares, strict=True)
            ]
        )
        for place, column in enumerate(columns.numeric)
        if column.kind == "power"
    }
    return Resamples(values, over, elasticities)


def _over(values: dict[str, float], listed: list[dict[str, float]]) -> dict[str, Array]:
    """Each constant's values over the resamples."""
    return {name: np.array([one.get(name, neutral(name)) for one in listed]) for name in values}


def neutral(name: str) -> float:
    """What a constant is where a resample left it out: a level's multiple is then 1."""
    return 1.0 if " = " in name else 0.0


def _free(formula: Phases, data: Data, drawn: Array) -> list[Array]:
    """All exponents and coefficients anew, from where they are."""
    target = data.target - formula.shared(data.design, data.codes)
    residual = target - log_sum(data.phi, formula.theta)[0]
    begin = single(data)  # as in the fit itself
    mean, precision = prior(len(formula.theta), data.design.units, begin.noise, begin.scale)
    precision = precision + np.where(formula.theta == 0, 1e6, 0.0)  # what was left out stays out
    weights = drawn * tail_weights(residual, max(spread_of(residual), begin.noise / 4))
    found: list[Array] = []
    for start in range(0, len(weights), 10):  # ten at a time: memory stays bounded
        some = weights[start : start + 10]
        starts = np.repeat(formula.theta[None], len(some), axis=0)
        found += list(solve(data.phi, target, some, starts, mean, precision, 12)[0])
    return [np.where(formula.theta == 0, 0.0, theta) for theta in found]


def _simple(formula: Phases, data: Data, drawn: Array) -> list[Array]:
    """The coefficients and the levels anew; the simple exponents stay."""
    target = data.target - formula.shared(data.design, data.codes)
    terms = np.exp(np.clip(data.phi @ formula.theta.T - target[:, None], -200, 200))
    residual = -np.log(np.maximum(terms.sum(1), 1e-200))
    weights = tail_weights(residual, spread_of(residual))
    found = []
    for one in drawn:
        root = np.sqrt(one * weights)
        multiples, _ = nnls(terms * root[:, None], root)
        theta = formula.theta.copy()
        theta[:, 0] += np.log(np.maximum(multiples, 1e-12))
        left = -np.log(np.maximum(terms @ multiples, 1e-200)) * root**2
        start = data.design.powers.stop
        for place in data.design.inner:
            codes, count = data.codes[:, place], len(data.design.columns.levels[place].levels)
            runs = np.bincount(codes, weights=root**2, minlength=count) + 0.5
            theta[:, start : start + count] += np.bincount(codes, left, count) / runs
            start += count
        found.append(theta)
    return found
