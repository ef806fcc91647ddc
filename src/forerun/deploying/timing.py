"""From what a job has left behind to what its run took: for a deployment, and for a campaign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from forerun import quantities
from forerun.errors import InputError
from forerun.jobs.attempts import Attempt, run_seconds
from forerun.jobs.backend import Phase, State
from forerun.jobs.command import Command, Timing, last_line
from forerun.jobs.marker import Marker, Printed
from forerun.study import Status

STATUS: dict[Phase, Status] = {
    "done": "ok",
    "failed": "failed",
    "out_of_memory": "out_of_memory",
    "timed_out": "timed_out",
    "node_lost": "failed",
    "cancelled": "cancelled",
    "unknown": "failed",
}
_OUTPUT = 2**24  # bytes at the end of the output in which a marker is looked for


def timing_of(command: Command, state: State, attempts: Sequence[Attempt], output: Path) -> Timing:
    """What the run of a job took that has ended; a time only where it ran once, to its end.

    One that others have ended, for a job before it or by hand, has failed: only who cancels a
    campaign's jobs itself means that they are no runs.
    """
    last = attempts[-1] if attempts else Attempt(1)
    status, reason = STATUS[state.phase], state.reason
    if state.phase == "cancelled":
        status = "failed"
        told = f" ({reason})" if reason not in ("", "cancelled") else ""
        state = replace(state, reason=f"ended by others than forerun{told}")
    seen = Timing(
        status,
        wall_seconds=last.seconds or 0.0,
        memory_bytes=peak_bytes(state, attempts),
        exit_code=state.exit_code if last.code is None else last.code,
        started=_moment(last.begun or last.started),
        reason=reason,
    )
    starts, limit = starts_of(state, attempts), command.timeout
    if starts > 1:
        return replace(seen, status="failed", reason=f"it was started {starts} times: no time")
    if limit is not None and (status == "timed_out" or seen.wall_seconds > limit):
        late = f"took longer than {quantities.seconds(limit)}"
        return replace(seen, status="timed_out", reason=late)
    if status == "ok" and state.suspended:
        return replace(seen, status="failed", reason="it was suspended for a while: no time")
    if status != "ok":
        return replace(seen, reason=_how(state, last, output))
    seconds = run_seconds(attempts)
    if seconds is None:
        return replace(seen, status="failed", reason="nothing says when it began and ended")
    try:
        seconds = seconds if command.marker is None else marked(output, command.marker)
    except InputError as error:
        return replace(seen, status="failed", reason=str(error))
    return replace(seen, seconds=seconds)


def marked(output: Path, marker: Marker) -> float:
    """What an output says that its run took; InputError where it says nothing."""
    try:
        with output.open("rb") as file:
            file.seek(max(0, output.stat().st_size - _OUTPUT))
            text = file.read(_OUTPUT)
    except OSError as error:
        raise InputError(str(output), error.strerror, "what the job printed") from None
    return marker.seconds(Printed(text, whole=False))  # nobody noted when which line came


def peak_bytes(state: State, attempts: Sequence[Attempt]) -> int:
    """The peak of its largest process; 0 where nobody knows.

    Its scheduler also counts what staged, built or went before: it is asked last.
    """
    peaks = [size for one in attempts for size in one.peaks.values()]
    return max(peaks, default=0) or state.memory_bytes or 0


def starts_of(state: State, attempts: Sequence[Attempt]) -> int:
    """How often it was started, whoever says the most."""
    return max(state.starts, len({one.number for one in attempts}))


def _how(state: State, last: Attempt, output: Path) -> str:
    """How it ended, with the last line of what it printed."""
    before = "before the run, " if last.begun is None and last.code else ""
    told = state.reason or state.phase.replace("_", " ")
    return before + told + last_line(output)


def _moment(seconds: float | None) -> str:
    if seconds is None:
        return datetime.now(UTC).isoformat(timespec="seconds")
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
