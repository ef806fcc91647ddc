"""One start of a campaign: from what the study has to a summary of what was made."""

from __future__ import annotations

import platform
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import forerun
from forerun.errors import InputError, StudyError
from forerun.factors import Point
from forerun.jobs.command import Timing
from forerun.measuring import attempts, noise
from forerun.measuring.design import Chosen
from forerun.measuring.outputs import output_directory, tidy
from forerun.measuring.progress import (
    CHECKS,
    Ended,
    GivenUp,
    Progress,
    Stated,
    Summary,
    Tell,
    words_of,
)
from forerun.measuring.remaining import Pace, Remaining
from forerun.measuring.runner import Task, output_of
from forerun.measuring.stopping import Stop
from forerun.measuring.unstored import Unstored
from forerun.quantities import percent, seconds
from forerun.study import Run

if TYPE_CHECKING:
    from forerun.measuring.campaign import Campaign

HOPELESS = 3  # points that failed alike, after which a command that has never worked is left
POLL = 0.25  # seconds after which a wish to stop is heeded

# Libraries whose version matters to a function, where it has imported them.
_FRAMEWORKS = ("jax", "mxnet", "numpy", "tensorflow", "torch")


class Start:
    """One start of a campaign: what it knows while it goes on."""

    def __init__(self, campaign: Campaign, tell: Tell, stop: Stop) -> None:
        self._campaign, self._tell, self._stop = campaign, tell, stop
        self._study, self._design = campaign.study, campaign.design
        self._runner, self._limits = campaign.runner, campaign.limits
        self._begun = time.monotonic()
        self._unstored = Unstored(self._study)
        recovered = self._unstored.take_in()
        self._runs = self._study.runs()
        self._retries = attempts.Retries(
            self._runs, self._limits.retries, campaign.retry_failed, campaign.asked
        )
        self._running: dict[str, tuple[Task, float]] = {}  # by uid, with when it began
        self._ended: deque[tuple[Task, Timing]] = deque()  # and not stored yet
        self._warm: set[str | Point] = set()  # commands and points that ran in this start
        self._made = self._failed = self._lost_in_row = self._disturbed = 0
        self._pace = Pace()
        self._last_reason = ""
        self._given_up: dict[Point, GivenUp] = {}
        self._error: Stated | None = None
        self._new_warnings: list[str] = []
        self._warnings: dict[str, None] = {}  # in order, each once
        self._said: set[str] = set()  # the names of what is said only once
        self._elsewhere = getattr(self._runner, "elsewhere", False)
        self._versions = _versions(in_process=not campaign.programs, here=not self._elsewhere)
        if recovered:
            are = "1 run" if recovered == 1 else f"{recovered} runs"
            verb = "is" if recovered == 1 else "are"
            self._warn(f"{are} that could not be stored before {verb} in the study now")

    def go(self) -> Summary:
        """Start and take runs by turns until there is nothing left to start."""
        self._unstored.reserve()
        try:
            self._say_beforehand()
            self._adopt()
            while not self._stop.requested:
                self._fill()
                if not self._running:
                    break
                self._take_ended(POLL)
            if self._running:
                self._cancel()
        except BaseException as error:
            self._rescue(writable=not isinstance(error, StudyError))
            raise
        finally:
            self._unstored.close()
            tidy(self._outputs, self._runs)
        return self._summary()

    def _adopt(self) -> None:
        """Go on with what an earlier start began, where that outlived it."""
        adopt = getattr(self._runner, "adopt", None)
        if adopt is None:
            return
        for task in adopt({run.uid for run in self._runs}, self._campaign.again):
            self._running[task.uid] = (task, time.monotonic())
        if found := len(self._running):
            are = (
                "1 job of an earlier start is"
                if found == 1
                else f"{found} jobs of an earlier start are"
            )
            self._warn(f"{are} under way or over: gone on with")
            self._report()

    def _fill(self) -> None:
        """Start runs in all free slots, unless a limit is reached or nothing is missing."""
        while len(self._running) < self._runner.slots and self._limit() is None:
            free = self._runner.slots - len(self._running)
            chosen = self._next(free)
            if not chosen or self._stop.requested:
                return
            for one in chosen:
                if self._limit() is None:
                    self._begin(one)

    def _next(self, free: int) -> list[Chosen]:
        pending = self._pending
        if due := self._retries.due(self._runs, pending):
            return due[:free]
        self._report(choosing=True)
        with self._stop.raising():
            return self._design.next(self._runs, pending, free)
        return []  # stopped

    def _begin(self, chosen: Chosen) -> None:
        task = self._campaign.task(chosen, 0)
        warmups = 0 if task.variant in self._warm else self._campaign.warmup
        if task.point not in self._warm:
            warmups = max(warmups, self._campaign.warmup_point)
        task = replace(task, warmups=warmups)
        self._running[task.uid] = (task, time.monotonic())
        self._runner.start(task)
        self._report()

    def _take_ended(self, timeout: float) -> bool:
        """Store the runs that end within so many seconds; whether any did."""
        self._ended.extend(self._runner.finished(timeout))
        taken = bool(self._ended)
        while self._ended:
            self._take(*self._ended.popleft())
        return taken

    def _take(self, task: Task, timing: Timing) -> None:
        """Store a run that has ended."""
        self._running.pop(task.uid, None)
        if timing.status == "cancelled":
            output_of(self._outputs, task.uid).unlink(missing_ok=True)
            self._stop.request()
            return
        run = self._run_of(task, timing)
        self._store(run)
        self._pace.ended(timing.wall_seconds, time.monotonic())
        self._warm |= {task.variant, task.point}
        if run.status == "ok":
            self._made += 1
            self._lost_in_row = 0
        elif run.status != "cancelled":
            self._fail(run, timing.reason)
        self._say_of(run, timing)
        tidy(self._outputs, self._runs, self._running)
        self._report(finished=run)
        self._judge()

    def _run_of(self, task: Task, timing: Timing) -> Run:
        measures = dict(timing.measures)
        if timing.wall_seconds > 0 and timing.status != "ok":
            measures["wall_seconds"] = timing.wall_seconds  # what the failure cost
        if timing.other_load > 0:
            measures["other_load"] = round(timing.other_load, 3) or 1e-3
        return Run(
            point=task.point,
            measures=measures,
            status="cancelled" if self._is_set_aside(task, timing) else timing.status,
            variant=task.variant,
            host=self._runner.host_of(task),
            versions=self._versions,
            started=timing.started,
            source=Chosen(task.point, task.why).source,
            uid=task.uid,
        )

    def _is_disturbed(self, timing: Timing) -> bool:
        alone = self._runner.slots == 1  # otherwise our own runs are each other's load
        return alone and timing.status == "ok" and noise.is_disturbed(timing)

    def _is_set_aside(self, task: Task, timing: Timing) -> bool:
        if not (self._campaign.retry_disturbed and self._is_disturbed(timing)):
            return False
        return attempts.set_aside(self._runs, task.point) < self._limits.retries

    def _store(self, run: Run) -> None:
        try:
            self._study.add(run)
        except InputError as error:
            raise self._unstored.keep(run, error) from error
        self._runs.append(run)

    def _fail(self, run: Run, reason: str) -> None:
        self._failed += 1
        tries = self._retries.tries(attempts.last_failures(self._runs)[run.point])
        how = run.status.replace("_", " ")
        line = f"{words_of(run.point)}: {how}: {reason}"
        if run.status == "failed" and tries <= self._limits.retries:
            self._warn(f"{line}; it will be tried again ({tries} of {self._limits.retries})")
            return
        self._given_up[run.point] = GivenUp(run.point, run.status, tries, reason)
        self._lost_in_row += 1
        self._last_reason = reason
        output = output_of(self._outputs, run.uid)
        see = f"; its output is in {output}" if output.exists() else ""
        times = "" if tries == 1 else f" after {tries} tries"
        self._warn(f"{line}; given up{times}{see}")

    def _cancel(self) -> None:
        """End what runs; what had just ended by itself is stored."""
        self._runner.cancel_all()
        while self._running and self._take_ended(0):
            pass
        self._running.clear()

    def _rescue(self, writable: bool) -> None:
        """Something broke: end what runs, and store what has ended, or keep it beside the study."""
        with suppress(Exception):  # what broke first is told
            self._runner.cancel_all()
        for _ in range(len(self._running) + 1):  # that many exceptions may stand before the rest
            with suppress(Exception):
                self._ended.extend(self._runner.finished(0))
        for task, timing in self._ended:
            if timing.status == "cancelled":
                output_of(self._outputs, task.uid).unlink(missing_ok=True)
                continue
            run = self._run_of(task, timing)
            if writable:
                with suppress(InputError):  # then it is kept
                    self._store(run)
            else:
                self._unstored.keep(run, StudyError(str(self._study.path)))

    def _limit(self) -> tuple[Ended, str] | None:
        """The limit that forbids to start another run."""
        limits, done = self._limits, attempts.done(self._runs)
        lost, most = self._lost_in_row, limits.failures
        if most is not None and (lost >= most or (not done and self._is_hopeless)):
            points = "1 point" if lost == 1 else f"{lost} points"
            return "failing", f"{points} failed one after the other: {self._last_reason}"
        if limits.runs is not None and done + len(self._running) >= limits.runs:
            return "runs", f"{limits.runs} runs are done"
        if limits.budget_seconds is not None:
            now = time.monotonic()
            under_way = sum(now - begun for _, begun in self._running.values())
            if attempts.spent(self._runs) + under_way >= limits.budget_seconds:
                return "budget", f"the budget of {seconds(limits.budget_seconds)} is spent"
        wanted, error = limits.target_error, self._error
        if wanted is not None and error and error.mape <= wanted and error.runs >= CHECKS:
            stated = f"the stated error is {percent(error.mape)}, at most {percent(wanted)}"
            return "target", f"{stated}; {error.runs} random runs have checked it"
        return None

    @property
    def _is_hopeless(self) -> bool:
        """Whether several points have failed for one reason, which is not their own."""
        last = list(self._given_up.values())[-HOPELESS:]
        alike = {(one.status, one.reason) for one in last}
        return len(last) == HOPELESS and len(alike) == 1 and last[0].status == "failed"

    def _done(self) -> tuple[Ended, str]:
        """How it ended where the design has nothing left to run."""
        if self._given_up and not attempts.done(self._runs):
            return "failing", f"no run ended well: {self._last_reason}"
        return "done", "every point has been run as often as the design wants"

    def _judge(self) -> None:
        """Ask the model how good it is by now, where the design has one."""
        stated = getattr(self._design, "stated_error", None)
        if stated is not None and not self._stop.requested:
            self._report(choosing=True)
            with self._stop.raising():
                self._error = stated(self._runs)

    @property
    def _pending(self) -> list[Point]:
        return [task.point for task, _ in self._running.values()]

    @property
    def _outputs(self) -> Path:
        return output_directory(self._study.path)

    def _say_beforehand(self) -> None:
        if not self._elsewhere:
            self._say_of_machine()
        due = {chosen.point for chosen in self._retries.due(self._runs, ())}
        failed = filter(self._campaign.asked, attempts.last_failures(self._runs))
        if over := len(set(failed) - due):
            points = "1 point" if over == 1 else f"{over} points"
            self._warn(f"{points} failed before and will not be tried again (option retry-failed)")
        self._judge()
        self._report()

    def _say_of_machine(self) -> None:
        for line in noise.machine_warnings():
            self._warn(line)
        if busy := noise.load_warning(self._runner.slots):
            self._warn(busy)
        if self._runner.slots > 1:
            self._warn(f"{self._runner.slots} runs at a time disturb each other's times")

    def _say_of(self, run: Run, timing: Timing) -> None:
        load = timing.other_load if self._is_disturbed(timing) else 0.0
        self._disturbed += load > 0
        if self._disturbed > 1:
            load = 0.0  # said once, and in all at the end
        for line in noise.run_warnings(words_of(run.point), load, timing.left_behind):
            self._warn(line)
        told = noise.study_warnings(self._runs)
        if run.status == "ok" and timing.reason:
            told = {**told, "cleanup": f"{words_of(run.point)}: {timing.reason}"}
        for name, line in told.items():
            if name not in self._said:  # once: its numbers change with every run
                self._said.add(name)
                self._warn(line)

    def _warn(self, line: str) -> None:
        if line not in self._warnings:
            self._warnings[line] = None
            self._new_warnings.append(line)

    def _report(self, finished: Run | None = None, choosing: bool = False) -> None:
        warnings, self._new_warnings = tuple(self._new_warnings), []
        overhead = self._pace.overhead(self._runner.slots, time.monotonic())
        pending = self._pending
        again = [chosen.point for chosen in self._retries.due(self._runs, pending)]
        left = Remaining(self._design, self._limits, self._runs, [*pending, *again])
        self._tell(
            Progress(
                done=attempts.done(self._runs),
                expected=left.expected,
                failed=self._failed,
                seconds_spent=attempts.spent(self._runs),
                seconds_left=left.seconds(self._runner.slots, overhead),
                error=self._error,
                running=tuple(task for task, _ in self._running.values()),
                choosing=choosing,
                finished=finished,
                warnings=warnings,
            )
        )

    def _summary(self) -> Summary:
        if self._stop.requested:
            ended: tuple[Ended, str] = "interrupted", "stopped on request; a new start goes on"
        else:
            ended = self._limit() or self._done()
        if self._disturbed > 1:
            self._warn(f"other programs disturbed {self._disturbed} runs of this start")
        self._report()
        return Summary(
            ended=ended[0],
            reason=ended[1],
            made=self._made,
            failed=self._failed,
            done=attempts.done(self._runs),
            seconds_spent=attempts.spent(self._runs),
            elapsed=time.monotonic() - self._begun,
            error=self._error,
            given_up=tuple(self._given_up.values()),
            warnings=tuple(self._warnings),
        )


def _versions(in_process: bool, here: bool) -> dict[str, str]:
    """What a run was made with; of a command nobody knows what it will import."""
    found = {"forerun": forerun.__version__}
    if here:
        found |= {"linux": platform.release(), "python": platform.python_version()}
    if in_process:
        loaded = {name: sys.modules[name] for name in _FRAMEWORKS if name in sys.modules}
        found |= {name: str(getattr(one, "__version__", "")) for name, one in loaded.items()}
    return found
