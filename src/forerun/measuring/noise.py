"""What disturbs times, and what to do about it: each warning is one line."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from forerun.factors import Point
from forerun.quantities import number, percent
from forerun.study import Run

if TYPE_CHECKING:
    from forerun.jobs.command import Timing

SPREAD = 0.10  # between repeats of a point, as a share of their mean
OTHER_LOAD = 0.25  # processors that others may keep busy in any case
SAMPLE = 0.5  # seconds of looking at the processors before the first run
SLOW_FIRST = 1.10  # times the median of a point's later runs
_FEWEST = 3  # points with repeats from which anything is concluded

_PROCESSORS = Path("/sys/devices/system/cpu")
_MAINS = Path("/sys/class/power_supply")
_STAT = Path("/proc/stat")
_COUNTS = 8  # of a processor's ticks in there; what follows is counted twice
_IDLE = slice(3, 5)  # of those: idle, and waiting for a disk


def machine_warnings(processors: Path = _PROCESSORS, mains: Path = _MAINS) -> list[str]:
    """What is known beforehand to make this machine's times vary."""
    found = []
    governors = _governors(processors)
    if governors - {"performance"}:
        names = ", ".join(sorted(governors - {"performance"}))
        found.append(
            f"the processor's frequency is scaled (governor {names}): times depend on what ran "
            "before; cpupower frequency-set --governor performance, as root, holds it"
        )
    if _turbo(processors):
        found.append(
            "the processor's turbo is on: times depend on its heat and on how many cores are busy; "
            "spread repeats, or turn it off in the firmware or below /sys/devices/system/cpu"
        )
    if _on_battery(mains):
        found.append("the machine runs on battery, which slows it down: plug it in")
    return found


def load_warning(slots: int, stat: Path = _STAT) -> str | None:
    """Whether others keep the machine busy, just before anything is started."""
    processors = os.sched_getaffinity(0)
    before = _ticks(stat, processors)
    time.sleep(SAMPLE)
    busy, every = (now - then for now, then in zip(_ticks(stat, processors), before, strict=True))
    load = len(processors) * busy / every if every > 0 else 0.0
    if load <= max(OTHER_LOAD, len(processors) - slots):
        return None
    return (
        f"other programs keep {number(load, 2)} of the {len(processors)} processors busy: "
        "end them, or the times hold their work too"
    )


def is_disturbed(timing: Timing) -> bool:
    """Whether others wanted more of the machine than the run left idle.

    A run that does not tell what it used is taken to have used all.
    """
    processors = os.cpu_count() or 1
    own = timing.user_seconds + timing.system_seconds
    used = own / timing.wall_seconds if own > 0 and timing.wall_seconds > 0 else processors
    return timing.other_load > max(OTHER_LOAD, processors - used)


def run_warnings(name: str, other_load: float, left_behind: int) -> list[str]:
    """What went on during one run, named for a person."""
    found = []
    if other_load > OTHER_LOAD:
        found.append(
            f"{name}: other programs used {number(other_load, 2)} of the processors meanwhile: "
            "its time may be too long (--retry-disturbed measures such points again)"
        )
    if left_behind:
        processes = "a process" if left_behind == 1 else f"{left_behind} processes"
        found.append(
            f"{name}: the program left {processes} behind, ended with it: work in the background "
            "is not in its time; let the program wait for it"
        )
    return found


def pooled_spread(repeats: Iterable[Sequence[float]]) -> float | None:
    """The relative standard deviation between repeats, each list being those of one point.

    Variances of the logarithms, pooled by their degrees of freedom: the median of deviations
    would be a third too low where there are two repeats of each. None without any repeat.
    """
    squares, freedom = 0.0, 0
    for times in repeats:
        logs = [math.log(one) for one in times]
        centre = statistics.fmean(logs)
        squares += sum((one - centre) ** 2 for one in logs)
        freedom += len(logs) - 1
    return math.sqrt(squares / freedom) if freedom else None


def slow_first(runs: Iterable[Run]) -> float | None:
    """How much longer a point's first run took than its later ones: the median ratio of all points.

    None while fewer than three points have repeats.
    """
    ratios = [times[0] / statistics.median(times[1:]) for times in _repeats(runs).values()]
    return statistics.median(ratios) if len(ratios) >= _FEWEST else None


def study_warnings(runs: Sequence[Run]) -> dict[str, str]:
    """What the repeats say of the machine, each warning under a name of its own."""
    found = {}
    repeats = _repeats(runs).values()
    spread = pooled_spread(repeats) if len(repeats) >= _FEWEST else None
    slower = slow_first(runs)
    if slower is not None and slower > SLOW_FIRST:
        found["first"] = (
            f"the first run of a point takes {percent(slower - 1)} longer than its repeats: "
            "warm each point up before it is timed (option warmup-point)"
        )
    if spread is not None and spread > SPREAD:
        found["spread"] = (
            f"repeats of a point spread by {percent(spread)}: no model can be better than that; "
            "quieten the machine, lengthen the runs, or add the factor that differs"
        )
    return found


def _repeats(runs: Iterable[Run]) -> Mapping[Point, list[float]]:
    """The times of each point that was measured more than once, in their order."""
    times: dict[Point, list[float]] = {}
    for run in runs:
        seconds = run.seconds
        if seconds is not None and math.isfinite(seconds):
            times.setdefault(run.point, []).append(seconds)
    return {point: found for point, found in times.items() if len(found) > 1}


def _ticks(stat: Path, processors: Collection[int]) -> tuple[int, int]:
    """The ticks for which these processors were busy, and all of theirs; 0 where none are told."""
    busy = every = 0
    for line in (_read(stat) or "").splitlines():
        name, _, counts = line.partition(" ")
        place = name.removeprefix("cpu")
        if name.startswith("cpu") and place.isdigit() and int(place) in processors:
            ticks = [int(count) for count in counts.split()[:_COUNTS]]
            every += sum(ticks)
            busy += sum(ticks) - sum(ticks[_IDLE])
    return busy, every


def _governors(processors: Path) -> set[str]:
    files = processors.glob("cpu[0-9]*/cpufreq/scaling_governor")
    return {text for file in files if (text := _read(file))}


def _turbo(processors: Path) -> bool:
    """As either of the two drivers tells it; False where none does."""
    if (off := _read(processors / "intel_pstate/no_turbo")) is not None:
        return off == "0"
    return _read(processors / "cpufreq/boost") == "1"


def _on_battery(mains: Path) -> bool:
    supplies = [_read(file) for file in mains.glob("*/online") if _is_mains(file.parent)]
    return bool(supplies) and "1" not in supplies


def _is_mains(supply: Path) -> bool:
    return _read(supply / "type") in {"Mains", "USB"}


def _read(file: Path) -> str | None:
    try:
        return file.read_text().strip()
    except OSError:
        return None
