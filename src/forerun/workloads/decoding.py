"""How the packages that ship data sets have packed them: IDX files, PNG sheets, JSON lists.

Each decoder gets the contents of a package's files by name, and gives images (uint8, N x height x
width x channels) and labels (uint8, N).
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forerun.errors import InputError

Bytes = NDArray[np.uint8]
Read = Callable[[str], bytes]

_IDX_BYTES = 8  # IDX's code for unsigned bytes


def mnist(read: Read) -> tuple[Bytes, Bytes]:
    """MNIST's training images in their own order, from IDX files."""
    images = idx("train-images", read("data/train-images-idx3-ubyte"))
    labels = idx("train-labels", read("data/train-labels-idx1-ubyte"))
    return images[..., np.newaxis], labels


def idx(name: str, content: bytes) -> Bytes:
    """The array in an IDX file of unsigned bytes.

    Two zeros, the code of the type and the number of axes; their lengths; the values.
    """
    wanted = "an IDX file of unsigned bytes"
    if len(content) < 4 or content[:3] != bytes([0, 0, _IDX_BYTES]):
        raise InputError(name, content[:4].hex(" "), wanted)
    axes = content[3]
    start = 4 + 4 * axes
    if len(content) < start:
        raise InputError(name, f"{len(content)} bytes", wanted)
    shape = struct.unpack(f">{axes}I", content[4:start])
    if len(content) != start + math.prod(shape):
        raise InputError(name, f"{len(content)} bytes", f"{start + math.prod(shape)} bytes")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def fashion_mnist(read: Read) -> tuple[Bytes, Bytes]:
    """Fashion-MNIST from a list a class; the classes take turns, so that any part is balanced.

    The package has no split: 6,000 images of each class are as many as the training set has.
    """
    return in_turn([json.loads(read(f"src/clothes/{label}.json")) for label in range(10)], 6000)


def in_turn(classes: list[dict[str, Any]], each: int) -> tuple[Bytes, Bytes]:
    """Square grey images, the first of each class, then the second … ; empty entries are left out.

    A class is `{"data": [[784 numbers], …]}`.
    """
    stacks = []
    for label, listed in enumerate(classes):
        rows = [row for row in listed["data"] if row][:each]
        if len(rows) < each:
            raise InputError(f"class {label}", f"{len(rows)} images", f"at least {each}")
        stacks.append(np.array(rows, np.uint8))
    images = np.stack(stacks, axis=1).reshape(each * len(classes), -1)
    side = math.isqrt(images.shape[1])
    labels = np.tile(np.arange(len(classes), dtype=np.uint8), each)
    return images.reshape(-1, side, side, 1), labels


def cifar10(read: Read) -> tuple[Bytes, Bytes]:
    """CIFAR-10's training images in their own order, from five PNG sheets and a JSON list."""
    sheets = [sheet(read(f"data_batch_{number}.png"), 32) for number in range(1, 6)]
    labels = np.array(json.loads(read("train_lables.json")), np.uint8)  # the package's spelling
    return np.concatenate(sheets), labels


def cifar10_test(read: Read) -> tuple[Bytes, Bytes]:
    """CIFAR-10's test images in their own order, from the sixth sheet and its list."""
    labels = np.array(json.loads(read("test_lables.json")), np.uint8)
    return sheet(read("test_batch.png"), 32), labels


def sheet(content: bytes, side: int) -> Bytes:
    """Square colour images from a PNG in which each row of pixels is one image."""
    from PIL import Image

    with Image.open(BytesIO(content), formats=["PNG"]) as opened:
        pixels = np.asarray(opened.convert("RGB"))
    if pixels.shape[1] != side * side:
        raise InputError("PNG sheet", f"rows of {pixels.shape[1]} pixels", f"rows of {side * side}")
    return pixels.reshape(-1, side, side, 3)


def digits(_: Read) -> tuple[Bytes, Bytes]:
    """scikit-learn's own 8x8 digits, with their 17 greys spread over a byte."""
    from sklearn.datasets import load_digits

    found = load_digits()
    images = np.rint(found.images * (255 / 16)).astype(np.uint8)
    return images[..., np.newaxis], found.target.astype(np.uint8)
