"""This user's deployments: a file for each in the state directory, with the folder that it is in.

What a folder says is only believed of those that stand here: nobody else's file ends a process or
writes into a study.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from forerun import _outputs
from forerun._state import state_directory
from forerun.errors import InputError
from forerun.jobs.spec import UID


def remember(uid: str, folder: Path) -> None:
    """Keep where a deployment is; InputError where this user can keep nothing."""
    directory = _directory()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _outputs.write(directory / uid, os.fsencode(folder))
    except OSError as error:
        expected = "a directory with room that you may write to, or another XDG_STATE_HOME"
        raise InputError(str(directory), error.strerror, expected) from None


def is_known(uid: str, folder: Path) -> bool:
    """Whether this user made the deployment there."""
    return bool(UID.fullmatch(uid)) and _folder(_directory() / uid) == folder


def forget(uid: str) -> None:
    """Drop a deployment whose folder is gone."""
    (_directory() / uid).unlink(missing_ok=True)


def known() -> Iterator[tuple[str, Path]]:
    """The deployments of this user, by uid, the last ones first."""
    try:
        files = [one for one in _directory().iterdir() if UID.fullmatch(one.name)]
        files.sort(key=lambda one: one.stat().st_mtime, reverse=True)
    except OSError:
        return
    for file in files:
        folder = _folder(file)
        if folder is not None:
            yield file.name, folder


def _directory() -> Path:
    return state_directory() / "deployments"


def _folder(file: Path) -> Path | None:
    try:
        return Path(os.fsdecode(file.read_bytes()))
    except OSError:
        return None
