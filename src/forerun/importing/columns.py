"""Runs as columns of text, the common form into which every reader brings its file.

Text is typed here and nowhere else, so that a bad cell is refused in the same words whatever the
format, with the place where it stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import sha256
from typing import cast

from forerun.errors import TableError
from forerun.factors import Kind, Value
from forerun.importing.amounts import number, overflows

# A column with at least this share of numbers is taken for a numeric one with bad cells.
_MOSTLY = 0.9
_LISTED = 24
_WIDEST = 2000  # columns
_LONGEST_HINT = 100  # characters


@dataclass(slots=True)
class Columns:
    """Named columns of text, with the number that each row has in its file.

    `digests` name the rows: the same row of the same file has the same digest at every import.
    """

    source: str
    cells: dict[str, list[str]]
    numbers: Sequence[int]
    digests: Sequence[bytes]
    word: str = "line"
    kinds: dict[str, Kind] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_width(self.source, len(self.cells))

    def __len__(self) -> int:
        return len(self.numbers)

    def at(self, row: int, column: str) -> str:
        """Where a cell stands, in words."""
        return f"{self.source} {self.word} {self.numbers[row]} column {column}"

    def column(self, name: str, option: str) -> list[str]:
        """The cells of `name`, which came from `option`; a missing column names those there are."""
        if name not in self.cells:
            expected = f"one of {listed(self.cells)} ({option}){hint(name, self.cells)}"
            raise TableError(self.source, f"no column {name}", expected)
        return self.cells[name]

    def keep(self, rows: Sequence[int]) -> Columns:
        """The same columns with only these rows."""
        return Columns(
            self.source,
            {name: [cells[row] for row in rows] for name, cells in self.cells.items()},
            [self.numbers[row] for row in rows],
            [self.digests[row] for row in rows],
            self.word,
            self.kinds,
            self.notes,
        )

    def where(self, conditions: Sequence[tuple[str, str]]) -> Columns:
        """The rows that fit: any of the values given for one column, and so for every column."""
        wanted: dict[str, list[str]] = {}
        for name, value in conditions:
            wanted.setdefault(name, []).append(value)
        rows: Sequence[int] = range(len(self))
        for name, values in wanted.items():
            cells = self.column(name, "--where")
            fits = {text for text in set(cells) if any(_same(text, value) for value in values)}
            rows = [row for row in rows if cells[row] in fits]
            if not rows:
                raise TableError(
                    f"{self.source} --where {name}",
                    " or ".join(values) + " in no row",
                    f"one of {listed(dict.fromkeys(cells))}",
                )
        return self.keep(rows) if wanted else self

    def values(self, name: str, declared: Kind | None = None) -> tuple[Kind, list[Value]]:
        """A column as numbers or as levels."""
        cells = self.cells[name]
        known = {text: number(text) for text in set(cells)}
        if declared != "categorical":
            self._check_sizes(name)
        kind = declared or self.kinds.get(name) or self._guess(name, known)
        if kind == "categorical":
            self.check_levels(name)
            return kind, list(cells)
        wrong = {text for text, value in known.items() if value is None}
        if wrong:
            row, text = next((row, text) for row, text in enumerate(cells) if text in wrong)
            raise TableError(self.at(row, name), cell(text), _number_or(name))
        return kind, [cast(Value, known[text]) for text in cells]

    def _check_sizes(self, name: str) -> None:
        """A number too large for a float must not turn the column into levels."""
        large = {text for text in set(self.cells[name]) if overflows(text)}
        if large:
            row = next(row for row, text in enumerate(self.cells[name]) if text in large)
            raise TableError(self.at(row, name), cell(self.cells[name][row]), _number_or(name))

    def check_levels(self, name: str) -> None:
        """Refuse texts that cannot be shown."""
        bad = {text for text in set(self.cells[name]) if not text.isprintable()}
        if bad:
            row = next(row for row, text in enumerate(self.cells[name]) if text in bad)
            raise TableError(
                self.at(row, name), cell(self.cells[name][row]), "text without control characters"
            )

    def _guess(self, name: str, known: dict[str, int | float | None]) -> Kind:
        """Numeric where every filled cell is a number; refused where only a few are not."""
        filled = [text for text in known if text]
        wrong = {text for text in filled if known[text] is None}
        if len(wrong) == len(filled):
            return "categorical"
        if wrong:
            count = sum(text in wrong for text in self.cells[name])
            total = sum(text != "" for text in self.cells[name])
            if total - count < _MOSTLY * total:
                return "categorical"
        return "numeric"

    def measured(
        self,
        name: str,
        read: Callable[[str], float | None],
        wanted: Sequence[bool],
        expected: str,
        *,
        required: bool,
    ) -> list[float | None]:
        """A measured column: positive and finite in the rows that are wanted, None in the others.

        An empty cell is refused if the column is `required`, otherwise it is a run without it.
        """
        cells = self.cells[name]
        known = {text: read(text) for text in set(cells)}
        wrong = {text for text, value in known.items() if not 0 < (value or 0) < math.inf}
        if not required:
            wrong.discard("")
        for row, text in enumerate(cells) if wrong else ():
            if wanted[row] and text in wrong:
                raise TableError(self.at(row, name), cell(text), expected)
        return [known[text] if good else None for text, good in zip(cells, wanted, strict=True)]


def cell(text: str) -> str:
    """A cell as an error shows it."""
    return repr(text) if text else "an empty cell"


def listed(names: Iterable[str]) -> str:
    """Names for a message, the first few of many."""
    shown = [name or "(empty)" for name in names]
    more = f" and {len(shown) - _LISTED} more" if len(shown) > _LISTED else ""
    return ", ".join(shown[:_LISTED]) + more


def hint(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, where there is a name much like this one; otherwise nothing."""
    short = [one for one in known if len(one) <= _LONGEST_HINT]
    if len(name) > _LONGEST_HINT:
        return ""
    folded = {one.casefold(): one for one in reversed(short)}
    close = get_close_matches(name.casefold(), folded, n=1)
    return f"; did you mean {folded[close[0]]}?" if close else ""


def check_width(source: str, count: int) -> None:
    """Refuse what has so many columns that it cannot be a table of runs."""
    if count > _WIDEST:
        raise TableError(source, f"{count} columns", f"up to {_WIDEST}")


def digest(*parts: object) -> bytes:
    """A short name for a row, made from what identifies it."""
    return sha256("\0".join(str(part) for part in parts).encode("utf-8", "replace")).digest()[:16]


def _same(text: str, value: str) -> bool:
    if text == value:
        return True
    left, right = number(text), number(value)
    return left is not None and left == right


def _number_or(name: str) -> str:
    return f"a finite number (--categorical {name} makes levels of it, --factors leaves it out)"
