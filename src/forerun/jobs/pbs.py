"""Jobs of PBS: Torque, OpenPBS, and the programs of the same names that stand before Slurm.

A job is known again by the uid among its variables, or, before Slurm, which does not show those,
by its name, which ends with the first digits of the uid. What it ended with is known from `qstat
-f` as long as the server keeps finished jobs; before Slurm nobody says it, so there the job's
folder does.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from forerun.errors import InputError, JobError
from forerun.jobs.asking import PATIENCE, Answer, ask, check_programs
from forerun.jobs.backend import Limit, State, Submission
from forerun.jobs.once import LOOKS, Desk, submit_once
from forerun.jobs.pbs_answers import described, number, queue_limits, state_of, was_refused
from forerun.jobs.refusals import advice
from forerun.jobs.traces import told_by_folder, with_output

_PROGRAMS = ("qsub", "qstat", "qdel")
_JOB = re.compile(r"\d{1,10}(\[\d{0,7}\])?(\.[A-Za-z0-9.-]{1,64})?", re.ASCII)
_IDENTIFIER = re.compile(f"({_JOB.pattern})", re.ASCII)
_LONGEST = 40  # characters of a name before the uid
_PATHS = re.compile(r"#PBS\s+-([oej])\s+(.*?)\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Pbs:
    """A cluster with PBS that this machine belongs to."""

    seconds: float = PATIENCE  # that one of its programs may take
    looks: Sequence[float] = LOOKS  # seconds between questions for a job whose answer was lost
    name: str = "pbs"

    def check(self) -> None:
        """InputError where the programs of PBS are not here, or its server does not answer."""
        check_programs("PBS", _PROGRAMS)
        answer = ask(["qstat", "-q"], seconds=self.seconds)
        if not answer.output.strip():
            expected = "a server that answers: `qstat -q`, or the back end local"
            raise InputError("pbs", answer.complaint, expected)

    def submit(self, submission: Submission) -> str:
        """Submit a job once, however often it is asked for; its identifier."""
        desk = Desk(self._send, self.find, _IDENTIFIER, self.looks)
        return submit_once(desk, submission)

    def _send(self, submission: Submission) -> Answer:
        """Hand in the script by its bare name, from its folder.

        What stands before Slurm puts the words through a shell, and has paths of its own for the
        output unless they are given here.
        """
        script = submission.script
        named = ["-N", _name(submission)] if _before_slurm() else []
        return ask(["qsub", *named, *_outputs(script), script.name], script.parent, self.seconds)

    def find(self, uid: str) -> str | None:
        """The job with this uid, as long as PBS knows it; never one of somebody else's."""
        before = _before_slurm()
        for words in _questions():
            answer = ask(words, seconds=self.seconds)
            # With no job at all some end with an error; without a server all say something.
            if answer.code is None or re.search(r"connect|contact|Problem loading", answer.said):
                raise _failed(words, answer)
            for job, fields in described(answer.output).items():
                variables = fields.get("Variable_List", "").split(",")
                named = before and fields.get("Job_Name", "").endswith(f"-{uid[:12]}")
                known = named or f"FORERUN_UID={uid}" in variables
                if known and _is_ours(fields) and not was_refused(fields):
                    return job
        return None

    def state(self, job: str, folder: Path | None = None) -> State:
        """What has become of a job; its folder tells what PBS does not say."""
        _check(job)
        for words in _questions(job):
            answer = ask(words, seconds=self.seconds)
            if answer.code is None or re.search(r"connect|contact|Problem loading", answer.said):
                raise _failed(words, answer)
            for one, fields in described(answer.output).items():
                if number(one) == number(job):
                    found = state_of(fields, told_by_folder(folder), time.time())
                    return with_output(found, folder)
        return told_by_folder(folder)

    def cancel(self, job: str) -> None:
        """End a job; one that has ended is left as it is."""
        _check(job)
        words = ["qdel", job]
        answer = ask(words, seconds=self.seconds)
        ended = r"unknown job|finished|completed|invalid state|already"
        if answer.code == 0 or re.search(ended, answer.said, re.IGNORECASE):
            return
        # What stands before Slurm says nothing of one that has ended.
        if answer.said and "qdel: usage" not in answer.said:
            raise _failed(words, answer)

    def limits(self) -> Sequence[Limit]:
        """What the queues let a job have."""
        found: dict[str, Limit] = {}
        for words in (["qstat", "-Q", "-f"], ["qstat", "-q"]):
            answer = ask(words, seconds=self.seconds)
            if answer.code is None or not answer.output.strip():
                raise _failed(words, answer)
            for limit in queue_limits(answer.output):
                found.setdefault(limit.queue, limit)
                if found[limit.queue].walltime is None and found[limit.queue].nodes is None:
                    found[limit.queue] = limit
        return list(found.values())


def _before_slurm() -> bool:
    """Whether the programs are those that stand before Slurm."""
    return shutil.which("sbatch") is not None


def _is_ours(fields: Mapping[str, str]) -> bool:
    """Whether a job is this user's, as far as PBS says whose it is."""
    owner = fields.get("Job_Owner", "").partition("@")[0]
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a number without a name, as in some containers
        user = str(os.geteuid())
    return owner in ("", user)


def _questions(*jobs: str) -> list[list[str]]:
    """How to ask for jobs: those that PBS has, and then those that have ended for OpenPBS."""
    asked = [["qstat", "-f", *jobs], ["qstat", "-x", "-f", *jobs]]
    return asked[:1] if _before_slurm() else asked


def _name(submission: Submission) -> str:
    """The job's name with its uid, beginning with a letter as PBS wants it."""
    plain = submission.name if submission.name[:1].isalpha() else f"job-{submission.name}"
    return f"{plain[:_LONGEST]}-{submission.uid[:12]}"


def _outputs(script: Path) -> list[str]:
    """Where the script's own directives send the output, as words; below the folder: relative."""
    words = []
    try:
        text = script.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise JobError(str(script), error.strerror, "a script that can be read") from None
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            break
        if match := _PATHS.fullmatch(line):
            words += [f"-{match[1]}", match[2].strip("'\"").removeprefix(f"{script.parent}/")]
    return words or ["-j", "oe", "-o", "job.out"]


def _check(job: str) -> None:
    if not _JOB.fullmatch(job):
        raise JobError("job", job, "the identifier of a PBS job, such as 4711.server")


def _failed(words: Sequence[str], answer: Answer) -> JobError:
    if answer.code is None or re.search(r"connect|contact|loading", answer.said, re.IGNORECASE):
        expected = "the server to answer: `qstat -q`, and then again"
    else:
        expected = advice(answer)
    return JobError(" ".join(words), answer.complaint, expected)
