"""What the verbs about jobs share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Forerun, Planned


def test_a_plan_of_others_is_shown_and_needs_trust(
    forerun: Forerun, deployable: Path, planned: Planned
) -> None:
    planned(epochs=1)
    document = json.loads((deployable / "plan.json").read_text())
    document["request"]["job"] = {"prologue": "echo hello"}
    (deployable / "plan.json").write_text(json.dumps(document))
    for verb in ("deploy", "build"):
        done = forerun(verb, "plan.json", "-o", "run")
        assert done.code == 2
        assert "train.py 1 0" in done.err
        assert "before: echo hello" in done.err
        assert "on: local of here, 1 node, by local" in done.err
        assert "expected --trust, once you have read what it runs" in done.errors[0]
        assert not (deployable / "run").exists()
    done = forerun("deploy", "plan.json", "-o", "run", "--trust", "--wait")
    assert done.code == 0
    assert "before: echo hello" in done.err  # the file may have changed since it was shown


def test_all_of_a_plan_of_others_is_shown(
    forerun: Forerun, deployable: Path, planned: Planned
) -> None:
    planned(epochs=1)
    document = json.loads((deployable / "plan.json").read_text())
    document["request"]["job"] = {
        "name": "mine",
        "output": "out.txt",
        "errors": "err.txt",
        "mail_to": "a@example.org",
        "mail_on": ["end", "fail"],
        "environment": True,
        "variables": ["LANG"],
        "epilogue": "echo bye",
        "account": "group",
        "qos": "high",
        "hosts": ["n1"],
        "exclusive": True,
        "array": "1-4",
        "after": "123",
        "begin": "2027-01-31T18:00",
        "memory": "512 MiB",
        "walltime": 600,
        "requeues": 2,
    }
    document["request"]["application"] |= {
        "expand": True,
        "source": "https://example.org/a.tar.gz",
        "build": "make",
        "image": "a.sif",
    }
    document["request"]["data"] = {"size": 1e9, "at": "home", "path": "data"}
    document["infrastructure"] |= {
        "container": "apptainer",
        "storage": {
            "home": {"bandwidth": 1e8, "path": "/home"},
            "scratch": {"bandwidth": 1e9, "path": "/scratch"},
        },
    }
    document["infrastructure"]["partitions"]["local"]["queue"] = "batch"
    document["candidates"][0] |= {"storage": "scratch", "staged": True}
    (deployable / "plan.json").write_text(json.dumps(document))
    done = forerun("deploy", "plan.json", "-o", "run", "--on", "slurm")
    assert done.code == 2
    said = {line.strip() for line in done.err.splitlines()}
    assert said >= {
        "name: mine",
        "output: out.txt",
        "errors: err.txt",
        "mail to: a@example.org",
        "mail on: end, fail",
        "copy environment: yes",
        "variables: LANG",
        "afterwards: echo bye",
        "account: group",
        "qos: high",
        "queue: batch",
        "hosts: n1",
        "exclusive: yes",
        "array: 1-4",
        "after job: 123",
        "begin: 2027-01-31T18:00",
        "memory: 512 MiB",
        "walltime: 10 min",
        "requeues: 2",
        "expand: yes",
        "source: https://example.org/a.tar.gz",
        "build: make",
        f"staging: /home/data to /scratch/forerun-{'0' * 32}",
        f"folder: {deployable / 'run'}",
    }, done.err
    binds = f"{deployable / 'run'}, {deployable}, /scratch/forerun-{'0' * 32}"
    assert f"container: a.sif, by apptainer, with {binds} in it" in " ".join(done.err.split())


def test_ones_own_plan_says_what_it_submits(
    forerun: Forerun, deployable: Path, planned: Planned
) -> None:
    planned(epochs=1)
    assert (deployable / "plan.json").exists()
    done = forerun("deploy", "plan.json", "-o", "run", "--wait")
    assert done.err.splitlines()[0].startswith("$ ")
    assert "train.py 1 0" in "".join(done.err.splitlines())
    again = forerun("deploy", "plan.json", "-o", "run")
    assert "$ " not in again.err  # nothing is submitted
