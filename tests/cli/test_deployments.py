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
    assert forerun("deploy", "plan.json", "-o", "run", "--trust", "--wait").code == 0
