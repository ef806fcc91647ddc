"""The demonstration goes on: the best configuration is planned, run as a job, and learnt from."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from forerun._outputs import write
from forerun.cli.common import results
from forerun.cli.demo_steps import say, type_

# One network and so much data, or the smallest training would be the best one.
_FIXED = {"filters": 32, "chunks": 4}
_FREE = {"batch": "16..256"}
_ROWS = "5"


def deploy(output: Path, command: str, study: Path) -> dict[str, Any]:
    """Plan the training of one network, deploy it here, and plan again with what it took."""
    request, plan, job = output / "request.yaml", output / "plan.json", _new(output)
    _write_request(request, command, study)
    say(
        "Which configuration trains one such network fastest? A request says what to run, what is"
        f" fixed and what is free; workers are anyway. {request}:"
    )
    results().print(request.read_text().rstrip(), soft_wrap=True, markup=False, highlight=False)
    type_("plan", str(request), "--rows", _ROWS, "-o", str(plan))
    say("It is run as a job of this machine; on a cluster it would go to the scheduler.")
    type_("deploy", str(plan), "-o", str(job), "--wait")
    say("Its time is in the study now, and the next plan knows it:")
    type_("plan", str(request), "--rows", _ROWS)
    return {"plan": str(plan), "job": str(job)}


def _write_request(path: Path, command: str, study: Path) -> None:
    import yaml

    document = {
        "name": "lenet",
        "application": {"command": command, "framework": "pytorch"},
        "study": study.name,
        "fixed": _FIXED,
        "free": _FREE,
    }
    write(path, yaml.safe_dump(document, sort_keys=False, width=10_000).encode())


def _new(output: Path) -> Path:
    """A folder for the job that is not there yet: each demonstration has its own."""
    numbered = (output / f"job-{number}" for number in itertools.count(1))
    return next(path for path in numbered if not path.exists())
