"""Where runs are made: on this machine, in this process, or wherever somebody writes a runner for.

A campaign hands tasks to a runner and gets timings back; it knows nothing else of where they ran.
"""

from __future__ import annotations

import inspect
import math
import queue
import resource
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from numbers import Real
from pathlib import Path
from typing import Any, Protocol

from forerun.errors import InputError, one_line
from forerun.factors import Point, Space
from forerun.jobs.command import Command, Timing, time_command
from forerun.measuring.design import Chosen, Why
from forerun.measuring.stopping import raised
from forerun.study import Status


@dataclass(frozen=True, slots=True)
class Task:
    """A run to make."""

    uid: str  # of the run that it becomes, and of its output's file
    point: Point
    why: Why
    variant: str = ""  # the name of the command
    command: Command | None = None  # None where a function is called
    warmups: int = 0  # untimed runs of the same before it, at the same place


Again = Callable[[str, Chosen], Task | None]  # by the uid of its run


class Runner(Protocol):
    """Something that makes runs, up to `slots` at a time. The seam for clusters.

    One on a cluster submits `task.command` as a job in `start` (with `task.warmups` untimed runs in
    the same job, for only there they warm what will be used), asks the scheduler in `finished`, and
    gives the job's Timing as `time_command` makes it; it measures on the node, not from here. A
    failed job is a Timing with a status and a reason, not an exception: those end the campaign.
    One whose `cancel_all` may have to wait also has a `hurry`, which a second Ctrl-C calls. One
    that is not of this machine is `elsewhere`, so that this machine's noise is not spoken of; and
    one whose tasks outlive it has an `adopt`, which finds them again: see `Adopting`.
    """

    @property
    def slots(self) -> int:
        """How many tasks may be under way at once."""

    def start(self, task: Task) -> None:
        """Begin a task and return; only called while fewer than `slots` are under way."""

    def finished(self, timeout: float) -> list[tuple[Task, Timing]]:
        """The tasks that have ended since the last call; waits up to `timeout` s for the first.

        A status of `cancelled` that nobody asked for means that somebody stopped it on purpose:
        nothing is stored of it, and the campaign ends. An exception ends it too, and is raised only
        where there is nothing to return: what has ended well is told first.
        """

    def host_of(self, task: Task) -> str:
        """The name of the machine that the task ran on."""

    def cancel_all(self) -> None:
        """End all that is under way, and return when it has ended; `finished` tells how."""

    def close(self) -> None:
        """As `cancel_all`, and let go of everything else."""


class Adopting(Protocol):
    """A runner whose tasks go on when forerun is killed."""

    def adopt(self, stored: Set[str], again: Again) -> list[Task]:
        """Tasks of an earlier start that are under way, or have ended and nobody saw it.

        `stored` are the uids of runs that the study has; `again` makes the task anew, or says that
        nobody wants it any longer: such a one is ended. Each of the others will be `finished`.
        """


class LocalRunner:
    """Runs commands on this machine, each slot in a thread that waits for its command."""

    def __init__(self, slots: int, output: Path) -> None:
        if slots < 1:
            raise InputError("slots", slots, "a whole number of at least 1")
        self.slots = slots
        self._output = output
        self._ended: queue.SimpleQueue[tuple[Task, Timing | BaseException]] = queue.SimpleQueue()
        self._running: dict[str, tuple[threading.Thread, threading.Event]] = {}
        self._broken: BaseException | None = None  # to be raised by the next `finished`
        self._hurry = threading.Event()

    def start(self, task: Task) -> None:
        if task.command is None:
            raise TypeError("a local runner runs commands")
        if self._output.is_symlink():
            raise InputError(str(self._output), "a link", "a directory of its own for the outputs")
        self._output.mkdir(exist_ok=True)
        cancel = threading.Event()
        # No daemon: a forerun that ends waits for its threads, and they for their commands' end.
        ways_out = (cancel, self._hurry)
        thread = threading.Thread(target=self._run, args=(task, task.command, *ways_out))
        self._running[task.uid] = (thread, cancel)
        thread.start()

    def _run(
        self, task: Task, command: Command, cancel: threading.Event, hurry: threading.Event
    ) -> None:
        output = output_of(self._output, task.uid)
        try:
            for _ in range(task.warmups):
                timing = time_command(command, output, cancel, hurry)
                # Where all is cold a warm-up may take too long and the run itself not; of any
                # other failure it would fare no better.
                if timing.status not in ("ok", "timed_out"):
                    break
            else:
                timing = time_command(command, output, cancel, hurry)
            self._ended.put((task, timing))
        except BaseException as error:
            self._ended.put((task, error))

    def finished(self, timeout: float) -> list[tuple[Task, Timing]]:
        found: list[tuple[Task, Timing]] = []
        while self._broken is None:
            try:
                task, timing = self._ended.get(timeout=0 if found else timeout)
            except queue.Empty:
                return found
            self._running.pop(task.uid)[0].join()
            if isinstance(timing, BaseException):
                self._broken = timing
            else:
                found.append((task, timing))
        if found:
            return found
        broken, self._broken = self._broken, None
        raise broken

    def host_of(self, task: Task) -> str:
        del task  # there is only one
        return socket.gethostname()

    def cancel_all(self) -> None:
        for _, cancel in self._running.values():
            cancel.set()
        for thread, _ in self._running.values():
            thread.join()

    def hurry(self) -> None:
        """Wait for no cleanup any longer."""
        if not self._hurry.is_set():  # or a third signal could wait for what the second one holds
            self._hurry.set()

    def close(self) -> None:
        self.cancel_all()
        self._hurry = threading.Event()


class FunctionRunner:
    """Calls a function with a point's values as arguments, in this process.

    Its wall time counts or, where `returns_seconds`, the number that it returns.
    """

    slots = 1

    def __init__(self, function: Callable[..., Any], returns_seconds: bool = False) -> None:
        self._function, self._returns_seconds = function, returns_seconds
        self._waiting: deque[Task] = deque()

    def start(self, task: Task) -> None:
        self._waiting.append(task)

    def finished(self, timeout: float) -> list[tuple[Task, Timing]]:
        del timeout  # a function takes as long as it takes
        found = []
        while self._waiting:
            task = self._waiting.popleft()
            found.append((task, self._timed(task)))
        return found

    def _timed(self, task: Task) -> Timing:
        for _ in range(task.warmups):
            timing = call_timed(self._function, task.point, self._returns_seconds)
            if timing.status != "ok":
                return timing
        return call_timed(self._function, task.point, self._returns_seconds)

    def host_of(self, task: Task) -> str:
        del task
        return socket.gethostname()

    def cancel_all(self) -> None:
        self._waiting.clear()

    def close(self) -> None:
        self._waiting.clear()


def output_of(directory: Path, uid: str) -> Path:
    """The file that keeps what a run printed."""
    return directory / f"{uid}.txt"


def check_function(function: Callable[..., Any], space: Space) -> None:
    """InputError unless the function takes the factors, and needs nothing else."""
    name = getattr(function, "__name__", "function")
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return  # a built-in one that does not tell
    taken = {one.name: one for one in parameters.values() if one.kind not in (one.VAR_POSITIONAL,)}
    takes_any = any(one.kind is one.VAR_KEYWORD for one in taken.values())
    for factor in space:
        known = taken.get(factor)
        if not takes_any and (known is None or known.kind is known.POSITIONAL_ONLY):
            raise InputError(f"factor {factor}", "no such argument", f"{name}(…, {factor}=…)")
    for one in taken.values():
        needed = one.default is one.empty and one.kind is not one.VAR_KEYWORD
        if needed and one.name not in space:
            expected = f"a factor ({', '.join(space)}), or a default"
            raise InputError(f"function {name}", f"the argument {one.name}", expected)


def call_timed(
    function: Callable[..., Any], point: Mapping[str, Any], returns_seconds: bool = False
) -> Timing:
    """Call the function with the point's values and time it; an exception is a failed run."""
    status: Status = "ok"
    returned, reason = None, ""
    came: list[int] = []
    started, used = datetime.now(UTC).isoformat(timespec="milliseconds"), _processor_times()
    begun = time.perf_counter()
    try:
        with _interruptible() as came:
            returned = function(**point)
    except KeyboardInterrupt:
        status, reason = "cancelled", "interrupted"
    except (Exception, SystemExit) as error:
        out_of_memory = isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__
        status = "out_of_memory" if out_of_memory else "failed"
        reason = one_line(f"{type(error).__name__}: {error}")
    wall = time.perf_counter() - begun
    if came:  # whatever the function made of it
        status, reason = "cancelled", "interrupted"
    user, system = (now - then for now, then in zip(_processor_times(), used, strict=True))
    seconds: float | None = wall
    if status == "ok" and returns_seconds:
        seconds = None
        if isinstance(returned, Real) and not isinstance(returned, bool):
            seconds = float(returned)
        if seconds is None or not (math.isfinite(seconds) and seconds > 0):
            reason = f"returned {returned!r:.50} where a positive time is expected"
            status, reason = "failed", one_line(reason)
    return Timing(
        status=status,
        seconds=seconds if status == "ok" else None,
        wall_seconds=wall,
        user_seconds=user,
        system_seconds=system,
        started=started,
        reason=reason,  # and no memory: the peak of this process may be older
    )


def _interruptible() -> AbstractContextManager[list[int]]:
    """Signals end the function at once, where this is the thread that hears them."""
    is_main = threading.current_thread() is threading.main_thread()
    return raised() if is_main else nullcontext([])


def _processor_times() -> tuple[float, float]:
    """User and system seconds of this process and of the children that it has waited for."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + children.ru_utime, own.ru_stime + children.ru_stime
