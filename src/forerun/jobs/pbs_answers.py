"""What `qstat` says of jobs and queues, read: Torque's, OpenPBS's, and that before Slurm."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from forerun.infrastructure.detection import walltime_seconds
from forerun.jobs.backend import Limit, Phase, State
from forerun.jobs.traces import OUTSIDE

_WAITING = {
    "H": "is held: `qrls` lets it go",
    "W": "waits for its time",
    "T": "is being moved",
    "M": "was moved to another server",
}
_RUNNING = frozenset("RESB")
_ENDED = frozenset("CFX")
_SIGNALLED = 256  # added by PBS to the signal that ended a job
_FROM_OUTSIDE = (137, 143)  # exit codes of a script that was asked to end, or whose program was
_HUNGRY: tuple[Phase, str] = ("out_of_memory", "used more memory than it asked for")
_LATE: tuple[Phase, str] = ("timed_out", "its wall time was over")
_BUSY: tuple[Phase, str] = ("timed_out", "its processor time was over")
# What daemons ended a job for. The two have the same numbers for other things: to OpenPBS -10 is a
# user that it does not know, and -11 a job that is to run again.
_TORQUE = {-10: _HUNGRY, -11: _LATE, -12: _BUSY}
_OPENPBS = {-26: _HUNGRY, -27: _HUNGRY, -28: _BUSY, -29: _LATE}
_SETTLE = 4.0  # seconds after the end of a job in which its last words may still come
_WRAPPED = "wrapped"  # a field of our own: of the programs that stand before Slurm


def described(text: str) -> dict[str, dict[str, str]]:
    """The fields of each job, or queue, of `qstat -f` by its identifier."""
    found: dict[str, dict[str, str]] = {}
    fields: dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        if head := re.match(r"(?:Job Id|Queue):(\s+)(\S+)", line):
            fields = found.setdefault(head[2], {})
            last = ""
            if head[1] == "\t":
                fields[_WRAPPED] = "yes"
        elif pair := re.match(r"\s+([A-Za-z][\w.]*) = (.*)", line):
            last = pair[1]
            fields.setdefault(last, pair[2].strip())
        elif line.startswith("\t") and last:  # a value that goes on
            fields[last] += line.strip()
    return found


def was_refused(fields: Mapping[str, str]) -> bool:
    """Whether a job was never taken: Slurm lists it as one that ended when it came."""
    never = _WRAPPED in fields and "exec_host" not in fields and fields.get("job_state") == "C"
    return never and fields.get("qtime") == fields.get("ctime")


def number(job: str) -> str:
    """What tells a job from others of its server."""
    return job.partition(".")[0]


def state_of(fields: Mapping[str, str], told: State, now: float) -> State:
    """The state of a job; what its folder has `told` is taken for what PBS does not say."""
    letter = fields.get("job_state", "")
    starts = max(told.starts, *(_whole(fields, name) for name in ("start_count", "run_count")))
    nodes = _hosts(fields.get("exec_host", ""))
    known = State("unknown", nodes=nodes or told.nodes, starts=starts, waited=_waited(fields))
    begun, ended = (_time(fields.get(name, "")) for name in ("mtime", "ctime"))
    wrapped = _WRAPPED in fields
    # Before Slurm U is an end that has no letter, and C comes before what the script last writes.
    over_for = now - ended if wrapped and ended is not None else 0.0
    if (letter == "U" or (wrapped and letter == "C" and told.starts)) and not told.has_ended:
        letter = letter if over_for >= _SETTLE else "R"
    if letter in _RUNNING:
        return replace(known, phase="running", starts=max(1, starts))
    if letter == "Q" or letter in _WAITING:
        reason = fields.get("comment") or _WAITING.get(letter, "")
        return replace(known, phase="queued", reason=reason, waited=None)
    if letter not in _ENDED and letter != "U":
        return replace(known, reason=f"PBS calls its state {letter or 'nothing'}")
    known = replace(known, memory_bytes=_bytes(fields.get("resources_used.mem", "")))
    # Torque writes the name of it small, OpenPBS does not.
    told_for = _TORQUE if "exit_status" in fields else _OPENPBS
    status = fields.get("exit_status", fields.get("Exit_status"))
    used = walltime_seconds(fields.get("resources_used.walltime", ""))
    if wrapped and begun is not None and ended is not None:
        used = ended - begun
    limit = walltime_seconds(fields.get("Resource_List.walltime", ""))
    over = used is not None and limit is not None and used >= limit
    if status is not None and re.fullmatch(r"-?\d{1,9}", status, re.ASCII):
        return _ended(known, int(status), over, told_for)
    if over and told.phase != "done":
        return replace(known, phase=_LATE[0], reason=_LATE[1])
    if told.has_ended and told.exit_code not in _FROM_OUTSIDE:
        return replace(told, nodes=known.nodes, waited=known.waited)
    phase: Phase = "failed" if letter == "U" else "cancelled"
    return replace(known, phase=phase, reason=OUTSIDE, exit_code=told.exit_code)


def _ended(
    known: State, status: int, over: bool, told_for: Mapping[int, tuple[Phase, str]]
) -> State:
    """A job whose exit status is known; what the negative ones mean is the server's own."""
    ended_by = status - _SIGNALLED if status > _SIGNALLED else 0
    code = 128 + ended_by if ended_by else status
    phase: Phase = "done" if code == 0 else "failed"
    reason = "" if code == 0 else f"exit code {code}"
    if code in told_for:
        phase, reason = told_for[code]
    elif over and code:
        phase, reason = _LATE
    elif ended_by:
        asked = ended_by in (signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
        phase, reason = ("cancelled" if asked else "failed"), f"ended by signal {ended_by}"
    elif code < 0:
        phase, reason = "failed", f"PBS could not run it, exit status {code}"
    return replace(known, phase=phase, reason=reason, exit_code=code)


def queue_limits(text: str) -> list[Limit]:
    """The limits of `qstat -Q -f`, or of the table of `qstat -q`."""
    found = [
        Limit(
            queue,
            walltime_seconds(fields.get("resources_max.walltime", "")),
            _whole(fields, "resources_max.nodect") or None,
        )
        for queue, fields in described(text).items()
        if "queue_type" in fields
    ]
    if found:
        return found
    rows = [line.split() for line in text.splitlines()]
    begin = next((i + 1 for i, row in enumerate(rows) if row and set(row[0]) == {"-"}), len(rows))
    for row in rows[begin:]:
        if len(row) >= 5 and not set(row[0]) <= {"-"} and not row[0].isdigit():
            nodes = int(row[4]) if re.fullmatch(r"\d{1,7}", row[4], re.ASCII) else None
            found.append(Limit(row[0], walltime_seconds(row[3]), nodes))
    return found


def _hosts(text: str) -> tuple[str, ...]:
    """`n1/0-1+n2/0*2` as names of nodes."""
    names = (part.partition("/")[0].strip() for part in text.split("+"))
    return tuple(dict.fromkeys(name for name in names if name and name != "--"))


def _waited(fields: Mapping[str, str]) -> float | None:
    """Seconds between the queue and the start."""
    queued = _time(fields.get("qtime", ""))
    own = fields.get("start_time") or fields.get("stime")
    started = _time(own or (fields.get("mtime", "") if _WRAPPED in fields else ""))
    return None if queued is None or started is None else max(0.0, started - queued)


def _time(text: str) -> float | None:
    """Seconds since 1970 of `Mon Nov 16 12:00:00 2026`, or of the number that it is."""
    if re.fullmatch(r"\d{9,11}", text, re.ASCII):
        return float(text)
    with suppress(ValueError, OverflowError):
        return datetime.strptime(text, "%a %b %d %H:%M:%S %Y").timestamp()
    return None


def _whole(fields: Mapping[str, str], name: str) -> int:
    text = fields.get(name, "")
    return int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else 0


def _bytes(text: str) -> int | None:
    """`1234kb` as bytes."""
    match = re.fullmatch(r"(\d{1,15})([kmgt]?)b", text, re.ASCII | re.IGNORECASE)
    if match is None:
        return None
    return int(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " ") or None
