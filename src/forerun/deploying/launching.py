"""Who starts the workers of a job, and what each of them gets.

one node, and the command has a hole for the workers   the application starts its own
several nodes, or no such hole                         the framework's launcher, one process each
the command is a launcher itself (torchrun, mpirun …)  that, on one node
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from forerun.compilers import Framework
from forerun.errors import InputError
from forerun.factors import Space, Value
from forerun.infrastructure import Partition
from forerun.jobs.spec import Launcher
from forerun.planning.candidates import Candidate, Roles, uses_devices
from forerun.planning.planner import Plan
from forerun.planning.request import Request

_LAUNCHERS: Mapping[Framework, Launcher] = {
    "pytorch": "torchrun",
    "tensorflow": "tensorflow",
    "mxnet": "mxnet",
    "jax": "mpi",
    "mpi": "mpi",
}
# Programs that start the workers of another one.
_STARTERS = frozenset(
    {
        *("torchrun", "mpirun", "mpiexec", "orterun", "srun", "aprun", "jsrun"),
        *("horovodrun", "deepspeed", "accelerate", "dmlc-submit"),
    }
)
_MODULE = re.compile(r"torch\.distributed\.(run|launch)|accelerate\..*|deepspeed\..*|horovod\..*")


@dataclass(frozen=True, slots=True)
class Shape:
    """The processes of a job, and what each has."""

    launcher: Launcher
    nodes: int
    processes: int  # on each node
    cores: int  # of each process
    workers: int  # on each node, whoever starts them
    accelerators: int = 0  # of each node


def shape_of(
    plan: Plan,
    candidate: Candidate,
    words: Sequence[str],
    holes: Collection[str],
    *,
    one_machine: bool = False,
) -> Shape:
    """The processes of a candidate; with `one_machine` all of them are on one, whatever it says."""
    partition = plan.infrastructure.partition(candidate.partition)
    wanted = (plan.request, plan.space, partition, candidate.point, candidate.nodes)
    return shape_at(*wanted, words, holes, one_machine=one_machine)


def shape_at(
    request: Request,
    space: Space,
    partition: Partition,
    point: Mapping[str, Value],
    nodes: int,
    words: Sequence[str],
    holes: Collection[str],
    *,
    one_machine: bool = False,
) -> Shape:
    """The processes of a command at a point, on so many nodes of a partition."""
    roles, job, planned = Roles(space), request.job, nodes
    nodes = 1 if one_machine else planned
    name, framework = roles["workers"], request.application.framework
    total = nodes
    if job.ranks is not None:
        total = job.ranks
    elif name is not None:
        total = roles.count(point, "workers")
    elif framework == "mpi":
        total = planned * job.processes
    on_node, rest = divmod(total, nodes)
    if rest:
        expected = f"a multiple of its {nodes} nodes: each has as many; another candidate"
        raise InputError("workers of the job", total, expected)
    if nodes > 1 and starts_workers(words):
        expected = "the program alone: on several nodes forerun starts its workers"
        raise InputError("command", words[0], expected)
    launcher = _launcher(framework, words, total > 1, name in holes and nodes == 1)
    each = _cores(request, space, partition, point, on_node, launcher)
    processes = 1 if launcher == "plain" else on_node
    most = max(1, partition.processors.count * partition.processors.threads // processes)
    devices = 0
    if uses_devices(request, roles):
        devices = job.accelerators or on_node
    return Shape(
        launcher,
        nodes,
        processes,
        min(most, each * (on_node if launcher == "plain" else 1)),
        on_node,
        devices,
    )


def starts_workers(words: Sequence[str]) -> bool:
    """Whether a command is one that starts the workers of another."""
    names = [PurePath(word).name for word in words]
    if names[0] in _STARTERS:
        return True
    return "-m" in words[:-1] and bool(_MODULE.fullmatch(words[list(words).index("-m") + 1]))


def _launcher(
    framework: Framework, words: Sequence[str], several: bool, starts_its_own: bool
) -> Launcher:
    if starts_workers(words) or starts_its_own or not (several or framework == "mpi"):
        return "plain"
    if framework not in _LAUNCHERS:
        expected = f"one of {', '.join(_LAUNCHERS)}: who starts the workers is not known"
        raise InputError("framework of the application", framework, expected)
    return _LAUNCHERS[framework]


def _cores(
    request: Request,
    space: Space,
    partition: Partition,
    point: Mapping[str, Value],
    workers: int,
    launcher: Launcher,
) -> int:
    """What a worker of a node gets: as told, else its threads, else its share of the node.

    Runs that nobody told anything had the whole machine, and their times hold that.
    """
    roles, job = Roles(space), request.job
    if launcher == "plain" and workers == 1 and job.processes > 1:
        return job.processes * (job.cores_per_process or 1)  # slots, as MODAK has them
    if job.cores_per_process is not None:
        return job.cores_per_process
    if roles["threads"] is not None:
        return roles.count(point, "threads")
    if job.cores is not None:
        return max(1, job.cores // workers)
    if job.threads is not None or launcher == "mpi":
        return job.threads or 1
    return max(1, partition.processors.count * partition.processors.threads // workers)
