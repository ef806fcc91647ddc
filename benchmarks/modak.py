"""What MODAK's published requests become: a plan, a job script, and what a real Slurm says to it.

    sudo python benchmarks/modak.py --data DIR

DIR holds the example requests of MODAK (SODALITE-EU/modak on GitHub, Apache-2.0), *.json. Each is
handed to `forerun plan` as it is, with a cluster as such requests ask for (benchmarks/modak), and
its plan to `forerun build`; the script goes to `bash -n`, to shellcheck, and to `sbatch
--test-only` of a Slurm of four nodes that is started for it. Scripts for Torque are read by the
same sbatch, as Slurm's own qsub has them read. The exit code is 1 where one of them is refused.
What is no request (a template, broken JSON) is listed with what was said of it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ending import ended
from rich.console import Console
from rich.table import Table
from system_parts import slurm

from forerun.errors import InputError

HERE = Path(__file__).parent
NODES = {"n": slurm.Nodes(4, cpus=64, memory=66_000, gpus=2, features=("mc", "ssd"))}
PARTITIONS = {
    name: slurm.Partition(walltime="2-00:00:00", default=name == "standard")
    for name in ("standard", "normal", "gpu")
}
FORERUN = (sys.executable, "-m", "forerun")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the requests")
    asked = parser.parse_args()
    return ended(lambda: tried(asked.data))


def tried(folder: Path) -> int:
    """Try each request; 1 where a script is refused."""
    if reason := slurm.why_not():
        raise InputError("Slurm", reason, "Debian with slurm-wlm and munge")
    requests = sorted(folder.glob("*.json"))
    if not requests:
        raise InputError(str(folder), "no *.json", "the example requests of MODAK")
    table = Table("request", "bash -n", "shellcheck", "sbatch --test-only", box=None)
    good, none = True, []
    with tempfile.TemporaryDirectory() as work, slurm.cluster(NODES, PARTITIONS) as cluster:
        environment = {
            **os.environ,
            "SLURM_CONF": cluster.environment["SLURM_CONF"],
            "XDG_STATE_HOME": f"{work}/state",
        }
        for request in requests:
            script, said = built(request, Path(work), environment)
            if script is None:
                none.append(said)
                continue
            checks = (("bash", "-n"), ("shellcheck",), ("sbatch", "--test-only"))
            found = [run((*words, str(script)), environment) for words in checks]
            good = good and all(code == 0 for code, _ in found)
            told = ("accepted" if code == 0 else text for code, text in found)
            table.add_row(request.stem, *told)
    to = Console(soft_wrap=True, highlight=False)
    to.print(table)
    for said in none:
        to.print(said, markup=False)
    return 0 if good else 1


def built(
    request: Path, work: Path, environment: Mapping[str, str]
) -> tuple[Path, str] | tuple[None, str]:
    """The job script of a request, or why there is none."""
    cluster = HERE / "modak" / f"{scheduler(request)}.yaml"
    plan, folder = work / f"{request.stem}.plan.json", work / request.stem
    for words in (
        ("plan", str(request), "--on", str(cluster), "-o", str(plan)),
        ("build", str(plan), "-o", str(folder), "--flavour", "none"),
    ):
        code, said = run((*FORERUN, *words), environment)
        if code:
            return None, said
    return folder / "job.sh", ""


def scheduler(request: Path) -> str:
    """What the request names, or Slurm."""
    try:
        target = json.loads(request.read_text())["job"]["target"]
        return "pbs" if target["job_scheduler_type"] == "torque" else "slurm"
    except (ValueError, KeyError, TypeError):
        return "slurm"


def run(words: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, str]:
    """The exit code, and the last line that was said."""
    done = subprocess.run(
        words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    said = (done.stdout + done.stderr).strip().splitlines()
    return done.returncode, said[-1] if said else ""


if __name__ == "__main__":
    sys.exit(main())
