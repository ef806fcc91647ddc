"""Measuring in one call, from a notebook or a script: a function, a command or several commands."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from forerun.errors import ForerunWarning, StudyError
from forerun.factors import Space
from forerun.measuring.campaign import Campaign
from forerun.measuring.constraint import Constraint
from forerun.measuring.design import Design, design_by_name
from forerun.measuring.domain import Allowed
from forerun.measuring.holes import Template
from forerun.measuring.opening import Opened, open_study
from forerun.measuring.outputs import output_directory
from forerun.measuring.program import Program, as_program
from forerun.measuring.progress import Limits, Progress, Summary, Tell
from forerun.measuring.runner import FunctionRunner, LocalRunner, Runner, check_function
from forerun.study import Study

Command = str | Template | Program


def measure(
    study: Study | str | os.PathLike[str],
    what: Callable[..., Any] | Command | Mapping[str, Command],
    space: Space | None = None,
    *,
    runs: int | None = None,
    target_error: float | None = None,
    budget_seconds: float | None = None,
    design: str | Design = "adaptive",
    repeats: int = 1,
    allowed: str | Allowed | None = None,
    seed: int = 0,
    slots: int = 1,
    retries: int = 1,
    warmup: int = 1,
    warmup_point: int = 0,
    retry_failed: bool = False,
    retry_disturbed: bool = False,
    returns_seconds: bool = False,
    progress: Tell | None = None,
) -> Summary:
    """Run and time `what` at well-chosen points of `space`, into a study, made if there is none.

    `what` is a function, called with a point's values as arguments (its wall time counts or, where
    `returns_seconds`, the number that it returns); a command with holes, such as `"python train.py
    --batch {batch}"`; or several commands by name. Without a space it is the study's. The limits
    are those of `Limits`; an adaptive design without any stops at a stated error of 10 %, and at
    the latest after 60 runs or an hour of runs. `allowed` is a constraint such as `"image >=
    kernel"`, or a function of a point. Ctrl-C stops; call it again to go on. `progress=print` says
    where it stands after every run; without it only warnings are given, as ForerunWarning.
    """
    path = study.path if isinstance(study, Study) else Path(study)
    opened, runner = _opened(path, what, space, slots, returns_seconds)
    if isinstance(allowed, str):
        constraint = Constraint.parse(allowed)
        constraint.check(opened.space)
        allowed = constraint.allows
    if isinstance(design, str):
        limits = _limits(design, target_error, runs, budget_seconds, retries)
        points = None if runs is None else -(-runs // max(repeats, 1))
        design = design_by_name(
            design, opened.space, points=points, repeats=repeats, seed=seed, allowed=allowed
        )
    else:
        limits = Limits(target_error, runs, budget_seconds, retries)
    campaign = Campaign(
        opened.study,
        opened.programs,
        design,
        runner,
        limits,
        space=opened.space,
        allowed=allowed,
        warmup=warmup,
        warmup_point=warmup_point,
        retry_failed=retry_failed,
        retry_disturbed=retry_disturbed,
    )
    return campaign.run(progress or _warn)


def _limits(
    design: str, error: float | None, runs: int | None, budget: float | None, retries: int
) -> Limits:
    if design == "adaptive" and error is None and runs is None and budget is None:
        return Limits.usual(retries)
    return Limits(error, runs, budget, retries)


def _opened(
    path: Path,
    what: Callable[..., Any] | Command | Mapping[str, Command],
    space: Space | None,
    slots: int,
    returns_seconds: bool,
) -> tuple[Opened, Runner]:
    if isinstance(what, str | Template | Program):
        what = {"": what}
    if isinstance(what, Mapping):
        programs = {name: as_program(one) for name, one in what.items()}
        return open_study(path, space, programs), LocalRunner(slots, output_directory(path))
    factors = Study.open(path).space if space is None else space
    check_function(what, factors)
    opened = open_study(path, space, {})
    if opened.study.commands:
        raise StudyError(str(path), "a study of commands", "another file for a function's runs")
    return opened, FunctionRunner(what, returns_seconds)


def _warn(progress: Progress) -> None:
    for line in progress.warnings:
        warnings.warn(line, ForerunWarning, stacklevel=_callers_level())


def _callers_level() -> int:
    """The level of the stack at which somebody called forerun: theirs is the line to show."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("forerun."):
        level, frame = level + 1, frame.f_back
    return level
