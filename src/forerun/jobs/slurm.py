"""Jobs of a Slurm cluster: `sbatch`, and what Slurm remembers of them.

The job's uid stands in its comment. While Slurm has the job in memory, which it does for some
minutes after its end, `scontrol` tells all; later `sacct` does where jobs are accounted, `sacct -c`
where only their ends are kept, and at last what the job has left in its folder.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from forerun.errors import InputError, JobError
from forerun.infrastructure.detection import walltime_seconds
from forerun.jobs.asking import PATIENCE, Answer, ask, check_programs
from forerun.jobs.backend import Limit, State, Submission
from forerun.jobs.once import LOOKS, Desk, submit_once
from forerun.jobs.refusals import advice
from forerun.jobs.slurm_answers import COMPLETED, SACCT, accounted, shown
from forerun.jobs.traces import told_by_folder, with_output

_PROGRAMS = ("sbatch", "squeue", "scontrol", "scancel")
_COMMENT = "forerun:"  # before the uid, in the comment of a job
_JOB = re.compile(r"\d{1,10}", re.ASCII)
_IDENTIFIER = re.compile(r"(\d{1,10})(?:;(\S*))?", re.ASCII)  # the second: whose job it is
_SPARE = 3.0  # seconds beyond those for which a message may wait
_GONE = "Invalid job id"  # what Slurm says of a job that it has forgotten, or never had


@dataclass(frozen=True, slots=True)
class Slurm:
    """A Slurm cluster that this machine belongs to."""

    seconds: float = PATIENCE  # that one of its programs may take
    # Seconds between questions for a job whose answer was lost; by default, for as long as the
    # cluster's messages may wait.
    looks: Sequence[float] | None = None
    name: str = "slurm"

    def check(self) -> None:
        """InputError where Slurm's programs are not here, or its controller does not answer."""
        check_programs("Slurm", _PROGRAMS)
        answer = ask(["scontrol", "ping"], seconds=self.seconds)
        if answer.code != 0 or "UP" not in answer.output:
            expected = "a controller that is up: `scontrol ping`, or the back end local"
            raise InputError("slurm", answer.complaint, expected)

    def submit(self, submission: Submission) -> str:
        """Submit a job once, however often it is asked for; its number."""
        looks = LOOKS if self.looks is None else self.looks
        waits = self._waits if self.looks is None else lambda: 0.0
        return submit_once(Desk(self._send, self.find, _IDENTIFIER, looks, waits), submission)

    def _waits(self) -> float:
        """Seconds for which a message may wait; 0 where Slurm does not say."""
        with suppress(JobError, ValueError):
            return float(self._configured("MessageTimeout")) + _SPARE
        return 0.0

    def _send(self, submission: Submission) -> Answer:
        script = submission.script
        words = ["sbatch", "--parsable", f"--comment={_COMMENT}{submission.uid}", str(script)]
        answer = ask(words, script.parent, self.seconds)
        self._check_cluster(answer)
        return answer

    def _check_cluster(self, answer: Answer) -> None:
        """JobError where a job went to another cluster, which nobody here asks: it is ended."""
        match = _IDENTIFIER.fullmatch((answer.output.split() or [""])[-1])
        if answer.code != 0 or match is None or not match[2]:
            return
        job, cluster = match.groups()
        if cluster == self._configured("ClusterName"):  # which some set-ups name
            return
        ended = ask(["scancel", f"--clusters={cluster}", job], seconds=self.seconds)
        left = "ended there" if ended.code == 0 else f"not ended there ({ended.complaint})"
        expected = "a job of this cluster: take --clusters out of the script"
        raise JobError(f"job {job}", f"sent to the cluster {cluster}, {left}", expected)

    def _configured(self, name: str) -> str:
        """A value of Slurm's configuration; nothing where it has none of this name."""
        asked = self._asked(["scontrol", "show", "config"]).output
        found = re.search(rf"^{name}\s*= *(\S+)", asked, re.MULTILINE)
        return found[1] if found else ""

    def find(self, uid: str) -> str | None:
        """The number of the job with this uid, as long as Slurm has it in memory."""
        # With all states there are also those that have ended within Slurm's MinJobAge; without
        # --all those of hidden partitions are left out, and would be submitted once more.
        words = ["squeue", "--all", "--noheader", "--states=all", f"--user={os.geteuid()}"]
        for line in self._asked([*words, "--format=%F|%T|%N|%k"]).output.splitlines():
            job, state, nodes, comment = [*line.strip().split("|", 3), "", "", ""][:4]
            # Slurm also lists what it has refused: failed, and never on a node.
            refused = state == "FAILED" and not nodes
            if comment.strip() == f"{_COMMENT}{uid}" and _JOB.fullmatch(job) and not refused:
                return job
        return None

    def state(self, job: str, folder: Path | None = None) -> State:
        """What has become of a job; its folder tells what Slurm no longer knows."""
        _check(job)
        words = ["scontrol", "show", "job", "--oneliner", job]
        answer = ask(words, seconds=self.seconds)
        found = shown(answer.output, job) if answer.code == 0 else None
        if found is None and _GONE not in answer.said:
            raise _failed(words, answer)
        found = found or self._accounted(job) or told_by_folder(folder)
        return with_output(found, folder)

    def _accounted(self, job: str) -> State | None:
        """What is kept of a job that Slurm has forgotten; None where nothing is."""
        sacct = ["sacct", f"--jobs={job}", "--parsable2", "--noheader"]
        for words in (
            [*sacct, "--duplicates", f"--format={','.join(SACCT)}"],
            [*sacct, "--completion", f"--format={','.join(COMPLETED)}"],
        ):
            if shutil.which("sacct"):
                answer = ask(words, seconds=self.seconds)  # fails where nothing is accounted
                if answer.code == 0 and (found := accounted(answer.output, job)):
                    return found
        return None

    def cancel(self, job: str) -> None:
        """End a job; one that has ended is left as it is."""
        _check(job)
        words = ["scancel", job]
        answer = ask(words, seconds=self.seconds)
        if re.search(r"already complet|completing", answer.said):
            return
        if _GONE in answer.said and self._accounted(job):
            return
        if answer.code != 0 or "error" in answer.said:
            raise _failed(words, answer)

    def limits(self) -> Sequence[Limit]:
        """What the partitions let a job have."""
        found = {}
        words = ["sinfo", "--all", "--noheader", "--format=%R|%l|%s"]
        for line in self._asked(words).output.splitlines():
            queue, seconds, nodes = [*line.strip().split("|"), "", ""][:3]
            most = nodes.rpartition("-")[2]
            number = int(most) if re.fullmatch(r"\d{1,7}", most, re.ASCII) else None
            found[queue] = Limit(queue, walltime_seconds(seconds), number)
        return list(found.values())

    def _asked(self, words: Sequence[str]) -> Answer:
        """An answer; JobError where there is none."""
        answer = ask(words, seconds=self.seconds)
        if answer.code != 0:
            raise _failed(words, answer)
        return answer


def _check(job: str) -> None:
    if not _JOB.fullmatch(job):
        raise JobError("job", job, "the number of a Slurm job, such as 4711")


def _failed(words: Sequence[str], answer: Answer) -> JobError:
    if _GONE in answer.said:
        return JobError("job", words[-1], "a job that Slurm knows: `squeue`")
    if answer.code is None or re.search(r"contact|connect|timed out", answer.said, re.IGNORECASE):
        expected = "Slurm's controller to answer: `scontrol ping`, and then again"
    else:
        expected = advice(answer)
    return JobError(words[0], answer.complaint, expected)
