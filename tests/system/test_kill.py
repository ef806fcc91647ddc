"""`kill -9` of `forerun measure` at 50 random instants: nothing that was stored is ever lost."""

from __future__ import annotations

import os
import random
import re
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from forerun.study import Run, Study

KILLS = 50
POINTS = 400
SEED = 20240501
PATIENCE = 300.0  # seconds for what takes far less on any machine
TOKEN = "FORERUN_KILL_TEST"  # a variable by which all processes of a start are known

# Each run leaves a process of its own session behind, and says at its end which one it was.
COMMAND = "sh -c 'setsid sleep 3000 & sleep 0.03; echo $0 >> ends' {turn}"
WORDS = (
    *(COMMAND, "-f", f"turn=1..{POINTS}:1", "--design", "grid", "--warmup", "0"),
    *("-o", "runs.db"),
)
STORED = re.compile(r"^stored run (\d+) of \d+: turn (\d+): .*\n", re.MULTILINE)


class Start:
    """One start of `forerun measure`, whose standard error goes into a file."""

    def __init__(self, directory: Path, number: int) -> None:
        self.token = uuid4().hex
        self._errors = directory / f"errors-{number}"
        exists = (directory / "runs.db").exists()
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "forerun", "measure", *(("runs.db",) if exists else WORDS)],
                cwd=directory,
                env={**os.environ, TOKEN: self.token, "XDG_STATE_HOME": str(directory / "state")},
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )

    @property
    def errors(self) -> str:
        """What it has said so far."""
        return self._errors.read_text()

    @property
    def stored(self) -> dict[int, int]:
        """The runs that it has said are in the study: their numbers, and the turn of each."""
        return {int(number): int(turn) for number, turn in STORED.findall(self.errors)}

    def wait_for_a_run(self) -> None:
        """Wait until the first run is stored, or until it ends."""
        until = time.monotonic() + PATIENCE
        while not self.stored and self.process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)

    def kill(self) -> None:
        """End it, and it alone, as nothing can be prepared for."""
        self.process.kill()
        self.process.wait()

    def left(self) -> list[str]:
        """The names of processes that are still there of this start."""
        marked = f"{TOKEN}={self.token}".encode()
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if marked in (place / "environ").read_bytes().split(b"\0"):
                    found.append((place / "comm").read_text().strip())
            except OSError:
                continue  # it has just ended, or is somebody else's
        return found

    def is_gone(self) -> bool:
        """Whether all its processes end by themselves."""
        until = time.monotonic() + PATIENCE
        while self.left() and time.monotonic() < until:
            time.sleep(0.02)
        return not self.left()


def good_runs(directory: Path) -> dict[str, Run]:
    """The good runs of the study by uid, which opens and is whole; none before there is one."""
    path = directory / "runs.db"
    if not path.exists():
        return {}
    runs = {run.uid: run for run in Study.open(path).runs("ok")}
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return runs


def ended(directory: Path) -> Counter[int]:
    """How often the command itself said that it came to its end, at each turn."""
    file = directory / "ends"
    return Counter(map(int, file.read_text().split())) if file.exists() else Counter()


@pytest.fixture
def drawn() -> random.Random:
    return random.Random(SEED)


def test_nothing_stored_is_lost_to_kill_9(tmp_path: Path, drawn: random.Random) -> None:
    before: dict[str, Run] = {}
    at_work = 0
    for number in range(KILLS):
        start = Start(tmp_path, number)
        if number % 2:  # while it measures; the others anywhere, start-up included
            start.wait_for_a_run()
            time.sleep(drawn.uniform(0.0, 0.6))
        else:
            time.sleep(drawn.uniform(0.0, 2.5))
        assert start.process.poll() is None, start.errors
        start.kill()
        at_work += bool(start.stored)
        assert start.is_gone(), start.left()
        assert "Traceback" not in start.errors

        after = good_runs(tmp_path)
        turns = Counter(int(run.point["turn"]) for run in after.values())
        assert before.items() <= after.items()  # what was there is there, and unchanged
        assert set(start.stored.values()) <= set(turns)  # what it said is stored is stored
        assert max(start.stored, default=0) <= len(after)
        assert set(turns.values()) <= {1}  # a run that was killed is made again, none twice
        assert turns <= ended(tmp_path)  # nothing is stored that did not come to its end
        assert ended(tmp_path).total() - len(after) <= number + 1  # and of the rest one a kill
        before = after
    assert at_work >= KILLS // 2

    last = Start(tmp_path, KILLS)
    assert last.process.wait(3600) == 0
    assert last.is_gone(), last.left()
    after = good_runs(tmp_path)
    assert before.items() <= after.items()
    assert sorted(run.point["turn"] for run in after.values()) == list(range(1, POINTS + 1))
    assert not (tmp_path / "runs.db.lock").exists()
