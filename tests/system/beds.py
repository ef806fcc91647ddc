"""Back ends to try: how a script asks each for what it needs, and what a small job looks like."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import slurm
from slurm import Cluster, Nodes, Partition

from forerun.jobs.backend import Backend, Phase, State, Submission
from forerun.jobs.local import Local
from forerun.jobs.pbs import Pbs
from forerun.jobs.slurm import Slurm

SETTINGS = {
    "SlurmdTimeout": "10",  # seconds until a node that is silent is down
    # So many seconds a job waits that is put back into the queue; fewer are not heeded.
    "AuthInfo": "socket={folder}/munge.socket,cred_expire=5",
    "JobAcctGatherParams": "OverMemoryKill",
    "JobAcctGatherFrequency": "task=1",
    "KillWait": "2",
    "MinJobAge": "7200",  # seconds for which ended jobs are remembered: longer than any test
}
PARTITIONS = {
    "debug": Partition(walltime="01:00:00", default=True),
    "short": Partition(walltime="00:10:00", most_nodes="2"),
}
# A script as forerun writes them, at its smallest: each start leaves a file of its own.
BODY = """\
mkdir -p attempts
task=${{SLURM_ARRAY_TASK_ID:+$SLURM_ARRAY_TASK_ID.}}
number=1
while test -e "attempts/$task$number"; do number=$((number + 1)); done
note() {{ echo "$*" >> "attempts/$task$number"; }}
trap 'code=$?; note "code $code"; note "ended $(date +%s)"' EXIT
note "job ${{SLURM_JOB_ID:-0}}"
note "started $(date +%s)"
note "begun $(date +%s)"
(
set -e
{lines}
)
code=$?
note "done $(date +%s)"
exit "$code"
"""
LONG = 600.0  # seconds in which anything here has ended, also where the machine stands still


@dataclass(frozen=True)
class Bed:
    """A back end to try, and how its scripts ask for what they need."""

    backend: Backend
    folder: Path
    head: Callable[[str, str], str]  # of wall time in minutes and memory in megabytes, or nothing

    def job(
        self, name: str, lines: str, minutes: str = "", memory: str = "", more: str = ""
    ) -> Submission:
        """A job that has not been submitted; `more` are directives."""
        folder = self.folder / name
        folder.mkdir()
        script = folder / "job.sh"
        head = f"#!/bin/bash\n{more}\n{self.head(minutes, memory)}\ncd {folder}\n"
        script.write_text(head + BODY.format(lines=lines))
        return Submission(f"{random.SystemRandom().getrandbits(128):032x}", name, script)

    def state(self, job: str, submission: Submission) -> State:
        return self.backend.state(job, submission.script.parent)

    def until(self, job: str, submission: Submission, *phases: Phase) -> State:
        """The state of a job once it has ended, or is in one of these phases."""
        limit = time.monotonic() + LONG
        while time.monotonic() < limit:
            found = self.state(job, submission)
            if found.phase in phases or found.has_ended:
                return found
            time.sleep(0.2)
        raise TimeoutError(f"{job} after {LONG:.0f} s: {found}")


def local_head(minutes: str, memory: str) -> str:
    """Of this machine a minute is three seconds, for it can count them."""
    limit = f"# forerun: walltime {float(minutes) * 3}" if minutes else ""
    return f"{limit}\n{f'ulimit -v {memory}000' if memory else ''}"


def slurm_head(minutes: str, memory: str) -> str:
    lines = ["#SBATCH --output=job.out"]
    lines += [f"#SBATCH --time={minutes}"] if minutes else []
    return "\n".join([*lines, f"#SBATCH --mem={memory}"] if memory else lines)


def pbs_head(minutes: str, memory: str) -> str:
    lines = ["#PBS -j oe", "#PBS -o job.out"]
    lines += [f"#PBS -l walltime=00:{minutes:0>2}:00"] if minutes else []
    return "\n".join([*lines, f"#PBS -l mem={memory}mb"] if memory else lines)


PROGRAMS = {"slurm": "sbatch", "pbs": "qsub"}  # what jobs are submitted with
HEADS = {"local": local_head, "slurm": slurm_head, "pbs": pbs_head}
# Short looks: what is lost here is lost at once.
BACKENDS: dict[str, Callable[[], Backend]] = {
    "local": Local,
    "slurm": lambda: Slurm(seconds=120.0, looks=(0.1, 0.2, 0.4)),
    "pbs": lambda: Pbs(seconds=120.0, looks=(0.1, 0.2, 0.4)),
}


def small_cluster() -> Iterator[Cluster]:
    """Four nodes; for a fixture."""
    if slurm.why_not():
        pytest.skip(slurm.why_not())
    with slurm.cluster({"n": Nodes(4)}, PARTITIONS, settings=SETTINGS) as made:
        yield made


def program(name: str) -> str:
    """The path of a scheduler's program; a test that needs it is skipped where it is not."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not on this machine: on Debian, `make system` as root installs it")
    return path


def bed_of(name: str, request: pytest.FixtureRequest, folder: Path) -> Bed:
    """A back end in a test that asks for the fixtures `cluster` and `monkeypatch` where needed."""
    patch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    patch.setenv("XDG_STATE_HOME", str(folder / "state"))
    if name != "local":
        program(PROGRAMS[name])
        conf = request.getfixturevalue("cluster").environment["SLURM_CONF"]
        patch.setenv("SLURM_CONF", conf)
    return Bed(BACKENDS[name](), folder, HEADS[name])


def set_up(what: str) -> None:
    """Set up through the command line; what this machine cannot have is skipped with its reason."""
    command = [sys.executable, "-m", "forerun", "workload", "setup", what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"`forerun workload setup {what}`: {done.stderr.splitlines()[-1]}")
