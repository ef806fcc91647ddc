"""A sum of product terms in words and in the user's units."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from forerun.modelling.columns import LOG_LIMIT, Array, Column
from forerun.modelling.expression import Design, Phases
from forerun.modelling.writing import WRITERS, Style, Writer

FOLDABLE = 600.0  # largest logarithm of a coefficient that is still comfortably a float
NEGLIGIBLE = 0.01  # an exponent that moves the log time by less over the whole range is left out


@dataclass(frozen=True)
class Term:
    """One product, in the user's units: coefficient * prod x^p * prod exp(r (x - c)) * levels.

    For the workers of an exchange also 1 - 1/x.
    """

    log_coefficient: float
    exponents: dict[str, float]
    exchanges: frozenset[str]
    levels: dict[str, dict[str, float]]  # multiples of the first level


def tidy(formula: Phases, design: Design) -> Phases:
    """Without exponents that carry nothing, terms of falling coefficient."""
    theta = formula.theta.copy()
    for place, column in enumerate(design.columns.numeric, start=1):
        low, high = column.transform(np.array([column.low, column.high]))
        theta[np.abs(theta[:, place]) * (high - low) < NEGLIGIBLE, place] = 0.0
    return replace(formula, theta=theta[np.argsort(-theta[:, 0], kind="stable")])


def terms_of(formula: Phases, design: Design, centre: float, folded: bool = True) -> list[Term]:
    """The terms of a formula; `folded` has the scale of each power inside the coefficient."""
    return [_term(row, design, centre, folded) for row in formula.theta]


def foldable(formula: Phases, design: Design, centre: float) -> bool:
    """Whether coefficients in the user's units are numbers that a float can hold."""
    return all(abs(t.log_coefficient) < FOLDABLE for t in terms_of(formula, design, centre))


def write(formula: Phases, design: Design, centre: float, style: Style, target: str) -> str:
    """The whole formula. In Python, `exp` is that of math or NumPy and levels are text."""
    writer, folded = WRITERS[style], foldable(formula, design, centre)
    terms = terms_of(formula, design, centre, folded)
    common, terms = without_common_levels(terms)
    parts = [write_term(term, design, writer, folded) for term in terms]
    shared = [writer.levels(name, multiples) for name, multiples in common.items()]
    shared += _shared(formula, design, writer)
    total = " + ".join(parts)
    if shared:
        total = writer.product([f"({total})" if len(parts) > 1 else total, *shared])
    return writer.whole(target, total)


def without_common_levels(terms: list[Term]) -> tuple[dict[str, dict[str, float]], list[Term]]:
    """The levels that multiply all terms alike, and the terms without them."""
    common = terms[0].levels if all(term.levels == terms[0].levels for term in terms) else {}
    return common, [replace(term, levels={}) if common else term for term in terms]


def write_term(term: Term, design: Design, writer: Writer, folded: bool = True) -> str:
    """One term, as a product."""
    factors = [writer.number(_exp(term.log_coefficient))]
    for column in design.columns.numeric:
        exponent = term.exponents[column.name]
        if column.kind == "power":
            base = writer.name(column.name)
            if not folded:
                base = writer.ratio(column.name, math.exp(column.centre))
            factors += writer.raised(base, exponent)
            if column.name in term.exchanges:
                factors.append(writer.exchange(column.name))
        elif exponent:
            factors.append(writer.exponential(exponent / column.spread, column.name, column.centre))
    factors += [writer.levels(name, multiples) for name, multiples in term.levels.items()]
    return writer.product(factors)


def constants(formula: Phases, design: Design, centre: float) -> dict[str, float]:
    """Every constant by what it is, in the user's units."""
    found: dict[str, float] = {}
    folded = foldable(formula, design, centre)
    common, terms = without_common_levels(terms_of(formula, design, centre, folded))
    for number, term in enumerate(terms, start=1):
        where = f", term {number}" if len(terms) > 1 else ""
        found[f"coefficient{where}"] = _exp(term.log_coefficient)
        for name, exponent in term.exponents.items():
            if exponent:
                rate = design.columns[name].kind == "linear"
                found[f"{'rate' if rate else 'exponent'} of {name}{where}"] = (
                    exponent / design.columns[name].spread if rate else exponent
                )
        found |= _multiples(term.levels, where)
    return found | _multiples(common, "")


def _multiples(levels: dict[str, dict[str, float]], where: str) -> dict[str, float]:
    return {
        f"{name} = {level}{where}": value
        for name, multiples in levels.items()
        for level, value in list(multiples.items())[1:]  # the first is 1
    }


def _term(row: Array, design: Design, centre: float, folded: bool) -> Term:
    exponents = {
        column.name: float(p)
        for column, p in zip(design.columns.numeric, row[design.powers], strict=True)
    }
    exchanges = frozenset(
        design.columns.numeric[place].name
        for place, exponent in zip(design.exchanging, row[design.exchanges], strict=True)
        if exponent
    )
    logarithm = float(row[0]) + centre
    if folded:
        logarithm -= sum(
            exponents[c.name] * c.centre for c in design.columns.numeric if c.kind == "power"
        )
    levels: dict[str, dict[str, float]] = {}
    for column, effects in _inner(row, design):
        logarithm += float(effects[0])
        multiples = {
            level: _exp(float(effect - effects[0]))
            for level, effect in zip(column.levels, effects, strict=True)
        }
        if any(abs(math.log(multiple)) > NEGLIGIBLE / 10 for multiple in multiples.values()):
            levels[column.name] = multiples
    return Term(logarithm, exponents, exchanges, levels)


def _inner(row: Array, design: Design) -> Iterator[tuple[Column, Array]]:
    start = design.powers.stop
    for place in design.inner:
        column = design.columns.levels[place]
        stop = start + len(column.levels)
        yield column, row[start:stop]
        start = stop


def _shared(formula: Phases, design: Design, writer: Writer) -> Iterator[str]:
    for place, effects in zip(design.outer, formula.outer, strict=True):
        column = design.columns.levels[place]
        multiples = {v: _exp(float(e)) for v, e in zip(column.levels, effects, strict=True)}
        yield writer.levels(column.name, multiples)


def _exp(logarithm: float) -> float:
    """Never 0 and never infinite, as predictions are."""
    return math.exp(min(max(logarithm, -LOG_LIMIT), LOG_LIMIT))
