"""Functions of a model's own, written out where they are called: what is left is plain operators.

A model may come from anybody: a few functions that each call the next one twice would make more
nodes than any memory holds, and some that call each other would never end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from forerun.errors import InputError

if TYPE_CHECKING:
    from onnx import AttributeProto, ModelProto, NodeProto

_Key = tuple[str, str, str]
_LARGEST = 2**24  # bytes of nodes that calls make, besides those of the model itself
_DEEPEST = 100  # functions within functions


def inlined(model: ModelProto, where: str) -> ModelProto:
    """The model without functions; InputError where graphs inside of nodes are left."""
    from onnx import inliner

    _refuse_graphs(model.graph.node, where)
    if model.functions:
        size = _Size(model, where).of(model.graph.node)
        if size > _LARGEST + model.ByteSize():
            raise InputError(where, f"functions of {size} bytes, written out", "fewer calls")
        model = inliner.inline_local_functions(model)
        _refuse_graphs(model.graph.node, where)
    return model


def named(where: str, node: NodeProto) -> str:
    """Where a node stands, as errors say it."""
    return f"{where}: node {node.name or next(iter(node.output), '')} ({node.op_type})"


def _refuse_graphs(nodes: Iterable[NodeProto], where: str) -> None:
    for node in nodes:
        if _has_graph(node.attribute):
            found = f"{node.op_type}, which has a graph inside"
            raise InputError(named(where, node), found, "a plain operator")


def _has_graph(attributes: Iterable[AttributeProto]) -> bool:
    return any(one.HasField("g") or one.graphs for one in attributes)


class _Size:
    """How large nodes are once all that they call is written out."""

    def __init__(self, model: ModelProto, where: str) -> None:
        self._functions = {(one.domain, one.name, one.overload): one for one in model.functions}
        self._known: dict[_Key, int] = {}
        self._where = where

    def of(self, nodes: Iterable[NodeProto], callers: tuple[_Key, ...] = ()) -> int:
        total = 0
        for node in nodes:
            key = (node.domain, node.op_type, node.overload)
            if key in self._functions and key not in self._known:
                self._known[key] = self._of_function(node, key, callers)
            total += self._known.get(key, node.ByteSize())
        return total

    def _of_function(self, node: NodeProto, key: _Key, callers: tuple[_Key, ...]) -> int:
        function = self._functions[key]
        if key in callers or len(callers) >= _DEEPEST:
            found = f"{len(callers)} functions that call each other"
            raise InputError(named(self._where, node), found, "functions that end")
        if _has_graph(function.attribute_proto):
            found = "a function with a graph inside"
            raise InputError(named(self._where, node), found, "plain operators")
        _refuse_graphs(function.node, self._where)
        return self.of(function.node, (*callers, key))
