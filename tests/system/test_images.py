"""Images built from the very bytes of the recipes, and what runs in them."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from images import Builder, builder, root_of, why_not

from forerun.deploying.choice import image_of
from forerun.deploying.context import write_context
from forerun.deploying.image import ImageSpec
from forerun.deploying.lock import Lock, lock_of
from forerun.factors import Point
from forerun.infrastructure import Infrastructure
from forerun.planning.candidates import Candidate
from forerun.planning.request import Request
from forerun.workloads.environments import FRAMEWORKS

BASE = "docker.io/library/debian:bookworm-slim"
LEVERS = {"threads": 2, "affinity": "close", "allocator": "jemalloc", "precision": "float32"}
TRAIN = ("--chunks", "1", "--chunk-size", "64", "--batch", "16", "--kernel", "3")
LINES = re.compile(
    r"network lenet: 60382 parameters, sizes 26 13 11 5\n"
    r"epoch 1 of 1: loss \d\.\d{4}, \d+\.\d{3} s\n"
    r"rank 0: weights [0-9a-f]{16}\n"
)


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a small Debian, made once."""
    if reason := why_not():
        pytest.skip(reason)
    return root_of(tmp_path_factory.mktemp("debian"))


@pytest.fixture(scope="module")
def building(debian: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    with builder(tmp_path_factory.mktemp("buildah"), debian) as made:
        yield made


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("project")
    shutil.copy(FRAMEWORKS["pytorch"].script, found / "train.py")
    return found


@pytest.fixture(scope="module")
def chosen(project: Path) -> ImageSpec:
    """What a plan with levers makes of a PyTorch training on this machine's kind."""
    processors = {"microarchitecture": "x86_64_v2", "cores": 2}
    here = {"nodes": 1, "processors": processors, "memory": "4 GiB"}
    infrastructure = Infrastructure.model_validate({"name": "here", "partitions": {"cpu": here}})
    application = {
        "command": "python train.py --batch {batch}",
        "framework": "pytorch",
        "directory": str(project),
    }
    request = Request.model_validate({"name": "lenet", "application": application})
    candidate = Candidate(Point({"batch": 16, **LEVERS}), "cpu", 1)
    return image_of(candidate, request, infrastructure, "pip")


@pytest.fixture(scope="module")
def context(
    chosen: ImageSpec, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, ImageSpec, Lock]:
    """The folder with both recipes, locked."""
    folder = tmp_path_factory.mktemp("image")
    spec = replace(chosen, index="")  # pip's settings here name where its wheels are
    lock = lock_of(spec, project)
    write_context(spec, project, folder, lock)
    return folder, spec, lock


def test_wheels_in_a_dockerfile(building: Builder, context: tuple[Path, ImageSpec, Lock]) -> None:
    folder, spec, lock = context
    said = building.build(folder, "lenet")
    torch = next(one for one in lock.packages if one.name == "torch")
    assert f"\n{torch.version}\n" in said  # its own test
    printed = building.run("lenet", "python", "/app/train.py", *TRAIN)
    assert LINES.fullmatch(printed), printed
    shown = "import os, sys; print(os.environ['OMP_NUM_THREADS'], open('/proc/self/maps').read())"
    inside = building.run("lenet", "python", "-c", shown)
    assert inside.startswith("2 ")
    assert "/libjemalloc.so.2" in inside
    frozen = building.run("lenet", "pip", "freeze", "--all").splitlines()
    assert {f"{one.name}=={one.version}" for one in lock.packages} == {
        one.lower().replace("_", "-") for one in frozen if not one.startswith("pip==")
    }
    told = json.loads(building.buildah("inspect", "--type", "image", "localhost/lenet"))
    labels = told["Docker"]["config"]["Labels"]
    assert labels["forerun.lock"] == f"sha256:{lock.digest_of_all}"
    assert labels["org.opencontainers.image.base.name"] == spec.base


def test_one_package_from_its_source(building: Builder, tmp_path: Path) -> None:
    spec = ImageSpec(
        name="built",
        flavour="source",
        base=BASE,
        microarchitecture="x86_64_v2",
        packages={"regex": "2026.11.9"},
        source=("regex",),
        test=("/opt/venv/bin/python", "-c", "import regex; print(regex.__version__)"),
    )
    write_context(spec, tmp_path, tmp_path / "image", lock_of(spec))
    said = building.build(tmp_path / "image", "built")
    assert "Building wheel for regex" in said
    binary = "import regex._regex as r; print(r.__file__)"
    path = building.run("built", "python", "-c", binary).strip()
    shown = f"print(open({path!r}, 'rb').read().count(b'-march=x86-64-v2'))"
    assert int(building.run("built", "python", "-c", shown)) > 0
    without = "import shutil; print(shutil.which('gcc'))"
    assert building.run("built", "python", "-c", without) == "None\n"
