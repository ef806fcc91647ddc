"""Imported runs into a study file, which is made if there is none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import pandas as pd

from forerun.errors import StudyError
from forerun.factors import Factor, Space
from forerun.importing.runs import ImportedRuns
from forerun.study import Study

_MOST = 200_000  # runs of a study that are compared; more would take too much memory
_ADVICE = "as stored; another reading of the same runs needs a new study"


@dataclass(frozen=True, slots=True)
class Added:
    """How many runs were new, and how many the study had already."""

    added: int
    already: int


def add_to_study(path: str | Path, imported: ImportedRuns) -> Added:
    """Add the runs in one transaction; those of an import that was done before are not doubled.

    A new study appears with all its runs or not at all. A run that the study has already must be
    read as it was then: other options would silently have no effect.
    """
    path = Path(path)
    if path.exists() or not _create(path, imported):
        with Study.open(path) as study:
            _merged(str(path), study.space, imported.space)
            _check_known(study, imported)
            added = study.add_all(
                imported.runs, widen=lambda old: _merged(str(path), old, imported.space)
            )
    else:
        added = len(Study.open(path))
    return Added(added, len(imported.runs) - added)


def _create(path: Path, imported: ImportedRuns) -> bool:
    """Make a study with all the runs; False if another process made one meanwhile."""
    if not path.parent.is_dir():
        raise StudyError(str(path), "no such directory", "a directory to write the study to")
    unfinished = path.with_name(f".{uuid4().hex}.forerun")
    try:
        Study.create(unfinished, imported.space).add_all(imported.runs)
        os.link(unfinished, path)  # unlike a renaming, this never replaces a file
    except FileExistsError:
        return False
    except StudyError as error:
        raise StudyError(str(error).replace(str(unfinished), str(path))) from None
    except OSError:  # a file system without hard links
        if path.exists():
            return False
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return True


def _check_known(study: Study, imported: ImportedRuns) -> None:
    """StudyError if a run that the study has already was read differently now."""
    if not 0 < len(study) <= _MOST:
        return
    rows = {uid: row for row, uid in enumerate(imported.runs.uids())}
    for old in study.runs():
        if old.uid not in rows:
            continue
        new = imported.runs[rows[old.uid]]
        now = {**new.point, "status": new.status, **new.measures}
        then = {**old.point, "status": old.status, **old.measures}
        if now != then:
            names = [name for name in {**then, **now} if now.get(name) != then.get(name)]
            raise StudyError(
                f"{imported.runs.place(rows[old.uid])} and {study.path}",
                _shown(now, names),
                f"{_shown(then, names)}, {_ADVICE}",
            )


def _shown(values: Mapping[str, object], names: list[str]) -> str:
    """The values that differ, a few of many."""
    return ", ".join(f"{name}={values.get(name, '(none)')}" for name in names[:3])


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
