"""Measure the table of runs that ships with forerun.

    python measure.py --python PYTHON_WITH_TORCH --out lenet.csv

Random points over all factors, in one random order with the repeats spread through it, each run a
fresh process. Rows are appended as they are measured: a second start goes on where the first one
stopped. Let nothing else run meanwhile.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import random
import subprocess
import time
from pathlib import Path

SCRIPT = Path(__file__).with_name("train.py")
SPACE: dict[str, list[object]] = {
    "kernel": [2, 3, 4, 5],
    "filters": [4, 8, 16, 32],
    "activation": ["relu", "tanh", "sigmoid"],
    "optimiser": ["sgd", "adam"],
    "batch": [8, 16, 32, 64, 128, 256],
    "samples": [2048, 4096, 8192],
    "workers": [1, 2],
}
COLUMNS = [*SPACE, "seconds", "memory_bytes", "exit_code", "load_before", "started"]


def points(count: int, repeated: int) -> list[tuple[object, ...]]:
    """`count` distinct points, the first `repeated` of them three times, in one random order."""
    draw = random.Random(2024)
    distinct = draw.sample(list(itertools.product(*SPACE.values())), count)
    runs = distinct + 2 * distinct[:repeated]
    draw.shuffle(runs)
    return runs


def once(python: str, point: tuple[object, ...], number: int) -> list[object]:
    options = [
        word for name, value in zip(SPACE, point, strict=True) for word in (f"--{name}", str(value))
    ]
    load, started = os.getloadavg()[0], time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    start = time.perf_counter()
    process = subprocess.Popen([python, str(SCRIPT), *options, "--port", str(29600 + number)])
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    # Linux gives KiB: the largest process of those that were waited for
    memory = usage.ru_maxrss * 1024
    return [
        *point,
        f"{seconds:.4f}",
        memory,
        os.waitstatus_to_exitcode(status),
        f"{load:.2f}",
        started,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--points", type=int, default=80)
    parser.add_argument("--repeated", type=int, default=8)
    arguments = parser.parse_args()
    done = len(arguments.out.read_text().splitlines()) - 1 if arguments.out.exists() else 0
    with arguments.out.open("a", newline="") as file:
        writer = csv.writer(file)
        if not done:
            writer.writerow(COLUMNS)
        todo = points(arguments.points, arguments.repeated)
        for number, point in enumerate(todo[done:], start=done):
            writer.writerow(once(arguments.python, point, number))
            file.flush()
            print(f"{number + 1} of {len(todo)}", flush=True)


if __name__ == "__main__":
    main()
