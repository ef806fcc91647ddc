"""Time training steps, plain and compiled, and keep them as a table.

One process a cell, which is a framework, a network, a number of threads and a target: it makes all
variants of the cell and times their steps by turns (see steps_rounds.py). `compilers.csv` gets the
rows of a cell when the cell is whole: a second start goes on with the next one. `compilers.json`
says on what machine it was.

A target is this machine with its instruction set capped: oneDNN, ATen, MKL, OpenBLAS, inductor's
C++ compiler and XLA each have a variable for that. What their libraries compiled beforehand (Eigen
in TensorFlow and XLA) is as it is.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import rows
from lenet_runs import machine
from rich.console import Console
from rich.progress import Progress
from steps_networks import NETWORKS

from forerun.workloads.environments import FRAMEWORKS, facts

HERE = Path(__file__).parent
VARIANTS = {"pytorch": "inductor", "tensorflow": "xla", "mxnet": "hybridised", "jax": "xla"}
THREADS = {"avx2": (2, 1), "avx": (2,), "sse4": (2,)}  # by target
TARGETS: dict[str, dict[str, str]] = {
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "DNNL_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "TORCHINDUCTOR_CPP_MARCH": "x86-64-v3",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
    },
    "avx": {
        "ATEN_CPU_CAPABILITY": "default",
        "DNNL_MAX_CPU_ISA": "AVX",
        "MKL_ENABLE_INSTRUCTIONS": "AVX",
        "ONEDNN_MAX_CPU_ISA": "AVX",
        "OPENBLAS_CORETYPE": "Sandybridge",
        "TORCHINDUCTOR_CPP_MARCH": "sandybridge",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX",
    },
    "sse4": {
        "ATEN_CPU_CAPABILITY": "default",
        "DNNL_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OPENBLAS_CORETYPE": "Nehalem",
        "TORCHINDUCTOR_CPP_MARCH": "x86-64-v2",
        "XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2",
    },
}
CELL = ("framework", "network", "threads", "target")
COLUMNS = (*CELL, "variant", "kind", "round", "seconds", "processors", "started")
TIMEOUT = 900.0  # seconds of one cell

progress = Console(stderr=True, highlight=False, soft_wrap=True)
Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Cell:
    """What is the same for all variants that are timed by turns."""

    framework: str
    network: str
    threads: int
    target: str

    def environment(self, scratch: Path) -> dict[str, str]:
        count = str(self.threads)
        return {
            **os.environ,
            **TARGETS[self.target],
            "OMP_NUM_THREADS": count,
            "OPENBLAS_NUM_THREADS": count,
            "NPROC": count,  # the only one that JAX minds
            "TORCHINDUCTOR_CACHE_DIR": str(scratch),  # or the second start would not compile
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }


def cells() -> list[Cell]:
    """All of them; this machine as it is first, then as the lesser ones, in random order each."""
    drawn = random.Random(0)
    found = []
    for target in TARGETS:
        some = [Cell(*one, target) for one in product(VARIANTS, NETWORKS, THREADS[target])]
        found += drawn.sample(some, len(some))
    return found


def measure(out: Path, limit: int | None = None) -> None:
    """Time the cells that are missing."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "compilers.csv"
    made = (tuple(row[name] for name in CELL) for row in rows.recorded(path))
    left = rows.missing(cells(), made, lambda cell: tuple(map(str, astuple(cell))))
    wanted = list(left)[:limit]
    if wanted:
        (out / "compilers.json").write_text(json.dumps(conditions(), indent=2) + "\n")
    with Progress(console=progress) as bar:
        task = bar.add_task("cells", total=len(wanted))
        for cell in wanted:
            bar.update(task, description=f"{cell.framework} {cell.network}")
            rows.append(path, COLUMNS, list(timed(cell)))
            bar.advance(task)


def timed(cell: Cell) -> Iterator[Row]:
    """The rows of a cell; one row of kind `failed` where it could not be timed."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    same: Row = {name: getattr(cell, name) for name in CELL} | {"started": started}
    words = [str(FRAMEWORKS[cell.framework].python), str(HERE / f"steps_{cell.framework}.py")]
    words += ["--network", cell.network, "--threads", str(cell.threads)]
    with tempfile.TemporaryDirectory() as scratch:
        try:
            ended = subprocess.run(
                words,
                env=cell.environment(Path(scratch)),
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=True,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            said = str(error.stderr or error).strip().splitlines()
            progress.print(f"{cell}: {said[-1] if said else 'failed'}", markup=False)
            yield {**same, "kind": "failed"}
            return
    for line in ended.stdout.splitlines():
        if line.startswith("{"):
            yield {**same, **json.loads(line)}


def conditions() -> dict[str, object]:
    """On what machine, and with which versions."""
    versions = {name: (facts(FRAMEWORKS[name]) or {}).get("versions", {}) for name in VARIANTS}
    return {**machine(), "targets": TARGETS, "versions": versions}
