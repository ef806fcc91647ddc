"""The configurations worth considering, and why some of them cannot work.

A candidate is a point of the study, which the model can be asked about, and where it would run: a
partition, so many nodes of it, and the storage that the data is read from. What cannot work is kept
with its reason: who asks for 64 workers wants to know why there are none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import pandas as pd

from forerun import quantities
from forerun.compilers import variants
from forerun.errors import InputError
from forerun.factors import VARIANT, Factor, Point, Role, Space, Value
from forerun.infrastructure import Infrastructure, Partition
from forerun.planning.request import Data, Job, Request

MOST = 200_000  # candidates of one plan
CACHE = "cache"  # where the study's runs found their data if they read it from no storage
_PLAIN = ("plain", "eager", "baseline", "default", "none", "off")
_DEVICES = ("gpu", "accelerator", "device", "tpu")


@dataclass(frozen=True, slots=True)
class Candidate:
    """What would be run, and on what."""

    point: Point  # a value for each factor of the study
    partition: str
    nodes: int
    storage: str = ""  # that the data is read from; empty where there is none to be read
    staged: bool = False  # brought there first
    why_not: str = ""  # it cannot work; empty where it can

    @property
    def setting(self) -> dict[str, Value]:
        """All that tells it from others, as factors."""
        where: dict[str, Value] = {"partition": self.partition, "nodes": self.nodes}
        if self.storage:
            where["data on"] = f"{self.storage}, staged" if self.staged else self.storage
        return {**where, **self.point}


class Roles:
    """The factors of a study by the role that they play."""

    def __init__(self, space: Space) -> None:
        self._names = {factor.role: name for name, factor in space.items() if factor.role}

    def __getitem__(self, role: Role) -> str | None:
        return self._names.get(role)

    def count(self, point: Mapping[str, Value], role: Role) -> int:
        """How many a point has of what this role counts; one where no factor has it."""
        name = self._names.get(role)
        return 1 if name is None else max(1, math.ceil(float(point[name])))


def candidates(
    request: Request,
    infrastructure: Infrastructure,
    space: Space,
    seen: pd.DataFrame,
    measured: bool = True,
) -> list[Candidate]:
    """All that the request leaves open; InputError where it leaves nothing, or too much.

    `seen` are the runs of the study: what neither is fixed nor freed takes the values it had there.
    """
    check_names(request, space)
    check_roles(space)
    partitions = allowed_partitions(request, infrastructure)
    choices = {name: values_of(request, factor, seen) for name, factor in space.items()}
    stored = {name: storages(request, infrastructure, name) for name in partitions}
    count = math.prod(map(len, choices.values()))
    count *= sum(max(1, len(stores)) for stores in stored.values())
    if count > MOST:
        raise InputError("request", f"{count} candidates", f"at most {MOST}: fix some factors")
    points = [
        Point(dict(zip(choices, values, strict=True))) for values in product(*choices.values())
    ]
    roles = Roles(space)
    known = measured_partitions(request, infrastructure, roles) if measured else tuple(partitions)
    found: list[Candidate] = []
    for name, partition in partitions.items():
        unfit = unfitting(request, name, partition)
        if not unfit and name not in known:
            unfit = f"nothing was measured on {name}"
        if not stored[name]:
            unfit = unfit or f"{name} reaches no storage that could hold the data"
        for point in points:
            nodes, why_not = needed(request, name, partition, point, roles)
            why_not = uncompilable(request, partition, point, roles) or why_not
            for storage, staged in stored[name] or [("", False)]:
                made = Candidate(point, name, nodes, storage, staged, unfit or why_not)
                if not made.why_not:
                    problem = _storage_problem(request, infrastructure, roles, made)
                    made = replace(made, why_not=problem)
                found.append(made)
    return found


def check_names(request: Request, space: Space) -> None:
    """InputError for a fixed or free factor that the study does not have."""
    for where, given in (("fixed", request.fixed), ("free", request.free)):
        for name in given:
            if name not in space:
                raise InputError(f"{where}: {name}", "no such factor", f"one of {', '.join(space)}")


def check_roles(space: Space) -> None:
    """InputError for two factors that play the same part: which of them counts is not known."""
    seen: dict[Role, str] = {}
    for name, factor in space.items():
        if factor.role is not None and seen.setdefault(factor.role, name) != name:
            found = f"{seen[factor.role]} and {name}"
            raise InputError(f"the role {factor.role}", found, "one factor of the study")


def allowed_partitions(request: Request, infrastructure: Infrastructure) -> dict[str, Partition]:
    """Those that the request allows; InputError where there are none."""
    target = request.target
    if target.infrastructure not in (None, infrastructure.name):
        where = f"target of {request.name}"
        raise InputError(where, target.infrastructure, f"{infrastructure.name}, what is given")
    if target.scheduler is not None and target.scheduler != infrastructure.scheduler:
        raise InputError(
            f"target of {request.name}",
            target.scheduler,
            f"{infrastructure.scheduler}, the scheduler of {infrastructure.name}",
        )
    if not infrastructure.partitions:
        raise InputError(f"{infrastructure.name}", "boards alone", "partitions to train on")
    found, queue = dict(infrastructure.partitions), request.job.queue
    if target.partition is not None:
        found = {target.partition: infrastructure.partition(target.partition)}
    if queue is None:
        return found
    named = {name: part for name, part in found.items() if queue in (name, part.queue)}
    if not named:
        listed = ", ".join(dict.fromkeys(part.queue or name for name, part in found.items()))
        raise InputError(f"queue of {request.name}", queue, f"one of {listed}")
    return named


def values_of(request: Request, factor: Factor, seen: pd.DataFrame) -> tuple[Value, ...]:
    """The values to consider for a factor."""
    given = request.choices(factor.name)
    if given is not None:
        return tuple(factor.value(value) for value in given)
    measured = seen[factor.name].unique().tolist()
    if len(measured) > 1:
        _check_named(request, factor)
    return tuple(sorted((factor.value(value) for value in measured), key=_order))


def _check_named(request: Request, factor: Factor) -> None:
    """InputError for what a plan must not choose by itself: it would have less work be done."""
    name = factor.name
    if factor.role == "steps" and request.samples is not None:
        return  # they say how many
    if factor.role == "batch":
        what, why = "the batch size", "a larger batch is other training"
    elif factor.role == "steps":
        what, why = "the steps of a run", "fewer of them are other training"
    elif factor.scope == "intrinsic":
        what, why = "an intrinsic factor", "another value is another application"
    else:
        return
    expected = f"fixed: {{{name}: …}}, or free, for {why}"
    raise InputError(f"{name}, {what}", "neither fixed nor free", expected)


def _order(value: Value) -> tuple[bool, float, str]:
    text = isinstance(value, str)
    return text, 0.0 if text else float(value), str(value)


def storages(
    request: Request, infrastructure: Infrastructure, partition: str
) -> list[tuple[str, bool]]:
    """Where the data can be read from, and whether it must be brought there first."""
    if request.data is None or not infrastructure.storage:
        return [("", False)]
    at = source(request.data, infrastructure)
    measured_at = request.data.measured_at or at
    for where, name in (("at", at), ("measured_at", measured_at)):
        if name not in infrastructure.storage and (where, name) != ("measured_at", CACHE):
            listed = ", ".join(infrastructure.storage)
            raise InputError(f"data.{where}", name, f"a storage of {infrastructure.name}: {listed}")
    reached = infrastructure.reach(partition)
    return [(name, name != at) for name in sorted(reached, key=lambda name: name != at)]


def source(data: Data, infrastructure: Infrastructure) -> str:
    """The storage that the data lies on: the first where the request does not say."""
    return data.at or next(iter(infrastructure.storage))


def unfitting(request: Request, name: str, partition: Partition) -> str:
    """Why a partition is not what the request asks for; empty where it is."""
    job, wanted = request.job, request.wishes.processor
    missing = [feature for feature in job.features if feature not in partition.features]
    if missing:
        return f"the nodes of {name} lack the feature {missing[0]}"
    if wanted is not None and wanted != partition.processors.family:
        return f"the processors of {name} are {partition.processors.family}, not {wanted}"
    return _too_small(job, name, partition)


def _too_small(job: Job, name: str, partition: Partition) -> str:
    """What the job asks of each node that those of a partition do not have, or may not give."""
    devices = partition.accelerators
    processes = max(job.cores or 0, job.processes * (job.cores_per_process or 1))
    threads = _all_threads(partition)
    if processes > threads:
        return f"{processes} cores a node, more than the {threads} of {name}"
    if job.accelerators and devices and job.accelerators > devices.count:
        return f"{job.accelerators} accelerators a node, more than the {devices.count} of {name}"
    if job.memory is not None and job.memory > partition.memory:
        need, have = (quantities.amount(x, "bytes") for x in (job.memory, partition.memory))
        return f"{need} of memory a node, more than the {have} of {name}"
    limit = partition.limits.walltime
    if job.walltime is not None and limit is not None and job.walltime > limit:
        long, most = map(quantities.seconds, (job.walltime, limit))
        return f"a job of {long}, longer than the {most} of {name}"
    return ""


def _all_threads(partition: Partition) -> int:
    """What a scheduler calls the cores of a node: as many as can run at once."""
    return partition.processors.count * partition.processors.threads


def needed(
    request: Request, name: str, partition: Partition, point: Mapping[str, Value], roles: Roles
) -> tuple[int, str]:
    """The nodes that a point needs on a partition, and why it cannot have them."""
    workers, threads = roles.count(point, "workers"), roles.count(point, "threads")
    elsewhere = roles["partition"]
    if elsewhere is not None and point[elsewhere] != name:
        return 1, f"{elsewhere} {point[elsewhere]} is another partition"
    most = _all_threads(partition)
    if threads > most:
        return 1, f"{threads} threads, more than the {most} of a node of {name}"
    each, what = most // threads, f"{threads}-thread workers"
    if uses_devices(request, roles):
        if partition.accelerators is None:
            return 1, f"no accelerators in {name}"
        wanted = request.wishes.accelerator
        if wanted is not None and wanted != partition.accelerators.kind:
            return 1, f"{name} has accelerators of {partition.accelerators.kind}, not of {wanted}"
        each, what = partition.accelerators.count, "workers, one a device"
    least = -(-workers // each)
    given_nodes = roles.count(point, "nodes") if roles["nodes"] else request.target.nodes
    nodes = given_nodes or least
    if nodes < least:
        return nodes, f"{workers} {what} need {least} nodes of {name}, not {nodes}"
    if nodes > partition.nodes:
        return nodes, f"{nodes} nodes, more than the {partition.nodes} of {name}"
    if nodes > partition.most_nodes:
        return (
            nodes,
            f"{nodes} nodes, more than the {partition.most_nodes} that a job of {name} may have",
        )
    return nodes, ""


def uncompilable(
    request: Request, partition: Partition, point: Mapping[str, Value], roles: Roles
) -> str:
    """Why a point's compiler cannot do the task there; empty where it can, or nobody knows it."""
    named = {point.get(VARIANT), point.get(roles["compiler"] or VARIANT)}
    problems = (
        one.why_not(request.task, partition.processors.family)
        for one in variants(request.application.framework)
        if one.name in named
    )
    return next(filter(None, problems), "")


def measured_partitions(
    request: Request, infrastructure: Infrastructure, roles: Roles
) -> tuple[str, ...]:
    """The partitions that the study's runs speak of: those that a factor names, or one.

    Without a word in the request that is the default partition, or the first.
    """
    if roles["partition"] is not None:
        return tuple(infrastructure.partitions)
    if request.measured_on is not None:
        infrastructure.partition(request.measured_on)
        return (request.measured_on,)
    marked = [name for name, one in infrastructure.partitions.items() if one.default]
    return tuple(marked or list(infrastructure.partitions)[:1])


def uses_devices(request: Request, roles: Roles) -> bool:
    """Whether each worker has an accelerator of its own."""
    if request.wishes.accelerator is not None or request.job.accelerators is not None:
        return True
    workers = (roles["workers"] or "").lower()
    return roles["device"] is not None or any(word in workers for word in _DEVICES)


def _storage_problem(
    request: Request,
    infrastructure: Infrastructure,
    roles: Roles,
    made: Candidate,
) -> str:
    """Why the data cannot lie where the candidate has it."""
    name = roles["storage"]
    if name is not None and made.storage and made.point[name] != made.storage:
        return f"{name} {made.point[name]} is another storage"
    if made.staged and request.data is not None:
        room = infrastructure.storage[made.storage].size
        if room is not None and room < request.data.size:
            return f"{made.storage} is too small for the data"
    return ""


def baseline(names: Sequence[str]) -> str:
    """The plain variant: the one whose name says so, or the first."""
    plain = [name for name in names if name.lower() in _PLAIN]
    return plain[0] if plain else names[0]
