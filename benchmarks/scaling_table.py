"""What runs on up to 4 hosts say of 8: our errors beside the peers', and how often intervals hold.

Every method learns from the same runs and is asked for the same others. Each network alone has its
own size as a factor; for both together it is what the network tells: parameters, and
multiply-accumulates a sample.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from peers import PEERS, predict
from rich.console import Console
from rich.table import Table

from forerun import PerformanceModel
from forerun.errors import InputError
from forerun.measuring.noise import pooled_spread
from forerun.plots.tables import repeats_of

Array = NDArray[np.float64]

SCALES = ["workers", "megabits", "batch"]
KNOWN = 4  # workers
COVERAGE = 0.9
DEFAULT, FORMULA, GENERIC = "forerun", "forerun, formula alone", "published expression"
METHODS = (DEFAULT, FORMULA, GENERIC, *PEERS)
LENGTH, LAYERS, BYTES = 16, 2, 256  # of the transformer


@dataclass(frozen=True)
class Task:
    """Runs to learn from and runs to predict, with the factors that tell them apart."""

    name: str
    intrinsic: list[str]
    learn: pd.DataFrame
    unseen: pd.DataFrame

    @property
    def factors(self) -> list[str]:
        """Intrinsic ones first."""
        return [*self.intrinsic, *SCALES]

    @property
    def truth(self) -> Array:
        """The measured seconds of the unseen runs."""
        return self.unseen["seconds"].to_numpy(float)

    def model(self, expression: str = "auto") -> PerformanceModel:
        """Our model, fitted to the known runs."""
        made = PerformanceModel(
            intrinsic=self.intrinsic,
            extrinsic=SCALES,
            expression="generic" if expression == "generic" else "auto",
        )
        return made.fit(self.learn[self.factors], self.learn["seconds"])


@dataclass(frozen=True)
class Result:
    """What every method says of the unseen runs, and our interval."""

    task: Task
    guesses: dict[str, Array]
    low: Array
    high: Array
    text: str  # of our formula

    def misses(self, method: str) -> Array:
        """The absolute error of each unseen run, in per cent of the measured time."""
        found: Array = np.abs(self.guesses[method] / self.task.truth - 1) * 100
        return found

    @property
    def held(self) -> int:
        """How many unseen runs lie in our interval."""
        truth = self.task.truth
        return int(((truth >= self.low) & (truth <= self.high)).sum())

    @property
    def best_peer(self) -> str:
        """The one of least error, known only afterwards: harder than any single one."""
        return min(PEERS, key=lambda name: float(self.misses(name).mean()))


def report(path: Path, points: bool = False) -> list[Result]:
    """Print the tables; with `points` also what was predicted and measured, run by run."""
    warnings.filterwarnings("ignore")
    runs = read(path)
    results = [judge(task) for task in tasks(runs)]
    console = Console(width=110)
    console.print(errors_table(results))
    for result in results:
        console.print(verdict(result), highlight=False)
    console.print(repeats(runs), highlight=False)
    if points:
        for result in results[:-1]:
            console.print(points_table(result))
            console.print(f"t = {result.text}\n", highlight=False)
    return results


def read(path: Path) -> pd.DataFrame:
    """The runs that ended well, and what their networks tell of themselves."""
    if not path.exists():
        raise InputError("--runs", path.parent, f"a folder with {path.name}")
    runs = pd.read_csv(path)
    runs = runs[runs["status"] == "ok"].reset_index(drop=True)
    work = [macs(*pair) for pair in zip(runs["network"], runs["size"], strict=True)]
    return runs.assign(macs=work)


def macs(network: str, size: int) -> float:
    """Multiply-accumulates a sample, forwards."""
    if network == "lenet":
        convolutions = 24**2 * 25 * size + 8**2 * 25 * size * 2 * size
        return convolutions + 120 * 2 * size * 4**2 + 120 * 84 + 84 * 10
    layer = LENGTH * 12 * size**2 + 2 * LENGTH**2 * size
    return LAYERS * layer + LENGTH * size * BYTES


def tasks(runs: pd.DataFrame) -> list[Task]:
    """Each network alone, then both together."""
    is_known = runs["workers"] <= KNOWN
    learn, unseen = runs[is_known], runs[~is_known]
    found = []
    for network, factor in (("lenet", "filters"), ("transformer", "width")):
        own = [
            part[part["network"] == network].rename(columns={"size": factor})
            for part in (learn, unseen)
        ]
        found.append(Task(network, [factor], *own))
    found.append(Task("both", ["network", "parameters", "macs"], learn, unseen))
    return found


def judge(task: Task) -> Result:
    """Learn from the known runs by every method, and ask for the others."""
    asked, ours = task.unseen[task.factors], task.model()
    low, high = ours.predict_interval(asked, COVERAGE)
    guesses = {
        DEFAULT: ours.predict(asked),
        FORMULA: ours.predict_formula(asked),
        GENERIC: task.model("generic").predict(asked),
    }
    seconds = task.learn["seconds"].to_numpy(float)
    for name in PEERS:
        guesses[name] = predict(name, task.learn[task.factors], seconds, asked)
    return Result(task, guesses, low, high, ours.formula())


def errors_table(results: list[Result]) -> Table:
    title = f"Seconds a step on 8 workers, learnt from up to {KNOWN}: mean absolute error, %"
    table = Table(title=title)
    table.add_column("")
    for result in results:
        table.add_column(result.task.name, justify="right")
    table.add_row("runs to learn from", *(str(len(r.task.learn)) for r in results))
    table.add_row("runs to predict", *(str(len(r.task.truth)) for r in results), end_section=True)
    for method in METHODS:
        table.add_row(method, *(f"{r.misses(method).mean():.1f}" for r in results))
    table.add_section()
    table.add_row("90 % intervals held", *(f"{r.held} of {len(r.task.truth)}" for r in results))
    return table


def verdict(result: Result) -> str:
    """Our error beside the best peer's, and the standard error of the difference."""
    peer = result.best_peer
    above = result.misses(DEFAULT) - result.misses(peer)
    error = float(above.std(ddof=1) / np.sqrt(len(above))) if len(above) > 1 else float("nan")
    ours, theirs = (float(result.misses(name).mean()) for name in (DEFAULT, peer))
    return (
        f"{result.task.name}: {ours:.1f} %, the best peer ({peer}) {theirs:.1f} %;"
        f" difference {above.mean():+.1f} ± {error:.1f} points"
    )


def repeats(runs: pd.DataFrame) -> str:
    """The spread between runs of the same configuration: no model can be better."""
    points = repeats_of(runs, ["network", "size", *SCALES], "seconds")
    spread = pooled_spread(points)
    if spread is None:
        return "no configuration was run twice"
    several = sum(len(times) > 1 for times in points)
    return f"spread between repeats of a configuration: {100 * spread:.1f} % ({several} of them)"


def points_table(result: Result) -> Table:
    table = Table(title=f"{result.task.name} on 8 workers: seconds a step, one row for each run")
    for name in (*result.task.intrinsic, "Mbit/s", "batch", "measured", "predicted", "90 %"):
        table.add_column(name, justify="right")
    unseen = result.task.unseen[[*result.task.intrinsic, "megabits", "batch"]]
    for place in np.argsort(result.task.truth):
        figures = (f"{v:.3f}" for v in (result.task.truth[place], result.guesses[DEFAULT][place]))
        interval = f"{result.low[place]:.3f} to {result.high[place]:.3f}"
        table.add_row(*map(str, unseen.iloc[place]), *figures, interval)
    return table
