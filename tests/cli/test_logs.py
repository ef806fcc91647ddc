"""`forerun logs`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Described, Forerun, Planned

STANDIN = Path(__file__).parents[1] / "jobs" / "kubectl_standin.py"


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


def test_what_pods_say_that_cannot_write_into_the_folder(
    forerun: Forerun, deployable: Path, planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = deployable / "cluster"
    cluster.mkdir()
    (cluster / "kubectl").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STANDIN}" "$@"\n')
    (cluster / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", str(cluster), prepend=":")
    monkeypatch.setenv("FORERUN_TEST_CLUSTER", str(cluster))
    with (deployable / "here.yaml").open("a") as file:
        file.write("container: docker\n")
    planned(epochs=1)
    words = ("--on", "kubernetes", "--image", "example.org/toy:1", "--json")
    made = forerun("deploy", "plan.json", "-o", "run", *words)
    assert made.code == 0, made.err
    assert "nothing yet" in forerun("logs", "toy").err
    pod = {"name": "pod-1", "labels": {"forerun/uid": made.document["uid"]}}
    said = {"metadata": pod, "log": "sh: cannot create job.out: \x1b[1mPermission denied"}
    (cluster / "Pod.pod-1.json").write_text(json.dumps(said))
    told = "[pod/pod-1/main] sh: cannot create job.out: \\x1b[1mPermission denied\n"
    assert forerun("logs", "toy").out == told
    assert "Permission denied" in str(forerun("logs", "toy", "--json").document["text"])
