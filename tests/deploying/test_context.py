"""The folder that an image is built in."""

from pathlib import Path

import pytest

from forerun.deploying.context import texts, write_context
from forerun.deploying.image import ImageSpec
from forerun.deploying.lock import Package, made
from forerun.errors import InputError

SPEC = ImageSpec(
    name="lenet",
    flavour="pip",
    base="docker.io/library/debian:bookworm-slim",
    packages={"tiny": "1.0"},
    files=("train.py", "layers/dense 1.py"),
)
PACKAGES = (Package(name="tiny", version="1.0", file="tiny-1.0.whl", sha256="a" * 64),)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    found = tmp_path / "project"
    (found / "layers").mkdir(parents=True)
    (found / "train.py").write_text("print('trained')\n")
    (found / "layers" / "dense 1.py").write_text("")
    return found


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_all_that_a_build_reads_is_in_the_folder(project: Path, tmp_path: Path) -> None:
    folder, lock = tmp_path / "image", made(SPEC, PACKAGES, project)
    write_context(SPEC, project, folder, lock)
    assert names(folder) == [
        "Dockerfile",
        "app",
        "app/layers",
        "app/layers/dense 1.py",
        "app/train.py",
        "image.def",
        "lock.json",
        "requirements.txt",
        "sbom.json",
    ]
    assert (folder / "Dockerfile").read_text() == texts(SPEC, lock)["Dockerfile"]
    assert "requirements.txt /opt/forerun/requirements.txt" in (folder / "image.def").read_text()


def test_a_folder_is_written_anew(project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "image"
    write_context(SPEC, project, folder, made(SPEC, PACKAGES, project))
    (folder / "app" / "left.py").write_text("")
    write_context(SPEC, project, folder)
    assert names(folder) == [
        *("Dockerfile", "app", "app/layers", "app/layers/dense 1.py", "app/train.py", "image.def"),
    ]


def test_a_file_that_changed_since_it_was_locked(project: Path, tmp_path: Path) -> None:
    lock = made(SPEC, PACKAGES, project)
    (project / "train.py").write_text("print('changed')\n")
    with pytest.raises(InputError) as refused:
        write_context(SPEC, project, tmp_path / "image", lock)
    assert str(refused.value) == (
        f"{project / 'train.py'}: found another content, "
        "expected the file as it was when the lock was made, or a new lock"
    )
    assert names(tmp_path / "image") == []


@pytest.mark.parametrize("is_link", [True, False])
def test_what_stands_in_the_way_is_not_followed(
    is_link: bool, project: Path, tmp_path: Path
) -> None:
    folder, other = tmp_path / "image", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    (other / "kept").write_text("")
    if is_link:
        (folder / "app").symlink_to(other)
    else:
        (folder / "app").write_text("")
    with pytest.raises(InputError) as refused:
        write_context(SPEC, project, folder)
    assert str(refused.value) == (
        f"{folder / 'app'}: found a link or a file, expected the folder that was written here "
        "before, or nothing; another one with -o"
    )
    assert names(other) == ["kept"]
    assert names(folder) == ["app"]
