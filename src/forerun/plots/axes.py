"""Axes for people: few ticks at round values, one unit, a logarithm where the range asks for it.

Both renderers draw the same axis, so the page and the paper agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forerun.quantities import number, scale_of

_TICKS = 7
# Mantissas of logarithmic ticks, from sparse to dense.
_MANTISSAS = ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0))


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis says and where it runs; `ticks` and the range are in the data's own unit."""

    title: str
    log: bool
    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]


def target_axis(
    values: Sequence[float], target: str, unit: str = "", *, log: bool | None = None
) -> Axis:
    """The axis of a measured column: its name and unit; from zero unless logarithmic."""
    seen = _finite(values)
    log = seen.max() / seen.min() > 20 if log is None else log
    size, name = scale_of(float(np.median(seen)), target, unit)
    low, high = (seen.min() / 1.15, seen.max() * 1.15) if log else (0.0, seen.max() * 1.06)
    title = {"seconds": "run time", "memory_bytes": "peak memory", "joules": "energy"}.get(
        target, target
    )
    return _axis(f"{title} ({name})" if name else title, log, low, high, size)


def factor_axis(values: Sequence[float], name: str, unit: str = "") -> Axis:
    """The axis of a numeric factor; its own values are the ticks where they are few."""
    seen = np.unique(_finite(values))
    log = bool(seen[0] > 0 and seen[-1] / seen[0] >= 4)
    title = f"{name} ({unit})" if unit else name
    if log:
        low, high = seen[0] / 1.15, seen[-1] * 1.15
    else:
        margin = 0.04 * (seen[-1] - seen[0]) or 0.5
        low, high = seen[0] - margin, seen[-1] + margin
    if len(seen) <= _TICKS + 2 and _spaced(seen, log):
        return Axis(title, log, low, high, tuple(seen.tolist()), tuple(number(v, 6) for v in seen))
    return _axis(title, log, low, high, 1.0)


def ratio_axis(ratios: Sequence[float], title: str = "measured / predicted") -> Axis:
    """The axis of a ratio: logarithmic and even on both sides of 1."""
    reach = max(1.25, float(np.exp(np.abs(np.log(_finite(ratios))).max())) * 1.05)
    steps = [s for s in (1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1000.0) if s <= reach]
    steps = steps[-3:] if len(steps) > 3 else steps
    ticks = [1 / s for s in reversed(steps)] + [1.0] + steps
    labels = [f"÷ {number(s)}" for s in reversed(steps)] + ["1"] + [f"× {number(s)}" for s in steps]
    return Axis(title, True, 1 / reach, reach, tuple(ticks), tuple(labels))


def _axis(title: str, log: bool, low: float, high: float, size: float) -> Axis:
    scaled = _log_ticks(low / size, high / size) if log else _linear_ticks(low / size, high / size)
    ticks = tuple(tick * size for tick in scaled)
    return Axis(title, log, float(low), float(high), ticks, tuple(number(t) for t in scaled))


def _log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for mantissas in reversed(_MANTISSAS):
        ticks = [m * 10.0**d for d in decades for m in mantissas if low <= m * 10.0**d <= high]
        if 2 <= len(ticks) <= _TICKS:
            return ticks
    if len(decades) > _TICKS:
        return [
            10.0**d for d in decades[:: math.ceil(len(decades) / _TICKS)] if low <= 10.0**d <= high
        ]
    return _linear_ticks(low, high)


def _linear_ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / (_TICKS - 1)
    magnitude = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= rough)
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _spaced(values: np.ndarray, log: bool) -> bool:
    """Are the values far enough apart for their labels not to collide?"""
    places = np.log(values) if log else values
    return len(values) < 2 or bool(np.diff(places).min() > 0.07 * (places[-1] - places[0]))


def _finite(values: Sequence[float]) -> np.ndarray:
    made = np.asarray(values, dtype=float)
    return np.compress(np.isfinite(made), made)
