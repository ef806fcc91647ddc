"""Old versions of a framework are noted; which are old, the workloads' own requirements say."""

import json
from pathlib import Path
from typing import Any

import pytest

from forerun.infrastructure import Infrastructure
from forerun.planning.modak import read_modak
from forerun.planning.planner import unmeasured
from forerun.planning.request import Application
from forerun.planning.versions import version_notes
from forerun.workloads.environments import FRAMEWORKS

TENSORFLOW = FRAMEWORKS["tensorflow"].version


@pytest.mark.parametrize(
    ("framework", "version", "old"),
    [
        ("tensorflow", "2.1", True),
        ("tensorflow", "2.1.0-gpu", True),
        ("tensorflow", "1", True),
        ("tensorflow", TENSORFLOW, False),
        ("tensorflow", ".".join(TENSORFLOW.split(".")[:2]), False),
        ("tensorflow", "99.1", False),
        ("tensorflow", "latest", False),
        ("tensorflow", "9" * 5000, False),
        ("tensorflow", "", False),
        ("pytorch", "1.13", True),
        ("mpi", "3.1", False),
    ],
)
def test_a_note_for_what_is_older(framework: Any, version: str, old: bool) -> None:
    found = version_notes(Application(command="train", framework=framework, version=version))
    if old:
        own = FRAMEWORKS[framework].version
        assert found == (f"{framework} {version}: forerun's own workloads run {own}",)
    else:
        assert found == ()


def test_the_workloads_say_which_version_they_run() -> None:
    for framework in FRAMEWORKS.values():
        text = framework.requirements.read_text()
        assert f"=={framework.version}\n" in text
    assert TENSORFLOW.startswith("2.")


@pytest.mark.parametrize(("name", "noted"), [("tensorflow", True), ("keras", False)])
def test_a_request_of_modak_has_the_note_in_its_plan(
    tmp_path: Path, name: str, noted: bool
) -> None:
    training = {"config": {"ai_framework": name}, f"ai_framework-{name}": {"version": "2.1"}}
    job = {
        "application": {"executable": "python3 train.py"},
        "optimisation": {"app_type-ai_training": training},
    }
    (tmp_path / "job.json").write_text(json.dumps({"job": job}))
    node = {
        "nodes": 1,
        "processors": {"microarchitecture": "zen3", "cores": 2},
        "memory": "1 GiB",
    }
    cluster = Infrastructure.model_validate({"name": "c", "partitions": {"p": node}})
    notes = unmeasured(read_modak(tmp_path / "job.json"), cluster).notes
    told = f"tensorflow 2.1: forerun's own workloads run {TENSORFLOW}"
    assert (told in notes) == noted
