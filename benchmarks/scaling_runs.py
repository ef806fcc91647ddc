"""Time the steps of a training script on 1 to 8 small hosts, and keep the runs as a table.

`scaling.csv` has a row for each run, appended as it is measured: a second start goes on where the
first one stopped. `scaling-calibration.csv` says how slow links and processors were, before and
after the runs of each start, and `scaling.json` on what machine it was.
"""

from __future__ import annotations

import csv
import json
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import rows
from calibrate_hosts import COLUMNS as CALIBRATED
from hosts import Hosts, hosts
from lenet_runs import machine, version
from on_hosts import STOLEN, THROTTLED
from rich.console import Console
from scaling_points import MEGABITS, STEPS, Task, tasks

import forerun
from forerun.errors import InputError
from forerun.jobs.command import Command, Timing, time_command
from forerun.workloads.environments import FRAMEWORKS

HERE = Path(__file__).parent
HOSTS = 8
SHARE = 0.18  # of a processor, each host's: 1.44 for all eight
SECONDS, QUICK_SECONDS = 8.0, 3.0  # of steps that are timed, at least
EPOCHS = 10**6  # more than a run gets to
FACTORS = ("network", "workers", "megabits", "batch", "size")
COLUMNS = (
    *FACTORS,
    "parameters",
    "seconds",  # a step
    "steps",
    "deviation",  # between epochs, relative
    "wall_seconds",
    "other_load",  # processors that others used; what the network costs is among it
    "stolen",  # processors that the host of this machine took away
    "started",
    "status",
)
MOST_OFF = 5.0  # per cent, of links and processors, in the mean of the hosts
MOST_LOAD, MOST_STOLEN = 0.3, 0.05  # processors
TRIES = 3
FAILURES = 5  # in a row, after which the rest is given up

progress = Console(stderr=True, highlight=False, soft_wrap=True)
Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Setting:
    """What every run has in common."""

    python: str  # the interpreter that has PyTorch
    seconds: float = SECONDS
    prepare: tuple[str, ...] = ()
    cleanup: tuple[str, ...] = ()

    def run(self, words: tuple[str, ...]) -> tuple[Timing, list[str]]:
        """Time a command; the lines that it printed."""
        command = Command(words, prepare=self.prepare, cleanup=self.cleanup)
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "output.txt"
            timing = time_command(command, output)
            return timing, output.read_text().splitlines()

    def train(self, made: Hosts, task: Task) -> Row:
        """Train on as many hosts as there are workers; a row of the table."""
        made.limit_links(task.megabits)
        limits = (str(made.maker), str(task.workers), str(SHARE), str(self.seconds))
        script = str(FRAMEWORKS["pytorch"].script)
        options = (*task.options, "--epochs", str(EPOCHS))
        timing, lines = self.run(
            (self.python, str(HERE / "on_hosts.py"), *limits, script, *options)
        )
        if timing.status == "ok":
            return row(task, timing, measured(lines))
        progress.print(f"{timing.status}: {timing.reason}")
        return row(task, timing, {})

    def undisturbed(self, made: Hosts, task: Task) -> Row:
        """The run that others disturbed least: the first below the limit, or the best of three."""
        tries: list[Row] = []
        while len(tries) < TRIES:
            tries.append(self.train(made, task))
            if disturbed(tries[-1]) in (0, math.inf):
                break
        return min(tries, key=disturbed)

    def calibrate(self, made: Hosts) -> list[dict[str, str]]:
        """How slow links and processors are."""
        words = (str(made.maker), str(made.count), str(SHARE), *map(str, MEGABITS))
        timing, lines = self.run((sys.executable, str(HERE / "calibrate_hosts.py"), *words))
        if timing.status != "ok":
            raise InputError("calibration", timing.reason, "an exit code of 0")
        found = list(csv.DictReader(lines[lines.index(CALIBRATED) :]))
        worst = max(found, key=off)
        what = f"{worst['what']} {worst['megabits']}".strip()
        progress.print(f"calibrated: furthest off is {what}, by {off(worst):.1f} %")
        return [{"started": timing.started, **cells} for cells in found]


def disturbed(cells: Row) -> float:
    """By how many processors too many others, here and outside, used during a run; 0: not."""
    if cells["status"] != "ok":
        return math.inf
    used, taken = (float(str(cells[name])) for name in ("other_load", "stolen"))
    return max(used - MOST_LOAD, 0) + max(taken - MOST_STOLEN, 0)


def off(cells: Mapping[str, str]) -> float:
    """How far from the expected time the hosts were in the mean, in per cent."""
    return abs(float(cells["measured_ms"]) / float(cells["expected_ms"]) - 1) * 100


def measured(lines: list[str]) -> Row:
    """What a run's ordinary output tells: parameters, and the seconds of its steps.

    The epoch under way when processors were throttled, the first one after that line, is left out.
    """
    parameters = next(line for line in lines if line.startswith("network ")).split()[2]
    after = lines[lines.index(THROTTLED) + 1 :]
    epochs = [float(line.split()[-2]) for line in after if line.startswith("epoch ")][1:]
    mean = statistics.fmean(epochs)
    taken = next(line for line in after if line.startswith(STOLEN)).removeprefix(STOLEN)
    return {
        "parameters": parameters,
        "seconds": f"{mean / STEPS:.6f}",
        "steps": len(epochs) * STEPS,
        "deviation": f"{statistics.stdev(epochs) / mean:.4f}",
        "stolen": taken,
    }


def row(task: Task, timing: Timing, found: Row) -> Row:
    """What the table keeps of a run; one that did not end well has no times."""
    return {
        **dict(zip(FACTORS, astuple(task), strict=True)),
        **found,
        "wall_seconds": f"{timing.wall_seconds:.2f}",
        "other_load": f"{timing.other_load:.3f}",
        "started": timing.started,
        "status": timing.status,
    }


def measure(setting: Setting, out: Path, quick: bool = False, limit: int | None = None) -> None:
    """Make every run that `out` does not hold yet, or the next `limit` of them."""
    if os.geteuid() != 0:
        raise InputError("user", os.geteuid(), "root (0), who may make network namespaces")
    out.mkdir(parents=True, exist_ok=True)
    describe(setting, out / "scaling.json")
    if quick:
        setting = replace(setting, seconds=QUICK_SECONDS)
    todo = missing(tasks(quick), out / "scaling.csv")[:limit]
    if not todo:
        return
    with hosts(HOSTS) as made:
        if not any(calibrated(setting, made, out) for _ in range(TRIES)):
            raise InputError("calibration", f"over {MOST_OFF:g} % off", "an idle machine")
        measure_all(setting, made, todo, out / "scaling.csv")
        calibrated(setting, made, out)


def calibrated(setting: Setting, made: Hosts, out: Path) -> bool:
    """Whether the hosts are as slow as they should be; what was found is kept in any case."""
    found = setting.calibrate(made)
    rows.append(out / "scaling-calibration.csv", tuple(found[0]), found)
    return max(map(off, found)) <= MOST_OFF


def measure_all(setting: Setting, made: Hosts, todo: list[Task], path: Path) -> None:
    """Make these runs."""
    failures = 0
    for number, task in enumerate(todo, start=1):
        cells = setting.undisturbed(made, task)
        rows.append(path, COLUMNS, [cells])
        told = " ".join(f"{name} {cells[name]}" for name in FACTORS)
        progress.print(f"{number} of {len(todo)}: {told}: {cells.get('seconds', '-')} s a step")
        failures = 0 if cells["status"] == "ok" else failures + 1
        if failures == FAILURES:
            raise InputError("runs", f"{FAILURES} failures in a row", "runs that end well")


def missing(wanted: list[Task], path: Path) -> list[Task]:
    """The runs that the table does not hold, in order."""
    return list(rows.missing(wanted, recorded(path), lambda task: task))


def recorded(path: Path) -> list[Task]:
    """The runs that ended well."""
    good = [cells for cells in rows.recorded(path) if cells["status"] == "ok"]
    return [Task(cells["network"], *(int(cells[name]) for name in FACTORS[1:])) for cells in good]


def describe(setting: Setting, path: Path) -> None:
    """Write on what machine and with what versions the runs are made."""
    known = json.loads(path.read_text()) if path.exists() else {}
    document = {
        "started": known.get("started") or datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "forerun": forerun.__version__,
        "versions": version("pytorch", setting.python),
        "share of a processor a host": SHARE,
    }
    path.write_text(json.dumps(document, indent=2) + "\n")
