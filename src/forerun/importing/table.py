"""Runs from a CSV or TSV file: one row a run, the first row names the columns."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from forerun.errors import TableError
from forerun.factors import Space
from forerun.importing.columns import Columns, check_width, listed
from forerun.importing.options import ImportOptions
from forerun.importing.runs import ImportedRuns, assemble
from forerun.importing.text import lines_of

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
    """The lines of a file as text, counted."""

    def __init__(self, path: str, file: BinaryIO) -> None:
        self._lines = lines_of(path, file)
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.number += 1
            yield line


class _Names:
    """A name for each row: from its cells, and from how many equal rows came before it.

    A file that was sorted or has grown gives the rows it had the names they had, and equal rows
    of one file differ. A column without a name counts rows, and says nothing about the run.
    """

    def __init__(self, header: Sequence[str]) -> None:
        self._order = sorted((at for at, name in enumerate(header) if name), key=header.__getitem__)
        # Cells and names hold no NUL.
        self._start = sha256("\0".join(header[at] for at in self._order).encode())
        self._seen: dict[bytes, int] = {}
        self.digests: list[bytes] = []

    def add(self, columns: Sequence[Sequence[str]]) -> None:
        """The next rows, given as columns."""
        for row in zip(*(columns[at] for at in self._order), strict=True):
            hashed = self._start.copy()
            hashed.update("\0".join(("", *row)).encode())
            content = hashed.digest()[:16]
            before = self._seen.get(content, 0)
            self._seen[content] = before + 1
            self.digests.append(sha256(b"%b%d" % (content, before)).digest()[:16])


def _chain(first: str, rest: _Lines) -> Iterator[str]:
    yield first
    yield from rest


def _columns(path: str, reader: Iterator[list[str]], lines: _Lines) -> Columns:
    header = _header(path, next(reader))
    cells: list[list[str]] = [[] for _ in header]
    # One object for equal cells: a million rows of few levels stay small.
    known: list[dict[str, str]] = [{} for _ in header]
    names = _Names(header)
    numbers: list[int] = []
    rows: list[list[str]] = []
    start = lines.number + 1
    for row in reader:
        if len(row) == len(header):
            rows.append(row)
            numbers.append(start)
        elif row:
            found, expected = f"{len(row)} cells", f"{len(header)}, as in the header"
            raise TableError(f"{path} line {start}", found, expected)
        if len(rows) == _BLOCK:
            names.add(_move(rows, cells, known))
        start = lines.number + 1
    names.add(_move(rows, cells, known))
    if not numbers:
        raise TableError(path, "a header and no rows", "at least one run")
    columns = Columns(path, dict(zip(header, cells, strict=True)), numbers, names.digests)
    if columns.cells.pop("", None) is not None:
        columns.notes.append(f"left out, no name: column {header.index('') + 1}")
    return columns


def _move(
    rows: list[list[str]], cells: list[list[str]], known: list[dict[str, str]]
) -> list[list[str]]:
    """A block of rows to the ends of the columns, stripped; column by column is quicker."""
    moved = []
    by_column = zip(*rows, strict=True) if rows else ((),) * len(cells)
    for texts, column, seen in zip(by_column, cells, known, strict=True):
        stripped = [text.strip() for text in texts]
        column.extend(map(seen.setdefault, stripped, stripped))
        moved.append(stripped)
    rows.clear()
    return moved


def _header(path: str, names: list[str]) -> list[str]:
    """The names of the columns: each once, and safe to print. Row numbers often have no name."""
    header = [name.strip() for name in names]
    check_width(f"{path} line 1", len(header))
    seen: set[str] = set()
    for at, name in enumerate(header, start=1):
        where = f"{path} line 1 column {at}"
        if not name.isprintable():
            raise TableError(where, repr(name), "a name without control characters")
        if name in seen:
            raise TableError(where, f"{name or 'no name'} again", "each name once")
        seen.add(name)
    if len(header) < 2:
        raise TableError(path, f"one column, {listed(header)}", "columns split by comma or tab")
    return header
