"""The types that a network's outputs have: devices give float32, and the host makes those of it.

Most types lose nothing on that way. What might be rounded is known when a network is cut, and said
then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from forerun.errors import InputError
from forerun.splitting.graph import Graph

FLOAT = "float32"
_NAMES = {  # NumPy's, by ONNX's numbers
    1: FLOAT,
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
}
TYPES = frozenset(_NAMES.values())
_NO_NUMBERS = {0: "an unknown type", 8: "text", 14: "complex numbers", 15: "complex numbers"}
_WIDE = frozenset(("float64", "int32", "int64", "uint32", "uint64"))  # than float32 holds
_EXACT = 2**24  # up to here float32 holds every whole number
_PLACES = frozenset(("ArgMax", "ArgMin", "TopK"))  # they say where along an axis something is
_SAME = frozenset(  # they give what their first input has, or whole parts of float32 numbers
    (
        *("Cast", "CastLike", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice"),
        *("Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
    )
)


def output_types(graph: Graph) -> dict[str, str]:
    """NumPy's names of the types that outputs have, where not float32.

    InputError names an output that is no tensor of numbers. A type that NumPy does not have
    (bfloat16 and smaller) is answered as float32, which holds all of its numbers.
    """
    for name in graph.outputs:
        found = _NO_NUMBERS.get(graph.types.get(name, 1))
        if found is not None:
            raise InputError(f"output {name}", found, "numbers: devices give float32")
    numbers = {name: graph.types[name] for name in graph.outputs if name in graph.types}
    return {name: _NAMES[number] for name, number in numbers.items() if number in _NAMES}


def losses(graph: Graph) -> Iterator[str]:
    """A line for each output whose answers may not be just those of the whole network."""
    for name in dict.fromkeys(graph.outputs):
        number = graph.types.get(name, 1)
        if number not in _NAMES:
            yield f"output {name}: {_called(number)}, a type that NumPy lacks: answered as float32"
        elif not _is_exact(graph, name):
            what = "rounded to 7 digits"
            if _NAMES[number] != "float64":
                what = f"whole numbers beyond {_EXACT} are rounded"
            yield f"output {name}: {_NAMES[number]}, but devices give float32: {what}"


def _is_exact(graph: Graph, name: str) -> bool:
    """Whether float32 holds every number that a tensor can have."""
    while _NAMES.get(graph.types.get(name, 1)) in _WIDE:
        op = graph.makers.get(name)
        if op is None or op.node is None or not op.node.input:
            return False
        kind, made, name = op.node.op_type, name, op.node.input[0]
        if name in op.constants:
            return False
        if kind in _PLACES and made != _largest_of(op.node):
            return graph.tensors[name].size <= _EXACT
        if kind not in _SAME | _PLACES:
            return False
    return True


def _largest_of(node: Any) -> str:
    """The output of a TopK that has the numbers themselves, not their places."""
    return str(node.output[0]) if node.op_type == "TopK" else ""


def _called(number: int) -> str:
    from onnx import helper

    return helper.tensor_dtype_to_string(number).removeprefix("TensorProto.").lower()
