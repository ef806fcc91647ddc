"""Where jobs run: one small interface, and a table of those who have it, by name.

    backend = backend_of("slurm")
    job = backend.submit(submission)      # the same submission twice is one job
    backend.state(job)                    # queued, running, done, …

A back end keeps nothing: a job is known by the identifier that its scheduler gave it, and can be
found again by the uid that stands in its comment, so that whoever lost the answer to a submission
asks before it submits again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal, Protocol, cast

from forerun.errors import InputError

Phase = Literal[
    "queued",
    "running",
    "done",
    "failed",
    "out_of_memory",
    "timed_out",
    "node_lost",
    "cancelled",
    "unknown",
]
ENDED: frozenset[Phase] = frozenset(
    {"done", "failed", "out_of_memory", "timed_out", "node_lost", "cancelled"}
)


@dataclass(frozen=True, slots=True)
class Submission:
    """What is handed over: the very bytes of a script, kept in the job's folder."""

    uid: str
    name: str
    script: Path  # absolute; `job.sh` or `job.yaml` in the folder of the job


@dataclass(frozen=True, slots=True)
class State:
    """What is known of a job now."""

    phase: Phase
    reason: str = ""  # one line: why it waits, or how it ended
    nodes: tuple[str, ...] = ()
    starts: int = 0  # how often it has been started; more than once: it was requeued
    exit_code: int | None = None
    waited: float | None = None  # seconds until it started
    memory_bytes: int | None = None  # peak of a process, where the scheduler knows it
    suspended: bool = False  # whether it stood still for a while: then the clock tells nothing

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will come."""
        return self.phase in ENDED


@dataclass(frozen=True, slots=True)
class Limit:
    """What a queue lets one job have; None: no limit, or none that is known."""

    queue: str
    walltime: float | None = None  # seconds
    nodes: int | None = None


class Backend(Protocol):
    """A scheduler. Each of its calls is one call of a program, and raises JobError where it fails.

    JobError is one line: what was asked, what the scheduler answered, what to do next.
    """

    @property
    def name(self) -> str:
        """What it is called in the table below."""

    def check(self) -> None:
        """InputError where this machine cannot reach the scheduler: what is missing."""

    def submit(self, submission: Submission) -> str:
        """Submit, or find what was submitted with the same uid; the job's identifier."""

    def find(self, uid: str) -> str | None:
        """The job that was submitted with a uid; None where there is none."""

    def state(self, job: str, folder: Path | None = None) -> State:
        """What has become of a job; its folder says what its scheduler no longer does."""

    def cancel(self, job: str) -> None:
        """End it; one that has ended is left as it is."""

    def limits(self) -> Sequence[Limit]:
        """What jobs may have, by queue."""


_BACKENDS = {
    "local": "forerun.jobs.local:Local",
    "slurm": "forerun.jobs.slurm:Slurm",
    "pbs": "forerun.jobs.pbs:Pbs",
    "kubernetes": "forerun.jobs.kubernetes:Kubernetes",
}


def backend_of(name: str) -> Backend:
    """The back end of this name; a scheduler of `none` means processes of this machine."""
    wanted = "local" if name == "none" else name
    if wanted not in _BACKENDS:
        raise InputError("back end", name, f"one of {', '.join(_BACKENDS)}")
    module, _, attribute = _BACKENDS[wanted].partition(":")
    return cast(Backend, getattr(import_module(module), attribute)())
