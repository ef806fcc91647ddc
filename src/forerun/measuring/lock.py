"""One campaign a study: a lock that the kernel takes back when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from forerun.errors import InputError

_LONGEST = 200  # bytes of what the holder says of itself


def lock_path(study: Path) -> Path:
    """The file beside a study that is locked while a campaign measures into it."""
    return study.with_name(f"{study.name}.lock")


@contextmanager
def locked(study: Path) -> Iterator[None]:
    """Hold the study's lock; InputError, which names the holder, if another campaign has it.

    The study itself stays open to everybody: only a second campaign is kept out.
    """
    path = lock_path(study.resolve())  # by any name, it is the same study
    handle = _acquire(path)
    try:
        with suppress(OSError):  # on a full disk the lock holds, though it says not whose it is
            os.ftruncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is locked, so nobody else's is removed
        os.close(handle)


def _acquire(path: Path) -> int:
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            found = error.strerror or str(error)
            raise InputError(str(path), found, "a file that may be written") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_current(handle, path):
                return handle
        except BlockingIOError:
            holder = _holder(handle)
            os.close(handle)
            found = f"a campaign under way ({holder})"
            raise InputError(str(path.with_suffix("")), found, "one at a time") from None
        except OSError as error:
            os.close(handle)
            found = error.strerror or str(error)
            raise InputError(str(path), found, "a file system that can lock") from None
        os.close(handle)  # its last holder removed it between our opening and our locking


def _is_current(handle: int, path: Path) -> bool:
    """Whether the locked file is still the one at the path."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    ours = os.fstat(handle)
    return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)


def _holder(handle: int) -> str:
    text = os.pread(handle, _LONGEST, 0).decode(errors="replace").strip()
    return text or "process unknown"
