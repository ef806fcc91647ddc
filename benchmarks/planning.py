"""Decisions on published data: how much is lost by taking what a model says is best.

    python benchmarks/planning.py --data DIR [--draws 20] [--cache FILE]

DIR holds pollux.csv (petuum/adaptdl, the Pollux artifact): step times of six training jobs on 1 to
64 T4 GPUs. From 60 runs on up to 16 GPUs nodes, GPUs and batch a GPU are chosen for 24 to 64 GPUs.
Every method's predictions are ranked alike, forerun's being those of a PerformanceModel: what is
judged is the model, not `forerun plan`, which besides takes the simpler of near equals. The regret
in throughput is how far the choice falls short of the best measured one, both measured:

- where up to G GPUs can be had, for each G that was measured, on average (the claim: at most 5 %,
  and below every other method's);
- where exactly G are to be used, so that nodes and batch alone are chosen, on average;
- where all are open, a single choice.

Then least cost: the least GPU time a sample among those whose efficiency, throughput a GPU over one
GPU's with the same batch, is at least 70 %; jobs of which no such run was measured are left out. In
brackets: how often the choice was below 70 % when measured.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from kept import Kept, sources
from numpy.typing import NDArray
from peers import PEERS, predict
from rich.console import Console
from rich.progress import track
from rich.table import Table

from forerun import PerformanceModel

Array = NDArray[np.float64]
Predict = Callable[[pd.DataFrame, Array, pd.DataFrame], Array]

FACTORS = ["nodes", "gpus", "batch"]
LEARN, SMALL, LEAST = 60, 16, 24  # runs to learn from, on at most so many GPUs; GPUs to choose from
EFFICIENCY = 0.7
OURS = "forerun"
RULES = ("all GPUs", "largest global batch")
METHODS = (OURS, *PEERS, *RULES)
CLAIM = 0.05
TITLES = (
    "Regret in throughput, %, where up to 24 … 64 GPUs can be had (mean of draws)",
    "The same, where exactly 24 … 64 GPUs are used",
    "The same, one choice of all from 24 to 64 GPUs",
    "Regret in GPU time a sample, %, at 70 % efficiency or more (of choices too slow, %)",
)
COST = 3  # the place of the last


@dataclass(frozen=True)
class Job:
    """One training job: all that was measured of it."""

    name: str
    runs: pd.DataFrame  # nodes, gpus, batch, seconds of a step

    @property
    def large(self) -> pd.DataFrame:
        """What there is to choose from."""
        return self.runs[self.runs.gpus >= LEAST].reset_index(drop=True)

    def drawn(self, seed: int) -> pd.DataFrame:
        """Runs to learn from."""
        small = self.runs[self.runs.gpus <= SMALL]
        return small.sample(min(LEARN, len(small)), random_state=seed)


def jobs(data: Path) -> list[Job]:
    table = pd.read_csv(data / "pollux.csv")
    names = {"num_nodes": "nodes", "num_replicas": "gpus", "local_bsz": "batch"}
    table = table.rename(columns=names)
    found = []
    for name, every in table.groupby("job"):
        mean = every.groupby(FACTORS)["step_time"].mean().rename("seconds").reset_index()
        found.append(Job(str(name), mean.astype(float)))
    return found


def by_forerun(known: pd.DataFrame, seconds: Array, asked: pd.DataFrame) -> Array:
    model = PerformanceModel(roles={"gpus": "workers", "nodes": "nodes", "batch": "batch"})
    return np.asarray(model.fit(known, seconds, quick=False).predict(asked))


def throughput(table: pd.DataFrame, seconds: Array) -> Array:
    """Samples a second."""
    return (table.gpus * table.batch).to_numpy() / seconds


def regrets(job: Job, seed: int, method: str) -> list[float]:
    """With up to G GPUs, exactly G, all; of the cheapest, and whether that is too slow."""
    warnings.filterwarnings("ignore")
    large, learnt = job.large, job.drawn(seed)
    gpus = large.gpus.to_numpy()
    measured = throughput(large, large.seconds.to_numpy())
    if method in RULES:
        said = gpus * large.batch.to_numpy() + 1e-3 * large.nodes.to_numpy()
        said = said + (1e6 * gpus if method == RULES[0] else 0.0)
        expected = np.ones(len(said))
    else:
        find: Predict = by_forerun if method == OURS else partial(predict, method)
        alone = large.assign(nodes=1.0, gpus=1.0)
        asked = pd.concat([large, alone], ignore_index=True)[FACTORS]
        found = find(learnt[FACTORS], learnt.seconds.to_numpy(), asked)
        said = throughput(large, found[: len(large)])
        expected = said / gpus / throughput(alone, found[len(large) :])
    limits = np.unique(gpus)
    up_to = np.mean([lost(said, measured, gpus <= limit) for limit in limits])
    exactly = np.mean([lost(said, measured, gpus == limit) for limit in limits])
    fine = efficiency(job, large, measured) >= EFFICIENCY
    cheap, too_slow = np.nan, np.nan
    if fine.any():
        hoped = expected >= EFFICIENCY if (expected >= EFFICIENCY).any() else expected >= 0
        choice = int(np.argmax(np.where(hoped, said / gpus, -np.inf)))
        best = np.max((measured / gpus)[fine])
        cheap = max(best / (measured / gpus)[choice] - 1, 0.0)
        too_slow = float(not fine[choice])
    return [float(up_to), float(exactly), lost(said, measured, gpus > 0), cheap, too_slow]


def lost(said: Array, measured: Array, among: NDArray[np.bool_]) -> float:
    """What the choice falls short of the best among these."""
    place = np.flatnonzero(among)
    return float(1 - measured[place[np.argmax(said[place])]] / measured[place].max())


def efficiency(job: Job, large: pd.DataFrame, measured: Array) -> Array:
    """Measured throughput a GPU over that of one GPU with the same batch, or the nearest."""
    one = job.runs[job.runs.gpus == 1]
    rates = throughput(one, one.seconds.to_numpy())
    near = [int(np.argmin(np.abs(np.log(one.batch / batch)))) for batch in large.batch]
    result: Array = measured / large.gpus.to_numpy() / rates[near]
    return result


def every_regret(all_jobs: Sequence[Job], draws: int, kept: Kept) -> dict[str, dict[str, Array]]:
    """By method and job: the regrets of each draw."""
    code = sources("modelling")
    names = {
        f"{code if method == OURS else ''}/{job.name}/{method}/{seed}": (job, seed, method)
        for job in all_jobs
        for method in METHODS
        for seed in range(draws)
    }
    missing = [name for name in names if name not in kept]
    with ProcessPoolExecutor() as pool:
        futures = {name: pool.submit(regrets, *names[name]) for name in missing}
        for name in track(futures, "deciding", console=Console(stderr=True)):
            kept.put({name: futures[name].result()})
    found: dict[str, dict[str, list[list[float]]]] = {}
    for name, (job, _, method) in names.items():
        found.setdefault(method, {}).setdefault(job.name, []).append(kept[name])
    return {
        method: {name: np.array(pairs) for name, pairs in of.items()}
        for method, of in found.items()
    }


def shown(found: dict[str, dict[str, Array]], which: int, title: str) -> Table:
    names = [name for name, rows in found[OURS].items() if not np.isnan(rows[:, which]).all()]
    table = Table("", *names, "mean", title=title, title_justify="left")
    for method, of in found.items():
        means = [100 * of[name][:, which].mean() for name in names]
        cells = [f"{mean:.1f}" for mean in [*means, np.mean(means)]]
        if which == COST:
            slow = [100 * of[name][:, COST + 1].mean() for name in names]
            cells = [
                f"{cell} ({s:.0f})" for cell, s in zip(cells, [*slow, np.mean(slow)], strict=True)
            ]
        table.add_row(method, *cells)
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with pollux.csv")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--cache", type=Path, help="file that keeps what was decided")
    given = parser.parse_args()
    found = every_regret(jobs(given.data), given.draws, Kept(given.cache))
    console = Console(width=120)
    for which, title in enumerate(TITLES):
        console.print(shown(found, which, title))
    means = {m: np.mean([rows[:, 0].mean() for rows in of.values()]) for m, of in found.items()}
    best = min((m for m in METHODS if m != OURS), key=lambda m: means[m])
    holds = means[OURS] <= CLAIM and means[OURS] < means[best]
    print(
        f"up to G GPUs: forerun {means[OURS]:.1%}, the best other ({best}) {means[best]:.1%}, "
        f"claim {CLAIM:.0%} and below all others: {'holds' if holds else 'does NOT hold'}"
    )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
