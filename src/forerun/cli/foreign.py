"""What a study that somebody else may have made would run: shown whole, then refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from forerun.cli.common import note
from forerun.errors import InputError

if TYPE_CHECKING:
    from forerun.factors import Factor
    from forerun.measuring.asking import Asked
    from forerun.measuring.program import Program
    from forerun.study import Study

_MOST = 64  # numbers of a factor that are shown; categories are, however many


def refuse_foreign(asked: Asked) -> None:
    """Show what others may have put into the study, and refuse to run it, unless it is trusted."""
    from forerun.measuring.asking import is_foreign
    from forerun.study import Study

    if not is_foreign(asked):
        return
    for line in _lines(Study.open(asked.study)):
        note(line)
    raise InputError(
        str(asked.study),
        f"{'commands' if asked.commands is None else 'values'} that somebody else may have made",
        "--trust, once you have read them",
    )


def _lines(study: Study) -> Iterator[str]:
    """All of a study that would reach a process."""
    from forerun.measuring.program import programs_in
    from forerun.measuring.trust import SETTINGS

    for program in programs_in(study).values():
        yield f"$ {program.template.text}"
        yield from _around(program)
    for name, factor in study.space.items():
        yield f"{name}: {_values(factor)}"
    for name, value in (study.note(SETTINGS) or {}).items():
        yield f"{name}: {value}"


def _around(program: Program) -> Iterator[str]:
    if program.template.shell:
        yield "  shell: yes"
    for what, template in (("prepare", program.prepare), ("cleanup", program.cleanup)):
        if template is not None:
            yield f"  {what}: {template.text}"
    for name, value in program.environment.items():
        yield f"  environment: {name}={value}"
    if program.directory is not None:
        yield f"  directory: {program.directory}"
    if program.marker is not None:
        yield f"  marker: {program.marker.pattern}"
    if program.timeout is not None:
        yield f"  timeout: {program.timeout:g} s"


def _values(factor: Factor) -> str:
    values = [str(value) for value in factor.values]
    if factor.kind == "numeric" and len(values) > _MOST:
        return f"{len(values)} numbers from {values[0]} to {values[-1]}"
    return ", ".join(values) or "any"
