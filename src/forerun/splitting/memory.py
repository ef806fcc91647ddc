"""How much memory the results of a segment's steps take at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from forerun.splitting.graph import Graph
from forerun.splitting.steps import Step, Value
from forerun.splitting.translation import PAIRWISE, POINTWISE

if TYPE_CHECKING:
    from forerun.splitting.segments import Program

_FLOAT = 4  # bytes
_IN_PLACE = POINTWISE | PAIRWISE  # results may stand where an input stood that nobody needs further


def size(graph: Graph, value: Value) -> int:
    """Bytes of a value."""
    return value.region.size * graph.tensors[value.tensor].columns * _FLOAT


def peak(
    graph: Graph, steps: Sequence[Step], inputs: Iterable[Value], outputs: Iterable[Value]
) -> int:
    """The most bytes that are alive at once: a value lives from its step to its last reader's."""
    last: dict[Value, int] = {}
    for number, step in enumerate(steps):
        last.update({value: number for value in step.inputs if value is not None})
    last.update(dict.fromkeys(outputs, len(steps)))
    alive = {value: size(graph, value) for value in inputs}
    total = most = sum(alive.values())
    for number, step in enumerate(steps):
        made = {value: size(graph, value) for value in step.outputs}
        ending = [value for value in alive if last.get(value, -1) <= number]
        freed = sum(alive.pop(value) for value in ending)
        before = total
        total += sum(made.values())
        most = max(most, before if step.task.op.kind in _IN_PLACE and freed else total)
        total -= freed
        alive.update(made)
        most = max(most, total)
    return most


def program_peak(graph: Graph, program: Program) -> int:
    """The most bytes that a device's buffers and results take, its segments run in their order.

    A buffer lives from what writes it (or the first that reads it, where others write) to the last
    segment that reads it; what was sent or copied is gone with its segment.
    """
    first: dict[Value, int] = dict.fromkeys(program.inputs, 0)
    last: dict[Value, int] = {}
    for number, segment in enumerate(program.segments):
        for value in (*segment.inputs, *segment.outputs):
            first.setdefault(value, number)
            last[value] = number
    most = 0
    for number, segment in enumerate(program.segments):
        own = {*segment.inputs, *segment.outputs}
        beside = [v for v in last if first[v] <= number <= last[v] and v not in own]
        most = max(most, segment.activations_bytes + sum(size(graph, v) for v in beside))
    return most
