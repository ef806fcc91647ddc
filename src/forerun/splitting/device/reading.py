"""Read a package and check all of it, once, so that nothing later has to ask.

A package may have been damaged on its way, or made for another version. Its files are named by
plain names, and segments that keep weights in other files are refused, so that nothing outside its
folder is ever opened.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from math import prod
from mmap import ACCESS_READ, mmap
from typing import TYPE_CHECKING, Any

from .faults import DeviceError
from .onnx_bytes import has_external_data
from .program import Box, Copy, Message, Part, Piece, Program, Segment, Shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import BinaryIO, NoReturn

FORMAT = 1
_LARGEST = 2**26  # bytes of package.json
MOST_DEVICES = 1024
_MOST_VALUES = 2**30  # of a buffer
_MESSAGE = 2**32 - 1  # the largest number of a message
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_PIECE = 2**20  # bytes that are read at once to take a digest


def read_program(folder: Path) -> Program:
    """The program of a package; DeviceError in one line for anything that is wrong with it."""
    path = folder / "package.json"
    found = _read_json(path)
    reader = _Reader(str(path))
    if found.get("format") != FORMAT:
        reader.refuse("format", found.get("format"), f"{FORMAT}: made by another forerun")
    devices = reader.whole(found, "devices", 1, MOST_DEVICES)
    reader.buffers = {
        name: reader.shape(name, dims) for name, dims in reader.table(found, "buffers").items()
    }
    device = reader.whole(found, "device", 0, devices - 1)
    program = Program(
        folder=folder,
        split=reader.digest(found, "split"),
        name=reader.text(found, "name"),
        device=device,
        devices=devices,
        kind=reader.text(found, "kind"),
        buffers=reader.buffers,
        segments=tuple(map(reader.segment, reader.tables(found, "segments"))),
        copies=tuple(map(reader.copy, reader.tables(found, "copies"))),
        sends=reader.messages(found, "sends", "to", device, devices),
        receives=reader.messages(found, "receives", "from", device, devices),
        inputs=tuple(map(reader.piece_in, reader.tables(found, "inputs"))),
        outputs=tuple(map(reader.piece_out, reader.tables(found, "outputs"))),
    )
    reader.check_writers(program)
    reader.check_order(program)
    return program


def checked_file(program: Program, segment: Segment) -> Path:
    """The path of a segment's file, which lies in the package, whole, and is what was cut."""
    with open_checked(program, segment):
        return program.folder / segment.file


@contextmanager
def open_checked(program: Program, segment: Segment) -> Iterator[str]:
    """A name to load a segment's file by, which lies in the package, whole, and is what was cut.

    It is the name of the open file, where the system has such: what is loaded by it is what was
    checked, though another file take its place. DeviceError in the end if it was written to
    meanwhile, whatever came of that.
    """
    path = program.folder / segment.file
    with _opened(path) as file:
        before = _state(file)
        if _digest(path, file) != segment.sha256:
            raise DeviceError(f"{path}: damaged: its SHA-256 is not the one in package.json")
        _refuse_external_data(path, file)
        name = f"/proc/self/fd/{file.fileno()}"
        changed = f"{path}: it was changed while it was loaded: start the device again"
        try:
            yield name if os.access(name, os.R_OK) else str(path)
        except Exception:
            if _state(file) != before:
                raise DeviceError(changed) from None
            raise
        if _state(file) != before:
            raise DeviceError(changed)


def _digest(path: Path, file: BinaryIO) -> str:
    digest = hashlib.sha256()
    try:
        while piece := file.read(_PIECE):
            digest.update(piece)
    except OSError as error:
        raise DeviceError(f"{path}: {error.strerror or error}") from None
    return digest.hexdigest()


def _opened(path: Path) -> BinaryIO:
    """A file of the package, opened once for all that is done with it; no link is followed."""
    try:
        # Without waiting for whoever writes into a pipe.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            raise DeviceError(f"{path}: not there as a file of the package") from None
        raise DeviceError(f"{path}: {error.strerror or error}") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise DeviceError(f"{path}: not there as a file of the package")
    return os.fdopen(handle, "rb")


def _state(file: BinaryIO) -> tuple[int, int, int]:
    """What is another once a file was written to, or is no longer where it was."""
    about = os.fstat(file.fileno())
    return about.st_size, about.st_mtime_ns, about.st_ctime_ns


def _refuse_external_data(path: Path, file: BinaryIO) -> None:
    """Mapped, not read: of a large file only what lies between its weights comes to memory."""
    try:
        content = mmap(file.fileno(), 0, access=ACCESS_READ)
        with content, memoryview(content) as view:
            found = has_external_data(view)
    except (OSError, ValueError) as error:
        raise DeviceError(f"{path}: no ONNX file: {error}") from None
    if found:
        raise DeviceError(f"{path}: found external data, expected all weights in the file itself")


def shape_of(dims: object) -> Shape | None:
    """The size that a list says; None where it says none, or one that is too large."""
    if not isinstance(dims, list) or not 2 <= len(dims) <= 8 or dims[0] != 1:
        return None
    if not all(type(one) is int and 0 < one <= _MOST_VALUES for one in dims):
        return None
    values = prod(dims)
    if values > _MOST_VALUES:
        return None
    channels = dims[1]
    rows = dims[2] if len(dims) > 2 else 1
    return Shape(tuple(dims), channels, rows, values // (channels * rows))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > _LARGEST:
                raise DeviceError(f"{path}: larger than {_LARGEST} bytes")
            found = json.loads(file.read(_LARGEST))
    except OSError as error:
        raise DeviceError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise DeviceError(f"{path}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise DeviceError(f"{path}: not a package: found {type(found).__name__}")
    return found


class _Reader:
    """Takes a package apart, field by field."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.buffers: dict[str, Shape] = {}

    def refuse(self, field: str, found: object, expected: str) -> NoReturn:
        text = str(found)
        text = text if len(text) <= 60 else text[:59] + "…"
        raise DeviceError(f"{self.where}: {field}: found {text}, expected {expected}")

    def whole(self, found: Mapping[str, Any], field: str, least: int, most: int) -> int:
        value = found.get(field)
        if type(value) is not int or not least <= value <= most:
            self.refuse(field, value, f"a whole number from {least} to {most}")
        return value

    def text(self, found: Mapping[str, Any], field: str) -> str:
        value = found.get(field)
        if not isinstance(value, str) or not value.isprintable():
            self.refuse(field, value, "a text of one line")
        return value

    def digest(self, found: Mapping[str, Any], field: str) -> str:
        value = self.text(found, field)
        if not _DIGEST.fullmatch(value):
            self.refuse(field, value, "64 hexadecimal digits")
        return value

    def table(self, found: Mapping[str, Any], field: str) -> dict[str, Any]:
        value = found.get(field)
        if not isinstance(value, dict):
            self.refuse(field, value, "a table")
        return value

    def tables(self, found: Mapping[str, Any], field: str) -> list[dict[str, Any]]:
        value = found.get(field)
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            self.refuse(field, value, "a list of tables")
        return value

    def flag(self, found: Mapping[str, Any], field: str) -> bool:
        value = found.get(field, False)
        if not isinstance(value, bool):
            self.refuse(field, value, "true or false")
        return value

    def shape(self, name: str, dims: object) -> Shape:
        found = shape_of(dims)
        if found is None:
            self.refuse(f"buffers: {name}", dims, "[1, channels, rows, columns]")
        return found

    def buffer(self, found: Mapping[str, Any], field: str) -> str:
        name = self.text(found, field)
        if name not in self.buffers:
            self.refuse(field, name, "a buffer of this package")
        return name

    def box(self, found: Mapping[str, Any], field: str) -> Box:
        value: Any = found.get(field)
        try:
            (first, stop, step), (top, bottom) = value
        except (TypeError, ValueError):
            first = stop = step = top = bottom = -1
        numbers = (first, stop, step, top, bottom)
        if (
            not all(type(one) is int for one in numbers)
            or not 0 <= first < stop <= _MOST_VALUES
            or not 0 <= top < bottom <= _MOST_VALUES
            or step < 1
        ):
            self.refuse(field, value, "[[channel, stop, step], [row, stop]]")
        return Box(*numbers)

    def part(self, found: Mapping[str, Any], buffer: str, box: str, add: bool = False) -> Part:
        part = Part(self.buffer(found, buffer), self.box(found, box), add)
        if not self.buffers[part.buffer].holds(part.box):
            self.refuse(box, found[box], f"a part of buffer {part.buffer}")
        return part

    def segment(self, found: Mapping[str, Any]) -> Segment:
        file = self.text(found, "file")
        if not _FILE.fullmatch(file):
            self.refuse("segments: file", file, "the name of a file in the package's own folder")
        digest = self.digest(found, "sha256")
        both = []
        for field in ("inputs", "outputs"):
            names = self.table(found, field)
            both.append({name: self.buffer(names, name) for name in names})
        return Segment(file, digest, *both)

    def copy(self, found: Mapping[str, Any]) -> Copy:
        source = self.part(found, "from", "from_box")
        target = self.part(found, "to", "to_box", self.flag(found, "add"))
        sizes = [
            (one.box.channels, one.box.rows, self.buffers[one.buffer].columns)
            for one in (source, target)
        ]
        if sizes[0] != sizes[1]:
            self.refuse("copies: to_box", found["to_box"], "a box of the size of from_box")
        return Copy(source, target)

    def messages(
        self, found: Mapping[str, Any], field: str, other: str, device: int, devices: int
    ) -> tuple[Message, ...]:
        messages = []
        for one in self.tables(found, field):
            number = self.whole(one, "message", 0, _MESSAGE)
            peer = self.whole(one, other, 0, devices - 1)
            if peer == device:
                self.refuse(f"{field}: {other}", peer, "another device")
            parts = tuple(
                self.part(part, "buffer", "box", self.flag(part, "add"))
                for part in self.tables(one, "parts")
            )
            if not parts:
                self.refuse(f"{field}: message {number}", "no parts", "at least one")
            messages.append(Message(number, peer, parts))
        pairs = [(one.peer, one.number) for one in messages]
        if len(set(pairs)) < len(pairs):
            self.refuse(field, "a message twice", "one of each number and device")
        return tuple(messages)

    def piece_in(self, found: Mapping[str, Any]) -> Piece:
        return self._piece(found, "box_of_network_input")

    def piece_out(self, found: Mapping[str, Any]) -> Piece:
        return self._piece(found, "box_of_network_output")

    def _piece(self, found: Mapping[str, Any], field: str) -> Piece:
        name, buffer = self.text(found, "name"), self.buffer(found, "buffer")
        box, shape = self.box(found, field), self.buffers[buffer]
        if (box.channels, box.rows) != (shape.channels, shape.rows):
            self.refuse(field, found[field], f"a box of the size of buffer {buffer}")
        return Piece(name, buffer, box, self.flag(found, "add"))

    def check_writers(self, program: Program) -> None:
        """Every buffer that is read has writers: one segment or input, or parts of one kind."""
        alone = [name for one in program.segments for name in one.outputs.values()]
        alone += [one.buffer for one in program.inputs]
        parts = [one.target for one in program.copies]
        parts += [part for one in program.receives for part in one.parts]
        kinds = {(one.buffer, one.add) for one in parts}
        shared = {name for name, _ in kinds}
        if len(shared) < len(kinds):
            self.refuse("buffers", "parts that are added and such that are not", "one of the two")
        if len(set(alone)) < len(alone) or shared & set(alone):
            self.refuse("buffers", "several that write the same one", "one segment, or parts")
        for name in _read_by(program):
            if name not in shared and name not in alone:
                self.refuse(f"buffers: {name}", "nothing that writes it", "a segment, or parts")

    def check_order(self, program: Program) -> None:
        """Nothing waits for what is made of it: such a sample would never end."""
        steps = [([*one.inputs.values()], [*one.outputs.values()]) for one in program.segments]
        steps += [([one.source.buffer], [one.target.buffer]) for one in program.copies]
        order: TopologicalSorter[str | int] = TopologicalSorter()
        for number, (sources, targets) in enumerate(steps):
            order.add(number, *sources)
            for target in targets:
                order.add(target, number)
        try:
            order.prepare()
        except CycleError as error:
            names = ", ".join(sorted({one for one in error.args[1] if isinstance(one, str)}))
            self.refuse(f"buffers: {names}", "parts that wait for themselves", "an order of work")


def _read_by(program: Program) -> Iterator[str]:
    """The buffers that something reads."""
    for segment in program.segments:
        yield from segment.inputs.values()
    for copy in program.copies:
        yield copy.source.buffer
    for message in program.sends:
        yield from (part.buffer for part in message.parts)
    for piece in program.outputs:
        yield piece.buffer
