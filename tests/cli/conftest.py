import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from patience import LONG

from forerun.cli import main
from forerun.factors import Factor, Space
from forerun.jobs import Command, Timing, time_command
from forerun.study import Run, Study

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "json.md"
TRAIN = """
import sys, time
epochs = int(sys.argv[1])
for epoch in range(1, epochs + 1):
    time.sleep(0.05)
    print(f"epoch {epoch}/{epochs}", flush=True)
sys.exit(int(sys.argv[2]))
"""
REQUEST = """
name: toy
application: {{{more}command: "{python} train.py {{epochs}} {code}"}}
study: toy.db
fixed: {{epochs: {epochs}}}
"""
MACHINE = """
name: here
partitions:
  local:
    nodes: 1
    processors: {microarchitecture: x86_64, cores: 2}
    memory: 4 GiB
"""


class Printed(NamedTuple):
    """What a call of the command line printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """The lines that say what was wrong."""
        return [line for line in self.err.splitlines() if "error:" in line]

    @property
    def document(self) -> Any:
        """The JSON document on standard output."""
        return json.loads(self.out)


Forerun = Callable[..., Printed]


@pytest.fixture
def forerun(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Forerun:
    """Call the command line as a user would, on a terminal of 100 columns."""
    monkeypatch.setenv("COLUMNS", "100")

    def call(*words: object) -> Printed:
        code = main([str(word) for word in words])
        return Printed(code, *capsys.readouterr())

    return call


Described = Callable[[str], set[str]]
Planned = Callable[..., None]
Unstalled = Callable[[Callable[[Command], float]], None]


@pytest.fixture
def described() -> Described:
    """The fields of a verb's document that the reference describes."""

    def found(verb: str) -> set[str]:
        section = PAGE.read_text(encoding="utf-8").split(f"\n## forerun {verb}\n")[1]
        return set(re.findall(r"^\| `(\w+)` \|", section.split("\n## ")[0], flags=re.MULTILINE))

    return found


@pytest.fixture
def unstalled(monkeypatch: pytest.MonkeyPatch) -> Unstalled:
    """Commands of which none takes more than so many seconds, by their timings.

    They run to their ends; but where the machine stands still, that neither spends a budget nor
    makes one of them look slow.
    """

    def limit(most: Callable[[Command], float]) -> None:
        def timed(command: Command, *others: Any) -> Timing:
            timing = time_command(command, *others)
            if timing.seconds is None:
                return timing
            took = min(timing.seconds, most(command))
            return replace(timing, seconds=took, wall_seconds=took)

        monkeypatch.setattr("forerun.measuring.runner.time_command", timed)

    return limit


@pytest.fixture
def halves(request: pytest.FixtureRequest, forerun: Forerun, cnn: Path, tmp_path: Path) -> Path:
    """The network by rows over two devices."""
    request.getfixturevalue("patient_devices")
    folder = tmp_path / "halves"
    words = ("--devices", 2, "--layout", "rows", "-o", folder)
    assert forerun("split", "cut", cnn, *words).code == 0
    return folder


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """Six samples as the network takes them."""
    path = tmp_path / "digits.npy"
    np.save(path, np.random.default_rng(1).random((6, 1, 8, 8), np.float32))
    return path


@pytest.fixture
def deployable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A request for a real program, its study, and a machine to run on."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("forerun.jobs.local._STARTING", LONG)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "here.yaml").write_text(MACHINE)
    space = Space([Factor.parse("epochs=1,2,4,8")])
    with Study.create(tmp_path / "toy.db", space) as study:
        for point in space.grid():
            for wobble in (0.97, 1.0, 1.03):
                seconds = wobble * (0.1 + 0.05 * float(point["epochs"]))
                study.add(Run(point, {"seconds": seconds}, host="elsewhere"))
    return tmp_path


@pytest.fixture
def planned(forerun: Forerun, deployable: Path) -> Planned:
    """Plans a run of so many epochs, which exits with a code, into `plan.json`."""
    assert deployable.exists()

    def plan(epochs: int = 4, code: int = 0, application: str = "") -> None:
        text = REQUEST.format(python=sys.executable, epochs=epochs, code=code, more=application)
        Path("request.yaml").write_text(text)
        done = forerun("plan", "request.yaml", "--on", "here.yaml", "-o", "plan.json")
        assert done.code == 0, done.err

    return plan
