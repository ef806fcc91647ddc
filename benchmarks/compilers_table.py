"""What compiling takes and gains, and what forerun would have chosen from a third of it."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from compilers_runs import CELL, TARGETS, VARIANTS
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy import stats
from steps_networks import NETWORKS

from forerun import Infrastructure, Request, Run, Study, plan
from forerun.errors import ForerunWarning
from forerun.factors import Point, Space

PLAIN = "plain"
DRAWS = 10  # thirds of the measurements
CLAIM = 0.03  # by which the choice may be slower than the best
WRONG = 0.01  # of the choices that may be compiled where that is surely slower
PAYS = 0.95  # confidence of an interval

Third = Callable[["Sequence[Pair]", np.random.Generator], list[Run]]


@dataclass(frozen=True)
class Pair:
    """A cell: plain and compiled, by turns."""

    cell: tuple[str, str, int, str]
    first: Mapping[str, float]  # seconds until the first step was done, by variant
    steps: pd.DataFrame  # seconds a step: a row a round, a column a variant

    @property
    def compiled(self) -> str:
        return VARIANTS[self.cell[0]]

    def seconds(self, variant: str) -> float:
        """Of a step: the geometric mean, as ratios have it too."""
        return float(np.exp(np.log(self.steps[variant]).mean()))

    @property
    def ratio(self) -> tuple[float, float, float]:
        """Compiled over plain, with its 95 % interval, round by round."""
        logs = np.log(self.steps[self.compiled] / self.steps[PLAIN])
        mean, error = logs.mean(), stats.sem(logs)
        apart = stats.t.ppf((1 + PAYS) / 2, len(logs) - 1) * error
        return math.exp(mean), math.exp(mean - apart), math.exp(mean + apart)

    @property
    def pays_after(self) -> float:
        """Steps until the longer start is made up for; infinite where it never is."""
        longer = self.first[self.compiled] - self.first[PLAIN]
        shorter = self.seconds(PLAIN) - self.seconds(self.compiled)
        return max(longer / shorter, 0.0) if shorter > 0 else math.inf

    @property
    def best(self) -> float:
        return min(self.seconds(PLAIN), self.seconds(self.compiled))


def pairs(runs: Path) -> list[Pair]:
    """The cells that were measured, in the order of the table."""
    table = pd.read_csv(runs / "compilers.csv")
    found = []
    for _, rows in table[table.kind != "failed"].groupby(list(CELL)):
        firsts = rows[rows.kind == "first"]
        first = dict(zip(firsts["variant"], firsts["seconds"], strict=True))
        rounds = rows[(rows.kind == "round") & (rows["round"] > 0)]  # the first warms up
        steps = rounds.pivot_table(index="round", columns="variant", values="seconds").dropna()
        framework, network, threads, target = rows.iloc[0][list(CELL)]
        found.append(Pair((framework, network, int(threads), target), first, steps))
    orders: list[list[Any]] = [list(VARIANTS), list(NETWORKS), [2, 1], list(TARGETS)]
    found.sort(key=lambda one: [order.index(x) for order, x in zip(orders, one.cell, strict=True)])
    return found


def measured(found: Sequence[Pair]) -> Table:
    """A row a cell."""
    table = Table(
        *("framework", "network", "threads", "target", "plain, ms a step"),
        *("compiled over plain (95 %)", "start, s more", "pays after"),
        box=None,
    )
    for one in found:
        middle, low, high = one.ratio
        verdict = "" if low <= 1 <= high else " *"
        start = one.first[one.compiled] - one.first[PLAIN]
        after = "never" if math.isinf(one.pays_after) else f"{one.pays_after:,.0f} steps"
        after = "at once" if one.pays_after == 0 else after
        table.add_row(
            *map(str, one.cell),
            f"{1000 * one.seconds(PLAIN):.0f}",
            f"{middle:.2f} ({low:.2f} to {high:.2f}){verdict}",
            f"{start:.1f}",
            after,
        )
    return table


def named(framework: str, variant: str) -> str:
    """The command of a variant, as a request would name it."""
    return framework if variant == PLAIN else f"{framework}-{variant}"


def point(cell: tuple[str, str, int, str], variant: str) -> Point:
    """A variant of a cell as the study has it."""
    framework, network, threads, target = cell
    return Point(
        {
            "variant": named(framework, variant),
            "network": network,
            "threads": threads,
            "partition": target,
        }
    )


@dataclass(frozen=True)
class Question:
    """What is to be chosen: how to run a framework's training of a network on a target."""

    framework: str
    network: str
    target: str

    def request(self, threads: Sequence[int]) -> Request:
        ways = [named(self.framework, way) for way in (PLAIN, VARIANTS[self.framework])]
        return Request.model_validate(
            {
                "application": {"commands": dict.fromkeys(ways, "train")},
                "fixed": {"network": self.network},
                "free": {"variant": ways, "threads": list(threads)},
                "target": {"partition": self.target},
            }
        )


def questions(found: Sequence[Pair]) -> dict[Question, list[Pair]]:
    """Each with the cells that answer it."""
    answers: dict[Question, list[Pair]] = {}
    for one in found:
        framework, network, _, target = one.cell
        answers.setdefault(Question(framework, network, target), []).append(one)
    return answers


def third_of_rounds(found: Sequence[Pair], drawn: np.random.Generator) -> list[Run]:
    """A third of all timed rounds, whichever they are."""
    every = [
        (point(one.cell, variant), float(seconds))
        for one in found
        for variant in (PLAIN, one.compiled)
        for seconds in one.steps[variant]
    ]
    places = drawn.permutation(len(every))[: len(every) // 3]
    return [Run(every[i][0], {"seconds": every[i][1]}) for i in places]


def third_of_variants(found: Sequence[Pair], drawn: np.random.Generator) -> list[Run]:
    """All rounds of a third of the variants: of each choice both at one setting, and others."""
    pairs_of: dict[tuple[str, str], list[Pair]] = {}
    for one in found:
        pairs_of.setdefault(one.cell[:2], []).append(one)
    first = [cells[drawn.integers(len(cells))] for cells in pairs_of.values()]
    taken = [(one, variant) for one in first for variant in (PLAIN, one.compiled)]
    rest = [
        (one, variant) for one in found if one not in first for variant in (PLAIN, one.compiled)
    ]
    more = max(2 * len(found) // 3 - len(taken), 0)
    taken += [rest[i] for i in drawn.permutation(len(rest))[:more]]
    return [
        Run(point(one.cell, variant), {"seconds": float(seconds)})
        for one, variant in taken
        for seconds in one.steps[variant]
    ]


def decided(found: Sequence[Pair], runs: Sequence[Run]) -> dict[Question, tuple[float, bool]]:
    """For each question: what the choice lost, and whether it was compiled where that loses."""
    space = Space.from_table(
        pd.DataFrame([dict(point(one.cell, v)) for one in found for v in (PLAIN, one.compiled)])
    )
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", ForerunWarning)
        study = Study.create(Path(folder) / "third.db", space)
        study.add_all(runs)
        return {
            question: _judged(question, cells, study)
            for question, cells in questions(found).items()
        }


def _judged(question: Question, cells: Sequence[Pair], study: Study) -> tuple[float, bool]:
    request = question.request([one.cell[2] for one in cells])
    chosen = plan(request, machine(), study).chosen.candidate.point
    cell = next(one for one in cells if one.cell[2] == chosen["threads"])
    compiled = chosen["variant"] != question.framework
    seconds = cell.seconds(cell.compiled if compiled else PLAIN)
    return seconds / min(one.best for one in cells) - 1, compiled and cell.ratio[1] > 1


def machine() -> Infrastructure:
    """This machine, and the two that it was capped to."""
    processors = {"avx2": "x86_64_v3", "avx": "sandybridge", "sse4": "x86_64_v2"}
    return Infrastructure.model_validate(
        {
            "name": "targets",
            "partitions": {
                name: {
                    "nodes": 1,
                    "processors": {"microarchitecture": kind, "cores": 2},
                    "memory": "24 GiB",
                }
                for name, kind in processors.items()
            },
        }
    )


def lost(found: Sequence[Pair], third: Third, title: str) -> tuple[Table, float, float]:
    """Regrets by framework and network; the worst of them, and how often compiling was wrong."""
    draws = [
        decided(found, third(found, np.random.default_rng(seed)))
        for seed in track(range(DRAWS), title, console=Console(stderr=True))
    ]
    table = Table("", *NETWORKS, "mean", title=f"{title}: loss, %", title_justify="left", box=None)
    worst = 0.0
    for framework in VARIANTS:
        means = []
        for network in NETWORKS:
            of = [
                regret
                for draw in draws
                for question, (regret, _) in draw.items()
                if (question.framework, question.network) == (framework, network)
            ]
            means.append(float(np.mean(of)) if of else math.nan)
        worst = max([worst, *(mean for mean in means if not math.isnan(mean))])
        table.add_row(framework, *(f"{100 * m:.1f}" for m in [*means, float(np.nanmean(means))]))
    wrong = [wrong for draw in draws for _, wrong in draw.values()]
    return table, worst, float(np.mean(wrong))


def show(runs: Path) -> int:
    """Print all of it; 1 where the claim does not hold."""
    found = pairs(runs)
    console = Console(width=120)
    console.print(measured(found))
    print("* the 95 % interval does not hold 1")
    table, worst, wrong = lost(found, third_of_rounds, "From a third of the rounds")
    console.print(table)
    other, _, other_wrong = lost(found, third_of_variants, "From a third of the variants")
    console.print(other)
    holds = worst <= CLAIM and wrong <= WRONG
    print(
        f"From a third of the rounds the worst framework and network loses {worst:.1%} (claim "
        f"{CLAIM:.0%}), and {wrong:.1%} of the choices are compiled where that is slower "
        f"(from a third of the variants {other_wrong:.1%}): {'holds' if holds else 'does NOT hold'}"
    )
    return 0 if holds else 1
