"""What Slurm says of a job, read: from `scontrol`, from `sacct`, and the names of nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from forerun.jobs.backend import Phase, State
from forerun.jobs.traces import together

# By the first word of a state; what Slurm has besides is on its way to one of these.
_PHASES: Mapping[str, Phase] = {
    "PENDING": "queued",
    "CONFIGURING": "queued",
    "REQUEUED": "queued",
    "REQUEUE_FED": "queued",
    "REQUEUE_HOLD": "queued",
    "SPECIAL_EXIT": "queued",
    "RESV_DEL_HOLD": "queued",
    "RUNNING": "running",
    "COMPLETING": "running",
    "RESIZING": "running",
    "SIGNALING": "running",
    "STAGE_OUT": "running",
    "STOPPED": "running",
    "SUSPENDED": "running",
    "COMPLETED": "done",
    "FAILED": "failed",
    "LAUNCH_FAILED": "failed",
    "RECONFIG_FAIL": "failed",
    "OUT_OF_MEMORY": "out_of_memory",
    "TIMEOUT": "timed_out",
    "DEADLINE": "timed_out",
    "NODE_FAIL": "node_lost",
    "BOOT_FAIL": "node_lost",
    "CANCELLED": "cancelled",
    "PREEMPTED": "cancelled",
    "REVOKED": "cancelled",
}
_WHY_WAITING = {
    "Resources": "waits for nodes that are free",
    "Priority": "others are before it",
    "Dependency": "waits for another job",
    "DependencyNeverSatisfied": "will never start, for the job that it waits for did not end well:"
    " cancel it",
    "BeginTime": "waits for its time, or for some seconds after it was put back",
    "JobHeldUser": "is held: `scontrol release` lets it go",
    "JobHeldAdmin": "is held by an administrator: ask them",
    "PartitionTimeLimit": "asks for more time than its queue gives: cancel it, and ask for less",
    "PartitionNodeLimit": "asks for more nodes than its queue gives: cancel it, and ask for fewer",
    "BadConstraints": "asks for what no node has: cancel it, and ask for less",
    "ReqNodeNotAvail": "waits for nodes that are down, drained or reserved",
    "Nodes_required_for_job_are_DOWN": "waits for nodes that are down, drained or reserved",
    "launch_failed_requeued_held": "could not be started on its node, and is held",
}
_SIZES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_MOST_NAMES = 100_000
# What `sacct` is asked for; all fields are there since Slurm 19, the last ones not in `sacct -c`.
SACCT = ("JobID", "State", "ExitCode", "NodeList", "Submit", "Start", "End", "MaxRSS", "Suspended")
COMPLETED = ("JobID", "State", "NodeList", "Start", "End")


def shown(text: str, job: str) -> State | None:
    """What `scontrol show job --oneliner` tells of a job; None where it tells nothing."""
    tasks = []
    for line in text.splitlines():
        # The first of a name counts: paths stand at the end, and may look like anything.
        fields: dict[str, str] = {}
        for name, value in re.findall(r"(?:^|\s)([A-Za-z]+)=(\S*)", line):
            fields.setdefault(name, value)
        if job in (fields.get("JobId"), fields.get("ArrayJobId")):
            tasks.append(_shown(fields))
    return together(tasks)


def _shown(fields: Mapping[str, str]) -> State:
    word = fields.get("JobState", "")
    phase = _PHASES.get(word, "unknown")
    nodes = host_names(fields.get("NodeList", ""))
    restarts = _whole(fields.get("Restarts", "")) or 0
    starts = restarts + (1 if nodes and phase != "queued" else 0)
    submitted, started = (_time(fields.get(name, "")) for name in ("SubmitTime", "StartTime"))
    return State(
        phase,
        _waiting(fields.get("Reason", "")) if phase == "queued" else _how(word, fields, phase),
        nodes,
        starts,
        None if phase in ("queued", "running") else _exit_code(fields.get("ExitCode", "")),
        waited=_between(submitted, started) if starts == 1 and phase != "queued" else None,
        suspended=_time(fields.get("SuspendTime", "")) is not None,  # or when it was resumed
    )


def accounted(text: str, job: str) -> State | None:
    """What `sacct --duplicates --parsable2` tells, asked for SACCT or COMPLETED; None: nothing.

    A job that was put back has a row for each start, the last one last; the rows of its steps say
    how much memory a process had.
    """
    rows: dict[str, list[dict[str, str]]] = {}
    memory = 0
    for line in text.splitlines():
        values = line.split("|")
        names = SACCT if len(values) == len(SACCT) else COMPLETED
        fields = dict(zip(names, values, strict=False))
        number, _, step = fields["JobID"].partition(".")
        if number.partition("_")[0] != job or len(values) != len(names):
            continue
        memory = max(memory, _bytes(fields.get("MaxRSS", "")))
        if not step:
            rows.setdefault(number, []).append(fields)
    told = together([_accounted(of_task) for of_task in rows.values()])
    return told and replace(told, memory_bytes=memory or None)


def _accounted(rows: Sequence[Mapping[str, str]]) -> State:
    """One task by its rows."""
    last = rows[-1]
    word = (last["State"].split() or [""])[0].rstrip("+")
    phase = _PHASES.get(word, "unknown")
    starts = sum(bool(host_names(row["NodeList"])) for row in rows)
    submitted, started = (_time(last.get(name, "")) for name in ("Submit", "Start"))
    ended = phase not in ("queued", "running")
    return State(
        phase,
        "" if phase == "queued" else _how(word, last, phase),
        host_names(last["NodeList"]),
        starts,
        _exit_code(last.get("ExitCode", "")) if ended else None,
        waited=_between(submitted, started) if starts == 1 else None,
        suspended=any(re.search("[1-9]", row.get("Suspended", "")) for row in rows),
    )


def host_names(text: str) -> tuple[str, ...]:
    """`n[1-3,07],login` as its single names; none for what Slurm writes where there are none."""
    if text in ("", "(null)", "None", "None assigned"):
        return ()
    found: list[str] = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        match = re.fullmatch(r"([^\[\]]*)\[([\d,-]+)\]([^\[\]]*)", part)
        found += [part] if match is None else (f"{match[1]}{n}{match[3]}" for n in _range(match[2]))
    return tuple(found)


def _range(text: str) -> Iterable[str]:
    """`1-3,07` as its single numbers, as wide as they are written."""
    for part in text.split(","):
        if match := re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part, re.ASCII):
            first, last = int(match[1]), int(match[2] or match[1])
            for number in range(first, min(last, first + _MOST_NAMES) + 1):
                yield str(number).zfill(len(match[1]))


def _waiting(reason: str) -> str:
    """Why a job waits, in words, with Slurm's own."""
    if reason in ("", "None", "(null)"):
        return ""
    first = re.split(r"[,_(]UnavailableNodes|,", reason)[0].rstrip("(,")
    known = _WHY_WAITING.get(reason) or _WHY_WAITING.get(first)
    return f"{reason}: {known}" if known else reason


def _how(word: str, fields: Mapping[str, str], phase: Phase) -> str:
    """How a job ended, beyond its phase."""
    if phase in ("done", "running"):
        return "" if word in ("COMPLETED", "RUNNING") else word.lower()
    code, _, number = fields.get("ExitCode", "").partition(":")
    reason = fields.get("Reason", "")
    parts = [] if word.lower() == phase else [word.lower().replace("_", " ")]
    if phase == "failed":
        parts = [f"signal {number}" if number not in ("", "0") else f"exit code {code}"]
    if reason not in ("", "None", "(null)", "NonZeroExitCode"):
        parts.append(reason)
    return ", ".join(parts)


def _exit_code(text: str) -> int | None:
    """`3:0` is an exit code, `0:9` a signal."""
    match = re.fullmatch(r"(\d{1,9}):(\d{1,9})", text, re.ASCII)
    if match is None:
        return None
    code, number = map(int, match.groups())
    return 128 + number if number else code


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:  # Unknown, None, N/A
        return None


def _between(first: datetime | None, second: datetime | None) -> float | None:
    if first is None or second is None:
        return None
    return max(0.0, (second - first).total_seconds())


def _bytes(text: str) -> int:
    """`1234K` as bytes; 0 where nothing was seen."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)([KMGT]?)", text, re.ASCII)
    return int(float(match[1]) * _SIZES[match[2]]) if match else 0


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else None
