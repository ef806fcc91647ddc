"""Time blocks of training in both images and outside, by turns, and keep them as a table.

A round has one block of each: plain and as planned, in random order, in a container and bare right
after each other, in random order. The workloads take turns. `containers.csv` gets a row a block,
when it has ended: a second start goes on with the next one. `containers.json` says on what machine,
with what versions, and what was planned.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
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
SETTINGS = ("plain", "forerun")
PLACES = ("container", "bare")
KEY = ("workload", "round", "setting", "place")
TIMES = ("epochs", "wall_seconds", "user_seconds", "system_seconds")
COLUMNS = (*KEY, *TIMES, "other_load", "stolen", "started")
PATIENCE = 600.0  # seconds of one block
MOST_LOAD = 0.2  # processors that others may keep busy during a block
TRIES = 3  # of a block that others disturbed
EPOCH = re.compile(r"^epoch \d+ of \d+: loss \S+, ([0-9.]+) s$", re.MULTILINE)
SPENT = re.compile(r"^processor time: ([0-9.]+) s user, ([0-9.]+) s system$", re.MULTILINE)
WITH = re.compile(r"^with (.+); (\d+) threads$", re.MULTILINE)

progress = Console(stderr=True, highlight=False, soft_wrap=True)


@dataclass(frozen=True, slots=True)
class Block:
    """One training run: of what, which time, how set, and where."""

    workload: str
    round: int
    setting: str
    place: str


@dataclass(frozen=True, slots=True)
class Printed:
    """What the training script says of itself."""

    versions: str
    threads: int
    epochs: tuple[float, ...]  # seconds
    user: float
    system: float

    @classmethod
    def parse(cls, text: str) -> Printed:
        """InputError for something else."""
        made, spent, epochs = WITH.search(text), SPENT.search(text), EPOCH.findall(text)
        if made is None or spent is None or len(epochs) < 2:
            last = text.strip().splitlines()[-1:] or ["nothing"]
            raise InputError("a block", last[0], "at least two epochs and the processor time")
        user, system = map(float, spent.groups())
        return cls(made[1], int(made[2]), tuple(map(float, epochs)), user, system)


@dataclass(frozen=True, slots=True)
class Timed:
    """A block that has ended."""

    printed: Printed
    wall: float  # seconds
    other_load: float  # processors
    stolen: float  # processors that the host of a virtual machine took away
    started: str

    def row(self, block: Block) -> dict[str, object]:
        """Of the table."""
        own = self.printed
        return {
            **dict(zip(KEY, astuple(block), strict=True)),
            "epochs": " ".join(f"{seconds:.4f}" for seconds in own.epochs),
            "wall_seconds": f"{self.wall:.3f}",
            "user_seconds": f"{own.user:.2f}",
            "system_seconds": f"{own.system:.2f}",
            "other_load": f"{self.other_load:.3f}",
            "stolen": f"{self.stolen:.3f}",
            "started": self.started,
        }


def blocks(rounds: int = ROUNDS, workloads: Sequence[str] = tuple(WORKLOADS)) -> list[Block]:
    """All of them, round by round, in an order that is always the same."""
    drawn = random.Random(5)
    return [
        Block(workload, number, setting, place)
        for number in range(rounds)
        for workload in drawn.sample(list(workloads), len(workloads))
        for setting in drawn.sample(SETTINGS, len(SETTINGS))
        for place in drawn.sample(PLACES, len(PLACES))
    ]


def measure(
    out: Path, folder: Path, limit: int | None, trial: float | None, patient: bool = True
) -> None:
    """Plan, build, and time the blocks that are missing; with a limit, so many rounds of them."""
    containers_images.check()
    out.mkdir(parents=True, exist_ok=True)
    path = out / "containers.csv"
    made = (tuple(row[name] for name in KEY) for row in rows.recorded(path))
    wanted = blocks(ROUNDS if limit is None else min(limit, ROUNDS))
    left = list(rows.missing(wanted, made, lambda block: tuple(map(str, astuple(block)))))
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


def run_all(ground: Ground, left: Sequence[Block], path: Path, tries: int) -> None:
    """Time these blocks, and keep each when it has ended."""
    with Progress(console=progress) as bar:
        task = bar.add_task("blocks", total=len(left))
        for block in left:
            bar.update(task, description=f"{block.workload} {block.setting} {block.place}")
            timed = undisturbed(ground, block, tries)
            rows.append(path, COLUMNS, [timed.row(block)])
            bar.advance(task)


class Ground:
    """Where blocks run: a container for each workload and setting, and no container."""

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

    def run(self, block: Block) -> Timed:
        """One block."""
        key = (block.workload, block.setting)
        if block.place == "container":
            words: tuple[str, ...] = ("podman", "start", "--attach", self._containers[key])
            environment = self._work.of_containers
        else:
            words = self.settings[key].words
            environment = {**self._work.environment, **self.settings[key].variables}
        return timed(words, environment, self._work.application)

    def close(self) -> None:
        """Leave no container behind."""
        for name in self._containers.values():
            self.store.remove(name)

    def versions(self) -> str:
        """What all blocks run with; InputError where it is not the same. It warms up, too."""
        found: dict[str, list[str]] = {}
        for workload, setting, place in product(WORKLOADS, SETTINGS, PLACES):
            told = self.run(Block(workload, 0, setting, place)).printed
            found.setdefault(told.versions, []).append(f"{workload} {setting} {place}")
        if len(found) > 1:
            said = " and ".join(f"{versions} ({where[0]})" for versions, where in found.items())
            raise InputError("versions", said, "the same in every image and outside")
        return next(iter(found))


def timed(words: Sequence[str], environment: Mapping[str, str], directory: Path) -> Timed:
    """Run a program, and see how long it takes and what others do meanwhile."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    busy, stolen = processors()
    begun = time.perf_counter()
    try:
        done = subprocess.run(
            words,
            env=environment,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise InputError(" ".join(words), f"no end in {PATIENCE:g} s", "a shorter block") from None
    wall = time.perf_counter() - begun
    busy_now, stolen_now = processors()
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise InputError(" ".join(words), said[0], "a training that ends well")
    printed = Printed.parse(done.stdout)
    others = max(busy_now - busy - printed.user - printed.system, 0.0)
    return Timed(printed, wall, others / wall, (stolen_now - stolen) / wall, started)


def processors(stat: Path = Path("/proc/stat")) -> tuple[float, float]:
    """Seconds that all processors were busy since the start, and seconds that were stolen."""
    with stat.open() as file:
        fields = [int(word) for word in file.readline().split()[1:9]]
    user, nice, system, _idle, _waiting, irq, softirq, stolen = fields
    tick = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq) / tick, stolen / tick


def undisturbed(ground: Ground, block: Block, tries: int) -> Timed:
    """The run during which others used least: the first below the limit, or the best of some."""
    made: list[Timed] = []
    while len(made) < tries:
        made.append(ground.run(block))
        if made[-1].other_load <= MOST_LOAD:
            break
    return min(made, key=lambda one: one.other_load)


def describe(path: Path, plans: Mapping[str, Plan], ground: Ground, has_rows: bool) -> None:
    """Write on what machine, with what versions, and by which plans the blocks are run."""
    chosen = dict(told(plans, ground))
    known = json.loads(path.read_text()) if path.exists() else {}
    if has_rows and known and known.get("plans") != chosen:
        raise InputError(str(path), "blocks of other plans", "an empty folder, or --work of then")
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
