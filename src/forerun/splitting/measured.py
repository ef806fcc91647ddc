"""What running a split took: for a table, for a report, and as the runs of a study.

A study of splits has one run a sample, with its latency as `seconds`, so that fitting, predicting
and planning work on it as on any other. What belongs to all samples of a setting, each device's
share of the work first of all, is kept beside the runs, in the study's note `splits`.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from forerun._documents import NotNegative, Table, validated
from forerun.factors import Factor, Point, Space
from forerun.study import Run, Study

NOTE = "splits"
WHOLE = "the whole network"  # whose answers others are compared with, unless they are a split's
SPACE = Space(
    [
        Factor("network", "categorical", "intrinsic"),
        Factor("layout", "categorical"),
        Factor("devices", role="workers"),
        Factor("precision", "categorical", role="precision"),
        Factor("wire", "categorical"),
        Factor("in_flight"),
    ]
)
_SOURCE = "split bench"

Whole = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=False)]


class DeviceShare(Table):
    """What one device has of the work; of one sample what it sends, and how long it computes."""

    device: Whole
    macs: Whole
    weights_bytes: Whole
    activations_bytes: Whole
    sent_bytes: Whole
    memory_bytes: Whole | None = None  # the most that its process had resident
    computing_seconds: NotNegative | None = None
    waiting: NotNegative | None = None  # the share of its time


@dataclass(frozen=True, slots=True)
class Timed:
    """The seconds of each sample: until its answer, and since the answer before it."""

    started: float  # by the day's clock
    latencies: tuple[float, ...]
    intervals: tuple[float, ...]

    @property
    def percentiles(self) -> tuple[float, float]:
        """The median latency and its 99th percentile."""
        p50, p99 = np.percentile(self.latencies, (50, 99))
        return float(p50), float(p99)

    @property
    def per_second(self) -> float:
        """Answers a second."""
        return len(self.intervals) / sum(self.intervals)


class Measured(Table):
    """A split in one setting, and what it took there."""

    network: str
    layout: str
    devices: Annotated[int, Field(ge=1)]
    precision: Literal["float32", "int8"] = "float32"
    wire: str = "float32"
    in_flight: Annotated[int, Field(ge=1)] = 1
    samples: Annotated[int, Field(ge=1)]
    p50: Positive
    p99: Positive
    per_second: Positive
    difference: NotNegative | None = None  # max|a - b| / max|b| from the answers of the reference
    same_class: Whole | None = None  # samples of which both say the same class
    reference: str | None = None  # WHOLE, or the title of a split; None also where nobody kept it
    where: str = "this machine"
    host: str = ""
    shares: tuple[DeviceShare, ...] = Field(strict=False)

    @property
    def point(self) -> Point:
        """The setting as a point of a study."""
        return Point({name: getattr(self, name) for name in SPACE})

    @property
    def title(self) -> str:
        """The split, with all that makes a difference to its answers."""
        wire = self.wire if self.devices > 1 else "float32"
        more = (f"computed in {self.precision}", self.precision), (f"{wire} on the wire", wire)
        told = [words for words, kind in more if kind != "float32"]
        return ", ".join([f"{self.layout} on {self.devices}", *told])

    @property
    def memory_bytes(self) -> int | None:
        """The most that the process of any device had resident."""
        return max((one.memory_bytes for one in self.shares if one.memory_bytes), default=None)

    @property
    def sent_bytes(self) -> int:
        """What all devices send to each other and to the host, of one sample."""
        return sum(one.sent_bytes for one in self.shares)

    @property
    def waiting(self) -> float | None:
        """The share of its time that the device that waits most does wait."""
        return max((one.waiting for one in self.shares if one.waiting is not None), default=None)


def open_study(path: Path) -> Study:
    """The study to put such runs into, made if there is none; StudyError if it is another one."""
    return Study.open_or_create(path, SPACE)


def store(study: Study, measured: Measured, timed: Timed) -> int:
    """Add a run for each sample, and keep what all of them share beside them."""
    beside = {"memory_bytes": measured.memory_bytes, "sent_bytes": measured.sent_bytes}
    known = {name: float(value) for name, value in beside.items() if value}
    when = datetime.fromtimestamp(timed.started, UTC).isoformat(timespec="seconds")
    runs = [
        Run(
            measured.point,
            {"seconds": latency, "interval_seconds": interval, **known},
            host=measured.host,
            versions={"onnxruntime": version("onnxruntime"), "python": platform.python_version()},
            started=when,
            source=_SOURCE,
        )
        for latency, interval in zip(timed.latencies, timed.intervals, strict=True)
    ]
    added = study.add_all(runs, widen=lambda space: _widened(space, measured.point))
    kept = [one for one in splits_of(study) if one.point != measured.point]
    listed = [one.model_dump(mode="json") for one in (*kept, measured)]
    study.set_note(NOTE, {NOTE: listed})
    return added


class _Noted(Table):
    splits: tuple[Measured, ...] = Field(strict=False)


def splits_of(study: Study) -> tuple[Measured, ...]:
    """The settings that were measured into a study, in their order; none where none were."""
    found = study.note(NOTE)
    if found is None:
        return ()
    return validated(_Noted, found, f"{study.path}, {NOTE}: ").splits


def _widened(space: Space, point: Point) -> Space:
    """The factors with the values of one more point."""
    return Space(_with(factor, (point[factor.name],)) for factor in space.values())


def _with(factor: Factor, values: Iterable[object]) -> Factor:
    both = {*factor.values, *(factor.value(value) for value in values)}
    numbers = factor.kind == "numeric"
    return replace(factor, values=tuple(sorted(both, key=float if numbers else str)))
