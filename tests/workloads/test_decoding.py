import json
import struct
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from forerun.errors import InputError
from forerun.workloads import decoding


def idx(array: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> bytes:
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return head + array.tobytes()


def png(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> bytes:
    written = BytesIO()
    Image.fromarray(pixels).save(written, "PNG")
    return written.getvalue()


def test_idx_files_hold_arrays_of_any_shape() -> None:
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    assert np.array_equal(decoding.idx("images", idx(array)), array)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "images: found '', expected an IDX file of unsigned bytes"),
        (b"\x89PNG\r\n", "images: found 89 50 4e 47, expected an IDX file"),
        (b"\0\0\x08\x03\0\0", "images: found 6 bytes, expected an IDX file"),
        (idx(np.zeros((2, 3), np.uint8))[:-1], "images: found 17 bytes, expected 18 bytes"),
    ],
)
def test_what_is_no_idx_file_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        decoding.idx("images", content)


def test_mnist_gets_one_channel() -> None:
    images = np.arange(2 * 28 * 28, dtype=np.uint8).reshape(2, 28, 28)
    files = {
        "data/train-images-idx3-ubyte": idx(images),
        "data/train-labels-idx1-ubyte": idx(np.array([7, 3], np.uint8)),
    }
    decoded, labels = decoding.mnist(files.__getitem__)
    assert decoded.shape == (2, 28, 28, 1)
    assert np.array_equal(decoded[..., 0], images)
    assert labels.tolist() == [7, 3]


def test_classes_take_turns_and_empty_entries_are_left_out() -> None:
    classes = [{"data": [[1] * 4, [], [2] * 4, [9] * 4]}, {"data": [[3] * 4, [4] * 4, []]}]
    images, labels = decoding.in_turn(classes, each=2)
    assert images.shape == (4, 2, 2, 1)
    assert images[:, 0, 0, 0].tolist() == [1, 3, 2, 4]
    assert labels.tolist() == [0, 1, 0, 1]


def test_a_class_that_is_too_small_is_named() -> None:
    with pytest.raises(InputError, match="class 1: found 1 images, expected at least 2"):
        decoding.in_turn([{"data": [[1], [2]]}, {"data": [[3], []]}], each=2)


def test_a_row_of_a_sheet_is_an_image() -> None:
    images = np.arange(3 * 2 * 2 * 3, dtype=np.uint8).reshape(3, 2, 2, 3)
    assert np.array_equal(decoding.sheet(png(images.reshape(3, 4, 3)), side=2), images)


def test_a_sheet_of_another_width_is_refused() -> None:
    with pytest.raises(InputError, match="found rows of 4 pixels, expected rows of 9"):
        decoding.sheet(png(np.zeros((1, 4, 3), np.uint8)), side=3)


def test_cifar10_joins_five_sheets() -> None:
    files = {
        f"data_batch_{number}.png": png(np.full((2, 1024, 3), number, np.uint8))
        for number in range(1, 6)
    }
    files["train_lables.json"] = json.dumps(list(range(10))).encode()
    images, labels = decoding.cifar10(files.__getitem__)
    assert images.shape == (10, 32, 32, 3)
    assert images[:, 0, 0, 0].tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert labels.tolist() == list(range(10))


def test_cifar10_has_a_sheet_for_tests() -> None:
    files = {
        "test_batch.png": png(np.full((2, 1024, 3), 7, np.uint8)),
        "test_lables.json": b"[3, 9]",
    }
    images, labels = decoding.cifar10_test(files.__getitem__)
    assert images.shape == (2, 32, 32, 3)
    assert labels.tolist() == [3, 9]
