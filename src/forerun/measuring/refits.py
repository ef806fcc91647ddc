"""The model as it was after every few runs: fitted anew when due, and remembered until then."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np

from forerun.errors import DataWarning
from forerun.factors import Space
from forerun.modelling.estimator import PerformanceModel
from forerun.modelling.teaching import as_table
from forerun.quantities import unit_of
from forerun.study import Run

BEGIN = 8  # good runs before the first model
REFIT = 3  # good runs after which the model is fitted anew
SHARE = 15  # or this part of all good runs, if that is more

BEYOND = ("out_of_memory", "timed_out")  # how a run ends that wants more than it may have

COSTS = ("wall_seconds", "seconds")  # what a run takes: the first of these that it has

MakeModel = Callable[[str], PerformanceModel]  # of the target of this name


class Refits:
    """Models of growing numbers of runs. Which runs a model has seen follows from them alone."""

    def __init__(self, space: Space, target: str, make_model: MakeModel | None = None) -> None:
        self._space, self._target = space, target
        self._make_model = make_model or self._default
        self._models: dict[tuple[str, ...], PerformanceModel] = {}

    def model(self, runs: Sequence[Run]) -> PerformanceModel | None:
        """The model of the runs up to where it was last due; None if it never was."""
        return self._of(self._learnt(runs), self._target)

    def last(self, runs: Sequence[Run], count: int) -> list[PerformanceModel]:
        """The last so many models, the newest first; fewer at the beginning."""
        found: list[PerformanceModel] = []
        learnt = self._learnt(runs)
        while len(found) < count and (model := self._of(learnt, self._target)) is not None:
            found.append(model)
            learnt = self._learnt(learnt[:-1])
        return found

    def cost_model(self, runs: Sequence[Run]) -> PerformanceModel | None:
        """The model of what a run takes by the clock; None where that is not known."""
        learnt = [run for run in self._learnt(runs) if run.status == "ok"]
        for name in COSTS:
            if learnt and all(name in run.measures for run in learnt):
                return self._of(learnt, name) if name != self._target else self.model(runs)
        return None

    def due(self, runs: Sequence[Run]) -> int:
        """The number of good runs at which the model was last to be fitted."""
        good = sum(self._is_good(run) for run in runs)
        due, following = 0, BEGIN
        while following <= good:
            due, following = following, following + max(REFIT, following // SHARE)
        return due

    def _learnt(self, runs: Sequence[Run]) -> Sequence[Run]:
        due = self.due(runs)
        good = [place for place, run in enumerate(runs) if self._is_good(run)]
        return runs[: good[due - 1] + 1] if due else []

    def _is_good(self, run: Run) -> bool:
        return run.status == "ok" and self._target in run.measures

    def _of(self, runs: Sequence[Run], target: str) -> PerformanceModel | None:
        if not runs:
            return None
        key = (target, *(run.uid for run in runs))
        if key not in self._models:
            self._models[key] = self._fitted(runs, target)
        return self._models[key]

    def _fitted(self, runs: Sequence[Run], target: str) -> PerformanceModel:
        good = [run for run in runs if run.status == "ok" and target in run.measures]
        failed = [run.point for run in runs if run.status in BEYOND]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            return self._make_model(target).fit(
                as_table([run.point for run in good], self._space),
                np.array([run.measures[target] for run in good]),
                failed=as_table(failed, self._space) if failed else None,
                quick=True,
            )

    def _default(self, target: str) -> PerformanceModel:
        space = self._space
        return PerformanceModel(
            intrinsic=list(space.intrinsic),
            extrinsic=list(space.extrinsic),
            roles={name: factor.role for name, factor in space.items() if factor.role},
            target=target,
            unit=unit_of(target),
        )
