"""One execution of a command, and what it measured."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from numbers import Real
from typing import Literal, get_args
from uuid import uuid4

from forerun._values import printable
from forerun.errors import InputError
from forerun.factors import Point

Status = Literal["ok", "failed", "out_of_memory", "timed_out", "cancelled"]


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a command at one point.

    `measures` holds what was measured: `seconds`, `memory_bytes`, `joules` or any other name, each
    a finite number above 0. A run that did not end well may have measures; none is ever a time.
    """

    point: Point
    measures: Mapping[str, float] = field(default_factory=dict)
    status: Status = "ok"
    variant: str = ""  # the name of the command that ran
    host: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    started: str = ""  # ISO 8601, UTC
    source: str = ""  # where it was measured or imported from
    uid: str = field(default_factory=lambda: uuid4().hex)

    def __post_init__(self) -> None:
        if self.status not in get_args(Status):
            raise InputError("run status", self.status, f"one of {', '.join(get_args(Status))}")
        if self.status == "ok" and not self.measures:
            raise InputError("run", "no measures", "at least one, such as seconds")
        if not isinstance(self.point, Point):
            object.__setattr__(self, "point", Point(self.point))
        measures = {name: checked_measure(name, value) for name, value in self.measures.items()}
        versions = {
            _text("versions", name): _text("versions", text) for name, text in self.versions.items()
        }
        object.__setattr__(self, "measures", measures)
        object.__setattr__(self, "versions", versions)
        for name in ("variant", "host", "started", "source", "uid"):
            _text(name, getattr(self, name))
        if self.started:
            _check_time(self.started)
        if not self.uid:
            raise InputError("run uid", "", "a text that no other run has")

    @property
    def seconds(self) -> float | None:
        """The measured time; None where there is none, or where the run did not end well."""
        return self.measures.get("seconds") if self.status == "ok" else None


def checked_measure(name: str, value: object) -> float:
    """The measured value as a float; InputError unless it is a finite number above 0."""
    where = f"measure {_text('measure', name)}"
    # Any number will do, NumPy's too, but not True, which Python counts as one.
    if not isinstance(value, Real) or isinstance(value, bool):
        raise InputError(where, repr(value), "a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not (math.isfinite(number) and number > 0):
        raise InputError(where, number, "a finite number above 0")
    return number


def _text(name: str, text: object) -> str:
    return printable(f"run {name}", text, InputError)


def _check_time(started: str) -> None:
    try:
        datetime.fromisoformat(started)
    except ValueError:
        raise InputError("run started", started, "a time in ISO 8601") from None
