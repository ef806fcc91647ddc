"""The pod that a node's share of a job becomes: its container, what it may use and what it sees.

No word of a spec is ever read by a shell. Kubernetes itself replaces `$(NAME)` in commands and
variables, so that what looks like it is written `$$(NAME)`.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path, PurePosixPath

from forerun import __version__, quantities
from forerun.errors import InputError
from forerun.jobs import objects as k8s
from forerun.jobs.spec import JobSpec
from forerun.jobs.targets import job_name

UID = "forerun/uid"
MANAGED_BY = {"app.kubernetes.io/managed-by": "forerun"}
SCRIPT = Path(__file__).with_name("pod.sh")

_HOST = "kubernetes.io/hostname"
_DEVICES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "intel": "gpu.intel.com/i915"}
_IMAGE = re.compile(
    r"[a-z0-9](?:[a-z0-9._:-]*[a-z0-9])?(?:/[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?",
    re.ASCII,
)
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", re.ASCII)
_DOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)


def labels(spec: JobSpec) -> dict[str, str]:
    """By which all that belongs to a job is found."""
    version = re.sub(r"[^A-Za-z0-9_.-]", "-", __version__)
    return {**MANAGED_BY, "app.kubernetes.io/version": version, UID: spec.uid}


def template(
    spec: JobSpec,
    name: str,
    words: tuple[str, ...],  # as Kubernetes takes them
    own: tuple[k8s.Variable, ...],  # variables that they need
    record: bool,
    first: bool = True,  # whether it may be the pod that keeps the times
) -> k8s.PodTemplate:
    """The pod of a node."""
    command, told = _command(spec, words, record, first)
    paths = _paths(spec, record)
    pod = k8s.PodSpec(
        (
            k8s.Container(
                name,
                _image(spec),
                command,
                working_dir=_directory(spec, record),
                env=(*_environment(spec, (*own, *told)), *own, *told),
                resources=_resources(spec),
                volume_mounts=tuple(
                    k8s.VolumeMount(f"path-{n}", path, read_only or None)
                    for n, (path, read_only) in enumerate(paths)
                ),
                security_context=_user(),
            ),
        ),
        restart_policy=None if name == "pytorch" else "Never",
        active_deadline_seconds=_deadline(spec),
        termination_grace_period_seconds=math.ceil(spec.warning) if spec.requeues else None,
        subdomain=job_name(spec) if spec.nodes > 1 and name == "main" else None,
        priority_class_name=_priority(spec),
        node_selector=_selected(spec),
        affinity=_affinity(spec),
        automount_service_account_token=False,
        volumes=tuple(
            k8s.Volume(f"path-{n}", k8s.HostPath(path, "File" if _is_file(path) else "Directory"))
            for n, (path, _) in enumerate(paths)
        ),
    )
    # Istio's sidecar would outlive the program, and the job would never end.
    kept = {"sidecar.istio.io/inject": "false"}
    return k8s.PodTemplate(k8s.Metadata(labels=labels(spec), annotations=kept), pod)


def _user() -> k8s.SecurityContext:
    """Who submits: what a pod may read and write of the nodes is then what that user may.

    Root stays whom the image names, for root's number would give more rights, and not fewer.
    """
    if os.getuid() == 0:
        return k8s.SecurityContext(allow_privilege_escalation=False)
    return k8s.SecurityContext(False, os.getuid(), os.getgid())


def _deadline(spec: JobSpec) -> int | None:
    """Seconds until a pod is asked to end. Of the pod, for those of a Job count while it waits."""
    if spec.walltime is None:
        return None
    if not spec.requeues:
        return math.ceil(spec.walltime)
    if spec.walltime <= spec.warning:
        walltime, warning = quantities.seconds(spec.walltime), quantities.seconds(spec.warning)
        raise InputError("job, walltime", walltime, f"more than the warning of {warning}")
    return math.ceil(spec.walltime - spec.warning)


def _command(
    spec: JobSpec, words: tuple[str, ...], record: bool, first: bool
) -> tuple[tuple[str, ...], tuple[k8s.Variable, ...]]:
    """What the container runs, and the variables that the fixed script needs."""
    if spec.source or spec.build:
        raise InputError("job, source", spec.source or "build", "an image that holds the program")
    if not (record or spec.prologue or spec.epilogue or spec.staging):
        return words, ()
    script = k8s.Block(literal(SCRIPT.read_text(encoding="utf-8")))
    todo: list[str] = []
    told: list[k8s.Variable] = []
    if spec.staging:
        ways = (_mounted("job, staging", one) for one in (spec.staging.source, spec.staging.target))
        todo += ["stage", *map(literal, ways), spec.uid]
    for one in spec.prologue:
        todo += ["before", str(len(one)), *map(literal, one)]
    todo += ["run", str(len(words)), *words]
    for one in spec.epilogue:
        todo += ["after", str(len(one)), *map(literal, one)]
    if record:
        told = [
            k8s.Variable("FORERUN_JOB", job_name(spec)),
            k8s.Variable("FORERUN_NODES", str(spec.nodes)),
            of_the_pod("FORERUN_NODE", "spec.nodeName"),
            k8s.Variable("FORERUN_OUTPUT", literal(_in_folder(spec, spec.output))),
        ]
        if spec.errors:
            told.append(k8s.Variable("FORERUN_ERRORS", literal(_in_folder(spec, spec.errors))))
        if first:
            told.append(k8s.Variable("FORERUN_FOLDER", literal(spec.folder)))
    return ("/bin/sh", "-c", script, "forerun", *todo), tuple(told)


def _in_folder(spec: JobSpec, path: str) -> str:
    folder = spec.folder.rstrip("/")
    inside = path.removeprefix(f"{folder}/")
    if inside.startswith("/") or ".." in inside.split("/"):
        raise InputError("job, output", path, "a file in the job's folder on Kubernetes")
    return f"{folder}/{inside}"


def of_the_pod(name: str, path: str) -> k8s.Variable:
    """A variable that Kubernetes takes from a field of the pod."""
    return k8s.Variable(name, value_from=k8s.ValueFrom(k8s.FieldRef(path)))


def literal(text: str) -> str:
    """The text that Kubernetes makes this one of: `$(NAME)` would be a variable, `$$` a `$`."""
    return re.sub(r"\$(?=[$(])", "$$", text)


def _environment(spec: JobSpec, own: tuple[k8s.Variable, ...]) -> tuple[k8s.Variable, ...]:
    taken = {one.name for one in own} & set(spec.environment)
    if taken:
        raise InputError("job, environment", min(taken), "a name that forerun does not set itself")
    return tuple(k8s.Variable(name, literal(value)) for name, value in spec.environment.items())


def _image(spec: JobSpec) -> str:
    if spec.container is None:
        raise InputError("job, container", "none", "an image, which Kubernetes runs everything in")
    image = spec.container.image.removeprefix("docker://")
    if not _IMAGE.fullmatch(image) or len(image) > 512:
        raise InputError("job, image", image, "a name in a registry, such as ghcr.io/me/train:1")
    return image


def _resources(spec: JobSpec) -> k8s.Resources:
    """Of a pod, which is a node's share of the job."""
    amounts: dict[str, str] = {}
    cores = (spec.cores or 1) * spec.processes
    if spec.cores is not None:
        amounts["cpu"] = str(cores)
    memory = max(spec.memory or 0, (spec.memory_per_core or 0) * cores)
    if memory:
        amounts["memory"] = _quantity(memory)
    if spec.accelerators:
        if spec.accelerator not in _DEVICES:
            raise InputError("job, accelerator", spec.accelerator, f"one of {', '.join(_DEVICES)}")
        amounts[_DEVICES[spec.accelerator]] = str(spec.accelerators)
    return k8s.Resources(amounts, amounts)


def _quantity(count: int) -> str:
    for unit, size in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if count % size == 0:
            return f"{count // size}{unit}"
    return str(count)


def _paths(spec: JobSpec, record: bool) -> list[tuple[str, bool]]:
    """What of the nodes the pod sees under its own name, and whether it may only read it."""
    found: dict[str, bool] = {}
    made = None
    if spec.staging:
        found[_mounted("job, staging", spec.staging.source)] = True
        # The pod makes it: a directory that the node makes for it is root's.
        made = _mounted("job, staging", spec.staging.target)
        found[_mounted("job, staging", str(PurePosixPath(made).parent))] = False
    if record:
        found[_mounted("job, folder", spec.folder)] = False
    if spec.directory:
        found[_mounted("job, directory", spec.directory)] = False
    for one in spec.container.binds if spec.container else ():
        if (path := _mounted("job, binds", one)) != made:
            found[path] = False
    return sorted(found.items())


def _is_file(path: str) -> bool:
    """Whether it is one here, and so on the nodes, which have mounted the same."""
    try:
        return Path(path).is_file()
    except OSError:  # a name that is too long for one
        return False


def _mounted(where: str, path: str) -> str:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not path.startswith("/") or not parts or ".." in parts or ":" in path:
        expected = "an absolute path below /, without .. and : on Kubernetes"
        raise InputError(where, path, expected)
    return "/" + "/".join(parts)


def _directory(spec: JobSpec, record: bool) -> str | None:
    return spec.directory or (spec.folder if record else None)


def _priority(spec: JobSpec) -> str | None:
    if spec.qos and not _DOMAIN.fullmatch(spec.qos):
        raise InputError("job, qos", spec.qos, "the name of a priority class on Kubernetes")
    return spec.qos


def _selected(spec: JobSpec) -> dict[str, str]:
    """Features with a value, as labels of nodes."""
    found: dict[str, str] = {}
    for feature in spec.features:
        key, equals, value = feature.partition("=")
        prefix, slash, name = key.rpartition("/")
        right = _LABEL.fullmatch(name) and (not slash or _DOMAIN.fullmatch(prefix))
        if not right or (equals and value and not _LABEL.fullmatch(value)):
            expected = "a label of nodes on Kubernetes, such as zone=a or example.org/fast"
            raise InputError("job, features", feature, expected)
        if equals and found.setdefault(key, value) != value:
            raise InputError("job, features", feature, f"one value for {key}")
    return found


def _affinity(spec: JobSpec) -> k8s.Affinity | None:
    nodes = [k8s.Requirement(one, "Exists") for one in spec.features if "=" not in one]
    if spec.hosts:
        if strange := [one for one in spec.hosts if not _LABEL.fullmatch(one)]:
            raise InputError("job, hosts", strange[0], "the name of a node")
        nodes.append(k8s.Requirement(_HOST, "In", spec.hosts))
    own = {UID: spec.uid} if spec.nodes > 1 else {}
    apart = MANAGED_BY if spec.exclusive else own
    if not nodes and not apart:
        return None
    term = k8s.PodAffinityTerm(k8s.LabelSelector(apart), _HOST)
    selector = k8s.NodeSelector((k8s.NodeSelectorTerm(nodes),))
    return k8s.Affinity(
        k8s.NodeAffinity(selector) if nodes else None,
        k8s.PodAntiAffinity((term,)) if apart else None,
    )
