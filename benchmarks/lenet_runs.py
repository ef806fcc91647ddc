"""Time the LeNet-type network's configurations in each framework, and keep the runs as tables.

One file a framework, `lenet-pytorch.csv` and so on, a row for each run, appended as it is measured:
a second start goes on where the first one stopped. `lenet.json` beside them says on what machine
and with what versions. The frameworks take turns, so that a slow hour of the machine cannot look
like a slow framework.
"""

from __future__ import annotations

import json
import os
import platform
import random
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import rows
from lenet_points import CHUNK, SPACE, Task, rough_seconds, tasks
from rich.console import Console

import forerun
from forerun.errors import InputError
from forerun.factors import Point
from forerun.jobs.command import Command, Timing, check_program, time_command

MEASURES = ("seconds", "user_seconds", "system_seconds", "memory_bytes")
COLUMNS = (*SPACE, *MEASURES, "other_load", "started", "status")
TIMEOUT = 120.0  # seconds
MOST_LOAD = 0.2  # processors that others may keep busy during a run
TRIES = 3  # of a run that others disturbed
FAILURES = 5  # in a row, after which a framework is given up

progress = Console(stderr=True)
Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Setting:
    """Where everything is that a run needs."""

    pythons: Mapping[str, str]  # framework: interpreter
    scripts: Path
    data: Path
    prepare: tuple[str, ...] = ()
    cleanup: tuple[str, ...] = ()

    def command(self, framework: str, point: Point) -> Command:
        """The training script of the framework at this point."""
        options = [
            word
            for name, value in point.items()
            for word in (f"--{name.replace('_', '-')}", f"{value}")
        ]
        script = self.scripts / f"train_{framework}.py"
        fixed = ("--network", "lenet", "--data", str(self.data), "--chunk-size", str(CHUNK))
        words = (self.pythons[framework], str(script), *fixed, *options)
        return Command(words, timeout=TIMEOUT, prepare=self.prepare, cleanup=self.cleanup)

    def time(self, framework: str, point: Point) -> Timing:
        """Time one run."""
        with tempfile.TemporaryDirectory() as folder:
            return time_command(self.command(framework, point), Path(folder) / "output.txt")

    def check(self) -> None:
        """InputError unless every interpreter, script and data set is there."""
        for framework, python in self.pythons.items():
            check_program((python,))
            script = self.scripts / f"train_{framework}.py"
            if not script.is_file():
                raise InputError("training script", script, "a file")
        if not self.data.is_dir():
            raise InputError("data", self.data, "a folder with the data sets")


def measure(setting: Setting, out: Path, limit: int | None = None) -> None:
    """Make every run that `out` does not hold yet, or the next `limit` of them."""
    setting.check()
    out.mkdir(parents=True, exist_ok=True)
    describe(setting, out / "lenet.json")
    todo = remaining(list(setting.pythons), out)[:limit]
    if todo:
        warm_up(setting)
    failures: Counter[str] = Counter()
    for number, task in enumerate(todo, start=1):
        if failures[task.framework] >= FAILURES:
            continue
        timing = undisturbed(setting, task)
        append(table(out, task.framework), row(task.point, timing))
        failures[task.framework] = 0 if timing.status == "ok" else failures[task.framework] + 1
        progress.print(f"{number} of {len(todo)}: {task.framework} {said(timing)}", highlight=False)
    for framework in (name for name, count in failures.items() if count >= FAILURES):
        progress.print(f"{framework}: given up after {FAILURES} failed runs in a row")


def table(out: Path, framework: str) -> Path:
    """The file of one framework's runs."""
    return out / f"lenet-{framework}.csv"


def remaining(frameworks: Sequence[str], out: Path) -> list[Task]:
    """The runs to make, the frameworks in turn, and in each turn in random order."""
    queues = {name: iter(missing(name, table(out, name))) for name in frameworks}
    draw, order = random.Random(7), []
    while queues:
        for name in draw.sample(sorted(queues), len(queues)):
            task = next(queues[name], None)
            if task is None:
                del queues[name]
            else:
                order.append(task)
    return order


def missing(framework: str, path: Path) -> Iterator[Task]:
    """The runs of one framework that its table does not hold, failed ones included."""
    return rows.missing(tasks(framework), recorded(path), lambda task: task.point)


def recorded(path: Path) -> list[Point]:
    """The point of each row."""
    made = rows.recorded(path)
    return [SPACE.point({name: cells[name] for name in SPACE}) for cells in made]


def warm_up(setting: Setting) -> None:
    """One short run of each framework, kept nowhere: the first one reads everything from disk."""
    for framework in setting.pythons:
        shortest = min(tasks(framework), key=lambda task: rough_seconds(task.point))
        timing = setting.time(framework, shortest.point)
        progress.print(f"warm-up: {framework} {said(timing)}", highlight=False)


def undisturbed(setting: Setting, task: Task) -> Timing:
    """The run during which others used least: the first below the limit, or the best of three."""
    tries: list[Timing] = []
    while len(tries) < TRIES:
        tries.append(setting.time(task.framework, task.point))
        if tries[-1].other_load <= MOST_LOAD or tries[-1].status != "ok":
            break
    return min(tries, key=lambda timing: (timing.status != "ok", timing.other_load))


def row(point: Point, timing: Timing) -> Row:
    """What the table keeps of a run; a run that did not end well has no times."""
    measures: Row = dict.fromkeys(MEASURES, "")
    if timing.status == "ok":
        measures = {
            "seconds": f"{timing.seconds:.4f}",
            "user_seconds": f"{timing.user_seconds:.4f}",
            "system_seconds": f"{timing.system_seconds:.4f}",
            "memory_bytes": timing.memory_bytes,
        }
    load = f"{timing.other_load:.3f}"
    return {
        **point,
        **measures,
        "other_load": load,
        "started": timing.started,
        "status": timing.status,
    }


def append(path: Path, cells: Row) -> None:
    """One more row, on the disk when this returns."""
    rows.append(path, COLUMNS, [cells])


def said(timing: Timing) -> str:
    if timing.seconds is None:
        return f"{timing.status}: {timing.reason}"
    return f"{timing.seconds:.2f} s, others kept {timing.other_load:.2f} processors busy"


def describe(setting: Setting, path: Path) -> None:
    """Write on what machine and with what versions the runs are made."""
    known = json.loads(path.read_text()) if path.exists() else {}
    versions = {**known.get("versions", {})}
    for framework, python in setting.pythons.items():
        versions[framework] = version(framework, python)
    document = {
        "started": known.get("started") or datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "forerun": forerun.__version__,
        "versions": dict(sorted(versions.items())),
        "threads a worker": 1,
        "images a chunk": CHUNK,
    }
    path.write_text(json.dumps(document, indent=2) + "\n")


def version(framework: str, python: str) -> dict[str, str]:
    """The framework's version and its interpreter's, asked of the interpreter itself."""
    packages = {"pytorch": "torch", "tensorflow": "tensorflow-cpu"}
    ask = (
        "import importlib.metadata as m, platform, sys;"
        "print(platform.python_version(), m.version(sys.argv[1]))"
    )
    words = [python, "-c", ask, packages.get(framework, framework)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"python of {framework}", python, f"an interpreter that has {words[-1]}")
    of_python, of_framework = done.stdout.split()
    return {"python": of_python, framework: of_framework}


def machine() -> dict[str, object]:
    """The processor's name, how many there are, the memory and the kernel."""
    facts = Path("/proc/cpuinfo").read_text()
    names = [line.partition(":")[2].strip() for line in facts.splitlines() if "model name" in line]
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": names[0] if names else platform.machine(),
        "processors": os.cpu_count(),
        "memory_bytes": pages,
        "system": f"{platform.system()} {platform.release()}",
    }
