"""What a job has left in its folder: its starts, how they ended, its last words.

For what the scheduler no longer knows, or never knew: a program that ran out of memory and said so
has merely failed for a scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from forerun.jobs.attempts import Attempt, read_attempts
from forerun.jobs.backend import Phase, State
from forerun.jobs.command import LAST_BYTES, OUT_OF_MEMORY

_OUTPUTS = ("job.out", "job.err", "scheduler.out")  # the last: of PBS, beside the script's own
OUTSIDE = "ended from outside"  # the reason where nobody says by whom, or for what
# Of several tasks the first of these that any has says what is to be known of the job.
_WORST: Sequence[Phase] = (
    *("running", "queued", "out_of_memory", "timed_out", "node_lost", "failed"),
    *("cancelled", "unknown", "done"),
)


def count_starts(folder: Path) -> int:
    """How often a job has been started; of an array, the task that was most often."""
    return max((one.number for one in read_attempts(folder)), default=0)


def told_by_folder(folder: Path | None) -> State:
    """What the last start of a job, or of each of its tasks, says of its end."""
    last = {one.task: one for one in (read_attempts(folder) if folder is not None else ())}
    told = together([_told(one) for one in last.values()])
    if told is None:
        return State("unknown", "the scheduler does not know it, and nothing says that it started")
    return with_output(told, folder)


def _told(last: Attempt) -> State:
    told = State("unknown", nodes=last.nodes, starts=last.number)
    if last.expired is not None:
        return replace(told, phase="timed_out", reason="its wall time was over")
    if last.requeued is not None:
        return replace(told, reason="it was put into the queue again, and did not start since")
    # A shell that is ended by a signal may still write a code, and that of something else.
    cut_short = last.begun is not None and last.done is None
    if last.code is None or last.ended is None or cut_short:
        return replace(told, reason="its script was ended before it was through")
    if last.code == 0:
        return replace(told, phase="done", exit_code=0)
    return replace(told, phase="failed", reason=f"exit code {last.code}", exit_code=last.code)


def together(tasks: Sequence[State]) -> State | None:
    """What is to be known of a job with these tasks; None where there are none."""
    if len(tasks) < 2:
        return tasks[0] if tasks else None
    worst = min(tasks, key=lambda task: _WORST.index(task.phase))
    counts = {phase: sum(task.phase == phase for task in tasks) for phase in _WORST}
    parts = [f"{count} {phase.replace('_', ' ')}" for phase, count in counts.items() if count]
    return State(
        worst.phase,
        f"{', '.join(parts)} of {len(tasks)} tasks" + (f": {worst.reason}" if worst.reason else ""),
        tuple(dict.fromkeys(node for task in tasks for node in task.nodes)),
        max(task.starts for task in tasks),
        worst.exit_code,
        waited=min((task.waited for task in tasks if task.waited is not None), default=None),
        suspended=any(task.suspended for task in tasks),
    )


def with_output(
    told: State, folder: Path | None, outputs: Sequence[str | None] = _OUTPUTS
) -> State:
    """A failure as what it was: for want of memory, where the end of an output says that.

    Outputs are in the folder, or absolute; those of an array's tasks have their numbers behind.
    """
    if folder is None or not (told.phase == "failed" or told.reason == OUTSIDE):
        return told
    for path in (folder / name for name in outputs if name):
        for one in (path, *_of_tasks(path)):
            if _says_out_of_memory(one):
                reason = f"{one.name} says that it ran out of memory"
                return replace(told, phase="out_of_memory", reason=reason)
    return told


def _of_tasks(path: Path) -> list[Path]:
    """What `job.out` is called for each task of an array: `job.out.3`."""
    named = re.compile(re.escape(path.name) + r"\.\d{1,7}", re.ASCII)
    with suppress(OSError):
        return sorted(one for one in path.parent.iterdir() if named.fullmatch(one.name))
    return []


def _says_out_of_memory(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - LAST_BYTES))
        return bool(OUT_OF_MEMORY.search(file.read(LAST_BYTES).decode(errors="replace")))
    return False
