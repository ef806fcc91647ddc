"""What a deployment consists of."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from forerun.deploying.making import making
from forerun.errors import InputError

if TYPE_CHECKING:
    from tests.deploying.conftest import MakeEstimate, MakePlan

UID = "0123456789abcdef" * 2
STANDIN = Path(__file__).parents[1] / "jobs" / "kubectl_standin.py"


def test_a_record_says_what_was_planned(
    make_plan: MakePlan, make_estimate: MakeEstimate, tmp_path: Path
) -> None:
    parts = {"wait": 10.0, "staging": 5.0, "start-up": 2.0, "run": 83.0}
    plan = make_plan(
        {"epochs": 3},
        application={"command": "train {epochs}"},
        expected=make_estimate(100.0, parts=parts, memory=1e9, cautions=("far",)),
        startup="2s",
        study=str(tmp_path / "s.db"),
    )
    record = making(plan, 0, tmp_path / "run", None, UID).record
    assert (record.backend, record.script, record.candidate) == ("slurm", "job.sh", 1)
    assert record.folder == str(tmp_path / "run")
    assert record.predicted is not None
    assert (record.predicted.run, record.predicted.run_low) == (85.0, 75.0)
    assert (record.point, record.steps, record.startup) == ({"epochs": 3}, "epochs", 2.0)
    assert (record.apart, record.cautions, record.elsewhere) == ("", ("far",), False)
    assert record.study == str(tmp_path / "s.db")
    assert not (tmp_path / "run").exists()


def test_the_back_end_is_the_plans_unless_told(make_plan: MakePlan) -> None:
    plan = make_plan({})
    assert making(plan, 0, Path("/x"), "local", UID).record.elsewhere
    with pytest.raises(InputError, match="--on: found moab, expected one of local, slurm"):
        making(plan, 0, Path("/x"), "moab", UID)
    with pytest.raises(InputError, match="--candidate: found 2, expected a number from 1 to 1"):
        making(plan, 1, Path("/x"), None, UID)


def test_what_makes_its_time_another_one(make_plan: MakePlan) -> None:
    data = {"size": "1 GB", "at": "home", "path": "d"}
    staged = make_plan({}, storage="scratch", staged=True, data=data)
    apart = making(staged, 0, Path("/x"), None, UID).record.apart
    assert apart == "it read its data from scratch, the study's runs from home"
    as_measured = make_plan({}, storage="home", data=data)
    assert making(as_measured, 0, Path("/x"), None, UID).record.apart == ""
    application = {"command": "train {workers}", "framework": "pytorch"}
    nodes = make_plan({"workers": 2}, nodes=2, application=application)
    assert making(nodes, 0, Path("/x"), None, UID).record.apart == ""
    folded = making(nodes, 0, Path("/x"), "local", UID).record
    assert folded.apart == "its 2 nodes were one machine"
    array = make_plan({}, job={"array": "1-3"})
    assert making(array, 0, Path("/x"), None, UID).record.apart == "an array is several runs"


def test_the_script_is_what_the_back_end_takes(make_plan: MakePlan) -> None:
    plan = make_plan({}, application={"command": "train --fast"})
    assert "#SBATCH" in making(plan, 0, Path("/x"), "slurm", UID).script
    assert "#PBS" in making(plan, 0, Path("/x"), "pbs", UID).script
    local = making(plan, 0, Path("/x"), "local", UID).script
    assert "#SBATCH" not in local
    assert "--fast" in local


@pytest.mark.parametrize("operator", [True, False])
def test_a_pytorch_job_where_its_operator_is_there(
    operator: bool, make_plan: MakePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STANDIN}" "$@"\n')
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("FORERUN_TEST_CLUSTER", str(tmp_path))
    if operator:
        (tmp_path / "operator").touch()
    application = {"command": "train {workers}", "framework": "pytorch"}
    nodes = make_plan({"workers": 2}, nodes=2, application=application)
    made = making(nodes, 0, Path("/x"), "kubernetes", UID, "example.org/train:1")
    assert made.record.script == "job.yaml"
    assert ("kind: PyTorchJob\n" in made.script) == operator
    assert ("kind: Job\n" in made.script) != operator
    alone = make_plan({"workers": 1}, application=application)
    made = making(alone, 0, Path("/x"), "kubernetes", UID, "example.org/train:1")
    assert "kind: Job\n" in made.script


def test_a_cluster_that_does_not_answer_gets_a_job(
    make_plan: MakePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    application = {"command": "train {workers}", "framework": "pytorch"}
    nodes = make_plan({"workers": 2}, nodes=2, application=application)
    made = making(nodes, 0, Path("/x"), "kubernetes", UID, "example.org/train:1")
    assert "kind: Job\n" in made.script


def test_a_cloud_is_given_a_task(make_plan: MakePlan) -> None:
    made = making(make_plan({}), 0, Path("/x"), "sky", UID)
    assert (made.record.backend, made.record.script) == ("sky", "job.yaml")
    assert "\nnum_nodes: 1\n" in made.script
