"""Where jobs of this machine were started: a file for each, in the user's state directory.

A scheduler knows its jobs by their identifiers. For processes of this machine there is none, so the
identifier must lead to the folder, from any directory and at any later time.
"""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

from forerun._state import state_directory
from forerun.errors import JobError

_IDENTIFIER = re.compile(r"local-([0-9a-f]{12})", re.ASCII)


def identifier_of(uid: str) -> str:
    """What a job with this uid is called on this machine."""
    return f"local-{uid[:12]}"


def remember(uid: str, folder: Path) -> None:
    """Keep where a job is; JobError where this user can keep nothing."""
    path = _path(identifier_of(uid))
    unfinished = path.with_name(f".{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished.write_bytes(os.fsencode(folder))
        unfinished.replace(path)
    except OSError as error:
        expected = "a directory with room that this user may write to, or another XDG_STATE_HOME"
        raise JobError(str(path.parent), error.strerror, expected) from None
    finally:
        with suppress(OSError):
            unfinished.unlink()


def folder_of(job: str) -> Path:
    """The folder of a job; JobError for an identifier that this user's forerun never gave."""
    try:
        if not _IDENTIFIER.fullmatch(job):
            raise FileNotFoundError
        return Path(os.fsdecode(_path(job).read_bytes()))
    except OSError:
        expected = "a job that this user started on this machine, such as local-0123456789ab"
        raise JobError("job", job, expected) from None


def _path(job: str) -> Path:
    return state_directory() / "jobs" / job
