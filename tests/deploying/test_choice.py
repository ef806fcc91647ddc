"""The image that a candidate of a plan runs in."""

from pathlib import Path
from typing import Any, get_args

import pytest

from forerun.deploying.choice import image_of, pinned
from forerun.deploying.image import Flavour, ImageSpec
from forerun.errors import InputError
from forerun.factors import Point, Value
from forerun.infrastructure import Infrastructure
from forerun.planning.candidates import Candidate
from forerun.planning.request import Request


def partition(microarchitecture: str, **more: Any) -> dict[str, Any]:
    processors = {"microarchitecture": microarchitecture, "cores": 4}
    return {"nodes": 2, "processors": processors, "memory": "16 GiB", **more}


CLUSTER = Infrastructure.model_validate(
    {
        "name": "c",
        "partitions": {
            "cpu": partition("zen3"),
            "arm": partition("neoverse_v1"),
            "gpu": partition("icelake", accelerators={"kind": "nvidia"}),
            "amd": partition("zen3", accelerators={"kind": "amd"}),
            "old": partition("sparc"),
        },
    }
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("import layers\n")
    (tmp_path / "layers").mkdir()
    (tmp_path / "layers" / "__init__.py").write_text("")
    (tmp_path / "settings.json").write_text("{}")
    (tmp_path / "data.bin").write_bytes(b"0" * 100)
    for name in (".git", "env", "__pycache__", "run-1", "job-7"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "hook.py").write_text("")
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    (tmp_path / "run-1" / "deployment.json").write_text("{}")
    (tmp_path / "job-7" / "job.sh").write_text("")
    (tmp_path / ".secret.py").write_text("")
    return tmp_path


def image(
    project: Path,
    point: dict[str, Value] | None = None,
    where: str = "cpu",
    flavour: Flavour = "pip",
    **application: Any,
) -> ImageSpec:
    told = {
        "command": "python train.py --settings settings.json --batch {batch}",
        "framework": "pytorch",
        "directory": str(project),
    }
    if "commands" in application:
        del told["command"]
    request = Request.model_validate({"name": "Le Net", "application": {**told, **application}})
    candidate = Candidate(Point({"batch": 64, **(point or {})}), where, 1)
    return image_of(candidate, request, CLUSTER, flavour)


def test_the_application_is_its_programs_and_what_the_command_names(project: Path) -> None:
    found = image(project)
    assert found.name == "le-net"
    assert set(found.files) == {"train.py", "layers/__init__.py", "settings.json"}
    assert found.directory == "/app"


def test_the_framework_at_the_version_that_workloads_have(project: Path) -> None:
    found = image(project)
    assert found.packages == {"torch": "2.13.0", "numpy": "2.4.6"}
    assert found.version == "2.13.0"
    assert found.index == "https://download.pytorch.org/whl/cpu"
    assert found.test[-1] == "import torch; print(torch.__version__)"
    assert (found.machine, found.microarchitecture) == ("x86_64", "zen3")
    assert image(project, where="arm").machine == "aarch64"


def test_another_version_comes_without_what_goes_with_ours(project: Path) -> None:
    found = image(project, version="2.9.1")
    assert (found.packages, found.version) == ({"torch": "2.9.1"}, "2.9.1")


def test_the_applications_own_requirements(project: Path) -> None:
    (project / "requirements.txt").write_text("tqdm==4.70.1  # shown\n\nNumPy==2.4.5\n")
    found = image(project)
    assert found.packages == {"torch": "2.13.0", "numpy": "2.4.5", "tqdm": "4.70.1"}
    official = image(project, flavour="official", where="gpu")
    assert official.packages == {"tqdm": "4.70.1"}
    assert official.test[0] == "/opt/venv/bin/python"


def test_requirements_must_be_exact(project: Path) -> None:
    path = project / "requirements.txt"
    path.write_text("tqdm==4.70.1\nnumpy>=2\n")
    with pytest.raises(InputError) as refused:
        pinned(path)
    assert str(refused.value) == (
        f"{path}, line 2: found numpy>=2, expected name==version: `pip freeze` writes such lines"
    )


def test_requirements_are_not_read_without_an_end(project: Path) -> None:
    path = project / "requirements.txt"
    with path.open("wb") as file:
        file.truncate(2**40)  # of which the disk has nothing
    with pytest.raises(InputError) as refused:
        pinned(path)
    assert str(refused.value) == f"{path}: found more than 1048576 bytes, expected at most 1048576"


def test_levers_become_variables_unless_the_command_has_a_hole(project: Path) -> None:
    found = image(project, {"threads": 2, "affinity": "close", "allocator": "jemalloc"})
    assert found.allocator == "jemalloc"
    assert found.environment["OMP_NUM_THREADS"] == "2"
    assert found.environment["OMP_PROC_BIND"] == "close"
    assert "LD_PRELOAD" not in found.environment
    assert found.variables["LD_PRELOAD"] == "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
    own = image(project, {"threads": 2}, command="python train.py {batch} {threads}")
    assert own.environment == {}


def test_a_graph_compiler_gets_what_it_needs(project: Path) -> None:
    xla = image(project, {"compiler": "xla"}, framework="tensorflow")
    assert xla.environment["TF_XLA_FLAGS"] == "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"
    commands = {"eager": "python train.py {batch}", "fast": "python train.py --compile {batch}"}
    eager = image(project, {"variant": "eager"}, commands=commands)
    fast = image(project, {"variant": "fast"}, commands=commands)
    assert eager.system == ()
    assert fast.system == ("g++", "python3-dev")
    unmeasured = image(project, {"variant": "xla"}, framework="jax")
    assert unmeasured.environment == {"JAX_DISABLE_JIT": "0"}


@pytest.mark.parametrize(
    ("framework", "where", "base"),
    [
        ("pytorch", "cpu", "docker.io/pytorch/pytorch:2.13.0-cuda13.2-cudnn9-runtime"),
        ("tensorflow", "cpu", "docker.io/tensorflow/tensorflow:2.21.0"),
        ("tensorflow", "gpu", "docker.io/tensorflow/tensorflow:2.21.0-gpu"),
        ("mxnet", "cpu", "docker.io/mxnet/python:1.9.1_cpu_py3"),
    ],
)
def test_official_images(project: Path, framework: str, where: str, base: str) -> None:
    found = image(project, where=where, flavour="official", framework=framework)
    assert found.base == base
    assert not found.has_environment
    assert found.test[:2] == ("/usr/bin/env", "python3")


def test_wheels_for_accelerators(project: Path) -> None:
    found = image(project, where="gpu", framework="tensorflow")
    assert found.packages["tensorflow[and-cuda]"] == "2.21.0"
    assert image(project, where="gpu").index == ""
    for flavour in get_args(Flavour):
        with pytest.raises(InputError) as refused:
            image(project, where="amd", flavour=flavour)
        assert str(refused.value) == (
            f"image: found {flavour} for amd accelerators, "
            "expected the flavour official with a base image for them"
        )


def test_what_is_built_from_source(project: Path) -> None:
    found = image(project, flavour="source")
    assert found.source == ("numpy",)
    assert found.build == ("libopenblas-dev", "pkg-config")
    assert found.system == ("libopenblas0-pthread",)
    with pytest.raises(InputError, match="an application that uses numpy, or pip"):
        image(project, flavour="source", framework="other")


def test_a_program_of_no_framework(project: Path) -> None:
    found = image(project, framework="mpi")
    assert (found.packages, found.system) == ({}, ("openmpi-bin",))
    assert found.test == ("/opt/venv/bin/python", "--version")
    with pytest.raises(InputError) as refused:
        image(project, framework="jax", flavour="official")
    assert str(refused.value) == (
        "image, flavour: found official, expected pip or source: there is no official image of jax"
    )


def test_processors_that_no_image_is_for(project: Path) -> None:
    with pytest.raises(InputError) as refused:
        image(project, where="old")
    assert str(refused.value) == (
        "image: found processors of old, expected those of x86, arm, power"
    )


def test_a_directory_with_too_much_in_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forerun.deploying.choice._MOST", 2)
    with pytest.raises(InputError, match="found more than 2 files or 64 MiB"):
        image(project)
