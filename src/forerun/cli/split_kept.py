"""Checks of splits that were made earlier, in a file: what is there is not checked again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from forerun import _outputs
from forerun._documents import read_json
from forerun.errors import InputError

_FORMAT = 1
_LARGEST = 2**24  # bytes of such a file

Row = dict[str, Any]


class Kept:
    """Checks that were made earlier, in a file that is written after each."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: list[dict[str, Any]] = []
        if path is not None and path.exists():
            self._known = _read(path)

    def find(self, key: Row) -> Row | None:
        """The row of a check that was made before."""
        return next((dict(one["row"]) for one in self._known if one["key"] == key), None)

    def add(self, key: Row, row: Row) -> None:
        """Keep a row."""
        self._known.append({"key": key, "row": row})
        if self._path is not None:
            text = json.dumps({"format": _FORMAT, "checks": self._known}, indent=1)
            _outputs.write(self._path, text.encode())


def _read(path: Path) -> list[dict[str, Any]]:
    found = read_json(path, _LARGEST)
    checks: list[dict[str, Any]] = found.get("checks", [])
    listed = isinstance(checks, list) and all(map(_is_check, checks))
    if found.get("format") != _FORMAT or not listed:
        raise InputError(str(path), "something else", "a new file, or one of earlier checks")
    return checks


def _is_check(one: object) -> bool:
    return isinstance(one, dict) and isinstance(one.get("key"), dict) and _is_row(one.get("row"))


def _is_row(row: object) -> bool:
    wanted = {"layout", "devices", "difference", "share", "problem", "note", "tensors", "seconds"}
    return isinstance(row, dict) and wanted <= row.keys()
