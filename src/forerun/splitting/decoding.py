"""Files of anybody's: pictures of common formats and arrays, and nothing else that they might be.

Some formats that Pillow knows start other programs, and a small file may hold a huge picture.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from forerun.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
_MOST_PIXELS = 89_478_485  # a quarter GiB of colours; Pillow warns of more, and reads it


def read_pixels(file: Path, mode: str, *, upright: bool = False) -> Picture:
    """A picture in one of Pillow's modes; `upright` turns it as the camera was held."""
    from PIL import Image, ImageOps

    try:
        with Image.open(file, formats=_FORMATS) as opened:
            check_size(file, opened.width, opened.height)
            turned = ImageOps.exif_transpose(opened) if upright else opened
            return turned.convert(mode)
    except InputError:
        raise
    except Exception as error:  # broken files bring about errors of many kinds
        found = getattr(error, "strerror", None) or f"no picture ({type(error).__name__})"
        expected = f"a picture: {', '.join(_FORMATS)}"
        raise InputError(str(file), found, expected) from error


def check_size(file: Path, width: int, height: int) -> None:
    """InputError where a picture, or what is made of it, has more pixels than anybody needs."""
    if width * height > _MOST_PIXELS:
        found = f"a picture of {width}x{height} pixels"
        raise InputError(str(file), found, f"at most {_MOST_PIXELS} of them")


def map_array(file: Path) -> NDArray[Any]:
    """The array of a file of `numpy.save`; its numbers are read when they are looked at.

    Not by `numpy.load`, which would read other kinds of files too.
    """
    try:
        return np.lib.format.open_memmap(file, mode="r")
    except OSError:
        raise
    except Exception as error:  # broken headers bring about errors of many kinds
        found = f"no array ({str(error) or type(error).__name__})"
        raise InputError(str(file), found, "a file of numpy.save") from None
