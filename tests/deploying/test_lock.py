"""Locks: the same bytes for the same image, hashes that pip demands, and a list of licences."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forerun import __version__
from forerun.deploying.image import ImageSpec
from forerun.deploying.lock import Lock, Package, made, same_version, sbom
from forerun.errors import InputError

SPEC = ImageSpec(
    name="lenet",
    flavour="source",
    base="docker.io/library/debian:bookworm-slim",
    digest="sha256:" + "d" * 64,
    packages={"torch": "2.13.0", "regex": "2026.11.9"},
    source=("regex",),
    system=("g++",),
    index="https://a.example/simple",
    files=("train.py",),
)
PACKAGES = (
    Package(
        name="torch",
        version="2.13.0+cpu",
        file="torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",
        sha256="a" * 64,
        spdx="BSD-3-Clause",
    ),
    Package(
        name="regex",
        version="2026.11.9",
        file="regex-2026.11.9.tar.gz",
        sha256="b" * 64,
        licence="Apache Software License",
        source=True,
    ),
    Package(name="filelock", version="3.1", file="filelock-3.1-py3-none-any.whl", sha256="c" * 64),
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print('trained')\n")
    return tmp_path


@pytest.fixture
def lock(project: Path) -> Lock:
    return made(SPEC, PACKAGES, project)


def test_the_same_image_has_the_same_lock(lock: Lock, project: Path) -> None:
    again = made(SPEC, tuple(reversed(PACKAGES)), project)
    assert again.to_json() == lock.to_json()
    assert again.digest_of_all == lock.digest_of_all
    document = json.loads(lock.to_json())
    assert [one["name"] for one in document["packages"]] == ["filelock", "regex", "torch"]
    assert document["forerun"] == __version__
    assert document["base"] == SPEC.base
    assert document["digest"] == SPEC.digest
    assert document["files"] == {
        "train.py": "4cb1379ae3f3164896c2ef2521ef0e91559828ef4025cb8b8b97619582e78af7"
    }
    assert document["system"] == ["ca-certificates", "g++", "python3", "python3-venv"]


def test_a_lock_is_read_back_as_it_was_written(lock: Lock, tmp_path: Path) -> None:
    path = tmp_path / "lock.json"
    path.write_text(lock.to_json())
    assert Lock.load(path) == lock


def test_pip_is_told_the_very_files(lock: Lock) -> None:
    assert lock.requirements().splitlines() == [
        f"# Made by forerun {__version__}.",
        "--require-hashes",
        "--only-binary :all:",
        "--no-binary regex",
        "--extra-index-url https://a.example/simple",
        f"filelock==3.1 --hash=sha256:{'c' * 64}",
        f"regex==2026.11.9 --hash=sha256:{'b' * 64}",
        f"torch==2.13.0+cpu --hash=sha256:{'a' * 64}",
    ]


def test_the_bill_of_materials_names_what_is_there_and_its_licences(lock: Lock) -> None:
    found = json.loads(sbom(SPEC, lock))
    assert (found["bomFormat"], found["specVersion"], found["version"]) == ("CycloneDX", "1.6", 1)
    assert found["metadata"]["component"]["name"] == "lenet"
    assert "timestamp" not in found["metadata"]
    assert "serialNumber" not in found
    parts = {one["bom-ref"]: one for one in found["components"]}
    assert len(parts) == len(found["components"]) == 8
    torch = parts["pkg:pypi/torch@2.13.0%2Bcpu"]
    assert torch["licenses"] == [{"expression": "BSD-3-Clause"}]
    assert torch["hashes"] == [{"alg": "SHA-256", "content": "a" * 64}]
    regex = parts["pkg:pypi/regex@2026.11.9"]
    assert regex["licenses"] == [{"license": {"name": "Apache Software License"}}]
    assert "licenses" not in parts["pkg:pypi/filelock@3.1"]
    assert parts["pkg:deb/debian/g%2B%2B"]["name"] == "g++"
    assert parts[f"base/{SPEC.base}"]["version"] == SPEC.digest
    assert {one["type"] for one in parts.values()} == {"container", "library"}


@pytest.mark.parametrize(
    ("found", "asked", "same"),
    [
        ("2.13.0+cpu", "2.13.0", True),
        ("2.13.0", "2.13", True),
        ("2.13.0+cpu", "2.13.0+cu130", False),
        ("2.13.1", "2.13", False),
        ("10", "1", False),
    ],
)
def test_versions(found: str, asked: str, same: bool) -> None:
    assert same_version(found, asked) is same


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"base": "docker.io/library/debian:trixie-slim"}, f"base {SPEC.base}"),
        ({"digest": "sha256:" + "e" * 64}, f"digest {SPEC.digest}"),
        ({"python": "3.13"}, "python 3.11"),
        ({"machine": "aarch64"}, "machine x86_64"),
        ({"system": ()}, "Debian's ca-certificates, g++, python3, python3-venv"),
        ({"packages": {"torch": "2.12.0", "regex": "2026.11.9"}}, "torch 2.13.0+cpu"),
        ({"packages": {**SPEC.packages, "jax": "1.0"}}, "jax missing"),
        ({"source": ("torch",)}, "other packages built from source"),
        ({"files": ()}, "other files of the application"),
    ],
)
def test_a_lock_of_something_else(lock: Lock, changes: dict[str, Any], found: str) -> None:
    with pytest.raises(InputError) as refused:
        lock.check(replace(SPEC, **changes))
    assert str(refused.value) == (
        f"lock: found {found}, expected a lock of the image lenet as it is now: make it again"
    )


def test_files_outside_the_project_are_not_taken(project: Path, tmp_path_factory: Any) -> None:
    secret = tmp_path_factory.mktemp("other") / "secret"
    secret.write_text("secret")
    (project / "train.py").unlink()
    (project / "train.py").symlink_to(secret)
    with pytest.raises(InputError, match=r"/train\.py: .* expected a file inside the project"):
        made(SPEC, PACKAGES, project)
    (project / "train.py").unlink()
    with pytest.raises(InputError, match=r"/train\.py: .* expected a file of the application"):
        made(SPEC, PACKAGES, project)


HARM = (
    "a\nb",
    "a --index-url=x",
    "a\u2028--no-index",
    "$(touch x)",
    "../x",
    "",
    "-r x",
    "a;b",
    "\x00",
)


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("field", ["name", "version", "file", "sha256", "spdx", "licence"])
def test_a_hostile_lock_is_refused_or_harmless(
    lock: Lock, field: str, harm: str, tmp_path: Path
) -> None:
    document = json.loads(lock.to_json())
    document["packages"][0][field] = harm
    _refused_or_harmless(document, lock, tmp_path)


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("field", ["forerun", "base", "digest", "python", "machine", "index"])
def test_a_hostile_head_of_a_lock_is_refused(
    lock: Lock, field: str, harm: str, tmp_path: Path
) -> None:
    if not harm and field in ("digest", "index"):
        return  # not given, which check refuses beside a spec that has them
    _refused_or_harmless({**json.loads(lock.to_json()), field: harm}, lock, tmp_path)


def _refused_or_harmless(document: dict[str, Any], lock: Lock, folder: Path) -> None:
    path = folder / "lock.json"
    path.write_text(json.dumps(document))
    try:
        read = Lock.load(path)
        read.check(SPEC)
    except InputError as refused:
        told = str(refused)
    else:
        told = "harmless"
        assert read.requirements() == lock.requirements()
    assert len(told.splitlines()) == 1
