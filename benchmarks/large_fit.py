"""How long the default model takes on many runs, and how much memory.

    python benchmarks/large_fit.py                    # a million runs of 8 factors
    python benchmarks/large_fit.py --runs 200 --factors 6

Runs are made, not measured: two phases, a device and a host that multiply, 5 % noise.
One thread. Peak memory is that of the whole process, the table included.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings

import numpy as np
import pandas as pd

from forerun import PerformanceModel
from forerun.errors import ForerunWarning

GRIDS: dict[str, list[float]] = {
    "batch": [16, 32, 64, 128, 256, 512],
    "workers": [1, 2, 4, 8, 16, 32],
    "filters": [8, 16, 32, 64, 128],
    "kernel": [1, 3, 5, 7],
    "depth": [18, 34, 50, 101],
    "dropout": [0, 0.1, 0.3, 0.5],
}
DEVICES = ["a100", "k80", "p100", "t4", "v100"]


def made(runs: int, factors: int) -> tuple[pd.DataFrame, pd.Series[float]]:
    """A table with up to eight factors, and its seconds."""
    draw = np.random.default_rng(0)
    table = pd.DataFrame({name: draw.choice(grid, runs) for name, grid in GRIDS.items()})
    device = draw.integers(0, len(DEVICES), runs)
    host = draw.integers(0, 200, runs)
    table["device"] = pd.array(np.array(DEVICES)[device], dtype="str")
    table["host"] = pd.array(np.char.mod("n%03d", host), dtype="str")
    work = table.batch * table.filters**0.9 * table.kernel**1.5 * table.depth / table.workers
    # what is no factor of the table costs nothing
    speed = np.array([0.2, 3.0, 1.0, 1.4, 0.5])[device] if factors > 6 else 1.0
    slower = np.exp(0.05 * draw.standard_normal(200))[host] if factors > 7 else 1.0
    noise = np.exp(0.05 * draw.standard_normal(runs))
    seconds = (1e-6 * work * speed + 0.02 * table.workers**0.5 + 0.05) * slower * noise
    return table.iloc[:, :factors], seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--factors", type=int, default=8, choices=range(1, 9))
    arguments = parser.parse_args()
    table, seconds = made(arguments.runs, arguments.factors)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForerunWarning)
        begin = time.perf_counter(), time.process_time()
        model = PerformanceModel().fit(table, seconds)
        wall, cpu = time.perf_counter() - begin[0], time.process_time() - begin[1]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        asked = table.iloc[:: max(1, len(table) // 10_000)]
        error = np.mean(np.abs(model.predict(asked) / seconds[asked.index] - 1))
    print(f"{len(table):,} runs of {arguments.factors} factors")
    print(f"fit                 {wall:8.1f} s ({cpu:.1f} s of processor time)")
    print(f"peak memory         {peak:8.0f} MiB ({before:.0f} MiB before the fit)")
    print(f"error on these runs {error:8.1%}")


if __name__ == "__main__":
    main()
