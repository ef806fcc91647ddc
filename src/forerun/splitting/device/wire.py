"""How parts of buffers look on the wire: float32, float16, or a byte with one scale a channel.

Every part is seen as two dimensions, channels times the values of each: rows are whole, so a part
is a strided view of its buffer, and one pass reads or writes it. On the wire each part is
contiguous and starts at a multiple of 8 bytes, so that nothing need be copied to be read.

Of bytes each channel has its own range, which always holds 0: after a ReLU a byte 0..255 is value
over scale, elsewhere the byte that stands for 0 is stated too. The layout of such a part: a float32
scale a channel, a byte for 0 a channel, the bytes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .faults import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from .program import Box

    Floats = NDArray[np.float32]
    _Step = Callable[[], None]

FLOAT32, FLOAT16, INT8 = range(3)
WIRES = {"float32": FLOAT32, "float16": FLOAT16, "int8": INT8}
_ALIGNMENT = 8  # bytes
_FEWEST = 8  # values of a channel for which a scale of 4 bytes is worth its place


class Size(NamedTuple):
    """Of a part: its channels, and the values of each."""

    channels: int
    values: int


def window(array: Floats, box: Box) -> Floats:
    """A box of a tensor of batch 1, as channels times the values of each."""
    channels, rows = array.shape[1], array.shape[2] if array.ndim > 2 else 1
    columns = array.size // (channels * rows)
    flat = array.reshape(channels, -1)
    return flat[box.first : box.stop : box.step, box.top * columns : box.bottom * columns]


def fitting(sizes: Sequence[Size], wire: int) -> int:
    """The wire type that a message really takes.

    Vectors have one value a channel: with a scale each they would grow, and with one scale for all
    the sums that end a network would lose what tells two classes apart. They are small: float32.
    """
    if wire == INT8 and any(one.values < _FEWEST for one in sizes):
        return FLOAT32
    return wire


def message_bytes(sizes: Sequence[Size], wire: int) -> int:
    """The bytes of a message's payload."""
    return sum(_part_bytes(one, wire) for one in sizes)


def largest_part(messages: Iterable[Sequence[Size]]) -> int:
    """The values of the largest part of some messages: what quantising needs beside."""
    return max((one.channels * one.values for sizes in messages for one in sizes), default=0)


def _part_bytes(size: Size, wire: int) -> int:
    count = size.channels * size.values
    if wire == INT8:
        return _aligned(4 * size.channels) + _aligned(size.channels) + _aligned(count)
    return _aligned(count * (4 if wire == FLOAT32 else 2))


def _aligned(count: int) -> int:
    return -(-count // _ALIGNMENT) * _ALIGNMENT


class _Bytes(NamedTuple):
    """The places of a part that is sent as bytes."""

    scales: Floats
    zeros: NDArray[np.uint8]
    data: NDArray[np.uint8]


def _places(memory: NDArray[np.uint8], offset: int, sizes: Sequence[Size], wire: int) -> list[Any]:
    """Views of a payload that begins at an offset: one array a part, or _Bytes."""
    found: list[Any] = []
    for size in sizes:
        place = memory[offset : offset + _part_bytes(size, wire)]
        count = size.channels * size.values
        if wire == INT8:
            zeros = _aligned(4 * size.channels)
            data = zeros + _aligned(size.channels)
            found.append(
                _Bytes(
                    place[: 4 * size.channels].view(np.float32),
                    place[zeros : zeros + size.channels],
                    place[data : data + count].reshape(size),
                )
            )
        elif wire == FLOAT16:
            found.append(place[: 2 * count].view(np.float16).reshape(size))
        else:
            found.append(place[: 4 * count].view(np.float32).reshape(size))
        offset += len(place)
    return found


class Coded:
    """A buffer in fewer bytes, of which several messages take some channels each.

    Coding has a price a call: what goes to several devices is coded at once.
    """

    def __init__(self, source: Floats, wire: int) -> None:
        size = Size(*source.shape)
        (self.place,) = _places(np.zeros(_part_bytes(size, wire), np.uint8), 0, [size], wire)
        (self.code,) = _encoding(source, self.place, wire, source)

    def taking(self, channels: slice, place: Any) -> list[_Step]:
        """What puts these channels into their place in a payload."""
        pairs: Iterable[Any] = [(place, self.place)]
        if isinstance(place, _Bytes):
            pairs = zip(place, self.place)
        return [partial(np.copyto, target, source[channels]) for target, source in pairs]


class Encoder:
    """Puts parts of buffers into a payload; everything that can be prepared is.

    `scratch` has room for the values of the largest part; encoders and decoders may share it.
    `coded`: the only part's buffer, which somebody else codes before, and the part's channels.
    """

    def __init__(
        self,
        sources: Sequence[Floats],
        wire: int,
        scratch: Floats | None = None,
        coded: tuple[Coded, slice] | None = None,
    ) -> None:
        sizes = [Size(*one.shape) for one in sources]
        self.wire = fitting(sizes, wire)
        self.length = message_bytes(sizes, self.wire)
        self._sources, self._sizes = sources, sizes
        self._steps: list[_Step] = []
        if (
            self.wire == FLOAT32
            and len(sources) == 1
            and sources[0].flags.c_contiguous
            and self.length == sources[0].nbytes
        ):  # the buffer is the payload
            self._memory = sources[0].reshape(-1).view(np.uint8)
        else:
            self._memory = np.zeros(self.length, np.uint8)
            self._places = _places(self._memory, 0, sizes, self.wire)
            if coded is None:
                scratch = _room(scratch, sizes)
                for source, place in zip(sources, self._places):
                    self._steps += _encoding(source, place, self.wire, scratch)
            else:
                whole, channels = coded
                self._steps += whole.taking(channels, *self._places)
        self.payload = self._memory.data

    def code_first(self, coded: Coded) -> None:
        """Code a whole buffer before anything is taken of it."""
        self._steps.insert(0, coded.code)

    def encode(self) -> None:
        """Fill the payload from the buffers."""
        for step in self._steps:
            step()
        if self.wire == INT8:
            for place in self._places:
                if not place.scales.max() < np.inf:  # NaN is not, either
                    raise DeviceError("an activation is no finite number: no byte can hold it")

    def error(self) -> tuple[float, float]:
        """The largest error that the payload makes, and the largest value in it."""
        largest = max(float(np.abs(one).max()) for one in self._sources)
        decoded = Decoder(self._sizes, self.wire, self._memory).decoded(0)
        pairs = zip(decoded, self._sources)
        return max(float(np.abs(a - b).max()) for a, b in pairs), largest


class Decoder:
    """Takes messages of one kind out of the memory that they are received into."""

    _MOST_KEPT = 64  # places within that memory for which steps are kept

    def __init__(
        self,
        sizes: Sequence[Size],
        wire: int,
        memory: NDArray[np.uint8],
        scratch: Floats | None = None,
    ) -> None:
        self.wire = wire
        self._sizes, self._memory, self._scratch = sizes, memory, scratch
        self._kept: dict[tuple[int, int], list[_Step]] = {}

    def decode(self, offset: int, targets: Sequence[Floats], whose: int = 0) -> None:
        """Write the parts of the message that starts at an offset to where they belong.

        `whose` tells targets apart: for the same number they must be the same arrays.
        """
        steps = self._kept.get((offset, whose))
        if steps is None:
            if len(self._kept) >= self._MOST_KEPT:
                self._kept.clear()
            steps = self._kept[offset, whose] = self._prepared(offset, targets)
        for step in steps:
            step()

    def decoded(self, offset: int) -> list[Floats]:
        """The parts of the message that starts at an offset, in arrays of their own."""
        found = [np.empty(size, np.float32) for size in self._sizes]
        for step in self._prepared(offset, found):
            step()
        return found

    def _prepared(self, offset: int, targets: Sequence[Floats]) -> list[_Step]:
        scratch = self._scratch = _room(self._scratch, self._sizes)
        places = _places(self._memory, offset, self._sizes, self.wire)
        steps: list[_Step] = []
        for place, target in zip(places, targets):
            steps += _decoding(place, target, self.wire, scratch)
        return steps


def _room(scratch: Floats | None, sizes: Sequence[Size]) -> Floats:
    return scratch if scratch is not None else np.empty(largest_part([sizes]), np.float32)


def _encoding(source: Floats, place: Any, wire: int, scratch: Floats) -> list[_Step]:
    """What puts a part into its place. onnxruntime reads what is contiguous only."""
    if wire == FLOAT32:
        return [partial(np.copyto, place, source)]
    from .casting import to_bytes, to_half

    steps: list[_Step] = []
    if not source.flags.c_contiguous:
        copied = scratch[: source.size].reshape(source.shape)
        steps.append(partial(np.copyto, copied, source))
        source = copied
    if wire == FLOAT16:
        return [*steps, to_half(source, place)]
    return [*steps, to_bytes(source, place.scales, place.zeros, place.data)]


def _decoding(place: Any, target: Floats, wire: int, scratch: Floats) -> list[_Step]:
    """What writes a part to where it belongs."""
    if wire == FLOAT32:
        return [partial(np.copyto, target, place)]
    from .casting import from_bytes, from_half

    direct = target.flags.c_contiguous
    written = target if direct else scratch[: target.size].reshape(target.shape)
    if wire == FLOAT16:
        steps = [from_half(place, written)]
    else:
        steps = [from_bytes(place.data, place.scales, place.zeros, written)]
    return steps if direct else [*steps, partial(np.copyto, target, written)]
