"""The study of a campaign: new or as it was, with the factors and programs that were asked for."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forerun.errors import FactorError, ForerunWarning, StudyError
from forerun.factors import VARIANT, Factor, Space, Value
from forerun.jobs.command import MEASURES
from forerun.measuring.lock import locked
from forerun.measuring.program import Program, keep_programs, label, programs_in, timed
from forerun.measuring.trust import SETTINGS, VALUES, made_here, seal
from forerun.study import Study


@dataclass(frozen=True, slots=True)
class Opened:
    """A study that is ready to be measured into."""

    study: Study
    space: Space  # to choose points from: what was asked for, with `variant` where it is a factor
    programs: dict[str, Program]  # to run


def open_study(
    path: str | os.PathLike[str],
    space: Space | None = None,
    programs: Mapping[str, Program] | None = None,
    *,
    trust: bool = False,
    once: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> Opened:
    """The study at this path, made if there is none, for these factors and programs.

    Values and programs that it lacks are added. What is not given (None) is the study's own. A
    program that is the study's own is only run if this user made it, or with `trust`. With `once`
    what may change around a known program, such as its time-out, holds for this time alone.
    `settings`, where given, are kept to go on with, and so are the values that were asked for.
    """
    path = Path(path)
    is_new = not path.exists()
    if is_new and space is None:
        raise StudyError(str(path), "no such file", "a study, or factors for a new one")
    asked = Study.open(path).space if space is None else space
    _check_names(path, asked, programs or {})
    if programs is not None:  # before there is a study of what cannot be run
        programs = {name: program.over(asked) for name, program in programs.items()}
    if space is not None:
        for program in (programs or {}).values():
            program.check_installed(space)
    study = Study.create(path, space) if is_new and space is not None else Study.open(path)
    with locked(study.path):  # not while a campaign relies on them
        ours = is_new or trust or made_here(study)
        if programs is None:
            programs = _trusted(study, ours)
        if space is not None:
            widen(study, space)
        _warn_of_directories(study, programs)
        _warn_of_variables(programs)
        keep_programs(study, programs, for_later=not once)
        chosen_from = _chosen_from(study, space, programs)
        if settings is not None:
            values = {name: list(f.values) for name, f in chosen_from.items() if f.values}
            study.set_note(SETTINGS, settings)
            study.set_note(VALUES, values)
        if ours:
            seal(study)  # last: all of this is part of it
    return Opened(study, chosen_from, dict(programs))


def _check_names(path: Path, space: Space, programs: Mapping[str, Program]) -> None:
    """FactorError where a factor has the name of something else that a run has."""
    for name in space:
        if name in MEASURES:
            raise FactorError("factor name", name, "another name: it is what a run is measured by")
    if VARIANT not in space or not programs:
        return
    named = {*programs, *(Study.open(path).commands if path.exists() else ())}
    for level in space[VARIANT].values:
        if level not in named:
            expected = "another name: this one says which of several commands ran"
            raise FactorError("factor name", f"{VARIANT}, with the level {level}", expected)


def widen(study: Study, space: Space) -> None:
    """Give the study's factors the values of these; FactorError if they are other factors."""
    known = study.space
    expected = f"the factors of {study.path} ({', '.join(known)})"
    for name in known:
        if name not in space and name != VARIANT:
            raise FactorError("factors", f"no {name}", expected)
    for name, factor in space.items():
        if name not in known:
            raise FactorError("factor", name, expected)
        _check_same(study.path, known[name], factor)
    wider = Space(
        replace(factor, values=_union(factor.values, space[name].values))
        if name in space
        else factor
        for name, factor in known.items()
    )
    if wider != known:
        study.set_space(wider)


def _check_same(path: Path, known: Factor, asked: Factor) -> None:
    for what in ("kind", "scope"):
        was, now = getattr(known, what), getattr(asked, what)
        if was != now:
            raise FactorError(f"factor {known.name}", now, f"{was}, as in {path}")
    if asked.unit and asked.unit != known.unit:
        expected = f"{known.unit or 'no unit'}, as in {path}"
        raise FactorError(f"factor {known.name}, unit", asked.unit, expected)


def _union(known: Iterable[Value], asked: Iterable[Value]) -> tuple[Value, ...]:
    """Levels in their order, new ones last; numbers sorted."""
    every = dict.fromkeys((*known, *asked))
    if all(not isinstance(value, str) for value in every):
        return tuple(sorted(every))
    return tuple(every)


def _chosen_from(study: Study, space: Space | None, programs: Mapping[str, Program]) -> Space:
    known = study.space
    asked = known if space is None else space
    factors = [factor for factor in asked.values() if factor.name != VARIANT]
    if VARIANT not in known:
        return Space(factors)
    levels = tuple(programs) or known[VARIANT].values
    return Space([*factors, replace(known[VARIANT], values=levels)])


def _warn_of_directories(study: Study, programs: Mapping[str, Program]) -> None:
    """Say where programs whose times the study has run elsewhere than before."""
    known = programs_in(study)
    for name, program in programs.items():
        before = known[name].directory if name in known else None
        now = program.directory or Path()
        if before is not None and before.resolve() != now.resolve() and name in timed(study):
            warnings.warn(
                f"{label(name)}: runs in {now.absolute()}, its earlier runs in {before}: "
                "if another program lies there, its times belong into another study",
                ForerunWarning,
                stacklevel=3,
            )


def _warn_of_variables(programs: Mapping[str, Program]) -> None:
    """Say where a lever does not do all that it would: what the user has set stays."""
    for name, program in programs.items():
        for lever, variables in program.overruled.items():
            warnings.warn(
                f"{label(name)}: the environment that you gave has {', '.join(variables)}, "
                f"which stays as it is whatever {lever} is",
                ForerunWarning,
                stacklevel=3,
            )


def _trusted(study: Study, is_ours: bool) -> dict[str, Program]:
    programs = programs_in(study)
    if programs and not is_ours:
        shown = "; ".join(program.template.text for program in programs.values())
        raise StudyError(
            str(study.path), f"commands that somebody else may have made ({shown})", "your trust"
        )
    return programs
