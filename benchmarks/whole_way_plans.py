"""Plan each workload by short trials, and hold the choice against all that was measured.

The way is that of `forerun plan REQUEST --trial SECONDS`: the request's trials by a campaign, into
a study of its own, and then the plan. What was spent is counted from outside, by the clock, from
the start of each run to its end, with warm-ups and runs that failed.

When all plans are made, whatever was chosen and the quickest ones are timed afresh, by turns, and
these runs alone are compared. The least of many noisy times is lower than any of them really is; so
the best is the one that measuring everything would have chosen, and its fresh runs count, as those
of what was chosen do. The regret beside the least of the fresh medians is printed too: it is never
below 0, and too large.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from kept import Kept
from rich.console import Console
from rich.table import Table
from whole_way_runs import BEST, Measured, Workload, shown

from forerun.errors import InputError
from forerun.infrastructure.detection import machine
from forerun.jobs.command import Timing
from forerun.measuring.asking import campaign_of
from forerun.measuring.outputs import output_directory
from forerun.measuring.runner import LocalRunner, Task
from forerun.planning.planner import plan
from forerun.planning.trials import trial_of
from forerun.study import Study

MOST_REGRET, MOST_SHARE = 0.05, 0.10  # the claim
SPARE = 0.9  # of the share that trials are given: a warm-up and the last run come on top
ROUNDS = 6  # in which whatever was chosen and the quickest are timed afresh


class Counting(LocalRunner):
    """Counts the seconds from the start of each task to its end, warm-ups included."""

    def __init__(self, output: Path) -> None:
        super().__init__(1, output)
        self.seconds = 0.0
        self._since: dict[str, float] = {}

    def start(self, task: Task) -> None:
        self._since[task.uid] = time.monotonic()
        super().start(task)

    def finished(self, timeout: float) -> list[tuple[Task, Timing]]:
        ended = super().finished(timeout)
        for task, _ in ended:
            self.seconds += time.monotonic() - self._since.pop(task.uid)
        return ended


@dataclass(frozen=True)
class Choice:
    """What one plan chose, and what it had been told."""

    workload: str
    seed: int
    trials: int
    spent: float  # seconds of trials
    thinking: float  # seconds by the clock besides: choosing trials, and planning
    point: dict[str, int | float | str]
    predicted: float  # seconds


@dataclass(frozen=True)
class Judged:
    """A choice beside what all candidates took."""

    choice: Choice
    candidates: int
    exhaustive: float  # seconds
    measured: float  # what the chosen one takes, seconds
    best: float  # and the one that measuring everything would have chosen
    least: float  # of all that were timed afresh

    @property
    def share(self) -> float:
        """Of the exhaustive seconds, what the trials took."""
        return self.choice.spent / self.exhaustive

    @property
    def regret(self) -> float:
        """How much longer the chosen one takes than the best."""
        return self.measured / self.best - 1

    @property
    def most(self) -> float:
        """How much longer than the one that was quickest afresh, by luck or not."""
        return self.measured / self.least - 1


def choose(workload: Workload, seed: int, seconds: float) -> Choice:
    """Trials for so many seconds, and the plan that follows."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, workload.activated():
        path = Path(folder) / "trials.db"
        request = workload.request.model_copy(update={"study": path})
        asked = trial_of(request, path, seconds)
        asked = replace(asked, settings=asked.settings.model_copy(update={"seed": seed}))
        runner = Counting(output_directory(path))
        summary = campaign_of(asked, runner).run()
        if summary.ended == "interrupted":
            raise KeyboardInterrupt
        with Study.open(path) as study, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = plan(request, machine(), study)
    best = found.chosen
    assert best.estimate is not None
    besides = time.monotonic() - begun - runner.seconds
    point, told = dict(best.candidate.point), best.estimate.seconds
    return Choice(workload.name, seed, summary.made, runner.seconds, besides, point, told)


def judge(choice: Choice, measured: Measured) -> Judged:
    """Beside what was measured."""
    point = measured.workload.space.point(choice.point)
    fresh, best = measured.fresh, measured.best
    for one in (point, best):
        if one not in fresh:
            raise InputError(choice.workload, f"no fresh time of {dict(one)}", "some")
    times = fresh[point], fresh[best], min(fresh.values())
    return Judged(choice, len(measured.first), measured.exhaustive, *times)


def plans(names: Sequence[str], folder: Path, seeds: int, share: float, kept: Kept) -> list[Judged]:
    """Every workload planned with every seed, those of an earlier start aside, and judged."""
    every = [Measured(Workload.load(name), folder) for name in names]
    for measured in every:
        if not measured.is_whole:
            where = f"whole-way-{measured.workload.name}.csv"
            raise InputError(where, "not all candidates", "all: whole_way.py measure")
    made = [(measured, seed) for seed in range(seeds) for measured in every]  # by turns
    choices: dict[str, list[Choice]] = {name: [] for name in names}
    with shown() as progress:
        for measured, seed in progress.track(made, description="plans"):
            workload = measured.workload
            name = f"{workload.name} {seed} {share:g}"
            if name not in kept:
                seconds = SPARE * share * measured.exhaustive
                kept.put({name: asdict(choose(workload, seed, seconds))})
            choices[workload.name].append(Choice(**kept[name]))
            progress.console.print(said(choices[workload.name][-1]), highlight=False)
        for measured in progress.track(every, description="the best again"):
            confirm(measured, choices[measured.workload.name])
    return [judge(one, measured) for measured in every for one in choices[measured.workload.name]]


def confirm(measured: Measured, choices: Sequence[Choice]) -> None:
    """Time what was chosen and the quickest ones afresh, by turns."""
    typical = measured.typical
    points = {*sorted(typical, key=typical.__getitem__)[:BEST]}
    points |= {measured.workload.space.point(choice.point) for choice in choices}
    for round_ in range(1, ROUNDS + 1):
        for point in sorted(points, key=typical.__getitem__):
            if sum(one == point for one, _ in measured.afresh) < round_:
                measured.add(point, measured.workload.time(point))


def said(choice: Choice) -> str:
    """One line on a choice."""
    return (
        f"{choice.workload}, seed {choice.seed}: {choice.trials} trials, {choice.spent:.0f} s, "
        f"and {choice.thinking:.0f} s to choose them and to plan"
    )


def fulfilled(judged: Sequence[Judged]) -> bool:
    """Whether every workload keeps the claim in the mean of its seeds."""
    return all(
        statistics.mean(one.regret for one in group) <= MOST_REGRET
        and statistics.mean(one.share for one in group) <= MOST_SHARE
        for group in grouped(judged).values()
    )


def grouped(judged: Sequence[Judged]) -> dict[str, list[Judged]]:
    """By workload."""
    found: dict[str, list[Judged]] = {}
    for one in judged:
        found.setdefault(one.choice.workload, []).append(one)
    return found


def report(judged: Sequence[Judged]) -> None:
    """Every choice, and what they come to."""
    console = Console(width=170)
    every = Table(title="Every plan", box=None)
    heads = ("workload", "seed", "trials", "seconds", "share", "predicted", "measured", "regret")
    for head in (*heads, "at most", "chosen"):
        every.add_column(head, justify="left" if head in ("workload", "chosen") else "right")
    for one in sorted(judged, key=lambda one: (one.choice.workload, one.choice.seed)):
        choice = one.choice
        setting = ", ".join(f"{name} {value}" for name, value in choice.point.items())
        every.add_row(
            *(choice.workload, str(choice.seed), str(choice.trials), f"{choice.spent:.1f} s"),
            *(f"{one.share:.1%}", f"{choice.predicted:.2f} s", f"{one.measured:.2f} s"),
            *(f"{one.regret:.1%}", f"{one.most:.1%}", setting),
        )
    console.print(every)
    total = Table(title="Mean of the plans (largest in brackets)", box=None)
    heads = ("workload", "candidates", "exhaustive", "best", "trials", "share", "regret", "at most")
    for head in heads:
        total.add_column(head, justify="left" if head == "workload" else "right")
    for name, group in grouped(judged).items():
        sums = ([one.share for one in group], [one.regret for one in group])
        total.add_row(
            *(name, str(group[0].candidates), f"{group[0].exhaustive:.0f} s"),
            f"{group[0].best:.2f} s",
            f"{statistics.mean(one.choice.spent for one in group):.0f} s",
            *(f"{statistics.mean(them):.1%} ({max(them):.1%})" for them in sums),
            f"{statistics.mean(one.most for one in group):.1%}",
        )
    console.print(total)
