"""A campaign: run what a design wants and the study does not have yet.

It can be stopped and started at will: what to do next follows from the runs in the study alone,
and every finished run is in there before the next one starts.

    opened = open_study("lenet.db", space, {"": Program.parse("python train.py --batch {batch}")})
    design = design_by_name("adaptive", opened.space)
    runner = LocalRunner(1, output_directory(opened.study.path))
    campaign = Campaign(opened.study, opened.programs, design, runner, Limits(runs=30))
    summary = campaign.run(lambda progress: print(progress.done, progress.expected))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import uuid4

from forerun.errors import InputError
from forerun.factors import VARIANT, Point, Space
from forerun.jobs.command import Command
from forerun.measuring.design import Chosen, Design
from forerun.measuring.domain import Allowed
from forerun.measuring.holes import Template
from forerun.measuring.lock import locked
from forerun.measuring.program import Program, as_program, keep_programs
from forerun.measuring.progress import Limits, Summary, Tell
from forerun.measuring.runner import Runner, Task
from forerun.measuring.start import Start
from forerun.measuring.stopping import Stop
from forerun.quantities import percent
from forerun.study import Study


class Campaign:
    """Runs what is missing, until a limit is reached or the design is done.

    `templates` are the study's commands by name; none where the runner calls a function. The
    design chooses among the points of `space`, the study's unless told otherwise, that `allowed`
    allows. `warmup` untimed runs go before the first timed one of each command in a start,
    `warmup_point` before the first of each point. `retry_failed` tries points again that failed in
    earlier starts; `retry_disturbed` those that other programs disturbed, whose runs are then
    stored as cancelled.
    """

    def __init__(
        self,
        study: Study,
        templates: Mapping[str, Template | Program],
        design: Design,
        runner: Runner,
        limits: Limits | None = None,
        *,
        space: Space | None = None,
        allowed: Allowed | None = None,
        warmup: int = 1,
        warmup_point: int = 0,
        retry_failed: bool = False,
        retry_disturbed: bool = False,
    ) -> None:
        for name, count in (("warmup", warmup), ("warmup of each point", warmup_point)):
            if count < 0:
                raise InputError(name, count, "a whole number of at least 0")
        self.study = study
        self.programs = {name: as_program(one) for name, one in templates.items()}
        self.design, self.runner, self.limits = design, runner, limits or Limits()
        self.space = study.space if space is None else space
        self.allowed = allowed
        self.warmup, self.warmup_point = warmup, warmup_point
        self.retry_failed, self.retry_disturbed = retry_failed, retry_disturbed
        self._stop = Stop()
        if self.limits.target_error is not None and not hasattr(design, "stated_error"):
            found = percent(self.limits.target_error)
            raise InputError("target error", found, "an adaptive design: no other states an error")

    def run(self, progress: Tell | None = None) -> Summary:
        """Make the runs, and tell how it goes; the runner is closed in the end.

        InputError, before anything runs, if the study, the commands and the space do not agree, or
        if another campaign measures into the study. Ctrl-C and SIGTERM end running commands and the
        campaign: nothing half is stored, and the summary says `interrupted`. A second one ends
        cleanups too.
        """
        try:
            hurry = getattr(self.runner, "hurry", None)
            with locked(self.study.path), self._stop.heard(again=hurry):
                self._check()
                return Start(self, progress or (lambda _: None), self._stop).go()
        finally:
            self.runner.close()
            self._stop = Stop()  # the next run is another one

    def stop(self) -> None:
        """End as by Ctrl-C; for other threads."""
        self._stop.request()

    def _check(self) -> None:
        self.programs = {name: one.over(self.space) for name, one in self.programs.items()}
        keep_programs(self.study, self.programs)

    def asked(self, point: Point) -> bool:
        """Whether the point is among those that the design may choose."""
        return (
            point.keys() == self.space.keys()
            and all(point[name] in f.values for name, f in self.space.items() if f.values)
            and (self.allowed is None or self.allowed(point))
        )

    def task(self, chosen: Chosen, warmups: int) -> Task:
        """The task of a chosen point; InputError if it wants a command that there is none of."""
        name, command = self._variant(chosen.point), None
        if self.programs:
            if name not in self.programs:
                raise InputError("variant", name, f"one of {', '.join(self.programs)}")
            command = self._placed(self.programs[name].command(chosen.point))
        return Task(uuid4().hex, chosen.point, chosen.why, name, command, warmups)

    def again(self, uid: str, chosen: Chosen) -> Task | None:
        """The task of a run that an earlier start began; None where nobody wants it any longer."""
        if not self.asked(chosen.point) or self._variant(chosen.point) not in self.programs:
            return None
        return replace(self.task(chosen, 0), uid=uid)

    def _variant(self, point: Point) -> str:
        only = next(iter(self.programs), "") if len(self.programs) == 1 else ""
        return str(point.get(VARIANT, only))

    def _placed(self, command: Command) -> Command:
        """With the directory whole: a runner may be somewhere else."""
        directory = command.directory
        return command if directory is None else replace(command, directory=directory.absolute())
