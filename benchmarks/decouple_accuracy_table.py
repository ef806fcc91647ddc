"""What the trained variants show: accuracies, differences with paired intervals, two claims."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from decouple_accuracy_runs import NAME, NETWORK, VARIANTS
from rich.console import Console
from rich.table import Table
from scipy import stats

from forerun.errors import InputError

COVERAGE = 0.95
ALLOWED = 0.5  # points that the widest decoupled network may be below the dense one
ORDER = ("dense", "dense x0.9", "groups", "shuffles", "shuffles x1.5", "shuffles x1.75")


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % interval, in points."""

    mean: float
    half: float  # infinite for one seed
    count: int

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half

    def __str__(self) -> str:
        half = f" ± {self.half:.2f}" if math.isfinite(self.half) else ""
        return f"{self.mean:+.2f}{half}"


def interval(values: pd.Series[float]) -> Interval:
    """Student's, of the mean."""
    numbers = values.dropna().to_numpy()
    if len(numbers) < 2:
        return Interval(float(numbers.mean()) if len(numbers) else math.nan, math.inf, len(numbers))
    half = stats.t.ppf((1 + COVERAGE) / 2, len(numbers) - 1) * stats.sem(numbers)
    return Interval(float(numbers.mean()), float(half), len(numbers))


def read(runs: Path, network: str = NETWORK) -> pd.DataFrame:
    """The runs of a network, those of the most epochs where there are several kinds."""
    try:
        found = pd.read_csv(runs / f"{NAME}.csv")
    except FileNotFoundError:
        raise InputError(str(runs), f"no {NAME}.csv", "a folder that `train` has filled") from None
    found = found[found.network == network]
    if found.empty:
        raise InputError(str(runs / f"{NAME}.csv"), f"no runs of {network}", "some")
    longest: pd.DataFrame = found[found.epochs == found.epochs.max()]
    return longest.drop_duplicates(["variant", "seed"])


def accuracies(found: pd.DataFrame) -> pd.DataFrame:
    """In per cent: a row a seed, a column a variant; missing runs are empty."""
    table = found.pivot_table(index="seed", columns="variant", values="accuracy")
    return 100 * table.reindex(columns=list(ORDER))


def difference(table: pd.DataFrame, one: str, other: str) -> Interval:
    """How much more accurate one variant is, seed by seed where there are both."""
    return interval(table[one] - table[other])


def summary(found: pd.DataFrame) -> Table:
    """A row a variant."""
    table = accuracies(found)
    shown = Table(
        *("", "seeds", "accuracy, %", "least to most", "against dense (95 %, paired)"),
        *("MMAC", "parameters", "processor s"),
        box=None,
    )
    for name in ORDER:
        values = table[name].dropna()
        rows = found[found.variant == name]
        if values.empty:
            shown.add_row(name, "0")
            continue
        against = "" if name == "dense" else str(difference(table, name, "dense"))
        shown.add_row(
            name,
            str(len(values)),
            f"{values.mean():.2f}",
            f"{values.min():.2f} to {values.max():.2f}",
            against,
            f"{rows.macs.iloc[0] / 1e6:.2f}",
            f"{rows.parameters.iloc[0]:,}",
            f"{rows.processor_seconds.mean():.0f}",
        )
    return shown


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence, the difference that it is about, and whether that bears it out."""

    text: str
    found: Interval
    holds: bool

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "does NOT hold"
        seeds = f"{self.found.count} seed{'' if self.found.count == 1 else 's'}"
        ends = f"{self.found.low:+.2f} to {self.found.high:+.2f}"
        return f"{self.text}: {self.found.mean:+.2f} points ({ends}; {seeds}): {verdict}"


def claims(table: pd.DataFrame) -> list[Claim]:
    """Both of them, whatever they say."""
    shuffled = difference(table, "shuffles", "groups")
    widest = difference(table, "shuffles x1.75", "dense")
    return [
        Claim(
            "Stage shuffles are above none by more than the interval", shuffled, shuffled.low > 0
        ),
        Claim(
            f"x1.75 with shuffles is not below dense by more than {ALLOWED} points (lower bound)",
            widest,
            widest.low >= -ALLOWED,
        ),
    ]


def show(runs: Path, network: str = NETWORK) -> int:
    """Print all of it; 1 where a claim does not hold."""
    found = read(runs, network)
    unknown = sorted({*found.variant} - {*VARIANTS})
    if unknown:
        raise InputError(f"{runs}, variant", unknown[0], f"one of {', '.join(VARIANTS)}")
    table = accuracies(found)
    console = Console(width=120)
    epochs, seeds = int(found.epochs.max()), int(np.max(table.count()))
    print(f"{network} on CIFAR-10, {epochs} epochs, up to {seeds} seeds, whole test set")
    console.print(summary(found))
    made = claims(table)
    for claim in made:
        print(claim)
    return 0 if all(claim.holds for claim in made) else 1
