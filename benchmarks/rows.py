"""Measured runs as rows of a table, appended one by one: a second start makes what is missing."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

Wanted = TypeVar("Wanted")
Made = TypeVar("Made", bound=Hashable)
Record = TypeVar("Record")
KINDS: dict[str, Callable[[str], object]] = {"str": str, "int": int, "float": float}


def append(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """More rows, on the disk when this returns."""
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)
        file.flush()
        os.fsync(file.fileno())


def recorded(path: Path) -> list[dict[str, str]]:
    """The rows so far; one that was cut off by a crash is dropped from the file."""
    if not path.exists():
        return []
    lines = path.read_text().splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        path.write_text("".join(lines[:-1]))
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def missing(
    wanted: Iterable[Wanted], made: Iterable[Made], made_of: Callable[[Wanted], Made]
) -> Iterator[Wanted]:
    """What is wanted more often than it was made, in order; `made_of` says what each makes."""
    done = Counter(made)
    for one in wanted:
        if done[made_of(one)]:
            done[made_of(one)] -= 1
        else:
            yield one


def parsed(kind: type[Record], cells: Mapping[str, str]) -> Record:
    """A row as a dataclass of strings, integers and numbers."""
    given: dict[str, Any] = {
        field.name: KINDS[str(field.type)](cells[field.name])
        for field in fields(kind)  # type: ignore[arg-type]
    }
    return kind(**given)


def written(record: Any) -> dict[str, object]:
    """A dataclass as a row, with as many digits as somebody may read."""
    return {
        name: f"{value:.6g}" if isinstance(value, float) else value
        for name, value in asdict(record).items()
    }
