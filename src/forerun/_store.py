"""The file of a study: one SQLite database, opened for each transaction and closed after it.

Nothing is held open in between, so a study may be used by several threads and processes at once,
and whenever nobody is writing the one file is complete and can be copied.

A rollback journal, not a write-ahead log: a log needs memory that all its users share, which
network file systems (where clusters keep such files) cannot give, and before SQLite 3.51.3 two
processes that wrote and checkpointed at the same instant could damage the file.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal
from uuid import uuid4

from forerun.errors import StudyError

APPLICATION = int.from_bytes(b"frun")  # what SQLite calls the application id of a file
VERSION = 1  # of the schema; a file with a newer one is refused

_PATIENCE = 60.0  # seconds to wait for other writers
_SMALLEST = 512  # bytes of the smallest SQLite file; below, SQLite starts a new one
_A_STUDY = "a forerun study"
_TABLES = ("command", "model", "run", "study")
_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")  # ends a journal that names another journal

_SCHEMA = f"""
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
CREATE TABLE study (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE command (name TEXT PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    uid TEXT NOT NULL UNIQUE,
    point TEXT NOT NULL,     -- JSON, names sorted, without the variant
    variant TEXT NOT NULL,
    status TEXT NOT NULL,
    measures TEXT NOT NULL,  -- JSON
    host TEXT NOT NULL,
    versions TEXT NOT NULL,  -- JSON
    started TEXT NOT NULL,   -- ISO 8601
    source TEXT NOT NULL
);
CREATE TABLE model (
    target TEXT PRIMARY KEY,
    document TEXT NOT NULL,  -- JSON
    digest TEXT NOT NULL,    -- of the runs that it was fitted on
    fitted TEXT NOT NULL     -- ISO 8601
);
"""

# What SQLite's errors mean for a study: what was found, and what was expected instead.
_MEANING = {
    "SQLITE_BUSY": (f"a file locked by others for {_PATIENCE:.0f} s", "a study that can be locked"),
    "SQLITE_CORRUPT": ("a damaged file", _A_STUDY),
    "SQLITE_NOTADB": ("a file of another kind", _A_STUDY),
    "SQLITE_FULL": ("a full disk", "space to write"),
    "SQLITE_IOERR": ("an error of the disk", "a disk that can be read and written"),
    "SQLITE_READONLY": ("a file that may only be read", "one that may be written"),
    "SQLITE_CANTOPEN": ("a file that cannot be opened", "one that may be read and written"),
}


def create(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Make a new file, which appears under its name complete or not at all."""
    if not path.parent.is_dir():
        raise StudyError(str(path), "no such directory", "a directory to write the study to")
    unfinished = path.with_name(f".{uuid4().hex}.forerun")
    try:
        with _connected(path, unfinished, "mode=rwc") as db:
            db.executescript(_SCHEMA)
            fill(db)
        _publish(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def _publish(unfinished: Path, path: Path) -> None:
    try:
        os.link(unfinished, path)  # unlike a renaming, this never replaces a file
    except FileExistsError:
        raise StudyError(str(path), "a file of that name", "none") from None
    except OSError:  # a file system without hard links
        if path.exists():
            raise StudyError(str(path), "a file of that name", "none") from None
        unfinished.replace(path)


def check(path: Path) -> None:
    """StudyError, and the file untouched, unless it is a whole study of a known version."""
    if not path.is_file():
        found = "a directory" if path.is_dir() else "no such file"
        raise StudyError(str(path), found, _A_STUDY)
    size = path.stat().st_size
    if size < _SMALLEST:
        raise StudyError(str(path), f"a file of {size} bytes", _A_STUDY)
    # An immutable file is not recovered: what another application left half-done stays so.
    with _connected(path, path, "mode=ro&immutable=1") as db:
        try:
            _check_application(path, db)
        except sqlite3.DatabaseError as error:
            # A writer at work looks like damage to this glance, which takes no lock.
            if error.sqlite_errorname != "SQLITE_CORRUPT":
                raise
    with transaction(path, "DEFERRED"):
        pass


@contextmanager
def transaction(path: Path, kind: Literal["DEFERRED", "IMMEDIATE"]) -> Iterator[sqlite3.Connection]:
    """One transaction: DEFERRED to read, IMMEDIATE to write. An exception leaves no trace."""
    _check_journal(path)
    mode = "mode=rw" if os.access(path, os.W_OK) else "mode=ro"
    with _connected(path, path, mode) as db:
        # FULL, and the directory too once the journal is gone: a run that was added stays added.
        db.execute("PRAGMA synchronous = EXTRA")
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute(f"BEGIN {kind}")
        _check_application(path, db)
        _check_version(path, db)
        _check_schema(path, db)
        _check_size(path, db)
        yield db
        db.execute("COMMIT")  # otherwise closing rolls back


@contextmanager
def _connected(path: Path, file: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """A connection to `file`, whose errors are told as errors of `path`."""
    try:
        uri = f"{file.resolve().as_uri()}?{mode}"
        db = sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)
        with closing(db):
            yield db
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        primary = "_".join(name.split("_")[:2])  # SQLITE_READONLY_ROLLBACK is SQLITE_READONLY
        found, expected = _MEANING.get(primary, (str(error), _A_STUDY))
        raise StudyError(str(path), found, expected) from error


def _check_application(path: Path, db: sqlite3.Connection) -> None:
    if _pragma(db, "application_id") != APPLICATION:
        raise StudyError(str(path), "a SQLite file of another application", _A_STUDY)


def _check_version(path: Path, db: sqlite3.Connection) -> None:
    version = _pragma(db, "user_version")
    if version < 1:
        raise StudyError(str(path), f"schema version {version}", "at least 1")
    if version > VERSION:
        expected = f"up to {VERSION}: a newer forerun wrote this study"
        raise StudyError(str(path), f"schema version {version}", expected)


def _check_schema(path: Path, db: sqlite3.Connection) -> None:
    """A view or a trigger under a table's name would make a reading or a writing do other work."""
    for kind, name, table, sql in db.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"):
        plain = not str(sql or "").upper().startswith("CREATE VIRTUAL")
        if kind not in ("table", "index") or table not in _TABLES or not plain:
            found = f"a {kind} {name}" if plain else f"a virtual table {name}"
            raise StudyError(str(path), found, f"only the tables {', '.join(_TABLES)}")


def _check_journal(path: Path) -> None:
    """StudyError if recovery would end with the deletion of a file that the journal names.

    SQLite writes such journals for transactions over several files, which forerun never makes.
    """
    journal = Path(f"{path.resolve()}-journal")
    try:
        with journal.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - len(_SUPER_JOURNAL), 0))
            end = file.read(len(_SUPER_JOURNAL))
    except OSError:
        return  # none, most often; one that we may not read SQLite may not read either
    if end == _SUPER_JOURNAL:
        raise StudyError(f"{path}-journal", "a journal over several files", "one of this study")


def _check_size(path: Path, db: sqlite3.Connection) -> None:
    # SQLite itself reads the missing end of the last page as zeros.
    size, whole = path.stat().st_size, _pragma(db, "page_count") * _pragma(db, "page_size")
    if size < whole:
        raise StudyError(str(path), f"a truncated file of {size} bytes", f"{whole} bytes")


def _pragma(db: sqlite3.Connection, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])
