"""A split whose devices compute in int8: every segment quantised, what travels still float32.

Ranges are those that samples have when they run through the whole split, so that each segment is
calibrated on what it will read. Of many samples that is far more than memory holds, so it waits in
files beside the split that is made, until the segment's turn comes.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from forerun.errors import InputError
from forerun.splitting.cut import Split, finish, new_folder
from forerun.splitting.device.program import Program, Segment
from forerun.splitting.device.reading import checked_file
from forerun.splitting.packages import as_input_error, read_packages
from forerun.splitting.simulate import Array, Simulation

_WORKING = frozenset(("Conv", "Gemm"))  # segments with none of these stay as they are
_KEPT = ("split",)  # said of each split alone


def quantise(
    folder: str | Path,
    samples: Iterable[Array | Mapping[str, Array]],
    out: str | Path,
) -> Split:
    """Write a split of the same network and layout that computes in int8.

    Weights have a scale for each output channel, activations one for each tensor, from the samples'
    smallest and largest numbers.
    """
    split = Split.load(folder)
    about = {key: value for key, value in split.document.items() if key not in _KEPT}
    about["precision"] = "int8"
    with (
        new_folder(Path(out)) as place,
        tempfile.TemporaryDirectory(prefix=".forerun-", dir=place.parent) as beside,
    ):
        feeds = _Feeds(Path(beside))
        _feed(split, samples, feeds)
        finish(place, about, list(_packages(split, feeds, place)))
    return Split.load(out)


@dataclass(frozen=True, slots=True)
class _Feeds:
    """What each segment of each device reads of all samples: a file each, one array after another.

    A segment names what it reads in one order, so that names need not be kept.
    """

    folder: Path

    def keep(self, device: int, segment: int, inputs: Mapping[str, Array]) -> None:
        """Add what a segment reads of one more sample."""
        with self._file(device, segment).open("ab") as file:
            for value in inputs.values():
                np.save(file, value)

    def of(self, device: int, segment: int, names: Iterable[str]) -> Iterator[dict[str, Array]]:
        """What a segment has read, sample by sample."""
        file = self._file(device, segment)
        if not file.exists():
            return
        with file.open("rb") as opened:
            while opened.peek(1):
                yield {name: np.load(opened) for name in names}

    def _file(self, device: int, segment: int) -> Path:
        return self.folder / f"{device}-{segment}"


def _feed(split: Split, samples: Iterable[Array | Mapping[str, Array]], feeds: _Feeds) -> None:
    """Run the samples, and keep what segments read."""
    simulation = Simulation(split.folder)
    names = list(split.document["inputs"])
    is_fed = False
    for sample in samples:
        given = sample if isinstance(sample, Mapping) else dict.fromkeys(names, sample)
        simulation.run(given, before=feeds.keep)
        is_fed = True
    if not is_fed:
        raise InputError("samples to quantise by", "none", "at least one")


def _packages(split: Split, feeds: _Feeds, place: Path) -> Iterator[dict[str, Any]]:
    found = read_packages(split.folder)
    segments: list[dict[str, Any]] = []
    for program in found.programs:
        device = program.device
        package = {k: v for k, v in split.description(device).items() if k not in _KEPT}
        target = place / f"device-{device}"
        if found.is_replicated and device:  # only the first has run, and is copied
            shutil.copytree(place / "device-0", target)
        else:
            target.mkdir()
            segments = [
                about | _segment(program, segment, feeds.of(device, number, segment.inputs), target)
                for number, (about, segment) in enumerate(
                    zip(package["segments"], program.segments, strict=True)
                )
            ]
        weights = sum(one["weights_bytes"] for one in segments)
        yield {**package, "segments": segments, "weights_bytes": weights}


def _segment(
    program: Program, segment: Segment, feeds: Iterator[dict[str, Array]], target: Path
) -> dict[str, Any]:
    """Write a segment in int8; what is new about it."""
    path = target / segment.file
    with as_input_error():
        source = checked_file(program, segment)
    _quantised(source, feeds, path)
    content = path.read_bytes()
    digest = sha256(content).hexdigest()
    return {"file": segment.file, "sha256": digest, "weights_bytes": _stored(content)}


def _quantised(source: Path, feeds: Iterator[dict[str, Array]], target: Path) -> None:
    import onnx
    from onnxruntime import quantization

    model = onnx.load(source)
    first = next(feeds, None)
    if first is None or _WORKING.isdisjoint(node.op_type for node in model.graph.node):
        shutil.copyfile(source, target)
        return
    with _silence(), tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "int8.onnx"
        quantization.quantize_static(
            str(source),
            str(made),
            _reader(chain([first], feeds)),
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=True,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
        )
        found = onnx.load(made)
    target.write_bytes(found.SerializeToString(deterministic=True))


def _reader(feeds: Iterator[dict[str, Array]]) -> Any:
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        """Hands out what a segment read, sample by sample."""

        def get_next(self) -> dict[str, Array] | None:
            return next(feeds, None)

    return Reader()


@contextmanager
def _silence() -> Iterator[None]:
    """Without the library's advice, which goes to the root logger."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _stored(content: bytes) -> int:
    """Bytes of a file's weights; places and sizes are none."""
    import onnx

    total = 0
    for tensor in onnx.load_from_string(content).graph.initializer:
        if tensor.data_type != onnx.TensorProto.INT64:
            kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
            total += prod(tensor.dims) * np.dtype(kind).itemsize
    return total
