"""Where runs are made when not by processes of this machine: what a campaign must know of it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Protocol

from forerun.errors import ForerunWarning
from forerun.factors import Point, Role, Space
from forerun.measuring.domain import MOST_LISTED, Allowed
from forerun.measuring.opening import Opened
from forerun.measuring.program import Program
from forerun.measuring.runner import Runner

Programs = Mapping[str, Program]


class Place(Protocol):
    """Somewhere else, such as a cluster. It sees to some factors, which then need no hole."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def sees_to(self) -> frozenset[Role]:
        """The roles of factors that it sets itself: so many nodes, so many workers."""

    def check(self, space: Space, programs: Programs) -> None:
        """InputError for what it cannot do at any point."""

    def why_not(self, space: Space, programs: Programs, point: Point) -> str:
        """Why it has no room for a point; empty where it has."""

    def runner(self, opened: Opened, slots: int | None) -> Runner:
        """What makes the runs there; as many at a time as fit where it is not said."""


def fitting(place: Place, space: Space, programs: Programs, allowed: Allowed | None) -> Allowed:
    """Which points may be run: those that are allowed and that the place has room for."""

    def fits(point: Point) -> bool:
        return (allowed is None or allowed(point)) and not place.why_not(space, programs, point)

    return fits


def warn_of_unfit(place: Place, opened: Opened, allowed: Allowed | None) -> None:
    """Say how many points are left out, and why the first of them."""
    space, programs = opened.space, opened.programs
    if space.size > MOST_LISTED:
        return
    points = [point for point in space.grid() if allowed is None or allowed(point)]
    unfit = list(filter(None, (place.why_not(space, programs, point) for point in points)))
    if unfit:
        are = "1 is" if len(unfit) == 1 else f"{len(unfit)} are"
        warnings.warn(
            f"{place.name}: of {len(points)} points {are} left out: {unfit[0]}",
            ForerunWarning,
            stacklevel=3,
        )
