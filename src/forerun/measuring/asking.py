"""What somebody asks to be measured, and the campaign that it becomes.

By flags, by a study file, or by the name of a study that exists and is to go on: all come down to
one `Asked`. Whatever is wrong with it is found before a study is made or changed.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from forerun._rows import with_variants
from forerun.errors import FactorError, InputError
from forerun.factors import VARIANT, Space
from forerun.measuring.campaign import Campaign
from forerun.measuring.opening import open_study
from forerun.measuring.outputs import output_directory
from forerun.measuring.program import Program
from forerun.measuring.runner import LocalRunner
from forerun.measuring.settings import Settings, validated
from forerun.study import Study

_NOTE = "measure"  # of a study, under which its settings are kept


@dataclass(frozen=True, slots=True)
class Asked:
    """What to measure, into which study, and how; None is what the study has."""

    study: Path
    space: Space | None = None
    commands: Mapping[str, str] | None = None
    settings: Settings = field(default_factory=Settings)
    trust: bool = False


def campaign_of(asked: Asked) -> Campaign:
    """The campaign, ready to run; the study is made or opened."""
    settings = _settings(asked)
    programs = _programs(asked, settings)
    if asked.commands is None and asked.space is not None:
        asked = replace(asked, space=_values_for(Study.open(asked.study).space, asked.space))
    _check_design(asked, settings, programs)
    opened = open_study(asked.study, asked.space, programs, trust=asked.trust)
    for program in opened.programs.values():
        program.check_installed(opened.space)
    if asked.commands is not None:  # what is only said to go on holds for this time alone
        opened.study.set_note(_NOTE, settings.kept())
    return Campaign(
        opened.study,
        opened.programs,
        settings.design_for(opened.space),
        LocalRunner(settings.slots or 1, output_directory(opened.study.path)),
        settings.limits(),
        space=opened.space,
        allowed=settings.constraints(opened.space),
        warmup=1 if settings.warmup is None else settings.warmup,
        warmup_point=settings.warmup_point or 0,
        retry_failed=bool(settings.retry_failed),
        retry_disturbed=bool(settings.retry_disturbed),
    )


@contextmanager
def rehearsed(asked: Asked) -> Iterator[Campaign]:
    """As `campaign_of`, on a copy of the study that is gone afterwards: nothing changes.

    Nothing will be run either, so there is nothing to trust.
    """
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / asked.study.name
        if asked.study.exists():
            Study.open(asked.study)  # a study, whole and of a known version
            shutil.copyfile(asked.study, copy)
        try:
            yield campaign_of(replace(asked, study=copy, trust=True))
        except InputError as error:
            raise type(error)(str(error).replace(str(copy), str(asked.study))) from error


def _settings(asked: Asked) -> Settings:
    """What is said now, over what the study was measured with before."""
    if not asked.study.exists():
        return asked.settings
    study = Study.open(asked.study)
    where = f"{asked.study}, kept settings: "
    return asked.settings.over(validated(Settings, study.note(_NOTE) or {}, where))


def _programs(asked: Asked, settings: Settings) -> dict[str, Program]:
    """The commands that were given, or those of the study, which this user must have made."""
    if asked.commands is not None:
        return {name: settings.program(text) for name, text in asked.commands.items()}
    known = open_study(asked.study, trust=asked.trust).programs
    if not known:
        raise InputError(str(asked.study), "a study without a command", "one: forerun measure '…'")
    return {name: asked.settings.onto(program) for name, program in known.items()}


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


def _check_design(asked: Asked, settings: Settings, programs: Mapping[str, Program]) -> None:
    """InputError unless the design can choose a point, before there is a study for it."""
    if asked.space is not None:
        space = with_variants(asked.space, programs)
        for program in programs.values():
            program.check(space)
        if not settings.design_for(space).next([], [], 1):
            raise InputError("where", " and ".join(settings.where or ()), "a point that it allows")
