"""Files that forerun writes beside a study: whole or not at all, and never over something else."""

from pathlib import Path
from uuid import uuid4

from forerun.errors import InputError

_PAGE = b"<!doctype html"
_SQLITE = b"SQLite format 3\0"


def check_page(path: Path, study: Path) -> None:
    """InputError unless a page may be written here: to a new file, or over an earlier page."""
    if not path.parent.is_dir():
        raise InputError(str(path), "no such directory", "a directory to write the page to")
    if path.exists() and study.exists() and path.samefile(study):
        raise InputError(str(path), "the study itself", "another file for the page")
    start = _start(path)
    if start is not None and not start.lower().startswith(_PAGE):
        raise InputError(str(path), "a file that is no HTML page", "a new file or an earlier page")


def check_figure(path: Path) -> None:
    """InputError unless a figure may be written here: over any file that is not a database."""
    start = _start(path)
    if start is not None and start.startswith(_SQLITE):
        raise InputError(str(path), "a study or another database", "a new file or a figure")


def write(path: Path, content: bytes) -> None:
    """Write the file whole or not at all, under a name that nobody can foresee until it is whole.

    Opened for exclusive creation, so no link that somebody laid is followed, and with the rights
    that the user's mask gives to new files.
    """
    part = path.with_name(f".{uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            file.write(content)
        part.replace(path)
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
        return file.read(len(_SQLITE))
