"""What a factor's value may be, and the one form in which each value is kept."""

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from numbers import Real
from typing import Any, cast

from forerun.errors import FactorError, InputError

Value = float | int | str

# Whole numbers are kept whole up to here; beyond, a float no longer tells neighbours apart.
_WHOLE = 2**53
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def normalised(where: str, raw: object) -> Value:
    """The value in its one form: whole numbers as int, other numbers as float, the rest as text."""
    if type(raw) is int and -_WHOLE <= raw <= _WHOLE:  # by far the most frequent
        return raw
    if isinstance(raw, str):
        return printable(where, raw)
    if getattr(raw, "shape", None) == ():  # a NumPy scalar
        raw = cast(Any, raw).item()
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if not isinstance(raw, float | Real):
        raise FactorError(where, repr(raw), "a number or a text")
    try:
        number = float(raw)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise FactorError(where, number, "a finite number")
    return int(number) if number.is_integer() and abs(number) <= _WHOLE else number


def printable(where: str, text: object, error: type[InputError] = FactorError) -> str:
    """The text itself; an error if it holds control characters, line ends or lone surrogates.

    Quoting would not make them harmless: a job script is read line by line.
    """
    if not isinstance(text, str):
        raise error(where, repr(text), "a text")
    if _CONTROL.search(text):
        raise error(where, text, "a text without control characters")
    return text


def checked_name(name: object) -> str:
    """The name itself; FactorError if it could not be typed as `-f name=value`."""
    if not isinstance(name, str):
        raise FactorError("factor name", repr(name), "a text")
    return _checked(name)


@lru_cache(maxsize=1024)  # the same few names come with every point
def _checked(name: str) -> str:
    if not name or name != name.strip() or "=" in name:
        raise FactorError("factor name", name, "a name without '=' or spaces around it")
    return printable("factor name", name)


def one_of(where: str, found: object, allowed: Sequence[str]) -> None:
    """FactorError, which lists what is allowed, unless `found` is."""
    if found not in allowed:
        raise FactorError(where, found, f"one of {', '.join(allowed)}")
