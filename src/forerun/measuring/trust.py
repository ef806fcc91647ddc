"""Whether this user made a study's commands, so that they may be run without being shown first.

What would be run is sealed with a key that never leaves the user's own state directory. Whose file
it is says nothing, for a copied file belongs to the copier; and a study that went through other
hands and came back with another command no longer has its seal.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from contextlib import suppress
from typing import Any

from forerun._rows import as_json
from forerun._state import state_directory
from forerun.errors import InputError
from forerun.measuring.program import NOTE as PROGRAMS
from forerun.study import Study

SETTINGS = "measure"  # the note of a study under which its settings are kept
VALUES = "values"  # and the values that its factors were last asked for
_BYTES = 32
_NOTE = "seal"  # of the study, under which the seal is kept


def made_here(study: Study) -> bool:
    """Whether what the study would run is what this user last ran or trusted."""
    key, note = _key(), study.note(_NOTE)
    if key is None or note is None:
        return False
    found = str(note.get("hmac-sha256", ""))
    return hmac.compare_digest(found.encode(), _seal(key, study).encode())


def seal(study: Study) -> None:
    """Keep in the study that this user made, or has read and trusts, what it would run."""
    key = _key() or _new_key()
    if key is not None:
        study.set_note(_NOTE, {"hmac-sha256": _seal(key, study)})


def _seal(key: bytes, study: Study) -> str:
    return hmac.new(key, as_json(_what_runs(study)).encode(), hashlib.sha256).hexdigest()


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


def _key() -> bytes | None:
    """The user's key; None where there is none yet."""
    path = state_directory() / "key"
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            found = "a key that others may read or have made"
            raise InputError(str(path), found, "one of this user's, mode 0600")
        key = file.read(_BYTES + 1)
    if len(key) != _BYTES:
        raise InputError(str(path), f"{len(key)} bytes", f"{_BYTES}; remove it for a new one")
    return key


def _new_key() -> bytes | None:
    """A key that appears whole or not at all; None where this user can keep nothing."""
    directory = state_directory()
    unfinished = directory / f".{secrets.token_hex(8)}"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
        os.link(unfinished, directory / "key")
    except FileExistsError:
        pass  # another process was quicker: its key it is
    except OSError:
        return None
    finally:
        with suppress(OSError):
            unfinished.unlink()
    return _key()
