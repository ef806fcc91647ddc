"""One network on several weak boards: how fast, by which way, and what it needs.

    sudo python benchmarks/split.py measure --out DIR
    sudo python benchmarks/split.py weak --out DIR
    python benchmarks/split.py table --runs benchmarks/measured

`measure` makes boards of 0.1 core on 100 Mbit/s (see boards.py), calibrates them, and runs
ResNet-50, ResNet-34, VGG-16 and MobileNetV2 on 1, 2 and 4 of them by every way of split_ways.py,
each by turns with the dense network in float32 on one board: about two hours on an idle machine,
as root. It goes on where it stopped. Where neighbours use the machine too, `--visits 5` comes back
to each cell until it was measured five times, and the one in the middle counts. `weak` makes
experiments with lost frames, a rate that swings, little memory, and the rate where several samples
in flight gain most. `table` prints all of it, and what is claimed; the exit code is 1 where a claim
does not hold.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ending import ended
from split_ways import COUNTS, NETWORKS, WAYS

MEASURED = Path(__file__).parent / "measured"
WORK = Path("/var/tmp/forerun-split")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    measure = verbs.add_parser("measure", help="measure the cells that are missing")
    weak = verbs.add_parser("weak", help="make the experiments that are missing")
    for verb in (measure, weak):
        verb.add_argument("--out", type=Path, required=True, help="folder of the tables")
        verb.add_argument("--work", type=Path, default=WORK, help="folder of the cut networks")
        verb.add_argument("--minutes", type=float, help="begin nothing after so many")
        verb.add_argument("--hasty", action="store_true", help="fewer samples, to see that it runs")
    names = list(dict.fromkeys(way.name for way in WAYS))
    measure.add_argument("--only", nargs="+", choices=NETWORKS, default=NETWORKS, metavar="NETWORK")
    measure.add_argument("--ways", nargs="+", choices=names, default=(), metavar="WAY")
    measure.add_argument(
        "--boards", nargs="+", type=int, choices=COUNTS, default=COUNTS, metavar="COUNT"
    )
    measure.add_argument("--visits", type=int, default=1, help="of each cell: the middle counts")
    measure.add_argument("--prepare", action="store_true", help="export and cut only")
    table = verbs.add_parser("table", help="print the table and judge the claims")
    table.add_argument("--runs", type=Path, default=MEASURED, help="folder of the measured cells")
    asked = parser.parse_args()
    return ended(lambda: VERBS[asked.verb](asked))


def measured(asked: argparse.Namespace) -> None:
    import split_runs

    split_runs.measure(asked)


def weakened(asked: argparse.Namespace) -> None:
    import split_weak

    split_weak.measure(asked)


def shown(asked: argparse.Namespace) -> int:
    import split_table

    return split_table.show(asked.runs)


VERBS = {"measure": measured, "weak": weakened, "table": shown}

if __name__ == "__main__":
    sys.exit(main())
