"""What each candidate would take: time to the result, what it is made of, money, energy, memory.

    time = wait + start-up + staging + steps * step, with the data read from where it lies

The step (or the whole run, where the study times that) is what the study's model says, with its
interval; reading is arithmetic, see `reading.py`: the measured runs have read their data from one
storage, and a candidate may read it from another.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from forerun.errors import ExtrapolationWarning
from forerun.factors import Point, Space
from forerun.infrastructure import Infrastructure
from forerun.modelling.columns import Array, Mask
from forerun.modelling.estimator import PerformanceModel
from forerun.modelling.steps import COVERAGE, straight
from forerun.modelling.teaching import as_table
from forerun.planning import memory as memory_of
from forerun.planning.amounts import Amounts
from forerun.planning.candidates import (
    Candidate,
    Roles,
    measured_partitions,
    needed,
    source,
    uses_devices,
)
from forerun.planning.reading import Reading, cannot_have_read
from forerun.planning.request import Data, Request

FLAT = "the runs cannot tell a step's time from 0: measure longer ones, or more of them"
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one candidate is expected to take."""

    seconds: float  # until the result is there
    low: float  # 90 % interval of it
    high: float
    parts: dict[str, float]  # wait, start-up, staging, run, reading that runs had not
    cost: float | None = None  # in the infrastructure's currency; None where no price is known
    joules: float | None = None
    memory: float | None = None  # bytes of a worker, at most
    efficiency: float | None = None  # speed-up a worker, of one worker's
    cautions: tuple[str, ...] = ()

    def amount(self, goal: str) -> float | None:
        """What it takes of what is wanted little of."""
        return {"time": self.seconds, "cost": self.cost, "energy": self.joules}[goal]


@dataclass(frozen=True)
class Models:
    """What the study knows: seconds, and where it was measured the memory."""

    space: Space
    seconds: PerformanceModel
    memory: PerformanceModel | None = None

    @cached_property
    def roles(self) -> Roles:
        """The factors by the role that they play."""
        return Roles(self.space)


@dataclass(frozen=True)
class Predicted:
    """The model's word on points, by their place."""

    seconds: Array
    low: Array
    high: Array
    memory: Array | None
    feasible: Mask
    is_flat: Mask  # steps beyond the measured ones, whose time cannot be told from 0
    places: dict[Point, int]


def alone(roles: Roles, point: Point) -> Point:
    """The same with one worker, on one node."""
    counted = (roles["workers"], roles["nodes"])
    return Point({**point, **{name: 1 for name in counted if name is not None}})


def predict(models: Models, points: Iterable[Point]) -> Predicted:
    """Ask the models once for all points."""
    places = {point: place for place, point in enumerate(dict.fromkeys(points))}
    table = as_table(places, models.space)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtrapolationWarning)
        seconds, low, high, is_flat = _seconds(models, table)
        memory = None
        if models.memory is not None:
            # A worker that needs more than it has is lost: the upper end is what counts.
            memory = models.memory.predict_interval(table, memory_of.COVERAGE)[1]
    feasible = models.seconds.feasible(table)
    return Predicted(seconds, low, high, memory, feasible, is_flat, places)


def _seconds(models: Models, table: pd.DataFrame) -> tuple[Array, Array, Array, Mask]:
    """Predicted times with their interval, and whether their step cannot be told from nothing.

    Steps beyond those that were measured go on in a straight line (see `modelling.steps`).
    """
    model = models.seconds
    line = straight(model, models.space, table)
    inside = line.points.iloc[: len(table)]  # levels that no run had are refused here
    low, high = model.predict_interval(inside, COVERAGE)
    if line.half is None or line.is_flat is None:
        return line.seconds, low, high, np.zeros(len(table), bool)
    # However quick a step may be, the measured ones have been taken.
    low = np.maximum(line.seconds * np.exp(-line.half), low)
    return line.seconds, low, line.seconds * np.exp(line.half), line.is_flat


class Estimator:
    """Estimates of candidates, given what a model says of their points."""

    def __init__(
        self, request: Request, infrastructure: Infrastructure, models: Models, found: Predicted
    ) -> None:
        self._request, self._infrastructure = request, infrastructure
        self._models, self._found = models, found
        self._roles = models.roles
        self._amounts = Amounts(request, models.space)

    def estimate(self, candidate: Candidate) -> Estimate:
        """What a candidate takes."""
        found, place = self._found, self._found.places[candidate.point]
        repeats = self._amounts.repeats(candidate.point)
        partition = self._infrastructure.partition(candidate.partition)
        parts = {
            "wait": partition.wait or 0.0,
            "start-up": self._request.startup or 0.0,
            "staging": self._staging(candidate),
        }
        before = sum(parts.values())
        run = repeats * self._seconds(candidate.point)
        reading = self._reading(candidate)
        parts["run"] = min(run, reading.likely(run))
        if reading.likely(run) > run:
            parts["reading data"] = reading.likely(run) - run  # besides what the runs have in them
        low, high = (repeats * float(side[place]) for side in (found.low, found.high))
        seconds = before + reading.likely(run)
        memory = memory_of.estimated(self._request, self._roles, candidate.point)
        if found.memory is not None:
            memory = float(found.memory[place])
        return Estimate(
            seconds=seconds,
            low=before + reading.bounds(low)[0],
            high=before + reading.bounds(high)[1],
            parts=parts,
            cost=self._cost(candidate, seconds - parts["wait"]),
            joules=self._joules(candidate, seconds - parts["wait"]),
            memory=memory,
            efficiency=self.efficiency(candidate.point),
            cautions=(*([FLAT] if found.is_flat[place] else []), *reading.cautions(run)),
        )

    def efficiency(self, point: Point) -> float | None:
        """Speed-up a worker, of what one does with all else the same; None where none are counted.

        Speed is samples a second, of those that the result needs: with the batch each worker's, as
        many steps are of more samples.
        """
        amounts, one = self._amounts, alone(self._roles, point)
        workers = amounts.workers(point)
        if workers is None:
            return None
        samples = amounts.samples(point) / amounts.samples(one)
        return samples * self._seconds(one) / self._seconds(point) / workers

    def _seconds(self, point: Point) -> float:
        return float(self._found.seconds[self._found.places[point]])

    def _staging(self, candidate: Candidate) -> float:
        data = self._request.data
        if data is None or not candidate.staged:
            return 0.0
        stores = self._infrastructure.storage
        origin = stores[source(data, self._infrastructure)]
        target = stores[candidate.storage]
        nodes = candidate.nodes if target.local else 1  # each node has its own copy, or one for all
        return data.size / min(origin.rate(nodes), target.rate(nodes))

    def _reading(self, candidate: Candidate) -> Reading:
        """What reading the data takes of a run, here and where it was measured."""
        data = self._request.data
        if data is None or not candidate.storage:
            return Reading()
        here = self._read(data, candidate, candidate.storage)
        if self._roles["storage"] is not None:
            return Reading(here, here, data.overlap)  # the runs were measured on each storage
        at = data.measured_at or source(data, self._infrastructure)
        if at not in self._infrastructure.storage:  # it is no storage but a cache
            return Reading(here, 0.0, data.overlap)
        if self._had_a_cache:
            return Reading(here, 0.0, data.overlap, at)
        return Reading(here, self._read(data, candidate, at), data.overlap)

    def _read(self, data: Data, candidate: Candidate, storage: str) -> float:
        """Seconds that reading all of it takes at least; each node reads its share."""
        rate = self._infrastructure.storage[storage].rate(candidate.nodes)
        return self._amounts.passes(candidate.point) * data.size / candidate.nodes / rate

    @cached_property
    def _had_a_cache(self) -> bool:
        """Whether the study's runs were too quick to have read their data from its storage.

        Those with the most steps tell: of short ones starting is most.
        """
        data, amounts, model = self._request.data, self._amounts, self._models.seconds
        assert data is not None
        at = data.measured_at or source(data, self._infrastructure)
        table = pd.DataFrame(model.runs_["factors"]).assign(seconds=model.runs_["target"])
        if amounts.steps is not None:
            table = table[table[amounts.steps] == table[amounts.steps].max()]
        has_epochs = data.passes is None and amounts.epochs is not None  # each run its own
        asked = max(map(amounts.trained, self._found.places))
        runs, reading = [], []
        for row in table.to_dict("records"):
            point = Point({name: row[name] for name in self._models.space})
            run = self._ran(point)
            if run is None:
                continue
            share = 1.0 if has_epochs else amounts.trained(point) / asked
            reading.append(share * self._read(data, run, at))
            runs.append(amounts.repeats(point) * float(row["seconds"]))
        return cannot_have_read(runs, reading)

    def _ran(self, point: Point) -> Candidate | None:
        """Where a run of the study was; None where that is no partition of the infrastructure."""
        named = self._roles["partition"]
        known = measured_partitions(self._request, self._infrastructure, self._roles)
        name = known[0] if named is None else str(point[named])
        if name not in self._infrastructure.partitions:
            return None
        partition = self._infrastructure.partition(name)
        return Candidate(point, name, needed(self._request, name, partition, point, self._roles)[0])

    def _devices(self, candidate: Candidate) -> int:
        if not uses_devices(self._request, self._roles):
            return 0
        asked = candidate.nodes * (self._request.job.accelerators or 1)
        return max(self._roles.count(candidate.point, "workers"), asked)

    def _cost(self, candidate: Candidate, seconds: float) -> float | None:
        price = self._infrastructure.partition(candidate.partition).price
        if price is None:
            return None
        hourly = price.node * candidate.nodes + price.device * self._devices(candidate)
        return hourly * seconds / HOUR

    def _joules(self, candidate: Candidate, seconds: float) -> float | None:
        power = self._infrastructure.partition(candidate.partition).power
        if power is None:
            return None
        return (power.node * candidate.nodes + power.device * self._devices(candidate)) * seconds
