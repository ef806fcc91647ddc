"""A network as a graph of its layers, by `torch.fx`, with the shape of each tensor.

Where the network's code asks for a size, to choose, to count or to loop by, it is told that of an
example. What it does then has to be right for every batch: it is asked with two, and refused where
they differ.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.passes.shape_prop import ShapeProp

from forerun.errors import InputError


def traced(module: nn.Module, example: Tensor) -> fx.GraphModule:
    """A copy of the network as a graph of its layers, for inputs of the example's sizes."""
    tracer = _Tracer()
    tracer.example = example
    try:
        graph = tracer.trace(copy.deepcopy(module))
    except InputError:
        raise
    except Exception as error:  # whatever the network's own code does with what it is handed
        found = f"{type(error).__name__}: {_first_line(error)}"
        expected = "one that torch.fx traces: no branches or loops that depend on values"
        raise InputError(f"network {type(module).__name__}", found, expected) from error
    made = fx.GraphModule(tracer.root, graph, type(module).__name__)
    made.graph.eliminate_dead_code()  # sizes that were only asked for
    made.recompile()
    return made


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "")


class _Proxy(fx.Proxy):
    """A tensor or a size in a graph; a size is also a number where Python needs one."""

    @property
    def shape(self) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", getattr, (self, "shape"), {})

    @property
    def ndim(self) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", getattr, (self, "ndim"), {})

    def __len__(self) -> int:
        return int(self.tracer.told(self, len))

    def __index__(self) -> int:
        return int(self.tracer.told(self, operator.index))

    def __int__(self) -> int:
        return int(self.tracer.told(self, int))

    def __float__(self) -> float:
        return float(self.tracer.told(self, float))


class _Tracer(fx.Tracer):
    """Traces a network, and knows the sizes of tensors while it does."""

    example: Tensor  # none where a graph is unpickled: it asks for nothing any more

    def __init__(self) -> None:
        super().__init__()
        self._runs: list[_Run] = []

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Proxy(node, self)

    def to_bool(self, proxy: fx.Proxy) -> bool:
        return bool(self.told(proxy, bool))

    def iter(self, proxy: fx.Proxy) -> Iterator[fx.Proxy]:
        return iter([proxy[place] for place in range(self.told(proxy, len))])

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> Any:
        """What is not the network's is no layer of it: that of a run, or made on the way."""
        if m not in self.submodule_paths:
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def told(self, proxy: fx.Proxy, ask: Callable[[Any], Any]) -> Any:
        """What Python makes of a size; InputError where that depends on numbers or on the batch."""
        if not self._runs:
            batch, *sizes = self.example.shape
            ghost = copy.deepcopy(self.root).to("meta").eval()
            self._runs = [_Run(self, ghost, (one, *sizes)) for one in (batch, batch + 1)]
        values = [run.value(proxy.node) for run in self._runs]
        try:
            answers = {ask(value) for value in values}
        except Exception as error:  # of a tensor without numbers
            found, expected = "a choice by the numbers of a tensor", "one by sizes"
            raise InputError(where(proxy.node), found, expected) from error
        if len(answers) > 1:
            found = "a choice by the size of the batch"
            raise InputError(where(proxy.node), found, "the same for every batch")
        return answers.pop()


class _Run(fx.Interpreter):
    """What was traced so far, on the meta device, where tensors have sizes but no numbers."""

    def __init__(self, tracer: _Tracer, ghost: nn.Module, shape: tuple[int, ...]) -> None:
        super().__init__(ghost, garbage_collect_values=False, graph=tracer.graph)
        self._root, self._example = tracer.root, tracer.example
        self.args_iter = iter([torch.empty(shape, dtype=tracer.example.dtype, device="meta")])

    def value(self, node: fx.Node) -> Any:
        """What a node gives, once all before it have been run."""
        try:
            with torch.device("meta"):  # for tensors that the network makes itself
                for one in self.graph.nodes:
                    if one not in self.env:
                        self.env[one] = self.run_node(one)
        except Exception as error:  # of any layer
            raise _misfit(self._example, error) from error
        return self.env[node]

    def get_attr(self, target: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """Tensors that are no parameters are not moved with them; the tracer may have kept some."""
        kept = vars(self._root).get(target)
        return (super().get_attr(target, args, kwargs) if kept is None else kept).to("meta")


def _misfit(example: Tensor, error: Exception) -> InputError:
    return InputError("example", tuple(example.shape), _first_line(error))


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
        with torch.device("meta"):
            ShapeProp(ghost).propagate(given)
    except Exception as error:  # of any layer
        raise _misfit(example, error) from error
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
