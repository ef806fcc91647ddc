"""`forerun deploy`, with processes of this machine."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from patience import LONG

from forerun.study import Study

if TYPE_CHECKING:
    from tests.cli.conftest import Described, Forerun, Planned

# Goes on until there is a file.
HELD = f"""
import pathlib, time
limit = time.monotonic() + {LONG}
while not pathlib.Path("go").exists() and time.monotonic() < limit:
    time.sleep(0.05)
"""


def test_the_way_from_a_plan_to_a_better_plan(
    forerun: Forerun, deployable: Path, planned: Planned
) -> None:
    planned()
    done = forerun("deploy", "plan.json", "-o", "run", "--wait")
    assert done.code == 0, done.err
    assert "predicted: " in done.out
    assert "90 % interval" in done.out
    assert "the run took " in done.out
    assert f"{deployable / 'toy.db'}: the run is stored; the next fit uses it" in done.out
    with Study.open(deployable / "toy.db") as study:
        assert len(study) == 13
        assert study.runs()[-1].source.startswith("deployment ")
    again = forerun("plan", "request.yaml", "--on", "here.yaml", "--json")
    assert again.document["runs"] == 13


def test_dry_run_prints_what_would_be_submitted(
    forerun: Forerun, deployable: Path, planned: Planned, described: Described
) -> None:
    planned()
    done = forerun("deploy", "plan.json", "--dry-run")
    assert done.code == 0
    assert done.out.startswith("#!/")
    assert "train.py 4 0" in done.out
    assert "nothing was submitted" in done.err
    assert not list(deployable.glob("toy-*"))
    assert forerun("build", "plan.json", "-o", "run").code == 0
    assert (
        forerun("deploy", "plan.json", "-o", "run", "--dry-run").out
        == (deployable / "run" / "job.sh").read_text()
    )
    document = forerun("deploy", "plan.json", "-o", "run", "--dry-run", "--json").document
    assert document["text"] == (deployable / "run" / "job.sh").read_text()
    assert set(document) == described("deploy")


def test_a_job_that_fails_ends_with_three(
    forerun: Forerun, deployable: Path, planned: Planned
) -> None:
    planned(epochs=1, code=7)
    done = forerun("deploy", "plan.json", "-o", "run", "--wait")
    assert done.code == 3
    assert "failed" in done.out
    assert "forerun logs" in done.err
    with Study.open(deployable / "toy.db") as study:
        assert study.runs()[-1].status == "failed"


def test_who_interrupts_waiting_leaves_the_job_running(
    forerun: Forerun, deployable: Path, planned: Planned
) -> None:
    planned()
    (deployable / "train.py").write_text(HELD)
    words = [sys.executable, "-m", "forerun", "deploy", "plan.json", "-o", "run", "--wait"]
    waiting = subprocess.Popen(
        words,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # Whoever starts the tests in the background has them ignore it, and their children too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert waiting.stderr is not None
    assert any(line.startswith("running") for line in waiting.stderr)  # it is waited for
    waiting.send_signal(signal.SIGINT)
    _, said = waiting.communicate(timeout=LONG)
    assert waiting.returncode == 130
    assert re.search(r"job local-\w+ goes on: forerun status \w{8} finds it", said)
    assert forerun("status", "toy", "--json").document["state"] == "running"
    (deployable / "go").touch()
    assert forerun("watch", "toy").code == 0
    with Study.open(deployable / "toy.db") as study:
        assert study.runs()[-1].seconds is not None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("none.json",), "none.json"),
        (("here.yaml",), "expected a plan as forerun plan -o writes it"),
        (("plan.json", "--candidate", "9"), "--candidate: found 9, expected a number from 1 to 1"),
        (("plan.json", "--on", "moab"), "--on: found moab, expected one of local, slurm"),
        (("plan.json", "-o", "/proc/run"), "another one with -o"),
        (("plan.json", "-o", "."), "expected an empty or new folder"),
        (("plan.json", "--patience", "soon"), "--patience: found soon"),
        (("plan.json", "--image", "a.sif"), "container runtime of here: found none"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    forerun: Forerun, deployable: Path, words: tuple[str, ...], told: str, planned: Planned
) -> None:
    planned(epochs=1)
    done = forerun("deploy", *words)
    assert done.code == 2
    assert len(done.errors) == 1
    assert told in done.errors[0]
    assert not list((deployable / "state" / "forerun").glob("deployments/*"))


def test_a_scheduler_that_is_not_there(
    forerun: Forerun, deployable: Path, monkeypatch: pytest.MonkeyPatch, planned: Planned
) -> None:
    planned(epochs=1)
    monkeypatch.setenv("PATH", str(deployable))
    done = forerun("deploy", "plan.json", "--on", "slurm", "-o", "run")
    assert done.code == 2
    assert len(done.errors) == 1
    assert "sbatch" in done.errors[0]


def test_patience_is_for_those_who_wait(
    forerun: Forerun, deployable: Path, planned: Planned
) -> None:
    planned()
    done = forerun("deploy", "plan.json", "--patience", "10min")
    assert done.code == 2
    (told,) = done.errors
    assert told.startswith("forerun: error: --patience: found 10min, expected --wait with it")
    assert not list(deployable.glob("toy-*"))


def test_a_request_is_no_plan(forerun: Forerun, deployable: Path) -> None:
    (deployable / "request.yaml").write_text("name: toy\n")
    done = forerun("deploy", "request.yaml")
    assert done.code == 2
    assert "found a YAML file, expected a plan as forerun plan -o writes it" in done.errors[0]
