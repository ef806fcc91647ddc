"""An image's spec: what it works out, and what it refuses."""

from typing import Any

import pytest

from forerun.deploying.image import ImageSpec, plain_name
from forerun.errors import InputError

BASE = "docker.io/library/debian:bookworm-slim"


def image(**changes: Any) -> ImageSpec:
    return ImageSpec(**{"name": "lenet", "flavour": "pip", "base": BASE, **changes})


def test_python_and_the_allocator_bring_what_they_need() -> None:
    assert image().system_packages == ("ca-certificates", "python3", "python3-venv")
    found = image(allocator="jemalloc", system=("g++",)).system_packages
    assert found == ("ca-certificates", "g++", "libjemalloc2", "python3", "python3-venv")
    assert image(base="docker.io/library/python:3.11-slim").system_packages == ()


def test_the_allocator_lies_where_the_machine_has_its_libraries() -> None:
    made = image(allocator="tcmalloc", machine="aarch64", environment={"OMP_NUM_THREADS": "2"})
    assert made.variables == {
        "LD_PRELOAD": "/usr/lib/aarch64-linux-gnu/libtcmalloc_minimal.so.4",
        "MALLOC_CONF": "",
        "OMP_NUM_THREADS": "2",
    }
    assert image().variables == {"LD_PRELOAD": "", "MALLOC_CONF": ""}  # whatever the host has set


@pytest.mark.parametrize(
    ("microarchitecture", "machine", "flags"),
    [
        ("", "x86_64", "-O3"),
        ("x86_64_v3", "x86_64", "-O3 -march=x86-64-v3 -mtune=generic"),
        ("zen3", "x86_64", "-O3 -march=znver3 -mtune=znver3"),
        ("neoverse_v1", "aarch64", "-O3 -mcpu=neoverse-v1"),
    ],
)
def test_flags_are_those_of_the_microarchitecture(
    microarchitecture: str, machine: str, flags: str
) -> None:
    assert image(microarchitecture=microarchitecture, machine=machine).flags == flags


def test_a_compiler_that_is_older_than_the_processor_gets_what_it_knows() -> None:
    found = image(microarchitecture="zen5").flags  # GCC 12 has no znver5
    assert found == image(microarchitecture="zen4").flags
    assert found.startswith("-O3 -march=znver3 -mtune=znver3 -mavx512f ")


def test_a_digest_takes_the_place_of_the_tag() -> None:
    digest = "sha256:" + "0" * 64
    assert image().image == BASE
    assert image(digest=digest).image == f"docker.io/library/debian@{digest}"
    local = image(base="localhost:5000/debian", digest=digest)
    assert local.image == f"localhost:5000/debian@{digest}"


def test_names_of_packages_are_compared_as_indices_do() -> None:
    assert plain_name("Tensorflow_CPU[and-cuda]") == plain_name("tensorflow.cpu")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"base": "debian"},
            "image, base: found debian, expected a full name such as "
            "docker.io/library/debian:bookworm-slim",
        ),
        (
            {"flavour": "conda"},
            "image, flavour: found conda, expected one of official, pip, source",
        ),
        (
            {"packages": {"numpy": ">=2"}},
            "image, package numpy: found >=2, expected an exact version such as 2.4.6",
        ),
        (
            {"packages": {"numpy": "2", "NumPy": "1"}},
            "image, packages: found numpy twice, expected one version of each",
        ),
        (
            {"flavour": "source", "packages": {"numpy": "2"}, "source": ("regex",)},
            "image, source: found regex, expected one of its packages: numpy",
        ),
        (
            {"packages": {"numpy": "2"}, "source": ("numpy",)},
            "image, source: found numpy, expected packages to build with the flavour source, "
            "and with no other",
        ),
        (
            {"microarchitecture": "zen3", "machine": "aarch64"},
            "image, microarchitecture: found zen3, expected one of a processor that runs aarch64",
        ),
        (
            {"microarchitecture": "zen33"},
            "image, microarchitecture: found zen33, expected one that archspec knows, "
            "such as zen3 or x86_64_v3",
        ),
        (
            {"environment": {"PATH": "/tmp"}},
            "image, environment: found PATH, expected a variable's name, "
            "other than PATH, LD_PRELOAD, MALLOC_CONF",
        ),
        (
            {"directory": "/etc"},
            "image, directory: found /etc, expected an absolute path below app, opt, srv, work",
        ),
        (
            {"files": ("../secret.py",)},
            "image, files: found ../secret.py, expected a path inside the project",
        ),
        (
            {"test": ("python", "-V")},
            "image, test: found python, expected a program by its absolute path first",
        ),
        ({"system": ("vim-",)}, "image, system: found vim-, expected the name of a Debian package"),
        (
            {"allocator": "mimalloc"},
            "factor allocator: found mimalloc, expected one of glibc, jemalloc, tcmalloc",
        ),
        (
            {"name": "a\nRUN b"},
            r"image, name: found 'a\nRUN b', expected a text without control characters",
        ),
        (
            {"version": 2},
            "image, version: found 2, expected a text without control characters",
        ),
    ],
)
def test_what_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        image(**changes)
    assert str(refused.value) == message
