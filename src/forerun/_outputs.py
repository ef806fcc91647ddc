"""Files that forerun writes beside a study: whole or not at all, and never over something else."""

import json
import os
from pathlib import Path
from uuid import uuid4

from forerun.errors import InputError

_PAGE = b"<!doctype html"
_SQLITE = b"SQLite format 3\0"
# What figures begin with; an SVG's own word stands after the declaration of XML.
_FIGURES = {".png": b"\x89PNG", ".pdf": b"%PDF-", ".svg": b"<svg"}
_HEAD = 2**10  # bytes by which a file is known
_LONGEST = 2**26  # bytes of an earlier document: a plan of a thousand candidates is far shorter


def check_page(path: Path, study: Path) -> None:
    """InputError unless a page may be written here: to a new file, or over an earlier page."""
    if not path.parent.is_dir():
        raise InputError(str(path), "no such directory", "a directory to write the page to")
    if same(path, study):  # which trials may be about to make
        raise InputError(str(path), "the study itself", "another file for the page")
    start = _start(path)
    if start and not start.lower().startswith(_PAGE):
        raise InputError(str(path), "a file that is no HTML page", "a new file or an earlier page")


def check_figure(path: Path, *kept: Path | None) -> None:
    """InputError unless a figure may be written here: to a new file, or over an earlier figure.

    `kept` are files that are read, or will be written: never to be overwritten.
    """
    _check_kept(path, kept, "the figure")
    start = _start(path)
    if not start:
        return
    if start.startswith(_SQLITE):
        raise InputError(str(path), "a study or another database", "a new file or a figure")
    suffix = path.suffix.lower()
    mark = _FIGURES.get(suffix, b"")
    if not (mark in start if suffix == ".svg" else start.startswith(mark)):
        kind = suffix.removeprefix(".").upper()
        raise InputError(str(path), f"a file that is no {kind}", "a new file or an earlier figure")


def check_plan(path: Path, *kept: Path | None) -> None:
    """InputError unless a plan may be written here: to a new file, or over an earlier plan.

    `kept` are files that are read, or will be written: never to be overwritten.
    """
    if not path.parent.is_dir():
        raise InputError(str(path), "no such directory", "a directory to write the plan to")
    _check_kept(path, kept, "the plan")
    if _start(path) and not _is_plan(path):
        raise InputError(str(path), "a file that is no plan", "a new file or an earlier plan")


def same(one: Path, other: Path) -> bool:
    """Whether two names are of one file, which need not be there yet."""
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()


def write(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write the file whole or not at all, under a name that nobody can foresee until it is whole.

    Opened for exclusive creation, so no link that somebody laid is followed, and with the rights
    that the user's mask leaves of `mode`.
    """
    part = path.with_name(f".{uuid4().hex}.part")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        part.replace(path)
    except OSError as error:  # of the name that was asked for, for nobody knows the other
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        part.unlink(missing_ok=True)


def _start(path: Path) -> bytes | None:
    """The first bytes of a file; None where there is none. InputError for anything else."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        found = "a directory" if path.is_dir() else "a link or a device"
        raise InputError(str(path), found, "a new or a regular file")
    if not path.exists():
        return None
    with path.open("rb") as file:
        return file.read(_HEAD)


def _check_kept(path: Path, kept: tuple[Path | None, ...], what: str) -> None:
    for one in kept:
        if one is not None and same(path, one):
            found = f"a file that is needed ({one})"
            raise InputError(str(path), found, f"another file for {what}")


def _is_plan(path: Path) -> bool:
    """Whether the file holds a plan, by what every plan has."""
    with path.open("rb") as file:
        content = file.read(_LONGEST)
    try:
        found = json.loads(content) if content.startswith(b"{") else None
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and {"request", "candidates"} <= found.keys()
