"""One node of an ONNX graph, in the words of splitting; whatever has no rule stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from forerun.splitting.graph import Constant, Operation
from forerun.splitting.moves import gather, reshape, slice_, split
from forerun.splitting.nodes import Source

# One number in, one number out, whatever stands beside it.
POINTWISE = frozenset(
    (
        *("Abs", "Ceil", "Celu", "Clip", "Cos", "Elu", "Erf", "Exp", "Floor", "Gelu"),
        *("HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "Mish", "Neg"),
        *("Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus"),
        *("Softsign", "Sqrt", "Swish", "Tanh", "ThresholdedRelu"),
    )
)
PAIRWISE = frozenset(("Add", "Div", "Max", "Min", "Mul", "PRelu", "Pow", "Sub"))
NEEDS_ALL = frozenset(("Hardmax", "LogSoftmax", "Softmax"))  # every number depends on all others


def translated(source: Source) -> list[Operation]:
    """The operations that a node is."""
    translate = _TRANSLATIONS.get(source.kind) if source.node.domain in ("", "ai.onnx") else None
    readable = source.kind in PAIRWISE or (source.has(0) and source.is_usual(source.node.input[0]))
    found = translate(source) if translate is not None and readable else None
    if found is None:
        return [_unruled(source)]
    return found if isinstance(found, list) else [found]


def _unruled(source: Source) -> Operation:
    names = dict.fromkeys(name for name in source.node.input if name)
    return Operation(
        name=source.name,
        kind="Unruled",
        inputs=tuple(name for name in names if name not in source.constants),
        outputs=tuple(name for name in source.node.output if name),
        constants={name: source.constants[name] for name in names if name in source.constants},
        node=source.node,
    )


def _window(source: Source, kernel: Sequence[int]) -> dict[str, Any]:
    """Kernel, strides, dilations and the padding before the first row and column.

    What comes after the last ones follows from the size of the result, ceil_mode included.
    """
    strides = source.attribute("strides", [1, 1])
    dilations = source.attribute("dilations", [1, 1])
    pads = source.attribute("pads", [0, 0, 0, 0])
    automatic = source.attribute("auto_pad", b"NOTSET").decode()
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        ins, outs = source.dims(source.node.input[0])[2:], source.dims(source.node.output[0])[2:]
        sizes = zip(kernel, strides, dilations, ins, outs, strict=True)
        totals = [max((o - 1) * s + (k - 1) * d + 1 - i, 0) for k, s, d, i, o in sizes]
        first = [(total + (automatic == "SAME_LOWER")) // 2 for total in totals]
        pads = [*first, *(total - part for total, part in zip(totals, first, strict=True))]
    return {
        "kernel": list(map(int, kernel)),
        "strides": list(map(int, strides)),
        "dilations": list(map(int, dilations)),
        "pads": list(map(int, pads if automatic != "VALID" else [0] * 4)),
    }


def _convolution(source: Source) -> Operation | None:
    weight, bias = source.constant(1), source.constant(2)
    if weight is None or weight.ndim != 4 or (source.has(2) and bias is None):
        return None
    if not source.is_usual(source.node.input[0], (4,)):
        return None
    attributes = _window(source, weight.shape[2:]) | {"group": source.attribute("group", 1)}
    return source.made("Conv", attributes, weight=weight, bias=bias)


def _pool(source: Source) -> Operation | None:
    node = source.node
    if len(node.output) > 1 or not source.is_usual(node.input[0], (4,)):
        return None
    attributes = _window(source, source.attribute("kernel_shape"))
    if source.kind == "AveragePool":
        whole = (*source.dims(node.input[0])[2:], 0, 0, 0, 0)
        if (*attributes["kernel"], *attributes["pads"]) == whole:
            return source.made("GlobalAveragePool", {})
        if attributes["dilations"] != [1, 1]:
            return None
        attributes["count_include_pad"] = source.attribute("count_include_pad", 0)
    return source.made(source.kind, attributes)


def _global_pool(source: Source) -> Operation | None:
    return source.made(source.kind, {}) if source.is_usual(source.node.input[0], (4,)) else None


def _mean(source: Source) -> list[Operation] | None:
    """A mean over rows and columns is a global pool, and then a vector unless sizes are kept."""
    given = source.attribute("axes") if not source.has(1) else source.constant(1)
    if given is None or not source.is_usual(source.node.input[0], (4,)):
        return None
    if sorted(int(axis) % 4 for axis in given) != [2, 3]:
        return None
    if source.attribute("keepdims", 1):
        return [source.made("GlobalAveragePool", {})]
    x, out = source.node.input[0], source.node.output[0]
    middle = f"{out}/mean"
    source.all_dims[middle] = (*source.dims(x)[:2], 1, 1)
    return [
        Operation(source.name, "GlobalAveragePool", (x,), (middle,)),
        Operation(f"{source.name}/vector", "Flatten", (middle,), (out,)),
    ]


def _gemm(source: Source) -> Operation | None:
    weight, bias = source.constant(1), source.constant(2)
    if weight is None or source.attribute("transA", 0) or (source.has(2) and bias is None):
        return None
    if not source.is_usual(source.node.input[0], (2,)):
        return None
    weight = weight if source.attribute("transB", 0) else weight.T
    weight = _times(weight, source.attribute("alpha", 1.0))
    if bias is not None:
        if bias.size not in (1, weight.shape[0]):
            return None
        flat = np.broadcast_to(bias.reshape(-1), weight.shape[0])
        bias = _times(flat, source.attribute("beta", 1.0))
    return source.made("Gemm", {}, weight=weight, bias=bias)


def _times(values: Constant, factor: float) -> Constant:
    made = values if factor == 1.0 else values.astype(np.float64) * factor
    return np.ascontiguousarray(made, np.float32)


def _product(source: Source) -> Operation | None:
    weight = source.constant(1)
    if weight is None or weight.ndim != 2 or not source.is_usual(source.node.input[0], (2,)):
        return None
    return source.made("Gemm", {}, weight=_times(weight.T, 1.0))


def _normalisation(source: Source) -> Operation | None:
    """Results are a·x + c for each channel: a = scale / √(variance + ε), c = shift - mean·a."""
    given = [source.constant(place) for place in range(1, 5)]
    if source.attribute("training_mode", 0) or len(source.node.output) > 1:
        return None
    found = [value.astype(np.float64) for value in given if value is not None]
    if len(found) < 4:
        return None
    scale, shift, mean, variance = found
    scale = scale / np.sqrt(variance + source.attribute("epsilon", 1e-5))
    return source.made("BatchNormalization", {}, scale=scale, shift=shift - mean * scale)


def _pointwise(source: Source) -> Operation | None:
    given = {str(place): source.constant(place) for place in range(1, len(source.node.input))}
    if any(value is None and source.has(int(place)) for place, value in given.items()):
        return None
    return source.made(source.kind, source.attributes(), **given)


def _identity(source: Source) -> Operation | None:
    """A network that is not trained drops nothing."""
    training = source.constant(2)
    if len(source.node.output) > 1 or (source.has(2) and (training is None or training.any())):
        return None
    return source.made("Identity", {})


def _pairwise(source: Source) -> Operation | None:
    """Two tensors, or a tensor and a constant; sizes of 1 count for all."""
    node = source.node
    rank = len(source.dims(node.output[0]))
    if len(node.input) != 2 or not source.is_usual(node.output[0]):
        return None
    for name in node.input:
        constant = source.constants.get(name)
        if constant is None and not source.is_usual(name, (rank,)):
            return None
        if constant is not None and constant.ndim > rank:
            return None
    found = {str(i): source.constants.get(name) for i, name in enumerate(node.input)}
    return Operation(
        name=source.name,
        kind=source.kind,
        inputs=tuple(name for name in node.input if name not in source.constants),
        outputs=(node.output[0],),
        attributes=source.attributes(),
        constants={i: value for i, value in found.items() if value is not None},
    )


def _needs_all(source: Source) -> Operation:
    return source.made(source.kind, source.attributes())


def _concat(source: Source) -> Operation | None:
    rank = len(source.dims(source.node.output[0]))
    if source.attribute("axis") % rank != 1:
        return None
    if not all(source.is_usual(name, (rank,)) for name in source.node.input):
        return None
    return Operation(source.name, "Concat", tuple(source.node.input), (source.node.output[0],))


def _pad(source: Source) -> Operation | None:
    """Constant rows and columns at the borders."""
    pads = source.constant(1)
    value = source.constant(2)
    if pads is None or source.attribute("mode", b"constant") != b"constant":
        return None
    if (source.has(2) and value is None) or not source.is_usual(source.node.input[0], (4,)):
        return None
    axes = source.constant(3) if source.has(3) else np.arange(4)
    if axes is None:
        return None
    before, after = np.zeros(4, int), np.zeros(4, int)
    before[axes], after[axes] = pads[: len(axes)], pads[len(axes) :]
    if min(*before, *after) < 0 or any(before[:2]) or any(after[:2]):
        return None
    attributes = {
        "pads": [int(one) for one in (*before[2:], *after[2:])],
        "value": float(value.reshape(-1)[0]) if value is not None and value.size else 0.0,
    }
    return source.made("Pad", attributes)


_TRANSLATIONS: dict[str, Callable[[Source], Operation | list[Operation] | None]] = {
    **dict.fromkeys(POINTWISE, _pointwise),
    **dict.fromkeys(PAIRWISE, _pairwise),
    **dict.fromkeys(NEEDS_ALL, _needs_all),
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), reshape),
    "AveragePool": _pool,
    "BatchNormalization": _normalisation,
    "Concat": _concat,
    "Conv": _convolution,
    "Dropout": _identity,
    "Gather": gather,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_pool,
    "GlobalMaxPool": _global_pool,
    "MatMul": _product,
    "MaxPool": _pool,
    "Pad": _pad,
    "ReduceMean": _mean,
    "Slice": slice_,
    "Split": split,
}
