"""Submitting once, whatever becomes of the answer.

A submission can have reached the scheduler although its answer did not reach us: a time-out, a
connection that broke, a program that was killed. So the scheduler is asked for the job's uid
before, and after every answer that was lost; it is submitted again only when the scheduler has
said several times, over seconds, that it has no such job.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from forerun.errors import JobError, RefusalError
from forerun.jobs.asking import Answer
from forerun.jobs.attempts import read_attempts
from forerun.jobs.backend import Submission
from forerun.jobs.refusals import advice, is_lost

TRIES = 4
# Seconds between questions for a job whose answer was lost: together longer than the ten for which
# Slurm's controller lets a message wait unless its operator has said otherwise.
LOOKS = (0.5, 1.0, 2.0, 4.0, 6.0)
_LONGEST = 600.0  # seconds of looking, whatever a scheduler says that it lets messages wait for
_HELD = 600.0  # seconds that another submission of the same job may take


@dataclass(frozen=True, slots=True)
class Desk:
    """Where jobs are handed in: what hands one in, what finds it again, and how to read."""

    send: Callable[[Submission], Answer]
    find: Callable[[str], str | None]  # by uid
    identifier: re.Pattern[str]  # of a job, all of the answer's last line
    looks: Sequence[float] = LOOKS
    waits: Callable[[], float] = lambda: 0.0  # seconds for which a message may wait, if longer


def submit_once(desk: Desk, submission: Submission) -> str:
    """The identifier of the one job with this uid; JobError where it is refused."""
    folder = submission.script.parent
    with _alone(folder):
        if known := desk.find(submission.uid) or _started(folder):
            return known
        for _ in range(TRIES):
            answer = desk.send(submission)
            if found := _identifier(desk, answer):
                return found
            if not is_lost(answer):
                what = f"submitting {submission.script}"
                raise RefusalError(what, answer.complaint, advice(answer))
            if found := _patiently(desk, submission.uid):
                return found
    expected = "an answer; submit it again, it is looked for first"
    raise JobError(f"submitting {submission.script}", answer.complaint, expected)


def _identifier(desk: Desk, answer: Answer) -> str | None:
    """What the scheduler calls the job; None where it did not say."""
    lines = answer.output.split()
    match = desk.identifier.fullmatch(lines[-1]) if lines and answer.code == 0 else None
    return match and match[1]


def _patiently(desk: Desk, uid: str) -> str | None:
    """The job whose answer was lost; None once it is certain that there is none.

    JobError where the scheduler does not answer this either: then nobody can say.
    """
    complaint: JobError | None = None
    for pause in _pauses(desk):
        time.sleep(pause)
        try:
            complaint = None
            if found := desk.find(uid):
                return found
        except JobError as error:
            complaint = error
    if complaint is not None:
        raise complaint
    return None


def _pauses(desk: Desk) -> Iterator[float]:
    """Seconds between the questions; the last ones go on for as long as a message may wait."""
    yield from desk.looks
    left = min(_LONGEST, desk.waits()) - sum(desk.looks)
    while left > 0:
        yield desk.looks[-1]
        left -= desk.looks[-1]


def _started(folder: Path) -> str | None:
    """The job that has left its number in the folder: older than what the scheduler remembers."""
    return next((one.job for one in read_attempts(folder) if one.job), None)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """A time in which nobody else submits from this folder."""
    path = folder / "submitting"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        expected = "a folder with room that this user may write to"
        raise JobError(str(path), error.strerror, expected) from None
    try:
        until = time.monotonic() + _HELD
        while not _locked(handle):
            if time.monotonic() > until:
                raise JobError(str(path), "held by another forerun", "one submission at a time")
            time.sleep(0.1)
        yield
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks: the scheduler's own list must do
    return True
