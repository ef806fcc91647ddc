"""`forerun cancel`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from forerun.study import Study

if TYPE_CHECKING:
    from tests.cli.conftest import Described, Forerun, Planned


def test_cancel(forerun: Forerun, deployable: Path, planned: Planned, described: Described) -> None:
    planned(epochs=20_000)
    forerun("deploy", "plan.json", "-o", "run")
    done = forerun("cancel", "toy", "--json")
    assert done.code == 0, done.err
    assert done.document["state"] == "cancelled"
    assert set(done.document) == described("cancel")
    again = forerun("cancel", "toy")
    assert again.code == 0
    assert "it had ended before (cancelled): nothing was cancelled" in again.err
    with Study.open(deployable / "toy.db") as study:
        assert len(study.table()) == 12
