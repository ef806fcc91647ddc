"""What a split will take, before anything is cut: time, throughput, memory, and bytes on the links.

The programs of the devices are those that `cut` would write, without their weights. Each segment
takes what its layers take on the device, each message its bytes over the rates of both ends; then
the schedule is played out (see `timeline`), with as many samples in flight as are asked for.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from forerun import quantities
from forerun.errors import InputError
from forerun.infrastructure import Board, Link
from forerun.splitting.device.wire import WIRES, Size, fitting, message_bytes
from forerun.splitting.graph import Graph
from forerun.splitting.layers import Precision, Predictor, Taken, Wire
from forerun.splitting.layout import Layout
from forerun.splitting.memory import program_peak
from forerun.splitting.segment_layers import FLOAT, layers_of
from forerun.splitting.segments import Message, Program, programs
from forerun.splitting.steps import Piece, Step, Value
from forerun.splitting.timeline import End, Schedule, Task, play
from forerun.splitting.timeline import Message as Sent

LATENCY = 1e-4  # seconds of a link that says none
FRAME = 32  # bytes of a message besides what it holds
_NAMES = {number: name for name, number in WIRES.items()}

# Resident bytes of a device's process at most, by ResNet-50 cut in six ways: Python, onnxruntime
# and numpy; all weights once; while a segment is loaded its own again, in the file's form and in
# the runtime's; for each sample in flight all buffers, and messages as they are sent.
PROCESS = 62e6
LOADING = 1.75


@dataclass(frozen=True, slots=True)
class Device:
    """One board."""

    name: str
    speed: float = 1.0  # of the machine where layers were timed
    memory: float = math.inf  # bytes
    rate: float = math.inf  # bytes a second, each way
    latency: float = LATENCY
    power: float = 0.0  # watts


def devices_of(boards: Mapping[str, Board]) -> list[Device]:
    """The single devices of an infrastructure's boards, kind after kind."""
    return [
        Device(
            f"{name}-{number}" if board.count > 1 else name,
            1.0 if board.speed is None else board.speed,
            board.memory,
            board.link.bandwidth,
            LATENCY if board.link.latency is None else board.link.latency,
            board.power,
        )
        for name, board in boards.items()
        for number in range(board.count)
    ]


def linked(devices: Sequence[Device], link: Link | None) -> tuple[Device, ...]:
    """The same devices, all on one link where it is given."""
    if link is None:
        return tuple(devices)
    latency = LATENCY if link.latency is None else link.latency
    return tuple(replace(one, rate=link.bandwidth, latency=latency) for one in devices)


@dataclass(frozen=True)
class Cost:
    """What a split takes; tuples have one number a device."""

    latency: float  # seconds from a sample to its answer
    low: float  # 90 % interval of it
    high: float
    period: float  # seconds a sample, one after the other
    busy: tuple[float, ...]  # seconds of computing a sample
    sent: tuple[float, ...]  # bytes a sample, to other devices and to the host
    weights: tuple[float, ...]  # bytes
    activations: tuple[float, ...]  # bytes, at most at a time
    memory: tuple[float, ...]  # resident bytes of the process, by estimate


def lacking(devices: Sequence[Device], cost: Cost, most: float | None = None) -> str:
    """What a device lacks of memory, of which it may use so much; empty where all have enough."""
    for device, need in zip(devices, cost.memory, strict=True):
        has = min(device.memory, most or math.inf)
        if need > has:
            much, little = (quantities.amount(x, "bytes") for x in (need, has))
            return f"memory: {device.name} needs {much}, more than {little}"
    return ""


def predict(
    graph: Graph,
    layout: Layout,
    devices: Sequence[Device],
    predictor: Predictor,
    *,
    precision: Precision = "float32",
    wire: Wire = "float32",
    in_flight: int = 1,
    early: float = 0.0,
) -> Cost:
    """What a layout takes on these devices; InputError where there are more or fewer of them."""
    if len(devices) != layout.devices:
        raise InputError("devices", len(devices), f"{layout.devices}, as the layout has")
    made = programs(graph, layout, early=early)
    return price(
        graph, made, devices, predictor, precision=precision, wire=wire, in_flight=in_flight
    )


def price(
    graph: Graph,
    made: Sequence[Program],
    devices: Sequence[Device],
    predictor: Predictor,
    *,
    precision: Precision = "float32",
    wire: Wire = "float32",
    in_flight: int = 1,
    interval: bool = True,
) -> Cost:
    """What the programs of a layout take; without an interval in a third of the time."""
    pricing = _Pricing(graph, made, devices, predictor, precision, wire)
    schedule = pricing.schedule()
    half = predictor.half(pricing.taken)
    likely = low = high = play(schedule, in_flight)
    if interval:
        low, high = (play(_slower(schedule, math.exp(side)), in_flight) for side in (-half, half))
    share = 1 / FLOAT if precision == "int8" else 1.0
    count = len(devices)
    sent = tuple(schedule.sent()[:count])
    return Cost(
        latency=likely.latency,
        low=low.latency,
        high=high.latency,
        period=likely.period,
        busy=likely.busy[:count],
        sent=sent,
        weights=tuple(share * program.weights_bytes for program in made),
        activations=tuple(float(program_peak(graph, program)) for program in made),
        memory=tuple(
            _memory(graph, program, share, in_flight, size)
            for program, size in zip(made, sent, strict=True)
        ),
    )


def _memory(graph: Graph, program: Program, share: float, in_flight: int, sent: float) -> float:
    """Of the process, at most; `share` of its weights' bytes remains where numbers are shorter."""
    buffers = sum(_bytes(graph, value) for value in program.buffers)
    inside = largest = 0.0
    for segment in program.segments:
        edges = sum(_bytes(graph, value) for value in (*segment.inputs, *segment.outputs))
        inside = max(inside, segment.activations_bytes - edges)
        largest = max(largest, segment.weights_bytes)
    weights = share * (program.weights_bytes + LOADING * largest)
    return PROCESS + weights + in_flight * (buffers + sent) + inside


def _bytes(graph: Graph, value: Value) -> int:
    return FLOAT * value.region.size * graph.tensors[value.tensor].columns


def _slower(schedule: Schedule, factor: float) -> Schedule:
    """The same, where computing takes longer by a factor; links keep their word."""
    return Schedule(
        tuple(replace(task, seconds=task.seconds * factor) for task in schedule.tasks),
        tuple(
            replace(one, send=one.send * factor, receive=one.receive * factor)
            for one in schedule.messages
        ),
        schedule.ends,
    )


class _Pricing:
    """From the programs of devices to a schedule of seconds and bytes."""

    def __init__(
        self,
        graph: Graph,
        made: Sequence[Program],
        devices: Sequence[Device],
        predictor: Predictor,
        precision: Precision,
        wire: Wire,
    ) -> None:
        self._graph, self._made, self._devices = graph, made, devices
        self._predictor, self._precision, self._wire = predictor, precision, WIRES[wire]
        self._constants = predictor.times.constants
        self.taken = Taken(0.0)  # of the device that computes longest
        self._messages = {one.number: one for program in made for one in program.sends}
        self._gathered = _put_together(made)
        # Tasks: what puts values together first, for others wait for it; then the segments.
        self._place: dict[Value, int] = {value: i for i, value in enumerate(self._gathered)}
        self._segment: dict[Step, int] = {}
        place = len(self._place)
        for program in made:
            for segment in program.segments:
                self._segment.update(dict.fromkeys(segment.steps, place))
                place += 1
        self._number = {number: i for i, number in enumerate(sorted(self._messages))}
        self._came = {
            piece: self._number[one.number]
            for one in self._messages.values()
            for piece in one.pieces
        }

    def schedule(self) -> Schedule:
        """All that a sample takes."""
        tasks = [self._gathering(value, pieces) for value, pieces in self._gathered.items()]
        tasks += self._segments()
        messages = [self._sent(self._messages[number]) for number in sorted(self._messages)]
        messages += self._answers()
        ends = [End(one.rate, one.latency) for one in self._devices]
        host = End(max(one.rate for one in self._devices), 0.0)
        return Schedule(tuple(tasks), tuple(messages), (*ends, host))

    def _segments(self) -> list[Task]:
        layers = [
            [layers_of(self._graph, segment, self._precision) for segment in program.segments]
            for program in self._made
        ]
        self._predictor.learn(layer for each in layers for some in each for layer in some)
        tasks = []
        for program, each in zip(self._made, layers, strict=True):
            speed, total = self._devices[program.device].speed, Taken(0.0)
            for segment, some in zip(program.segments, each, strict=True):
                taken = self._predictor.segment(some)
                total += taken
                before = [self._before(value) for value in segment.inputs]
                tasks.append(
                    Task(
                        program.device,
                        taken.seconds / speed,
                        tuple(sorted({place for one in before for place in one})),
                    )
                )
            if total.seconds > self.taken.seconds:
                self.taken = total
        return tasks

    def _before(self, value: Value) -> list[int]:
        """The task that must be done for a value to be there; none where the host gives it."""
        if value.step is not None:
            return [self._segment[value.step]]
        return [self._place[value]] if value in self._place else []

    def _gathering(self, value: Value, pieces: Sequence[Piece]) -> Task:
        """A value is put together: copies of one's own parts; what comes is received in place."""
        own = [piece for piece in pieces if piece not in self._came]
        numbers = sum(self._numbers(piece) for piece in own)
        if value.gather is not None and value.gather.adds:
            numbers = sum(self._numbers(piece) for piece in pieces)
        seconds = numbers * self._constants.wires["float32"].receive / 2
        return Task(
            value.device,
            seconds / self._devices[value.device].speed,
            tuple(sorted({place for piece in own for place in self._before(piece.source)})),
            tuple(sorted({self._came[piece] for piece in pieces if piece in self._came})),
        )

    def _sent(self, message: Message) -> Sent:
        sizes = [
            Size(len(piece.source_box[0]), len(piece.source_box[1]) * self._columns(piece))
            for piece in message.pieces
        ]
        wire = fitting(sizes, self._wire)
        numbers = sum(one.channels * one.values for one in sizes)
        coding = self._constants.wires[_NAMES[wire]]
        fixed = self._constants.message
        before = {place for piece in message.pieces for place in self._before(piece.source)}
        return Sent(
            message.source,
            message.target,
            message_bytes(sizes, wire) + FRAME,
            tuple(sorted(before)),
            (fixed + numbers * coding.send) / self._devices[message.source].speed,
            (fixed + numbers * coding.receive) / self._devices[message.target].speed,
        )

    def _answers(self) -> list[Sent]:
        """What devices send to the host, which is as one device more."""
        found = []
        host, fixed = len(self._devices), self._constants.message
        for program in self._made:
            values: dict[int, list[Value]] = defaultdict(list)
            for answer in program.outputs:
                for place in self._before(answer.value) or [-1]:
                    values[place].append(answer.value)
            for place, some in values.items():
                size = sum(_bytes(self._graph, value) for value in some)
                seconds = fixed + size / FLOAT * self._constants.wires["float32"].send
                speed = self._devices[program.device].speed
                before = (place,) if place >= 0 else ()
                found.append(Sent(program.device, host, size + FRAME, before, seconds / speed))
        return found

    def _numbers(self, piece: Piece) -> int:
        return piece.numbers * self._columns(piece)

    def _columns(self, piece: Piece) -> int:
        return self._graph.tensors[piece.source.tensor].columns


def _put_together(made: Sequence[Program]) -> dict[Value, list[Piece]]:
    """The values that are made of pieces, by copies and messages."""
    found: dict[Value, list[Piece]] = defaultdict(list)
    for program in made:
        for piece, _ in program.copies:
            found[piece.target].append(piece)
        for message in program.receives:
            for piece in message.pieces:
                found[piece.target].append(piece)
    return dict(found)
