"""A network as a graph of its layers, by `torch.fx`, with the shape of each tensor."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.passes.shape_prop import ShapeProp

from forerun.errors import InputError


def traced(module: nn.Module) -> fx.GraphModule:
    """A copy of the network as a graph of its layers."""
    try:
        return fx.symbolic_trace(copy.deepcopy(module))
    except Exception as error:  # whatever the network's own code does with what it is handed
        found = f"{type(error).__name__}: {_first_line(error)}"
        expected = "one that torch.fx traces: no branches or loops that depend on values"
        raise InputError(f"network {type(module).__name__}", found, expected) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "")


def keep_dropouts(network: fx.GraphModule) -> None:
    """Make layers of functions that drop out: traced, they would do it always or never."""
    for node in list(network.graph.nodes):
        if node.op == "call_function" and node.target is nn.functional.dropout:
            share = node.kwargs.get("p", node.args[1] if len(node.args) > 1 else 0.5)
            network.add_submodule(node.name, nn.Dropout(share))
            with network.graph.inserting_after(node):
                layer = network.graph.call_module(node.name, (node.args[0],))
            node.replace_all_uses_with(layer)
            network.graph.erase_node(node)


def note_shapes(network: fx.GraphModule, example: Tensor) -> None:
    """Note each tensor's shape with its node; on the meta device, where nothing is computed."""
    ghost = copy.deepcopy(network).to("meta").eval()
    given = torch.empty(example.shape, dtype=example.dtype, device="meta")
    try:
        ShapeProp(ghost).propagate(given)
    except Exception as error:  # of any layer
        raise InputError("example", tuple(example.shape), _first_line(error)) from error
    for node, known in zip(network.graph.nodes, ghost.graph.nodes, strict=True):
        found = known.meta.get("tensor_meta")
        node.meta["shape"] = tuple(getattr(found, "shape", ()))


def shape(node: fx.Node) -> tuple[int, ...]:
    """What the dense network has there; () where there is no tensor."""
    return node.meta.get("shape", ())


def operation(node: fx.Node) -> str:
    """The name of a function or method, whether or not it works in place."""
    if node.op == "call_function":
        return getattr(node.target, "__name__", str(node.target)).rstrip("_")
    return str(node.target).rstrip("_") if node.op == "call_method" else ""


def where(node: fx.Node) -> str:
    """A node by the layer that it is, or that it stands in."""
    if node.op == "call_module":
        return f"layer {node.target}"
    stack = [name for name, _ in node.meta.get("nn_module_stack", {}).values() if name]
    return f"{node.name} in {stack[-1]}" if stack else f"operation {node.name}"


def argument(node: fx.Node, place: int, name: str, default: Any = None) -> Any:
    """What a function was given, by place or by name."""
    return node.args[place] if len(node.args) > place else node.kwargs.get(name, default)
