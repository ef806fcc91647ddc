"""Pictures and arrays as a network takes them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from forerun.errors import InputError
from forerun.splitting.inputs import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Pixels,
    Samples,
    normal_of,
    read_picture,
)

PLAIN = Pixels(mean=(0.0,), std=(1.0,), crop=1.0)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """Twelve columns of eight rows: red rises from the left, green from the top; blue is 51."""
    rows, columns = np.mgrid[0:8, 0:12]
    pixels = np.stack([20 * columns, 30 * rows, np.full_like(rows, 51)], axis=-1)
    Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


def test_the_middle_is_taken_with_its_channels_first(photo: Path) -> None:
    found = read_picture(photo, (1, 3, 8, 8), PLAIN)
    assert found.shape == (1, 3, 8, 8)
    assert found.dtype == np.float32
    # Eight of twelve columns, from the third one on.
    np.testing.assert_allclose(found[0, 0, 3] * 255, 20 * np.arange(2, 10), atol=1e-4)
    np.testing.assert_allclose(found[0, 1, :, 3] * 255, 30 * np.arange(8), atol=1e-4)
    np.testing.assert_allclose(found[0, 2], 0.2, atol=1e-6)


def test_crop_keeps_so_much_of_the_shorter_side(photo: Path) -> None:
    found = read_picture(photo, (1, 3, 4, 4), Pixels((0.0,), (1.0,), crop=0.5))
    np.testing.assert_allclose(found[0, 0, 0] * 255, 20 * np.arange(4, 8), atol=1e-4)
    np.testing.assert_allclose(found[0, 1, :, 0] * 255, 30 * np.arange(2, 6), atol=1e-4)


def test_three_channels_are_normalised_as_imagenet_is(photo: Path) -> None:
    plain = read_picture(photo, (1, 3, 8, 8), PLAIN)
    found = read_picture(photo, (1, 3, 8, 8), Pixels(crop=1.0))
    mean, std = (np.array(v).reshape(1, 3, 1, 1) for v in (IMAGENET_MEAN, IMAGENET_STD))
    np.testing.assert_allclose(found, (plain - mean) / std, atol=1e-5)


def test_one_channel_is_grey_from_0_to_1(tmp_path: Path) -> None:
    Image.new("RGB", (5, 9), (255, 255, 255)).save(tmp_path / "white.jpg")
    found = read_picture(tmp_path / "white.jpg", (1, 1, 4, 4))
    assert found.shape == (1, 1, 4, 4)
    np.testing.assert_allclose(found, 1.0, atol=0.01)


def test_a_photograph_that_lies_on_its_side_is_turned(tmp_path: Path) -> None:
    picture = Image.new("L", (8, 4))
    picture.paste(255, (4, 0, 8, 4))  # the right half is white
    exif = Image.Exif()
    exif[0x0112] = 6  # turn it to the right to see it
    picture.save(tmp_path / "side.png", exif=exif)
    found = read_picture(tmp_path / "side.png", (1, 1, 8, 4), PLAIN)
    assert found[0, 0, :4].max() == 0
    assert found[0, 0, 4:].min() == 1


def test_samples_come_from_pictures_and_arrays_in_order(photo: Path, tmp_path: Path) -> None:
    many = np.arange(2 * 3 * 8 * 8, dtype=np.float64).reshape(2, 3, 8, 8)
    np.save(tmp_path / "many.npy", many)
    np.save(tmp_path / "one.npy", many[1].astype(np.float32))
    files = [tmp_path / "many.npy", photo, tmp_path / "one.npy"]
    samples = Samples(files, {"x": [1, 3, 8, 8]}, PLAIN)
    found = list(samples)
    names = [f"{files[0]}, 0", f"{files[0]}, 1", str(photo), str(files[2])]
    assert (list(samples.names), len(samples), len(found)) == (names, 4, 4)
    assert {(array.dtype.name, array.shape) for array in found} == {("float32", (1, 3, 8, 8))}
    np.testing.assert_array_equal(found[1], found[3])
    np.testing.assert_array_equal(found[2], list(samples)[2])  # once more, from the beginning


def test_a_sample_is_read_when_its_turn_comes(photo: Path, tmp_path: Path) -> None:
    late = tmp_path / "late.png"
    samples = Samples([photo, late], {"x": [1, 3, 8, 8]}, PLAIN)
    coming = iter(samples)
    first = next(coming)
    late.write_bytes(photo.read_bytes())
    np.testing.assert_array_equal(next(coming), first)
    assert len(samples) == 2


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros((3, 8, 9), np.float32), "an array of 3x8x9, expected Nx3x8x8"),
        (np.zeros((3, 8, 8), np.uint8), "an array of uint8, expected float32"),
        (np.array({"a": 1}, object), "no array"),
        (np.float32(1), "an array of one number, expected Nx3x8x8"),
        (np.zeros((0, 3, 8, 8), np.float32), "an array of 0x3x8x8, expected Nx3x8x8"),
    ],
)
def test_an_array_that_does_not_fit_is_refused(tmp_path: Path, array: object, said: str) -> None:
    np.save(tmp_path / "x.npy", np.asarray(array), allow_pickle=True)
    with pytest.raises(InputError, match=said):
        Samples([tmp_path / "x.npy"], {"x": [1, 3, 8, 8]}, PLAIN)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_a_number_that_is_not_finite_is_refused(tmp_path: Path, value: float) -> None:
    array = np.zeros((3, 1, 2, 2))
    array[1, 0, 1, 0] = value
    np.save(tmp_path / "a.npy", array)
    samples = iter(Samples([tmp_path / "a.npy"], {"x": (1, 1, 2, 2)}, Pixels()))
    next(samples)
    with pytest.raises(InputError, match=r"a.npy: sample 1: found a number that is not finite"):
        next(samples)


def test_what_is_no_picture_is_refused(photo: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.png").write_text("Dear diary")
    with pytest.raises(InputError, match=r"notes\.png: found no picture"):
        read_picture(tmp_path / "notes.png", (1, 3, 8, 8))
    (tmp_path / "half.png").write_bytes(photo.read_bytes()[:60])
    with pytest.raises(InputError, match=r"half\.png: found no picture"):
        read_picture(tmp_path / "half.png", (1, 3, 8, 8))
    with pytest.raises(InputError, match="pictures are for networks of 1 or 3 channels"):
        read_picture(photo, (1, 64, 8, 8))
    with pytest.raises(InputError, match=r"none\.png: found No such file"):
        read_picture(tmp_path / "none.png", (1, 3, 8, 8))


def test_other_files_of_numpys_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "many.npz", np.zeros((1, 3, 8, 8), np.float32))
    (tmp_path / "many.npz").rename(tmp_path / "x.npy")
    with pytest.raises(
        InputError, match=r"x\.npy: found no array .*, expected a file of numpy\.sa"
    ):
        Samples([tmp_path / "x.npy"], {"x": [1, 3, 8, 8]}, PLAIN)


def test_a_very_narrow_picture_is_not_blown_up(tmp_path: Path) -> None:
    Image.new("L", (1, 60_000)).save(tmp_path / "line.png")
    with pytest.raises(InputError, match="found a picture of 256x15360000 pixels"):
        read_picture(tmp_path / "line.png", (1, 1, 224, 224))


def test_options_that_make_no_sense_are_refused(photo: Path) -> None:
    with pytest.raises(InputError, match=r"--mean: found 0\.1,0\.2, expected one number, or 3"):
        read_picture(photo, (1, 3, 8, 8), Pixels(mean=(0.1, 0.2)))
    with pytest.raises(InputError, match=r"--std: found 0\.0, expected numbers above 0"):
        Pixels(std=(0.0,))
    with pytest.raises(InputError, match=r"--crop: found 1\.5"):
        Pixels(crop=1.5)


def test_a_network_of_two_inputs_is_told(photo: Path) -> None:
    with pytest.raises(InputError, match="found a network of 2 inputs"):
        Samples([photo], {"a": [1, 3, 8, 8], "b": [1, 3, 8, 8]}, PLAIN)


@pytest.mark.parametrize(
    ("mean", "std"),
    [
        ([0.1, 0.2], [1, 1]),  # of another number of channels
        ([0.1, 0.2, float("nan")], [1, 1, 1]),
        ([0.1, 0.2, 10**400], [1, 1, 1]),
        ([0.1, 0.2, 0.3], [1, 1, 0]),
        ([0.1, 0.2, 0.3], [1, 1, 1e-60]),  # which is 0 to a network
        ([0.1, 0.2, "0.3"], [1, 1, 1]),
        ([0.1, 0.2, True], [1, 1, 1]),
        (0.1, 1),
        (None, [1, 1, 1]),
    ],
)
def test_numbers_to_normalise_by_that_make_no_sense(mean: object, std: object) -> None:
    assert normal_of(mean, std, 3) is None


def test_numbers_to_normalise_by() -> None:
    found = normal_of([0.1, 0, -1], [1, 2, 0.5], 3)
    assert found == ((0.1, 0.0, -1.0), (1.0, 2.0, 0.5))
