"""What a deployment consists of before it is written: the script, and the record of what it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from forerun.deploying.record import Predicted, Record
from forerun.deploying.specs import job_spec, name_of
from forerun.errors import InputError
from forerun.factors import VARIANT
from forerun.jobs.spec import JobSpec
from forerun.planning.amounts import Amounts
from forerun.planning.candidates import Roles, source
from forerun.planning.estimates import Estimate
from forerun.planning.planner import Plan
from forerun.planning.plans import digest_of
from forerun.planning.reasons import Considered

BACKENDS = ("local", "slurm", "pbs", "kubernetes")
SKY = "sky"  # clouds: what is written is launched by SkyPilot itself
BESIDE = "beside"  # an image that is still to be built, from the recipes in the job's folder
_SCHEDULERS: dict[str, Literal["none", "slurm", "pbs"]] = {
    "local": "none",
    "slurm": "slurm",
    "pbs": "pbs",
}
_BEFORE = ("wait", "staging")  # parts of an estimate that are not the program's


@dataclass(frozen=True, slots=True)
class Made:
    """All of a deployment that is to be written."""

    spec: JobSpec
    script: str  # the very text that is submitted
    record: Record


def making(
    plan: Plan,
    candidate: int,
    folder: Path | None,
    backend: str | None,
    uid: str,
    image: str = "",
) -> Made:
    """The script and the record of a candidate, by its place in the plan.

    The image `BESIDE` is the one that is to be built from the recipes in the folder.
    """
    plan = replace(plan, request=plan.request.absolute())
    one = considered(plan, candidate)
    name = backend_name(plan, backend)
    scheduler = "none" if name == "local" else name
    there = (folder or Path(f"{name_of(plan.request)}-{uid[:8]}")).absolute().resolve()
    if image == BESIDE:
        image = image_beside(plan, there, uid)
    spec = job_spec(plan, one, there, uid, scheduler=scheduler, image=image)
    amounts = Amounts(plan.request, plan.space)
    point = one.candidate.point
    named = list(plan.request.application.named)
    partition = plan.infrastructure.partition(one.candidate.partition)
    record = Record(
        uid=uid,
        name=spec.name,
        words=spec.words,
        plan=digest_of(plan),
        request=plan.request.name,
        infrastructure=plan.infrastructure.name,
        candidate=candidate + 1,
        partition=one.candidate.partition,
        nodes=spec.nodes,
        backend=name,
        folder=str(there),
        script="job.yaml" if name in ("kubernetes", SKY) else "job.sh",
        output=spec.output,
        errors=spec.errors,
        image=spec.container.image if spec.container is not None else "",
        runtime=spec.container.runtime if spec.container is not None else "",
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        predicted=None if one.estimate is None else _predicted(one.estimate),
        cautions=() if one.estimate is None else one.estimate.cautions,
        study=None if plan.request.study is None else str(plan.request.study.absolute()),
        point=dict(point),
        variant=str(point.get(VARIANT, named[0] if len(named) == 1 else "")),
        steps=amounts.steps,
        repeats=amounts.repeats(point),
        startup=plan.request.startup or 0.0,
        apart=_apart(plan, one, spec),
        elsewhere=name == "local" and plan.infrastructure.scheduler != "none",
        alone=spec.exclusive or (name != "local" and spec.cores == _threads_of(plan, one)),
        node_memory=partition.memory,
    )
    return Made(spec, rendered(spec, name), record)


def considered(plan: Plan, candidate: int) -> Considered:
    """The candidate at a place; InputError where there is none."""
    if not 0 <= candidate < len(plan.considered):
        expected = f"a number from 1 to {len(plan.considered)}"
        raise InputError("--candidate", candidate + 1, expected)
    return plan.considered[candidate]


def backend_name(plan: Plan, backend: str | None) -> str:
    """The back end: as told, or the infrastructure's scheduler."""
    if backend is not None and backend not in (*BACKENDS, SKY):
        raise InputError("--on", backend, f"one of {', '.join((*BACKENDS, SKY))}")
    told = backend or plan.infrastructure.scheduler
    return "local" if told == "none" else told


def image_beside(plan: Plan, folder: Path, uid: str) -> str:
    """What the image is called that is built from the recipes in a folder."""
    if plan.infrastructure.container in ("apptainer", "singularity"):
        return str(folder / "image.sif")
    return f"localhost/{name_of(plan.request).lower()}:{uid[:8]}"


def rendered(spec: JobSpec, backend: str) -> str:
    """What is submitted: a script, or a manifest."""
    if backend in ("kubernetes", SKY):
        from forerun.jobs.kubernetes import has_pytorch_jobs
        from forerun.jobs.manifests import job_manifest, pytorch_job_manifest, skypilot_task

        if backend == SKY:
            return skypilot_task(spec)
        several = spec.nodes > 1 and spec.launcher == "torchrun"
        return (pytorch_job_manifest if several and has_pytorch_jobs() else job_manifest)(spec)
    from forerun.jobs.script import render

    return render(spec, _SCHEDULERS[backend])


def _predicted(estimate: Estimate) -> Predicted:
    before = {name: estimate.parts.get(name, 0.0) for name in _BEFORE}
    return Predicted(
        seconds=estimate.seconds,
        low=estimate.low,
        high=estimate.high,
        run=max(0.0, estimate.seconds - sum(before.values())),
        **before,
        memory_bytes=estimate.memory,
    )


def _threads_of(plan: Plan, one: Considered) -> int:
    processors = plan.infrastructure.partition(one.candidate.partition).processors
    return processors.count * processors.threads


def _apart(plan: Plan, one: Considered, spec: JobSpec) -> str:
    """Why the job's time is not like those of the study; empty where it is."""
    candidate, data = one.candidate, plan.request.data
    if spec.array is not None:
        return "an array is several runs"
    if spec.nodes != candidate.nodes:
        return f"its {candidate.nodes} nodes were one machine"
    if data is not None and candidate.storage and Roles(plan.space)["storage"] is None:
        measured = data.measured_at or source(data, plan.infrastructure)
        if measured != candidate.storage:
            return f"it read its data from {candidate.storage}, the study's runs from {measured}"
    return ""
