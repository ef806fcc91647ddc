"""The recipe of an image: a Dockerfile and an Apptainer definition of the same, through hpccm.

    spec = ImageSpec("lenet", "pip", "docker.io/library/debian:bookworm-slim", …)
    render(spec, "docker")                       # what is asked for, by version
    render(spec, "apptainer", lock_of(spec))     # and what that was, by hash

Both formats say the same in the same order: base image, Debian's packages, Python's packages in an
environment of their own, the variables, the application, labels, and a test of the whole.
"""

from __future__ import annotations

import shlex
from typing import Any

from forerun import __version__
from forerun.deploying.blocks import Blocks, Format, blocks
from forerun.deploying.image import ENVIRONMENT, OWN, ImageSpec, plain_name
from forerun.deploying.lock import Lock

FILES: dict[Format, str] = {"docker": "Dockerfile", "apptainer": "image.def"}
REQUIREMENTS = "requirements.txt"  # beside the recipe, where there is a lock
APPLICATION = "app"  # beside the recipe: the folder with the application's files
_DISTRIBUTION = "ubuntu22"  # hpccm knows Debian by no name of its own; both have apt-get
_PIP = ("--no-cache-dir", "--disable-pip-version-check")
_BUILDER = "build"  # the stage in which packages are built, whose compilers nobody needs later
_COMPILERS = ("g++", "gcc", "make")


def render(spec: ImageSpec, form: Format, lock: Lock | None = None) -> str:
    """The recipe of an image in one format; with a lock, of the very packages that it names."""
    if lock is not None:
        lock.check(spec)
    with blocks(form, spec.machine) as make:
        stages = [_with_compilers(spec, make, lock)] if spec.source else []
        stages.append(_image(spec, form, make, lock))
    return "\n\n".join(stages) + "\n"


def _with_compilers(spec: ImageSpec, make: Blocks, lock: Lock | None) -> str:
    """The stage in which Python's packages are built; nothing else of it is kept."""
    compilers = {*_COMPILERS, *spec.build, *(() if spec.is_python else ("python3-dev",))}
    return make.stage(
        make("comment", _made_by(spec)),
        make("baseimage", image=spec.image, _distro=_DISTRIBUTION, _as=_BUILDER),
        make("packages", apt=sorted({*spec.system_packages, *compilers})),
        *_python(spec, make, lock),
    )


def _image(spec: ImageSpec, form: Format, make: Blocks, lock: Lock | None) -> str:
    layers: list[Any] = [] if spec.source else [make("comment", _made_by(spec))]
    layers.append(make("baseimage", image=spec.image, _distro=_DISTRIBUTION))
    if spec.system_packages:
        layers.append(make("packages", apt=list(spec.system_packages)))
    if spec.source:
        layers.append(make("copy", _from=_BUILDER, src=ENVIRONMENT, dest=ENVIRONMENT))
    else:
        layers += _python(spec, make, lock)
    # Not while the image is made: a library that is not there yet cannot be loaded first.
    layers.append(make("environment", variables=_quoted(_variables(spec)), _export=False))
    if spec.files:
        layers.append(make("copy", src=APPLICATION, dest=spec.directory))
        layers.append(make("workdir", directory=spec.directory))
    labels = _labels(spec, lock)
    layers.append(make("label", metadata=_quoted(labels) if form == "docker" else labels))
    if spec.test:
        layers.append(make("shell", commands=[shlex.join(spec.test)], chdir=False, _test=True))
    if spec.entry:
        layers.append(make("runscript", commands=[shlex.join(spec.entry)]))
    return make.stage(*layers)


def _python(spec: ImageSpec, make: Blocks, lock: Lock | None) -> list[Any]:
    """The environment with Python's packages."""
    if not spec.has_environment:
        return []
    # The official images have their framework in their own Python, and not always ensurepip.
    options = "--without-pip --system-site-packages " if spec.flavour == "official" else ""
    made = make("shell", commands=[f"python3 -m venv {options}{ENVIRONMENT}"])
    if not spec.packages:
        return [made]
    pip = f"{_settings(spec)}{ENVIRONMENT}/bin/python -m pip"
    common = {"pip": pip, "args": list(_PIP), "ospackages": []}
    if lock is not None:
        return [made, make("pip", requirements=REQUIREMENTS, wd=OWN, **common)]
    packages = [f"{name}=={version}" for name, version in sorted(spec.packages.items())]
    return [made, make("pip", packages=packages, install_args=_choices(spec), **common)]


def _settings(spec: ImageSpec) -> str:
    """Variables of pip alone: what compilers are told, and that official images have the rest."""
    if spec.flavour == "official":
        return "PIP_NO_DEPS=1 "
    if not spec.source:
        return ""
    # The last of them leaves the flags in the libraries, where `readelf -p` finds them.
    flags = shlex.quote(f"{spec.flags} -frecord-gcc-switches")
    return f"CFLAGS={flags} CXXFLAGS={flags} "


def _choices(spec: ImageSpec) -> list[str]:
    """What pip may install: wheels, but of what is built from source nothing else."""
    words = ["--only-binary", ":all:"]
    for name in sorted(map(plain_name, spec.source)):
        words += ["--no-binary", name]
    return [*words, "--extra-index-url", spec.index] if spec.index else words


def _variables(spec: ImageSpec) -> dict[str, str]:
    path = {"PATH": f"{ENVIRONMENT}/bin:$PATH"} if spec.has_environment else {}
    return {**spec.variables, **path}


def _quoted(table: dict[str, str]) -> dict[str, str]:
    """Values in double quotes: a spec has none with a character that these do not hold."""
    return {name: f'"{value}"' for name, value in table.items()}


def _labels(spec: ImageSpec, lock: Lock | None) -> dict[str, str]:
    own = {
        "org.opencontainers.image.title": spec.name,
        "org.opencontainers.image.base.name": spec.base,
        "org.opencontainers.image.base.digest": spec.digest,
        "forerun.version": __version__,
        "forerun.flavour": spec.flavour,
        "forerun.framework": f"{spec.framework} {spec.version}".strip(),
        "forerun.microarchitecture": spec.microarchitecture,
        "forerun.lock": f"sha256:{lock.digest_of_all}" if lock is not None else "",
    }
    return {name: value for name, value in {**spec.labels, **own}.items() if value}


def _made_by(spec: ImageSpec) -> str:
    what = f"{spec.framework} {spec.version}".strip()
    return f"Made by forerun {__version__}: image {spec.name}, {what}, flavour {spec.flavour}."
