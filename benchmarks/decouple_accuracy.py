"""What do groups, shuffles and width do to accuracy? DeCNN's question, again, on CIFAR-10.

    python benchmarks/decouple_accuracy.py train --out benchmarks/measured
    python benchmarks/decouple_accuracy.py table --runs benchmarks/measured

`train` trains a ResNet-8, with a stem of stride 2 for time's sake: dense, dense with the
multiply-accumulates of the widest decoupled one, in four groups without shuffles, with shuffles
between its stages, and with these 1.5 and 1.75 times as wide; the same 15 epochs each, five times
with other seeds, one thread a run, hours in all. It goes on where it stopped, in the middle of a
run too. `table` prints accuracies with intervals over the seeds, and whether DeCNN's claims hold
here; its exit code is 1 where one does not.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from decouple_accuracy_runs import NETWORK
from ending import ended

MEASURED = Path(__file__).parent / "measured"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    train = verbs.add_parser("train", help="make the runs that are missing")
    train.add_argument("--out", type=Path, required=True, help="folder of the table")
    train.add_argument("--work", type=Path, help="folder of networks and unfinished runs")
    train.add_argument("--data", type=Path, help="folder of the data sets (default: fetched)")
    train.add_argument("--jobs", type=int, default=2, help="runs at a time")
    train.add_argument("--seeds", type=int, default=5)
    train.add_argument("--epochs", type=int, default=15)
    table = verbs.add_parser("table", help="print accuracies and what they show")
    table.add_argument("--runs", type=Path, default=MEASURED, help="folder of the measured runs")
    for verb in (train, table):
        verb.add_argument("--network", default=NETWORK, help="resnet-8 takes four times as long")
    asked = parser.parse_args()
    return ended(lambda: trained(asked) if asked.verb == "train" else shown(asked))


def trained(asked: argparse.Namespace) -> None:
    import decouple_accuracy_runs

    decouple_accuracy_runs.train(asked)


def shown(asked: argparse.Namespace) -> int:
    import decouple_accuracy_table

    return decouple_accuracy_table.show(asked.runs, asked.network)


if __name__ == "__main__":
    sys.exit(main())
