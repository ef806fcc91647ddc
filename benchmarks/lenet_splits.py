"""The measured runs, and how they are cut into runs to learn from and runs to predict.

A configuration that two frameworks share is held out in both or in neither, so that no model can
look up in one framework what it is asked of another. Repeats of a point stay together.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from lenet_points import FRAMEWORKS, SPACE
from numpy.typing import NDArray

from forerun.errors import InputError
from forerun.measuring.noise import pooled_spread
from forerun.plots.tables import repeats_of

Array = NDArray[np.float64]

FACTORS = list(SPACE)
TARGET = "seconds"
HELD_OUT = 0.3


@dataclass(frozen=True)
class Cut:
    """Runs to learn from and runs to predict."""

    learn: pd.DataFrame
    unseen: pd.DataFrame

    def factors(self, names: list[str]) -> tuple[pd.DataFrame, Array, pd.DataFrame]:
        """What a method is given: known points, their seconds, and the points it is asked for."""
        return self.learn[names], self.learn[TARGET].to_numpy(float), self.unseen[names]

    def error(self, guess: Array) -> float:
        """Mean absolute error of the unseen runs, in per cent of the measured time."""
        return float(np.abs(guess / self.unseen[TARGET].to_numpy(float) - 1).mean() * 100)


def read(folder: Path) -> dict[str, pd.DataFrame]:
    """The runs that ended well, a table a framework, with its name and that of the point."""
    found = {}
    for framework in FRAMEWORKS:
        path = folder / f"lenet-{framework}.csv"
        if path.exists():
            runs = pd.read_csv(path, dtype=dict.fromkeys(SPACE.categorical, str))
            runs = runs[runs["status"] == "ok"].reset_index(drop=True)
            found[framework] = runs.assign(framework=framework, point=_points(runs))
    if not found:
        raise InputError("--runs", folder, "a folder with lenet-pytorch.csv or its like")
    return found


def _points(runs: pd.DataFrame) -> pd.Series[str]:
    return runs[FACTORS].astype(str).agg(" ".join, axis=1)


def splits(tables: dict[str, pd.DataFrame], seed: int) -> dict[str, Cut]:
    """One random cut of each framework's points: 70 % to learn from."""
    everywhere = set.intersection(*(set(runs["point"]) for runs in tables.values()))
    shared = held_out(everywhere, seed)
    cuts = {}
    for framework, runs in tables.items():
        held = shared | held_out(set(runs["point"]) - everywhere, seed)
        is_held = runs["point"].isin(held)
        cuts[framework] = Cut(runs[~is_held], runs[is_held])
    return cuts


def held_out(points: set[str], seed: int) -> set[str]:
    """A random 30 % of the points."""
    listed = sorted(points)
    order = np.random.default_rng(seed).permutation(len(listed))
    return {listed[place] for place in order[: round(HELD_OUT * len(listed))]}


def first_runs(runs: pd.DataFrame, count: int, seed: int) -> pd.DataFrame:
    """One run each of `count` random points: what somebody has who has measured little."""
    single = runs.sample(frac=1, random_state=seed).drop_duplicates("point")
    return single.head(count)


def repeat_spread(runs: pd.DataFrame) -> tuple[float, int]:
    """Pooled relative standard deviation between repeats, and how many points were repeated."""
    points = repeats_of(runs, ["point"], TARGET)
    spread = pooled_spread(points)
    return float("nan") if spread is None else spread, sum(len(times) > 1 for times in points)
