"""Does compiling the graph pay? MODAK's question, again, on this machine.

    python benchmarks/compilers.py measure --out DIR
    python benchmarks/compilers.py table --runs benchmarks/measured

`measure` times training steps of six networks between an MNIST-CNN and ResNet-50, plain and by the
graph compiler of PyTorch, TensorFlow, MXNet and JAX, with 1 and 2 threads on this machine, and with
2 on two lesser ones (its instruction set capped): 96 cells, about an hour. It goes on where it
stopped. `table` prints what compiling takes and gains, with 95 % intervals, and what forerun would
have chosen from a third of the measurements; its exit code is 1 where that is more than 3 % slower
than the best, or compiled where compiling loses.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ending import ended

MEASURED = Path(__file__).parent / "measured"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    measure = verbs.add_parser("measure", help="time the cells that are missing")
    measure.add_argument("--out", type=Path, required=True, help="folder of the table")
    measure.add_argument("--limit", type=int, help="stop after this many cells")
    table = verbs.add_parser("table", help="print what compiling takes and gains")
    table.add_argument("--runs", type=Path, default=MEASURED, help="folder of the measured runs")
    asked = parser.parse_args()
    return ended(lambda: measured(asked) if asked.verb == "measure" else shown(asked))


def measured(asked: argparse.Namespace) -> None:
    import compilers_runs

    compilers_runs.measure(asked.out, asked.limit)


def shown(asked: argparse.Namespace) -> int:
    import compilers_table

    return compilers_table.show(asked.runs)


if __name__ == "__main__":
    sys.exit(main())
