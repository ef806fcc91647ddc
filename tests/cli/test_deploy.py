"""`forerun build`, `deploy`, `status`, `logs`, `cancel`, `watch`: with processes of this machine."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from forerun.factors import Factor, Space
from forerun.study import Run, Study

if TYPE_CHECKING:
    from tests.cli.conftest import Forerun, Printed

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
application: {{command: "{python} train.py {{epochs}} {code}"}}
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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A request for a real program, its study, and a machine to run on."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "here.yaml").write_text(MACHINE)
    space = Space([Factor.parse("epochs=1,2,4,8")])
    with Study.create(tmp_path / "toy.db", space) as study:
        for point in space.grid():
            for wobble in (0.97, 1.0, 1.03):
                seconds = wobble * (0.1 + 0.05 * float(point["epochs"]))
                study.add(Run(point, {"seconds": seconds}, host="elsewhere"))
    return tmp_path


def planned(forerun: Forerun, epochs: int = 4, code: int = 0) -> None:
    text = REQUEST.format(python=sys.executable, epochs=epochs, code=code)
    Path("request.yaml").write_text(text)
    done = forerun("plan", "request.yaml", "--on", "here.yaml", "-o", "plan.json")
    assert done.code == 0, done.err


def described(verb: str) -> set[str]:
    section = PAGE.read_text(encoding="utf-8").split(f"\n## forerun {verb}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE))


def errors(done: Printed) -> list[str]:
    return [line for line in done.err.splitlines() if "error:" in line]


def test_the_way_from_a_plan_to_a_better_plan(forerun: Forerun, folder: Path) -> None:
    planned(forerun)
    done = forerun("deploy", "plan.json", "-o", "run", "--wait")
    assert done.code == 0, done.err
    assert "predicted: " in done.out
    assert "90 % interval" in done.out
    assert "the run took " in done.out
    assert f"{folder / 'toy.db'}: the run is stored; the next fit uses it" in done.out
    with Study.open(folder / "toy.db") as study:
        assert len(study) == 13
        assert study.runs()[-1].source.startswith("deployment ")
    again = forerun("plan", "request.yaml", "--on", "here.yaml", "--json")
    assert again.document["runs"] == 13


def test_dry_run_prints_what_would_be_submitted(forerun: Forerun, folder: Path) -> None:
    planned(forerun)
    done = forerun("deploy", "plan.json", "--dry-run")
    assert done.code == 0
    assert done.out.startswith("#!/")
    assert "train.py 4 0" in done.out
    assert "nothing was submitted" in done.err
    assert not list(folder.glob("toy-*"))
    assert forerun("build", "plan.json", "-o", "run").code == 0
    assert (
        forerun("deploy", "plan.json", "-o", "run", "--dry-run").out
        == (folder / "run" / "job.sh").read_text()
    )
    document = forerun("deploy", "plan.json", "-o", "run", "--dry-run", "--json").document
    assert document["text"] == (folder / "run" / "job.sh").read_text()
    assert set(document) == described("deploy")


def test_build_and_then_deploy_what_was_built(forerun: Forerun, folder: Path) -> None:
    planned(forerun, epochs=1)
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
    assert folder.exists()


def test_a_job_that_fails_ends_with_three(forerun: Forerun, folder: Path) -> None:
    planned(forerun, epochs=1, code=7)
    done = forerun("deploy", "plan.json", "-o", "run", "--wait")
    assert done.code == 3
    assert "failed" in done.out
    assert "forerun logs" in done.err
    with Study.open(folder / "toy.db") as study:
        assert study.runs()[-1].status == "failed"


def test_status_finds_it_and_stores_its_time(forerun: Forerun, folder: Path) -> None:
    assert "no jobs yet" in forerun("status").out
    planned(forerun, epochs=1)
    made = forerun("deploy", "plan.json", "-o", "run", "--json").document
    short = made["uid"][:8]
    until = time.monotonic() + 30
    while forerun("status", short, "--json").document["result"] is None:
        assert time.monotonic() < until
        time.sleep(0.1)
    found = forerun("status", "run", "--json").document
    assert found["result"]["status"] == "ok"
    assert set(found) == described("status")
    every = forerun("status", "--json").document
    assert [one["uid"] for one in every["deployments"]] == [made["uid"]]
    listed = forerun("status").out
    assert short in listed
    assert "done" in listed
    for word in (made["job"], made["uid"], "toy", str(folder / "run")):
        assert "the run took" in forerun("status", word).out
    with Study.open(folder / "toy.db") as study:
        assert len(study) == 13
    missing = forerun("status", "nothing")
    assert missing.code == 2
    assert f"expected a job that you deployed ({short})" in missing.err


def test_logs(forerun: Forerun, folder: Path) -> None:
    planned(forerun, epochs=4)
    forerun("deploy", "plan.json", "-o", "run")
    followed = forerun("logs", "toy", "--follow")
    assert followed.code == 0
    assert "epoch 4/4\n" in followed.out
    assert forerun("logs", "toy").out == followed.out
    document = forerun("logs", "toy", "--json").document
    assert document["text"] == followed.out
    assert set(document) == described("logs")
    assert forerun("logs", "toy", "--errors").code == 2
    with (folder / "run" / "job.out").open("a") as file:
        file.write("\x1b[31mred")
    assert "\\x1b[31mred" in forerun("logs", "toy").out


def test_cancel(forerun: Forerun, folder: Path) -> None:
    planned(forerun, epochs=2000)
    forerun("deploy", "plan.json", "-o", "run")
    done = forerun("cancel", "toy", "--json")
    assert done.code == 0, done.err
    assert done.document["state"] == "cancelled"
    assert set(done.document) == described("cancel")
    assert forerun("cancel", "toy").code == 0  # left as it is
    with Study.open(folder / "toy.db") as study:
        assert len(study.table()) == 12


def test_watch_a_job(forerun: Forerun, folder: Path) -> None:
    planned(forerun, epochs=8)
    forerun("deploy", "plan.json", "-o", "run")
    look = forerun("watch", "toy", "--marker", "epoch {n}", "--json").document
    assert look["of"] == 8
    assert set(look) | {"log"} == described("watch")
    done = forerun("watch", "toy", "--marker", "epoch {n}/{of}")
    assert done.code == 0, done.err
    assert "the run took" in done.out
    assert folder.exists()


def test_watch_a_log_that_is_being_written(forerun: Forerun, folder: Path) -> None:
    with (folder / "log").open("w") as log:
        writer = subprocess.Popen([sys.executable, "train.py", "30", "0"], stdout=log)
        done = forerun("watch", "log", "--marker", "epoch {n}/{of}")
        writer.wait()
    assert done.code == 0
    assert "step 30 of 30, the last" in done.out
    assert re.search(r"step \d+ of 30: \d+ % done, about .* left \(.* to .*\)", done.err)
    document = forerun("watch", "log", "--marker", "epoch {n}", "--of", "30", "--json").document
    assert (document["step"], document["of"], document["left"]) == (30, 30, None)
    assert set(document) < described("watch")
    assert "found none, expected what a line of the log says" in forerun("watch", "log").err


def test_who_interrupts_waiting_leaves_the_job_running(forerun: Forerun, folder: Path) -> None:
    planned(forerun, epochs=100)
    words = [sys.executable, "-m", "forerun", "deploy", "plan.json", "-o", "run", "--wait"]
    waiting = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not (folder / "run" / "job.out").exists():
        assert time.monotonic() < until
        time.sleep(0.1)
    time.sleep(0.5)
    waiting.send_signal(signal.SIGINT)
    _, said = waiting.communicate(timeout=30)
    assert waiting.returncode == 130
    assert re.search(r"job local-\w+ goes on: forerun status \w{8} finds it", said)
    assert forerun("status", "toy", "--json").document["state"] == "running"
    assert forerun("watch", "toy").code == 0
    with Study.open(folder / "toy.db") as study:
        assert study.runs()[-1].seconds is not None


def test_a_plan_of_others_is_shown_and_needs_trust(forerun: Forerun, folder: Path) -> None:
    planned(forerun, epochs=1)
    document = json.loads((folder / "plan.json").read_text())
    document["request"]["job"] = {"prologue": "echo hello"}
    (folder / "plan.json").write_text(json.dumps(document))
    for verb in ("deploy", "build"):
        done = forerun(verb, "plan.json", "-o", "run")
        assert done.code == 2
        assert "train.py 1 0" in done.err
        assert "before: echo hello" in done.err
        assert "on: local of here, 1 node, by local" in done.err
        assert "expected --trust, once you have read what it runs" in errors(done)[0]
        assert not (folder / "run").exists()
    assert forerun("deploy", "plan.json", "-o", "run", "--trust", "--wait").code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("none.json",), "none.json"),
        (("here.yaml",), "expected JSON"),
        (("plan.json", "--candidate", "9"), "--candidate: found 9, expected a number from 1 to 1"),
        (("plan.json", "--on", "moab"), "--on: found moab, expected one of local, slurm"),
        (("plan.json", "-o", "/proc/run"), "another one with -o"),
        (("plan.json", "-o", "."), "expected an empty or new folder"),
        (("plan.json", "--patience", "soon"), "--patience: found soon"),
        (("plan.json", "--image", "a.sif"), "container runtime of here: found none"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    forerun: Forerun, folder: Path, words: tuple[str, ...], told: str
) -> None:
    planned(forerun, epochs=1)
    done = forerun("deploy", *words)
    assert done.code == 2
    assert len(errors(done)) == 1
    assert told in errors(done)[0]
    assert not list((folder / "state" / "forerun").glob("deployments/*"))


def test_a_scheduler_that_is_not_there(
    forerun: Forerun, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(forerun, epochs=1)
    monkeypatch.setenv("PATH", str(folder))
    done = forerun("deploy", "plan.json", "--on", "slurm", "-o", "run")
    assert done.code == 2
    assert len(errors(done)) == 1
    assert "sbatch" in errors(done)[0]


def test_recipes_where_the_machines_run_containers(
    forerun: Forerun, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "here.yaml").write_text(f"{MACHINE}\ncontainer: apptainer\n")
    planned(forerun, epochs=1)
    text = Path("request.yaml").read_text().replace("{command", "{framework: pytorch, command")
    Path("request.yaml").write_text(text)
    assert forerun("plan", "request.yaml", "--on", "here.yaml", "-o", "plan.json").code == 0
    done = forerun("build", "plan.json", "-o", "run", "--no-lock", "--json")
    assert done.code == 0, done.err
    files: list[Any] = done.document["files"]
    assert {"image/Dockerfile", "image/image.def", "job.sh"} <= set(files)
    assert str(folder / "run" / "image.sif") in (folder / "run" / "job.sh").read_text()
    refused = forerun("deploy", "plan.json", "-o", "run")
    assert refused.code == 2
    assert "image.sif: found nothing, expected an image" in refused.err
    assert forerun("build", "plan.json", "-o", "b", "--flavour", "conda").code == 2
    monkeypatch.setenv("COLUMNS", "80")
