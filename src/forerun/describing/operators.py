"""Multiply-accumulates of ONNX operators, from the shapes of what goes in and comes out.

What is not listed here (activations, normalisation, pooling, sums …) has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from forerun.describing.description import Shape

# Shapes of a node's inputs and outputs; None for one that is absent or not known.
Shapes = Sequence[Shape | None]
Attributes = dict[str, object]


class UnknownShapeError(Exception):
    """A shape that the count needs is not known."""


def _at(shapes: Shapes, place: int) -> Shape:
    shape = shapes[place] if place < len(shapes) else None
    if shape is None:
        raise UnknownShapeError
    return shape


def _convolution(weights: int) -> Callable[[Shapes, Shapes, Attributes], int]:
    def count(ins: Shapes, outs: Shapes, _: Attributes) -> int:
        # Weights are (out, in / groups, *kernel): each output sums over all but the first.
        return prod(_at(outs, 0)) * prod(_at(ins, weights)[1:])

    return count


def _transposed_convolution(ins: Shapes, _: Shapes, __: Attributes) -> int:
    # Weights are (in, out / groups, *kernel): each input is spread over all but the first.
    return prod(_at(ins, 0)) * prod(_at(ins, 1)[1:])


def _gemm(ins: Shapes, outs: Shapes, attributes: Attributes) -> int:
    summed = _at(ins, 0)[0 if attributes.get("transA") else 1]
    return prod(_at(outs, 0)) * summed


def _product(ins: Shapes, outs: Shapes, _: Attributes) -> int:
    return prod(_at(outs, 0)) * _at(ins, 0)[-1]


def _einsum(ins: Shapes, _: Shapes, attributes: Attributes) -> int:
    """Every combination of the letters' values is one product of all operands."""
    equation = attributes.get("equation", b"")
    text = equation.decode("ascii", "replace") if isinstance(equation, bytes) else ""
    terms = text.replace(" ", "").partition("->")[0].split(",")
    shapes = [_at(ins, place) for place in range(len(ins))]
    if len(terms) < 2:
        return 0  # a sum or a transposition multiplies nothing
    if len(terms) != len(shapes) or any(
        "." in term or len(term) != len(shape) for term, shape in zip(terms, shapes, strict=False)
    ):
        raise UnknownShapeError
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, size in zip(term, shape, strict=True):
            sizes[letter] = max(size, sizes.get(letter, 1))
    return prod(sizes.values()) * (len(terms) - 1)


def _recurrent(ins: Shapes, _: Shapes, __: Attributes) -> int:
    # X is (steps, batch, features), or batch first; W and R hold all gates and both directions.
    return prod(_at(ins, 0)[:2]) * (prod(_at(ins, 1)) + prod(_at(ins, 2)))


def _attention(ins: Shapes, outs: Shapes, _: Attributes) -> int:
    # Queries with keys, then weights with values; heads lie in an axis of their own or in the last.
    keys = _at(ins, 1)[-2]
    past = ins[4] if len(ins) > 4 else None
    return (prod(_at(ins, 0)) + prod(_at(outs, 0))) * (keys + (past[-2] if past else 0))


_COUNTS: dict[str, Callable[[Shapes, Shapes, Attributes], int]] = {
    "Attention": _attention,
    "Conv": _convolution(1),
    "ConvInteger": _convolution(1),
    "ConvTranspose": _transposed_convolution,
    "Einsum": _einsum,
    "GRU": _recurrent,
    "Gemm": _gemm,
    "LSTM": _recurrent,
    "MatMul": _product,
    "MatMulInteger": _product,
    "QLinearConv": _convolution(3),
    "QLinearMatMul": _product,
    "RNN": _recurrent,
}


def macs(operator: str, ins: Shapes, outs: Shapes, attributes: Attributes) -> int:
    """The multiply-accumulates of one node; UnknownShapeError where they cannot be told."""
    count = _COUNTS.get(operator)
    if count is None:
        return 0
    try:
        return count(ins, outs, attributes)
    except IndexError:  # a shape of too few dimensions
        raise UnknownShapeError from None
