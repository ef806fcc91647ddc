"""How long the default model takes to fit, and how much memory, on one core.

    python benchmarks/default_model.py

200 runs of 6 factors (claim: under 2 s), then a million runs of 8 factors (claim: under 60 s and
2 GiB). The runs are planted, so that the error is known too. The exit code is 1 where a claim does
not hold; on a machine that does other work the processor time is the fairer figure.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings

import numpy as np
import pandas as pd

from forerun import PerformanceModel

CASES = ((200, 6, 2.0), (1_000_000, 8, 60.0))  # runs, factors, most seconds
MOST_MEMORY = 2 * 2**30  # bytes


def planted(runs: int, factors: int, seed: int) -> tuple[pd.DataFrame, pd.Series[float]]:
    """A job with a phase that workers share, one that they do not, and a start."""
    draw = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "batch": draw.integers(1, 512, runs),
            "workers": draw.integers(1, 9, runs),
            "filters": draw.integers(4, 65, runs),
            "kernel": draw.integers(1, 8, runs),
            "samples": draw.lognormal(0, 1, runs),
            "optimiser": draw.choice(["sgd", "adam"], runs),
            "network": draw.choice(list("abcdefgh"), runs),
            "links": draw.lognormal(0, 1, runs),
        }
    ).iloc[:, :factors]
    shared = table.samples * table.filters * table.kernel / table.workers
    seconds = (shared + 0.01 * table.batch + 2) * np.where(table.optimiser == "adam", 1.2, 1.0)
    return table, seconds


def main() -> int:
    warnings.filterwarnings("ignore")
    good = True
    for runs, factors, most in CASES:
        table, seconds = planted(runs, factors, 0)
        noise = np.random.default_rng(1).lognormal(0, 0.05, runs)
        wall, processor = time.perf_counter(), time.process_time()
        model = PerformanceModel().fit(table, seconds * noise)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        asked, truth = planted(1000, factors, 2)
        error = np.abs(model.predict(asked) / truth - 1).mean()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(
            f"{runs:,} runs of {factors} factors: {wall:.1f} s ({processor:.1f} s of processor,"
            f" claim {most:g} s), peak memory {memory / 2**30:.2f} GiB, error {error:.1%}"
        )
        good &= processor <= most and memory <= MOST_MEMORY
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
