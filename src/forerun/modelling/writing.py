"""How formulas are written: for a terminal, for a paper, and for Python."""

from __future__ import annotations

import keyword
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Literal

from forerun.errors import one_line

Style = Literal["text", "latex", "python"]

TAKEN = ("exp", "max", "point")  # what a Python formula itself uses
MOST_LEVELS = 8  # levels of a category that are listed for people


class Writer(ABC):
    """How one style writes numbers, names and what is built of them."""

    times = "·"

    @abstractmethod
    def number(self, value: float) -> str: ...

    @abstractmethod
    def name(self, name: str) -> str: ...

    @abstractmethod
    def power(self, base: str, exponent: float) -> str: ...

    @abstractmethod
    def levels(self, name: str, values: Mapping[str, float]) -> str: ...

    @abstractmethod
    def whole(self, target: str, expression: str) -> str: ...

    def ratio(self, name: str, unit: float) -> str:
        return f"({self.name(name)}/{self.number(unit)})"

    def exchange(self, name: str) -> str:
        return f"(1 - 1/{self.name(name)})"

    def above(self, name: str, low: float) -> str:
        return f"max(0, {self.minus(name, low)})"

    def below(self, name: str, high: float) -> str:
        return f"max(0, {self.number(high)} - {self.name(name)})"

    def exponential(self, rate: float, name: str, centre: float) -> str:
        distance = f"({self.minus(name, centre)})" if centre else self.name(name)
        return f"exp({self.product([self.number(rate), distance])})"

    def minus(self, name: str, value: float) -> str:
        sign, size = ("-", value) if value >= 0 else ("+", -value)
        return f"{self.name(name)} {sign} {self.number(size)}" if value else self.name(name)

    def product(self, factors: Sequence[str]) -> str:
        return self.times.join(factors)

    def raised(self, base: str, exponent: float) -> list[str]:
        """A power as a factor of a product: none for x^0, x for x^1."""
        if exponent == 0.0:
            return []
        return [base if self.number(exponent) in ("1", "1.0") else self.power(base, exponent)]


class _Text(Writer):
    def number(self, value: float) -> str:
        return f"{value:.4g}"

    def name(self, name: str) -> str:
        return one_line(name)

    def power(self, base: str, exponent: float) -> str:
        return f"{base}^{self.number(exponent)}"

    def levels(self, name: str, values: Mapping[str, float]) -> str:
        shown = [f"{self.name(level)} {self.number(v)}" for level, v in _first(values).items()]
        more = len(values) - len(shown)
        return f"[{self.name(name)}: {', '.join(shown)}{f', … {more} more' if more else ''}]"

    def whole(self, target: str, expression: str) -> str:
        return f"{self.name(target)} = {expression}"


class _Latex(_Text):
    times = r" \cdot "
    _escapes = str.maketrans(
        {c: rf"\{c}" for c in "_%$ {}"}
        | {c: rf"\text{{\{c}}}" for c in "&#"}  # Matplotlib knows these as text only
        | {c: rf"\text{{{c}}}" for c in '"`'}
        | {"\\": r"\backslash{}", "^": r"\hat{}", "~": r"\sim{}"}
    )

    def number(self, value: float) -> str:
        mantissa, _, power = f"{value:.4g}".partition("e")
        return rf"{mantissa} \times 10^{{{int(power)}}}" if power else mantissa

    def name(self, name: str) -> str:
        return rf"\mathrm{{{one_line(name).translate(self._escapes)}}}"

    def power(self, base: str, exponent: float) -> str:
        return f"{base}^{{{self.number(exponent)}}}"

    def ratio(self, name: str, unit: float) -> str:
        return rf"\left(\frac{{{self.name(name)}}}{{{self.number(unit)}}}\right)"

    def exchange(self, name: str) -> str:
        return rf"\left(1 - \frac{{1}}{{{self.name(name)}}}\right)"

    def above(self, name: str, low: float) -> str:
        return "\\" + super().above(name, low)

    def below(self, name: str, high: float) -> str:
        return "\\" + super().below(name, high)

    def exponential(self, rate: float, name: str, centre: float) -> str:
        return "\\" + super().exponential(rate, name, centre)

    def levels(self, name: str, values: Mapping[str, float]) -> str:
        shown = _first(values).items()
        rows = [f"{self.number(v)} & {self.name(f'{name} = {level}')}" for level, v in shown]
        if len(values) > len(rows):
            rows.append(rf"\ldots & \text{{{len(values) - len(rows)} more}}")
        body = r" \\ ".join(rows)
        return rf"\left\{{\begin{{array}}{{ll}} {body} \end{{array}}\right."


class _Python(Writer):
    times = " * "

    def number(self, value: float) -> str:
        return repr(float(value))

    def name(self, name: str) -> str:
        plain = name.isascii() and name.isidentifier() and not keyword.iskeyword(name)
        return name if plain and name not in TAKEN else f"point[{name!r}]"

    def power(self, base: str, exponent: float) -> str:
        return f"{base} ** {self.number(exponent)}"

    def levels(self, name: str, values: Mapping[str, float]) -> str:
        return f"{dict(values)!r}[{self.name(name)}]"

    def whole(self, target: str, expression: str) -> str:  # noqa: ARG002 - an expression has no name
        return expression


WRITERS: dict[str, Writer] = {"text": _Text(), "latex": _Latex(), "python": _Python()}


def _first(values: Mapping[str, float]) -> dict[str, float]:
    most = len(values) if len(values) <= MOST_LEVELS + 1 else MOST_LEVELS
    return dict(list(values.items())[:most])
