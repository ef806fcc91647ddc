"""The packages of a split, as the host needs them: what each device takes and gives."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forerun.errors import InputError
from forerun.splitting.device.faults import DeviceError
from forerun.splitting.device.program import Piece, Program, Shape
from forerun.splitting.device.reading import MOST_DEVICES, read_program, shape_of

Floats = NDArray[np.float32]
Sample = Floats | Mapping[str, Floats]
Dims = tuple[int, ...]

_LARGEST = 2**20  # bytes of split.json


@dataclass(frozen=True, slots=True)
class Packages:
    """All packages of a split, which belong together."""

    uid: str
    is_replicated: bool  # every device has the whole network, and samples go round
    inputs: Mapping[str, Dims]
    outputs: Mapping[str, Dims]
    programs: tuple[Program, ...]

    def turn(self, sample: int) -> range:
        """The devices that have something to do with a sample."""
        count = len(self.programs)
        return range(sample % count, sample % count + 1) if self.is_replicated else range(count)

    def checked(self, sample: Sample) -> dict[str, Floats]:
        """A sample's tensors, of our own: whoever gave it may write there again."""
        given = sample if isinstance(sample, Mapping) else {}
        if not isinstance(sample, Mapping) and len(self.inputs) == 1:
            given = dict.fromkeys(self.inputs, sample)
        if sorted(given) != sorted(self.inputs):
            names = ", ".join(map(str, given)) or "one tensor"
            raise InputError("sample", names, f"a tensor for each of {', '.join(self.inputs)}")
        found = {}
        for name, array in given.items():
            tensor = np.array(array, np.float32, order="C")
            if tensor.shape == self.inputs[name][1:]:
                tensor = tensor[np.newaxis]
            if tensor.shape != self.inputs[name]:
                expected = f"{list(self.inputs[name])}"
                raise InputError(f"sample: {name}", f"a tensor of {list(tensor.shape)}", expected)
            found[name] = tensor
        return found


def read_packages(folder: Path) -> Packages:
    """The packages of a folder; InputError where they are not whole, or not of one split."""
    path = folder / "split.json"
    found = _read(path)
    check_document(path, found)
    uid, devices = found["split"], found["devices"]
    inputs, outputs = _shapes(path, found, "inputs"), _shapes(path, found, "outputs")
    programs = []
    for i in range(devices):
        package = folder / f"device-{i}"
        with as_input_error():
            program = read_program(package)
        if (program.split, program.device, program.devices) != (uid, i, devices):
            raise InputError(
                str(package / "package.json"),
                f"device {program.device} of {program.devices} of split {program.split[:8]}",
                f"device {i} of {devices} of split {uid[:8]}",
            )
        _check_pieces(program, "input", program.inputs, inputs)
        _check_pieces(program, "output", program.outputs, outputs)
        programs.append(program)
    return Packages(
        uid,
        found["kind"] == "replicas",
        {name: shape.dims for name, shape in inputs.items()},
        {name: shape.dims for name, shape in outputs.items()},
        tuple(programs),
    )


def check_document(path: Path, found: Mapping[str, Any]) -> None:
    """InputError unless a split.json has all that is asked of it, of the right kind."""
    for field in ("split", "network", "name", "kind", "layout", "precision"):
        if not isinstance(found.get(field), str):
            raise InputError(str(path), f"no {field!r}", "what `forerun split cut` writes")
    devices = found.get("devices")
    if type(devices) is not int or not 1 <= devices <= MOST_DEVICES:
        raise InputError(f"{path}: devices", devices, f"1 to {MOST_DEVICES}")
    for field in ("inputs", "outputs"):
        _shapes(path, found, field)


def _shapes(path: Path, found: Mapping[str, Any], field: str) -> dict[str, Shape]:
    """The network's inputs or outputs."""
    table = found.get(field)
    if not isinstance(table, dict):
        raise InputError(f"{path}: {field}", table, "a table of shapes")
    shapes = {}
    for name, dims in table.items():
        shape = shape_of(dims)
        if shape is None:
            raise InputError(f"{path}: {field}: {name}", dims, "[1, channels, rows, columns]")
        shapes[name] = shape
    return shapes


def _check_pieces(
    program: Program, field: str, pieces: Sequence[Piece], shapes: Mapping[str, Shape]
) -> None:
    """A piece is a part of the network's input or output: nothing is read or written beside it."""
    for piece in pieces:
        shape = shapes.get(piece.name)
        columns = program.buffers[piece.buffer].columns
        if shape is None or not shape.holds(piece.box) or shape.columns != columns:
            where = f"{program.folder / 'package.json'}: {field}s"
            raise InputError(where, piece.name, f"a part of an {field} of the network")


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _LARGEST:
            raise InputError(str(path), "a large file", f"at most {_LARGEST} bytes")
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise InputError(str(path), "no JSON", "what `forerun split cut` writes") from None
    if not isinstance(found, dict) or found.get("format") != 1:
        raise InputError(str(path), "another format", "1: made by another forerun")
    return found


@contextmanager
def as_input_error(device: int | None = None) -> Iterator[None]:
    """What the part that runs on boards raises is the user's to know, as an InputError."""
    try:
        yield
    except DeviceError as error:
        where = "" if device is None else f"device {device}: "
        raise InputError(f"{where}{error}") from None
