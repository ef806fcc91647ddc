"""`forerun watch`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Described, Forerun, Planned


class Training:
    """A training that writes twenty steps a second into a log, and the clock by which it does."""

    def __init__(self, log: Path) -> None:
        self._log, self._now, self._step = log, 0.0, 0
        self.sleep(0.1)

    def time(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds
        with self._log.open("a") as log:
            while self._step < min(round(20 * self._now), 30):
                self._step += 1
                log.write(f"epoch {self._step}/30\n")


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
    forerun: Forerun, deployable: Path, described: Described, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forerun.cli.watch.time", Training(deployable / "log"))
    done = forerun("watch", "log", "--marker", "epoch {n}/{of}")
    assert done.code == 0
    assert "step 30 of 30, the last" in done.out
    assert re.search(r"step \d+ of 30: \d+ % done, about .* left \(.* to .*\)", done.err)
    document = forerun("watch", "log", "--marker", "epoch {n}", "--of", "30", "--json").document
    assert (document["step"], document["of"], document["left"]) == (30, 30, None)
    assert set(document) < described("watch")
    assert "found none, expected what a line of the log says" in forerun("watch", "log").err
