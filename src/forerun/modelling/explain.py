"""What drives the target: each factor's effect, the formula's terms, and how sure all that is."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from forerun.modelling.auto import AutoModel
from forerun.modelling.columns import Array, Column, Columns
from forerun.modelling.expression import log_sum
from forerun.modelling.generic import GenericExpression
from forerun.modelling.generic_model import GenericModel
from forerun.modelling.resamples import resampled_constants
from forerun.modelling.terms import foldable, terms_of, without_common_levels, write_term
from forerun.modelling.writing import WRITERS
from forerun.quantities import amount, number

if TYPE_CHECKING:
    from forerun.modelling.estimator import PerformanceModel

UNCLEAR = 0.03  # change of the target that nobody would build on
LEAST_LIMIT = 0.2  # of the lowest target, below which a limit is none
MOST_WORKERS = 8  # times the largest measured count, as far as the search for the best goes


@dataclass(frozen=True, slots=True)
class FactorEffect:
    """What one factor does to the target."""

    name: str
    kind: str  # numeric or categorical
    scope: str  # intrinsic or extrinsic
    contribution: float  # share of the variation of the log target over the measured runs
    elasticity: float | None  # d log target / d log factor; None where it has levels instead
    low: float | None  # the elasticity over bootstrap resamples, 5 % and 95 %
    high: float | None
    levels: dict[str, float] | None  # target at each level over its geometric mean


@dataclass(frozen=True, slots=True)
class WorkersEffect:
    """How far more workers help, all else at `reference`."""

    name: str
    best: float  # count at which the target is lowest
    at_best: float
    limit: float  # what the target cannot fall below, however many
    reference: dict[str, float | str]
    at_reference: float  # target at the largest measured count
    measured: float  # that count

    def told(self, target: str, unit: str) -> str:
        """How far more help, in words that do not promise what nobody has run."""
        best, now, limit = (
            amount(value, target, unit) for value in (self.at_best, self.at_reference, self.limit)
        )
        count, most = number(self.best, 6), number(self.measured, 6)
        if abs(self.at_best / self.at_reference - 1) < UNCLEAR:
            return f"no clear effect up to {most}, the most measured ({now})"
        if self.best <= self.measured:
            return f"lowest at {count} with {best} ({now} at {most}, the most measured)"
        told = f"still falling at {most}, the most measured, with {now}; at {count}, which nobody"
        told += f" has run, the model expects {best}"
        return told + (f", and no count takes it below {limit}" if self.has_limit else "")

    @property
    def has_limit(self) -> bool:
        """Whether the limit says anything: a power of the count falls for ever."""
        return self.limit > LEAST_LIMIT * self.at_best


@dataclass(frozen=True, slots=True)
class TermEffect:
    """One term of the formula."""

    text: str
    share: float  # of the predicted target, mean over the measured runs
    dominates: str  # where it is more than half: "batch ≥ 64", "everywhere", "nowhere"


@dataclass(frozen=True, slots=True)
class ConstantSpread:
    """A constant of the formula over bootstrap resamples, 5 % and 95 %."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a fitted model says about its factors."""

    formula: str
    formula_share: float  # of the variance of the log target that the whole model carries
    factors: tuple[FactorEffect, ...]
    workers: WorkersEffect | None
    terms: tuple[TermEffect, ...]
    constants: tuple[ConstantSpread, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


def explain(model: PerformanceModel) -> Explanation:
    """Explain a fitted model by the runs that it remembers."""
    fitted, table = model.model_, pd.DataFrame(model.runs_["factors"])
    measured = np.log(np.array(model.runs_["target"]))
    resamples = resampled_constants(model, table, measured)
    return Explanation(
        formula=model.formula(),
        formula_share=_formula_share(measured, fitted.log_formula(table), fitted.log_time(table)),
        factors=_factors(model, table, resamples.elasticities),
        workers=_workers(model, table),
        terms=_terms(model, table),
        constants=tuple(
            ConstantSpread(name, value, *resamples.spread(name, value))
            for name, value in resamples.values.items()
        ),
    )


def _formula_share(measured: Array, formula: Array, whole: Array) -> float:
    """Explained variance of the formula over that of the whole model, within 0..1."""
    total = float(np.var(measured))
    if total == 0:
        return 1.0
    alone, both = (1 - float(np.mean((measured - p) ** 2)) / total for p in (formula, whole))
    return float(np.clip(alone / both, 0, 1)) if both > 0 else 1.0


def _factors(
    model: PerformanceModel, table: pd.DataFrame, elasticities: dict[str, Array]
) -> tuple[FactorEffect, ...]:
    columns = [c for c in model.model_.columns.all if not c.constant]
    moved = {c.name: _moved(model, table, c.name) for c in columns}
    total = sum(moved.values()) or 1.0
    effects = []
    for column in columns:
        spread = elasticities.get(column.name)
        low, high = np.quantile(spread, [0.05, 0.95]) if spread is not None else (None, None)
        numeric = column.kind != "levels"
        effects.append(
            FactorEffect(
                name=column.name,
                kind="numeric" if numeric else "categorical",
                scope="intrinsic" if column.name in model.intrinsic_ else "extrinsic",
                contribution=moved[column.name] / total,
                elasticity=_elasticity(model, table, column) if column.kind == "power" else None,
                low=None if low is None else float(low),
                high=None if high is None else float(high),
                levels=None if column.kind == "power" else _levels(model, table, column),
            )
        )
    return tuple(sorted(effects, key=lambda effect: -effect.contribution))


def _moved(model: PerformanceModel, table: pd.DataFrame, name: str) -> float:
    """Half the mean squared change of the log target when one factor is shuffled (Jansen)."""
    some = table.iloc[:300]
    before, total = model.model_.log_time(some), 0.0
    random = np.random.default_rng(0)
    for _ in range(4):
        shuffled = _with(some, name, some[name].to_numpy()[random.permutation(len(some))])
        total += float(np.mean((model.model_.log_time(shuffled) - before) ** 2)) / 8
    return total


def _elasticity(model: PerformanceModel, table: pd.DataFrame, column: Column) -> float:
    """Mean slope of the formula, d log t / d log x."""
    some = table.iloc[:300]
    values = some[column.name].to_numpy(float)
    up, down = (_with(some, column.name, values * f) for f in (1.01, 1 / 1.01))
    change = model.model_.log_formula(up) - model.model_.log_formula(down)
    return float(np.mean(change) / (2 * np.log(1.01)))


def _levels(model: PerformanceModel, table: pd.DataFrame, column: Column) -> dict[str, float]:
    """The target at each level over the geometric mean of all, other factors as measured.

    A factor that is 0 or negative somewhere is shown at its smallest and its largest value.
    """
    some = table.iloc[:100]
    levels: tuple[str | float, ...] = column.levels[:200] or (column.low, column.high)
    logs = [float(model.model_.log_time(_with(some, column.name, v)).mean()) for v in levels]
    names = [v if isinstance(v, str) else f"{v:g}" for v in levels]
    return {v: float(np.exp(one - np.mean(logs))) for v, one in zip(names, logs, strict=True)}


def _with(table: pd.DataFrame, name: str, values: Any) -> pd.DataFrame:
    """A copy with one column replaced; `assign` would take no factor called `self`."""
    changed = table.copy()
    changed[name] = values
    return changed


def reference_point(model: PerformanceModel, table: pd.DataFrame) -> dict[str, float | str]:
    """The middle of what was measured: medians, and the most frequent levels."""
    point: dict[str, float | str] = {}
    for column in model.model_.columns.all:
        values = table[column.name]
        if column.kind == "levels":
            point[column.name] = str(values.mode().iloc[0])
        else:  # a value that was measured, not one between two
            point[column.name] = float(values.quantile(0.5, interpolation="nearest"))
    return point


def _workers(model: PerformanceModel, table: pd.DataFrame) -> WorkersEffect | None:
    columns, roles = model.model_.columns, model.roles_
    names = [c.name for c in columns.numeric if roles.get(c.name) == "workers" and c.high > 0]
    if not names:
        return None
    name, reference = names[0], reference_point(model, table)
    column = columns[name]
    counts = _counts(column, table[name].to_numpy(float))
    points = pd.DataFrame([reference | {name: count} for count in [*counts, 1e12]])
    times = np.exp(np.clip(model.model_.log_time(points), -700, 700))[:-1]
    largest = int(np.searchsorted(counts, column.high))
    best = int(np.argmin(times[: largest + 1]))
    fall = 0.0
    # Where the target rises again before the largest measured count, nothing beyond is better.
    if counts[best] > 0.8 * column.high and column.kind == "power":
        best = int(np.argmin(times))
        formula = model.model_.log_formula(points)
        fall = min(float(formula[-1] - formula[best]), 0.0)
    del reference[name]
    return WorkersEffect(
        name=name,
        best=float(counts[best]),
        at_best=float(times[best]),
        limit=float(times[best] * np.exp(fall)),
        reference=reference,
        at_reference=float(times[largest]),
        measured=float(counts[largest]),
    )


def _counts(column: Column, measured: Array) -> Array:
    """Worker counts to try: those measured, for a power beyond them too; whole if those are."""
    most = column.high * (MOST_WORKERS if column.kind == "power" else 1)
    counts = np.geomspace(measured[measured > 0].min(), most, 200)
    if (measured == np.round(measured)).all():
        counts = np.round(counts)
    return np.unique([column.low, *counts, column.high])


def _terms(model: PerformanceModel, table: pd.DataFrame) -> tuple[TermEffect, ...]:
    fitted = model.model_
    if isinstance(fitted, GenericModel):
        texts, shares = _generic_shares(fitted.expression, table)
    else:
        texts, shares = _shares(fitted, table)
    effects = [
        TermEffect(text, float(share.mean()), _dominates(fitted.columns, table, share > 0.5))
        for text, share in zip(texts, shares.T, strict=True)
    ]
    return tuple(sorted(effects, key=lambda effect: -effect.share))


def _generic_shares(expression: GenericExpression, table: pd.DataFrame) -> tuple[list[str], Array]:
    """Each summand with all multipliers, as an expression of its own; constants are one."""
    scaled = any(any(scaling.exponents) for scaling in expression.scalings)
    parts = [part for part in expression.parts if any(part.coefficients)]
    fixed = [p for p in parts if not scaled and p.form in ("constant", "power") and not p.exponent]
    alone = [replace(expression, parts=(p,), constant=0.0) for p in parts if p not in fixed]
    if fixed or expression.constant:
        alone.append(replace(expression, parts=tuple(fixed), scalings=()))
    numbers, codes = expression.columns.numbers(table), expression.columns.codes(table)
    logs = np.stack([one.log_time(numbers, codes) for one in alone], axis=1)
    times = np.exp(logs - logs.max(axis=1, keepdims=True))
    texts = [one.formula("text", "t").removeprefix("t = ") for one in alone]
    return texts, times / times.sum(axis=1, keepdims=True)


def _shares(fitted: AutoModel, table: pd.DataFrame) -> tuple[list[str], Array]:
    design, columns = fitted.design, fitted.columns
    phi = design.phi(columns.numbers(table), columns.codes(table))
    folded = foldable(fitted.formula, design, fitted.centre)
    _, terms = without_common_levels(terms_of(fitted.formula, design, fitted.centre, folded))
    texts = [write_term(term, design, WRITERS["text"], folded) for term in terms]
    return texts, log_sum(phi, fitted.formula.theta)[1]


def _dominates(columns: Columns, table: pd.DataFrame, where: Array) -> str:
    """The single bound on one factor that best says where a term is more than half."""
    if where.all():
        return "everywhere"
    if not where.any():
        return "nowhere"
    share = float(where.mean())
    best, found = max(share, 1 - share, 0.8), ""  # what always or never saying so gets right
    for column in columns.numeric:
        values = table[column.name].to_numpy(float)
        for edge in np.unique(values)[1:]:
            above = values >= edge
            for side, sign in ((above, "≥"), (~above, "<")):
                right = float(np.mean(side == where))
                if right > best:
                    best, found = right, f"{column.name} {sign} {edge:g}"
    return found or f"in {share:.0%} of the runs, by no single factor"
