"""The whole way, from a training script that forerun has never seen to the configuration to use.

    python benchmarks/whole_way.py measure --out DIR
    python benchmarks/whole_way.py plan --runs DIR --cache DIR/whole-way-plans.json [--seeds 3]

Three scripts in `whole_way/` (a GRU in PyTorch, a convolutional autoencoder in TensorFlow, a mixer
in JAX) have 96, 64 and 64 configurations. `measure` times all of them at full length, once, and the
best five twice more: about 50 minutes on an idle machine. `plan` lets forerun choose by short
trials, with several seeds, times what it chose and the best afresh, by turns, and says how much
longer its choice takes than the best: about 40 minutes. Both go on where they stopped, so that of
the folder `measured`, which has all of it, `plan` prints the tables at once. The claim: at most 5 %
longer, in the mean of the seeds, having spent at most 10 % of the seconds that measuring all of
them takes; else the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ending import ended

from forerun.errors import InputError

MEASURED = Path(__file__).parent / "measured"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(required=True)
    measuring = verbs.add_parser("measure", help="time the runs that are missing")
    measuring.add_argument("--out", type=Path, required=True, help="folder of the tables")
    measuring.add_argument("--limit", type=int, help="so many runs of each workload, no more")
    measuring.add_argument(
        "--hasty", action="store_true", help="keep runs that other programs disturbed"
    )
    measuring.set_defaults(run=measure)
    planning = verbs.add_parser("plan", help="plan by short trials, and print the regret")
    planning.add_argument("--runs", type=Path, default=MEASURED, help="folder of the tables")
    planning.add_argument("--seeds", type=int, default=3, help="plans of each workload")
    planning.add_argument("--share", type=float, default=0.08, help="of exhaustive seconds")
    planning.add_argument("--cache", type=Path, help="keep the plans there, and go on from it")
    planning.set_defaults(run=print_plans)
    for one in (measuring, planning):
        one.add_argument("--only", action="append", help="this workload; more than once for more")
    arguments = parser.parse_args()
    sys.exit(ended(lambda: arguments.run(arguments)))


def measure(arguments: argparse.Namespace) -> None:
    import whole_way_runs

    names = wanted(arguments.only)
    whole_way_runs.measure(arguments.out, names, arguments.limit, not arguments.hasty)


def print_plans(arguments: argparse.Namespace) -> None:
    import whole_way_plans
    from kept import Kept

    names, cache = wanted(arguments.only), Kept(arguments.cache)
    found = whole_way_plans.plans(names, arguments.runs, arguments.seeds, arguments.share, cache)
    whole_way_plans.report(found)
    if not whole_way_plans.fulfilled(found):
        raise SystemExit(1)


def wanted(only: list[str] | None) -> list[str]:
    """The workloads asked for; InputError for one that there is none of."""
    from whole_way_runs import NAMES

    for name in only or ():
        if name not in NAMES:
            raise InputError("--only", name, f"one of {', '.join(NAMES)}")
    return [name for name in NAMES if only is None or name in only]


if __name__ == "__main__":
    main()
