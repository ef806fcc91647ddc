"""A deployment: the files made from a plan, the job submitted with them, and what came of it.

    made = Deployment.make(read_plan(path).plan, folder=Path("run-1"))
    made.submit()                 # the same job, however often
    made.wait().told              # and the run is in the study

All that is known of it stands in `deployment.json` of its folder, so that whoever comes later, in
another process, goes on from there.
"""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from forerun import quantities
from forerun.deploying import register
from forerun.deploying.present import check_image
from forerun.deploying.progress import Left, by_prediction
from forerun.deploying.record import FILE, Record, Result, put
from forerun.deploying.settling import settled
from forerun.errors import InputError, JobError, RefusalError
from forerun.jobs.attempts import Attempt, read_attempts
from forerun.jobs.backend import Backend, State, Submission, backend_of
from forerun.jobs.refusals import never_starts
from forerun.jobs.traces import with_output

if TYPE_CHECKING:
    from forerun.deploying.making import Made
    from forerun.planning.planner import Plan

FIRST, LONGEST = 0.2, 10.0  # seconds between two questions to a scheduler, at first and at most
UNKNOWN = 60.0  # seconds after which a job that nobody knows of is no longer waited for
LATE = 75.0  # seconds in which a node's last lines come: file systems keep what they saw for 60
SILENT = 600.0  # and after which a scheduler that does not answer is not
_FORGETFUL = ("slurm", "pbs")  # back ends that forget a job minutes after its end


@dataclass(frozen=True, slots=True)
class Progress:
    """How a job stands."""

    state: State
    elapsed: float | None = None  # seconds that the program has run
    left: Left | None = None  # by the prediction
    late: float | None = None  # seconds at which it should have ended, where it did not


class Deployment:
    """One job made from a plan, in its folder."""

    def __init__(self, record: Record) -> None:
        self.record = record

    def __repr__(self) -> str:
        return f"Deployment({self.record.folder!r}, {self.record.state})"

    @classmethod
    def make(
        cls,
        plan: Plan,
        candidate: int = 0,
        folder: Path | None = None,
        *,
        backend: str | None = None,
        image: str = "",
        uid: str | None = None,
    ) -> Deployment:
        """Write the files of a candidate's job, and submit nothing.

        A folder that holds the same deployment is left as it is: what was made is what runs.
        `backend` is the infrastructure's scheduler where nothing is said, `image` the request's.
        """
        # Late: plans need all of the model's libraries, and what follows them does not.
        from forerun.deploying.making import BESIDE, making

        backend, image = _told(folder, backend, image)
        made = making(plan, candidate, folder, backend, uid or secrets.token_hex(16), image)
        there = Path(made.record.folder)
        if (there / FILE).exists():
            found = _again(there, made.record)
            if image not in ("", BESIDE, found.record.image):
                expected = f"{image}, or another folder with -o"
                raise InputError(
                    f"{there}, the image of the job there", found.record.image, expected
                )
            return found
        _check_empty(there)
        _write(there, made)
        return cls(made.record)

    @classmethod
    def open(cls, folder: Path) -> Deployment:
        """The deployment of a folder; InputError unless this user made it."""
        folder = folder.resolve()
        record = Record.load(folder)
        if record.folder != str(folder) or not register.is_known(record.uid, folder):
            expected = "one that you made here: forerun status lists them"
            raise InputError(str(folder), "a deployment that somebody else may have made", expected)
        return cls(record)

    @property
    def folder(self) -> Path:
        """All that is kept of it."""
        return Path(self.record.folder)

    @property
    def output(self) -> Path:
        """What its program prints."""
        return self.folder / self.record.output

    @property
    def script(self) -> Path:
        """What is submitted."""
        return self.folder / self.record.script

    @property
    def backend(self) -> Backend:
        """Where it runs."""
        return backend_of(self.record.backend)

    @property
    def attempts(self) -> list[Attempt]:
        """Its starts."""
        return read_attempts(self.folder)

    def submit(self) -> str:
        """Submit the job, or find the one that was submitted; its identifier."""
        if self.record.job is not None:
            return self.record.job
        _check_own(self.folder)
        self.backend.check()
        check_image(self.record)
        self._change(submitted=self.record.submitted or _now())  # the uid is fixed before the try
        try:
            job = self.backend.submit(Submission(self.record.uid, self.record.name, self.script))
        except RefusalError:
            self._change(submitted=None, state="made", reason="")  # nobody need look for it
            raise
        self._change(job=job, state="queued")
        return job

    def state(self) -> State:
        """What has become of it."""
        if self.record.result is not None:
            return self._ended()
        if self.record.submitted is None:
            return State("unknown", "not submitted")
        job = self.record.job or self._found()
        if job is None:
            found = State("unknown", "its scheduler has no such job, and it has left no trace")
        else:
            if job != self.record.job:
                self._change(job=job)
            outputs = (self.record.output, self.record.errors)
            told = self.backend.state(job, self.folder)
            found = self._whole(with_output(told, self.folder, outputs))
        if (found.phase, found.reason) != (self.record.state, self.record.reason):
            self._change(state=found.phase, reason=found.reason)
        return found

    def progress(self) -> Progress:
        """How it stands now, and by the prediction how long it will go on."""
        found = self.state()
        attempts = self.attempts
        begun = attempts[-1].begun if attempts else None
        if begun is None or found.phase != "running":
            return Progress(found)
        elapsed = max(0.0, (attempts[-1].done or time.time()) - begun)
        predicted = self.record.predicted
        if predicted is None:
            return Progress(found, elapsed)
        if elapsed > predicted.run_high:  # the prediction was wrong, and says nothing more
            return Progress(found, elapsed, late=predicted.run_high)
        return Progress(found, elapsed, by_prediction(predicted, elapsed))

    def wait(
        self,
        tell: Callable[[Progress], None] | None = None,
        patience: float | None = None,
    ) -> Result:
        """Wait until it has ended, and store its run; how it ended.

        JobError where it will never start, or has not after so many seconds of `patience`, or where
        nobody knows of it any longer. The job itself goes on whatever happens here.
        """
        if self.record.submitted is None:
            expected = f"a job: forerun deploy with -o {self.record.folder} submits it"
            raise InputError(f"deployment {self.record.uid[:8]}", "nothing submitted", expected)
        began = known = time.monotonic()
        pause = FIRST
        while True:
            now = self._asked(known)
            if tell is not None:
                tell(now)
            if now.state.has_ended:
                return self.settle()
            self._check_starts(now.state, time.monotonic() - began, patience)
            if now.state.phase != "unknown":
                known = time.monotonic()
            elif time.monotonic() - known > UNKNOWN and self.record.state == "unknown":
                raise self._lost(now.state.reason)
            time.sleep(pause)
            pause = min(LONGEST, 1.2 * pause, max(FIRST, 0.02 * (time.monotonic() - began)))

    def settle(self) -> Result:
        """Store its run in the study, once; how it ended. InputError while it has not."""
        if self.record.result is not None:
            return self.record.result
        found = self.state()
        if not found.has_ended:
            raise InputError(f"job {self.record.job}", found.phase, "one that has ended")
        result = settled(self.record, found, self.attempts)
        self._change(result=result)
        return result

    def cancel(self) -> None:
        """End the job; one that has ended is left as it is."""
        if self.record.job is None and self.state().phase == "unknown":
            raise InputError(
                f"deployment {self.record.uid[:8]}", "no job", "one that was submitted"
            )
        assert self.record.job is not None
        self.backend.cancel(self.record.job)

    def _found(self) -> str | None:
        """The job whose number was lost: as its scheduler knows it, or as it said when it began."""
        job = self.backend.find(self.record.uid)
        if job is not None or self.record.backend not in _FORGETFUL:
            return job
        return next((one.job for one in self.attempts if one.job), None)

    def _whole(self, found: State) -> State:
        """What its scheduler says; a job whose last lines are still on their way is not through."""
        attempts = self.attempts
        if found.phase != "done" or (attempts and attempts[-1].ended is not None):
            return found
        if self.record.over is None:
            self._change(over=_now())
        assert self.record.over is not None
        age = datetime.now(UTC) - datetime.fromisoformat(self.record.over)
        if abs(age.total_seconds()) > LATE:  # by another clock it may be less than nothing
            return found
        return replace(found, phase="running", reason="it is done; its files are not there yet")

    def _lost(self, reason: str) -> JobError:
        found = f"no trace of it: {reason}"
        if self.record.job is not None:
            expected = f"a job that is known; {self.record.folder} has what it left"
            return JobError(f"job {self.record.job}", found, expected)
        expected = f"a job: forerun deploy with -o {self.record.folder} submits it"
        return JobError(f"deployment {self.record.uid[:8]}", found, expected)

    def _asked(self, known: float) -> Progress:
        """How it stands; a scheduler that does not answer for a while is no news of the job."""
        try:
            return self.progress()
        except JobError as error:
            if time.monotonic() - known > SILENT:
                raise
            return Progress(State("unknown", str(error)))

    def _change(self, **changes: object) -> None:
        self.record = self.record.model_copy(update=changes)
        self.record.save()

    def _ended(self) -> State:
        result = self.record.result
        assert result is not None
        assert self.record.state != "made"
        return State(
            self.record.state,
            self.record.reason,
            result.nodes,
            result.starts,
            waited=result.waited_seconds,
        )

    def _check_starts(self, found: State, waited: float, patience: float | None) -> None:
        if found.phase != "queued":
            return
        never = never_starts(found.reason)
        too_long = patience is not None and waited > patience
        if not (never or too_long):
            return
        why = f" ({found.reason})" if found.reason else ""
        long = ", and will not start" if never else f" after {quantities.seconds(waited)}"
        short = self.record.uid[:8]
        expected = f"its start: forerun cancel {short} ends it, forerun status {short} looks again"
        raise JobError(f"job {self.record.job}", f"still queued{long}{why}", expected)


def rehearsed(
    plan: Plan,
    candidate: int = 0,
    folder: Path | None = None,
    *,
    backend: str | None = None,
    image: str = "",
) -> tuple[Deployment, str]:
    """What would be made and submitted, without a trace of it: the deployment, and the text.

    Of a folder that holds the deployment already that is what is there.
    """
    from forerun.deploying.making import making

    backend, image = _told(folder, backend, image)
    made = making(plan, candidate, folder, backend, secrets.token_hex(16), image)
    there = Path(made.record.folder)
    if not (there / FILE).exists():
        return Deployment(made.record), made.script
    found = _again(there, made.record)
    return found, found.script.read_text(encoding="utf-8")


def _told(folder: Path | None, backend: str | None, image: str) -> tuple[str | None, str]:
    """What is not told of a deployment is what its folder was made with."""
    if folder is None or not (folder / FILE).exists():
        return backend, image
    known = Deployment.open(folder).record
    return backend or known.backend, image or known.image


def _again(folder: Path, asked: Record) -> Deployment:
    """The deployment that a folder holds, where that is the one that was asked for."""
    found = Deployment.open(folder)
    for name in ("plan", "candidate", "backend"):
        was, now = getattr(found.record, name), getattr(asked, name)
        if was != now:
            expected = f"{now}, or another folder with -o"
            raise InputError(f"{folder}, the deployment there: {name}", was, expected)
    return found


def _check_empty(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = next(folder.iterdir(), None)
    except OSError as error:
        expected = "a directory to write to; another one with -o"
        raise InputError(str(folder), error.strerror, expected) from None
    _check_own(folder)
    if found is not None:
        expected = "an empty or new folder; another one with -o"
        raise InputError(str(folder), f"{found.name} in it", expected)


def _check_own(folder: Path) -> None:
    """InputError where others could change the script between two looks at it.

    A person may change it, so no digest of it is kept: whose folder it is has to do.
    """
    status = folder.stat()
    if status.st_uid != os.geteuid():
        expected = "a folder of your own; another one with -o"
        raise InputError(str(folder), "a folder of another user's", expected)
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        expected = "one that is yours alone to write to: chmod go-w, or another one with -o"
        raise InputError(str(folder), "a folder that others may write to", expected)


def _write(folder: Path, made: Made) -> None:
    """All files, or none; what says that it is a deployment comes last."""
    register.remember(made.record.uid, folder)
    worker = (files("forerun.jobs") / "worker.py").read_bytes()
    try:
        put(folder / made.record.script, made.script.encode())
        put(folder / "worker.py", worker)
        made.record.save()
    except InputError:
        register.forget(made.record.uid)
        for name in (made.record.script, "worker.py"):
            (folder / name).unlink(missing_ok=True)
        raise


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
