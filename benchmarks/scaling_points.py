"""What is measured of training on several hosts: the configurations, and their order.

Both networks train with plain data parallelism. The size factor, filters or width, changes what is
computed and what is sent by different amounts; the link's rate and the number of workers change
only what is sent, the batch only what is computed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from scipy.stats import qmc

SIZES = {"lenet": ("filters", (4, 8, 16, 32)), "transformer": ("width", (32, 64, 96, 128))}
FIXED = {"lenet": (), "transformer": ("--layers", "2", "--heads", "4", "--length", "16")}
MEGABITS = (20, 40, 80, 120)  # a second, of payload, each way
BATCHES = (8, 16, 32, 64)  # samples a step and worker
POINTS = {1: 8, 2: 10, 4: 10, 8: 10}  # workers: configurations of each network
QUICK = {1: 2, 2: 2, 4: 2, 8: 2}
REPEATED = 2  # of these, which are run REPEATS times
REPEATS = 3
STEPS = 2  # an epoch


@dataclass(frozen=True, slots=True)
class Task:
    """One run to make."""

    network: str
    workers: int
    megabits: int
    batch: int
    size: int

    @property
    def options(self) -> list[str]:
        """What the training script is told: so many samples that each worker has STEPS batches."""
        factor, _ = SIZES[self.network]
        samples = ["--chunks", str(self.workers), "--chunk-size", str(STEPS * self.batch)]
        size = [f"--{factor}", str(self.size), "--batch", str(self.batch)]
        return ["--network", self.network, *FIXED[self.network], *size, *samples]


def tasks(quick: bool = False) -> list[Task]:
    """Every run in a random order, in which the repeats of a point are spread."""
    every = []
    for network in SIZES:
        for workers, count in (QUICK if quick else POINTS).items():
            drawn = points(network, workers, count)
            every += drawn + ([] if quick else drawn[:REPEATED] * (REPEATS - 1))
    random.Random(3).shuffle(every)
    return every


def points(network: str, workers: int, count: int) -> list[Task]:
    """So many different configurations, each factor's values about equally often."""
    levels = (MEGABITS, BATCHES, SIZES[network][1])
    seed = 10 * workers + list(SIZES).index(network)
    while True:
        cube = qmc.LatinHypercube(len(levels), rng=seed).random(count)
        drawn = [
            tuple(v[int(u * len(v))] for v, u in zip(levels, row, strict=True)) for row in cube
        ]
        if len(set(drawn)) == count:
            return [Task(network, workers, *values) for values in drawn]
        seed += 1000
