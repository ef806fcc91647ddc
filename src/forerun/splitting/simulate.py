"""All devices of a split in one process, without a network: what the right answer is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forerun.errors import InputError
from forerun.splitting.cut import Split
from forerun.splitting.device.program import Message, Part, Program
from forerun.splitting.device.reading import checked_file
from forerun.splitting.device.wire import window
from forerun.splitting.packages import Numbers, as_input_error, read_packages

Array = NDArray[np.float32]


def session(model: str | bytes, threads: int = 1) -> Any:
    """An onnxruntime session on the processor."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


@contextmanager
def as_readable(path: str | Path) -> Iterator[None]:
    """What onnxruntime does not take of a file is the user's to know, as an InputError."""
    try:
        yield
    except (OSError, InputError):
        raise
    except Exception as error:  # it has a kind of its own for everything
        found = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise InputError(str(path), found, "a network that onnxruntime reads") from None


def simulate(folder: str | Path, inputs: Mapping[str, Array]) -> dict[str, Numbers]:
    """The network's results for one sample, computed by all devices of a split."""
    return Simulation(folder).run(inputs)


@dataclass
class _Device:
    """One device's program, and its buffers of the sample at hand."""

    program: Program
    sessions: list[Any]
    buffers: dict[str, Array] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)  # writers that have not written yet
    done: set[tuple[str, int]] = field(default_factory=set)  # segments, copies and messages

    @classmethod
    def of(cls, program: Program, threads: int) -> _Device:
        sessions = []
        for segment in program.segments:
            with as_input_error():
                path = checked_file(program, segment)
            with as_readable(path):
                sessions.append(session(str(path), threads))
        return cls(program, sessions)

    def start(self) -> None:
        """Forget the last sample."""
        self.done = set()
        sizes = self.program.buffers
        shared = Counter(part.buffer for part in _targets(self.program))
        self.missing = {**dict.fromkeys(sizes, 1), **shared}
        self.buffers = {name: np.zeros(sizes[name].dims, np.float32) for name in shared}

    def put(self, part: Part, values: Array) -> None:
        """Write a part of a buffer."""
        place = window(self.buffers[part.buffer], part.box)
        np.copyto(place, place + values if part.add else values)
        self.missing[part.buffer] -= 1

    def take(self, part: Part) -> Array:
        """A part of a buffer."""
        return window(self.buffers[part.buffer], part.box)

    def is_complete(self, names: Iterable[str]) -> bool:
        """Whether all that is written into buffers is there."""
        return all(self.missing[name] == 0 for name in names)

    def run(self, number: int) -> None:
        """Run a segment."""
        segment = self.program.segments[number]
        feeds = {name: self.buffers[buffer] for name, buffer in segment.inputs.items()}
        with as_readable(self.program.folder / segment.file):
            found = self.sessions[number].run(list(segment.outputs), feeds)
        for buffer, value in zip(segment.outputs.values(), found, strict=True):
            dims = self.program.buffers[buffer].dims
            if value.shape != dims:
                where = f"{self.program.folder / segment.file}: {buffer}"
                raise InputError(where, list(value.shape), f"{list(dims)}")
            self.buffers[buffer] = value
            self.missing[buffer] = 0
        self.done.add(("segment", number))


def _targets(program: Program) -> list[Part]:
    """What copies and receives write."""
    found = [copy.target for copy in program.copies]
    return found + [part for one in program.receives for part in one.parts]


def _place(channels: list[int], rows: list[int]) -> tuple[Any, Any]:
    """What picks channels and rows: slices where there are no gaps, which copy nothing."""
    sets = [np.array(channels), np.array(rows)]
    spans = [slice(int(one[0]), int(one[-1]) + 1) for one in sets]
    gaps = [len(one) < span.stop - span.start for one, span in zip(sets, spans, strict=True)]
    if all(gaps):
        return sets[0][:, None], sets[1]
    return (sets[0] if gaps[0] else spans[0], sets[1] if gaps[1] else spans[1])


class Simulation:
    """A split that is ready to run samples, with all its devices in this process."""

    def __init__(self, folder: str | Path, threads: int = 1) -> None:
        self._folder = Path(folder)
        self._packages = read_packages(self._folder)
        programs = self._packages.programs
        if self._packages.is_replicated:  # then the first has all of it
            programs = programs[:1]
        self._taken = {
            (program.device, number): _taken(programs, program, message)
            for program in programs
            for number, message in enumerate(program.sends)
        }
        self._devices = [_Device.of(program, threads) for program in programs]

    def run(
        self,
        inputs: Mapping[str, Array],
        before: Callable[[int, int, dict[str, Array]], None] | None = None,
    ) -> dict[str, Numbers]:
        """The results for one sample.

        `before` is called with device, segment and its inputs before each segment runs.
        """
        for device in self._devices:
            device.start()
            self._give(device, inputs)
        while self._work(before):
            pass
        return self._answers()

    def probes(self) -> dict[str, list[tuple[tuple[Any, ...], Array]]]:
        """What the devices have of each tensor since the last sample: where, and the numbers."""
        found: dict[str, list[tuple[tuple[Any, ...], Array]]] = {}
        for device, probe in self._probes:
            value = device.buffers[probe["buffer"]]
            place = (slice(None), *_place(probe["channels"], probe["rows"]))
            found.setdefault(probe["tensor"], []).append((place[: value.ndim], value))
        return found

    @cached_property
    def _probes(self) -> list[tuple[_Device, dict[str, Any]]]:
        """What only checks look at: no device reads it, so it is no part of a program."""
        split = Split.load(self._folder)
        return [
            (device, probe)
            for number, device in enumerate(self._devices)
            for probe in split.description(number).get("probes", ())
        ]

    def _give(self, device: _Device, inputs: Mapping[str, Array]) -> None:
        for piece in device.program.inputs:
            wanted = self._packages.inputs[piece.name]
            given = inputs.get(piece.name)
            if given is None or prod(given.shape) != prod(wanted.dims):
                shown = None if given is None else list(given.shape)
                raise InputError(f"input {piece.name}", shown, f"an array of {list(wanted.dims)}")
            whole = np.ascontiguousarray(given, np.float32).reshape(wanted.laid_out.dims)
            dims = device.program.buffers[piece.buffer].dims
            part = np.ascontiguousarray(window(whole, piece.box))
            device.buffers[piece.buffer] = part.reshape(dims)
            device.missing[piece.buffer] = 0

    def _work(self, before: Callable[[int, int, dict[str, Array]], None] | None) -> bool:
        """Do all that can be done now; whether that was anything."""
        active = False
        for device in self._devices:
            for number, segment in enumerate(device.program.segments):
                if ("segment", number) in device.done:
                    continue
                if device.is_complete(segment.inputs.values()):
                    if before is not None:
                        feeds = segment.inputs.items()
                        given = {n: device.buffers[b] for n, b in feeds}
                        before(device.program.device, number, given)
                    device.run(number)
                    active = True
            active |= self._exchange(device)
        return active

    def _exchange(self, device: _Device) -> bool:
        """Copy and send what is complete, once."""
        active = False
        for number, copy in enumerate(device.program.copies):
            key = ("copy", number)
            if key not in device.done and device.is_complete([copy.source.buffer]):
                device.put(copy.target, device.take(copy.source))
                device.done.add(key)
                active = True
        for number, message in enumerate(device.program.sends):
            key = ("message", number)
            names = [part.buffer for part in message.parts]
            if key not in device.done and device.is_complete(names):
                taken = self._taken[device.program.device, number]
                for sent, part in zip(message.parts, taken, strict=True):
                    self._devices[message.peer].put(part, device.take(sent))
                device.done.add(key)
                active = True
        return active

    def _answers(self) -> dict[str, Numbers]:
        found = self._packages.blank()
        for device in self._devices:
            for piece in device.program.outputs:
                if not device.is_complete([piece.buffer]):
                    raise InputError(
                        f"{self._folder}: device {device.program.device}",
                        f"nothing in {piece.buffer}",
                        "a split whose segments can all run",
                    )
                place = window(found[piece.name], piece.box)
                values = device.buffers[piece.buffer].reshape(place.shape)
                np.copyto(place, place + values if piece.add else values)
        return self._packages.answers(found)


def _taken(programs: Sequence[Program], program: Program, message: Message) -> tuple[Part, ...]:
    """Where the parts of a message go; InputError unless somebody expects them."""
    for one in programs[message.peer].receives if message.peer < len(programs) else ():
        is_it = (one.peer, one.number) == (program.device, message.number)
        if is_it and _sizes(programs[message.peer], one) == _sizes(program, message):
            return one.parts
    where = f"{program.folder}: message {message.number}"
    raise InputError(where, f"nothing like it at device {message.peer}", "packages of one split")


def _sizes(program: Program, message: Message) -> list[tuple[int, int]]:
    """Channels, and numbers of each, of all parts of a message."""
    return [
        (part.box.channels, part.box.rows * program.buffers[part.buffer].columns)
        for part in message.parts
    ]
