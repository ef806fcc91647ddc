"""Train every variant with every seed, as processes of one thread, and keep a row of each.

A run is `python -m forerun.splitting.train`, which keeps its state after each epoch: a second start
goes on with it. `decouple-accuracy.csv` gets the row of a run when it has ended;
`decouple-accuracy.json` says on what machine it was. Seeds come one after the other, so that what
there is at any time can be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from threading import Lock

import rows
from lenet_runs import machine
from rich.console import Console

from forerun.errors import InputError
from forerun.workloads.data import SETS, prepare
from forerun.workloads.home import data_directory, home

NAME = "decouple-accuracy"
# With a stem of stride 2: of ResNet-8 itself an epoch takes up to four times as long.
NETWORK = "resnet-8-quick"
# The dense network 0.9 times as wide has the multiply-accumulates of the widest decoupled one.
VARIANTS: dict[str, dict[str, object]] = {
    "dense": {},
    "shuffles x1.75": {"groups": 4, "width": 1.75},
    "groups": {"groups": 4, "shuffles": "none"},
    "shuffles": {"groups": 4},
    "shuffles x1.5": {"groups": 4, "width": 1.5},
    "dense x0.9": {"width": 0.9},
}
COLUMNS = (
    *("network", "variant", "seed", "epochs", "accuracy", "macs", "parameters"),
    *("seconds", "processor_seconds", "ended"),
)

# A step frees what the next one asks for: memory that goes back to the machine in between costs a
# quarter of the time.
KEPT = {"MALLOC_MMAP_THRESHOLD_": str(2**32), "MALLOC_TRIM_THRESHOLD_": str(2**33)}
KEY = ("network", "variant", "seed", "epochs")

progress = Console(stderr=True, highlight=False, soft_wrap=True)
Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Run:
    """A variant, trained from one seed."""

    variant: str
    seed: int
    epochs: int
    network: str = NETWORK

    @property
    def key(self) -> tuple[str, ...]:
        """As it stands in the table."""
        return tuple(str(getattr(self, name)) for name in KEY)

    def output(self, work: Path) -> Path:
        """Where its network goes."""
        variant = self.variant.replace(" ", "-")
        return work / f"{self.network}-{variant}-{self.seed}-{self.epochs}.onnx"

    def words(self, work: Path, data: Path) -> list[str]:
        """Its command."""
        asked = {
            "network": self.network,
            "seed": self.seed,
            "epochs": self.epochs,
            "data": data,
            "output": self.output(work),
            "threads": 1,
            **VARIANTS[self.variant],
        }
        options = [word for name, value in asked.items() for word in (f"--{name}", str(value))]
        return [sys.executable, "-m", "forerun.splitting.train", *options]


def wanted(seeds: int, epochs: int, network: str = NETWORK) -> list[Run]:
    """All runs, seed by seed."""
    return [Run(variant, seed, epochs, network) for seed in range(seeds) for variant in VARIANTS]


def train(asked: argparse.Namespace) -> None:
    """Make the runs that are missing."""
    out, work, data = asked.out, asked.work or home() / NAME, asked.data
    for folder in (out, work):
        folder.mkdir(parents=True, exist_ok=True)
    if data is None:
        data = data_directory()
        for name in ("cifar10", "cifar10-test"):
            prepare(SETS[name], data, lambda line: progress.print(line, markup=False))
    path = out / f"{NAME}.csv"
    made = [tuple(row[name] for name in KEY) for row in rows.recorded(path)]
    every = wanted(asked.seeds, asked.epochs, asked.network)
    left = list(rows.missing(every, made, lambda run: run.key))
    if left:
        (out / f"{NAME}.json").write_text(json.dumps(conditions(), indent=2) + "\n")
    processes = Processes()
    try:
        at_a_time(left, asked.jobs, lambda run: trained(run, work, data, processes), path)
    finally:
        processes.end()


def at_a_time(left: list[Run], jobs: int, make: Callable[[Run], Row], path: Path) -> None:
    """Make so many runs at a time, each written down at its end; none begins after a failure."""
    writing = Lock()

    def one(run: Run) -> None:
        row = make(run)
        with writing:
            rows.append(path, COLUMNS, [row])
        progress.print(f"{run.variant}, seed {run.seed}: {row['accuracy']}", markup=False)

    pool = ThreadPoolExecutor(jobs)
    try:
        for _ in pool.map(one, left):
            pass
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class Processes:
    """Processes that end with this one; what they were at is gone on with later."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()

    def run(self, words: list[str], log: Path) -> int:
        """Run a command of one thread to its end; its exit code."""
        with log.open("a") as file:
            one = {**os.environ, "OMP_NUM_THREADS": "1", **KEPT}
            started = subprocess.Popen(words, env=one, stdout=file, stderr=subprocess.STDOUT)
        self._running.add(started)
        code = started.wait()
        self._running.discard(started)
        return code

    def end(self) -> None:
        """End those that still run."""
        for process in list(self._running):
            process.terminate()


def trained(run: Run, work: Path, data: Path, processes: Processes) -> Row:
    """Train it, or the rest of it; its row."""
    output = run.output(work)
    log = output.with_suffix(".log")
    if code := processes.run(run.words(work, data), log):
        where = f"{run.variant}, seed {run.seed}"
        raise InputError(where, f"exit code {code}", f"a run that ends: see {log}")
    return row(run, output.with_suffix(".safetensors"))


def row(run: Run, weights: Path) -> Row:
    """What the weights' file says of the run."""
    from forerun.splitting import export, networks

    history = export.read(weights)[1]["history"]
    size = networks.count(export.load(weights))
    return {
        "network": run.network,
        "variant": run.variant,
        "seed": run.seed,
        "epochs": run.epochs,
        "accuracy": history[-1]["accuracy"],
        "macs": size.macs,
        "parameters": size.parameters,
        "seconds": round(sum(one["seconds"] for one in history), 1),
        "processor_seconds": round(sum(one["processor_seconds"] for one in history), 1),
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def conditions() -> dict[str, object]:
    """On what machine, and with which versions."""
    versions = {name: version(name) for name in ("torch", "numpy", "safetensors")}
    return {**machine(), "variants": VARIANTS, "versions": versions}
