"""What somebody asks to be measured, and the campaign that it becomes.

By flags, by a study file, or by the name of a study that exists and is to go on: all come down to
one `Asked`. Whatever is wrong with it is found before a study is made or changed.

A command or a study file says everything, and the study keeps it: nothing of before is added. The
name of a study stands for what was said last; what is said besides holds for that time alone.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from forerun._rows import with_variants
from forerun.errors import FactorError, InputError, StudyError
from forerun.factors import VARIANT, Point, Space
from forerun.measuring.adaptive import Adaptive
from forerun.measuring.campaign import Campaign
from forerun.measuring.design import Design
from forerun.measuring.domain import Allowed, Domain
from forerun.measuring.opening import open_study
from forerun.measuring.outputs import output_directory
from forerun.measuring.place import Place, fitting, warn_of_unfit
from forerun.measuring.program import Program
from forerun.measuring.rehearsal import Rehearsal
from forerun.measuring.runner import LocalRunner, Runner
from forerun.measuring.settings import Settings, kept_settings
from forerun.measuring.trust import SETTINGS, VALUES, made_here
from forerun.study import Study


@dataclass(frozen=True, slots=True)
class Asked:
    """What to measure, into which study, and how; None is what the study has."""

    study: Path
    space: Space | None = None
    commands: Mapping[str, str] | None = None
    settings: Settings = field(default_factory=Settings)
    trust: bool = False
    place: Place | None = None  # where runs are made, unless by processes of this machine
    # Of which the best is to be found, where that is all that counts; how often each is done.
    wanted: Mapping[Point, float] = field(default_factory=dict)


def campaign_of(asked: Asked, runner: Runner | None = None) -> Campaign:
    """The campaign, ready to run, by the runner of its place; the study is made or opened.

    Without a place that is by processes of this machine.
    """
    settings, is_said = settings_for(asked), asked.commands is not None
    programs, space = _programs(asked, settings), _space(asked)
    _check_design(space, settings, programs, asked.place)
    opened = open_study(
        asked.study,
        space,
        programs,
        trust=asked.trust,
        once=not is_said,
        settings=settings.kept() if is_said else None,
    )
    for program in opened.programs.values():
        program.check_installed(opened.space)
    allowed = settings.constraints(opened.space)
    if asked.place is not None:
        warn_of_unfit(asked.place, opened, allowed)
        allowed = fitting(asked.place, opened.space, opened.programs, allowed)
        runner = runner or asked.place.runner(opened, settings.slots)
    return Campaign(
        opened.study,
        opened.programs,
        _design(asked, settings, opened.space, allowed),
        runner or LocalRunner(settings.slots or 1, output_directory(opened.study.path)),
        settings.limits(),
        space=opened.space,
        allowed=allowed,
        warmup=1 if settings.warmup is None else settings.warmup,
        warmup_point=settings.warmup_point or 0,
        retry_failed=bool(settings.retry_failed),
        retry_disturbed=bool(settings.retry_disturbed),
    )


def _design(asked: Asked, settings: Settings, space: Space, allowed: Allowed | None) -> Design:
    if not asked.wanted:
        return settings.design_for(space, allowed)
    return Adaptive(space, settings.seed or 0, allowed, wanted=asked.wanted)


def is_foreign(asked: Asked) -> bool:
    """Whether texts would be run that somebody else may have put into the study.

    Those are its commands, where none is given, and its categories, where no values are.
    """
    typed = asked.commands is not None
    if asked.trust or not asked.study.exists() or (typed and asked.space is not None):
        return False
    study = Study.open(asked.study)
    texts = study.space.categorical if typed else study.commands
    return bool(texts) and not made_here(study)


@contextmanager
def rehearsed(asked: Asked) -> Iterator[tuple[Campaign, Rehearsal]]:
    """As `campaign_of`, on a copy of the study that is gone afterwards: nothing changes.

    Nothing will be run either, so there is nothing to trust: the runner is the rehearsal's.
    """
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / asked.study.name
        if asked.study.exists():
            Study.open(asked.study)  # a study, whole and of a known version
            shutil.copyfile(asked.study, copy)
        try:
            rehearsal = Rehearsal(settings_for(asked).slots or 1)
            yield campaign_of(replace(asked, study=copy, trust=True), rehearsal), rehearsal
        except InputError as error:
            raise type(error)(str(error).replace(str(copy), str(asked.study))) from error


def settings_for(asked: Asked) -> Settings:
    """What is said now; to go on with a study, over what it was last measured with."""
    if asked.commands is not None or not asked.study.exists():
        return asked.settings
    study = Study.open(asked.study)
    return asked.settings.over(kept_settings(study.note(SETTINGS) or {}, str(asked.study)))


def _programs(asked: Asked, settings: Settings) -> dict[str, Program]:
    """The commands that were given, or those of the study, which this user must have made."""
    placed = None if asked.place is None else asked.place.sees_to
    if asked.commands is not None:
        return {
            name: replace(settings.program(text), placed=placed)
            for name, text in asked.commands.items()
        }
    opened = open_study(asked.study, trust=asked.trust)
    if not opened.programs:
        raise InputError(str(asked.study), "a study without a command", "one: forerun measure '…'")
    last = _last_asked(opened.study)
    wanted = last[VARIANT].values if VARIANT in last else tuple(opened.programs)
    return {
        name: replace(asked.settings.onto(program), placed=placed)
        for name, program in opened.programs.items()
        if name in wanted
    }


def _space(asked: Asked) -> Space | None:
    """The factors that were given, or those of the study with the values that are given."""
    is_whole = asked.commands is not None and asked.space is not None
    if is_whole or not asked.study.exists():
        return asked.space
    if is_foreign(asked):
        found = "values that somebody else may have made"
        raise StudyError(str(asked.study), found, "your trust, or values for all factors")
    return _values_for(_last_asked(Study.open(asked.study)), asked.space or Space())


def _last_asked(study: Study) -> Space:
    """The study's factors with the values that were last asked for: it may have many more.

    No other than its own, for those are what its owner has seen and trusts.
    """
    known, kept = study.space, study.note(VALUES) or {}
    for name, values in kept.items():
        own = known[name].values if name in known else ()
        if not isinstance(values, list) or not values or any(one not in own for one in values):
            where = f"{study.path}, kept values: factor {name}"
            raise StudyError(where, values, "some of those that the study has")
    return Space(
        replace(known[name], values=tuple(kept.get(name, known[name].values)))
        for name in dict.fromkeys([*kept, *known])
    )


def _values_for(known: Space, given: Space) -> Space:
    """The factors of a study, some with other values: nothing else of them is said again."""
    for name in given:
        if name not in known:
            raise FactorError("factor", name, f"one of {', '.join(known)}")
    values = {name: factor.values for name, factor in given.items()}
    return Space(
        replace(factor, values=tuple(map(factor.value, values.get(name, factor.values))))
        for name, factor in known.items()
        if name != VARIANT
    )


def _check_design(
    space: Space | None,
    settings: Settings,
    programs: Mapping[str, Program],
    place: Place | None,
) -> None:
    """InputError unless the design can choose a point, before there is a study for it."""
    if space is None:
        return
    space = with_variants(space, programs)
    for program in programs.values():
        program.over(space)
    if settings.where and not Domain(space, settings.constraints(space)).draw(1, 0):
        raise InputError("where", " and ".join(settings.where), "a point that it allows")
    allowed = settings.constraints(space)
    if place is not None:
        place.check(space, programs)
        allowed = fitting(place, space, programs, allowed)
        if not Domain(space, allowed).draw(1, 0):
            first = next(iter(Domain(space, settings.constraints(space)).stream(0)))
            why = place.why_not(space, programs, first)
            raise InputError(place.name, why, "a point that it has room for")
    settings.design_for(space, allowed).next([], [], 1)
