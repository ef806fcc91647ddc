"""What pip would install: its real answer, from an index of our own making."""

import base64
import hashlib
import zipfile
from pathlib import Path

import pytest

from forerun.deploying.image import ImageSpec
from forerun.deploying.lock import digest_of, lock_of
from forerun.deploying.resolving import packages_of, platforms
from forerun.errors import InputError

BASE = "docker.io/library/debian:bookworm-slim"


def wheel(folder: Path, name: str, *lines: str, tag: str = "py3-none-any") -> Path:
    """A wheel with nothing in it."""
    path = folder / f"{name}-1.0-{tag}.whl"
    info = f"{name}-1.0.dist-info"
    texts = {
        f"{info}/METADATA": "\n".join(
            ("Metadata-Version: 2.4", f"Name: {name}", "Version: 1.0", *lines, "")
        ),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = ""
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in texts.items():
            archive.writestr(file, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
            record += f"{file},sha256={digest.decode().rstrip('=')},{len(text)}\n"
        archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index with two packages, of which one needs the other and has a source as well."""
    files = tmp_path / "files"
    files.mkdir()
    (files / "tiny-1.0.tar.gz").write_bytes(b"a source that nobody unpacks here")
    made = {
        "tiny": [
            wheel(files, "tiny", "Requires-Dist: tinier>=1", "License-Expression: MIT"),
            files / "tiny-1.0.tar.gz",
        ],
        "tinier": [
            wheel(files, "tinier", "Classifier: License :: OSI Approved :: BSD License"),
        ],
    }
    for name, paths in made.items():
        page = tmp_path / "simple" / name / "index.html"
        page.parent.mkdir(parents=True)
        links = (
            f'<a href="{one.as_uri()}#sha256={digest_of(one)}">{one.name}</a>' for one in paths
        )
        page.write_text(f"<!DOCTYPE html><html><body>{' '.join(links)}</body></html>")
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    return files


def test_pip_tells_what_it_would_install(index: Path) -> None:
    lock = lock_of(ImageSpec("a", "pip", BASE, packages={"tiny": "1.0"}))
    assert [(one.name, one.version, one.file, one.source) for one in lock.packages] == [
        ("tinier", "1.0", "tinier-1.0-py3-none-any.whl", False),
        ("tiny", "1.0", "tiny-1.0-py3-none-any.whl", False),
    ]
    assert [one.sha256 for one in lock.packages] == [
        digest_of(index / one.file) for one in lock.packages
    ]
    assert [(one.spdx, one.licence) for one in lock.packages] == [("", "BSD License"), ("MIT", "")]


def test_what_is_built_is_locked_by_its_source(index: Path) -> None:
    spec = ImageSpec("a", "source", BASE, packages={"tiny": "1.0"}, source=("tiny",))
    built = {one.name: one for one in lock_of(spec).packages}["tiny"]
    assert (built.file, built.source) == ("tiny-1.0.tar.gz", True)
    assert built.sha256 == digest_of(index / "tiny-1.0.tar.gz")


def test_what_an_official_image_has_is_not_asked_for(index: Path) -> None:
    assert index.is_dir()
    spec = ImageSpec("a", "official", BASE, packages={"tiny": "1.0"})
    assert [one.name for one in lock_of(spec).packages] == ["tiny"]


def test_a_package_without_a_source(index: Path) -> None:
    assert index.is_dir()
    spec = ImageSpec("a", "source", BASE, packages={"tinier": "1.0"}, source=("tinier",))
    with pytest.raises(InputError) as refused:
        lock_of(spec)
    assert str(refused.value) == (
        "lock, tinier 1.0: found no source, expected a package that has a .tar.gz"
    )


def test_a_version_that_no_index_has(index: Path) -> None:
    assert index.is_dir()
    with pytest.raises(InputError) as refused:
        lock_of(ImageSpec("a", "pip", BASE, packages={"tiny": "2.0"}))
    assert str(refused.value) == (
        "lock, pip: found No matching distribution found for tiny==2.0, "
        "expected versions that its index has for the image's Python"
    )


def test_another_machine(index: Path) -> None:
    assert index.is_dir()
    with pytest.raises(InputError, match="expected a machine of the image's kind, ppc64le"):
        lock_of(ImageSpec("a", "pip", BASE, packages={"tiny": "1.0"}, machine="ppc64le"))


def test_a_python_that_is_not_there(index: Path) -> None:
    assert index.is_dir()
    with pytest.raises(InputError, match="expected a Python with pip"):
        lock_of(ImageSpec("a", "pip", BASE, packages={"tiny": "1.0"}), python="/nowhere/python")


def test_wheels_of_an_older_system_do_too() -> None:
    found = list(platforms("x86_64"))
    assert found[0] == "manylinux_2_28_x86_64"
    assert {"manylinux_2_17_x86_64", "manylinux2014_x86_64", "linux_x86_64"} <= set(found)


def test_a_licence_that_is_a_whole_text_is_not_kept() -> None:
    told = {"name": "A.b", "version": "1", "license": "Copyright\nAll of it", "classifier": []}
    archive = {"hash": "sha256=" + "a" * 64}
    info = {"url": "https://a.example/x/A.b-1-py3-none-any.whl#x", "archive_info": archive}
    (found,) = packages_of({"install": [{"metadata": told, "download_info": info}]})
    assert (found.name, found.licence, found.file) == ("a-b", "Copyright", "A.b-1-py3-none-any.whl")


@pytest.mark.parametrize(
    "report", [{}, {"install": [1]}, {"install": [{"metadata": {}, "download_info": {}}]}]
)
def test_a_report_of_something_else(report: dict[str, object]) -> None:
    with pytest.raises(InputError, match="expected packages with their hashes"):
        packages_of(report)
