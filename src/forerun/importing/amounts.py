"""Numbers, durations, sizes and outcomes as other tools write them."""

from __future__ import annotations

import math
import re

from forerun.errors import InputError
from forerun.study import Status

TIME_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_ENERGY_UNITS = {"mJ": 1e-3, "J": 1.0, "kJ": 1e3, "MJ": 1e6, "Wh": 3600.0, "kWh": 3.6e6}
# One letter is a power of 1024, as Slurm and most tools mean it; kB is 1000, KiB is 1024.
_BYTE_UNITS = {"B": 1.0} | {
    name: base**power
    for power, letter in enumerate("KMGTP", start=1)
    for name, base in ((letter, 1024.0), (f"{letter}iB", 1024.0), (f"{letter}B", 1000.0))
}
_SIZE = re.compile(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)")
_ELAPSED = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,6}):)?(\d{1,2}):(\d{1,2}(?:\.\d{1,9})?)", re.ASCII)

_OUTCOMES: dict[Status, tuple[str, ...]] = {
    "ok": ("ok", "0", "0:0", "completed", "complete", "success", "succeeded", "passed", "done"),
    "out_of_memory": ("out_of_memory", "oom", "oom_kill", "oom_killed", "outofmemory", "oome"),
    "timed_out": ("timed_out", "timeout", "time_out", "time_limit", "deadline", "124"),
    "cancelled": ("cancelled", "canceled", "pruned", "preempted", "revoked", "aborted"),
    "failed": ("failed", "fail", "failure", "error", "crashed", "node_fail", "boot_fail", "killed"),
}
_BY_WORD = {word: status for status, words in _OUTCOMES.items() for word in words}
OUTCOME_WORDS = "ok, failed, out_of_memory, timed_out, cancelled, an exit code or a Slurm state"


def number(text: str) -> int | float | None:
    """The finite number that `text` is, a whole one as int; None where it is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    if not math.isfinite(value) or "_" in text or not text.isascii():
        return None
    return int(value) if value.is_integer() and abs(value) < 2.0**53 else value


def overflows(text: str) -> bool:
    """Whether `text` is a number too large for a float."""
    try:
        return math.isinf(float(text)) and any(map(str.isdigit, text))
    except ValueError:
        return False


def size(text: str, unit: str = "") -> float | None:
    """Bytes: `1536`, `1.5K`, `2 GiB`; `unit` is that of a number without its own."""
    match = _SIZE.fullmatch(text.strip())
    value = number(match[1]) if match else None
    if match is None or value is None:
        return None
    name = match[2] or unit or "B"
    known = _BYTE_UNITS.get(name) or _BYTE_UNITS.get(name[:1].upper() + name[1:])
    return None if known is None else float(value) * known


def elapsed(text: str) -> float | None:
    """Seconds of Slurm's `[days-][hours:]minutes:seconds`, or of a plain number."""
    match = _ELAPSED.fullmatch(text.strip())
    if match is None:
        plain = number(text)
        return None if plain is None else float(plain)
    days, hours, minutes, rest = (float(part) if part else 0.0 for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def outcome(text: str) -> Status | None:
    """How a run ended, from the words that schedulers and people use; None if they do not say."""
    word = text.strip().lower().replace("-", "_").replace(" ", "_")
    if word.startswith("cancelled_by"):
        return "cancelled"
    known = _BY_WORD.get(word) or _BY_WORD.get(word.replace("error", "").strip("_"))
    if known is None and re.fullmatch(r"-?\d{1,3}(:\d{1,3})?", word, re.ASCII):
        return "failed"  # an exit code, or Slurm's code:signal, that is not zero
    return known


def scale(option: str, unit: str, known: dict[str, float] | None = None) -> float:
    """How many base units (seconds, joules, bytes) one `unit` has."""
    units = known or TIME_UNITS
    if unit not in units:
        raise InputError(option, unit, f"one of {', '.join(units)}")
    return units[unit]


def energy_scale(unit: str) -> float:
    """Joules in one `unit`."""
    return scale("--unit joules", unit or "J", _ENERGY_UNITS)


def byte_scale(unit: str) -> float:
    """Bytes in one `unit`."""
    return scale("--unit memory", unit or "B", _BYTE_UNITS)
