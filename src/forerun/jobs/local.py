"""Jobs as processes of this machine: the back end that needs no set-up.

A job is a session of its own that outlives forerun. What is known of it stands in its folder (see
`supervisor`); a process is told from a later one with the same number by when it started.
"""

from __future__ import annotations

import math
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from forerun.errors import InputError, JobError
from forerun.jobs.asking import ask, check_programs
from forerun.jobs.backend import Limit, Phase, State, Submission
from forerun.jobs.register import folder_of, identifier_of, remember
from forerun.jobs.traces import count_starts, told_by_folder, with_output

_SUPERVISE = "import sys; sys.path.append(sys.argv[1]); import supervisor; supervisor.main()"
_WALLTIME = re.compile(r"# forerun: walltime (\d{1,12}(\.\d{1,9})?)", re.ASCII)
_STARTING = 60.0  # seconds for a script to start
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_MOST = 2**16  # bytes of what a supervisor writes


class Local:
    """Processes of this machine."""

    name = "local"

    def check(self) -> None:
        """InputError where this machine has no bash, or does not say what runs on it."""
        check_programs("the shell", ["bash"])
        if not _BOOT.exists():
            raise InputError("back end", "local", "Linux with /proc, or a scheduler")

    def submit(self, submission: Submission) -> str:
        """Start a job, unless it was started before; its identifier."""
        folder = submission.script.parent
        remember(submission.uid, folder)
        if not _record(folder):
            walltime = _walltime(submission.script)
            words = [sys.executable, "-I", "-S", "-c", _SUPERVISE, str(Path(__file__).parent)]
            words += [str(folder), str(submission.script), submission.uid, str(walltime)]
            answer = ask(words, seconds=_STARTING, environment=os.environ)
            if answer.code != 0 or not _record(folder):
                expected = "a folder with room that this user may write to"
                raise JobError(f"starting {submission.script}", answer.complaint, expected)
        found = _record(folder).get("uid")
        if found != submission.uid:
            expected = "a folder for each job"
            raise JobError(f"starting {submission.script}", f"the job {found} there", expected)
        return identifier_of(submission.uid)

    def find(self, uid: str) -> str | None:
        """The job with this uid; None where there is none."""
        job = identifier_of(uid)
        with suppress(JobError):
            if _record(folder_of(job)).get("uid") == uid:
                return job
        return None

    def state(self, job: str, folder: Path | None = None) -> State:
        """What has become of a job."""
        folder = folder or folder_of(job)
        record = _record(folder)
        if not record:
            return State("unknown", f"nothing in {folder} says that it was started")
        starts, host = max(count_starts(folder), 1), record.get("host", "")
        if "ended" in record:
            return _ended(record, folder, starts)
        if host != os.uname().nodename:
            return State("unknown", f"it was started on {host}: ask there", (host,), starts)
        if _runs(record):
            return State("running", "", (host,), starts, waited=0.0)
        record = _record(folder)  # it may have ended since it was read
        if "ended" in record:
            return _ended(record, folder, starts)
        told = told_by_folder(folder)
        if told.has_ended:
            return told
        again = record.get("boot") != _boot()
        what = "this machine was started again" if again else "what watched over it was ended"
        return State("unknown", f"{what} while it ran", (host,), starts)

    def cancel(self, job: str) -> None:
        """Ask a job to end; ten seconds later it is forced to."""
        record = _record(folder_of(job))
        if "ended" in record or not record:
            return
        with suppress(OSError, ValueError):
            handle = os.pidfd_open(int(record.get("pid", "")))
            try:  # the handle is of the very process that is looked at now
                if _runs(record):
                    signal.pidfd_send_signal(handle, signal.SIGTERM)
            finally:
                os.close(handle)

    def limits(self) -> Sequence[Limit]:
        """This machine is one node, and sets no time."""
        return [Limit("local", nodes=1)]


def _walltime(script: Path) -> float:
    """Seconds, from the comments at the head of a script; infinite where it says nothing."""
    try:
        with script.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                if found := _WALLTIME.fullmatch(line.strip()):
                    return float(found[1]) or math.inf
                if line.strip() and not line.startswith("#"):
                    break
    except OSError as error:
        raise JobError(str(script), error.strerror, "a script that can be read") from None
    return math.inf


def _record(folder: Path) -> dict[str, str]:
    """What a supervisor has written; nothing where there was none."""
    try:
        with (folder / "process").open("rb") as file:
            text = file.read(_MOST).decode(errors="replace")
    except OSError:
        return {}
    whole = text.splitlines() if text.endswith("\n") else text.splitlines()[:-1]
    return dict(line.split(" ", 1) for line in whole if " " in line)


def _boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def _runs(record: Mapping[str, str]) -> bool:
    """Whether the process that watches over a job is still that one."""
    try:
        pid = int(record.get("pid", ""))
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        same = int(fields[19]) == int(record.get("ticks", "")) and record.get("boot") == _boot()
        return same and fields[0] not in (b"Z", b"X")
    except (OSError, ValueError, IndexError):
        return False


def _ended(record: Mapping[str, str], folder: Path, starts: int) -> State:
    """How a job has ended."""
    code, memory = (_whole(record.get(name, "")) for name in ("code", "memory"))
    phase: Phase = "done" if code == 0 else "failed"
    reason = "" if code == 0 else f"exit code {code}"
    if "timed_out" in record or (code and told_by_folder(folder).phase == "timed_out"):
        phase, reason = "timed_out", "its wall time was over"
    elif "cancelled" in record:
        phase, reason = "cancelled", "cancelled"
    elif "oom" in record:
        phase, reason = "out_of_memory", "the kernel ended processes for want of memory"
    nodes = (record.get("host", ""),)
    told = State(phase, reason, nodes, starts, code, waited=0.0, memory_bytes=memory)
    return with_output(told, folder)


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,18}", text, re.ASCII) else None
