"""Imported runs into a study file, which is made if there is none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from forerun.errors import StudyError
from forerun.factors import Factor, Space
from forerun.importing.runs import ImportedRuns
from forerun.study import Study


@dataclass(frozen=True, slots=True)
class Added:
    """How many runs were new, and how many the study had already."""

    added: int
    already: int


def add_to_study(path: str | Path, imported: ImportedRuns) -> Added:
    """Add the runs in one transaction; those of an import that was done before are not doubled."""
    path = Path(path)
    known = Study.open(path) if path.exists() else Study.open_or_create(path, imported.space)
    with known as study:
        added = study.add_all(
            imported.runs, widen=lambda old: _merged(str(path), old, imported.space)
        )
    return Added(added, len(imported.runs) - added)


def _merged(path: str, old: Space, new: Space) -> Space:
    """The study's factors, with the values of both."""
    if set(old.names) != set(new.names):
        raise StudyError(path, f"factors {_names(new)} in the file", f"{_names(old)}, the study's")
    for name, factor in old.items():
        for trait in ("kind", "scope"):
            ours, theirs = getattr(factor, trait), getattr(new[name], trait)
            if ours != theirs:
                raise StudyError(f"{path} factor {name}", f"{theirs} in the file", ours)
    return Space(_with_both(factor, new[factor.name]) for factor in old.values())


def _with_both(old: Factor, new: Factor) -> Factor:
    if not old.values:
        return old
    both = pd.DataFrame({old.name: [*old.values, *new.values]})
    return replace(old, values=Space([old]).with_values(both)[old.name].values)


def _names(space: Space) -> str:
    return ", ".join(space.names)
