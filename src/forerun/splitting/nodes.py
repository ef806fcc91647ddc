"""A node of an ONNX graph, and what is known around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from forerun.splitting.graph import Constant, Operation, Shape

if TYPE_CHECKING:
    from onnx import NodeProto

Dims = tuple[int, ...]
_FLOAT = 1  # ONNX's number of float32


@dataclass(frozen=True)
class Source:
    """A node, and what is known around it."""

    node: NodeProto
    all_dims: dict[str, Dims] = field(repr=False)
    types: Mapping[str, int] = field(repr=False)
    constants: Mapping[str, Constant] = field(repr=False)
    readers: Mapping[str, Sequence[NodeProto]] = field(repr=False)
    outputs: Sequence[str] = ()
    swallowed: set[int] = field(default_factory=set)  # ids of nodes that became part of this one

    @property
    def kind(self) -> str:
        return self.node.op_type

    @property
    def name(self) -> str:
        return self.node.name or self.node.output[0]

    def dims(self, name: str) -> Dims:
        return self.all_dims[name]

    def constant(self, place: int) -> Constant | None:
        """The input at a place, where it is a constant."""
        return self.constants.get(self.node.input[place]) if self.has(place) else None

    def has(self, place: int) -> bool:
        return place < len(self.node.input) and bool(self.node.input[place])

    def attribute(self, name: str, otherwise: Any = None) -> Any:
        from onnx import helper

        for one in self.node.attribute:
            if one.name == name:
                return helper.get_attribute_value(one)
        return otherwise

    def attributes(self) -> dict[str, Any]:
        from onnx import helper

        return {one.name: helper.get_attribute_value(one) for one in self.node.attribute}

    def is_usual(self, name: str, ranks: Sequence[int] = (2, 4)) -> bool:
        """Whether a tensor of float32 can be cut."""
        if name in self.constants or name not in self.all_dims:
            return False
        dims = self.all_dims[name]
        return len(dims) in ranks and Shape.of(dims).is_usual and self.types.get(name) == _FLOAT

    def made(
        self, kind: str, attributes: Mapping[str, Any], **constants: Constant | None
    ) -> Operation:
        """The operation that reads the node's first input."""
        return Operation(
            name=self.name,
            kind=kind,
            inputs=(self.node.input[0],),
            outputs=(self.node.output[0],),
            attributes=attributes,
            constants={name: value for name, value in constants.items() if value is not None},
        )
