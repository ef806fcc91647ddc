"""Is forerun's image faster than a plain one, and does a container cost anything?

    sudo python benchmarks/containers.py measure --out DIR
    python benchmarks/containers.py table --runs benchmarks/measured

`measure` plans the training of an MNIST-CNN and of ResNet-50 by short trials (threads, affinity,
allocator, compiler), builds the plan's image from forerun's own recipe and a plain one of the same
wheels, and times blocks of training in both and outside a container, by turns, at least 300 of each
in 30 rounds: about an hour and a half on an idle machine, as root, with Debian's buildah, podman,
runc, debootstrap, libjemalloc2 and libtcmalloc-minimal4. It goes on where it stopped. `table`
prints the ratios with 95 % intervals. The claims: forerun's image is at least 1.15 times as fast as
the plain one for one workload and never below 0.98; a container over none is below 1.02 with all of
its interval. The exit code is 1 where one does not hold.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ending import ended

MEASURED = Path(__file__).parent / "measured"
WORK = Path("/var/tmp/forerun-containers")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    measure = verbs.add_parser("measure", help="plan, build, and time the rounds that are missing")
    measure.add_argument("--out", type=Path, required=True, help="folder of the table")
    measure.add_argument("--work", type=Path, default=WORK, help="folder of plans and images")
    measure.add_argument("--limit", type=int, help="so many rounds of each workload, no more")
    measure.add_argument("--trial", type=float, help="seconds of each plan's trials, if not ours")
    measure.add_argument("--hasty", action="store_true", help="keep rounds that others disturbed")
    table = verbs.add_parser("table", help="print the ratios and judge the claims")
    table.add_argument("--runs", type=Path, default=MEASURED, help="folder of the measured runs")
    asked = parser.parse_args()
    return ended(lambda: measured(asked) if asked.verb == "measure" else shown(asked))


def measured(asked: argparse.Namespace) -> None:
    import containers_runs

    containers_runs.measure(asked.out, asked.work, asked.limit, asked.trial, not asked.hasty)


def shown(asked: argparse.Namespace) -> int:
    import containers_table

    return containers_table.show(asked.runs)


if __name__ == "__main__":
    sys.exit(main())
