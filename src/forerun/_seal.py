"""Seals: whether this user wrote a text, by a key that never leaves their own state directory.

Whose file it is says nothing, for a copied file belongs to the copier; and a text that went through
other hands and came back changed no longer fits its seal.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from contextlib import suppress

from forerun._state import state_directory
from forerun.errors import InputError

_BYTES = 32


def sealed(text: str) -> str | None:
    """The seal of a text, with a new key where there is none; None if none can be kept."""
    key = _key() or _new_key()
    return None if key is None else _digest(key, text)


def is_sealed(text: str, seal: str) -> bool:
    """Whether this is the seal that this user's key gives to the text."""
    key = _key()
    found = seal.encode(errors="replace")  # of a file: any text may stand there
    return key is not None and hmac.compare_digest(found, _digest(key, text).encode())


def _digest(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()


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
