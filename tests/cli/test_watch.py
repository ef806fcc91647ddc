"""`forerun watch`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Described, Forerun, Planned


def test_watch_a_job(forerun: Forerun, planned: Planned, described: Described) -> None:
    planned(epochs=8)
    forerun("deploy", "plan.json", "-o", "run")
    look = forerun("watch", "toy", "--marker", "epoch {n}", "--json").document
    assert look["of"] == 8
    assert set(look) | {"log"} == described("watch")
    done = forerun("watch", "toy", "--marker", "epoch {n}/{of}")
    assert done.code == 0, done.err
    assert "the run took" in done.out


def test_watch_a_log_that_is_being_written(
    forerun: Forerun, deployable: Path, described: Described
) -> None:
    with (deployable / "log").open("w") as log:
        writer = subprocess.Popen([sys.executable, "train.py", "30", "0"], stdout=log)
        done = forerun("watch", "log", "--marker", "epoch {n}/{of}")
        writer.wait()
    assert done.code == 0
    assert "step 30 of 30, the last" in done.out
    assert re.search(r"step \d+ of 30: \d+ % done, about .* left \(.* to .*\)", done.err)
    document = forerun("watch", "log", "--marker", "epoch {n}", "--of", "30", "--json").document
    assert (document["step"], document["of"], document["left"]) == (30, 30, None)
    assert set(document) < described("watch")
    assert "found none, expected what a line of the log says" in forerun("watch", "log").err
