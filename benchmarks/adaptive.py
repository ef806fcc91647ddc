"""Measuring adaptively against random points, a Latin hypercube and the cheapest points first.

    python benchmarks/adaptive.py benchmarks/measured/lenet-*.csv [--each] [--cache FILE]

The tables are measured again from their own runs, as commands of one study; with --each, each of
them alone too. 30 % of the points are held out, always the same, and the others are a pool to
choose from. For each of ten seeds random points are run up to 35; their error on the held-out
points is what the other designs are to reach, and the seconds of their runs what the others' are
divided by. An error counts as reached where the next fit confirms it; a design that has not reached
it with the whole pool counts with all its seconds. The adaptive design is the one of `forerun
measure`, and also says what error it believes to have: a campaign that is to reach that error would
stop there.

About ten minutes on two cores; with --cache a second start goes on where the first one stopped.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import sys
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from kept import Kept, sources
from replayed import TARGET, Array, Replayed, replayed
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from forerun.errors import InputError
from forerun.factors import Point
from forerun.measuring.adaptive import Adaptive
from forerun.measuring.design import Design, LatinHypercube, Listed, Planned
from forerun.measuring.progress import CHECKS
from forerun.measuring.refits import Refits
from forerun.modelling.teaching import as_table, predicted
from forerun.study import Run

ENOUGH = 35  # random runs, whose error is to be reached
SEEDS = 10
RATIO, WITHIN, HONEST = 0.7, 1.5, 0.9  # what is claimed of the median ratio and of stated errors


@dataclass(frozen=True)
class Fit:
    """The model after so many runs: what they took, its error, and what error was stated."""

    runs: int
    seconds: float
    error: float
    stated: float


@dataclass(frozen=True)
class Replay:
    """One design measured once."""

    design: str
    seed: int
    fits: list[Fit]

    def reached(self, error: float) -> Fit | None:
        """The first fit with at most this error, where the next one confirms it."""
        for fit, following in zip(self.fits, self.fits[1:], strict=False):
            if fit.error <= error and following.error <= error:
                return fit
        return None

    def stopped(self, error: float) -> Fit | None:
        """Where a campaign with this error as its aim would have ended."""
        return next((fit for fit in self.fits if fit.stated <= error), None)

    def is_over(self, error: float) -> bool:
        """Whether there is nothing left to be seen."""
        return self.reached(error) is not None and (
            self.design != "adaptive" or self.stopped(error) is not None
        )


class InOrder(Planned):
    """Points in a given order."""

    def __init__(self, points: Sequence[Point]) -> None:
        super().__init__(1, 0)
        self._points = list(points)

    @cached_property
    def points(self) -> list[Point]:
        return self._points

    @cached_property
    def _order(self) -> list[tuple[int, Point]]:
        return [(1, point) for point in self.points]


def latin(study: Replayed, seed: int) -> Design:
    """The points of the pool that are nearest to those of a Latin hypercube."""
    left = list(study.pool)
    wanted = LatinHypercube(study.space, len(left), seed=seed).points
    places = {point: place(study, point) for point in [*left, *wanted]}
    chosen = []
    for point in wanted:
        near = min(left, key=lambda one: float(np.abs(places[one] - places[point]).sum()))
        left.remove(near)
        chosen.append(near)
    return InOrder(chosen)


def place(study: Replayed, point: Point) -> Array:
    """Each value's rank among its factor's, from 0 to 1; each level of a category on its own."""
    found: list[float] = []
    for name, factor in study.space.items():
        rank = factor.values.index(point[name])
        if factor.kind == "numeric":
            found.append(rank / max(len(factor.values) - 1, 1))
        else:
            found += [0.5 * (rank == other) for other in range(len(factor.values))]
    return np.array(found)


DESIGNS: dict[str, Callable[[Replayed, int], Design]] = {
    "random": lambda study, seed: Listed(study.pool, seed=seed),
    "adaptive": lambda study, seed: Adaptive(study.space, seed=seed, candidates=study.candidates),
    "Latin hypercube": latin,
    "cheapest first": lambda study, _: InOrder(
        sorted(study.pool, key=lambda point: study.pool[point][0])
    ),
}


def replays(files: Sequence[Path], seed: int) -> list[Replay]:
    """All designs with one seed, the random one first: its error is the others' aim."""
    warnings.filterwarnings("ignore")
    study = replayed(files)
    random = replay(study, "random", seed, None)
    others = [name for name in DESIGNS if name != "random"]
    return [random, *(replay(study, name, seed, random.fits[-1].error) for name in others)]


def replay(study: Replayed, name: str, seed: int, aim: float | None) -> Replay:
    """Measure a study by one design until the aim is reached, or up to 35 runs where it has none"""
    design, models = DESIGNS[name](study, seed), Refits(study.space, TARGET)
    asked, truth = as_table(study.held_out, study.space), study.truth
    runs: list[Run] = []
    made = Replay(name, seed, [])
    while len(runs) < ENOUGH if aim is None else not made.is_over(aim):
        chosen = design.next(runs, [], 1)
        if not chosen:
            break
        point = chosen[0].point
        visit = sum(run.point == point for run in runs)
        seconds = study.pool[point][visit]
        runs.append(Run(point, {TARGET: seconds}, source=chosen[0].source, uid=str(len(runs))))
        if models.due(runs) < len(runs):
            continue
        model = (design if isinstance(design, Adaptive) else models).model(runs)
        assert model is not None
        error = float(np.abs(predicted(model, asked) / truth - 1).mean())
        spent = sum(run.measures[TARGET] for run in runs)
        made.fits.append(Fit(len(runs), spent, error, stated(design, runs)))
    return made


def stated(design: Design, runs: Sequence[Run]) -> float:
    """The error that would end a campaign; only the adaptive design states one."""
    said = design.stated_error(runs) if isinstance(design, Adaptive) else None
    return said.mape if said and said.runs >= CHECKS else np.inf


def ratio(replay: Replay, random: Replay) -> float:
    """Seconds to the random design's error, over the seconds that it took."""
    goal = random.fits[-1]
    fit = replay.reached(goal.error) or replay.fits[-1]
    return fit.seconds / goal.seconds


def is_honest(replay: Replay, random: Replay) -> bool:
    """Whether the error stated at the stop is within 1.5 times the true one, either way."""
    fit = replay.stopped(random.fits[-1].error) or replay.fits[-1]
    return 1 / WITHIN <= fit.stated / fit.error <= WITHIN


def stored(found: list[Replay]) -> list[dict[str, Any]]:
    """As JSON takes it."""
    return [asdict(one) for one in found]


def restored(known: list[dict[str, Any]]) -> list[Replay]:
    """What `stored` was given."""
    return [Replay(k["design"], k["seed"], [Fit(**fit) for fit in k["fits"]]) for k in known]


def name_of(files: Sequence[Path], seed: int) -> str:
    """Of exactly this code, these runs and this seed."""
    digest = hashlib.sha256(sources("modelling", "measuring").encode())
    for file in files:
        digest.update(file.read_bytes())
    return f"{digest.hexdigest()[:16]}/{seed}"


def every_replay(
    studies: Sequence[Sequence[Path]], seeds: int, kept: Kept, workers: int
) -> dict[str, dict[int, list[Replay]]]:
    """By the study's name and the seed: a replay of each design."""
    wanted = {name_of(files, seed): (files, seed) for files in studies for seed in range(seeds)}
    with (
        ProcessPoolExecutor(workers) as pool,
        Progress(console=Console(stderr=True)) as progress,
    ):
        task = progress.add_task("replaying", total=len(wanted))
        missing = [name for name in wanted if name not in kept]
        progress.advance(task, len(wanted) - len(missing))
        made = {pool.submit(replays, *wanted[name]): name for name in missing}
        for future in as_completed(made):
            kept.put({made[future]: stored(future.result())})
            progress.advance(task)
    found: dict[str, dict[int, list[Replay]]] = {}
    for name, (files, seed) in wanted.items():
        found.setdefault(replayed(files).name, {})[seed] = restored(kept[name])
    return found


def report(files: Sequence[Path], by_seed: dict[int, list[Replay]]) -> bool:
    """Print what one study shows; whether the claims hold."""
    study = replayed(files)
    random = [made[0] for made in by_seed.values()]
    seconds = statistics.median(one.fits[-1].seconds for one in random)
    error = statistics.median(one.fits[-1].error for one in random)
    print(
        f"\n{study.name}: a pool of {len(study.pool)} points ({len(study.candidates)} runs), "
        f"{len(study.held_out)} points held out; {ENOUGH} random runs take {seconds:.0f} s "
        f"and have an error of {error:.1%} (medians of {len(by_seed)})"
    )
    table = Table("design", "seconds, of random's", "quarter", "three quarters", "runs", box=None)
    for place_, name in enumerate(DESIGNS):
        if name == "random":
            continue
        made = [ones[place_] for ones in by_seed.values()]
        ratios = [ratio(one, first) for one, first in zip(made, random, strict=True)]
        reached = [o.reached(r.fits[-1].error) for o, r in zip(made, random, strict=True)]
        never = sum(fit is None for fit in reached)
        runs = statistics.median(
            (fit or one.fits[-1]).runs for fit, one in zip(reached, made, strict=True)
        )
        low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
        note = f"  ({never} never reached it)" if never else ""
        cells = f"{middle:.2f}{note}", f"{low:.2f}", f"{high:.2f}", f"{runs:.0f}"
        table.add_row(name, *cells)
    Console(width=100).print(table)
    adaptive = [ones[list(DESIGNS).index("adaptive")] for ones in by_seed.values()]
    honest = sum(is_honest(one, first) for one, first in zip(adaptive, random, strict=True))
    print(f"stated error within {WITHIN:g} times the true one: {honest} of {len(adaptive)} stops")
    middle = statistics.median(ratio(o, r) for o, r in zip(adaptive, random, strict=True))
    return middle <= RATIO and honest >= HONEST * len(adaptive)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+", help="tables of measured runs")
    parser.add_argument("--each", action="store_true", help="each table alone too")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--cache", type=Path, help="file that keeps what was replayed")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    given = parser.parse_args()
    studies = [given.runs]
    if given.each and len(given.runs) > 1:
        studies += [[file] for file in given.runs]
    try:
        found = every_replay(studies, given.seeds, Kept(given.cache), given.workers)
        names = {replayed(files).name: files for files in studies}
        kept = [report(names[name], by_seed) for name, by_seed in found.items()]
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
