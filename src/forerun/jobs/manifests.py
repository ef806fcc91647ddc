"""What a cluster without job scripts is given: typed objects for Kubernetes, written as YAML.

    job_manifest(spec)           # batch/v1 Job; several nodes: with a Service that names its pods
    pytorch_job_manifest(spec)   # kubeflow.org/v1 PyTorchJob, where its operator is there
    skypilot_task(spec)          # a task of SkyPilot, for clouds
    left_out(spec, "job")        # what of a spec these cannot honour, a line each

What would make another job of it (an order of jobs, hosts of a cloud) is refused; what merely is
not done (mail, accounts) is left out, and said: by `left_out`, and at the head of what is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Literal

from forerun import __version__
from forerun.errors import InputError
from forerun.jobs import objects as k8s
from forerun.jobs.pods import UID, labels, literal, of_the_pod, template
from forerun.jobs.skypilot import skypilot_task
from forerun.jobs.spec import JobSpec
from forerun.jobs.targets import Target, job_name, left_out, refuse

__all__ = ["job_manifest", "left_out", "pytorch_job_manifest", "skypilot_task"]

PORT = 29500  # where the processes of a job find each other
ENDED_FROM_OUTSIDE = (137, 143)  # exit codes: by SIGKILL and by SIGTERM

_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_ARRAY = re.compile(r"0-(\d{1,6})(?:%(\d{1,6}))?", re.ASCII)
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)


def job_manifest(spec: JobSpec, record: bool = True) -> str:
    """A Job, as YAML. The folder keeps its output and times, which takes a shell in the image.

    Without `record` the words are run alone where nothing else is to be done, their output stays in
    the pod's log, and nobody but Kubernetes knows when they ran, to the second.
    """
    refuse(spec, "job")
    several = spec.nodes > 1
    tasks, at_once = _array(spec)
    words, own = _launched(spec)
    policy = None
    if spec.requeues:
        # A program that fails by itself would fail again; one that was ended may go on.
        codes = k8s.ExitCodes("main", "NotIn", ENDED_FROM_OUTSIDE)
        policy = k8s.FailurePolicy((k8s.FailureRule("FailJob", codes),))
    job = k8s.Job(
        _metadata(spec),
        k8s.JobBody(
            template(spec, "main", words, own, record),
            backoff_limit=spec.requeues,
            completions=tasks or spec.nodes,
            parallelism=at_once or spec.nodes,
            completion_mode="Indexed" if several or tasks else None,
            pod_failure_policy=policy,
        ),
    )
    service = k8s.Service(_metadata(spec), k8s.ServiceBody({UID: spec.uid}))
    return k8s.dumped([service, job] if several else [job], _head(spec, "job"))


def pytorch_job_manifest(spec: JobSpec, record: bool = True) -> str:
    """A PyTorchJob, as YAML: a master and workers that Kubeflow's operator tells of each other."""
    refuse(spec, "pytorchjob")
    if spec.launcher not in ("plain", "torchrun"):
        raise InputError("job, launcher", spec.launcher, "plain or torchrun for a PyTorchJob")
    own = _data(spec)
    words = _expanded(spec, own)
    if spec.launcher == "torchrun":
        words = ("torchrun", f"--nproc-per-node={spec.processes}", "--no-python", *words)
    elif spec.processes > 1:
        raise InputError("job, processes", spec.processes, "1, or torchrun")
    restart: Literal["ExitCode", "Never"] = "ExitCode" if spec.requeues else "Never"
    master = template(spec, "pytorch", words, own, record)
    replicas = {"Master": k8s.Replica(1, restart, master)}
    if spec.nodes > 1:
        worker = template(spec, "pytorch", words, own, record, first=False)
        replicas["Worker"] = k8s.Replica(spec.nodes - 1, restart, worker)
    body = k8s.PyTorchBody(replicas, str(spec.processes), k8s.RunPolicy(spec.requeues))
    return k8s.dumped([k8s.PyTorchJob(_metadata(spec), body)], _head(spec, "pytorchjob"))


def _head(spec: JobSpec, target: Target) -> list[str]:
    said = (f"Left out: {one}" for one in left_out(spec, target))
    return [f"Made by forerun {__version__}.", *said]


def _metadata(spec: JobSpec) -> k8s.Metadata:
    notes = {UID: spec.uid, "forerun/version": __version__, "forerun/name": spec.name}
    if spec.made_by:
        notes["forerun/made-by"] = "\n".join(spec.made_by)
    return k8s.Metadata(job_name(spec), labels(spec), notes)


def _launched(spec: JobSpec) -> tuple[tuple[str, ...], tuple[k8s.Variable, ...]]:
    """The words of a Job's pod as its framework wants to be started, and the variables for it."""
    name = job_name(spec)
    own = [*_data(spec)]
    if spec.nodes > 1:
        own.append(of_the_pod("FORERUN_NODE_RANK", _INDEX))
    if spec.array:
        own.append(of_the_pod("FORERUN_TASK", _INDEX))
    words = _expanded(spec, own)
    alone = spec.nodes == 1
    if spec.launcher == "torchrun":
        where = ["--standalone"] if alone else [
            f"--nnodes={spec.nodes}",
            "--node-rank=$(FORERUN_NODE_RANK)",
            f"--master-addr={name}-0.{name}",
            f"--master-port={PORT}",
        ]  # fmt: skip
        each = f"--nproc-per-node={spec.processes}"
        return ("torchrun", *where, each, "--no-python", *words), tuple(own)
    if spec.launcher == "mpi" and alone:
        # Open MPI would rather not be root's, which programs in images often are.
        root = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
        own += (k8s.Variable(one, "1") for one in root)
        return ("mpirun", "-np", str(spec.processes), *words), tuple(own)
    if spec.processes > 1:
        raise InputError("job, processes", spec.processes, "1 on Kubernetes, or torchrun or MPI")
    if spec.launcher in ("mpi", "mxnet") and not alone:
        raise InputError("job, nodes", spec.nodes, f"1 with {spec.launcher} on Kubernetes")
    if spec.launcher == "tensorflow" and not alone:
        workers = [f"{name}-{n}.{name}:{PORT}" for n in range(spec.nodes)]
        told = json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": 0}})
        # The index is not a text, and stands last: Kubernetes puts the pod's own there.
        own.append(k8s.Variable("TF_CONFIG", f"{told[:-3]}$(FORERUN_NODE_RANK)}}}}"))
    return words, tuple(own)


def _data(spec: JobSpec) -> tuple[k8s.Variable, ...]:
    return (k8s.Variable("FORERUN_DATA", literal(spec.staging.target)),) if spec.staging else ()


def _expanded(spec: JobSpec, own: Sequence[k8s.Variable]) -> tuple[str, ...]:
    """The words as Kubernetes takes them: `${NAME}` is its `$(NAME)` where that was asked for."""
    if not spec.expand:
        return tuple(map(literal, spec.words))
    known = {*spec.environment, *(one.name for one in own)}
    found = []
    for word in spec.words:
        parts = _VARIABLE.split(word)  # texts and names in turn
        for name in parts[1::2]:
            if name not in known:
                expected = f"a variable of the job: {', '.join(sorted(known)) or 'it has none'}"
                raise InputError("job, command", f"${{{name}}}", expected)
        *before, last = parts[::2]
        # What a $( follows: a $ at the end of such a text must not make $$( of it.
        texts = [*(literal(f"{one}$")[:-1] for one in before), literal(last)]
        names = [*(f"$({one})" for one in parts[1::2]), ""]
        found.append("".join(a + b for a, b in zip(texts, names, strict=True)))
    return tuple(found)


def _array(spec: JobSpec) -> tuple[int | None, int | None]:
    """How many tasks, and how many at once; a Job numbers them from 0."""
    if spec.array is None:
        return None, None
    if spec.nodes > 1:
        raise InputError("job, array", spec.array, "none on several nodes on Kubernetes")
    if not (match := _ARRAY.fullmatch(spec.array)):
        raise InputError("job, array", spec.array, "on Kubernetes 0-9 or 0-9%2: from 0, one by one")
    tasks = int(match[1]) + 1
    return tasks, min(int(match[2] or tasks), tasks) or 1
