"""`forerun logs`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Described, Forerun, Planned


def test_logs(forerun: Forerun, deployable: Path, planned: Planned, described: Described) -> None:
    planned(epochs=4)
    forerun("deploy", "plan.json", "-o", "run")
    followed = forerun("logs", "toy", "--follow")
    assert followed.code == 0
    assert "epoch 4/4\n" in followed.out
    assert forerun("logs", "toy").out == followed.out
    document = forerun("logs", "toy", "--json").document
    assert document["text"] == followed.out
    assert set(document) == described("logs")
    assert forerun("logs", "toy", "--errors").code == 2
    with (deployable / "run" / "job.out").open("a") as file:
        file.write("\x1b[31mred")
    assert "\\x1b[31mred" in forerun("logs", "toy").out
