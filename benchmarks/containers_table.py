"""How much faster forerun's image is, and what a container costs, with 95 % intervals.

A block is a step, as the training loop times it. A round has several of each way, by turns;
the ratio of two ways in a round is the median of those of its sweeps, whose blocks lie seconds
apart, so that a slow minute of the machine harms both sides. Then comes the geometric mean of the
rounds, without the highest and the lowest tenth of them. Its interval comes from drawing rounds
again, since the blocks of a round share their processes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from containers_runs import ROUNDS, SETTINGS, WAYS
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.stats import trim_mean

from forerun.errors import InputError

DRAWS = 10_000
TRIMMED = 0.1  # of the rounds, on each side
CONFIDENCE = 0.95
FASTER, NEVER_BELOW, DEAREST = 1.15, 0.98, 1.02  # the claims

Way = tuple[str, str]  # a setting and a place
PLAIN_IMAGE, OUR_IMAGE = ("plain", "container"), ("forerun", "container")


@dataclass(frozen=True)
class Ratio:
    """Of two times, with its interval."""

    middle: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.middle:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True)
class Measured:
    """The rounds of a workload that are whole."""

    workload: str
    blocks: Mapping[Way, NDArray[np.float64]]  # seconds: a row a round, a column a sweep
    starts: Mapping[Way, NDArray[np.float64]]  # seconds, one a round

    @property
    def rounds(self) -> int:
        """How many."""
        return len(self.starts[PLAIN_IMAGE])

    def ratio(self, above: Way, below: Way) -> Ratio:
        """Of the times of two ways, with its interval."""
        sweeps = np.log(self.blocks[above] / self.blocks[below])
        return bootstrapped(np.median(sweeps, axis=1))

    @property
    def faster(self) -> Ratio:
        """How many times as fast as the plain image forerun's is."""
        return self.ratio(PLAIN_IMAGE, OUR_IMAGE)

    def cost(self, setting: str) -> Ratio:
        """Of a container: its time over that outside."""
        return self.ratio((setting, "container"), (setting, "bare"))


def bootstrapped(logarithms: NDArray[np.float64], draws: int = DRAWS) -> Ratio:
    """The trimmed geometric mean of the rounds' ratios."""
    count = len(logarithms)
    drawn = np.random.default_rng(0).integers(count, size=(draws, count))
    means = trim_mean(logarithms[drawn], TRIMMED, axis=1)
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    middle = trim_mean(logarithms, TRIMMED)
    return Ratio(*(float(np.exp(value)) for value in (middle, low, high)))


def measured(runs: Path) -> list[Measured]:
    """The workloads of the table, in its order; InputError where there is nothing to compare."""
    path = runs / "containers.csv"
    if not path.exists():
        raise InputError(str(path), "no such file", "rounds: containers.py measure")
    table = pd.read_csv(path)
    found = []
    for workload in dict.fromkeys(table["workload"]):
        own = table[table["workload"] == workload]
        by_way = {
            (str(setting), str(place)): part.drop_duplicates("round", keep="last").set_index(
                "round"
            )
            for (setting, place), part in own.groupby(["setting", "place"])
        }
        if set(by_way) == set(WAYS):
            whole = sorted(set.intersection(*(set(part.index) for part in by_way.values())))
            parts = {way: part.loc[whole] for way, part in by_way.items()}
            blocks = {way: np.array([*map(seconds, part["blocks"])]) for way, part in parts.items()}
            starts = {way: part["start_seconds"].to_numpy() for way, part in parts.items()}
            found += [Measured(str(workload), blocks, starts)] if whole else []
    if not found:
        raise InputError(str(path), "no whole round", "rounds: containers.py measure")
    return found


def seconds(text: str) -> list[float]:
    """Of each block of a round's row but the first, which warms up."""
    return [float(word) for word in str(text).split()][1:]


def times(found: Sequence[Measured]) -> Table:
    """What a block takes, and a start."""
    table = Table(*("workload", "image", "where", "blocks", "block, s", "start, s"), box=None)
    for one in found:
        for way in WAYS:
            block, start = float(np.median(one.blocks[way])), float(np.median(one.starts[way]))
            table.add_row(
                *(one.workload, *way, f"{one.blocks[way].size} in {one.rounds} rounds"),
                *(f"{block:.3f}", f"{start:.2f}"),
            )
    return table


def ratios(found: Sequence[Measured]) -> Table:
    """What the claims are about."""
    table = Table("workload", "ratio of the blocks", "95 % interval", box=None)
    for one in found:
        table.add_row(one.workload, "plain image over forerun's", str(one.faster))
        for setting in SETTINGS:
            table.add_row(one.workload, f"{setting}: container over bare", str(one.cost(setting)))
    return table


def claims(found: Sequence[Measured]) -> dict[str, bool]:
    """What is claimed, in words and figures, and whether it holds."""
    fewest = min(one.rounds for one in found)
    gains = {one.workload: one.faster for one in found}
    best = max(gains, key=lambda name: gains[name].middle)
    worst = min(gains, key=lambda name: gains[name].middle)
    costs = {(one.workload, setting): one.cost(setting) for one in found for setting in SETTINGS}
    dear = max(costs, key=lambda key: costs[key].high)
    return {
        f"{fewest} rounds at least (claim {ROUNDS})": fewest >= ROUNDS,
        f"forerun's image is {gains[best]} times as fast as the plain one for {best} "
        f"(claim {FASTER} for one)": gains[best].middle >= FASTER,
        f"and {gains[worst]} for {worst}, the least (claim {NEVER_BELOW})": gains[worst].middle
        >= NEVER_BELOW,
        f"a container takes at most {costs[dear]} times what the same takes outside, "
        f"{dear[0]} {dear[1]} (claim: all of the interval below {DEAREST})": costs[dear].high
        < DEAREST,
    }


def chosen(document: Mapping[str, object]) -> list[str]:
    """A line on each plan."""
    plans = document.get("plans")
    lines = []
    for workload, told in plans.items() if isinstance(plans, dict) else ():
        setting = ", ".join(f"{name} {value}" for name, value in told["chosen"].items())
        by = f"{told['candidates']} candidates, {told['trials']} trials"
        lines.append(f"{workload}: {setting} (chosen by a plan of {by})")
    return lines


def show(runs: Path) -> int:
    """Print all of it; 1 where a claim does not hold."""
    found = measured(runs)
    to = Console(soft_wrap=True, highlight=False)
    described = runs / "containers.json"
    for line in chosen(json.loads(described.read_text()) if described.exists() else {}):
        to.print(line)
    to.print(times(found))
    to.print(ratios(found))
    judged = claims(found)
    for claim, holds in judged.items():
        to.print(f"{claim}: {'holds' if holds else 'does not hold'}")
    return 0 if all(judged.values()) else 1
