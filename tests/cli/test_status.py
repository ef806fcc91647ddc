"""`forerun status`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from patience import wait_for

from forerun.deploying.deployment import Deployment
from forerun.study import Study

if TYPE_CHECKING:
    from tests.cli.conftest import Described, Forerun, Planned


def test_status_finds_it_and_stores_its_time(
    forerun: Forerun, deployable: Path, planned: Planned, described: Described
) -> None:
    assert "no jobs yet" in forerun("status").out
    planned(epochs=1)
    made = forerun("deploy", "plan.json", "-o", "run", "--json").document
    short = made["uid"][:8]
    wait_for(lambda: forerun("status", short, "--json").document["result"] is not None)
    found = forerun("status", "run", "--json").document
    assert found["result"]["status"] == "ok"
    assert set(found) == described("status")
    every = forerun("status", "--json").document
    assert [one["uid"] for one in every["deployments"]] == [made["uid"]]
    listed = forerun("status").out
    assert short in listed
    assert "done" in listed
    for word in (made["job"], made["uid"], "toy", str(deployable / "run")):
        assert "the run took" in forerun("status", word).out
    with Study.open(deployable / "toy.db") as study:
        assert len(study) == 13
    missing = forerun("status", "nothing")
    assert missing.code == 2
    assert f"expected a job that you deployed ({short})" in missing.err


def test_a_job_whose_number_was_lost(forerun: Forerun, deployable: Path, planned: Planned) -> None:
    planned(epochs=1)
    assert forerun("build", "plan.json", "-o", "run").code == 0
    made = Deployment.open(deployable / "run")
    assert "job not submitted: toy" in forerun("status", "run/").out
    made.record.model_copy(update={"submitted": made.record.made}).save()
    said = " ".join(forerun("status", "run/").out.split())
    assert "job of no known number: toy" in said
    assert "unknown (its scheduler has no such job, and it has left no trace)" in said
