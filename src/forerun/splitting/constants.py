"""Constants of a network: those that its file holds, and those that follow from them.

The file may come from anybody, and what computes here is plain Python. So only operators are
computed that exporters leave behind, and only once their sizes are known to be no more than a
network needs. All others run on the devices, like any operator that has no rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from forerun.errors import InputError
from forerun.splitting.graph import Constant

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto, TypeProto

Dims = tuple[int, ...]

# Arithmetic on sizes and weights; each takes a time that its numbers tell.
_COMPUTED = frozenset(
    (
        *("Abs", "Add", "And", "Cast", "CastLike", "Ceil", "Clip", "Concat", "ConstantOfShape"),
        *("Div", "Equal", "Exp", "Expand", "Flatten", "Floor", "Gather", "Greater"),
        *("GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Log", "Max", "Min", "Mod", "Mul"),
        *("Neg", "Not", "Or", "Pow", "Range", "Reciprocal", "ReduceL2", "ReduceMax", "ReduceMean"),
        *("ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "Round", "Shape", "Sign", "Size"),
        *("Slice", "Sqrt", "Squeeze", "Sub", "Sum", "Tile", "Transpose", "Unsqueeze", "Where"),
    )
)
# The attributes of a Constant, where they are stored, and as what.
_PLAIN = {
    "value_float": ("f", np.float32),
    "value_floats": ("floats", np.float32),
    "value_int": ("i", np.int64),
    "value_ints": ("ints", np.int64),
}
_MOST = 2**26  # numbers that are read and made to compute constants …
_EACH = 4  # … and so many more for each that the file holds
_FEW = 2**10  # numbers that may be sizes of something


def array(tensor: TensorProto, where: str) -> Constant:
    """The numbers of a tensor; InputError names it where they are damaged or elsewhere."""
    from onnx import TensorProto, numpy_helper

    try:
        if tensor.data_location == TensorProto.EXTERNAL:  # those beside the file are read by now
            raise ValueError("weights in another file")
        return numpy_helper.to_array(tensor)
    except Exception as error:  # whatever the library meets in broken content
        found = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(
            f"{where}: tensor {tensor.name}", found, "as many numbers as its sizes say"
        ) from None


def dims_of(kind: TypeProto) -> Dims | None:
    """The sizes of a tensor; None unless all are known."""
    tensor: Any = kind.tensor_type
    if not tensor.HasField("shape"):
        return None
    dims = tuple(dim.dim_value for dim in tensor.shape.dim)
    return dims if all(dim.HasField("dim_value") for dim in tensor.shape.dim) else None


@dataclass
class Folding:
    """All constants of a network, as they become known."""

    where: str
    version: int  # of ONNX's operators
    dims: Mapping[str, Dims]  # of tensors, where known
    known: dict[str, Constant]

    def __post_init__(self) -> None:
        self._left = _MOST + _EACH * sum(value.size for value in self.known.values())

    def fold(self, node: NodeProto) -> bool:
        """Whether what one of ONNX's own nodes makes is constant; if so, it is known now."""
        names = [name for name in node.input if name]
        found: list[Constant] = []
        if node.op_type == "Constant":
            found = self._stored(node)
        elif node.op_type == "Shape" and names and names[0] in self.dims:
            ends = {one.name: one.i for one in node.attribute}
            dims = self.dims[names[0]][ends.get("start", 0) : ends.get("end")]
            found = [np.array(dims, np.int64)]
        elif node.op_type in _COMPUTED and names and all(name in self.known for name in names):
            found = self._computed(node, {name: self.known[name] for name in names})
        self.known.update(zip(node.output, found, strict=False))
        return bool(found)

    def _stored(self, node: NodeProto) -> list[Constant]:
        for one in node.attribute:
            if one.name == "value":
                return [array(one.t, f"{self.where}: node {node.name or node.output[0]}")]
            if one.name in _PLAIN:
                field, kind = _PLAIN[one.name]
                return [np.array(getattr(one, field), kind)]
        return []

    def _computed(self, node: NodeProto, given: Mapping[str, Constant]) -> list[Constant]:
        from onnx.reference import ReferenceEvaluator

        try:
            numbers = self._made(node, given)
            if node.op_type != "Slice":  # which copies nothing
                numbers += sum(value.size for value in given.values())
            if numbers > self._left:
                return []
            self._left -= numbers
            return [np.asarray(one) for one in ReferenceEvaluator(node).run(None, dict(given))]
        except Exception:  # the reference does not know it: it stays, and runs on the devices
            return []

    def _made(self, node: NodeProto, given: Mapping[str, Constant]) -> int:
        """How many numbers a node makes; ValueError unless that is known, and they are numbers.

        What is inferred for a whole network is not trusted: it follows sizes through some
        operators only, and takes a file's word for others.
        """
        from onnx import TensorProto, defs, helper, numpy_helper, shape_inference

        kinds = {
            name: helper.make_tensor_type_proto(
                helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in given.items()
        }
        small = {
            name: numpy_helper.from_array(value, name)
            for name, value in given.items()
            if value.size <= _FEW
        }
        made = shape_inference.infer_node_outputs(
            defs.get_schema(node.op_type, self.version, ""),
            node,
            kinds,
            small,
            opset_imports=[helper.make_opsetid("", self.version)],
        )
        both = [*kinds.values(), *(made[name] for name in node.output if name)]
        if any(kind.tensor_type.elem_type == TensorProto.STRING for kind in both):
            raise ValueError("texts")
        dims = [dims_of(made[name]) for name in node.output if name]
        if None in dims:
            raise ValueError("sizes that are not known")
        return sum(prod(one) for one in dims if one is not None)
