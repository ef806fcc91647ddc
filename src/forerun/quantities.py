"""Numbers as people read them: three significant digits, with the unit that fits their size."""

from __future__ import annotations

import math

_UNITS = {"joules": "J", "other_load": "processors"}
_SECONDS = ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))
_JOULES = ((1e-3, "mJ"), (1.0, "J"), (1e3, "kJ"), (1e6, "MJ"), (1e9, "GJ"))
_COUNTS = ((1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"))
_BYTES = ((1.0, "B"), (2.0**10, "KiB"), (2.0**20, "MiB"), (2.0**30, "GiB"), (2.0**40, "TiB"))

# On an axis minutes and hours begin later than in running text: 250 s is easily read there.
_LONG = ((300.0, 60.0, "min"), (3 * 3600.0, 3600.0, "h"), (4 * 86400.0, 86400.0, "d"))


def number(value: float, digits: int = 3) -> str:
    """`value` to `digits` significant digits; powers of ten only where plain digits get long."""
    if not math.isfinite(value):
        return str(value)
    rounded = float(f"{value:.{digits}g}")
    if rounded == 0 or 1e-4 <= abs(rounded) < 1e7:
        return f"{rounded:.12g}"
    return f"{rounded:.{digits}g}"


def seconds(value: float) -> str:
    """A duration: 850 ns, 1.2 ms, 3.4 s, 2 min 5 s, 3 h 20 min, 2 d 4 h."""
    if not math.isfinite(value) or float(f"{value:.3g}") < 60:
        return _scaled(value, _SECONDS)
    if value < 3599.5:
        return _pair(round(value), 60, "min", "s")
    if value < 24 * 3600 - 30:
        return _pair(round(value / 60), 60, "h", "min")
    return _pair(round(value / 3600), 24, "d", "h")


def amount(value: float, target: str = "seconds", unit: str = "") -> str:
    """`value` of the measured column `target`, with its unit."""
    if target.endswith("seconds"):
        return seconds(value)
    if target == "joules":
        return _scaled(value, _JOULES)
    if target.endswith("bytes"):
        return _scaled(value, _BYTES)
    return f"{number(value)} {unit}".strip()


def between(low: float, high: float, target: str = "seconds", unit: str = "") -> str:
    """An interval, `1.1 s to 1.4 s`."""
    return f"{amount(low, target, unit)} to {amount(high, target, unit)}"


def large(count: float) -> str:
    """A count that may be large: 950, 12.3 k, 4.09 M, 3.25 G."""
    return _scaled(count, _COUNTS).strip()


def money(value: float, currency: str) -> str:
    """An amount of money: to the cent, and three significant digits of less than one."""
    plain = f"{value:.2f}" if abs(value) >= 0.995 else number(value)
    return f"{plain} {currency}"


def unit_of(target: str) -> str:
    """The unit in which the column `target` is stored; empty where it is not known."""
    if target.endswith("seconds"):
        return "s"
    return "B" if target.endswith("bytes") else _UNITS.get(target, "")


def scale_of(value: float, target: str, unit: str = "") -> tuple[float, str]:
    """The one unit for an axis whose values lie about `value`: (its size, its name)."""
    if target.endswith("seconds"):
        long = [(size, name) for start, size, name in _LONG if value >= start]
        return long[-1] if long else _largest(value, _SECONDS)
    if target == "joules":
        return _largest(value, _JOULES)
    return _largest(value, _BYTES) if target.endswith("bytes") else (1.0, unit)


def percent(share: float) -> str:
    """A share as a percentage: < 0.1 %, 6.1 %, 12 %, 99.7 %, 140 %."""
    value = 100 * share
    if 0 < value < 0.05:
        return "< 0.1 %"
    fine = value != 0 and (abs(value) < 9.95 or 99 < value < 99.95)
    return f"{value:.{int(fine)}f} %"


def _scaled(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    """`value` in the largest unit of `steps` that leaves at least one whole of it."""
    if not math.isfinite(value):
        return f"{value} {_largest(1.0, steps)[1]}"
    scale, unit = _largest(abs(float(f"{value:.3g}")) or 1.0, steps)
    return f"{number(value / scale)} {unit}"


def _largest(value: float, steps: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    return next((step for step in reversed(steps) if value >= step[0]), steps[0])


def _pair(whole: int, ratio: int, large: str, small: str) -> str:
    """`whole` small units as so many large and so many small ones."""
    rest = f" {whole % ratio} {small}" if whole % ratio else ""
    return f"{whole // ratio} {large}{rest}"
