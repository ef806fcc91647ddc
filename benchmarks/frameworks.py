"""Three frameworks, one network, all its factors: what can be predicted from a few timed runs.

    python benchmarks/frameworks.py measure --framework pytorch --framework mxnet --out DIR
    python benchmarks/frameworks.py table --runs benchmarks/measured

The study of the generic performance model's paper, on the machine at hand. `measure` times 147
runs of each framework (105 random configurations, 21 of them three times), about 20 minutes each
on an idle machine, and goes on where it stopped. `table` prints what follows from the runs.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import warnings
from pathlib import Path

from lenet_points import FRAMEWORKS

from forerun.errors import InputError

HOME = Path.home() / ".local/share/forerun"
SCRIPTS = Path(__file__).resolve().parents[1] / "src/forerun/workloads"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    add_measure(verbs.add_parser("measure", help="time the runs that are missing"))
    add_table(verbs.add_parser("table", help="print what follows from the runs"))
    arguments = parser.parse_args()
    try:
        arguments.run(arguments)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def add_measure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--framework",
        action="append",
        choices=FRAMEWORKS,
        help="may be given several times: they take turns; default all three",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the tables")
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="FRAMEWORK=PATH",
        help="the interpreter that has the framework",
    )
    parser.add_argument("--data", type=Path, default=HOME / "data", help="folder of the data sets")
    parser.add_argument("--prepare", default="", help="command before each run, untimed")
    parser.add_argument("--cleanup", default="", help="command after each run, untimed")
    parser.add_argument("--limit", type=int, help="stop after this many runs")
    parser.set_defaults(run=measure)


def measure(arguments: argparse.Namespace) -> None:
    import lenet_runs

    frameworks = arguments.framework or list(FRAMEWORKS)
    given = dict(_named(text) for text in arguments.python)
    environments = HOME / "environments"
    pythons = {
        name: given.get(name, str(environments / f"{name}-env/bin/python")) for name in frameworks
    }
    setting = lenet_runs.Setting(
        pythons,
        SCRIPTS,
        arguments.data,
        tuple(shlex.split(arguments.prepare)),
        tuple(shlex.split(arguments.cleanup)),
    )
    lenet_runs.measure(setting, arguments.out, arguments.limit)


def add_table(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=Path, required=True, help="folder of the tables")
    parser.add_argument("--figures", type=Path, metavar="DIR", help="write the figures there")
    parser.add_argument("--json", action="store_true", help="print a JSON document instead")
    parser.add_argument("--cache", type=Path, help="results so far, to go on from")
    parser.set_defaults(run=table)


def table(arguments: argparse.Namespace) -> None:
    import lenet_figures
    import lenet_report

    warnings.filterwarnings("ignore")
    found = lenet_report.results(arguments.runs, arguments.cache)
    if arguments.json:
        print(json.dumps(lenet_report.document(found), indent=2, ensure_ascii=False))
    else:
        lenet_report.show(found)
    if arguments.figures:
        for path in lenet_figures.save(found, arguments.figures):
            print(path, file=sys.stderr)


def _named(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals or name not in FRAMEWORKS:
        raise InputError("--python", text, f"FRAMEWORK=PATH with one of {', '.join(FRAMEWORKS)}")
    return name, path


if __name__ == "__main__":
    main()
