"""After how many steps a graph compiler pays: what it takes more to start, and less in each step.

Both come from the study's model, as the time of many steps does: the straight line through what it
says of the fewest and of the most steps that were measured, with all else the same.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from forerun.errors import ExtrapolationWarning
from forerun.factors import VARIANT, Point
from forerun.modelling.steps import SURE
from forerun.modelling.teaching import as_table, ratio_deviation
from forerun.planning.candidates import baseline
from forerun.planning.estimates import Models
from forerun.quantities import number, seconds


@dataclass(frozen=True, slots=True)
class Pays:
    """One variant beside the plain one."""

    variant: str
    plain: str
    steps: str  # the factor that counts them
    start: float  # seconds more until the first step
    step: float  # seconds less in each step
    spread: float  # half the 90 % interval of the step's

    @property
    def after(self) -> int | None:
        """The steps from which on it is quicker; None where it never is, or nobody can tell."""
        if self.step <= self.spread:
            return None
        return max(0, math.ceil(self.start / self.step))

    @property
    def told(self) -> str:
        """The same in words."""
        each = f"each {self.steps.removesuffix('s')}"
        start = f"{_change(-self.start)} to start"
        both = f"{start}, {_change(self.step)} {each}"
        if abs(self.step) <= self.spread:
            apart = f"give or take {seconds(self.spread)}"
            return f"whether {self.variant} pays cannot be told: {both}, {apart}"
        if self.after is None:
            return f"{self.variant} never pays: {both}"
        when = f"after {number(self.after)} {self.steps}" if self.after else "at once"
        return f"{self.variant} pays {when}: {both}"

    def to_dict(self) -> dict[str, Any]:
        """The document of `--json`."""
        return {
            "variant": self.variant,
            "plain": self.plain,
            "steps": self.steps,
            "after": self.after,
            "start_seconds": self.start,
            "step_seconds": self.step,
            "told": self.told,
        }


def pays(models: Models, points: Iterable[Point]) -> dict[Point, Pays]:
    """For each of the points that is not plain; empty where the study has no steps or variants."""
    space, steps, name = models.space, models.roles["steps"], _compiled_by(models)
    if steps is None or name is None or space[name].kind != "categorical":
        return {}
    measured = models.seconds.runs_["factors"]
    fewest, most = min(measured[steps]), max(measured[steps])
    names = list(dict.fromkeys(str(level) for level in measured[name]))
    plain = baseline(names)
    asked = [point for point in dict.fromkeys(points) if point[name] in names]
    asked = [point for point in asked if point[name] != plain]
    if fewest == most or not asked:
        return {}
    own = as_table(asked, space)
    both = {"own": own, "plain": own.assign(**{name: plain})}
    ends = {
        (which, count): table.assign(**{steps: float(count)})
        for which, table in both.items()
        for count in (fewest, most)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtrapolationWarning)
        found = {end: models.seconds.predict(table) for end, table in ends.items()}
        apart = [
            found["own", count]
            * ratio_deviation(models.seconds, space, ends["own", count], ends["plain", count])
            for count in (fewest, most)
        ]
    each = {which: (found[which, most] - found[which, fewest]) / (most - fewest) for which in both}
    start = {which: found[which, fewest] - fewest * each[which] for which in both}
    spread = SURE * np.hypot(*apart) / (most - fewest)
    return {
        point: Pays(
            str(point[name]),
            plain,
            steps,
            float(start["own"][i] - start["plain"][i]),
            float(each["plain"][i] - each["own"][i]),
            float(spread[i]),
        )
        for i, point in enumerate(asked)
    }


def beside(models: Models, point: Point) -> list[Point]:
    """The same point in each variant that was measured."""
    name = _compiled_by(models)
    levels = [] if name is None else dict.fromkeys(models.seconds.runs_["factors"][name])
    return [Point({**point, str(name): level}) for level in levels]


def _compiled_by(models: Models) -> str | None:
    """The factor whose levels are plain and compiled; None where there is none."""
    return VARIANT if VARIANT in models.space else models.roles["compiler"]


def _change(less: float) -> str:
    return f"{seconds(abs(less))} {'less' if less > 0 else 'more'}"
