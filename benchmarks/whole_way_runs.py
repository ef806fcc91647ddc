"""Time every candidate of three training scripts at full length, and keep the runs as tables.

One file a workload, `whole-way-gru.csv` and so on, a row for each run, appended as it is measured:
a second start goes on where the first one stopped. `whole-way.json` beside them says on what
machine and with what versions.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import rows
from lenet_runs import machine, version
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import forerun
from forerun.errors import InputError
from forerun.factors import Factor, Point, Space
from forerun.jobs.command import Command, Timing, time_command
from forerun.measuring.program import Program
from forerun.planning.request import Request
from forerun.workloads.environments import FRAMEWORKS

FOLDER = Path(__file__).parent / "whole_way"
NAMES = ("gru", "autoencoder", "mixer")
BEST, REPEATS = 5, 3  # so many of the quickest are timed so often in all
MEASURES = ("seconds", "user_seconds", "system_seconds", "memory_bytes")
TIMEOUT = 300.0  # seconds
MOST_LOAD = 0.2  # processors that others may keep busy during a run
TRIES = 3  # of a run that others disturbed
FAILURES = 5  # in a row, after which a workload is given up


@dataclass(frozen=True)
class Workload:
    """A training script that knows nothing of forerun, and what somebody wants of it."""

    name: str
    request: Request

    @classmethod
    def load(cls, name: str) -> Workload:
        """By the name of its request."""
        request = Request.load(FOLDER / f"{name}.yaml")
        application = request.application.model_copy(update={"directory": str(FOLDER)})
        return cls(name, request.model_copy(update={"application": application}))

    @cached_property
    def space(self) -> Space:
        """The factors of a whole run, in the order of the request: what is fixed comes last."""
        given = {**self.request.free, **self.request.fixed}
        return Space(Factor.parse(f"{name}={values}") for name, values in given.items())

    @property
    def candidates(self) -> list[Point]:
        """All that may be chosen, in the order of the grid."""
        return list(self.space.grid())

    def command(self, point: Point) -> Command:
        """The script at a point."""
        (text,) = self.request.application.named.values()
        program = Program.parse(text, directory=FOLDER)
        return replace(program.command(point), timeout=TIMEOUT)

    @contextmanager
    def activated(self) -> Iterator[None]:
        """With the framework's environment before all else on the PATH, as its user would have."""
        framework = FRAMEWORKS[self.request.application.framework]
        if not framework.python.exists():
            expected = f"one made by `forerun workload setup {framework.name}`"
            raise InputError(framework.name, "no environment", expected)
        before = os.environ["PATH"]
        os.environ["PATH"] = f"{framework.python.parent}{os.pathsep}{before}"
        try:
            yield
        finally:
            os.environ["PATH"] = before

    def time(self, point: Point) -> Timing:
        """Time one run."""
        with tempfile.TemporaryDirectory() as folder, self.activated():
            return time_command(self.command(point), Path(folder) / "output.txt")


class Measured:
    """The whole runs of a workload so far."""

    def __init__(self, workload: Workload, folder: Path) -> None:
        self.workload, self._path = workload, folder / f"whole-way-{workload.name}.csv"
        self._columns = (*workload.space, *MEASURES, "other_load", "started", "status")
        self.runs: list[tuple[Point, float | None]] = []  # None: it did not end well
        names = list(workload.space)
        for cells in rows.recorded(self._path):
            point = workload.space.point({name: cells[name] for name in names})
            self.runs.append((point, float(cells["seconds"]) if cells["seconds"] else None))

    @property
    def first(self) -> dict[Point, float | None]:
        """What each candidate took when it was timed first."""
        found: dict[Point, float | None] = {}
        for point, seconds in self.runs:
            found.setdefault(point, seconds)
        return found

    @property
    def exhaustive(self) -> float:
        """Seconds that it takes to time every candidate once; one that failed is not counted."""
        return sum(seconds or 0.0 for seconds in self.first.values())

    @property
    def _exhaustive_runs(self) -> int:
        return len(self.workload.candidates) + BEST * (REPEATS - 1)

    @property
    def afresh(self) -> list[tuple[Point, float | None]]:
        """The runs after all candidates were timed, and the quickest of them again."""
        return self.runs[self._exhaustive_runs :]

    @property
    def typical(self) -> dict[Point, float]:
        """The median of each candidate's runs, without those that were made afresh."""
        return _medians(self.runs[: self._exhaustive_runs])

    @property
    def fresh(self) -> dict[Point, float]:
        """The median of the runs that were made afresh, of those that have any."""
        return _medians(self.afresh)

    @property
    def best(self) -> Point:
        """What one would choose who had timed all: of those timed again the quickest."""
        times = Counter(point for point, _ in self.runs[: self._exhaustive_runs])
        typical = self.typical
        again = [point for point in typical if times[point] >= REPEATS]
        return min(again or typical, key=typical.__getitem__)

    @property
    def is_whole(self) -> bool:
        """Whether every candidate has been timed, and the quickest as often as they should be."""
        return not missing(self.workload.candidates, self.runs[: self._exhaustive_runs])

    def add(self, point: Point, timing: Timing) -> None:
        """One more run, on the disk when this returns."""
        fine = timing.status == "ok"
        taken: dict[str, object] = dict.fromkeys(MEASURES, "")
        if fine and timing.seconds is not None:
            times = (timing.seconds, timing.user_seconds, timing.system_seconds)
            taken = dict(
                zip(MEASURES, (*(f"{x:.4f}" for x in times), timing.memory_bytes), strict=True)
            )
        told = {"other_load": f"{timing.other_load:.3f}", "started": timing.started}
        rows.append(
            self._path, self._columns, [{**point, **taken, **told, "status": timing.status}]
        )
        self.runs.append((point, timing.seconds if fine else None))


def _medians(runs: Sequence[tuple[Point, float | None]]) -> dict[Point, float]:
    times: dict[Point, list[float]] = {}
    for point, seconds in runs:
        if seconds is not None:
            times.setdefault(point, []).append(seconds)
    return {point: statistics.median(found) for point, found in times.items()}


def missing(candidates: Sequence[Point], runs: Sequence[tuple[Point, float | None]]) -> list[Point]:
    """What is to be run: every candidate once in random order, then the quickest again.

    Which are the quickest is known when all have been timed; they take turns.
    """
    times = Counter(point for point, _ in runs)
    mixed = random.Random(11).sample(list(candidates), len(candidates))
    if fresh := [point for point in mixed if not times[point]]:
        return fresh
    first: dict[Point, float] = {}
    for point, seconds in runs:
        first.setdefault(point, float("inf") if seconds is None else seconds)
    best = sorted(candidates, key=first.__getitem__)[:BEST]
    return [point for visit in range(1, REPEATS) for point in best if times[point] <= visit]


def measure(
    folder: Path, names: Sequence[str] = NAMES, limit: int | None = None, patient: bool = True
) -> None:
    """Make every run that the folder does not hold yet, or the next `limit` of each workload."""
    folder.mkdir(parents=True, exist_ok=True)
    workloads = [Workload.load(name) for name in names]
    describe(workloads, folder / "whole-way.json")
    with shown() as progress:
        for workload in workloads:
            _measure(Measured(workload, folder), progress, limit, patient)


def _measure(measured: Measured, progress: Progress, limit: int | None, patient: bool) -> None:
    workload, lost, made = measured.workload, 0, 0
    if measured.is_whole:
        return
    extra = BEST * (REPEATS - 1)
    # The repeats are known in number before they are known in kind.
    total = max(len(workload.candidates) + extra - len(measured.runs), 1)
    bar = progress.add_task(workload.name, total=min(total, limit or total))
    workload.time(Point({**workload.candidates[0], "epochs": 1}))  # reads all from the disk once
    while todo := missing(workload.candidates, measured.runs):
        if lost >= FAILURES or (limit is not None and made >= limit):
            break
        timing = _undisturbed(workload, todo[0], TRIES if patient else 1)
        measured.add(todo[0], timing)
        made, lost = made + 1, 0 if timing.status == "ok" else lost + 1
        progress.console.print(f"{workload.name}: {said(todo[0], timing)}", highlight=False)
        progress.advance(bar)
    if lost >= FAILURES:
        progress.console.print(f"{workload.name}: given up after {FAILURES} failures in a row")


def _undisturbed(workload: Workload, point: Point, tries: int) -> Timing:
    """The run during which others used least: the first below the limit, or the best of some."""
    made: list[Timing] = []
    while len(made) < tries:
        made.append(workload.time(point))
        if made[-1].other_load <= MOST_LOAD or made[-1].status != "ok":
            break
    return min(made, key=lambda timing: (timing.status != "ok", timing.other_load))


def shown() -> Progress:
    """A bar with the time that is left, on standard error."""
    from rich.console import Console

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True))


def said(point: Mapping[str, object], timing: Timing) -> str:
    """One line on a run."""
    setting = ", ".join(f"{name} {value}" for name, value in point.items())
    if timing.seconds is None:
        return f"{setting}: {timing.status}: {timing.reason}"
    return f"{setting}: {timing.seconds:.2f} s, others kept {timing.other_load:.2f} processors busy"


def describe(workloads: Sequence[Workload], path: Path) -> None:
    """Write on what machine and with what versions the runs are made."""
    known = json.loads(path.read_text()) if path.exists() else {}
    versions = {**known.get("versions", {})}
    for workload in workloads:
        framework = FRAMEWORKS[workload.request.application.framework]
        versions[framework.name] = version(framework.name, str(framework.python))
    document = {
        "started": known.get("started") or datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "forerun": forerun.__version__,
        "versions": dict(sorted(versions.items())),
    }
    path.write_text(json.dumps(document, indent=2) + "\n")
