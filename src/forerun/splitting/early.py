"""Rows that others wait for, computed before the rest.

Where an exchanged map comes out of a convolution that sees no other rows (as in bottleneck blocks),
the rows at the edges can be computed first, and travel while the others are computed. The results
are the same; the weights of such a convolution are stored twice, once for each part, so that this
is done where it gains most for them.
"""

from __future__ import annotations

from forerun.splitting.graph import Graph, Operation
from forerun.splitting.layout import Flow
from forerun.splitting.regions import EMPTY, Region
from forerun.splitting.rules import macs, needs, weights
from forerun.splitting.steps import Parts
from forerun.splitting.translation import POINTWISE
from forerun.splitting.windows import windows

MOST = 0.07  # of a device's weights: what may be stored twice


def early_parts(graph: Graph, flow: Flow, least: float) -> Parts:
    """The regions that are computed one after the other, where the later ones are worth it.

    `least` is the share of a device's multiply-accumulates that must be left for later.
    """
    found: Parts = {}
    chains = [chain for tensor in flow.placements if (chain := _chain(graph, tensor))]
    for device in range(flow.devices):
        work, left = flow.macs(graph, device), MOST * flow.weights(graph, device)
        candidates = []
        for chain in chains:
            parts = _parts(graph, flow, chain[-1].output, device)
            later = macs(graph, chain[0], parts[1]) if parts else 0
            if parts and later >= least * work:
                stored = weights(graph, chain[0], parts[1])
                candidates.append((stored / later, chain, parts))
        for _, chain, parts in sorted(candidates, key=lambda one: one[0]):
            left -= weights(graph, chain[0], parts[1])
            if left >= 0:
                found.update({(op.output, device): parts for op in chain})
    return found


def _chain(graph: Graph, tensor: str) -> list[Operation]:
    """The convolution that a tensor comes from, and what follows it number by number."""
    chain: list[Operation] = []
    op: Operation | None = graph.makers[tensor]
    while op is not None and (op.kind in POINTWISE or op.kind == "Conv"):
        chain.insert(0, op)
        if op.kind == "Conv":
            before, after = graph.tensors[op.inputs[0]], graph.tensors[op.output]
            return chain if windows(op, before, after)[0].is_point else []
        if graph.readers[op.inputs[0]] != (op,) or op.inputs[0] in graph.outputs:
            return []
        op = graph.makers.get(op.inputs[0])
    return []


def _parts(graph: Graph, flow: Flow, tensor: str, device: int) -> list[Region]:
    """What others need of a device's part, and the rest; nothing where it cannot be told apart."""
    placement, own = flow.placements[tensor], flow.computed[tensor][device]
    if placement.portions is not None or tensor in graph.outputs or not own:
        return []
    for reader in graph.readers[tensor]:
        wanted = needs(
            graph, reader, flow.computed[reader.output][device], flow.portion(reader, device)
        )
        if any(
            name == tensor and need and need <= own
            for name, need in zip(reader.inputs, wanted, strict=True)
        ):
            return []  # it reads the part as a whole, before anything is put together
    rows = EMPTY.rows
    for other, need in enumerate(flow.needed[tensor]):
        if other != device:
            rows |= (need & own).rows
    first, rest = Region(own.channels, rows), Region(own.channels, own.rows - rows)
    return [first, rest] if first and rest else []
