"""Images to train on: arrays in memory, as small data sets have them, or folders of photographs.

Both give batches of normalised images (samples x rows x columns x channels) with their labels. What
is random about an epoch (order, crops, flips) follows from the generator that it is given.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image

from forerun.errors import InputError
from forerun.splitting.decoding import map_array, read_pixels
from forerun.splitting.inputs import IMAGENET_MEAN, IMAGENET_STD, Normal

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.integer]
Batch = tuple[NDArray[np.float32], NDArray[np.int64]]

FOLDER = "folder"  # the data set that is a folder of photographs
_PAD = 4  # pixels that a small image may be moved by
_AREA, _ASPECT = (0.08, 1.0), (3 / 4, 4 / 3)  # of a random crop
_CENTRE = 7 / 8  # of the shorter side, when testing
_SUFFIXES = {".jpeg", ".jpg", ".png", ".webp"}
_AHEAD = 3  # batches that are read before they are asked for


class Images(Protocol):
    """A data set: what it is normalised by, and its batches."""

    classes: int
    normal: Normal

    def steps(self, batch: int, workers: int) -> int:
        """Of an epoch; InputError where there is not a whole one."""

    def training(self, batch: int, random: Generator, rank: int, workers: int) -> Iterator[Batch]:
        """A worker's share of all training images in random order; the last few are left out."""

    def testing(self, batch: int) -> Iterator[Batch]:
        """All test images, in order."""


def opened(dataset: str, directory: Path, pixels: int, loaders: int) -> Images:
    """The data set in a directory: `NAME-images.npy` and so on, or a folder of photographs."""
    if dataset == FOLDER:
        return Photographs(directory, pixels, loaders)
    train, test = (_arrays(f"{dataset}{part}", directory) for part in ("", "-test"))
    for images, _ in (train, test):
        if images.shape[1:] != (pixels, pixels, 3):
            found = "x".join(map(str, images.shape[1:]))
            raise InputError(f"data set {dataset}", f"images of {found}", f"{pixels}x{pixels}x3")
    return Arrays(train, test)


def _arrays(name: str, directory: Path) -> tuple[Bytes, Bytes]:
    found = []
    for what, dimensions in (("images", 4), ("labels", 1)):
        file = directory / f"{name}-{what}.npy"
        try:
            array = map_array(file)
        except OSError as error:
            expected = "a data set, as `forerun workload setup data` makes it"
            raise InputError(str(file), error.strerror or error, expected) from None
        if array.dtype != np.uint8 or array.ndim != dimensions:
            expected = f"bytes in {dimensions} dimensions"
            raise InputError(str(file), f"{array.dtype} {array.shape}", expected)
        found.append(np.array(array))
    images, labels = found
    if len(images) != len(labels) or not len(images):
        raise InputError(f"data set {name}", f"{len(images)} images", f"{len(labels)} labels, some")
    return images, labels


class Arrays:
    """Small images, all in memory: moved by up to four pixels and flipped for training."""

    def __init__(self, train: tuple[Bytes, Bytes], test: tuple[Bytes, Bytes]) -> None:
        self._train, self._test = train, test
        self.classes = int(max(train[1].max(), test[1].max())) + 1
        self.normal = _statistics(train[0])

    def steps(self, batch: int, workers: int) -> int:
        return _steps(len(self._train[0]), batch, workers)

    def training(self, batch: int, random: Generator, rank: int, workers: int) -> Iterator[Batch]:
        images, labels = self._train
        for chosen in _shared(len(images), batch, random, rank, workers):
            yield _normalised(_moved(images[chosen], random), self.normal), _whole(labels[chosen])

    def testing(self, batch: int) -> Iterator[Batch]:
        images, labels = self._test
        for start in range(0, len(images), batch):
            part = slice(start, start + batch)
            yield _normalised(images[part], self.normal), _whole(labels[part])


def _shared(
    images: int, batch: int, random: Generator, rank: int, workers: int
) -> Iterator[NDArray[np.int64]]:
    """A worker's batches of one order of all images; every worker has as many, all of one size."""
    order = random.permutation(images)
    for step in range(_steps(images, batch, workers)):
        start = (step * workers + rank) * batch
        yield order[start : start + batch]


def _steps(images: int, batch: int, workers: int) -> int:
    steps = images // (batch * workers)
    if steps == 0:
        expected = f"at least a batch of {batch} for each of {workers} workers"
        raise InputError("training images", images, expected)
    return steps


def _statistics(images: Bytes) -> Normal:
    """Mean and deviation of each channel, exactly: bytes have but 256 values."""
    values = np.arange(256) / 255
    means, deviations = [], []
    for channel in range(images.shape[-1]):
        shares = np.bincount(images[..., channel].ravel(), minlength=256) / images[..., 0].size
        means.append(float(shares @ values))
        deviations.append(float(np.sqrt(shares @ (values - means[-1]) ** 2)) or 1.0)
    return tuple(means), tuple(deviations)


def _moved(images: Bytes, random: Generator) -> Bytes:
    """Each image moved within a black frame, and every other one flipped, by chance."""
    count, rows, columns, _ = images.shape
    framed = np.pad(images, ((0, 0), (_PAD, _PAD), (_PAD, _PAD), (0, 0)))
    shift = random.integers(0, 2 * _PAD + 1, (2, count, 1))
    flipped = random.random((count, 1)) < 0.5
    across = np.where(flipped, np.arange(columns)[::-1], np.arange(columns)) + shift[1]
    down = np.arange(rows) + shift[0]
    places = np.arange(count)[:, None, None], down[:, :, None], across[:, None, :]
    moved: Bytes = framed[places]
    return moved


def _normalised(images: Bytes, normal: Normal) -> NDArray[np.float32]:
    mean, deviation = (np.array(one, np.float32) * 255 for one in normal)
    return (images - mean) / deviation


def _whole(labels: Numbers) -> NDArray[np.int64]:
    return labels.astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Photograph:
    file: Path
    label: int


class Photographs:
    """Photographs in folders, as ImageNet has them: `train/CLASS/*.JPEG` and `val/CLASS/*.JPEG`.

    Threads decode them ahead of the training, which needs no process of its own: Pillow lets
    others run meanwhile.
    """

    normal: Normal = (IMAGENET_MEAN, IMAGENET_STD)

    def __init__(self, directory: Path, pixels: int, loaders: int) -> None:
        self._pixels, self._loaders = pixels, loaders
        names = _classes(directory / "train")
        if (tested := _classes(directory / "val")) != names:
            other = sorted({*names} ^ {*tested})[0]
            raise InputError(str(directory), f"class {other} in one of train and val", "in both")
        self.classes = len(names)
        self._train = _listed(directory / "train", names)
        self._test = _listed(directory / "val", names)

    def steps(self, batch: int, workers: int) -> int:
        return _steps(len(self._train), batch, workers)

    def training(self, batch: int, random: Generator, rank: int, workers: int) -> Iterator[Batch]:
        chosen = _shared(len(self._train), batch, random, rank, workers)
        seed = int(random.integers(2**62))

        def cropped(place: int) -> Bytes:
            return _cropped(
                self._train[place].file, self._pixels, np.random.default_rng([seed, place])
            )

        yield from self._read(self._train, ([*map(int, one)] for one in chosen), cropped)

    def testing(self, batch: int) -> Iterator[Batch]:
        places = range(len(self._test))
        parts = (list(places[start : start + batch]) for start in places[::batch])
        yield from self._read(
            self._test, parts, lambda place: _centred(self._test[place].file, self._pixels)
        )

    def _read(
        self,
        listed: Sequence[_Photograph],
        batches: Iterable[list[int]],
        decode: Callable[[int], Bytes],
    ) -> Iterator[Batch]:
        ahead: deque[tuple[list[int], list[Future[Bytes]]]] = deque()
        with ThreadPoolExecutor(self._loaders) as pool:
            for places in itertools.chain(batches, [None] * _AHEAD):
                if places is not None:
                    ahead.append((places, [pool.submit(decode, place) for place in places]))
                if ahead and (places is None or len(ahead) > _AHEAD):
                    ready, decoded = ahead.popleft()
                    images = np.stack([one.result() for one in decoded])
                    labels = np.array([listed[place].label for place in ready])
                    yield _normalised(images, self.normal), _whole(labels)


def _classes(directory: Path) -> list[str]:
    try:
        names = sorted(one.name for one in directory.iterdir() if one.is_dir())
    except OSError as error:
        raise InputError(str(directory), str(error.strerror), "a folder a class") from None
    if not names:
        raise InputError(str(directory), "no folders", "a folder a class")
    return names


def _listed(directory: Path, names: Sequence[str]) -> list[_Photograph]:
    return [
        _Photograph(file, label)
        for label, name in enumerate(names)
        for file in sorted((directory / name).iterdir())
        if file.suffix.lower() in _SUFFIXES
    ]


def _cropped(file: Path, pixels: int, random: Generator) -> Bytes:
    """A random part of a photograph, flipped or not."""
    image = read_pixels(file, "RGB")
    for _ in range(10):
        area = random.uniform(*_AREA) * image.width * image.height
        aspect = np.exp(random.uniform(*np.log(_ASPECT)))
        width, height = (area * aspect) ** 0.5, (area / aspect) ** 0.5
        if width <= image.width and height <= image.height:
            break
    else:
        width = height = float(min(image.width, image.height))
    left = random.uniform(0, image.width - width)
    top = random.uniform(0, image.height - height)
    taken = _resized(image, (left, top, left + width, top + height), pixels)
    return taken[:, ::-1] if random.random() < 0.5 else taken


def _centred(file: Path, pixels: int) -> Bytes:
    """The middle of a photograph."""
    image = read_pixels(file, "RGB")
    side = _CENTRE * min(image.width, image.height)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    return _resized(image, (left, top, left + side, top + side), pixels)


def _resized(image: Image.Image, box: tuple[float, float, float, float], pixels: int) -> Bytes:
    return np.asarray(image.resize((pixels, pixels), Image.Resampling.BILINEAR, box))
