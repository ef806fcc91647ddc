"""What a report says of jobs that were deployed: what each took, beside what was to be expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from forerun.factors import Point
    from forerun.study import Run

_SOURCE = "deployment "  # what the source of a deployed job's run begins with


@dataclass(frozen=True, slots=True)
class Deployed:
    """A job's run, and the prediction of a model that has not seen its point."""

    point: Point
    host: str
    measured: float
    predicted: float
    low: float
    high: float

    @property
    def inside(self) -> bool:
        """Whether the interval holds the run."""
        return self.low <= self.measured <= self.high


def deployed(runs: Sequence[Run], target: str, rows: pd.DataFrame) -> tuple[Deployed, ...]:
    """The runs of deployed jobs among a study's good ones, in their order.

    `rows` are those of `tables.measured`: their index counts the good runs that have the target.
    """
    good = [run for run in runs if target in run.measures]
    names = ["measured", "predicted", "low", "high"]
    return tuple(
        Deployed(run.point, run.host, *map(float, rows.loc[number, names]))
        for number, run in enumerate(good)
        if run.source.startswith(_SOURCE) and number in rows.index
    )
