"""Files that are not what they seem."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

from forerun.errors import InputError
from forerun.splitting import decoding
from forerun.splitting.decoding import map_array, read_pixels

POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\nshowpage\n%%EOF\n"


@pytest.mark.parametrize("suffix", ["png", "gif", "bmp", "ppm", "tiff", "webp", "jpg"])
def test_common_formats_are_read(tmp_path: Path, suffix: str) -> None:
    Image.new("RGB", (5, 4), (200, 100, 50)).save(tmp_path / f"x.{suffix}")
    found = np.asarray(read_pixels(tmp_path / f"x.{suffix}", "RGB"), int)
    assert found.shape == (4, 5, 3)
    assert np.abs(found - (200, 100, 50)).max() < 8


def test_no_other_program_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostScript would be handed to Ghostscript, whatever the file is called."""
    started: list[object] = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *words, **_: started.append(words))
    (tmp_path / "cat.png").write_bytes(POSTSCRIPT)
    with pytest.raises(
        InputError, match=r"cat\.png: found no picture .*, expected a picture: JPEG"
    ):
        read_pixels(tmp_path / "cat.png", "RGB")
    assert started == []


def test_more_pixels_than_anybody_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("L", (10, 11)).save(tmp_path / "large.png")
    monkeypatch.setattr(decoding, "_MOST_PIXELS", 110)
    assert read_pixels(tmp_path / "large.png", "L").size == (10, 11)
    monkeypatch.setattr(decoding, "_MOST_PIXELS", 109)
    expected = r"large\.png: found a picture of 10x11 pixels, expected at most 109"
    with pytest.raises(InputError, match=expected):
        read_pixels(tmp_path / "large.png", "L")


def png(*chunks: tuple[bytes, bytes]) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


SIZES = struct.pack(">IIBBBBB", 4, 4, 8, 0, 0, 0, 0)
BROKEN = {
    "nothing": b"",
    "no size": png((b"IHDR", b"")),
    "no pixels": png((b"IHDR", SIZES), (b"IEND", b"")),
    "pixels that are none": png((b"IHDR", SIZES), (b"IDAT", b"none"), (b"IEND", b"")),
    "a long text": png(
        (b"IHDR", SIZES), (b"zTXt", b"a\0\0" + zlib.compress(bytes(2**21))), (b"IEND", b"")
    ),
    "half a header": b"II*\0\x08\0\0\0\xff\xff",
    "a gif": b"GIF89a\xff",
    "a bmp": b"BM" + bytes(20),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_broken_pictures_are_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "broken.png").write_bytes(content)
    with pytest.raises(InputError, match=r"broken\.png: found no picture \(\w+\), expected"):
        read_pixels(tmp_path / "broken.png", "L", upright=True)


@pytest.mark.parametrize(
    "content", [b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00\x04\x00{(((", b"\x93NUMPY\x01\x00\x02\x00''"]
)
def test_broken_arrays_are_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(InputError, match=r"x\.npy: found no array \(.*, expected a file of numpy"):
        map_array(tmp_path / "x.npy")


def test_half_an_array_is_named(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(100))
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-8])
    with pytest.raises(InputError, match="found no array"):
        map_array(tmp_path / "x.npy")
