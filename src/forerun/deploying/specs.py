"""From a candidate of a plan to a job: the command at its point, on what it was planned for."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from forerun import __version__, levers, quantities
from forerun.compilers import variants
from forerun.deploying.launching import Shape, shape_of
from forerun.errors import InputError, one_line
from forerun.factors import VARIANT
from forerun.infrastructure import Infrastructure, Partition
from forerun.jobs.command import Command
from forerun.jobs.spec import Container, JobSpec, Staging, commands
from forerun.measuring.holes import Template
from forerun.measuring.program import Program
from forerun.planning.candidates import Candidate, Roles, source
from forerun.planning.planner import Plan
from forerun.planning.plans import digest_of
from forerun.planning.reasons import Considered
from forerun.planning.request import Request

WALLTIME = 1.5  # of the upper end of the prediction, that a job may take
SHORTEST = 300.0  # seconds that it may take at least: a minute is what schedulers count in
MEMORY = 2.0  # of what workers need at most by the model: a job that is killed is lost
ROOM = 0.9  # of a node's memory, beyond which all of it is asked for, by saying nothing
DATA = "FORERUN_DATA"  # the variable that says where the data lies
_DEFAULT = "job"  # the name of a job that has none
_ALLOCATOR = "allocator"  # the lever whose variable names a file


def job_spec(
    plan: Plan,
    one: Considered,
    folder: Path,
    uid: str,
    *,
    scheduler: str | None = None,
    image: str = "",
) -> JobSpec:
    """The job of a candidate; InputError where the plan does not say all that it needs.

    `scheduler` is the infrastructure's own; with `none` all of it runs on one machine. `image`
    goes before the request's.
    """
    request, candidate, job = plan.request, one.candidate, plan.request.job
    application, scheduler = request.application, scheduler or plan.infrastructure.scheduler
    partition = plan.infrastructure.partition(candidate.partition)
    template = template_of(request, candidate)
    image = image or application.image
    command = command_of(plan, candidate, in_image=bool(image))
    shape = shape_of(
        plan, candidate, command.words, template.holes, one_machine=scheduler == "none"
    )
    staging, data = _data(plan, candidate, uid)
    # Torque has one list for hosts and features, and so have requests in MODAK's language.
    meant = [name for name in job.hosts if name in partition.features]
    environment = {**command.environment, **data}
    if job.threads is not None and Roles(plan.space)["threads"] is None:
        environment = {**levers.variables("threads", job.threads), **environment}
    return JobSpec(
        name=name_of(request),
        words=command.words,
        folder=str(folder),
        uid=uid,
        expand=application.expand,
        directory=application.directory,
        environment=environment,
        launcher=shape.launcher,
        nodes=shape.nodes,
        processes=shape.processes,
        cores=shape.cores,
        accelerators=shape.accelerators,
        accelerator=partition.accelerators.kind
        if shape.accelerators and partition.accelerators
        else "",
        memory=_memory(one, request, partition, shape),
        memory_per_core=None if job.memory_per_core is None else int(job.memory_per_core),
        walltime=walltime_of(one, request, partition),
        queue=queue_of(plan.infrastructure, candidate.partition, scheduler),
        features=features_of(plan.infrastructure, candidate.partition, (*job.features, *meant)),
        hosts=tuple(name for name in job.hosts if name not in meant),
        exclusive=job.exclusive,
        account=job.account,
        qos=job.qos,
        array=job.array,
        after=job.after,
        begin=job.begin,
        output=_in_folder(folder, "output", job.output),
        errors=None if job.errors is None else _in_folder(folder, "errors", job.errors),
        mail_to=job.mail_to,
        mail_on=job.mail_on,
        copy_environment=job.environment,
        variables=job.variables,
        prologue=commands("job.prologue", job.prologue),
        epilogue=commands("job.epilogue", job.epilogue),
        source=application.source,
        build=commands("application.build", application.build),
        staging=staging,
        container=_container(plan, image, folder, staging, data),
        requeues=job.requeues,
        made_by=_made_by(plan, one),
    )


def _in_folder(folder: Path, name: str, path: str) -> str:
    """What a job prints stays in its folder: elsewhere it could be taken for keys or commands."""
    inside = path.removeprefix(f"{folder}/")
    if inside.startswith("/") or ".." in inside.split("/"):
        raise InputError(f"job.{name}", path, "a file in the job's folder, such as job.out")
    return inside


def name_of(request: Request) -> str:
    """The job's name: as told, or the request's, of what a scheduler takes."""
    if request.job.name != _DEFAULT:
        return request.job.name
    return plain(request.name) or _DEFAULT


def plain(text: str) -> str:
    """A text as a name that every scheduler takes; empty where nothing of it is left."""
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", text).strip("-.+")[:64]


def template_of(request: Request, candidate: Candidate) -> Template:
    """The command that a candidate's variant names, with its holes."""
    named = request.application.named
    variant = str(candidate.point.get(VARIANT, ""))
    text = named.get(variant) or (next(iter(named.values())) if len(named) == 1 else None)
    if text is None:
        listed = ", ".join(named)
        raise InputError(f"the command of {VARIANT} {variant}", "none", f"one of {listed}")
    return Template.parse(text)


def command_of(plan: Plan, candidate: Candidate, *, in_image: bool = False) -> Command:
    """The words at the candidate's point, and the environment of its levers and its compiler.

    InputError for a factor that nothing sets: something else than was planned would be run. An
    image has the allocator's library at a place of its own, and sets that itself.
    """
    template, point = template_of(plan.request, candidate), candidate.point
    roles = Roles(plan.space)
    where = {VARIANT, *(roles[role] for role in ("partition", "storage", "nodes", "workers"))}
    pulled = []
    for name, factor in plan.space.items():
        if name in template.holes or name in where:
            continue
        if levers.is_lever(name):
            if not (in_image and name == _ALLOCATOR):
                pulled.append(name)
        elif len(factor.values) > 1:
            expected = f"a hole {{{name}}} in the command {template.text}"
            raise InputError(f"factor {name}", "no hole", expected)
    for hole in template.holes:
        if hole not in point:
            expected = f"a factor of the plan ({', '.join(point) or 'none'})"
            raise InputError(f"command {template.text}", f"the hole {{{hole}}}", expected)
    program = Program(template, environment=_compiled(plan, candidate), levers=tuple(pulled))
    return program.command(point)


def _compiled(plan: Plan, candidate: Candidate) -> dict[str, str]:
    """The environment of a compiler that is not a command of its own."""
    application = plan.request.application
    wanted = candidate.point.get(VARIANT)
    if wanted is None or wanted in application.commands:
        return {}
    for one in variants(application.framework):
        if one.name == wanted:
            if one.needs:
                expected = f"a command of its own: it needs {one.needs}"
                raise InputError(f"factor {VARIANT}", wanted, expected)
            return {name: _literal(value) for name, value in one.environment.items()}
    return {}


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def walltime_of(one: Considered, request: Request, partition: Partition) -> float | None:
    """Seconds that the job may take: as told, else the prediction's upper end with a margin."""
    if request.job.walltime is not None:
        return request.job.walltime
    limit = partition.limits.walltime
    if one.estimate is None:
        return limit
    own = one.estimate.high - one.estimate.parts.get("wait", 0.0)
    wanted = max(SHORTEST, math.ceil(WALLTIME * own / 60) * 60.0)
    return wanted if limit is None else min(wanted, limit)


def _memory(one: Considered, request: Request, partition: Partition, shape: Shape) -> int | None:
    """Bytes of each node: as told, else what the workers need with a margin; None: all of it."""
    if request.job.memory is not None:
        return int(request.job.memory)
    if one.estimate is None or one.estimate.memory is None or request.job.memory_per_core:
        return None
    need = MEMORY * shape.workers * one.estimate.memory
    return math.ceil(need) if need < ROOM * partition.memory else None


def queue_of(infrastructure: Infrastructure, partition: str, scheduler: str) -> str | None:
    """What a scheduler calls a partition; None where it has no name for it."""
    if scheduler == "none":
        return None
    # A partition's own name is one of the scheduler's where it is described as that; Kubernetes
    # has no queues.
    described = scheduler == infrastructure.scheduler and scheduler != "kubernetes"
    return infrastructure.partition(partition).queue or (partition if described else None)


def features_of(
    infrastructure: Infrastructure, partition: str, asked: Sequence[str] = ()
) -> tuple[str, ...]:
    """What was asked for; and the partition's own where they alone tell it from another one."""
    partitions = infrastructure.partitions
    own = partitions[partition]
    queues = [one.queue or name for name, one in partitions.items()]
    shared = queues.count(own.queue or partition) > 1
    return tuple(dict.fromkeys((*asked, *(own.features if shared else ()))))


def _data(plan: Plan, candidate: Candidate, uid: str) -> tuple[Staging | None, dict[str, str]]:
    """How the data comes to where it is read, or where it lies already."""
    data, stores = plan.request.data, plan.infrastructure.storage
    if data is None or not stores:
        return None, {}
    origin = source(data, plan.infrastructure)
    path = str(PurePosixPath(stores[origin].path or "/", data.path)) if data.path else ""
    if not candidate.staged:
        return None, {DATA: path} if path else {}
    to = stores[candidate.storage].path
    if not path or not to:
        what = f"storage.{candidate.storage}.path" if path else "data.path"
        expected = f"where it lies: the plan brings data from {origin} to {candidate.storage}"
        raise InputError(what, "nothing", expected)
    return Staging(path, str(PurePosixPath(to, f"forerun-{uid}"))), {}


def _container(
    plan: Plan, image: str, folder: Path, staging: Staging | None, data: dict[str, str]
) -> Container | None:
    runtime = plan.infrastructure.container
    if not image:
        return None
    if runtime == "none":
        expected = "apptainer, singularity, docker or podman: container in its description"
        raise InputError(f"container runtime of {plan.infrastructure.name}", runtime, expected)
    directory = plan.request.application.directory
    beside = Path(directory, image)
    image = str(beside) if beside.exists() else image
    places = (str(folder), directory, staging.target if staging else data.get(DATA, ""))
    return Container(runtime, image, tuple(dict.fromkeys(filter(None, places))))


def _made_by(plan: Plan, one: Considered) -> tuple[str, ...]:
    """What a reader of the script wants to know."""
    setting = ", ".join(f"{name} {value}" for name, value in one.candidate.setting.items())
    lines = [
        f"made by forerun {__version__}",
        f"plan {plan.request.name} on {plan.infrastructure.name}, sha256 {digest_of(plan)}",
        setting,
    ]
    if one.estimate is not None:
        takes = quantities.seconds(one.estimate.seconds)
        between = quantities.between(one.estimate.low, one.estimate.high)
        lines.append(f"predicted to take {takes}; 90 % interval {between}")
    return tuple(map(one_line, lines))
