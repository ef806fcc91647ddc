"""`forerun build`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.cli.conftest import Described, Forerun, Planned


def test_build_and_then_deploy_what_was_built(
    forerun: Forerun, planned: Planned, described: Described
) -> None:
    planned(epochs=1)
    built = forerun("build", "plan.json", "-o", "run", "--json")
    assert built.code == 0, built.err
    assert set(built.document) == described("build")
    assert built.document["files"] == ["deployment.json", "job.sh", "worker.py"]
    assert built.document["state"] == "made"
    done = forerun("deploy", "plan.json", "-o", "run", "--wait", "--json")
    assert done.code == 0, done.err
    assert done.document["uid"] == built.document["uid"]
    assert done.document["result"]["stored"] == "time"
    assert set(done.document) | {"text"} == described("deploy")


def test_recipes_where_the_machines_run_containers(
    forerun: Forerun, deployable: Path, planned: Planned
) -> None:
    with (deployable / "here.yaml").open("a") as file:
        file.write("container: apptainer\n")
    planned(epochs=1, application="framework: pytorch, ")
    done = forerun("build", "plan.json", "-o", "run", "--no-lock", "--json")
    assert done.code == 0, done.err
    files: list[Any] = done.document["files"]
    assert {"image/Dockerfile", "image/image.def", "job.sh"} <= set(files)
    assert str(deployable / "run" / "image.sif") in (deployable / "run" / "job.sh").read_text()
    refused = forerun("deploy", "plan.json", "-o", "run")
    assert refused.code == 2
    assert "image.sif: found no such image, expected one: cd " in refused.err
    assert forerun("build", "plan.json", "-o", "b", "--flavour", "conda").code == 2


def test_a_task_for_clouds_is_built_and_not_deployed(
    forerun: Forerun, deployable: Path, planned: Planned
) -> None:
    planned(epochs=1)
    done = forerun("build", "plan.json", "-o", "run", "--on", "sky")
    assert done.code == 0, done.err
    assert f"next: sky launch {deployable / 'run' / 'job.yaml'}\n" in done.out
    assert "\nnum_nodes: 1\n" in (deployable / "run" / "job.yaml").read_text()
    refused = forerun("deploy", "plan.json", "-o", "other", "--on", "sky")
    assert refused.code == 2
    assert "--on: found sky, expected forerun build --on sky, and sky launch" in refused.err
    assert not (deployable / "other").exists()
    rehearsed = forerun("deploy", "plan.json", "--on", "sky", "--dry-run")
    assert "\nnum_nodes: 1\n" in rehearsed.out
