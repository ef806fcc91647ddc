"""What the table of split networks keeps of a cell, and what follows from it.

All times are those of the quoted boards (0.1 core, 100 Mbit/s): where boards run faster than they
are quoted (DILATION of boards.py), what was measured times that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol

import rows
from split_ways import WAYS, Way

from forerun.errors import InputError

KEY = ("network", "devices", "way", "wire", "in_flight")
# Processors that others may use during a row; links and switch use up to 0.35 among these.
MOST_LOAD, MOST_STOLEN = 0.4, 0.05


@dataclass(frozen=True)
class Row:
    """A way on so many boards, with so many samples in flight, beside the baseline by turns."""

    network: str
    devices: int
    way: str
    wire: str
    in_flight: int
    layout: str  # of the cut; for an exact way what forerun chose
    samples: int  # whose latency was measured
    p50_ms: float
    p99_ms: float
    baseline_p50_ms: float  # dense float32 on one board, by turns with this
    throughput: float  # samples a second
    baseline_throughput: float
    weights_bytes: int  # of the device that has most of both,
    activations_bytes: int  # and its activations at their peak
    resident_bytes: int  # of the largest device process, at its peak
    sent_bytes: int  # a sample, of the device that sends most
    waiting: float  # share of the time that devices waited for messages, on average
    alone_ms: float  # a sample's segments of the slowest device, run alone at the same speed
    ideal_ms: float  # a device's share as one network that needs nothing of others; 0: not known
    transfer_ms: float  # bytes a sample over the rate, of the device that has most
    baseline_alone_ms: float
    image_ms: float  # what a sample takes longer if its image has to be sent first
    answers: int  # that were compared with the single process
    same_class: int  # of these, how many have their largest number where it has
    largest_error: float  # relative to the largest output
    calibration: str  # when the one of this run began
    started: str
    other_load: float  # processors that others kept busy
    stolen: float  # processors that the host of this machine took away

    @property
    def key(self) -> tuple[str, ...]:
        """What tells it from others."""
        return tuple(str(getattr(self, name)) for name in KEY)

    @property
    def kind(self) -> Way:
        """The way by its name, on as many boards."""
        return next(w for w in WAYS if w.name == self.way and w.runs_on(self.devices))

    @property
    def faster(self) -> float:
        """The latency of dense float32 on one board over this one."""
        return self.baseline_p50_ms / self.p50_ms

    @property
    def more(self) -> float:
        """The throughput over that of dense float32 on one board."""
        return self.throughput / self.baseline_throughput

    @property
    def ceiling(self) -> float | None:
        """How many times faster arithmetic and bytes allow, one after the other; None: not known.

        The arithmetic is that of an ideal share (see `ideal` of split_prepared.py), not of the
        segments that were cut, so that a poor cut has no lower ceiling.
        """
        if not self.ideal_ms:
            return None
        return self.baseline_alone_ms / (self.ideal_ms + self.transfer_ms)

    @property
    def reached(self) -> float | None:
        """What arithmetic and bytes would take, as a share of what an answer took."""
        return (self.ideal_ms + self.transfer_ms) / self.p50_ms if self.ideal_ms else None

    @property
    def memory_bytes(self) -> int:
        """Weights and peak activations of a device."""
        return self.weights_bytes + self.activations_bytes


COLUMNS = tuple(field.name for field in fields(Row))


class Watched(Protocol):
    """A row that says what others did meanwhile."""

    @property
    def other_load(self) -> float:
        """Processors."""

    @property
    def stolen(self) -> float:
        """Processors."""


def disturbed(row: Watched) -> float:
    """By how many processors too many others, here and outside, used."""
    return max(row.other_load - MOST_LOAD, 0) + max(row.stolen - MOST_STOLEN, 0)


def read(path: Path) -> list[Row]:
    """The rows of a file, of every visit to a cell."""
    if not path.exists():
        raise InputError(str(path), "no such file", "measured cells: split.py measure")
    return [rows.parsed(Row, cells) for cells in rows.recorded(path)]


@dataclass(frozen=True)
class Factors:
    """A speed-up as a product: of another network, of several boards, of fewer bits."""

    structure: float
    parallelism: float
    precision: float

    def __str__(self) -> str:
        parts = (self.structure, self.parallelism, self.precision)
        return " x ".join(f"{part:.2f}" for part in parts)


def middle(visits: Iterable[Row]) -> Row:
    """The visit whose speed-up is in the middle; of two the slower one."""
    order = sorted(visits, key=lambda row: row.faster if row.in_flight == 1 else row.more)
    return order[(len(order) - 1) // 2]


class Table:
    """The rows by what they are: of each cell the visit in the middle."""

    def __init__(self, found: Iterable[Row]) -> None:
        self.visits: dict[tuple[str, ...], list[Row]] = {}
        for row in found:
            self.visits.setdefault(row.key, []).append(row)
        self.rows = [middle(visits) for visits in self.visits.values()]
        self._found = {(*row.key[:-1], row.in_flight > 1): row for row in self.rows}

    def get(
        self, network: str, devices: int, way: str, wire: str = "float32", busy: bool = False
    ) -> Row | None:
        """A row, if it was measured: one sample after the other, or several in flight."""
        return self._found.get((network, str(devices), way, wire, busy))

    def factors(self, row: Row) -> Factors | None:
        """How the latency's speed-up comes about; None where a part of it was not measured.

        Structure is the same network on one board in float32 over dense; parallelism its float32
        on so many boards over that on one; precision the rest.
        """
        kind = row.kind
        single = self.get(row.network, 1, kind.structure)
        plain = row.way.removesuffix(" int8")
        split = single if row.devices == 1 else self.get(row.network, row.devices, plain)
        if single is None or split is None:
            return None
        return Factors(single.faster, split.faster / single.faster, row.faster / split.faster)
