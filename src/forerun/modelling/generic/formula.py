"""The generic expression in words: for a terminal, for a paper, and for Python.

Constants are printed in the user's units. The scale of every power is folded into the coefficients.
Where that would leave the range of floating point, factors are divided by their geometric mean.
"""

from __future__ import annotations

import math

from forerun.modelling.columns import Column
from forerun.modelling.generic.expression import GenericExpression, Part, Scaling
from forerun.modelling.writing import WRITERS, Style, Writer

FOLDABLE = 600.0  # largest logarithm of a coefficient that is still comfortably a float


def write(expression: GenericExpression, style: Style, target: str) -> str:
    """The formula. Parts and powers that carry nothing are left out.

    In Python, names are those of the factors; one that is no identifier is read from a mapping
    `point`, `exp` is that of `math` or NumPy, and levels are text.
    """
    writer, folded = WRITERS[style], _foldable(expression)
    multipliers = [
        _multiplier(writer, expression.columns[scaling.name], scaling, folded)
        for scaling in expression.scalings
        if any(scaling.exponents)
    ]
    parts, constant = expression.parts, expression.constant
    if not multipliers:  # then a_0, x^0 and C are one constant
        constant += sum(part.coefficients[0] for part in parts if _is_constant(part))
        parts = tuple(part for part in parts if not _is_constant(part))
    terms = [text for part in parts for text in _terms(writer, expression, part, folded)]
    total = " + ".join(terms)
    if terms and multipliers:
        total = writer.product([f"({total})" if len(terms) > 1 else total, *multipliers])
    if constant or not terms:
        seconds = writer.number(math.exp(expression.log_unit) * constant)
        total = f"{total} + {seconds}" if terms else seconds
    return writer.whole(target, total)


def constants(expression: GenericExpression) -> dict[str, float]:
    """Every constant of the formula by what it is, in the user's units."""
    found: dict[str, float] = {}
    folded = _foldable(expression)
    for part in expression.parts:
        values = [math.exp(value) for value in _log_coefficients(expression, part, folded)]
        if part.form == "levels":
            levels = expression.columns[part.name].levels
            found |= {f"{part.name} = {x}": v for x, v in zip(levels, values, strict=True)}
        elif part.form == "ramps":
            found |= {f"rise with {part.name}": values[0], f"fall with {part.name}": values[1]}
        elif part.form == "power":
            found[f"coefficient of {part.name}"] = values[0]
            found[f"exponent of {part.name}"] = part.exponent
        else:
            found["coefficient"] = values[0]
    for scaling in expression.scalings:
        if scaling.form == "levels":
            levels = expression.columns[scaling.name].levels
            effects = map(math.exp, scaling.exponents)
            found |= {f"{scaling.name} = {x}": v for x, v in zip(levels, effects, strict=True)}
        else:
            found[f"exponent of {scaling.name}"] = scaling.exponents[0]
    return found | {"constant": math.exp(expression.log_unit) * expression.constant}


def _is_constant(part: Part) -> bool:
    return part.form == "constant" or (part.form == "power" and part.exponent == 0.0)


def _log_coefficients(expression: GenericExpression, part: Part, folded: bool) -> list[float]:
    """Logarithms of a part's coefficients in the user's units; minus infinity for 0."""
    unit = expression.log_unit
    if folded:
        powers = [(s.name, s.exponents[0]) for s in expression.scalings if s.form == "power"]
        if part.form == "power":
            powers.append((part.name, part.exponent))
        unit -= sum(exponent * expression.columns[name].centre for name, exponent in powers)
    return [unit + math.log(a) if a else -math.inf for a in part.coefficients]


def _foldable(expression: GenericExpression) -> bool:
    logs = (_log_coefficients(expression, part, folded=True) for part in expression.parts)
    return all(abs(value) < FOLDABLE for part in logs for value in part if value > -math.inf)


def _base(writer: Writer, column: Column, folded: bool) -> str:
    return (
        writer.name(column.name) if folded else writer.ratio(column.name, math.exp(column.centre))
    )


def _terms(writer: Writer, expression: GenericExpression, part: Part, folded: bool) -> list[str]:
    """What a part adds to the sum: nothing, one term, or a ramp each way."""
    values = [math.exp(value) for value in _log_coefficients(expression, part, folded)]
    if not any(values):
        return []
    if part.form == "constant":
        return [writer.number(values[0])]
    column = expression.columns[part.name]
    if part.form == "levels":
        return [writer.levels(part.name, dict(zip(column.levels, values, strict=True)))]
    if part.form == "power":
        power = writer.raised(_base(writer, column, folded), part.exponent)
        return [writer.product([writer.number(values[0]), *power])]
    slopes = [value / (column.high - column.low) for value in values]
    ramps = writer.above(column.name, column.low), writer.below(column.name, column.high)
    return [
        writer.product([writer.number(slope), ramp])
        for slope, ramp in zip(slopes, ramps, strict=True)
        if slope
    ]


def _multiplier(writer: Writer, column: Column, scaling: Scaling, folded: bool) -> str:
    if scaling.form == "levels":
        values = map(math.exp, scaling.exponents)
        return writer.levels(scaling.name, dict(zip(column.levels, values, strict=True)))
    exponent = scaling.exponents[0]
    if scaling.form == "power":
        return writer.raised(_base(writer, column, folded), exponent)[0]
    return writer.exponential(exponent / column.spread, column.name, column.centre)
