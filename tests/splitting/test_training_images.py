"""Batches of small images and of photographs, as training and testing ask for them."""

from pathlib import Path

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.typing import NDArray
from PIL import Image

from forerun.errors import InputError
from forerun.splitting.images import FOLDER, Arrays, Images, Photographs, opened

COUNT = 10


def small(directory: Path, side: int = 6) -> Path:
    """A data set whose images say which they are: all pixels of image i are 10 i."""
    for part in ("", "-test"):
        values = 10 * np.arange(COUNT, dtype=np.uint8)
        images = np.broadcast_to(values[:, None, None, None], (COUNT, side, side, 3))
        np.save(directory / f"small{part}-images.npy", images)
        np.save(directory / f"small{part}-labels.npy", np.arange(COUNT, dtype=np.uint8) % 4)
    return directory


@pytest.fixture
def images(tmp_path: Path) -> Images:
    return opened("small", small(tmp_path), 6, 1)


def pixels(images: Images, batch: NDArray[np.float32]) -> NDArray[np.float64]:
    """What was read, from what it was normalised to."""
    mean, deviation = (np.array(one, np.float64) * 255 for one in images.normal)
    found: NDArray[np.float64] = np.rint(batch * deviation + mean)
    return found


def test_values_are_normalised_by_all_training_images(images: Images) -> None:
    ((batch, labels),) = images.testing(COUNT)
    assert batch.shape == (COUNT, 6, 6, 3)
    assert batch.dtype == np.float32
    assert batch.mean((0, 1, 2)) == pytest.approx(np.zeros(3), abs=1e-5)
    assert batch.std((0, 1, 2)) == pytest.approx(np.ones(3), abs=1e-5)
    assert images.normal[0] == pytest.approx((45 / 255,) * 3)
    assert labels.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert images.classes == 4


def test_tests_come_in_order_and_all_of_them(images: Images) -> None:
    found = [pixels(images, batch)[:, 0, 0, 0] for batch, _ in images.testing(4)]
    assert [len(one) for one in found] == [4, 4, 2]
    assert np.concatenate(found).tolist() == [10 * i for i in range(COUNT)]


def test_an_epoch_takes_each_image_once_in_an_order_of_its_own(images: Images) -> None:
    def epoch(seed: int, rank: int = 0, workers: int = 1) -> list[int]:
        batches = images.training(2, default_rng(seed), rank, workers)
        return [int(one.max()) for batch, _ in batches for one in pixels(images, batch)]

    first = epoch(0)
    assert sorted(first) == [10 * i for i in range(COUNT)]
    assert first == epoch(0) != epoch(1)
    shared = epoch(0, 0, 2), epoch(0, 1, 2)
    assert [len(one) for one in shared] == [4, 4]
    assert set(shared[0]) & set(shared[1]) == set()
    assert images.steps(2, 2) == 2


def test_images_are_moved_and_flipped(tmp_path: Path) -> None:
    picture = np.arange(36, dtype=np.uint8).reshape(1, 6, 6, 1).repeat(3, 3) + 1
    many = np.repeat(picture, 400, 0)
    labels = np.zeros(400, np.uint8)
    found = Arrays((many, labels), (many, labels))
    ((batch, _),) = found.training(400, default_rng(0), 0, 1)
    seen = pixels(found, batch)[..., 0]
    framed = np.pad(picture[0, :, :, 0], 4)
    possible = {
        part.tobytes(): (down, right, flip)
        for flip in (False, True)
        for down in range(9)
        for right in range(9)
        for part in [framed[down : down + 6, right : right + 6][:, :: -1 if flip else 1].copy()]
    }
    taken = [possible[one.astype(np.uint8).tobytes()] for one in seen]
    assert {down for down, _, _ in taken} == {right for _, right, _ in taken} == set(range(9))
    assert 150 < sum(flip for _, _, flip in taken) < 250
    assert tmp_path.exists()


def folder(directory: Path) -> Path:
    """Photographs of two classes: red ones, and blue ones with a green edge."""
    for part, count in (("train", 3), ("val", 2)):
        for name, colour in (("blue", (0, 0, 250)), ("red", (250, 0, 0))):
            (directory / part / name).mkdir(parents=True)
            for number in range(count):
                picture = Image.new("RGB", (40 + number, 30), colour)
                picture.paste((0, 250, 0), (0, 0, 1, 1))
                picture.save(directory / part / name / f"{number}.PNG")
    (directory / "train" / "red" / "notes.txt").write_text("no photograph")
    return directory


def test_photographs_are_read_by_class(tmp_path: Path) -> None:
    images = opened(FOLDER, folder(tmp_path), 8, 2)
    assert images.classes == 2
    ((batch, labels),) = images.testing(10)
    assert labels.tolist() == [0, 0, 1, 1]
    assert batch.shape == (4, 8, 8, 3)
    seen = pixels(images, batch)
    assert np.all(seen[:2] == (0, 0, 250))  # the middle, without the edge
    assert np.all(seen[2:] == (250, 0, 0))


def test_training_crops_photographs_by_chance_but_the_same_for_a_seed(tmp_path: Path) -> None:
    picture = Image.fromarray(default_rng(0).integers(0, 256, (40, 50, 3), np.uint8))
    for part in ("train", "val"):
        (tmp_path / part / "only").mkdir(parents=True)
        for number in range(6):
            picture.save(tmp_path / part / "only" / f"{number}.png")
    images = Photographs(tmp_path, 16, 2)

    def epoch(seed: int) -> NDArray[np.float32]:
        return np.concatenate([batch for batch, _ in images.training(2, default_rng(seed), 0, 1)])

    first = epoch(0)
    assert first.shape == (6, 16, 16, 3)
    assert len({one.tobytes() for one in first}) == 6
    assert np.array_equal(first, epoch(0))
    assert not np.array_equal(first, epoch(1))


def test_a_class_in_one_half_only_is_named(tmp_path: Path) -> None:
    (folder(tmp_path) / "val" / "green").mkdir()
    with pytest.raises(InputError, match="found class green in one of train and val, expected in"):
        Photographs(tmp_path, 8, 1)


def test_a_damaged_photograph_is_named(tmp_path: Path) -> None:
    (folder(tmp_path) / "val" / "red" / "0.PNG").write_bytes(b"none")
    with pytest.raises(InputError, match=r"red/0.PNG: found .*, expected a picture"):
        list(Photographs(tmp_path, 8, 1).testing(10))


@pytest.mark.parametrize(("directory", "found"), [("", "No such file"), ("empty", "no folders")])
def test_folders_without_photographs_are_refused(
    tmp_path: Path, directory: str, found: str
) -> None:
    if directory:
        (tmp_path / "train").mkdir()
    with pytest.raises(InputError, match=f"train: found {found}.*, expected a folder a class"):
        Photographs(tmp_path, 8, 1)


def test_other_arrays_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"small-images.npy: found .*No such file"):
        opened("small", tmp_path, 6, 1)
    small(tmp_path)
    with pytest.raises(InputError, match="data set small: found images of 6x6x3, expected 8x8x3"):
        opened("small", tmp_path, 8, 1)
    np.save(tmp_path / "small-test-labels.npy", np.zeros(COUNT))
    with pytest.raises(InputError, match=r"found float64 \(10,\), expected bytes in 1 dimensions"):
        opened("small", tmp_path, 6, 1)
    np.savez(tmp_path / "labels.npz", np.zeros(COUNT, np.uint8))
    (tmp_path / "labels.npz").rename(tmp_path / "small-test-labels.npy")
    with pytest.raises(InputError, match=r"small-test-labels\.npy: found no array"):
        opened("small", tmp_path, 6, 1)
    np.save(tmp_path / "small-test-labels.npy", np.zeros(3, np.uint8))
    with pytest.raises(InputError, match="data set small-test: found 10 images, expected 3 labels"):
        opened("small", tmp_path, 6, 1)


def test_fewer_images_than_a_batch_are_refused(images: Images) -> None:
    with pytest.raises(InputError, match="found 10, expected at least a batch of 6 for each of 2"):
        images.steps(6, 2)
