"""What the blocks run in: a plan by short trials, images from forerun's recipes, and no image.

Everything is kept in one folder, so that a second start finds it:

    application/    the training script, the requests, and the studies of the trials
    bare/           the same wheels outside a container, for Debian's own Python
    plain/          the recipe of the plain image: no lever is pulled
    mnist-cnn/      the plan of a workload, and the recipe of its image; and so for the other
    storage/        images and containers of buildah and podman

No image can be pulled where there is no registry: the base image is a Debian that debootstrap made,
and the plain image stands in for the official one. The recipes ask no index but those that pip's
own settings name.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from system_parts import images

from forerun import levers
from forerun.deploying.choice import BASE, image_of
from forerun.deploying.context import write_context
from forerun.deploying.image import ImageSpec
from forerun.deploying.lock import lock_of
from forerun.errors import InputError
from forerun.factors import VARIANT, Point
from forerun.infrastructure import Infrastructure
from forerun.infrastructure.detection import machine
from forerun.measuring.holes import Template
from forerun.planning.candidates import Candidate
from forerun.planning.planner import Plan
from forerun.planning.plans import read_plan
from forerun.planning.request import Request

HERE = Path(__file__).parent
WORKLOADS = {"mnist-cnn": 300.0, "resnet-50": 300.0}  # and the seconds of their trials
ALLOCATORS = ("jemalloc", "tcmalloc")  # that the requests let plans choose
PLAIN = "plain"
SCRIPTS = (*("containers_train.py", "steps_networks.py", "steps_pytorch.py", "steps_rounds.py"),)
PYTHON = "/usr/bin/python3"  # Debian's, as in the images
STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{folder}/graph"
runroot = "{folder}/run"
"""


@dataclass(frozen=True)
class Work:
    """The folder with all that the blocks need."""

    folder: Path

    @property
    def application(self) -> Path:
        return self.folder / "application"

    @property
    def bare(self) -> Path:
        return self.folder / "bare"

    @property
    def storage(self) -> Path:
        return self.folder / "storage"

    @property
    def environment(self) -> dict[str, str]:
        """Of a process outside a container: as little as an image has."""
        return {"PATH": f"{self.bare / 'bin'}:{images.PATH}", "HOME": "/root", "LANG": "C.UTF-8"}

    @property
    def of_containers(self) -> dict[str, str]:
        """Of buildah and podman: a storage and settings of their own."""
        return {
            **os.environ,
            "CONTAINERS_CONF": str(self.storage / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self.storage / "storage.conf"),
            "BUILDAH_ISOLATION": "chroot",
            "TMPDIR": str(self.storage),
        }

    def request(self, workload: str) -> Path:
        return self.application / f"{workload}.yaml"


@dataclass(frozen=True)
class Setting:
    """A way to run a workload: the command's words, and what its levers set."""

    workload: str
    name: str  # plain or forerun
    candidate: Candidate
    request: Request

    @property
    def words(self) -> tuple[str, ...]:
        named = self.request.application.named
        variant = str(self.candidate.point.get(VARIANT, PLAIN))
        return Template.parse(named[variant]).fill(self.candidate.point)

    @property
    def variables(self) -> dict[str, str]:
        """What gives the levers their values outside a container."""
        found: dict[str, str] = {}
        for name, value in self.candidate.point.items():
            if levers.is_lever(name):
                found.update(levers.variables(name, value))
        return found

    @property
    def levers(self) -> dict[str, object]:
        """What the plan chose, as one says it."""
        point = self.candidate.point
        return {name: v for name, v in point.items() if levers.is_lever(name) or name == VARIANT}


def plain_setting(workload: str, request: Request, infrastructure: Infrastructure) -> Setting:
    """The workload as it is: nothing but its length is told."""
    partition = next(iter(infrastructure.partitions))
    fixed = {name: values[0] for name in request.fixed if (values := request.choices(name))}
    candidate = Candidate(Point({**fixed, VARIANT: PLAIN}), partition, 1)
    return Setting(workload, PLAIN, candidate, request)


def chosen_setting(workload: str, plan: Plan) -> Setting:
    """The workload as the plan has it."""
    return Setting(workload, "forerun", plan.chosen.candidate, plan.request)


def check() -> None:
    """InputError where this machine can build no images, or not run them."""
    if reason := images.why_not():
        raise InputError("images", reason, "buildah, debootstrap and root")
    for program in ("podman", "runc", PYTHON):
        if shutil.which(program) is None:
            raise InputError("images", f"no {program}", "Debian 12 with podman, runc and python3")
    for name in ALLOCATORS:
        levers.variables("allocator", name)  # or an InputError that says whose its library is


def prepare(folder: Path) -> Work:
    """The application, and the same wheels outside a container as in the images."""
    work = Work(folder.absolute())
    work.application.mkdir(parents=True, exist_ok=True)
    for name in SCRIPTS:
        shutil.copy(HERE / name, work.application)
    for workload in WORKLOADS:
        shutil.copy(HERE / "containers" / f"{workload}.yaml", work.application)
    first = next(iter(WORKLOADS))
    here = machine()
    write_recipe(plain_setting(first, Request.load(work.request(first)), here), here, work)
    if not (work.bare / "whole").exists():
        shutil.rmtree(work.bare, ignore_errors=True)
        images.tried([PYTHON, "-m", "venv", str(work.bare)])
        requirements = str(work.folder / PLAIN / "requirements.txt")
        pip = [str(work.bare / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        images.tried([*pip, "--requirement", requirements])
        (work.bare / "whole").touch()
    return work


def planned(work: Work, workload: str, seconds: float) -> Plan:
    """The plan of a workload; one that an earlier start made, or one by trials of so long."""
    path = work.folder / workload / "plan.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        words = [sys.executable, "-m", "forerun", "plan", str(work.request(workload))]
        paths = f"{work.bare / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            [*words, "--trial", f"{seconds:g}", "--output", str(path)],
            env={**os.environ, "PATH": paths},
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise InputError(workload, f"exit code {done.returncode}", "a plan; see above")
    return read_plan(path).plan


def image_spec(setting: Setting, infrastructure: Infrastructure) -> ImageSpec:
    """What forerun makes of a setting: an image with its wheels, its libraries and its levers."""
    spec = image_of(setting.candidate, setting.request, infrastructure, "pip")
    return replace(spec, name=PLAIN if setting.name == PLAIN else setting.workload, index="")


def write_recipe(setting: Setting, infrastructure: Infrastructure, work: Work) -> Path:
    """The folder that the image of a setting is built in."""
    spec = image_spec(setting, infrastructure)
    folder = work.folder / spec.name
    folder = folder if setting.name == PLAIN else folder / "image"
    kept = folder / "made-from.json"
    now = fingerprint(spec, work.application)
    if not kept.exists() or kept.read_text() != now:
        write_context(spec, work.application, folder, lock_of(spec, work.application))
        kept.write_text(now)
    return folder


def fingerprint(spec: ImageSpec, project: Path) -> str:
    """By which a recipe is known to be the one that is wanted: its files and its settings."""
    found = hashlib.sha256(repr(spec).encode())
    for name in spec.files:
        found.update((project / name).read_bytes())
    return found.hexdigest()


class Images:
    """Builds the images that are missing, and has a container of each workload and setting."""

    def __init__(self, work: Work) -> None:
        self._work = work
        work.storage.mkdir(parents=True, exist_ok=True)
        (work.storage / "containers.conf").write_text(images.CONFIG)
        (work.storage / "storage.conf").write_text(STORAGE.format(folder=work.storage))
        (work.storage / "policy.json").write_text(json.dumps(images.POLICY))
        self._builder = images.Builder(work.storage, BASE, work.of_containers)

    def podman(self, *words: str) -> str:
        return images.tried(["podman", *words], env=self._work.of_containers).stdout

    def has(self, image: str) -> bool:
        words = ["podman", "image", "exists", image]
        return subprocess.run(words, env=self._work.of_containers).returncode == 0

    def base(self) -> None:
        """The base image, under the name that recipes ask for."""
        if self.has(BASE):
            return
        root = images.root_of(self._work.folder)
        self._builder.import_base(root)
        shutil.rmtree(root)

    def built(self, context: Path, name: str) -> str:
        """The image of a recipe, under a name that says which."""
        tag = (context / "made-from.json").read_text()[:12]
        image = f"localhost/{name}:{tag}"
        if not self.has(image):
            self.base()
            self._builder.build(context, f"{name}:{tag}")
        return image

    def container(self, image: str, setting: Setting) -> str:
        """A container that runs the workload, by turns, each time that it is started."""
        name = f"forerun-{setting.workload}-{setting.name}"
        how = ("--interactive", "--pull=never", "--network=host", "--log-driver=none")
        self.remove(name)
        self.podman("create", "--name", name, *how, image, *setting.words, "--turns")
        return name

    def remove(self, container: str) -> None:
        """End and forget a container."""
        self.podman("rm", "--force", "--ignore", "--time", "1", container)

    def variables(self, image: str) -> Mapping[str, str]:
        """What an image sets."""
        told = json.loads(self.podman("image", "inspect", image))[0]["Config"].get("Env") or []
        pairs = (cast(str, one).partition("=") for one in told)
        return {name: value for name, _, value in pairs}
