"""The steps of each device as few segments, and the messages between devices.

What has one level becomes one segment. Steps that feed no message of their level wait: in a segment
that runs while messages travel if they are worth one, else in the segment that reads them first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from forerun.errors import InputError
from forerun.splitting.graph import Graph
from forerun.splitting.layout import Layout, settle
from forerun.splitting.memory import peak
from forerun.splitting.regions import Box, Indices, Region, runs
from forerun.splitting.rules import weights
from forerun.splitting.steps import Gather, Parts, Piece, Step, Steps, Value, steps

_WORTH = 0.01  # share of a device's multiply-accumulates that a segment of their own must have
_FLOAT = 4  # bytes
Key = tuple[int, int]  # level, and whether its steps feed messages (0) or not (1)


@dataclass(eq=False)
class Segment:
    """Steps that run at once, what they read, and what others read of them."""

    steps: list[Step]
    inputs: list[Value]
    outputs: list[Value]
    macs: int
    weights_bytes: int
    activations_bytes: int


@dataclass(eq=False)
class Message:
    """What one device sends another at once."""

    number: int
    source: int
    target: int
    pieces: list[Piece]


@dataclass(eq=False)
class Answer:
    """A value that is a part of a result of the network."""

    value: Value
    box: Box  # of the result
    adds: bool


@dataclass(eq=False)
class Program:
    """All that one device does for a sample."""

    device: int
    segments: list[Segment] = field(default_factory=list)
    copies: list[tuple[Piece, bool]] = field(default_factory=list)  # whether they are added
    sends: list[Message] = field(default_factory=list)
    receives: list[Message] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Answer] = field(default_factory=list)
    probes: list[Value] = field(default_factory=list)
    buffers: dict[Value, str] = field(default_factory=dict)

    @property
    def macs(self) -> int:
        """Multiply-accumulates for a sample."""
        return sum(segment.macs for segment in self.segments)

    @property
    def weights_bytes(self) -> int:
        """Bytes of all weights."""
        return sum(segment.weights_bytes for segment in self.segments)


def programs(
    graph: Graph, layout: Layout, *, early: float = 0.0, probes: Collection[str] = ()
) -> list[Program]:
    """What each device does under a layout.

    `early`: rows that others need are computed first, and sent while the others are computed, where
    these are at least so large a share of a device's multiply-accumulates; 0: never. `probes` are
    tensors whose parts are to be seen.
    """
    flow = settle(graph, layout)
    parts: Parts = {}
    if early:
        from forerun.splitting.early import early_parts

        parts = early_parts(graph, flow, early)
    return assembled(steps(graph, flow, parts), probes)


def assembled(made: Steps, probes: Collection[str] = ()) -> list[Program]:
    """Programs out of steps."""
    graph = made.graph
    found = [Program(device) for device in range(made.flow.devices)]
    for value in made.given.values():
        found[value.device].inputs.append(value)
    answers = list(_answers(made))
    for answer in answers:
        found[answer.value.device].outputs.append(answer)
    for program in found:
        own = [step for step in made.steps if step.device == program.device]
        outside = _read_outside(made, answers, own, probes)
        for group in _grouped(made, _alive(own, outside), answers):
            program.segments.append(_segment(graph, group, outside))
        homes = [made.homes.get((name, program.device), []) for name in probes]
        program.probes = [value for values in homes for value in values]
    _connect(made, found)
    for program in found:
        _name_buffers(program)
    return found


def _answers(made: Steps) -> Iterator[Answer]:
    """Every result of the network once, in boxes; or its partial sums."""
    for name in made.graph.outputs:
        whole = made.graph.tensors[name].whole
        if name in made.partial and not any(made.flow.placements[name].regions):
            box = (range(len(whole.channels)), range(len(whole.rows)))
            yield from (Answer(value, box, adds=True) for value in made.partial[name])
            continue
        left = [whole]
        for device in range(made.flow.devices):
            for value in made.homes.get((name, device), []):
                held = [part & value.region for part in left]
                left = [rest for part in left for rest in part.minus(value.region)]
                for part in held:
                    yield from _boxes(made, value, part)
        if left:
            raise InputError(f"layout: {name}", f"nobody who has {left[0]}", "all of it")


def _boxes(made: Steps, value: Value, part: Region) -> Iterator[Answer]:
    """A part of a value as boxes that are buffers of their own."""
    for channels, _ in runs(part.channels.array, part.channels.array):
        for rows in part.rows.intervals():
            region = Region(Indices.of(channels), Indices.span(rows.start, rows.stop))
            if region == value.region:
                yield Answer(value, (channels, rows), adds=False)
                continue
            copy = Value(value.tensor, value.device, region, value.level)
            across = _within(value.region.channels, region.channels)
            down = _within(value.region.rows, region.rows)
            target = (range(len(region.channels)), range(len(region.rows)))
            piece = Piece(value, copy, (across, down), target)
            copy.gather = Gather(copy, [piece])
            made.gathers.append(copy.gather)
            yield Answer(copy, (channels, rows), adds=False)


def _within(held: Indices, wanted: Indices) -> range:
    """Where evenly spaced places stand among others."""
    ranks = held.ranks(wanted)
    return runs(ranks, ranks)[0][0]


def _read_outside(
    made: Steps, answers: Iterable[Answer], own: Sequence[Step], probes: Collection[str]
) -> set[Value]:
    """Values that somebody reads who is no step: messages, copies, the host, and probes."""
    found = {piece.source for gather in made.gathers for piece in gather.pieces}
    found |= {answer.value for answer in answers}
    seen = {*made.graph.outputs, *probes}
    return found | {value for step in own for value in step.outputs if value.tensor in seen}


def _alive(own: Sequence[Step], outside: set[Value]) -> list[Step]:
    """The steps that somebody reads: a layout may place rows of which the next layer sees none."""
    wanted = set(outside)
    found: list[Step] = []
    for step in reversed(own):
        if _any_in(step, wanted):
            wanted.update(value for value in step.inputs if value is not None)
            found.append(step)
    return found[::-1]


def _grouped(made: Steps, own: Sequence[Step], answers: Iterable[Answer]) -> list[list[Step]]:
    """The steps of one device by segment, in the order of their priority."""
    keys = _keys(made, own, {answer.value for answer in answers})
    groups: dict[Key, list[Step]] = defaultdict(list)
    for step in own:
        groups[keys[step]].append(step)
    return [groups[key] for key in sorted(groups)]


def _keys(made: Steps, own: Sequence[Step], answered: set[Value]) -> dict[Step, Key]:
    pieces = [piece for gather in made.gathers for piece in gather.pieces]
    sent = {piece.source for piece in pieces if piece.source.device != piece.target.device}
    copied = {piece.source for piece in pieces if piece.source.device == piece.target.device}
    readers: dict[Step, list[Step]] = defaultdict(list)
    for step in own:
        for value in step.inputs:
            if value is not None and value.step is not None:
                readers[value.step].append(step)
    keys: dict[Step, Key] = {}
    waiting: dict[int, list[Step]] = defaultdict(list)  # what no one needs at its own level
    for step in reversed(own):
        same = [
            keys[reader]
            for reader in readers[step]
            if reader.level == step.level and reader in keys
        ]
        if _any_in(step, sent | answered) or (step.level, 0) in same:
            keys[step] = (step.level, 0)
        elif _any_in(step, copied) or (step.level, 1) in same:
            keys[step] = (step.level, 1)
        else:
            waiting[step.level].append(step)
    total = sum(step.macs for step in own)
    for level, late in waiting.items():
        present = (level, 1) in keys.values()
        if present or sum(step.macs for step in late) > _WORTH * total:
            keys.update(dict.fromkeys(late, (level, 1)))
    for step in reversed(own):
        if step not in keys:
            keys[step] = min((keys[reader] for reader in readers[step]), default=(step.level, 1))
    return keys


def _any_in(step: Step, values: set[Value]) -> bool:
    return any(value in values for value in step.outputs)


def _segment(graph: Graph, group: list[Step], outside: set[Value]) -> Segment:
    inside = set(group)
    inputs: dict[Value, None] = {}
    for step in group:
        for value in step.inputs:
            if value is not None and value.step not in inside:
                inputs[value] = None
    return Segment(
        steps=group,
        inputs=list(inputs),
        outputs=[value for step in group for value in step.outputs if value in outside],
        macs=sum(step.macs for step in group),
        weights_bytes=_FLOAT
        * sum(weights(graph, s.task.op, s.task.region, s.task.portion) for s in group),
        activations_bytes=0,
    )


def _connect(made: Steps, found: list[Program]) -> None:
    """Outputs that other segments read, memory, and messages: one for each segment and receiver."""
    for program in found:
        read = {value for segment in program.segments for value in segment.inputs}
        for segment in program.segments:
            known = set(segment.outputs)
            more = [
                v for step in segment.steps for v in step.outputs if v in read and v not in known
            ]
            segment.outputs += more
            segment.activations_bytes = peak(
                made.graph, segment.steps, segment.inputs, segment.outputs
            )
    order = {
        step: number
        for program in found
        for number, segment in enumerate(program.segments)
        for step in segment.steps
    }
    together: dict[tuple[int, int, int, int], list[Piece]] = defaultdict(list)
    for at, gather in enumerate(made.gathers):
        for piece in gather.pieces:
            source, target = piece.source, piece.target
            if source.device == target.device:
                found[target.device].copies.append((piece, gather.adds))
                continue
            # A segment's results are sent at once; a value that was put together, on its own.
            ready = (order[source.step], 0) if source.step in order else (-1, 1 + at)
            together[source.device, *ready, target.device].append(piece)
    for number, (key, pieces) in enumerate(sorted(together.items(), key=lambda pair: pair[0])):
        message = Message(number, key[0], key[3], pieces)
        found[message.source].sends.append(message)
        found[message.target].receives.append(message)


def _name_buffers(program: Program) -> None:
    """Numbers in the order in which they are first used."""
    values = [*program.inputs]
    for segment in program.segments:
        values += [*segment.inputs, *segment.outputs]
    for piece, _ in program.copies:
        values += [piece.source, piece.target]
    values += [piece.source for message in program.sends for piece in message.pieces]
    values += [piece.target for message in program.receives for piece in message.pieces]
    values += [answer.value for answer in program.outputs]
    values += program.probes
    program.buffers = {value: f"b{n}" for n, value in enumerate(dict.fromkeys(values))}
