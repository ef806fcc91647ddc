"""The packages of a split, as the host needs them: what each device takes and gives."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forerun.errors import InputError
from forerun.splitting.answers import FLOAT, TYPES
from forerun.splitting.device.faults import DeviceError
from forerun.splitting.device.program import Piece, Program, Shape
from forerun.splitting.device.reading import MOST_DEVICES, read_program, shape_of
from forerun.splitting.graph import Shape as Sizes

Floats = NDArray[np.float32]
Numbers = NDArray[Any]  # of the type that a network's output has
Sample = Floats | Mapping[str, Floats]

_LARGEST = 2**20  # bytes of split.json
_MOST_SIZES = 32  # of a tensor: what any NumPy takes


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output of the network: as the network has it, and as devices do."""

    dims: tuple[int, ...]
    laid_out: Shape
    type: str = FLOAT


@dataclass(frozen=True, slots=True)
class Packages:
    """All packages of a split, which belong together."""

    uid: str
    is_replicated: bool  # every device has the whole network, and samples go round
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    programs: tuple[Program, ...]

    def turn(self, sample: int) -> range:
        """The devices that have something to do with a sample."""
        count = len(self.programs)
        return range(sample % count, sample % count + 1) if self.is_replicated else range(count)

    def checked(self, sample: Sample) -> dict[str, Floats]:
        """A sample's tensors as devices have them, of our own: its giver may write there again."""
        given = sample if isinstance(sample, Mapping) else {}
        if not isinstance(sample, Mapping) and len(self.inputs) == 1:
            given = dict.fromkeys(self.inputs, sample)
        if sorted(given) != sorted(self.inputs):
            names = ", ".join(map(str, given)) or "one tensor"
            raise InputError("sample", names, f"a tensor for each of {', '.join(self.inputs)}")
        found = {}
        for name, array in given.items():
            tensor, wanted = np.array(array, np.float32, order="C"), self.inputs[name]
            without = wanted.dims[1:] if wanted.dims[:1] == (1,) else wanted.dims
            if tensor.shape not in (wanted.dims, without):
                shown = f"a tensor of {list(tensor.shape)}"
                raise InputError(f"sample: {name}", shown, f"{list(wanted.dims)}")
            found[name] = tensor.reshape(wanted.laid_out.dims)
        return found

    def blank(self) -> dict[str, Floats]:
        """Outputs as devices have them, for their parts to be put into, or added to."""
        return {n: np.zeros(one.laid_out.dims, np.float32) for n, one in self.outputs.items()}

    def answers(self, outputs: Mapping[str, Floats]) -> dict[str, Numbers]:
        """Outputs that are complete, in the shapes and types that the network's own have."""
        found: dict[str, Numbers] = {}
        for name, array in outputs.items():
            wanted = self.outputs[name]
            found[name] = array.reshape(wanted.dims).astype(wanted.type, copy=False)
        return found


def read_packages(folder: Path) -> Packages:
    """The packages of a folder; InputError where they are not whole, or not of one split."""
    path = folder / "split.json"
    found = _read(path)
    check_document(path, found)
    uid, devices = found["split"], found["devices"]
    inputs, outputs = _tensors(path, found, "inputs"), _tensors(path, found, "outputs")
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
    return Packages(uid, found["kind"] == "replicas", inputs, outputs, tuple(programs))


def check_document(path: Path, found: Mapping[str, Any]) -> None:
    """InputError unless a split.json has all that is asked of it, of the right kind."""
    for field in ("split", "network", "name", "kind", "layout", "precision"):
        if not isinstance(found.get(field), str):
            raise InputError(str(path), f"no {field!r}", "what `forerun split cut` writes")
    devices = found.get("devices")
    if type(devices) is not int or not 1 <= devices <= MOST_DEVICES:
        raise InputError(f"{path}: devices", devices, f"1 to {MOST_DEVICES}")
    for field in ("inputs", "outputs"):
        _tensors(path, found, field)


def _tensors(path: Path, found: Mapping[str, Any], field: str) -> dict[str, Tensor]:
    """The network's inputs or outputs; only outputs may be of another type than float32."""
    table = found.get(field)
    if not isinstance(table, dict):
        raise InputError(f"{path}: {field}", table, "a table of shapes")
    types = found.get("types", {}) if field == "outputs" else {}
    if not isinstance(types, dict):
        raise InputError(f"{path}: types", types, "a table of types")
    tensors = {}
    for name, dims in table.items():
        shape = _laid_out(dims)
        if shape is None:
            raise InputError(f"{path}: {field}: {name}", dims, "[1, channels, rows, columns]")
        kind = types.get(name, FLOAT)
        if not isinstance(kind, str) or kind not in TYPES:
            raise InputError(f"{path}: types: {name}", kind, f"one of {', '.join(sorted(TYPES))}")
        tensors[name] = Tensor(tuple(dims), shape, kind)
    return tensors


def _laid_out(dims: object) -> Shape | None:
    """How devices have a tensor of these sizes: a vector unless it can be cut."""
    if not isinstance(dims, list) or len(dims) > _MOST_SIZES:
        return None
    if not all(type(one) is int and one > 0 for one in dims):
        return None
    return shape_of(Sizes.of(tuple(dims)).laid_out)


def _check_pieces(
    program: Program, field: str, pieces: Iterable[Piece], tensors: Mapping[str, Tensor]
) -> None:
    """A piece is a part of the network's input or output: nothing is read or written beside it."""
    for piece in pieces:
        shape = tensors[piece.name].laid_out if piece.name in tensors else None
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
