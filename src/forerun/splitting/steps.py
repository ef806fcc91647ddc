"""The steps of every device, in order, and where each gets what it reads: itself, or others.

Levels count the exchanges that lie before a step, over all devices. What has the same level needs
no exchange in between, and whatever it reads was there before: so levels can become segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from forerun.splitting.emitting import Task
from forerun.splitting.graph import Graph, Operation
from forerun.splitting.layout import Flow
from forerun.splitting.regions import Box, Places, Region, hull, runs
from forerun.splitting.rules import macs, needs, uncut


@dataclass(eq=False)
class Value:
    """A part of a tensor that one device has, computed, put together, or given by the host."""

    tensor: str
    device: int
    region: Region
    level: int = 0
    step: Step | None = None
    gather: Gather | None = None


@dataclass(eq=False)
class Step:
    """One task on one device."""

    task: Task
    device: int
    inputs: list[Value | None]  # None where nothing of an input is needed
    needs: list[Region]  # with rows that no result sees, where they need not be cut off
    level: int
    macs: int
    outputs: list[Value] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Piece:
    """A part of one value that goes into another."""

    source: Value
    target: Value
    source_box: Box
    target_box: Box

    @property
    def numbers(self) -> int:
        """Channels times rows."""
        return len(self.source_box[0]) * len(self.source_box[1])


@dataclass(eq=False)
class Gather:
    """A value that is put together from pieces of others, or added up from them."""

    value: Value
    pieces: list[Piece]
    adds: bool = False


@dataclass(eq=False)
class Steps:
    """All steps of all devices."""

    graph: Graph
    flow: Flow
    steps: list[Step] = field(default_factory=list)
    gathers: list[Gather] = field(default_factory=list)
    given: dict[tuple[str, int], Value] = field(default_factory=dict)  # by the host
    homes: dict[tuple[str, int], list[Value]] = field(default_factory=dict)
    gathered: dict[tuple[str, int], Value] = field(default_factory=dict)
    partial: dict[str, list[Value]] = field(default_factory=dict)  # sums that are not yet added up


def steps(graph: Graph, flow: Flow, parts: Parts | None = None) -> Steps:
    """Walk from the inputs to the results."""
    made = Steps(graph, flow)
    for name in graph.inputs:
        for device, need in enumerate(flow.needed[name]):
            if need:
                box = Region(need.channels.hull(), need.rows.hull())  # the host sends one box
                value = Value(name, device, box)
                made.given[name, device] = value
                made.homes[name, device] = [value]
    for op in graph.operations:
        _add(made, op, parts or {})
    return made


# The regions that a device computes one after the other, by operation's result and device.
Parts = dict[tuple[str, int], list[Region]]


def _add(made: Steps, op: Operation, parts: Parts) -> None:
    flow = made.flow
    level = _level_after_exchanges(made, op)
    partial: list[Value] = []
    for device in range(flow.devices):
        region, portion = flow.computed[op.output][device], flow.portion(op, device)
        if not region:
            continue
        if op.kind == "Select" and not _has(made, op.inputs[0], device, _need(made, op, device)[0]):
            _shuffled(made, op, device)
            continue
        for part in parts.get((op.output, device), [region]):
            task = Task(op, part, portion, flow.leads(op, device))
            step = _step(made, task, device, level)
            if portion is not None:
                partial += step.outputs
            else:
                for value in step.outputs:
                    made.homes.setdefault((value.tensor, device), []).append(value)
    if partial:
        made.partial[op.output] = partial
        _add_up(made, op.output, partial)


def _need(made: Steps, op: Operation, device: int) -> list[Region]:
    flow = made.flow
    region = flow.computed[op.output][device]
    return needs(made.graph, op, region, flow.portion(op, device))


def _has(made: Steps, tensor: str, device: int, need: Region) -> bool:
    """Whether what a device has itself is enough."""
    return need <= hull(value.region for value in made.homes.get((tensor, device), []))


def _level_after_exchanges(made: Steps, op: Operation) -> int:
    """The first level at which an operation may run on any device.

    If one device must wait for a tensor, all count it as an exchange: else a device at the border,
    which needs nothing of others, would run far ahead before it sends them what they need.
    """
    level = 0
    for device in range(made.flow.devices):
        for name, need in zip(op.inputs, _need(made, op, device), strict=True):
            if need and not _has(made, name, device, need):
                level = max(level, 1 + _tensor_level(made, name))
    return level


def _tensor_level(made: Steps, tensor: str) -> int:
    levels = [
        value.level
        for device in range(made.flow.devices)
        for value in made.homes.get((tensor, device), [])
    ]
    return max(levels, default=0)


def _step(made: Steps, task: Task, device: int, level: int) -> Step:
    op = task.op
    wanted = needs(made.graph, op, task.region, task.portion)
    inputs = [
        _obtained(made, name, device, need) if need else None
        for name, need in zip(op.inputs, wanted, strict=True)
    ]
    level = max([level, *(value.level for value in inputs if value is not None)])
    work = macs(made.graph, op, task.region, task.portion)
    given = [
        need if value is None else uncut(made.graph, op, need, value.region)
        for value, need in zip(inputs, wanted, strict=True)
    ]
    step = Step(task, device, inputs, given, level, work)
    regions = [made.flow.computed[name][device] for name in op.outputs[1:]]
    step.outputs = [
        Value(name, device, region, level, step)
        for name, region in zip(op.outputs, [task.region, *regions], strict=True)
    ]
    made.steps.append(step)
    return step


def _obtained(made: Steps, tensor: str, device: int, need: Region) -> Value:
    """What holds the need: one's own part, or one that is put together."""
    for value in made.homes.get((tensor, device), []):
        if need <= value.region:
            return value
    if (tensor, device) not in made.gathered:
        made.gathered[tensor, device] = _gathered(made, tensor, device)
    return made.gathered[tensor, device]


def _gathered(made: Steps, tensor: str, device: int) -> Value:
    """One value for all readers whom the device's own part is not enough."""
    wanted: Region | None = None
    for reader in made.graph.readers[tensor]:
        for name, need in zip(reader.inputs, _need(made, reader, device), strict=True):
            if name == tensor and need and not _has(made, tensor, device, need):
                wanted = need if wanted is None else wanted | need
    if wanted is None:
        raise AssertionError(f"{tensor} is not missing on device {device}")
    value = Value(tensor, device, wanted, 1 + _tensor_level(made, tensor))
    _fill(made, value, _sources(made, tensor, device), None)
    return value


def _sources(made: Steps, tensor: str, device: int) -> list[Value]:
    """Who has parts of a tensor: oneself, then the nearest."""
    order = sorted(range(made.flow.devices), key=lambda other: (abs(other - device), other))
    return [value for other in order for value in made.homes.get((tensor, other), [])]


def _shuffled(made: Steps, op: Operation, device: int) -> None:
    """Channels that come from several devices are received at their new places."""
    tensor = op.inputs[0]
    region = made.flow.computed[op.output][device]
    value = Value(op.output, device, region, 1 + _tensor_level(made, tensor))
    _fill(made, value, _sources(made, tensor, device), op.constants["places"])
    made.homes[op.output, device] = [value]


def _fill(made: Steps, value: Value, sources: Iterable[Value], places: Places | None) -> None:
    """Take every number from the first source that has it."""
    left = [value.region]
    pieces: list[Piece] = []
    for source in sources:
        rest: list[Region] = []
        for part in left:
            held = _held(part, source.region, places)
            pieces += _pieces(source, value, held, places)
            rest += part.minus(held)
        left = rest
    if left:
        raise AssertionError(f"nobody has {left} of {value.tensor}")
    _gather(made, Gather(value, pieces))


def _gather(made: Steps, gather: Gather) -> None:
    gather.value.gather = gather
    made.gathers.append(gather)


def _held(part: Region, source: Region, places: Places | None) -> Region:
    """What a source has of a part, whose channel i is the source's channel places[i]."""
    if places is None:
        return part & source
    channels = part.channels.array
    inside = np.isin(places[channels], source.channels.array)
    return part & Region(type(part.channels).of(channels[inside]), source.rows)


def _pieces(source: Value, target: Value, held: Region, places: Places | None) -> list[Piece]:
    if not held:
        return []
    channels = held.channels.array
    theirs = channels if places is None else places[channels]
    across = runs(
        np.searchsorted(source.region.channels.array, theirs),
        target.region.channels.ranks(held.channels),
    )
    down = runs(source.region.rows.ranks(held.rows), target.region.rows.ranks(held.rows), unit=True)
    return [
        Piece(source, target, (from_channels, from_rows), (to_channels, to_rows))
        for from_channels, to_channels in across
        for from_rows, to_rows in down
    ]


def _add_up(made: Steps, tensor: str, partial: Sequence[Value]) -> None:
    """Every device that has a region of a sum gets it from all who have parts."""
    level = 1 + max(value.level for value in partial)
    for device, region in enumerate(made.flow.placements[tensor].regions):
        if region:
            value = Value(tensor, device, region, level)
            pieces = [piece for one in partial for piece in _pieces(one, value, region, None)]
            _gather(made, Gather(value, pieces, adds=True))
            made.homes[tensor, device] = [value]
