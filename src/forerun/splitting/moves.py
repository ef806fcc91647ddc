"""Nodes that move numbers about and compute nothing: which channel goes where."""

from __future__ import annotations

from math import prod

import numpy as np

from forerun.splitting.graph import Constant, Operation
from forerun.splitting.nodes import Source


def reshape(source: Source) -> Operation | None:
    """A shuffle of channels, a map as a vector, or a vector as a map of one row and column."""
    node = source.node
    before, after = source.dims(node.input[0]), source.dims(node.output[0])
    shuffle = _shuffle(source)
    if shuffle is not None:
        return shuffle
    if before == after:
        return source.made("Identity", {})
    if after == (1, prod(before)):
        return source.made("Flatten", {})
    if len(before) == 2 and after == (*before, 1, 1):
        return source.made("Unflatten", {})
    return None


def _shuffle(source: Source) -> Operation | None:
    """Reshape, transposition, reshape that only move channels are one choice of channels."""
    chain = [source.node]
    for kind in ("Transpose", "Reshape"):
        after = source.readers.get(chain[-1].output[0], ())
        if len(after) != 1 or after[0].op_type != kind or chain[-1].output[0] in source.outputs:
            return None
        chain.append(after[0])
    start, middle = source.dims(chain[0].input[0]), source.dims(chain[0].output[0])
    end = source.dims(chain[2].output[0])
    order = next((list(one.ints) for one in chain[1].attribute if one.name == "perm"), None)
    kept = len(start) - 2  # rows and columns, which stay where they are
    if order is None or start != end or len(middle) < kept + 2:
        return None
    inner = len(middle) - kept
    rest = list(range(inner, len(middle)))
    if middle[0] != 1 or middle[inner:] != start[2:] or order[0] != 0 or order[inner:] != rest:
        return None
    places = np.arange(start[1]).reshape(middle[1:inner])
    places = places.transpose([axis - 1 for axis in order[1:inner]]).reshape(-1)
    source.swallowed.update(id(node) for node in chain[1:])
    return _select(source, places, chain[2].output[0])


def _select(source: Source, places: Constant, output: str, name: str = "") -> Operation:
    return Operation(
        name=name or source.name,
        kind="Select",
        inputs=(source.node.input[0],),
        outputs=(output,),
        constants={"places": np.asarray(places, np.int64)},
    )


def gather(source: Source) -> Operation | None:
    """Channels by their numbers."""
    places = source.constant(1)
    dims = source.dims(source.node.input[0])
    if places is None or places.ndim != 1 or source.attribute("axis", 0) % len(dims) != 1:
        return None
    return _select(source, places % dims[1], source.node.output[0])


def slice_(source: Source) -> Operation | None:
    """Channels from, to, and how far apart."""
    starts, ends = source.constant(1), source.constant(2)
    dims = source.dims(source.node.input[0])
    if starts is None or ends is None:
        return None
    axes = source.constant(3) if source.has(3) else np.arange(len(starts))
    steps = source.constant(4) if source.has(4) else np.ones(1, np.int64)
    if axes is None or steps is None:
        return None
    if [int(axis) % len(dims) for axis in axes] != [1]:
        return None
    places = np.arange(dims[1])[slice(int(starts[0]), int(ends[0]), int(steps[0]))]
    return _select(source, places, source.node.output[0])


def split(source: Source) -> list[Operation] | None:
    """Each result is a choice of channels."""
    dims = source.dims(source.node.input[0])
    if source.attribute("axis", 0) % len(dims) != 1:
        return None
    found, start = [], 0
    for place, name in enumerate(source.node.output):
        if not name:
            return None
        size = source.dims(name)[1]
        places = np.arange(start, start + size)
        found.append(_select(source, places, name, f"{source.name}/{place}"))
        start += size
    return found
