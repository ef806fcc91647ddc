"""How much faster forerun's image is, and what a container costs, with 95 % intervals.

A block's time is the median of its epochs but the first, which warms up, as the training loop
prints them; or the wall clock of the whole command, the start of the container and of Python
included. Ratios are taken within a round, whose blocks follow each other, so that a slow minute of
the machine harms both sides; then their geometric mean, without the highest and the lowest tenth of
the rounds. Its interval comes from drawing rounds again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from containers_runs import KEY, PLACES, ROUNDS, SETTINGS
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
    """The rounds of a workload that are whole: a row each, a column for each setting and place."""

    workload: str
    epoch: pd.DataFrame  # seconds
    wall: pd.DataFrame

    @property
    def faster(self) -> Ratio:
        """How many times as fast as the plain image forerun's is."""
        return ratio(self.epoch, PLAIN_IMAGE, OUR_IMAGE)

    def cost(self, setting: str) -> Ratio:
        """Of a container: its time over that outside."""
        return ratio(self.epoch, (setting, "container"), (setting, "bare"))


def ratio(times: pd.DataFrame, above: Way, below: Way) -> Ratio:
    """One column over another, with its interval."""
    return bootstrapped(np.log(times[above].to_numpy() / times[below].to_numpy()))


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
        raise InputError(str(path), "no such file", "blocks: containers.py measure")
    table = pd.read_csv(path)
    table["epoch"] = [float(np.median(seconds(text)[1:])) for text in table["epochs"]]
    found = []
    for workload in dict.fromkeys(table["workload"]):
        own = table[table["workload"] == workload].drop_duplicates(list(KEY), keep="last")
        wide = {
            what: own.pivot_table(index="round", columns=["setting", "place"], values=what).dropna()
            for what in ("epoch", "wall_seconds")
        }
        if wide["epoch"].shape[1] == len(SETTINGS) * len(PLACES) and len(wide["epoch"]):
            found.append(Measured(str(workload), wide["epoch"], wide["wall_seconds"]))
    if not found:
        raise InputError(str(path), "no whole round", "blocks: containers.py measure")
    return found


def seconds(text: str) -> list[float]:
    """Of each epoch of a block."""
    return [float(word) for word in str(text).split()]


def times(found: Sequence[Measured]) -> Table:
    """What an epoch and a whole block take."""
    table = Table(
        *("workload", "image", "where", "rounds", "epoch, s", "block, s", "container, s more"),
        box=None,
    )
    for one in found:
        for way in [(setting, place) for setting in SETTINGS for place in PLACES]:
            epoch, wall = float(one.epoch[way].median()), float(one.wall[way].median())
            bare = float(one.wall[way[0], "bare"].median())
            more = f"{wall - bare:+.2f}" if way[1] == "container" else ""
            table.add_row(
                *(one.workload, *way, str(len(one.epoch))),
                *(f"{epoch:.3f}", f"{wall:.2f}", more),
            )
    return table


def ratios(found: Sequence[Measured]) -> Table:
    """What the claims are about, by the training loop's own times and by the wall clock."""
    table = Table("workload", "ratio", "by epochs (95 %)", "by the wall clock (95 %)", box=None)
    for one in found:
        compared = {"plain image over forerun's": (PLAIN_IMAGE, OUR_IMAGE)} | {
            f"{setting}: container over bare": ((setting, "container"), (setting, "bare"))
            for setting in SETTINGS
        }
        for name, (above, below) in compared.items():
            by = [str(ratio(table_of, above, below)) for table_of in (one.epoch, one.wall)]
            table.add_row(one.workload, name, *by)
    return table


def claims(found: Sequence[Measured]) -> dict[str, bool]:
    """What is claimed, in words and figures, and whether it holds."""
    fewest = min(len(one.epoch) for one in found)
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
