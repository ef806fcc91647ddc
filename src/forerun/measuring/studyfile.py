"""A study file, `study.toml`: commands, factors and how to measure, to be kept in git.

    study = "lenet.db"

    [commands]
    lenet = "python train.py --batch {batch} --kernel {kernel}"

    [factors]
    batch = "16..256"
    kernel = { values = [3, 5], intrinsic = true }

    [measure]
    error = "5%"

Paths in it are relative to the file, and commands run in the file's directory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from forerun._documents import read_toml, validated
from forerun._values import printable
from forerun.errors import InputError
from forerun.factors import Space
from forerun.measuring.asking import Asked
from forerun.measuring.constraint import Constraint
from forerun.measuring.given import GivenFactor
from forerun.measuring.settings import Settings


def _spelt_out(value: object) -> object:
    """A factor given by its values alone, as the table that it stands for."""
    return value if isinstance(value, dict) else {"values": value}


class StudyFile(BaseModel):
    """What a study file may hold."""

    model_config = ConfigDict(extra="forbid", strict=True)

    study: str = Field("", min_length=1)
    command: str | None = None  # where there is one, which needs no name
    commands: dict[str, str] = {}
    factors: dict[str, Annotated[GivenFactor, BeforeValidator(_spelt_out)]] = {}
    measure: Settings = Settings()


def read_study_file(path: Path) -> Asked:
    """What a study file asks for; InputError, which names the file and the field, if it is wrong.

    Without `study` the study lies beside the file, under its name.
    """
    try:
        return _asked(path, validated(StudyFile, read_toml(path), f"{path}: "))
    except InputError as error:
        told = str(error)
        raise InputError(told if told.startswith(f"{path}: ") else f"{path}: {told}") from error


def _asked(path: Path, found: StudyFile) -> Asked:
    """What the file says, all of it read once: what is wrong is wrong with the file."""
    if (found.command is None) == (not found.commands):
        several = "both command and [commands]" if found.commands else "no command"
        raise InputError(str(path), several, 'command = "…", or a table [commands] of named ones')
    here = path.parent
    settings = found.measure.beside(here).model_copy(
        update={"directory": here / (found.measure.directory or "")}
    )
    commands = found.commands if found.command is None else {"": found.command}
    for text in commands.values():
        settings.program(text)
    for text in settings.where or ():
        Constraint.parse(text)
    space = Space(given.factor(name) for name, given in found.factors.items())
    name = printable("study", found.study, InputError)
    study = here / name if name else path.with_suffix(".db")
    return Asked(study, space, commands, settings)
