"""Of the candidates that a plan calls feasible, how many would run out of memory?

    python benchmarks/memory.py --runs benchmarks/measured [--cache FILE]

For each framework's measured runs, 20 times: the memory model learns from the runs of half of the
points; the runs of the others are candidates on imaginary machines, whose memory is a quantile of
what these runs really needed. A candidate is feasible where the upper end of its interval fits, as
in `forerun plan`; it runs out of memory where what was measured does not. A rule that refuses
everything would never be wrong, so the share of fitting candidates that it refuses is printed too.
The bound of plans was chosen on other halves than these. The exit code is 1 where it is wrong of
more than 2 %.

Then: what these runs needed beside what `forerun plan` says of a network that nobody has run.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from kept import Kept, sources
from lenet_points import SPACE
from lenet_splits import read
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from forerun.errors import ForerunWarning, InputError
from forerun.modelling.estimator import PerformanceModel
from forerun.planning.memory import COVERAGE, MARGIN, worker_bytes
from forerun.planning.request import Network
from forerun.workloads.sizes import lenet_sizes

GOAL = 0.02
TARGET = "memory_bytes"
COVERAGES = sorted({0.8, 0.9, 0.94, 0.96, 0.98, 0.99, COVERAGE})
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
CHOOSING = 7  # splits, the first ones, by which the bound of plans was chosen: not judged by them


def uppers(runs: pd.DataFrame, seed: int) -> dict[str, Any]:
    """What held-out runs needed, and the upper ends of their intervals by coverage."""
    points = runs["point"].unique()
    learnt = np.random.default_rng(seed).choice(points, len(points) // 2, replace=False)
    seen, unseen = (runs[runs["point"].isin(learnt) == which] for which in (True, False))
    intrinsic = [name for name, factor in SPACE.items() if factor.scope == "intrinsic"]
    extrinsic = [name for name in SPACE if name not in intrinsic]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForerunWarning)
        model = PerformanceModel(intrinsic=intrinsic, extrinsic=extrinsic, random_state=0)
        model.fit(seen[list(SPACE)], seen[TARGET])
        asked = unseen[list(SPACE)]
        ends = {str(c): model.predict_interval(asked, c)[1].tolist() for c in COVERAGES}
    return {"measured": unseen[TARGET].tolist(), "upper": ends}


def shares(found: Sequence[Mapping[str, Any]], coverage: float) -> tuple[float, float, int]:
    """Of those called feasible what runs out; of those that fit what is refused; those called."""
    called = wrong = fitting = refused = 0
    for one in found:
        measured, upper = np.array(one["measured"]), np.array(one["upper"][str(coverage)])
        for room in np.quantile(measured, QUANTILES):
            feasible, fits = upper <= room, measured <= room
            called += int(feasible.sum())
            wrong += int((feasible & ~fits).sum())
            fitting += int(fits.sum())
            refused += int((fits & ~feasible).sum())
    return wrong / max(called, 1), refused / max(fitting, 1), called


def every(folder: Path, splits: int, kept: Kept) -> dict[str, list[dict[str, Any]]]:
    """By framework: what each split gives."""
    made: dict[str, list[dict[str, Any]]] = {}
    tables = read(folder)
    code = sources("modelling")
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("learning from half of the points", total=splits * len(tables))
        for seed in range(CHOOSING, CHOOSING + splits):
            for framework, runs in tables.items():
                told = f"{code}{COVERAGES}{runs.to_csv()}"
                name = f"{hashlib.sha256(told.encode()).hexdigest()[:16]}/{seed}"
                if name not in kept:
                    kept.put({name: uppers(runs, seed)})
                made.setdefault(framework, []).append(kept[name])
                progress.advance(task)
    return made


def lenet(point: Mapping[str, Any]) -> Network:
    """The numbers of the workload's network at a point."""
    channels = 3 if point["dataset"] == "cifar10" else 1
    parameters, written, sides = 0, 0, lenet_sizes(point)
    for filters, side, pooled in zip((1, 2), sides[::2], sides[1::2], strict=True):
        count = filters * int(point["filters"])
        parameters += count * (channels * int(point["kernel"]) ** 2 + 1)
        written += count * (2 * side**2 + pooled**2)  # the convolution's, its activation's
        channels = count
    inputs = channels * sides[-1] ** 2
    # What each dense layer writes: itself, its activation, and the first one a dropout.
    for outputs, times in ((120, 3), (84, 2), (10, 1)):
        parameters += outputs * (inputs + 1)
        written += times * outputs
        inputs = outputs
    return Network(
        parameters=parameters, activation_bytes=4.0 * written, optimiser=point["optimiser"]
    )


def report_unmeasured(tables: Mapping[str, pd.DataFrame]) -> None:
    """Print how far the estimate from the network alone is from what was measured."""
    table = Table("measured / estimated", "least", "median", "most", f"within {MARGIN} times")
    for framework, runs in tables.items():
        points: list[Any] = runs.to_dict("records")
        told = [
            worker_bytes(lenet(one), one["batch"], cast(Any, framework), workers=one["workers"])
            for one in points
        ]
        ratio = runs[TARGET].to_numpy(float) / np.array(told)
        ends = [f"{x:.2f}" for x in (ratio.min(), np.median(ratio), ratio.max())]
        table.add_row(framework, *ends, f"{(ratio <= MARGIN).sum()} of {len(ratio)}")
    Console(width=110).print(table)


def report(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> bool:
    """Print a row for each rule; whether that of plans keeps the goal."""
    table = Table("one-sided bound", *found, "all run out", "fitting ones refused", "called")
    kept = False
    for coverage in COVERAGES:
        wrong, refused, called = shares([one for ones in found.values() for one in ones], coverage)
        own = coverage == COVERAGE
        each = [f"{100 * shares(ones, coverage)[0]:.2f} %" for ones in found.values()]
        table.add_row(
            f"{100 * (1 + coverage) / 2:.1f} %{', that of plans' if own else ''}",
            *each,
            f"{100 * wrong:.2f} %",
            f"{100 * refused:.1f} %",
            str(called),
        )
        kept = kept or (own and wrong <= GOAL)
    Console(width=110).print(table)
    print(f"goal: at most {100 * GOAL:.0f} % run out, of those that plans call feasible: ", end="")
    print("kept" if kept else "missed")
    return kept


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=Path, required=True, help="folder of the measured runs")
    parser.add_argument("--splits", type=int, default=20, help="random halves of each study")
    parser.add_argument("--cache", type=Path, help="file that keeps what was learnt")
    given = parser.parse_args()
    try:
        found = every(given.runs, given.splits, Kept(given.cache))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    kept = report(found)
    report_unmeasured(read(given.runs))
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
