"""Images built from the very bytes of the recipes, and what runs in them, under Slurm too."""

import json
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import apptainer
import images
import pytest
from apptainer import Apptainer
from beds import small_cluster
from images import Builder, builder, folders_of_pip, root_of
from slurm import Cluster

from forerun.cli import main
from forerun.deploying.choice import image_of
from forerun.deploying.context import write_context
from forerun.deploying.deployment import Deployment
from forerun.deploying.image import ImageSpec
from forerun.deploying.lock import Lock, lock_of
from forerun.factors import Factor, Space
from forerun.planning.plans import read_plan
from forerun.study import Run, Study
from forerun.workloads.environments import FRAMEWORKS

NAME = "library/debian:bookworm-slim"
TRAIN = "python /app/train.py --chunks 1 --chunk-size 64 --kernel 3 --batch"
REQUEST = """
name: lenet
application:
  command: "{train} {{batch}}"
  framework: pytorch
  directory: {project}
study: lenet.db
fixed: {{batch: 16, threads: 2, allocator: jemalloc}}
target: {{nodes: 1}}
job: {{walltime: 10min, variables: [PATH, APPTAINER_DROP_CAPS]}}
"""
CLUSTER = """
name: test
scheduler: slurm
container: apptainer
partitions:
  debug:
    nodes: 4
    processors: {microarchitecture: x86_64_v2, cores: 2}
    memory: 3 GiB
"""
LINES = re.compile(
    r"network lenet: 60382 parameters, sizes 26 13 11 5\n"
    r"epoch 1 of 1: loss \d\.\d{4}, \d+\.\d{3} s\n"
    r"rank 0: weights [0-9a-f]{16}\n"
)
# What a program finds inside: the levers of the plan.
SHOWN = "import os; print(os.environ['OMP_NUM_THREADS'], open('/proc/self/maps').read())"


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a registry on this machine has its one image in."""
    return tmp_path_factory.mktemp("registry") / "layout"


@pytest.fixture(scope="module")
def base(layout: Path) -> Iterator[str]:
    """The name of a site's own base image: it says where the registry is that has it."""
    with apptainer.registry(layout) as port:
        yield f"127.0.0.1:{port}/{NAME}"


@pytest.fixture(scope="module")
def building(base: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    if reason := images.why_not():
        pytest.skip(reason)
    root = root_of(tmp_path_factory.mktemp("debian"), compiled=False)
    with builder(tmp_path_factory.mktemp("buildah"), root, base) as made:
        shutil.rmtree(root)
        yield made


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apptainer]:
    if reason := apptainer.why_not():
        pytest.skip(reason)
    try:
        program = apptainer.unpacked()
    except RuntimeError as error:
        pytest.skip(f"Apptainer cannot be had here: {error}")
    made = Apptainer(program, tmp_path_factory.mktemp("apptainer"))
    yield made
    shutil.rmtree(made.folder)


@dataclass(frozen=True)
class Image:
    """A folder with both recipes of a plan's image, and what they were written from."""

    folder: Path
    spec: ImageSpec
    lock: Lock
    plan: Path


@pytest.fixture(scope="module")
def image(base: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """What a plan with levers makes of a PyTorch training, locked."""
    folder = tmp_path_factory.mktemp("planned")
    (folder / "project").mkdir()
    shutil.copy(FRAMEWORKS["pytorch"].script, folder / "project" / "train.py")
    space = Space(map(Factor.parse, ("batch=16,32", "threads=1,2", "allocator=glibc,jemalloc")))
    with Study.create(folder / "lenet.db", space) as study:
        for point in space.grid():
            for seconds in (9.5, 10.5):
                study.add(Run(point, {"seconds": seconds / float(point["threads"])}))
    request = REQUEST.format(train=TRAIN, project=folder / "project")
    (folder / "request.yaml").write_text(request)
    (folder / "cluster.yaml").write_text(CLUSTER)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        assert main(["plan", "request.yaml", "--on", "cluster.yaml", "-o", "plan.json"]) == 0
        plan = read_plan(Path("plan.json")).plan
        chosen = image_of(plan.chosen.candidate, plan.request, plan.infrastructure, "pip", base)
        # pip's settings in the base image name where its wheels are
        spec = replace(chosen, index="")
        lock = lock_of(spec, folder / "project")
        write_context(spec, folder / "project", folder / "image", lock)
        yield Image(folder / "image", spec, lock, folder / "plan.json")


@pytest.fixture(scope="module")
def built(
    building: Builder, runs: Apptainer, image: Image, layout: Path
) -> Iterator[tuple[Path, str]]:
    """The image that Apptainer makes of its definition, and what it said meanwhile."""
    building.push(layout)
    file = image.folder.parent / "lenet.sif"
    yield file, runs.build(image.folder, file, folders_of_pip())
    file.unlink()  # it has more than a gigabyte


def check_packages(frozen: str, lock: Lock) -> None:
    """pip itself, which Debian brings, and what the lock has; nothing else."""
    found = {line.lower().replace("_", "-") for line in frozen.splitlines()}
    found = {line for line in found if not line.startswith("pip==")}
    assert found == {f"{one.name}=={one.version}" for one in lock.packages}


def version_of(name: str, lock: Lock) -> str:
    return next(one.version for one in lock.packages if one.name == name)


def test_wheels_in_a_dockerfile(building: Builder, image: Image) -> None:
    said = building.build(image.folder, "lenet")
    assert f"\n{version_of('torch', image.lock)}\n" in said  # its own test
    printed = building.run("lenet", *TRAIN.split(), "16")
    assert LINES.fullmatch(printed), printed
    inside = building.run("lenet", "python", "-c", SHOWN)
    assert inside.startswith("2 ")
    assert "/libjemalloc.so.2" in inside
    check_packages(building.run("lenet", "pip", "freeze", "--all"), image.lock)
    told = json.loads(building.buildah("inspect", "--type", "image", "localhost/lenet"))
    labels = told["Docker"]["config"]["Labels"]
    assert labels["forerun.lock"] == f"sha256:{image.lock.digest_of_all}"
    assert labels["org.opencontainers.image.base.name"] == image.spec.base


def test_wheels_in_a_definition(runs: Apptainer, image: Image, built: tuple[Path, str]) -> None:
    file, said = built
    assert f"\n{version_of('torch', image.lock)}\n" in said  # its own test
    printed = runs.run(file, *TRAIN.split(), "16")
    assert LINES.fullmatch(printed), printed
    inside = runs.run(file, "python", "-c", SHOWN)
    assert inside.startswith("2 ")
    assert "/libjemalloc.so.2" in inside
    check_packages(runs.run(file, "pip", "freeze", "--all"), image.lock)
    labels = runs.labels(file)
    assert labels["forerun.lock"] == f"sha256:{image.lock.digest_of_all}"
    assert labels["org.opencontainers.image.base.name"] == image.spec.base
    # It was built of the very bytes that were written; comments before the first line are not kept.
    written = (image.folder / "image.def").read_text()
    assert runs.definition(file) == written[written.index("BootStrap: ") :]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    yield from small_cluster()


def test_a_plan_runs_in_its_image_under_slurm(
    built: tuple[Path, str],
    runs: Apptainer,
    image: Image,
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("PATH", "APPTAINER_DROP_CAPS"):
        monkeypatch.setenv(name, runs.environment[name])
    monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
    words = ["deploy", str(image.plan), "--image", str(built[0]), "-o", str(tmp_path / "run")]
    began = time.monotonic()
    assert main([*words, "--wait"]) == 0
    assert not Path("/app/train.py").exists()  # it is in the image alone
    output = (tmp_path / "run" / "job.out").read_text()
    assert LINES.fullmatch(output), output
    script = (tmp_path / "run" / "job.sh").read_text()
    assert f" {built[0]} " in script
    made = Deployment.open(tmp_path / "run")
    assert made.record.result is not None
    assert (made.record.result.status, made.record.result.stored) == ("ok", "time")
    with Study.open(image.plan.parent / "lenet.db") as study:
        run = study.runs()[-1]
    assert run.point == {"batch": 16, "threads": 2, "allocator": "jemalloc"}
    assert run.seconds is not None
    assert 1 < run.seconds < time.monotonic() - began


def test_one_package_from_its_source(building: Builder, tmp_path: Path) -> None:
    spec = ImageSpec(
        name="built",
        flavour="source",
        base=building.base,
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
