"""Plans that are made by hand: what matters here comes after the model."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from patience import LONG

from forerun.factors import Factor, Point, Space
from forerun.infrastructure import Infrastructure
from forerun.planning.candidates import Candidate
from forerun.planning.estimates import Estimate
from forerun.planning.planner import Plan
from forerun.planning.reasons import Considered
from forerun.planning.request import Request
from forerun.study import Run, Study

CLUSTER: dict[str, Any] = {
    "name": "quad",
    "scheduler": "slurm",
    "container": "apptainer",
    "partitions": {
        "cpu": {
            "nodes": 4,
            "processors": {"microarchitecture": "zen3", "cores": 8, "threads": 16},
            "memory": "32 GiB",
            "limits": {"walltime": "2h"},
        },
        "gpu": {
            "nodes": 2,
            "queue": "batch",
            "features": ["a100"],
            "processors": {"microarchitecture": "zen3", "cores": 8},
            "memory": "64 GiB",
            "accelerators": {"count": 4, "kind": "nvidia"},
        },
        "slow": {
            "nodes": 2,
            "queue": "batch",
            "features": ["v100"],
            "processors": {"microarchitecture": "zen3", "cores": 8},
            "memory": "64 GiB",
        },
    },
    "storage": {
        "home": {"bandwidth": "100 MB/s", "path": "/home"},
        "scratch": {"bandwidth": "1 GB/s", "path": "/scratch", "local": True},
    },
}
MACHINE: dict[str, Any] = {
    "name": "here",
    "partitions": {
        "local": {
            "nodes": 1,
            "processors": {"microarchitecture": "x86_64", "cores": 2},
            "memory": "4 GiB",
        }
    },
}
TRAIN = """
import sys, time
epochs, pause = int(sys.argv[1]), float(sys.argv[2])
for epoch in range(1, epochs + 1):
    time.sleep(pause)
    print(f"epoch {epoch}/{epochs}", flush=True)
sys.exit(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
"""

MakePlan = Callable[..., Plan]
MakeEstimate = Callable[..., Estimate]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory of this test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of this machine may take long to start."""
    monkeypatch.setattr("forerun.jobs.local._STARTING", LONG)


def estimate(seconds: float = 100.0, **changes: Any) -> Estimate:
    given: dict[str, Any] = {
        "seconds": seconds,
        "low": 0.9 * seconds,
        "high": 1.1 * seconds,
        "parts": {"wait": 0.0, "start-up": 0.0, "staging": 0.0, "run": seconds},
        **changes,
    }
    return Estimate(**given)


def plan_of(
    point: dict[str, Any],
    *,
    cluster: dict[str, Any] | None = None,
    partition: str = "cpu",
    nodes: int = 1,
    storage: str = "",
    staged: bool = False,
    factors: list[str] | None = None,
    expected: Estimate | None = None,
    **request: Any,
) -> Plan:
    """The plan of one candidate; factors are `name=values`, or the names of the point."""
    texts = factors or [f"{name}={value}" for name, value in point.items()]
    space = Space([Factor.parse(text) for text in texts])
    given = {"name": "toy", "application": {"command": "train"}, **request}
    candidate = Candidate(Point(point), partition, nodes, storage, staged)
    return Plan(
        Request.model_validate(given),
        Infrastructure.model_validate(cluster or CLUSTER),
        (Considered(candidate, expected, 1.0, "by hand"),),
        {},
        space=space,
    )


@pytest.fixture
def make_plan() -> MakePlan:
    return plan_of


@pytest.fixture
def make_estimate() -> MakeEstimate:
    return estimate


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that trains for some epochs, each of so many seconds."""
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "train.py").write_text(TRAIN)
    return tmp_path / "app"


@pytest.fixture
def study(tmp_path: Path) -> Study:
    space = Space([Factor.parse("epochs=1,2,3"), Factor.parse("pause=0.1,0.2")])
    made = Study.create(tmp_path / "toy.db", space, {"": "train.py {epochs} {pause}"})
    for point in space.grid():
        made.add(Run(point, {"seconds": 0.1 + float(point["epochs"]) * float(point["pause"])}))
    return made


@pytest.fixture
def local_plan(program: Path, study: Study) -> MakePlan:
    """A plan of real processes of this machine: `epochs`, each with a pause of some seconds."""

    def make(epochs: int = 2, pause: float = 0.1, code: int = 0, **changes: Any) -> Plan:
        took = 0.1 + epochs * pause
        given: dict[str, Any] = {
            "cluster": MACHINE,
            "partition": "local",
            "factors": ["epochs=1,2,3", "pause=0.1,0.2"],
            "expected": estimate(took, low=took / 3, high=3 * took),
            "application": {
                "command": f"{sys.executable} train.py {{epochs}} {{pause}} {code}",
                "directory": str(program),
            },
            "study": str(study.path),
            **changes,
        }
        return plan_of({"epochs": epochs, "pause": pause}, **given)

    return make
