"""Time blocks of training in both images and outside, by turns, and keep them as a table.

A round starts the training four times, plain and as planned, in a container and bare; all four live
side by side, and one at a time trains for a step: a block. (Blocks spread by a tenth, however long
they are, so short ones tell more a minute.) The first one warms up. Then come sweeps, each with a
block of every one in random order, so that blocks that are compared lie seconds apart, and every
round has new processes. The workloads take turns. `containers.csv` gets four rows a round, when it
has ended: a second start goes on with the next one. `containers.json` says on what machine, with
what versions, and what was planned.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import containers_images
import rows
from containers_images import WORKLOADS, Images, Setting, Work
from lenet_runs import machine
from rich.console import Console
from rich.progress import Progress

import forerun
from forerun.errors import InputError
from forerun.infrastructure import Infrastructure
from forerun.planning.planner import Plan
from forerun.planning.request import Request

ROUNDS = 30
SWEEPS = {"mnist-cnn": 24, "resnet-50": 10}  # of a round, after the one that warms up
SETTINGS = ("plain", "forerun")
PLACES = ("container", "bare")
WAYS = tuple(product(SETTINGS, PLACES))
KEY = ("workload", "round", "setting", "place")
COLUMNS = (*KEY, "blocks", "start_seconds", "other_load", "stolen", "started")
PATIENCE = 600.0  # seconds of one block
MOST_LOAD = 0.2  # processors that others may keep busy during a round
TRIES = 3  # of a round that others disturbed
EPOCH = re.compile(r"epoch \d+: loss \S+, ([0-9.]+) s, ([0-9.]+) s of processors\n")
WITH = re.compile(r"with (.+); (\d+) threads\n")

progress = Console(stderr=True, highlight=False, soft_wrap=True)


@dataclass(frozen=True, slots=True)
class Round:
    """A workload and how many times its four ways were started before."""

    workload: str
    number: int


@dataclass(frozen=True, slots=True)
class Timed:
    """A round that has ended: each way's blocks, the one that warms up first."""

    blocks: Mapping[tuple[str, str], Sequence[float]]  # seconds
    starts: Mapping[tuple[str, str], float]  # seconds until the program has its first word
    other_load: float  # processors, during the blocks
    stolen: float  # processors that the host of a virtual machine took away
    started: str

    def rows(self, of: Round) -> list[dict[str, object]]:
        """Of the table."""
        return [
            {
                **dict(zip(KEY, (of.workload, of.number, *way), strict=True)),
                "blocks": " ".join(f"{seconds:.4f}" for seconds in self.blocks[way]),
                "start_seconds": f"{self.starts[way]:.3f}",
                "other_load": f"{self.other_load:.3f}",
                "stolen": f"{self.stolen:.3f}",
                "started": self.started,
            }
            for way in WAYS
        ]


class Live:
    """A training that waits for its turn."""

    def __init__(
        self, words: Sequence[str], environment: Mapping[str, str], directory: Path
    ) -> None:
        self._words = words
        begun = time.perf_counter()
        self._process = subprocess.Popen(
            words,
            env=environment,
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        found = self._told(WITH)
        self.start = time.perf_counter() - begun
        self.versions, self.threads = found[1], int(found[2])

    def block(self, steps: int = 1) -> tuple[float, float]:
        """Train for so many: the seconds, and those of processors."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        found = self._told(EPOCH)
        return float(found[1]), float(found[2])

    def _told(self, expected: re.Pattern[str]) -> re.Match[str]:
        """What it prints next; InputError where it prints something else or nothing."""
        assert self._process.stdout is not None
        with ended_after(self._process, PATIENCE):
            line = self._process.stdout.readline()
        if found := expected.fullmatch(line):
            return found
        where = " ".join(self._words)
        raise InputError(where, line or f"exit code {self._process.poll()}", expected.pattern)

    def close(self) -> None:
        """No more turns: it ends by itself."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)


@contextmanager
def ended_after(process: subprocess.Popen[str], seconds: float) -> Iterator[None]:
    """Kill a process that takes longer, so that whoever reads from it is told."""
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def rounds(count: int = ROUNDS, workloads: Sequence[str] = tuple(WORKLOADS)) -> list[Round]:
    """All of them, the workloads by turns."""
    return [Round(workload, number) for number in range(count) for workload in workloads]


def measure(
    out: Path, folder: Path, limit: int | None, trial: float | None, patient: bool = True
) -> None:
    """Plan, build, and time the rounds that are missing; with a limit, the first so many."""
    containers_images.check()
    out.mkdir(parents=True, exist_ok=True)
    path = out / "containers.csv"
    made = {(row["workload"], int(row["round"])) for row in rows.recorded(path)}
    wanted = rounds(ROUNDS if limit is None else min(limit, ROUNDS))
    left = [one for one in wanted if (one.workload, one.number) not in made]
    if not left:
        return
    progress.print("making the environment outside a container")
    work = containers_images.prepare(folder)
    plans = {
        workload: containers_images.planned(work, workload, trial or seconds)
        for workload, seconds in WORKLOADS.items()
    }
    ground = Ground(work, plans)
    try:
        describe(out / "containers.json", plans, ground, path.exists())
        run_all(ground, left, path, TRIES if patient else 1)
    finally:
        ground.close()  # or what runs in a container would go on


def run_all(ground: Ground, left: Sequence[Round], path: Path, tries: int) -> None:
    """Time these rounds, and keep each when it has ended."""
    with Progress(console=progress) as bar:
        task = bar.add_task("rounds", total=len(left))
        for one in left:
            bar.update(task, description=f"{one.workload}, round {one.number}")
            rows.append(path, COLUMNS, undisturbed(ground, one, tries).rows(one))
            bar.advance(task)


class Ground:
    """Where trainings run: a container for each workload and setting, and no container."""

    def __init__(self, work: Work, plans: Mapping[str, Plan]) -> None:
        self._work = work
        self.settings: dict[tuple[str, str], Setting] = {}
        self.images: dict[tuple[str, str], str] = {}
        self._containers: dict[tuple[str, str], str] = {}
        self.store = Images(work)
        for workload, plan in plans.items():
            # The request as it is now: a plan's own has the same command and another study.
            request = Request.load(work.request(workload))
            for setting in (
                containers_images.plain_setting(workload, request, plan.infrastructure),
                containers_images.chosen_setting(workload, plan),
            ):
                key = (workload, setting.name)
                self.settings[key] = setting
                self.images[key] = self._image(setting, plan.infrastructure)
                self._containers[key] = self.store.container(self.images[key], setting)

    def _image(self, setting: Setting, infrastructure: Infrastructure) -> str:
        if setting.name == "plain" and (made := self.images.get((next(iter(WORKLOADS)), "plain"))):
            return made  # one for all workloads
        name = "plain" if setting.name == "plain" else setting.workload
        progress.print(f"building the image {name}")
        recipe = containers_images.write_recipe(setting, infrastructure, self._work)
        return self.store.built(recipe, name)

    def live(self, workload: str, setting: str, place: str) -> Live:
        """A training that waits for its turn."""
        key = (workload, setting)
        if place == "container":
            start = ("podman", "start", "--attach", "--interactive")
            words: tuple[str, ...] = (*start, self._containers[key])
            environment = self._work.of_containers
        else:
            words = (*self.settings[key].words, "--turns")
            environment = {**self._work.environment, **self.settings[key].variables}
        return Live(words, environment, self._work.application)

    def close(self) -> None:
        """Leave no container behind."""
        for name in self._containers.values():
            self.store.remove(name)

    def versions(self) -> str:
        """What all blocks run with; InputError where it is not the same. It warms up, too."""
        found: dict[str, list[str]] = {}
        for workload, setting, place in product(WORKLOADS, SETTINGS, PLACES):
            one = self.live(workload, setting, place)
            one.close()
            found.setdefault(one.versions, []).append(f"{workload} {setting} {place}")
        if len(found) > 1:
            said = " and ".join(f"{versions} ({where[0]})" for versions, where in found.items())
            raise InputError("versions", said, "the same in every image and outside")
        return next(iter(found))


def timed(ground: Ground, one: Round) -> Timed:
    """One round, and what others do during its blocks."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    drawn = random.Random(f"{one.workload} {one.number}")
    with ExitStack() as ends:
        lives = {}
        for way in drawn.sample(WAYS, len(WAYS)):
            lives[way] = ground.live(one.workload, *way)
            ends.callback(lives[way].close)
        blocks = {way: [lives[way].block()[0]] for way in WAYS}
        begun, own = time.perf_counter(), 0.0
        busy, stolen = processors()
        for _ in range(SWEEPS[one.workload]):
            for way in drawn.sample(WAYS, len(WAYS)):
                seconds, spent = lives[way].block()
                blocks[way].append(seconds)
                own += spent
        wall = time.perf_counter() - begun
        busy_now, stolen_now = processors()
        others = max(busy_now - busy - own, 0.0) / wall
        starts = {way: lives[way].start for way in WAYS}
        return Timed(blocks, starts, others, (stolen_now - stolen) / wall, started)


def processors(stat: Path = Path("/proc/stat")) -> tuple[float, float]:
    """Seconds that all processors were busy since the start, and seconds that were stolen."""
    with stat.open() as file:
        fields = [int(word) for word in file.readline().split()[1:9]]
    user, nice, system, _idle, _waiting, irq, softirq, stolen = fields
    tick = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq) / tick, stolen / tick


def undisturbed(ground: Ground, one: Round, tries: int) -> Timed:
    """The round during which others used least: the first below the limit, or the best of some."""
    made: list[Timed] = []
    while len(made) < tries:
        made.append(timed(ground, one))
        if made[-1].other_load <= MOST_LOAD:
            break
    return min(made, key=lambda one: one.other_load)


def describe(path: Path, plans: Mapping[str, Plan], ground: Ground, has_rows: bool) -> None:
    """Write on what machine, with what versions, and by which plans the rounds are run."""
    chosen = dict(told(plans, ground))
    known = json.loads(path.read_text()) if path.exists() else {}
    if has_rows and known and known.get("plans") != chosen:
        raise InputError(str(path), "rounds of other plans", "an empty folder, or --work of then")
    document = {
        "started": known.get("started") or datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "forerun": forerun.__version__,
        "versions": ground.versions(),
        "plans": chosen,
    }
    path.write_text(json.dumps(document, indent=2) + "\n")


def told(plans: Mapping[str, Plan], ground: Ground) -> Iterator[tuple[str, dict[str, object]]]:
    """What each plan chose, and what its image sets."""
    for workload, plan in plans.items():
        best = plan.chosen
        assert best.estimate is not None
        setting = ground.settings[workload, "forerun"]
        image = ground.store.variables(ground.images[workload, "forerun"])
        yield (
            workload,
            {
                "trials": plan.runs,
                "candidates": len(plan.considered),
                "chosen": setting.levers,
                "command": " ".join(setting.words),
                "predicted_seconds": round(best.estimate.seconds, 3),
                "predicted_low": round(best.estimate.low, 3),
                "predicted_high": round(best.estimate.high, 3),
                "image": {name: v for name, v in sorted(image.items()) if name != "PATH"},
            },
        )
