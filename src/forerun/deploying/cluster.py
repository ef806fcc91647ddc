"""A partition of a cluster as the place where a campaign's runs are made: each is a job.

A job gets what a plan's would: so many nodes, processes, cores and devices as its point needs. Its
nodes are its own, for runs that share one would time each other.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from forerun import __version__
from forerun.compilers import Framework
from forerun.deploying.launching import Shape, shape_at
from forerun.deploying.running import JobRunner
from forerun.deploying.specs import features_of, plain, queue_of
from forerun.errors import InputError, JobError, one_line
from forerun.factors import Point, Role, Space
from forerun.infrastructure import Infrastructure, Partition
from forerun.jobs.backend import Backend, backend_of
from forerun.jobs.command import CLEANUP, Command
from forerun.jobs.spec import JobSpec
from forerun.measuring.domain import Domain
from forerun.measuring.opening import Opened
from forerun.measuring.outputs import output_directory
from forerun.measuring.program import Program
from forerun.measuring.progress import words_of
from forerun.measuring.runner import Task
from forerun.planning.candidates import Roles, check_roles, needed
from forerun.planning.request import Request

MOST_SLOTS = 4  # jobs at a time where nothing is said
MARGIN = 60.0  # seconds of wall time beyond the time-out, for what is around the run
PREPARING = 600.0  # and for what prepares it
_LOOKED_AT = 500  # points that are tried before anything is run
_SCHEDULERS = ("slurm", "pbs", "none")

Programs = Mapping[str, Program]


class Cluster:
    """Where jobs are sent to: one partition, or those that a factor names."""

    sees_to: frozenset[Role] = frozenset({"nodes", "workers", "partition"})

    def __init__(
        self,
        infrastructure: Infrastructure,
        partition: str | None = None,
        framework: Framework = "other",
    ) -> None:
        if infrastructure.scheduler not in _SCHEDULERS:
            expected = f"one of {', '.join(_SCHEDULERS)} to measure with"
            where = f"scheduler of {infrastructure.name}"
            raise InputError(where, infrastructure.scheduler, expected)
        self.infrastructure = infrastructure
        self.partition = _partition(infrastructure, partition)
        # As a plan is asked for, so that its jobs and these get the same.
        application = {"command": "measured", "framework": framework}
        self._request = Request.model_validate({"application": application})
        self._known: dict[tuple[object, ...], str] = {}  # why some points do not fit, or that

    @property
    def name(self) -> str:
        """The cluster and the partition."""
        return f"{self.infrastructure.name}, partition {self.partition}"

    @property
    def scheduler(self) -> str:
        """What jobs are handed to; `none`: this machine runs them as processes."""
        return self.infrastructure.scheduler

    @property
    def backend(self) -> Backend:
        """The same, to be spoken to."""
        return backend_of(self.scheduler)

    def check_scheduler(self) -> None:
        """InputError where nobody takes jobs here, or does not know the partition."""
        backend, limits = self.backend, []
        backend.check()
        with suppress(JobError):  # what cannot be asked is told when the first job is refused
            limits = [limit.queue for limit in backend.limits()]
        queue = queue_of(self.infrastructure, self.partition, self.scheduler)
        if queue is not None and limits and queue not in limits:
            where = f"{self.name}: the queue"
            raise InputError(where, queue, f"one that {backend.name} has: {', '.join(limits)}")

    def check(self, space: Space, programs: Programs) -> None:
        """InputError for what no job can do, and where nobody could start the workers."""
        check_roles(space)
        factor = Roles(space)["partition"]
        for name in space[factor].values if factor is not None else ():
            self.infrastructure.partition(str(name))
        for program in programs.values():
            if program.marker is not None and not program.marker.captures:
                expected = "a group that captures seconds: of a job nobody notes when lines come"
                raise InputError("marker", program.marker.pattern, expected)
        for point in Domain(space).draw(_LOOKED_AT, 0):
            if not self.why_not(space, programs, point):
                for program in programs.values():
                    self._shape(space, program, point, program.over(space).command(point))

    def why_not(self, space: Space, programs: Programs, point: Point) -> str:
        """Why the partition has no room for a point; empty where it has."""
        del programs  # whatever is run, what it is run on is the same
        roles = Roles(space)
        named = [roles[role] for role in ("workers", "nodes", "threads", "partition", "device")]
        key = tuple(point[name] for name in named if name is not None)
        if key not in self._known:
            self._known[key] = self._problem(roles, point)
        return self._known[key]

    def _problem(self, roles: Roles, point: Point) -> str:
        name, partition = self._partition(roles, point)
        nodes, why_not = needed(self._request, name, partition, point, roles)
        if why_not:
            return why_not
        if nodes > 1 and self.scheduler == "none":
            return f"{nodes} nodes, where without a scheduler there is one machine"
        workers = roles.count(point, "workers")
        if roles["workers"] is not None and workers % nodes:
            return f"{workers} workers cannot be shared out evenly over {nodes} nodes"
        return ""

    def runner(self, opened: Opened, slots: int | None) -> JobRunner:
        """What makes the runs of a study here."""
        study = opened.study.path

        def spec(task: Task, folder: Path) -> JobSpec:
            program = opened.programs[task.variant]
            return self._spec(opened.space, program, task, folder, study)

        at_a_time = slots or self._slots(opened.space, opened.programs)
        return JobRunner(spec, self.backend, at_a_time, output_directory(study.absolute()))

    def _slots(self, space: Space, programs: Programs) -> int:
        """As many jobs as the nodes have room for, if they are the smallest."""
        roles, most = Roles(space), 1
        for point in Domain(space).draw(_LOOKED_AT, 0):
            if not self.why_not(space, programs, point):
                name, partition = self._partition(roles, point)
                nodes, _ = needed(self._request, name, partition, point, roles)
                most = max(most, partition.nodes // nodes)
        return 1 if self.scheduler == "none" else min(MOST_SLOTS, most)

    def _partition(self, roles: Roles, point: Point) -> tuple[str, Partition]:
        factor = roles["partition"]
        name = self.partition if factor is None else str(point[factor])
        return name, self.infrastructure.partition(name)

    def _shape(self, space: Space, program: Program, point: Point, command: Command) -> Shape:
        roles = Roles(space)
        name, partition = self._partition(roles, point)
        nodes, _ = needed(self._request, name, partition, point, roles)
        return shape_at(
            self._request,
            space,
            partition,
            point,
            nodes,
            command.words,
            program.template.holes,
            one_machine=self.scheduler == "none",
        )

    def _spec(
        self, space: Space, program: Program, task: Task, folder: Path, study: Path
    ) -> JobSpec:
        command = task.command
        assert command is not None
        name, partition = self._partition(Roles(space), task.point)
        shape = self._shape(space, program, task.point, command)
        # A warm-up warms only what the run uses: by a launcher it would be on some of the nodes.
        warmups = task.warmups if shape.launcher == "plain" else 0
        devices = partition.accelerators
        return JobSpec(
            name=plain(study.stem) or "measure",
            words=command.words,
            folder=str(folder),
            uid=task.uid,
            directory=str(command.directory or Path.cwd()),
            environment=command.environment,
            launcher=shape.launcher,
            nodes=shape.nodes,
            processes=shape.processes,
            cores=shape.cores,
            accelerators=shape.accelerators,
            accelerator=devices.kind if shape.accelerators and devices else "",
            walltime=_walltime(command, warmups, partition.limits.walltime),
            queue=queue_of(self.infrastructure, name, self.scheduler),
            features=features_of(self.infrastructure, name),
            # No request says who pays; of what sbatch heeds beside a script, it is told this alone.
            account=os.environ.get("SBATCH_ACCOUNT") if self.scheduler == "slurm" else None,
            exclusive=True,
            copy_environment=True,  # as a run of this machine has it
            prologue=_before(command, warmups),
            epilogue=_after(command),
            made_by=_made_by(study, task),
        )


def _partition(infrastructure: Infrastructure, asked: str | None) -> str:
    """The partition that was asked for, or the default one, or the first."""
    if asked is not None:
        infrastructure.partition(asked)
        return asked
    if not infrastructure.partitions:
        raise InputError(infrastructure.name, "boards alone", "partitions to measure on")
    marked = [name for name, one in infrastructure.partitions.items() if one.default]
    return (marked or list(infrastructure.partitions))[0]


def _before(command: Command, warmups: int) -> tuple[tuple[str, ...], ...]:
    """What is done before the run: each warm-up is all that a run is."""
    around = (command.prepare, command.words, command.cleanup) * warmups
    return tuple(filter(None, (*around, command.prepare)))


def _after(command: Command) -> tuple[tuple[str, ...], ...]:
    """What cleans up; after a minute it is ended, as anywhere."""
    return (("timeout", f"{CLEANUP:.0f}", *command.cleanup),) if command.cleanup else ()


def _walltime(command: Command, warmups: int, limit: float | None) -> float | None:
    """Seconds that the job may take: the run's own limit with room, or the partition's."""
    if command.timeout is None:
        return limit
    around = MARGIN + (PREPARING if command.prepare else 0.0)
    wanted = (1 + warmups) * command.timeout + around
    return wanted if limit is None else min(wanted, limit)


def _made_by(study: Path, task: Task) -> tuple[str, ...]:
    made = (f"made by forerun {__version__}", f"a run of {study.absolute()}", words_of(task.point))
    return tuple(map(one_line, made))
