"""Text and JSON files, read whole, with one clear line for what cannot be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from forerun.errors import TableError

_LONGEST = 64 << 20  # bytes of a line


def read_lines(path: str) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file, numbered from 1, without their ends."""
    with Path(path).open("rb") as file:
        for at, line in enumerate(lines_of(path, file), start=1):
            yield at, line.rstrip("\r\n")


def lines_of(path: str, file: BinaryIO) -> Iterator[str]:
    """The lines of an open UTF-8 file, with their ends and without a byte order mark."""
    at = 0
    while line := file.readline(_LONGEST + 1):
        at += 1
        where = f"{path} line {at}"
        if len(line) > _LONGEST:
            raise TableError(where, f"more than {_LONGEST >> 20} MiB", "a shorter line")
        yield decode(where, line.removeprefix(b"\xef\xbb\xbf") if at == 1 else line)


def read_json(path: str) -> Any:
    """The JSON document that a file is."""
    return load_json(path, "\n".join(line for _, line in read_lines(path)))


def decode(where: str, line: bytes) -> str:
    """Bytes as UTF-8 text; `where` names the place in the refusal of anything else."""
    if b"\0" in line:
        raise TableError(where, "a NUL byte", "UTF-8 text")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TableError(where, f"byte 0x{line[error.start]:02x}", "UTF-8 text") from None


def load_json(where: str, text: str) -> Any:
    """One JSON document. NaN and Infinity, which Python would take, are not JSON."""

    def refuse(constant: str) -> NoReturn:
        raise TableError(where, constant, "a finite number")

    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        place = f"{where} line {error.lineno}" if "\n" in text else where
        raise TableError(place, f"{error.msg} at character {error.colno}", "JSON") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, TableError):
            raise
        raise TableError(where, f"unreadable JSON ({type(error).__name__})", "JSON") from None


def file_digest(path: str) -> str:
    """A digest of the whole content."""
    with Path(path).open("rb") as file:
        found = sha256()
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()
