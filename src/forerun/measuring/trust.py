"""Whether this user made a study's commands, so that they may be run without being shown first.

What would be run is sealed (see `_seal`): a study that went through other hands and came back with
another command no longer has its seal.
"""

from __future__ import annotations

from typing import Any

from forerun._rows import as_json
from forerun._seal import is_sealed, sealed
from forerun.measuring.program import NOTE as PROGRAMS
from forerun.study import Study

SETTINGS = "measure"  # the note of a study under which its settings are kept
VALUES = "values"  # and the values that its factors were last asked for
_NOTE = "seal"  # of the study, under which the seal is kept


def made_here(study: Study) -> bool:
    """Whether what the study would run is what this user last ran or trusted."""
    note = study.note(_NOTE)
    return note is not None and is_sealed(_text(study), str(note.get("hmac-sha256", "")))


def seal(study: Study) -> None:
    """Keep in the study that this user made, or has read and trusts, what it would run."""
    found = sealed(_text(study))
    if found is not None:
        study.set_note(_NOTE, {"hmac-sha256": found})


def _text(study: Study) -> str:
    return as_json(_what_runs(study))


def _what_runs(study: Study) -> list[Any]:
    """All of a study that reaches a process, or says how: commands, their values, settings.

    Where it says which values were last asked for, it may have more numbers: those are not run.
    """
    asked = study.note(VALUES) or {}
    values = {
        name: list(factor.values)
        for name, factor in study.space.items()
        if factor.kind == "categorical" or name not in asked
    }
    return [study.commands, study.note(PROGRAMS), study.note(SETTINGS), asked, values]
