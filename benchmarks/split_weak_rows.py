"""What the table of weak links, little memory and scheme 3 keeps of an experiment."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import rows

KEY = ("experiment", "name", "way", "wire")


@dataclass(frozen=True)
class Weak:
    """One experiment: a way under hard conditions, by turns with plain ones."""

    experiment: str  # memory, scheme 3, loss or swing
    name: str
    network: str
    devices: int
    way: str
    wire: str
    in_flight: int
    megabits: float  # of the link, in the mean
    loss: float  # of the frames, the share
    limit_bytes: int  # of memory a board; 0: none
    throughput: float  # samples a second
    plain_throughput: float  # without: one sample in flight, no loss, a steady rate
    killed: int  # devices, for want of memory
    resident_bytes: int
    answers: int
    largest_error: float
    calibration: str
    started: str
    other_load: float
    stolen: float

    @property
    def key(self) -> tuple[str, ...]:
        """What tells it from others."""
        return tuple(str(getattr(self, name)) for name in KEY)

    @property
    def gain(self) -> float:
        """The throughput over that under plain conditions."""
        return self.throughput / self.plain_throughput if self.plain_throughput else 0.0


COLUMNS = tuple(field.name for field in fields(Weak))


def read(path: Path) -> list[Weak]:
    """The experiments of a file, the last one where one was made twice; none without a file."""
    found = {one.key: one for one in (rows.parsed(Weak, cells) for cells in rows.recorded(path))}
    return list(found.values())
