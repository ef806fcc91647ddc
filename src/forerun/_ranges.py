"""What `-f` takes after the equals sign: `1,2,4`, `16..256`, `16..256:16` or `relu,tanh`.

Decimal arithmetic, so that 0.1..0.5 gives 0.14 and not 0.14000000000000001.
"""

import re
from decimal import Decimal, DecimalException

from forerun.errors import FactorError

_NUMBER = r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})(?::({_NUMBER}))?", re.ASCII)
_DASH = re.compile(r"(\d+)-(\d+)", re.ASCII)  # how others write a range
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_LARGEST = Decimal("1e300")
_SMALLEST = Decimal("1e-300")
_MOST = 100_000  # values of one range
_EVEN_STEPS = 10

_FORMS = "values such as 1,2,4 or relu,tanh, or a range such as 16..256 or 16..256:16"

_SIZES = "finite numbers, 0 or between 1e-300 and 1e300 in size"


def number(text: str) -> float | None:
    """The number that a text is, or None where it is none (`nan` and `inf` are none either)."""
    return float(text) if re.fullmatch(_NUMBER, text, re.ASCII) else None


def listed(name: str, text: str) -> list[float] | list[str]:
    """The values that the text lists, in its order: all numbers, or all categories."""
    if not text.strip():
        raise FactorError(f"factor {name}", "no values", _FORMS)
    # A path may hold two dots (../data); nothing else that is not a range does.
    if ".." in text and "/" not in text:
        try:
            return [float(value) for value in _range(name, text.strip())]
        except DecimalException:
            raise FactorError(f"factor {name}", text, _SIZES) from None
    items = [item.strip() for item in text.split(",")]
    numbers = [_checked_number(name, item) for item in items]
    if all(value is None for value in numbers):
        if len(items) == 1 and (dash := _DASH.fullmatch(items[0])):
            raise FactorError(f"factor {name}", text, f"a range with dots: {dash[1]}..{dash[2]}")
        return items
    found = [value for value in numbers if value is not None]
    if len(found) < len(items):
        raise FactorError(f"factor {name}", text, "only numbers or only categories")
    return found


def _checked_number(name: str, item: str) -> float | None:
    if not item:
        raise FactorError(f"factor {name}", "an empty value", _FORMS)
    value = number(item)
    if _NOT_FINITE.fullmatch(item) or (value is not None and abs(value) > _LARGEST):
        raise FactorError(f"factor {name}", item, "a finite number up to 1e300")
    return value


def _range(name: str, text: str) -> list[Decimal]:
    match = _RANGE.fullmatch(text)
    if match is None:
        raise FactorError(f"factor {name}", text, "low..high or low..high:step, in numbers")
    low, high, step = (None if part is None else Decimal(part) for part in match.groups())
    assert low is not None
    assert high is not None
    sizes = [abs(one) for one in (low, high, step) if one]
    if any(not _SMALLEST <= size <= _LARGEST for size in sizes):
        raise FactorError(f"factor {name}", text, _SIZES)
    if low > high:
        meant = text.replace("...", "..") if "..." in text else f"{high}..{low}"
        raise FactorError(f"factor {name}", text, f"the lower end first: {meant}")
    if low == high and step is None:
        return [low]
    if step is None:
        return _unstepped(name, low, high)
    if not 0 < step <= high - low:
        raise FactorError(f"factor {name}", f"step {step}", f"a step above 0, up to {high - low}")
    return _steps(name, low, high, step)


def _unstepped(name: str, low: Decimal, high: Decimal) -> list[Decimal]:
    if low > 0 and high / low > 10:
        return _doublings(low, high)
    if low == low.to_integral_value() and high == high.to_integral_value():
        return _steps(name, low, high, Decimal(1))
    return [low + (high - low) * i / _EVEN_STEPS for i in range(_EVEN_STEPS + 1)]


def _doublings(low: Decimal, high: Decimal) -> list[Decimal]:
    """low, 2·low, 4·low … and high, which replaces the last power where that is within √2 of it."""
    values = [low]
    while values[-1] * 2 <= high:
        values.append(values[-1] * 2)
    if values[-1] ** 2 * 2 > high**2:
        values.pop()
    return [*values, high]


def _steps(name: str, low: Decimal, high: Decimal, step: Decimal) -> list[Decimal]:
    count = int((high - low) / step) + 1
    if count > _MOST:
        raise FactorError(f"factor {name}", f"{count} values", f"a step that gives up to {_MOST}")
    return [low + i * step for i in range(count)]
