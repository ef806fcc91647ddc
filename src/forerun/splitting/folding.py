"""Normalisations and biases that become part of the layer before them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from forerun.splitting.graph import Constant, Operation

# The layer that does the work of two, or None where it cannot.
Merge = Callable[[Operation, Operation], Operation | None]


def fold_batch_normalisation(
    operations: Sequence[Operation], outputs: Sequence[str]
) -> list[Operation]:
    """Scale the weights of a layer instead of its results, where nobody else reads these."""
    return _folded(operations, outputs, _scaled)


def fold_bias(operations: Sequence[Operation], outputs: Sequence[str]) -> list[Operation]:
    """A product with weights and then a sum with one constant an output are one layer."""
    return _folded(operations, outputs, _with_bias)


def _folded(
    operations: Sequence[Operation], outputs: Sequence[str], merge: Merge
) -> list[Operation]:
    read = Counter(name for op in operations for name in op.inputs)
    made: dict[str, Operation] = {}
    for op in operations:
        before = made.get(op.inputs[0]) if op.inputs else None
        merged = None
        if before is not None and read[before.output] == 1 and before.output not in outputs:
            merged = merge(before, op)
        if before is None or merged is None:
            made[op.output] = op
        else:
            del made[before.output]
            made[op.output] = merged
    return list(made.values())


def _scaled(layer: Operation, normalisation: Operation) -> Operation | None:
    """W' = W·a and b' = b·a + c for results a·y + c."""
    if normalisation.kind != "BatchNormalization" or layer.kind not in ("Conv", "Gemm"):
        return None
    scale, shift = normalisation.constants["scale"], normalisation.constants["shift"]
    weight = layer.constants["weight"]
    by_output = scale.reshape(-1, *[1] * (weight.ndim - 1))
    bias = np.asarray(layer.constants.get("bias", 0.0), np.float64) * scale + shift
    return _replaced(layer, normalisation, weight.astype(np.float64) * by_output, bias)


def _with_bias(layer: Operation, addition: Operation) -> Operation | None:
    constant = addition.constants.get("1")
    if layer.kind != "Gemm" or addition.kind != "Add" or constant is None:
        return None
    outputs = layer.constants["weight"].shape[0]
    if constant.size not in (1, outputs):
        return None
    bias = np.broadcast_to(constant.reshape(-1).astype(np.float64), outputs)
    bias = bias + np.asarray(layer.constants.get("bias", 0.0), np.float64)
    return _replaced(layer, addition, layer.constants["weight"], bias)


def _replaced(layer: Operation, last: Operation, weight: Constant, bias: Constant) -> Operation:
    constants = {"weight": weight.astype(np.float32), "bias": bias.astype(np.float32)}
    return replace(layer, outputs=last.outputs, constants=constants)
