"""Runs from Slurm's accounting: the output of `sacct --parsable2` with its header line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from forerun.errors import TableError
from forerun.factors import Role, Space
from forerun.importing.amounts import elapsed, outcome, size
from forerun.importing.columns import Columns, cell, check_width, digest, listed
from forerun.importing.options import ImportOptions
from forerun.importing.pattern import groups_of, search
from forerun.importing.runs import Defaults, ImportedRuns, assemble
from forerun.importing.text import read_lines

# What sacct calls a thing, in the order of preference, and the part it plays.
_SIZES = (("AllocNodes", "NNodes"), ("AllocCPUS", "NCPUS"), ("NTasks",))
_NAMES = ("Partition", "JobName")
_ROLES: dict[str, Role] = {
    "AllocNodes": "nodes",
    "NNodes": "nodes",
    "AllocCPUS": "threads",
    "NCPUS": "threads",
    "NTasks": "workers",
    "gpus": "workers",
    "Partition": "partition",
}
_SEARCHED = ("JobName", "Comment", "SubmitLine")
_UNFINISHED = ("PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING", "COMPLETING")
_GPUS = re.compile(r"(?:^|,)gres/gpu=(\d{1,9})", re.ASCII)
_TYPED_GPUS = re.compile(r"(?:^|,)gres/gpu:[^=,]+=(\d{1,9})", re.ASCII)


@dataclass(slots=True)
class _Job:
    """A job's own line, and the lines of its steps."""

    number: int
    fields: dict[str, str]
    steps: list[dict[str, str]] = field(default_factory=list)

    def largest(self, name: str) -> str:
        """The largest size that the job or one of its steps has under `name`; empty if none."""
        found = [one.get(name, "") for one in (self.fields, *self.steps)]
        return max(found, key=lambda text: size(text) or 0.0) if any(map(size, found)) else ""


def read(path: str, options: ImportOptions, like: Space | None = None) -> ImportedRuns:
    """One run a job: its elapsed time, peak memory and energy, steps folded into their job."""
    header, rows = _rows(path)
    jobs = _jobs(header, rows)
    columns = _columns(path, header, [job for job in jobs if _ended(job)], options)
    left = sum(not _ended(job) for job in jobs)
    if left:
        columns.notes.append(f"left out, not ended yet: {left} jobs")
    columns = _without_unmeasured(columns)
    groups: tuple[str, ...] = ()
    if options.pattern:
        columns, groups = _matched(columns, options.pattern)
    sizes = _known_sizes(columns)
    names = (*groups, *sizes, "gpus", *(_NAMES if not groups else _NAMES[:1]))
    defaults = Defaults(factors=names, roles=_ROLES, status="State", host="NodeList")
    return assemble(columns, replace(options, seconds=""), defaults, like)


def _rows(path: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The names of the fields, and each line's number and fields."""
    lines = [(at, line) for at, line in read_lines(path) if line.strip()]
    if not lines:
        raise TableError(path, "an empty file", "the output of sacct --parsable2")
    header = lines[0][1].split("|")
    check_width(f"{path} line 1", len(header))
    trailing = len(header) > 1 and header[-1] == ""  # --parsable ends each line with a bar
    rows = []
    for at, line in lines[1:]:
        fields = line.split("|")
        if len(fields) != len(header):
            raise TableError(
                f"{path} line {at}", f"{len(fields)} fields", f"{len(header)}, as in the header"
            )
        rows.append((at, fields[:-1] if trailing else fields))
    header = header[:-1] if trailing else header
    if not {"Elapsed", "ElapsedRaw"} & set(header):
        raise TableError(f"{path} line 1", f"fields {listed(header)}", "Elapsed or ElapsedRaw")
    if len(set(header)) < len(header):
        raise TableError(f"{path} line 1", "a field twice", "each field once")
    return header, rows


def _jobs(header: Sequence[str], rows: Iterable[tuple[int, list[str]]]) -> list[_Job]:
    """Jobs in the order of the file; `123.batch` is a step of `123`."""
    jobs: dict[str, _Job] = {}
    steps: list[tuple[str, dict[str, str]]] = []
    for at, texts in rows:
        fields = dict(zip(header, (text.strip() for text in texts), strict=True))
        job, dot, _ = fields.get("JobID", "").partition(".")
        if dot:
            steps.append((job, fields))
        else:
            # sacct --duplicates lists a requeued job once for each time it ran.
            jobs[f"{job} {at}" if job in jobs or not job else job] = _Job(at, fields)
    for job, fields in steps:
        if job in jobs:
            jobs[job].steps.append(fields)
    return list(jobs.values())


def _ended(job: _Job) -> bool:
    return not job.fields.get("State", "").startswith(_UNFINISHED)


def _columns(path: str, header: Sequence[str], jobs: list[_Job], options: ImportOptions) -> Columns:
    """The jobs as columns, with those that take more than one line or field to tell."""
    cells = {name: [job.fields[name] for job in jobs] for name in header}
    cells["memory_bytes"] = [job.largest("MaxRSS") for job in jobs]
    cells["joules"] = [job.largest("ConsumedEnergyRaw") for job in jobs]
    if "NTasks" in cells:
        cells["NTasks"] = [job.largest("NTasks") for job in jobs]
    if "AllocTRES" in cells:
        cells["gpus"] = [_gpus(text) for text in cells["AllocTRES"]]
    numbers = [job.number for job in jobs]
    # A job is the same job in a later listing, so its own line names it.
    digests = [digest("sacct", *sorted(job.fields.items())) for job in jobs]
    columns = Columns(path, cells, numbers, digests)
    source = options.seconds or ("ElapsedRaw" if "ElapsedRaw" in cells else "Elapsed")
    cells["seconds"] = _seconds(columns, source)
    for name in ("memory_bytes", "joules"):
        if not any(cells[name]):
            del cells[name]
    return columns


def _gpus(text: str) -> str:
    """How many GPUs `cpu=8,gres/gpu=4,…` has; some clusters list them only by type."""
    total = _GPUS.search(text)
    return total[1] if total else str(sum(map(int, _TYPED_GPUS.findall(text))))


def _seconds(columns: Columns, name: str) -> list[str]:
    """A column of durations in plain seconds."""
    seconds = []
    for row, text in enumerate(columns.column(name, "--seconds COLUMN")):
        value = elapsed(text)
        if value is None:
            raise TableError(columns.at(row, name), cell(text), "[days-]hours:minutes:seconds")
        seconds.append(repr(value))
    return seconds


def _without_unmeasured(columns: Columns) -> Columns:
    """Without jobs of 0 s that did not fail: sacct counts whole seconds, or they never started."""
    states = columns.cells.get("State", [""] * len(columns))
    kept = [
        row
        for row, (seconds, state) in enumerate(zip(columns.cells["seconds"], states, strict=True))
        if float(seconds) or outcome(state) not in ("ok", "cancelled", None)
    ]
    if len(kept) < len(columns):
        columns.notes.append(
            f"left out, under a second or never started: {len(columns) - len(kept)} jobs"
        )
        return columns.keep(kept)
    return columns


def _known_sizes(columns: Columns) -> list[str]:
    """The fields that say how large a job was, of those that every job has."""
    found = [next((one for one in names if one in columns.cells), "") for names in _SIZES]
    sizes = [name for name in found if name]
    partly = [name for name in sizes if "" in columns.cells[name]]
    if partly:
        columns.notes.append(f"left out, not known of every job: {listed(partly)}")
    return [name for name in sizes if name not in partly]


def _matched(columns: Columns, pattern: str) -> tuple[Columns, tuple[str, ...]]:
    """The jobs whose name, comment or command fits the pattern, with its groups as columns."""
    groups = groups_of(pattern)
    for name in groups:
        if name in columns.cells:
            raise TableError("--pattern", f"group {name}, a field of the file", "another name")
    searched = [name for name in _SEARCHED if name in columns.cells]
    if not searched:
        raise TableError(columns.source, f"fields {listed(columns.cells)}", "JobName for --pattern")
    found: list[dict[str, str] | None] = [None] * len(columns)
    for name in searched:
        matches = search(pattern, columns.cells[name])
        found = [old or new for old, new in zip(found, matches, strict=True)]
    kept = [row for row, match in enumerate(found) if match is not None]
    if not kept:
        first = cell(columns.cells[searched[0]][0]) if len(columns) else "no jobs"
        raise TableError(f"{columns.source} --pattern", f"no match, first {first}", "a match")
    if len(kept) < len(columns):
        columns.notes.append(f"left out, --pattern does not match: {len(columns) - len(kept)} jobs")
    columns = columns.keep(kept)
    for name in groups:
        columns.cells[name] = [(found[row] or {})[name] for row in kept]
    return columns, groups
