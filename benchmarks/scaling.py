"""Training on up to 4 hosts is known: how long does a step take on 8?

    sudo python benchmarks/scaling.py measure --out DIR
    python benchmarks/scaling.py table --runs benchmarks/measured

`measure` makes eight small hosts (see hosts.py), with throttled processors and slow links, and
times a CNN's and a transformer's steps in PyTorch on 1, 2, 4 and 8 of them: 108 runs, about half
an hour on an idle machine. It goes on where it stopped. `table` prints what follows from the runs.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from ending import ended

MEASURED = Path(__file__).parent / "measured"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(required=True)
    add_measure(verbs.add_parser("measure", help="time the runs that are missing"))
    table = verbs.add_parser("table", help="print the errors on 8 workers")
    table.add_argument("--runs", type=Path, default=MEASURED, help="folder of the measured runs")
    table.add_argument("--points", action="store_true", help="every prediction too")
    table.add_argument("--figures", type=Path, metavar="DIR", help="write the figure there")
    table.set_defaults(run=print_table)
    arguments = parser.parse_args()
    sys.exit(ended(lambda: arguments.run(arguments)))


def add_measure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, help="folder of the tables")
    parser.add_argument("--python", help="the interpreter that has PyTorch")
    parser.add_argument("--prepare", default="", help="command before each run, untimed")
    parser.add_argument("--cleanup", default="", help="command after each run, untimed")
    parser.add_argument("--quick", action="store_true", help="16 short runs instead of all")
    parser.add_argument("--limit", type=int, help="stop after this many runs")
    parser.set_defaults(run=measure)


def measure(arguments: argparse.Namespace) -> None:
    import scaling_runs

    from forerun.workloads.environments import FRAMEWORKS

    setting = scaling_runs.Setting(
        arguments.python or str(FRAMEWORKS["pytorch"].python),
        prepare=tuple(shlex.split(arguments.prepare)),
        cleanup=tuple(shlex.split(arguments.cleanup)),
    )
    scaling_runs.measure(setting, arguments.out, arguments.quick, arguments.limit)


def print_table(arguments: argparse.Namespace) -> None:
    import scaling_figures
    import scaling_table

    results = scaling_table.report(arguments.runs / "scaling.csv", arguments.points)
    if arguments.figures:
        print(scaling_figures.save(results, arguments.figures), file=sys.stderr)


if __name__ == "__main__":
    main()
