"""A device's package: what it computes, keeps, sends and receives for each sample.

`package.json` names ONNX segments, the float32 buffers between them, and which parts of buffers are
copied, sent and received. `reading` makes these out of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Box(NamedTuple):
    """Some channels and some rows of a tensor, with all of its columns."""

    first: int
    stop: int
    step: int
    top: int
    bottom: int

    @property
    def selection(self) -> slice:
        """The channels, of a tensor's."""
        return slice(self.first, self.stop, self.step)

    @property
    def channels(self) -> int:
        return len(range(self.first, self.stop, self.step))

    @property
    def rows(self) -> int:
        return self.bottom - self.top


class Shape(NamedTuple):
    """The size of a tensor of batch 1: a vector has one row and one column."""

    dims: tuple[int, ...]
    channels: int
    rows: int
    columns: int

    def holds(self, box: Box) -> bool:
        """Whether the box lies within."""
        return box.stop <= self.channels and box.bottom <= self.rows


class Segment(NamedTuple):
    """One ONNX file, and the buffers behind the names that it has for what it reads and writes."""

    file: str
    sha256: str
    inputs: dict[str, str]
    outputs: dict[str, str]


class Part(NamedTuple):
    """A part of a buffer."""

    buffer: str
    box: Box
    add: bool = False  # to what others write there, rather than alone


class Copy(NamedTuple):
    """A part of one buffer that also belongs into another."""

    source: Part
    target: Part


class Message(NamedTuple):
    """What goes to another device, or comes from it, at once."""

    number: int
    peer: int
    parts: tuple[Part, ...]


class Piece(NamedTuple):
    """A buffer that holds a part of the network's input or output."""

    name: str
    buffer: str
    box: Box  # within the network's tensor
    add: bool = False  # to what other devices have of the same part


class Program(NamedTuple):
    """All that one device does for a sample."""

    folder: Path
    split: str
    name: str
    device: int
    devices: int
    kind: str
    buffers: dict[str, Shape]
    segments: tuple[Segment, ...]
    copies: tuple[Copy, ...]
    sends: tuple[Message, ...]
    receives: tuple[Message, ...]
    inputs: tuple[Piece, ...]
    outputs: tuple[Piece, ...]

    @property
    def peers(self) -> tuple[int, ...]:
        """The devices that this one exchanges anything with."""
        return tuple(sorted({one.peer for one in (*self.sends, *self.receives)}))

    def part_of(self, piece: Piece) -> Part:
        """The whole of the buffer that holds a piece."""
        shape = self.buffers[piece.buffer]
        return Part(piece.buffer, Box(0, shape.channels, 1, 0, shape.rows), piece.add)
