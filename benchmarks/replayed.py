"""A measured table as a study that can be measured again: a pool to run, and runs held out.

Which points are held out follows from a digest of their values: whatever the order of the table,
they are the same, and in one study of several commands a point is held out for all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forerun.errors import InputError
from forerun.factors import VARIANT, Point, Space

Array = NDArray[np.float64]

HELD_OUT = 0.3  # of the points
TARGET = "seconds"


@dataclass(frozen=True)
class Replayed:
    """The points that may be run with their measured times, and those to predict."""

    name: str
    space: Space
    pool: dict[Point, list[float]]  # each run's seconds, in the order in which they were measured
    held_out: dict[Point, list[float]]

    @property
    def candidates(self) -> list[Point]:
        """The pool, each point as often as it was measured."""
        return [point for point, times in self.pool.items() for _ in times]

    @property
    def truth(self) -> Array:
        """The mean time of each point that is held out."""
        return np.array([np.mean(times) for times in self.held_out.values()])


def replayed(files: Sequence[Path]) -> Replayed:
    """The runs of one table, or of several as the commands of one study."""
    tables = [_read(file) for file in files]
    if len(files) > 1:
        tables = [t.assign(**{VARIANT: _name(f)}) for t, f in zip(tables, files, strict=True)]
    table = pd.concat(tables, ignore_index=True)
    factors = table.drop(columns=TARGET)
    space = Space.from_table(factors)
    every: dict[Point, list[float]] = {}
    for values, seconds in zip(factors.to_dict("records"), table[TARGET], strict=True):
        point = space.point({str(name): value for name, value in values.items()})
        every.setdefault(point, []).append(float(seconds))
    ranks = sorted({_digest(point) for point in every})
    last = ranks[round(HELD_OUT * len(ranks))]
    pool = {point: times for point, times in every.items() if _digest(point) >= last}
    held_out = {point: times for point, times in every.items() if _digest(point) < last}
    return Replayed(" + ".join(map(_name, files)), space, pool, held_out)


def _digest(point: Point) -> bytes:
    """Of the point's values, the command aside."""
    plain = Point({name: value for name, value in point.items() if name != VARIANT})
    return hashlib.sha256(plain.key.encode()).digest()


def _name(file: Path) -> str:
    return file.stem.removeprefix("lenet-")


def _read(file: Path) -> pd.DataFrame:
    """The factors, which come before the seconds, and the seconds of the runs that ended well."""
    try:
        table = pd.read_csv(file)
    except OSError as error:
        raise InputError(str(file), error.strerror or "no file", "a table of runs") from None
    for name in (TARGET, "status"):
        if name not in table.columns:
            raise InputError(str(file), f"no column {name}", "factors, then seconds … status")
    columns = list(table.columns)
    return table.loc[table["status"] == "ok", columns[: columns.index(TARGET) + 1]]
