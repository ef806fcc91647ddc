"""Runs of a campaign as jobs: each in a folder of its own, found again by the uid of its run.

A job outlives whoever submitted it. So what it is the run of stands in its folder before it is
submitted, under this user's seal, and a later start takes it up again: see `adopt`.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Set
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Literal, cast

from forerun._rows import as_json, from_json
from forerun._seal import is_sealed, sealed
from forerun.deploying.record import put
from forerun.deploying.timing import timing_of
from forerun.errors import InputError, JobError
from forerun.factors import Point
from forerun.jobs.attempts import read_attempts
from forerun.jobs.backend import Backend, State, Submission
from forerun.jobs.command import Timing
from forerun.jobs.refusals import never_starts
from forerun.jobs.script import render
from forerun.jobs.spec import JobSpec
from forerun.measuring.design import Chosen, Why
from forerun.measuring.outputs import job_folder, unseen_jobs
from forerun.measuring.runner import Again, Task, output_of

TICK = 0.1  # seconds between two looks into the folders of jobs
FIRST, LONGEST = 0.5, 10.0  # seconds between two questions to a scheduler, at first and at most
UNKNOWN = 60.0  # seconds after which a job that nobody knows of has failed
SILENT = 600.0  # and after which a scheduler that does not answer ends the campaign
LATE = 15.0  # seconds in which the last lines of a node come through a shared file system
UNSEEN = 75.0  # and in which a new file does: NFS keeps what it knows of a directory for up to 60
ENDING = 120.0  # seconds in which jobs end that were cancelled
_FILE = "run.json"  # of a job's folder: what it is the run of
_CANCELLED = "cancelled"  # that it was told to end
_LONGEST = 2**20  # bytes of what it is the run of

Spec = Callable[[Task, Path], JobSpec]


@dataclass
class _Job:
    """A job that is under way."""

    task: Task
    folder: Path
    name: str  # as its scheduler has it
    began: float = field(default_factory=time.monotonic)
    known: float = field(default_factory=time.monotonic)  # when it was last known of
    next: float = 0.0  # when the scheduler is to be asked again
    through: bool = False  # whether its folder says that it has ended
    over: float | None = None  # since when its scheduler does
    cancelled: bool = False  # by us


class JobRunner:
    """Makes runs as jobs of one back end, each measured where it runs."""

    elsewhere = True

    def __init__(self, spec: Spec, backend: Backend, slots: int, output: Path) -> None:
        if slots < 1:
            raise InputError("slots", slots, "a whole number of at least 1")
        self.slots = slots
        self._spec, self._backend, self._output = spec, backend, output
        self._running: dict[str, _Job] = {}
        self._ended: list[tuple[Task, Timing]] = []
        self._hosts: dict[str, str] = {}
        self._broken: InputError | None = None  # to be raised by the next `finished`
        self._hurry = threading.Event()

    def start(self, task: Task) -> None:
        """Write the job of a task, and submit it; JobError where it is refused."""
        if task.command is None:
            raise TypeError("a job runs a command")
        folder = self._folder(task.uid)
        spec = self._spec(task, folder)
        scheduler = cast(Literal["slurm", "pbs", "none"], _script_for(self._backend))
        script = render(spec, scheduler)
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise InputError(str(folder), error.strerror, "a new folder for the job") from None
        put(folder / "worker.py", (files("forerun.jobs") / "worker.py").read_bytes())
        put(folder / "job.sh", script.encode())
        put(folder / _FILE, _told(task).encode())
        job = self._backend.submit(Submission(task.uid, spec.name, folder / "job.sh"))
        self._running[task.uid] = _Job(task, folder, job)

    def adopt(self, stored: Set[str], again: Again) -> list[Task]:
        """Go on with the jobs of an earlier start that was killed; those not wanted are ended."""
        found = []
        for folder in unseen_jobs(self._output, stored):
            chosen = _read(folder)
            if chosen is None:
                continue  # not this user's
            job = self._found(folder)
            if job is None:
                shutil.rmtree(folder, ignore_errors=True)  # it was never submitted
                continue
            cancelled = (folder / _CANCELLED).exists()  # by us: then it is no run
            task = None if cancelled else again(folder.name, chosen)
            if task is None:
                if not self._backend.state(job, folder).has_ended:
                    self._backend.cancel(job)
                shutil.rmtree(folder, ignore_errors=True)
                continue
            self._running[task.uid] = _Job(task, folder, job)
            found.append(task)
        return found

    def finished(self, timeout: float) -> list[tuple[Task, Timing]]:
        """The tasks whose jobs have ended."""
        limit = time.monotonic() + timeout
        while self._broken is None:
            self._look_at_all()
            found, self._ended = self._ended, []
            left = limit - time.monotonic()
            if found or (left <= 0 and self._broken is None):
                return found
            time.sleep(max(0.0, min(TICK, left)))
        broken, self._broken = self._broken, None
        raise broken

    def host_of(self, task: Task) -> str:
        """The first node of its job."""
        return self._hosts.get(task.uid, "")

    def cancel_all(self) -> None:
        """End all jobs, and wait for that; JobError where some cannot be ended."""
        limit = time.monotonic() + ENDING
        why = ""
        while self._running and time.monotonic() < limit:
            for job in self._not_cancelled():
                try:
                    self._backend.cancel(job.name)
                except JobError as error:
                    why = str(error)
                    continue
                job.cancelled, job.next = True, 0.0
                with suppress(OSError):  # should nobody wait for its end
                    (job.folder / _CANCELLED).touch()
            self._look_at_all()
            if self._hurry.wait(TICK):
                break
        if left := self._not_cancelled():
            self._running.clear()
            jobs = ", ".join(job.name for job in left)
            expected = "an end of them: start again, which goes on with them"
            raise JobError(f"jobs {jobs}", f"not cancelled ({why})", expected)

    def _not_cancelled(self) -> list[_Job]:
        return [job for job in self._running.values() if not job.cancelled]

    def hurry(self) -> None:
        """Wait no longer for jobs that were told to end."""
        if not self._hurry.is_set():
            self._hurry.set()

    def close(self) -> None:
        """As `cancel_all`."""
        self.cancel_all()
        self._running.clear()  # told to end: if somebody was in a hurry, a later start looks again
        self._hurry = threading.Event()

    def _folder(self, uid: str) -> Path:
        for path in (self._output, self._output / "jobs"):
            if path.is_symlink():
                raise InputError(str(path), "a link", "a directory of its own for the outputs")
        return job_folder(self._output, uid)

    def _found(self, folder: Path) -> str | None:
        """The job of a folder: as its scheduler knows it, or as it said itself when it started."""
        job = self._backend.find(folder.name)
        return job or next((one.job for one in read_attempts(folder) if one.job), None)

    def _look_at_all(self) -> None:
        """Note which jobs have ended; what is raised is raised when nothing else is to be told."""
        for job in list(self._running.values()):
            try:
                timing = self._looked(job)
            except InputError as error:
                self._broken = error
                return
            if timing is not None:
                self._settle(job, timing)

    def _looked(self, job: _Job) -> Timing | None:
        """How a job's run ended; None while it has not."""
        now = time.monotonic()
        attempts = read_attempts(job.folder)
        through = bool(attempts) and attempts[-1].ended is not None
        if through and not job.through:
            job.through, job.next = True, 0.0
        if now < job.next:
            return None
        pause = FIRST if through or job.cancelled else 0.02 * (now - job.began)
        job.next = now + min(LONGEST, max(FIRST, pause))
        state = self._asked(job, now)
        if state is None:
            return None
        if not state.has_ended:
            if not job.cancelled:
                _check_starts(job, state)
            if state.phase != "unknown":
                job.known = now
            elif now - job.known > UNKNOWN:
                state = State("failed", f"no trace of its job: {state.reason}", starts=state.starts)
            if not state.has_ended:
                return None
        attempts = read_attempts(job.folder)
        job.over = job.over or now
        whole = bool(attempts) and attempts[-1].ended is not None
        late = LATE if attempts else UNSEEN
        if state.phase == "done" and not whole and now - job.over < late:
            return None
        if attempts:
            self._hosts[job.task.uid] = attempts[-1].host
        if job.cancelled and state.phase != "done":
            return Timing("cancelled", reason="cancelled")
        assert job.task.command is not None
        return timing_of(job.task.command, state, attempts, job.folder / "job.out")

    def _asked(self, job: _Job, now: float) -> State | None:
        """What the scheduler says; None while it does not answer, which is no news of the job."""
        try:
            return self._backend.state(job.name, job.folder)
        except JobError:
            if now - job.known > SILENT:
                raise
            return None

    def _settle(self, job: _Job, timing: Timing) -> None:
        """Put its output where those of all runs are; of a cancelled one nothing stays."""
        del self._running[job.task.uid]
        if timing.status == "cancelled":
            shutil.rmtree(job.folder, ignore_errors=True)
        else:
            _deliver(job.folder / "job.out", output_of(self._output, job.task.uid))
        self._ended.append((job.task, timing))


def _script_for(backend: Backend) -> str:
    return "none" if backend.name == "local" else backend.name


def _check_starts(job: _Job, state: State) -> None:
    if state.phase == "queued" and never_starts(state.reason):
        found = f"queued, and will not start ({state.reason})"
        expected = "a job that starts: another partition, or fewer nodes or time"
        raise JobError(f"job {job.name}", found, expected)


def _deliver(source: Path, target: Path) -> None:
    """The output under the name of its run: the same file, or a copy where links cannot be."""
    with suppress(OSError):
        target.unlink(missing_ok=True)
        try:
            os.link(source, target)
        except FileNotFoundError:
            target.touch()  # it printed nothing: it did not start
        except OSError:
            shutil.copyfile(source, target)


def _told(task: Task) -> str:
    """What a job is the run of, with a seal: nobody else's file ends a job, or tells a time."""
    text = as_json({"uid": task.uid, "point": dict(task.point), "why": task.why})
    return as_json({"run": text, "hmac-sha256": sealed(text) or ""}) + "\n"


def _read(folder: Path) -> Chosen | None:
    """What the job of a folder is the run of; None unless this user wrote that."""
    try:
        with (folder / _FILE).open("rb") as file:
            kept = from_json(file.read(_LONGEST).decode().strip())
        text = str(kept.get("run", ""))
        if not is_sealed(text, str(kept.get("hmac-sha256", ""))):
            return None
        run = from_json(text)
        return (
            Chosen(Point(run["point"]), cast(Why, run["why"]))
            if run["uid"] == folder.name
            else None
        )
    except (OSError, UnicodeDecodeError, InputError, KeyError, TypeError):
        return None
