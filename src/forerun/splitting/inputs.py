"""What a network is fed: pictures, cropped and normalised as it takes them, or arrays as they are.

A picture is scaled so that the part of it that `crop` keeps covers the network's rows and columns,
cut from its middle, and normalised a channel: (pixel/255 - mean) / std. Where neither the user nor
the network's file says `mean` and `std`, a network of three channels gets ImageNet's, which most
published weights were trained with; one of one channel sees grey from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from forerun.errors import InputError
from forerun.splitting.decoding import check_size, map_array, read_pixels

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

Array = NDArray[np.float32]
Normal = tuple[tuple[float, ...], tuple[float, ...]]  # mean and deviation of each channel, 0 to 1

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
CROP = 0.875  # of the shorter side: 224 of 256 pixels

_MODES = {1: "L", 3: "RGB"}  # what Pillow calls pictures of so many channels
_FLOATS = ("f2", "f4", "f8")
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class Pixels:
    """How pixels become numbers."""

    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    crop: float = CROP

    def __post_init__(self) -> None:
        if not 0 < self.crop <= 1:
            raise InputError("--crop", self.crop, "a share of the picture, above 0 and at most 1")
        for value in self.std or ():
            if not value > 0:
                raise InputError("--std", value, "numbers above 0")

    def of(self, channels: int) -> tuple[Array, Array]:
        """The mean and the spread of each channel, to be broadcast over rows and columns."""
        coloured = channels == len(IMAGENET_MEAN)
        mean = self.mean or (IMAGENET_MEAN if coloured else (0.0,))
        std = self.std or (IMAGENET_STD if coloured else (1.0,))
        return _each("--mean", mean, channels), _each("--std", std, channels)


def normal_of(mean: object, std: object, channels: int) -> Normal | None:
    """What a document says that pictures are normalised by; None unless that makes sense."""
    found = []
    for numbers in (mean, std):
        if not isinstance(numbers, list) or len(numbers) != channels:
            return None
        if not all(type(one) in (int, float) and abs(one) <= _LARGEST for one in numbers):
            return None
        found.append(tuple(map(float, numbers)))
    return (found[0], found[1]) if all(np.float32(one) > 0 for one in found[1]) else None


class Samples(Sized, Iterable[Array]):
    """The samples of some files, in order, of shape [1, C, H, W] or as the network has it.

    There may be more of them than memory holds: each is read when its turn comes, whenever somebody
    goes through them. That arrays fit is checked before, by what their files begin with.
    """

    def __init__(
        self, files: Iterable[Path], shapes: Mapping[str, Sequence[int]], pixels: Pixels
    ) -> None:
        """`shapes` are those of the network's inputs, of which there must be one."""
        if len(shapes) != 1:
            found = f"a network of {len(shapes)} inputs"
            raise InputError("--input", found, "a network of one input")
        (self._shape,) = (tuple(shape) for shape in shapes.values())
        self._pixels = pixels
        self._counts = [(file, self._count(file)) for file in files]

    def __len__(self) -> int:
        return sum(count for _, count in self._counts)

    def __iter__(self) -> Iterator[Array]:
        for file, _ in self._counts:
            if _is_array(file):
                for number, one in enumerate(_mapped(file, self._shape)):
                    with np.errstate(over="ignore"):  # of float64; what comes of it is refused
                        sample = np.ascontiguousarray(one[np.newaxis], np.float32)
                    if not np.isfinite(sample).all():
                        found = "a number that is not finite, as float32 has it"
                        raise InputError(f"{file}: sample {number}", found, "numbers")
                    yield sample
            else:
                yield read_picture(file, self._shape, self._pixels)

    @property
    def names(self) -> Iterator[str]:
        """What each is called."""
        for file, count in self._counts:
            for number in range(count):
                yield str(file) if count == 1 else f"{file}, {number}"

    def _count(self, file: Path) -> int:
        return len(_mapped(file, self._shape)) if _is_array(file) else 1


def _is_array(file: Path) -> bool:
    return file.suffix == ".npy"


def read_picture(file: Path, shape: Sequence[int], pixels: Pixels | None = None) -> Array:
    """A picture as a network with inputs of this shape, [1, C, H, W], takes it."""
    if len(shape) != 4 or shape[1] not in _MODES:
        expected = "an array (.npy): pictures are for networks of 1 or 3 channels"
        raise InputError(str(file), f"a network whose input is {list(shape)}", expected)
    _, channels, rows, columns = shape
    mean, std = (pixels or Pixels()).of(channels)
    upright = read_pixels(file, _MODES[channels], upright=True)
    cut = _cropped(file, upright, rows, columns, (pixels or Pixels()).crop)
    values = np.asarray(cut, np.float32).reshape(rows, columns, channels) / 255
    return np.ascontiguousarray(((values.transpose(2, 0, 1) - mean) / std)[np.newaxis])


def _cropped(file: Path, picture: Picture, rows: int, columns: int, crop: float) -> Picture:
    """The middle of a picture, so scaled that it has these rows and columns."""
    from PIL import Image

    scale = max(rows / picture.height, columns / picture.width) / crop
    width = max(columns, round(picture.width * scale))
    height = max(rows, round(picture.height * scale))
    check_size(file, width, height)  # of one that is very long and narrow
    left, top = (width - columns) // 2, (height - rows) // 2
    scaled = picture.resize((width, height), Image.Resampling.BILINEAR)
    return scaled.crop((left, top, left + columns, top + rows))


def _mapped(file: Path, shape: tuple[int, ...]) -> NDArray[Any]:
    """The samples of a file of NumPy's, which are read when they are looked at.

    There is one, or as many as its first size says.
    """
    found = map_array(file)
    if found.dtype.str[1:] not in _FLOATS:
        expected = "float32, normalised as the network wants it (pixels: a PNG or JPEG)"
        raise InputError(str(file), f"an array of {found.dtype}", expected)
    if found.shape == shape[1:]:
        found = found[np.newaxis]
    if found.ndim != len(shape) or found.shape[1:] != shape[1:] or not len(found):
        wanted = "x".join(map(str, shape[1:]))
        shown = "x".join(map(str, found.shape)) or "one number"
        raise InputError(str(file), f"an array of {shown}", f"Nx{wanted}, for N samples")
    return found


def _each(option: str, values: tuple[float, ...], channels: int) -> Array:
    if len(values) not in (1, channels):
        found = ",".join(f"{value:g}" for value in values)
        raise InputError(option, found, f"one number, or {channels}: one a channel")
    spread = values * channels if len(values) == 1 else values
    return np.array(spread, np.float32).reshape(channels, 1, 1)
