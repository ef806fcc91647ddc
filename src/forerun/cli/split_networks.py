"""Networks by name: `resnet-50`, `resnet-50:x1.75` for the decoupled one, with random weights."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from forerun.cli.common import note, working
from forerun.cli.split_common import need
from forerun.errors import InputError

GROUPS = 4
_NAME = re.compile(r"(?P<network>[a-z]+(?:-?[a-z0-9]+)*)(?::x(?P<width>[0-9.]+))?", re.ASCII)


class Network(NamedTuple):
    """What a network is called, and its file."""

    name: str
    file: Path


@contextmanager
def network_of(given: str) -> Iterator[Network]:
    """The file of a network: the one given, or for a while that of one that is known by name.

    A network that is built here has random weights and statistics; it is to be checked or timed.
    """
    found = _NAME.fullmatch(given)
    if found is None or Path(given).exists():
        yield Network(Path(given).stem, Path(given))
        return
    width = _width(given, found["width"])
    need("torch", "onnxscript")
    from forerun.splitting.decouple import variant
    from forerun.splitting.export import random_statistics, to_onnx

    with TemporaryDirectory(prefix="forerun-") as folder:
        file = Path(folder) / "network.onnx"
        with working(f"building {given}"):
            groups = 1 if width is None else GROUPS
            module = variant(found["network"], width=1.0 if width is None else width, groups=groups)
            random_statistics(module)
            to_onnx(module, file)
        note(f"{given}: built here, with random weights")
        yield Network(given, file)


def _width(given: str, text: str | None) -> float | None:
    """How wide a decoupled network is; None for one that is not."""
    if text is None:
        return None
    try:
        width = float(text)
    except ValueError:
        width = 0.0
    if width <= 0:
        raise InputError(f"{given}: width", text, "a number above 0, such as 1.75")
    return width
