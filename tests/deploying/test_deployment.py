"""Deployments with real processes of this machine."""

from __future__ import annotations

import json
import os
import socket
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from patience import wait_for

from forerun.cli.deployments import progress_words
from forerun.deploying.deployment import LATE, Deployment, Progress, rehearsed
from forerun.deploying.record import FILE
from forerun.errors import InputError, JobError, RefusalError
from forerun.jobs.backend import State, Submission

if TYPE_CHECKING:
    from forerun.study import Study
    from tests.deploying.conftest import MakePlan


def test_a_plan_becomes_a_job_and_a_run(local_plan: MakePlan, study: Study, tmp_path: Path) -> None:
    before = study.digest()
    made = Deployment.make(local_plan(2, 0.1), folder=tmp_path / "run")
    assert {path.name for path in made.folder.iterdir()} == {"job.sh", "worker.py", FILE}
    assert made.state() == State("unknown", "not submitted")
    began = time.monotonic()
    job = made.submit()
    assert made.submit() == job
    told: list[Progress] = []
    result = made.wait(told.append)
    assert result.status == "ok"
    assert result.run_seconds is not None
    assert 0.2 < result.run_seconds < time.monotonic() - began
    assert result.memory_bytes is not None
    assert result.memory_bytes > 1e6
    assert told[-1].state.phase == "done"
    assert "epoch 2/2" in made.output.read_text()
    run = study.runs()[-1]
    assert run.seconds == pytest.approx(result.run_seconds)
    assert run.point == {"epochs": 2, "pause": 0.1}
    assert run.host == socket.gethostname()
    assert study.digest() != before  # the next fit uses it
    assert made.settle() == result
    assert len(study) == 7


def test_another_process_goes_on(local_plan: MakePlan, study: Study, tmp_path: Path) -> None:
    first = Deployment.make(local_plan(1, 0.1), folder=tmp_path / "run")
    job = first.submit()
    again = Deployment.open(tmp_path / "run")
    assert again.submit() == job
    again.wait()
    assert Deployment.open(tmp_path / "run").state().phase == "done"
    assert first.settle().stored == "time"  # what it knew is older, and the run is there once
    assert len(study) == 7


def test_a_lost_answer_makes_no_second_job(local_plan: MakePlan, tmp_path: Path) -> None:
    made = Deployment.make(local_plan(1, 0.1), folder=tmp_path / "run")
    job = made.submit()
    made.record.model_copy(update={"job": None, "state": "made"}).save()
    again = Deployment.open(tmp_path / "run")
    assert again.record.job is None
    assert again.state().phase in ("running", "done")
    assert again.record.job == job
    again.wait()
    assert len(list((tmp_path / "run" / "attempts").iterdir())) == 1


def test_making_it_again_is_the_same_deployment(local_plan: MakePlan, tmp_path: Path) -> None:
    plan = local_plan()
    made = Deployment.make(plan, folder=tmp_path / "run")
    with (tmp_path / "run" / "job.sh").open("a") as file:
        file.write("# as I want it\n")
    again = Deployment.make(plan, folder=tmp_path / "run")
    assert again.record == made.record
    assert "as I want it" in again.script.read_text()  # and is submitted like that
    _, text = rehearsed(plan, folder=tmp_path / "run")
    assert "as I want it" in text
    with pytest.raises(InputError, match="another folder with -o"):
        Deployment.make(local_plan(3, 0.1), folder=tmp_path / "run")


def test_a_rehearsal_leaves_nothing(local_plan: MakePlan, tmp_path: Path, state: Path) -> None:
    made, text = rehearsed(local_plan(), folder=tmp_path / "run")
    assert "train.py" in text
    assert made.folder == tmp_path / "run"
    assert not made.folder.exists()
    assert not state.exists()


def test_a_folder_with_something_else_is_left_alone(local_plan: MakePlan, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").touch()
    with pytest.raises(InputError, match=r"found thesis.tex in it, expected an empty or new"):
        Deployment.make(local_plan(), folder=tmp_path / "run")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="another one with -o"):
        Deployment.make(local_plan(), folder=tmp_path / "file")


def test_the_folder_is_for_this_user_alone(local_plan: MakePlan, tmp_path: Path) -> None:
    made = Deployment.make(local_plan(), folder=tmp_path / "run")
    assert made.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in made.folder.iterdir()} == {0o600}


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o702])
def test_a_folder_that_others_write_to_is_refused(
    local_plan: MakePlan, tmp_path: Path, mode: int
) -> None:
    there = tmp_path / "run"
    there.mkdir()
    there.chmod(mode)
    with pytest.raises(
        InputError, match=r"others may write to, expected .* chmod go-w, or another"
    ):
        Deployment.make(local_plan(), folder=there)
    there.chmod(0o755)
    made = Deployment.make(local_plan(), folder=there)
    there.chmod(mode)  # and what is there by now is not what was made
    with pytest.raises(InputError, match="a folder that others may write to"):
        made.submit()
    assert made.record.submitted is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder away")
def test_a_folder_of_another_users_is_refused(local_plan: MakePlan, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    os.chown(tmp_path / "run", 65534, 65534)
    with pytest.raises(InputError, match="a folder of another user's, expected a folder of your"):
        Deployment.make(local_plan(), folder=tmp_path / "run")
    made = Deployment.make(local_plan(), folder=tmp_path / "other")
    os.chown(tmp_path / "other", 65534, 65534)
    with pytest.raises(InputError, match="a folder of another user's"):
        made.submit()


def test_a_changed_record_is_not_opened(local_plan: MakePlan, tmp_path: Path) -> None:
    made = Deployment.make(local_plan(), folder=tmp_path / "run")
    document = json.loads((made.folder / FILE).read_text())
    changed = {**document, "backend": "slurm", "job": "4711", "output": "/etc/shadow"}
    (made.folder / FILE).write_text(json.dumps(changed))
    with pytest.raises(InputError, match="somebody else may have made, or changed"):
        Deployment.open(made.folder)


def test_a_deployment_of_others_is_not_opened(
    local_plan: MakePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Deployment.make(local_plan(), folder=tmp_path / "run")
    (tmp_path / "run").rename(tmp_path / "moved")
    with pytest.raises(InputError, match="somebody else may have made"):
        Deployment.open(tmp_path / "moved")
    Deployment.make(local_plan(), folder=tmp_path / "run")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    with pytest.raises(InputError, match="somebody else may have made"):
        Deployment.open(tmp_path / "run")


def test_a_program_that_fails_is_no_time(
    local_plan: MakePlan, study: Study, tmp_path: Path
) -> None:
    made = Deployment.make(local_plan(1, 0.1, code=3), folder=tmp_path / "run")
    made.submit()
    result = made.wait()
    assert (result.status, result.stored) == ("failed", "status")
    assert study.runs()[-1].status == "failed"
    assert len(study.table()) == 6


def test_a_want_of_memory_is_found_in_an_output_of_another_name(
    local_plan: MakePlan, program: Path, study: Study, tmp_path: Path
) -> None:
    (program / "train.py").write_text("raise MemoryError\n")
    plan = local_plan(1, 0.1, job={"output": "train.log"})
    made = Deployment.make(plan, folder=tmp_path / "run")
    made.submit()
    assert made.wait().status == "out_of_memory"
    assert made.record.reason == "train.log says that it ran out of memory"
    assert study.runs()[-1].status == "out_of_memory"


def test_a_job_that_takes_longer_than_was_predicted(local_plan: MakePlan, tmp_path: Path) -> None:
    made = Deployment.make(local_plan(10_000, 0.2), folder=tmp_path / "run")
    assert made.record.predicted is not None
    short = made.record.predicted.model_copy(update={"high": 0.01})
    made.record = made.record.model_copy(update={"predicted": short})
    made.submit()
    wait_for(lambda: (made.progress().elapsed or 0) >= 0.02)
    now = made.progress()
    assert (now.left, now.late) == (None, 0.01)
    assert "longer than the 10 ms that the 90 % interval ends with" in progress_words(now)
    made.cancel()
    assert made.wait().status == "cancelled"


def test_what_is_not_told_is_what_the_folder_was_made_with(
    make_plan: MakePlan, tmp_path: Path
) -> None:
    plan = make_plan({})
    Deployment.make(plan, folder=tmp_path / "run", backend="slurm")
    again = Deployment.make(plan, folder=tmp_path / "run")
    assert again.record.backend == "slurm"
    assert rehearsed(plan, folder=tmp_path / "run")[1] == again.script.read_text()
    with pytest.raises(InputError, match="backend: found slurm, expected local"):
        Deployment.make(plan, folder=tmp_path / "run", backend="local")


def test_a_cancelled_one_neither(local_plan: MakePlan, study: Study, tmp_path: Path) -> None:
    made = Deployment.make(local_plan(10_000, 0.2), folder=tmp_path / "run")
    with pytest.raises(InputError, match="found no job"):
        made.cancel()
    made.submit()
    wait_for(lambda: made.progress().elapsed is not None)
    now = made.progress()
    assert now.left is not None
    assert now.left.low < now.left.seconds < now.left.high
    with pytest.raises(InputError, match="found running, expected one that has ended"):
        made.settle()
    made.cancel()
    assert made.wait().status == "cancelled"
    assert study.runs()[-1].status == "cancelled"
    assert made.wait().status == "cancelled"


class Queue:
    """A scheduler in which nothing starts."""

    name = "slurm"

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def state(self, job: str, folder: Path) -> State:
        del job, folder
        return State("queued", self.reason)


@pytest.mark.parametrize(
    ("reason", "patience", "told"),
    [
        ("PartitionTimeLimit", None, "found still queued, and will not start (PartitionTimeLimit)"),
        ("Resources", 0.1, "found still queued after"),
    ],
)
def test_a_job_that_never_starts(
    local_plan: MakePlan,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reason: str,
    patience: float | None,
    told: str,
) -> None:
    made = Deployment.make(local_plan(), folder=tmp_path / "run")
    made.record = made.record.model_copy(update={"job": "7", "submitted": made.record.made})
    monkeypatch.setattr(Deployment, "backend", property(lambda _: Queue(reason)))
    with pytest.raises(JobError) as error:
        made.wait(patience=patience)
    assert told in str(error.value)
    assert f"forerun cancel {made.record.uid[:8]} ends it" in str(error.value)


class Forgetful:
    """A scheduler that refuses a job, or has forgotten it, or is quicker than the file system."""

    name = "slurm"

    def __init__(self, refusal: JobError | None = None) -> None:
        self.refusal = refusal
        self.asked: list[str] = []
        self.known: dict[str, str] = {}

    def check(self) -> None:
        pass

    def submit(self, submission: Submission) -> str:
        del submission
        assert self.refusal is not None
        raise self.refusal

    def find(self, uid: str) -> str | None:
        return self.known.get(uid)

    def state(self, job: str, folder: Path) -> State:
        del folder
        self.asked.append(job)
        return State("done", starts=1)


def by(backend: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Deployment, "backend", property(lambda _: backend))


def started(folder: Path, text: str) -> None:
    (folder / "attempts").mkdir(exist_ok=True)
    (folder / "attempts" / "1").write_text(text)


BEGUN = f"job 7\nhost {socket.gethostname()}\nstarted 1000\nbegun 1001\n"
ENDED = f"{BEGUN}done 1001.4\ncode 0\nended 1002\n"


def test_a_refused_job_was_not_submitted(
    local_plan: MakePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Deployment.make(local_plan(), folder=tmp_path / "run")
    by(Forgetful(RefusalError("submitting", "no such queue", "another")), monkeypatch)
    with pytest.raises(RefusalError):
        made.submit()
    again = Deployment.open(tmp_path / "run")
    assert (again.record.submitted, again.record.state) == (None, "made")
    with pytest.raises(InputError, match="found nothing submitted, expected a job: forerun deploy"):
        again.wait()


def test_a_lost_answer_is_not_waited_for_for_ever(
    local_plan: MakePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Deployment.make(local_plan(), folder=tmp_path / "run")
    by(Forgetful(JobError("submitting", "timed out", "an answer")), monkeypatch)
    with pytest.raises(JobError):
        made.submit()
    assert made.record.submitted is not None  # it may have arrived
    monkeypatch.setattr("forerun.deploying.deployment.UNKNOWN", 0.1)
    with pytest.raises(JobError, match=r"no trace of it: .* expected a job: forerun deploy with"):
        made.wait()
    assert Deployment.open(tmp_path / "run").record.state == "unknown"


def test_a_job_that_its_scheduler_has_forgotten_has_left_its_number(
    local_plan: MakePlan, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Deployment.make(local_plan(), folder=tmp_path / "run", backend="slurm")
    backend = Forgetful(JobError("submitting", "timed out", "an answer"))
    by(backend, monkeypatch)
    with pytest.raises(JobError):
        made.submit()
    started(made.folder, ENDED)
    again = Deployment.open(tmp_path / "run")
    assert again.state().phase == "done"
    assert (again.record.job, backend.asked) == ("7", ["7"])
    assert again.settle().run_seconds == pytest.approx(0.4)
    assert len(study) == 7


def test_a_job_is_not_settled_before_its_files_are_there(
    local_plan: MakePlan, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forerun.deploying.deployment.LATE", 3600.0)
    made = Deployment.make(local_plan(), folder=tmp_path / "run")
    made.record = made.record.model_copy(update={"job": "7", "submitted": made.record.made})
    by(Forgetful(), monkeypatch)
    for text in (None, BEGUN):  # nothing can be seen yet, or not all
        if text is not None:
            started(made.folder, text)
        assert made.state() == State("running", "it is done; its files are not there yet", starts=1)
        with pytest.raises(InputError, match="found running, expected one that has ended"):
            made.settle()
        assert (made.record.result, len(study)) == (None, 6)
    first = Deployment.open(tmp_path / "run")
    started(made.folder, ENDED)
    assert first.wait().run_seconds == pytest.approx(0.4)
    assert len(study) == 7


def test_nor_waited_for_for_ever(
    local_plan: MakePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Deployment.make(local_plan(), folder=tmp_path / "run")
    made.record = made.record.model_copy(update={"job": "7", "submitted": made.record.made})
    by(Forgetful(), monkeypatch)
    assert made.state().phase == "running"
    long_ago = (datetime.now(UTC) - timedelta(seconds=LATE + 1)).isoformat()
    made.record = made.record.model_copy(update={"over": long_ago})
    assert made.state().phase == "done"
    assert (made.settle().status, made.settle().stored) == ("ok", "")
