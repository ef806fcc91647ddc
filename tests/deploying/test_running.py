"""Runs as jobs: real processes of this machine, that outlive whoever started them."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest
from patience import ENDLESS, Ticking, wait_for

from forerun.deploying import running
from forerun.deploying.running import JobRunner
from forerun.errors import InputError, JobError
from forerun.factors import Point
from forerun.jobs.backend import Backend, Limit, State, Submission
from forerun.jobs.command import Command, Timing
from forerun.jobs.local import Local
from forerun.jobs.spec import JobSpec
from forerun.measuring.design import Chosen
from forerun.measuring.outputs import job_folder
from forerun.measuring.runner import Task, output_of

Make = Callable[..., JobRunner]


def task(*words: str) -> Task:
    return Task(uuid4().hex, Point({"n": 1}), "chosen", "", Command(words))


def spec(one: Task, folder: Path) -> JobSpec:
    assert one.command is not None
    words, beside = one.command.words, str(folder.parent)
    return JobSpec("toy", words, str(folder), one.uid, directory=beside)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "toy.output"


@pytest.fixture
def runner(output: Path) -> JobRunner:
    return JobRunner(spec, Local(), 2, output)


def results(runner: JobRunner, count: int = 1) -> list[tuple[Task, Timing]]:
    found: list[tuple[Task, Timing]] = []

    def are_all() -> bool:
        found.extend(runner.finished(1))
        return len(found) >= count

    wait_for(are_all)
    return found


def running_task(runner: JobRunner, output: Path) -> Task:
    """One that has begun, and would go on."""
    made = task("sh", "-c", f"touch ../begun; sleep {ENDLESS}")
    runner.start(made)
    wait_for((output / "begun").exists)
    return made


def again(uid: str, chosen: Chosen) -> Task:
    return Task(uid, chosen.point, chosen.why, "", Command(("sh",)))


def test_jobs_come_back_with_their_timings(runner: JobRunner, output: Path) -> None:
    began = time.monotonic()
    good, bad = task("sh", "-c", "echo one; sleep 0.3"), task("sh", "-c", "echo oh no; exit 3")
    runner.start(good)
    runner.start(bad)
    ended = {one.uid: timing for one, timing in results(runner, 2)}
    found = ended[good.uid]
    assert found.status == "ok"
    assert found.seconds is not None
    assert 0.3 < found.seconds < time.monotonic() - began
    assert found.memory_bytes > 1e6
    assert runner.host_of(good) == socket.gethostname()
    assert output_of(output, good.uid).read_text() == "one\n"
    assert (ended[bad.uid].status, ended[bad.uid].reason) == ("failed", "exit code 3: oh no")
    assert runner.finished(0) == []
    assert (job_folder(output, good.uid) / "job.sh").exists()
    runner.close()


def test_cancelled_jobs_leave_nothing(runner: JobRunner, output: Path) -> None:
    made = running_task(runner, output)
    runner.cancel_all()
    ((one, timing),) = runner.finished(0)
    assert (one, timing.status, timing.seconds) == (made, "cancelled", None)
    assert not job_folder(output, made.uid).exists()
    runner.close()


def test_a_job_that_others_have_ended_is_a_failed_run(runner: JobRunner, output: Path) -> None:
    made = running_task(runner, output)
    Local().cancel(f"local-{made.uid[:12]}")  # as an administrator might
    ((one, timing),) = results(runner)
    assert (one, timing.status, timing.seconds) == (made, "failed", None)
    assert timing.reason == "ended by others than forerun"
    assert (job_folder(output, made.uid) / "job.sh").exists()
    later = JobRunner(spec, Local(), 1, output)  # had that not been stored
    assert [found.uid for found in later.adopt(set(), again)] == [made.uid]
    ((_, timing),) = results(later)
    assert timing.status == "failed"


def test_who_is_in_a_hurry_waits_for_no_end(runner: JobRunner, output: Path) -> None:
    made = running_task(runner, output)
    runner.hurry()
    runner.cancel_all()
    runner.close()
    assert runner.finished(0) == []
    later = JobRunner(spec, Local(), 1, output)  # which does not take it for a run
    assert later.adopt(set(), again) == []
    assert not job_folder(output, made.uid).exists()


def test_a_later_start_finds_jobs_again(runner: JobRunner, output: Path) -> None:
    made = task("sh", "-c", "sleep 0.5; echo there")
    runner.start(made)
    del runner  # as if it had been killed: nobody tells the job
    later = JobRunner(spec, Local(), 1, output)
    (found,) = later.adopt(set(), again)
    assert (found.uid, found.point, found.why) == (made.uid, made.point, "chosen")
    ((_, timing),) = results(later)
    assert timing.status == "ok"
    assert timing.seconds is not None
    assert timing.seconds > 0.5
    assert output_of(output, made.uid).read_text() == "there\n"
    assert later.adopt({made.uid}, again) == []  # once it is in the study


def test_what_nobody_wants_any_longer_is_ended(runner: JobRunner, output: Path) -> None:
    made = running_task(runner, output)
    folder = job_folder(output, made.uid)
    told = dict(line.split(" ", 1) for line in (folder / "process").read_text().splitlines())
    later = JobRunner(spec, Local(), 1, output)
    assert later.adopt(set(), lambda *_: None) == []
    assert not folder.exists()
    wait_for(lambda: not Path("/proc", told["pid"]).exists())


def test_a_job_that_was_never_submitted_is_forgotten(runner: JobRunner, output: Path) -> None:
    made = task("true")
    runner.start(made)
    results(runner)
    folder = job_folder(output, made.uid)
    for name in ("process", "attempts/1"):
        (folder / name).unlink()
    assert runner.adopt(set(), again) == []
    assert not folder.exists()


def test_nobody_elses_folder_is_believed(
    runner: JobRunner, output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = task("true")
    runner.start(made)
    results(runner)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    assert runner.adopt(set(), again) == []
    assert job_folder(output, made.uid).exists()


def test_jobs_do_not_leave_through_a_link(runner: JobRunner, output: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    output.symlink_to("elsewhere")
    with pytest.raises(InputError, match="found a link, expected a directory of its own"):
        runner.start(task("true"))
    assert list((tmp_path / "elsewhere").iterdir()) == []


@dataclass
class Scripted:
    """A scheduler whose answers are known beforehand."""

    answers: list[State | JobError]
    name: str = "slurm"
    cancelled: list[str] = field(default_factory=list)

    def check(self) -> None: ...

    def submit(self, submission: Submission) -> str:
        assert submission.script.exists()
        return "42"

    def find(self, uid: str) -> str | None:
        return "42" if uid else None

    def state(self, job: str, folder: Path | None = None) -> State:
        assert (job, folder is not None) == ("42", True)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, JobError):
            raise answer
        return answer

    def cancel(self, job: str) -> None:
        self.cancelled.append(job)
        raise JobError("scancel", "no answer in time", "Slurm's controller to answer")

    def limits(self) -> Sequence[Limit]:
        return []


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that does not wait."""
    for name in ("FIRST", "LONGEST", "TICK", "LATE", "UNSEEN", "UNKNOWN"):
        monkeypatch.setattr(running, name, 0.01)


def scripted(output: Path, *answers: State | JobError) -> tuple[JobRunner, Scripted]:
    backend = Scripted(list(answers))
    made: Backend = backend
    return JobRunner(spec, made, 1, output), backend


@pytest.mark.usefixtures("quick")
def test_a_scheduler_that_is_silent_is_no_news(output: Path) -> None:
    silent = JobError("scontrol", "no answer in time", "an answer")
    runner, _ = scripted(output, silent, silent, State("failed", "exit code 1"))
    runner.start(task("true"))
    ((_, timing),) = results(runner)
    assert (timing.status, timing.reason) == ("failed", "exit code 1")


ATTEMPT = "job 42\nhost n1\nstarted 10\nbegun 11\ndone 13.5\ncode 0\nended 14\n"


@pytest.mark.usefixtures("quick")
def test_a_start_is_awaited_that_is_not_seen_yet(
    output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "UNSEEN", 3600.0)
    runner, _ = scripted(output, State("done", starts=1, exit_code=0))
    made = task("true")
    runner.start(made)
    assert runner.finished(0.3) == []  # longer than for the last lines of one that is seen
    attempts = job_folder(output, made.uid) / "attempts"
    attempts.mkdir()
    (attempts / "1").write_text(ATTEMPT)
    ((_, timing),) = results(runner)
    assert (timing.status, timing.seconds) == ("ok", 2.5)


@pytest.mark.usefixtures("quick")
def test_one_that_stays_silent_ends_the_campaign(
    output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "SILENT", 0.1)
    runner, _ = scripted(output, JobError("scontrol", "no answer in time", "an answer"))
    runner.start(task("true"))
    with pytest.raises(JobError, match="no answer in time"):
        results(runner)


@pytest.mark.usefixtures("quick")
def test_a_job_that_never_starts(output: Path) -> None:
    runner, _ = scripted(output, State("queued", "Priority"), State("queued", "BadConstraints"))
    runner.start(task("true"))
    expected = r"job 42: found queued, and will not start \(BadConstraints\)"
    with pytest.raises(JobError, match=expected):
        results(runner)


@pytest.mark.usefixtures("quick")
def test_a_job_that_nobody_knows_of_has_failed(output: Path) -> None:
    runner, _ = scripted(output, State("unknown", "no such job"))
    runner.start(task("true"))
    ((_, timing),) = results(runner)
    assert (timing.status, timing.reason) == ("failed", "no trace of its job: no such job")


@pytest.mark.usefixtures("quick")
def test_jobs_that_cannot_be_ended_are_told(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "ENDING", 0.2)
    monkeypatch.setattr(running, "time", Ticking(0.01))
    runner, backend = scripted(output, State("running"))
    runner.start(task("true"))
    with pytest.raises(JobError, match="jobs 42: found not cancelled"):
        runner.cancel_all()
    assert len(backend.cancelled) > 1
    runner.close()
