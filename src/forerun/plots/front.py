"""Time to the result against what it takes besides, as a table: what a plan's figure shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pandas as pd

from forerun.planning.front import on_front, taken_besides
from forerun.plots.axes import Axis, factor_axis, target_axis
from forerun.plots.tables import DRAWN, drawn
from forerun.quantities import number

if TYPE_CHECKING:
    from forerun.factors import Value
    from forerun.planning.inference import InferencePlan
    from forerun.planning.planner import Plan


@dataclass(frozen=True, slots=True)
class Front:
    """The candidates of a plan, one a row, the best first, and what time is weighed against.

    Columns: `seconds`, `low`, `high` (its 90 % interval), `taken`, `front` (nothing takes both less
    time and less of the other), `chosen`, `setting` (what tells it from others) and `reason`.
    """

    rows: pd.DataFrame
    taken: str  # "cost", "joules", "nodes" or "devices"
    unit: str = ""  # of money

    @property
    def x(self) -> Axis:
        """The axis of what is taken besides time."""
        values = self.rows["taken"].tolist()
        if self.taken in ("nodes", "devices"):
            return factor_axis(values, self.taken)
        # Money may be nothing, of which there is no logarithm.
        return target_axis(values, self.taken, self.unit, log=None if min(values) > 0 else False)

    @property
    def y(self) -> Axis:
        """The axis of time; a very wide interval may run out of it."""
        seen = self.rows["seconds"]
        ends = self.rows.loc[self.rows["front"] | self.rows["chosen"], ["low", "high"]]
        reach = [
            *seen,
            *ends["low"].clip(lower=seen.min() / 3),
            *ends["high"].clip(upper=seen.max() * 2),
        ]
        axis = target_axis(reach, "seconds")
        return replace(axis, title=axis.title.replace("run time", "time to the result"))

    @property
    def others(self) -> pd.DataFrame:
        """Those that are neither chosen nor on the front, as many as a figure can bear."""
        return drawn(self.rows[~self.rows["front"] & ~self.rows["chosen"]], DRAWN)


def front(plan: Plan) -> Front:
    """The table of a plan whose candidates have estimates."""
    known = [one for one in plan.considered if one.estimate is not None]
    found = [one.estimate for one in known if one.estimate is not None]
    taken, values = taken_besides(known)
    settings = [one.candidate.setting for one in known]
    varied = [name for name in settings[0] if len({one.get(name) for one in settings}) > 1]
    rows = pd.DataFrame(
        {
            "seconds": [one.seconds for one in found],
            "low": [one.low for one in found],
            "high": [one.high for one in found],
            "taken": values,
            "front": on_front(known),
            "chosen": [one is plan.chosen for one in known],
            "setting": [_setting(one, varied) for one in settings],
            "reason": [one.reason for one in known],
        }
    )
    return Front(rows, taken, plan.infrastructure.currency if taken == "cost" else "")


def front_of_ways(plan: InferencePlan) -> Front:
    """The table of a plan for boards: the time of an answer against the devices that it takes."""
    known = [(one, one.estimate) for one in plan.considered if one.estimate is not None]
    settings = [one.candidate.setting for one, _ in known]
    varied = [name for name in settings[0] if len({one.get(name) for one in settings}) > 1]
    rows = pd.DataFrame(
        {
            "seconds": [estimate.seconds for _, estimate in known],
            "low": [estimate.low for _, estimate in known],
            "high": [estimate.high for _, estimate in known],
            "taken": [float(one.candidate.devices) for one, _ in known],
            "front": [one.on_front for one, _ in known],
            "chosen": [one is plan.chosen for one, _ in known],
            "setting": [_setting(one, varied) for one in settings],
            "reason": [one.reason for one, _ in known],
        }
    )
    return Front(rows, "devices")


def _setting(values: Mapping[str, Value], varied: Sequence[str]) -> str:
    return ", ".join(f"{name} {_value(values[name])}" for name in varied if name in values)


def _value(value: Value) -> str:
    return value if isinstance(value, str) else number(float(value), 6)
