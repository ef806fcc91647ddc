"""Which image a candidate of a plan runs in: its framework, its levers, its application."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from forerun import levers
from forerun._documents import LARGEST
from forerun.compilers import Framework, variants
from forerun.deploying.image import ENVIRONMENT, Flavour, ImageSpec, Machine, plain_name
from forerun.errors import InputError
from forerun.factors import VARIANT
from forerun.infrastructure import Infrastructure, Partition
from forerun.measuring.holes import Template
from forerun.planning.candidates import Candidate
from forerun.planning.request import Application, Request
from forerun.workloads.environments import FRAMEWORKS

BASE = "docker.io/library/debian:bookworm-slim"
REQUIREMENTS = "requirements.txt"  # of an application: what it needs besides its framework
_MOST = 2_000  # files of an application
_LARGEST_OF_ALL = 64 * 2**20  # bytes of them together

_MACHINES: dict[str, Machine] = {"x86": "x86_64", "arm": "aarch64", "power": "ppc64le"}
_MODULES: dict[Framework, str] = {
    "pytorch": "torch",
    "tensorflow": "tensorflow",
    "mxnet": "mxnet",
    "jax": "jax",
}


@dataclass(frozen=True, slots=True)
class _Official:
    """The image that a framework's makers publish, for processors and for NVIDIA's accelerators."""

    image: str
    processors: str  # a tag; {} is the version
    accelerators: str


# PyTorch's image is one for both. JAX has none for processors.
_OFFICIAL: dict[Framework, _Official] = {
    "pytorch": _Official(
        "docker.io/pytorch/pytorch", "{}-cuda13.2-cudnn9-runtime", "{}-cuda13.2-cudnn9-runtime"
    ),
    "tensorflow": _Official("docker.io/tensorflow/tensorflow", "{}", "{}-gpu"),
    "mxnet": _Official("docker.io/mxnet/python", "{}_cpu_py3", "{}_gpu_cu112_py3"),
}
# For processors alone PyTorch has wheels of its own: a tenth of the size, and no CUDA.
_INDICES: dict[Framework, str] = {"pytorch": "https://download.pytorch.org/whl/cpu"}
_FOR_NVIDIA = {
    "tensorflow-cpu": "tensorflow[and-cuda]",
    "jax": "jax[cuda12]",
    "mxnet": "mxnet-cu112",
}
# What a framework loads that its wheels do not bring, and slim images do not have.
_LIBRARIES: dict[Framework, tuple[str, ...]] = {
    "mxnet": ("libgomp1",),
    "mpi": ("openmpi-bin",),
}
# Built from source where nothing else is asked for: with it go all arrays on the way to a network.
_BUILT = "numpy"
_TO_BUILD = {"numpy": ("libopenblas-dev", "pkg-config")}
_TO_RUN = {"numpy": ("libopenblas0-pthread",)}


def image_of(
    candidate: Candidate,
    request: Request,
    infrastructure: Infrastructure,
    flavour: Flavour = "pip",
    base: str = "",
    digest: str = "",
) -> ImageSpec:
    """The image of a candidate; `base` is a site's own instead of Debian's or the official one."""
    application = request.application
    partition = infrastructure.partition(candidate.partition)
    family = partition.processors.family
    if family not in _MACHINES:
        expected = f"those of {', '.join(_MACHINES)}"
        raise InputError("image", f"processors of {candidate.partition}", expected)
    _check_accelerators(partition, flavour, base)
    project = Path(application.directory or ".")
    command = _command(candidate, application)
    packages, version = _packages(application, partition, flavour, project)
    source = tuple(name for name in packages if plain_name(name) == _BUILT)
    if flavour == "source" and not source:
        raise InputError("image, flavour", "source", f"an application that uses {_BUILT}, or pip")
    built = source if flavour == "source" else ()
    return ImageSpec(
        name=_named(request.name),
        flavour=flavour,
        base=base or (_official(application, partition) if flavour == "official" else BASE),
        digest=digest,
        framework=application.framework,
        version=version,
        machine=_MACHINES[family],
        microarchitecture=partition.processors.microarchitecture,
        system=_system(application, candidate, command, built),
        build=tuple(one for name in built for one in _TO_BUILD[plain_name(name)]),
        packages=packages,
        source=built,
        index=_index(application, partition) if flavour != "official" else "",
        allocator=str(candidate.point.get("allocator", "glibc")),
        environment=_environment(candidate, application, command),
        files=tuple(_files(project, command)),
        labels={"forerun.partition": candidate.partition},
        test=_test(application, flavour, bool(packages)),
    )


def _check_accelerators(partition: Partition, flavour: Flavour, base: str) -> None:
    """InputError for accelerators that the wheels and images that are known here cannot use."""
    kind = partition.accelerators.kind if partition.accelerators else "nvidia"
    if kind != "nvidia" and not (flavour == "official" and base):
        expected = "the flavour official with a base image for them"
        raise InputError("image", f"{flavour} for {kind} accelerators", expected)


def _named(name: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("._-")[:64] or "image"


def _command(candidate: Candidate, application: Application) -> str:
    """The command that the candidate runs, with its holes."""
    named = application.named
    return named.get(str(candidate.point.get(VARIANT, "")), next(iter(named.values())))


def _environment(candidate: Candidate, application: Application, command: str) -> dict[str, str]:
    """What its levers set; a factor that the command has a hole for is none of them."""
    holes = Template.parse(command).holes
    found: dict[str, str] = {}
    for name, value in candidate.point.items():
        if levers.is_lever(name) and name not in holes and name != "allocator":
            found.update(levers.variables(name, value))
    if not application.commands:  # else each of them says by itself what it compiles with
        for one in variants(application.framework):
            if one.name == candidate.point.get(VARIANT):
                found.update(one.environment)
    return found


def _system(
    application: Application, candidate: Candidate, command: str, built: tuple[str, ...]
) -> tuple[str, ...]:
    found = set(_LIBRARIES.get(application.framework, ()))
    found.update(one for name in built for one in _TO_RUN[plain_name(name)])
    compiles = "inductor" in candidate.point.values() or "compile" in command
    if application.framework == "pytorch" and compiles:
        found |= {"g++", "python3-dev"}  # inductor writes C++ and has it compiled as it runs
    return tuple(sorted(found))


def _index(application: Application, partition: Partition) -> str:
    return "" if partition.accelerators else _INDICES.get(application.framework, "")


def _official(application: Application, partition: Partition) -> str:
    found = _OFFICIAL.get(application.framework)
    if found is None:
        expected = f"pip or source: there is no official image of {application.framework}"
        raise InputError("image, flavour", "official", expected)
    tag = found.accelerators if partition.accelerators else found.processors
    return f"{found.image}:{tag.format(_version(application))}"


def _version(application: Application) -> str:
    own = FRAMEWORKS.get(application.framework)
    return application.version.strip() or (own.version if own else "")


def _packages(
    application: Application, partition: Partition, flavour: Flavour, project: Path
) -> tuple[dict[str, str], str]:
    """Python's packages, those of the framework and the application's own; and its version."""
    own = FRAMEWORKS.get(application.framework)
    extra = pinned(project / REQUIREMENTS) if (project / REQUIREMENTS).is_file() else {}
    version = _version(application)
    if own is None:
        return extra, version
    pins = pinned(own.requirements)
    main = own.packages[0]
    if flavour == "official":
        kept = {plain_name(name) for name in pins}
        return {name: v for name, v in extra.items() if plain_name(name) not in kept}, version
    if version != own.version:  # what goes with ours may not go with that one
        pins = {main: version}
    if partition.accelerators is not None:
        pins = {_FOR_NVIDIA.get(name, name): pin for name, pin in pins.items()}
    named = {plain_name(name): name for name in pins}
    for name, pin in extra.items():
        if plain_name(name) == plain_name(main):
            version = pin
        pins[named.get(plain_name(name), name)] = pin
    return pins, version


def pinned(path: Path) -> dict[str, str]:
    """The packages and versions of a file of requirements; InputError for one with no version."""
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise InputError(str(path), f"more than {LARGEST} bytes", f"at most {LARGEST}")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise InputError(str(path), error, "lines of text") from None
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        told = line.partition("#")[0].strip()
        if not told:
            continue
        name, exactly, version = (part.strip() for part in told.partition("=="))
        if not exactly or not re.fullmatch(r"[0-9][A-Za-z0-9.+]*", version, re.ASCII):
            expected = "name==version: `pip freeze` writes such lines"
            raise InputError(f"{path}, line {number}", told, expected)
        found[name] = version
    return found


def _files(project: Path, command: str) -> Iterator[str]:
    """Python's files of the project, and whatever else of it the command names."""
    named = {os.path.normpath(word) for word in command.split() if not word.startswith("/")}
    count, size = 0, 0
    for folder, below, names in os.walk(project):
        inner = Path(folder)
        below[:] = sorted(n for n in below if not _is_foreign(inner / n))
        for name in sorted(names):
            path = inner / name
            relative = path.relative_to(project).as_posix()
            if (name.startswith(".") or path.suffix != ".py") and relative not in named:
                continue
            if not path.is_file():
                continue
            count, size = count + 1, size + path.stat().st_size
            if count > _MOST or size > _LARGEST_OF_ALL:
                found = f"more than {_MOST} files or {_LARGEST_OF_ALL // 2**20} MiB"
                expected = "a directory with little besides the program"
                raise InputError(f"image, files of {project}", found, expected)
            yield relative


# What lies in environments of Python, in deployments, and in jobs of campaigns.
_FOREIGN = ("pyvenv.cfg", "deployment.json", "job.sh")


def _is_foreign(folder: Path) -> bool:
    """Whether a folder is no part of a program: hidden, left by Python, an environment or a job."""
    hidden = folder.name.startswith(".") or folder.name == "__pycache__"
    return hidden or any((folder / name).exists() for name in _FOREIGN)


def _test(application: Application, flavour: Flavour, has_packages: bool) -> tuple[str, ...]:
    module = _MODULES.get(application.framework)
    bare = flavour == "official" and not has_packages
    python = ("/usr/bin/env", "python3") if bare else (f"{ENVIRONMENT}/bin/python",)
    if module is None:
        return (*python, "--version")
    shown = f"import {module}; print({module}.__version__)"
    return (*python, "-c", shown)
