"""Which tool wrote a file, told by its content rather than its name."""

from __future__ import annotations

import json
from pathlib import Path

from forerun.errors import TableError

_HEAD = 1 << 16
_EXTRA_P_TAGS = ("PARAMETER", "POINTS", "METRIC", "REGION")
_JSON_KINDS = (
    ("optuna", ('"op_code"',)),
    ("hyperfine", ('"results"', '"command"')),
    ("extra-p", ('"params"', '"value"')),
    ("extra-p", ('"measurements"',)),
    ("extra-p", ('"callpaths"',)),
)


def detect(path: str) -> str:
    """The format of a file; a table unless something says otherwise."""
    if "://" in path:
        if path.startswith("sqlite:///"):
            return "optuna"
        scheme = path.partition("://")[0]
        raise TableError("FILE", f"{scheme}://…", "a file, or sqlite:///FILE of an Optuna storage")
    with Path(path).open("rb") as file:
        head = file.read(_HEAD)
    if head.startswith(b"SQLite format 3\0"):
        return "optuna"
    text = head.decode("utf-8", "replace").lstrip("\ufeff")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    first = lines[0].strip() if lines else ""
    if first.startswith(("{", "[")):
        return _json_kind(path, text)
    if first.split(" ")[0] in _EXTRA_P_TAGS:
        return "extra-p"
    if "|" in first and {"JobID", "Elapsed", "ElapsedRaw"} & set(first.split("|")):
        return "sacct"
    return "csv"


def _json_kind(path: str, text: str) -> str:
    for name, marks in _JSON_KINDS:
        if all(mark in text for mark in marks):
            return name
    try:
        keys = list(json.loads(text))[:5]
    except (ValueError, RecursionError):
        keys = []
    expected = "JSON of hyperfine or Extra-P, or Optuna's journal"
    raise TableError(path, f"JSON with {', '.join(map(str, keys)) or 'unknown keys'}", expected)
