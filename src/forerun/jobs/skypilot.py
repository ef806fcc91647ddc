"""A job as a task of SkyPilot: for clouds, which lend machines for as long as it takes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from forerun import __version__
from forerun.errors import InputError
from forerun.jobs import quoting
from forerun.jobs.objects import Block, dumped
from forerun.jobs.spec import JobSpec
from forerun.jobs.targets import job_name, left_out, refuse

PORT = 29500
GRACE = 30  # seconds between asking a program to end and ending it
# Features that say what a cloud's machine must be.
_ASKED = {"infra", "instance_type", "accelerator"}
# SkyPilot replaces variables in paths, and its older releases write values between double quotes.
_PATH = re.compile(r"(?:/|[a-z0-9]{2,8}://)[A-Za-z0-9_./@+,~=: -]{0,1023}", re.ASCII)
_UNSAFE = frozenset('"$`\\!')
_IMAGE = re.compile(r"[a-z0-9][A-Za-z0-9._:/@-]{0,511}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Recovery:
    """What becomes of a job whose machine is taken away, or that fails."""

    strategy: str
    max_restarts_on_errors: int


@dataclass(frozen=True, slots=True)
class Machine:
    """What each node must have."""

    infra: str | None
    instance_type: str | None
    accelerators: str | None
    cpus: str | None
    memory: str | None  # GiB
    image_id: str | None
    labels: Mapping[str, str]
    job_recovery: Recovery | None


@dataclass(frozen=True, slots=True)
class Task:
    """A task."""

    name: str
    workdir: str | None
    num_nodes: int
    resources: Machine
    envs: Mapping[str, str]
    file_mounts: Mapping[str, str] = field(default_factory=dict)
    setup: str | None = None
    run: str = ""


def skypilot_task(spec: JobSpec) -> str:
    """A task, as YAML, for `sky launch`. Its times are not seen: nothing comes back from it."""
    refuse(spec, "skypilot")
    task = Task(
        job_name(spec),
        _workdir(spec),
        spec.nodes,
        _machine(spec),
        _variables(spec),
        _mounts(spec),
        Block(_lines(["set -euo pipefail", *map(_quoted, spec.build)])) if spec.build else None,
        Block(_run(spec)),
    )
    said = [f"Left out: {one}" for one in left_out(spec, "skypilot")]
    return dumped([task], [f"Made by forerun {__version__}.", *spec.made_by, *said], spelled=str)


def _machine(spec: JobSpec) -> Machine:
    asked: dict[str, str] = {}
    for feature in spec.features:
        key, _, value = feature.partition("=")
        if key not in _ASKED or not value or key in asked:
            expected = "infra=…, instance_type=… or accelerator=…, each once, for SkyPilot"
            raise InputError("job, features", feature, expected)
        asked[key] = value
    accelerator = asked.get("accelerator")
    if spec.accelerators and not accelerator:
        expected = "the cloud's name of it as a feature, such as accelerator=A100"
        raise InputError("job, accelerator", spec.accelerator, expected)
    cores = (spec.cores or 1) * spec.processes
    memory = max(spec.memory or 0, (spec.memory_per_core or 0) * cores)
    recovery = Recovery("EAGER_NEXT_REGION", spec.requeues) if spec.requeues else None
    return Machine(
        asked.get("infra"),
        asked.get("instance_type"),
        f"{accelerator}:{spec.accelerators or 1}" if accelerator else None,
        f"{cores}+" if spec.cores else None,
        f"{math.ceil(memory / 2**30)}+" if memory else None,
        _image(spec),
        {"forerun-uid": spec.uid},
        recovery,
    )


def _image(spec: JobSpec) -> str | None:
    if spec.container is None:
        return None
    image = spec.container.image.removeprefix("docker://")
    if not _IMAGE.fullmatch(image):
        raise InputError("job, image", image, "a name in a registry, such as ghcr.io/me/train:1")
    return f"docker:{image}"


def _workdir(spec: JobSpec) -> str | None:
    """The directory that is brought along, and that the commands run in."""
    given = [one for one in (spec.directory, spec.source) if one]
    if len(given) > 1:
        raise InputError("job, source", spec.source, "nothing beside a directory for SkyPilot")
    return _path("job, directory", given[0]) if given else None


def _path(where: str, path: str) -> str:
    if not _PATH.fullmatch(path) or (where == "job, directory" and path[0] != "/"):
        expected = "an absolute path of letters, digits, blanks and . _ / @ + , ~ = : -"
        raise InputError(where, path, expected)
    return path


def _variables(spec: JobSpec) -> dict[str, str]:
    own = {"FORERUN_DATA": spec.staging.target} if spec.staging else {}
    for name, value in spec.environment.items():
        if name in own or name.startswith("SKYPILOT_"):
            raise InputError("job, environment", name, "a name that nothing else sets")
        if not value or _UNSAFE & set(value):
            expected = 'a text without " $ ` \\ and ! for SkyPilot'
            raise InputError(f"job, environment {name}", value, expected)
    return {**spec.environment, **own}


def _mounts(spec: JobSpec) -> dict[str, str]:
    found: dict[str, str] = {}
    if spec.staging:
        target = spec.staging.target
        found[_path("job, staging", target)] = _path("job, staging", spec.staging.source)
    for one in spec.container.binds if spec.container else ():
        found.setdefault(_path("job, binds", one), one)
    if strange := [one for one in found if one[0] != "/"]:
        raise InputError("job, staging", strange[0], "an absolute path to bring data to")
    return found


def _run(spec: JobSpec) -> str:
    """The script of every node, for bash: each word is quoted."""
    limit = [] if spec.walltime is None else [_timeout(spec)]
    before = [*limit, *_launcher(spec)]
    words = (quoting.words if before else quoting.command)(spec.words, spec.expand)
    command = " ".join([*before, words])
    after = [f"{_quoted(one)} || echo 'epilogue failed' >&2" for one in spec.epilogue]
    start = ["set -euo pipefail", *map(_quoted, spec.prologue)]
    return _lines([*start, "code=0", f"{command} || code=$?", *after, 'exit "$code"'])


def _timeout(spec: JobSpec) -> str:
    assert spec.walltime is not None
    grace = math.ceil(spec.warning) if spec.requeues else GRACE
    return f"timeout --kill-after={grace} {math.ceil(spec.walltime)}"


def _launcher(spec: JobSpec) -> list[str]:
    alone = spec.nodes == 1
    if spec.launcher == "torchrun":
        where = [
            '--nnodes="$SKYPILOT_NUM_NODES"',
            '--node-rank="$SKYPILOT_NODE_RANK"',
            "--master-addr=\"${SKYPILOT_NODE_IPS%%$'\\n'*}\"",
            f"--master-port={PORT}",
        ]
        each = f"--nproc-per-node={spec.processes}"
        return ["torchrun", *(["--standalone"] if alone else where), each, "--no-python"]
    if spec.launcher == "mpi" and alone:
        return ["mpirun", "-np", str(spec.processes)]
    if not alone and spec.launcher != "plain":
        raise InputError("job, nodes", spec.nodes, f"1 with {spec.launcher} for SkyPilot")
    if spec.processes > 1:
        raise InputError("job, processes", spec.processes, "1, or torchrun, for SkyPilot")
    return []


def _quoted(words: tuple[str, ...]) -> str:
    return quoting.command(words, expand=False)


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
