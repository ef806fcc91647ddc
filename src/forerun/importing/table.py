"""Runs from a CSV or TSV file: one row a run, the first row names the columns."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from forerun.errors import TableError
from forerun.factors import Space
from forerun.importing.columns import Columns, listed
from forerun.importing.options import ImportOptions
from forerun.importing.runs import ImportedRuns, assemble
from forerun.importing.text import decode

_DELIMITERS = "\t,;"
_BLOCK = 4096  # rows


def read(path: str, options: ImportOptions, like: Space | None = None) -> ImportedRuns:
    """The runs of a table. Cells are stripped of blanks; quotes work as in RFC 4180."""
    return assemble(read_columns(path), options, like=like)


def read_columns(path: str) -> Columns:
    """All columns of the file as text."""
    with Path(path).open("rb") as file:
        lines = _Lines(path, file)
        header_line = next(iter(lines), None)
        if header_line is None:
            raise TableError(path, "an empty file", "a header and at least one run")
        delimiter = max(_DELIMITERS, key=header_line.count)
        # The header goes through the reader too: a quoted name may hold the delimiter.
        reader = csv.reader(
            _chain(header_line, lines), delimiter=delimiter, strict=True, skipinitialspace=True
        )
        try:
            return _columns(path, reader, lines)
        except csv.Error as error:
            raise TableError(f"{path} line {lines.number}", str(error), "a CSV row") from None


class _Lines:
    """The lines of a file as text, counted, with a running digest of all that was read.

    A row's digest covers the file up to that row: a file that has grown gives its old rows the
    digests they had, and equal rows of one file differ.
    """

    def __init__(self, path: str, file: BinaryIO) -> None:
        self._path = path
        self._file = file
        self._digest = hashlib.sha256()
        self.number = 0

    def digest(self) -> bytes:
        return self._digest.digest()[:16]

    def __iter__(self) -> Iterator[str]:
        for line in self._file:
            self.number += 1
            if self.number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            text = decode(f"{self._path} line {self.number}", line)
            stripped = line.rstrip(b"\r\n")
            if stripped:
                self._digest.update(stripped + b"\n")
            yield text


def _chain(first: str, rest: _Lines) -> Iterator[str]:
    yield first
    yield from rest


def _columns(path: str, reader: Iterator[list[str]], lines: _Lines) -> Columns:
    header = _header(path, next(reader))
    cells: list[list[str]] = [[] for _ in header]
    # One object for equal cells: a million rows of few levels stay small.
    known: list[dict[str, str]] = [{} for _ in header]
    numbers: list[int] = []
    digests: list[bytes] = []
    rows: list[list[str]] = []
    start = lines.number + 1
    for row in reader:
        if len(row) == len(header):
            rows.append(row)
            numbers.append(start)
            digests.append(lines.digest())
        elif row:
            found, expected = f"{len(row)} cells", f"{len(header)}, as in the header"
            raise TableError(f"{path} line {start}", found, expected)
        if len(rows) == _BLOCK:
            _move(rows, cells, known)
        start = lines.number + 1
    _move(rows, cells, known)
    if not numbers:
        raise TableError(path, "a header and no rows", "at least one run")
    columns = Columns(path, dict(zip(header, cells, strict=True)), numbers, digests)
    if columns.cells.pop("", None) is not None:
        columns.notes.append(f"left out, no name: column {header.index('') + 1}")
    return columns


def _move(rows: list[list[str]], cells: list[list[str]], known: list[dict[str, str]]) -> None:
    """A block of rows to the ends of the columns, stripped; column by column is quicker."""
    for texts, column, seen in zip(zip(*rows, strict=True), cells, known, strict=False):
        stripped = [text.strip() for text in texts]
        column.extend(map(seen.setdefault, stripped, stripped))
    rows.clear()


def _header(path: str, names: list[str]) -> list[str]:
    """The names of the columns: each once, and safe to print. Row numbers often have no name."""
    header = [name.strip() for name in names]
    for at, name in enumerate(header, start=1):
        where = f"{path} line 1 column {at}"
        if not name.isprintable():
            raise TableError(where, repr(name), "a name without control characters")
        if name in header[: at - 1]:
            raise TableError(where, f"{name or 'no name'} again", "each name once")
    if len(header) < 2:
        raise TableError(path, f"one column, {listed(header)}", "columns split by comma or tab")
    return header
