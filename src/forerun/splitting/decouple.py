"""Scheme 1 of DeCNN: a network whose channels fall into groups that hardly know of each other.

Every convolution but the stem becomes a group convolution; normalisation, activation, pooling and
residual sums then stay within a group, so that a device that holds a group computes it alone. A
shuffle between stages lets groups learn from each other, and more channels make up for what is
lost. The i-th of equal intervals of a tensor's channels is group i, everywhere: what joins tensors
keeps to that order too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import torch
from torch import Tensor, fx, nn

from forerun.errors import InputError
from forerun.splitting.grouping import (
    Channels,
    Regroup,
    Shuffle,
    convolution,
    is_depthwise,
    linear,
    normalisation,
)
from forerun.splitting.networks import build
from forerun.splitting.stages import boundaries, ends
from forerun.splitting.tracing import (
    argument,
    keep_dropouts,
    note_shapes,
    operation,
    shape,
    traced,
    where,
)

STAGES, BLOCKS, NONE = "stages", "blocks", "none"

# Layers and functions that treat all channels alike, and each by itself.
_LAYERS_ALIKE = (
    *(nn.ReLU, nn.ReLU6, nn.Hardswish, nn.Hardsigmoid, nn.Hardtanh, nn.SiLU, nn.Sigmoid, nn.Tanh),
    *(nn.LeakyReLU, nn.ELU, nn.GELU, nn.Identity, nn.Dropout, nn.Dropout2d, nn.ZeroPad2d),
    *(nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d, nn.Upsample),
)
_ALIKE = {
    *("add", "iadd", "sub", "isub", "mul", "imul", "truediv", "div", "neg", "abs", "clamp"),
    *("relu", "relu6", "hardswish", "hardsigmoid", "hardtanh", "silu", "sigmoid", "tanh"),
    *("leaky_relu", "elu", "gelu", "contiguous", "clone", "interpolate", "max_pool2d"),
    *("avg_pool2d", "adaptive_avg_pool2d", "adaptive_max_pool2d", "mean", "pad"),
}
_ABOUT_SHAPES = {"size", "dim", "getattr", "getitem"}
_WITHIN_A_CHANNEL = {2, 3, -1, -2}  # the dimensions of rows and columns

Rule = Callable[[fx.Node], Channels | None]


def variant(
    network: str,
    classes: int | None = None,
    width: float = 1.0,
    groups: int = 1,
    shuffles: str | Sequence[str] = STAGES,
) -> nn.Module:
    """A standard network of any width, dense (one group) or decoupled."""
    if groups == 1:
        return build(network, classes, width)
    return decouple(build(network, classes), groups, width, shuffles)


def decouple(
    module: nn.Module,
    groups: int = 4,
    width: float = 1.75,
    shuffles: str | Sequence[str] = STAGES,
    example: Tensor | None = None,
) -> nn.Module:
    """The network in groups, shuffled and widened, as a new module to be trained.

    It shuffles between "stages" (where the rows change, or where the network itself says), between
    "blocks", after the modules named, or nowhere ("none"). Without an `example`, inputs are of the
    network's `input_shape`, or 1x3x224x224. Channels that are widened are rounded up to a multiple
    of the groups. What the network puts out keeps its shape: the last layer stays whole, as do all
    fully connected ones. Without widening, it starts with the dense weights within each group.
    """
    if groups < 2:
        raise InputError("groups", groups, "a whole number from 2")
    if not 0 < width < math.inf:
        raise InputError("width", width, "a number above 0")
    if isinstance(shuffles, str) and shuffles not in (STAGES, BLOCKS, NONE):
        raise InputError("shuffles", shuffles, "stages, blocks, none, or a list of modules")
    if example is None:
        example = torch.empty(getattr(module, "input_shape", (1, 3, 224, 224)))
    network = traced(module, example)
    keep_dropouts(network)
    note_shapes(network, example)
    work = _Decoupling(network, groups, width)
    named = getattr(module, "stage_ends", ()) if shuffles == STAGES else ()
    made = work.made(work.shuffled(shuffles, named))
    made.input_shape = tuple(example.shape)
    return made


class _Decoupling:
    """Walks through a traced network once, and replaces its layers by those of the groups."""

    def __init__(self, network: fx.GraphModule, groups: int, width: float) -> None:
        self.network, self.groups, self.width = network, groups, width
        self.nodes = list(network.graph.nodes)
        self.layers: dict[fx.Node, nn.Module] = {  # the dense ones
            node: network.get_submodule(node.target)
            for node in self.nodes
            if node.op == "call_module"
        }
        self.heads = self._heads()
        self.channels: dict[fx.Node, Channels] = {}  # of tensors in groups; others are whole
        self.latest: dict[fx.Node, fx.Node] = {}  # what has taken a node's place
        self.uses: dict[str, tuple[int, ...]] = {}  # sizes of the layers that were replaced

    def _heads(self) -> set[fx.Node]:
        """Convolutions and fully connected layers with none after them."""
        leads: dict[fx.Node, bool] = {}  # to a later one
        heads = set()
        for node in reversed(self.nodes):
            leads[node] = any(leads[user] for user in node.users)
            if isinstance(self.layers.get(node), nn.Conv2d | nn.Linear):
                heads |= set() if leads[node] else {node}
                leads[node] = True
        return heads

    def shuffled(self, shuffles: str | Sequence[str], named: Sequence[str]) -> list[fx.Node]:
        """The tensors to shuffle."""
        if named or shuffles == NONE or not isinstance(shuffles, str):
            return ends(self.nodes, named if isinstance(shuffles, str) else shuffles)
        rows = {node: shape(node)[2] for node in self.nodes if len(shape(node)) == 4}
        nodes = [node for node in self.nodes if node.op != "output"]
        return boundaries(nodes, self._mixing(), rows, every=shuffles == BLOCKS)

    def _mixing(self) -> set[fx.Node]:
        """The convolutions that will be in groups, and sum over more than one channel."""
        grouped: set[fx.Node] = set()
        mixing = set()
        for node in self.nodes:
            layer = self.layers.get(node)
            inside = any(one in grouped for one in node.all_input_nodes)
            if node in self.heads or isinstance(layer, nn.Linear):
                continue
            if inside and isinstance(layer, nn.Conv2d) and not is_depthwise(layer):
                mixing.add(node)
            if inside or isinstance(layer, nn.Conv2d):
                grouped.add(node)
        return mixing

    def made(self, shuffled: Collection[fx.Node]) -> fx.GraphModule:
        """The whole network, with a shuffle of each of these tensors."""
        for node in self.nodes:
            rule = self._rule(node)
            found = rule(node) if rule else None
            if found is not None:
                self.channels[node] = found
            if node in shuffled:
                self._shuffle(node)
        self.network.graph.eliminate_dead_code()  # sizes that a view has asked for
        self.network.graph.lint()
        made = fx.GraphModule(self.network, self.network.graph, "Decoupled")
        made.delete_all_unused_submodules()
        return made

    def _rule(self, node: fx.Node) -> Rule | None:
        """How a node is converted; None where it stays as it is."""
        layer, name = self.layers.get(node), operation(node)
        if isinstance(layer, nn.Conv2d):
            return self._convolution
        inside = any(one in self.channels for one in node.all_input_nodes)
        if not inside or node.op == "output" or (name in _ABOUT_SHAPES and not shape(node)):
            return None
        if isinstance(layer, nn.BatchNorm2d):
            return self._normalisation
        if isinstance(layer, nn.Linear):
            return self._linear
        if isinstance(layer, nn.Flatten) or name in ("flatten", "view", "reshape"):
            return self._flattened
        if name in ("cat", "concat"):
            return self._joined
        if isinstance(layer, _LAYERS_ALIKE) or name in _ALIKE:
            return self._alike
        found = name if layer is None else type(layer).__name__
        raise InputError(where(node), found, "a layer that decoupling has a rule for")

    def _convolution(self, node: fx.Node) -> Channels | None:
        dense, before = self.layers[node], self.channels.get(node.all_input_nodes[0])
        last, groups = node in self.heads, 1
        after: Channels | None = None
        if before is None:
            if last or dense.groups > 1:
                return None
            after = self._widened(node, dense.out_channels)
        elif is_depthwise(dense):
            after = before.repeated(dense.out_channels // dense.in_channels)
            groups = before.count
        elif not last:
            after = self._widened(node, dense.out_channels)
            groups = self._groups(node, dense, before, after)
        self._put(node, convolution(dense, before, after, groups))
        return after

    def _widened(self, node: fx.Node, channels: int) -> Channels:
        if self.width != 1:
            least = round(channels * self.width, 6)  # 1.1 times 30 is 33, not a little more
            return Channels(math.ceil(least / self.groups) * self.groups, None)
        if channels % self.groups:
            wanted = f"a multiple of the {self.groups} groups"
            raise InputError(where(node), f"{channels} channels", wanted)
        return Channels(channels, torch.arange(channels))

    def _groups(self, node: fx.Node, dense: nn.Conv2d, before: Channels, after: Channels) -> int:
        """Ours, or more where the network has its own groups and ours consist of them."""
        groups = dense.groups if dense.groups % self.groups == 0 else self.groups
        if groups % dense.groups or before.count % groups or after.count % groups:
            found = f"{dense.groups} groups, {before.count} to {after.count} channels"
            wanted = f"groups and channels that are multiples of {self.groups} groups"
            raise InputError(where(node), found, wanted)
        return groups

    def _normalisation(self, node: fx.Node) -> Channels | None:
        channels = self.channels[node.all_input_nodes[0]]
        self._put(node, normalisation(self.layers[node], channels))
        return channels

    def _linear(self, node: fx.Node) -> None:
        if len(shape(node)) != 2:
            raise InputError(where(node), f"values {shape(node)}", "a vector, flattened before")
        self._put(node, linear(self.layers[node], self.channels[node.all_input_nodes[0]]))

    def _put(self, node: fx.Node, layer: nn.Module) -> None:
        """Put a layer in the dense one's place; each of its uses must want the same."""
        name = str(node.target)
        sizes = tuple(weights.shape.numel() for weights in layer.parameters())
        if self.uses.setdefault(name, sizes) != sizes:
            raise InputError(where(node), "uses with different channels", "one use of a layer")
        parent, _, last = name.rpartition(".")
        setattr(self.network.get_submodule(parent), last, layer.train(self.layers[node].training))

    def _flattened(self, node: fx.Node) -> None:
        source = node.all_input_nodes[0]
        before, after = shape(source), shape(node)
        if len(after) != 2 or math.prod(before[1:]) != after[1]:
            raise InputError(where(node), f"{before} to {after}", "a vector of each sample")
        if node.op != "call_module":  # it may name sizes that are others now
            with self.network.graph.inserting_after(node):
                flat = self.network.graph.call_function(torch.flatten, (source, 1))
            flat.meta = dict(node.meta)
            node.replace_all_uses_with(flat)
            self.network.graph.erase_node(node)
            self.latest[node] = flat
        found = self.channels[source].repeated(math.prod(before[2:]))
        self.channels[self.latest.get(node, node)] = found

    def _joined(self, node: fx.Node) -> None:
        """Join, and then bring the channels of each group together."""
        parts = argument(node, 0, "tensors")
        if argument(node, 1, "dim", 0) not in (1, 1 - len(shape(node))):
            raise InputError(where(node), f"dimension {node.args[1:]}", "channels, dimension 1")
        self._check_groups(node, parts)
        known = [self.channels[part] for part in parts]
        offset, origins = 0, []
        for part, channels in zip(parts, known, strict=True):
            origins += [] if channels.origin is None else [channels.origin + offset]
            offset += shape(part)[1]
        sizes = [channels.count for channels in known]
        joined = Channels(sum(sizes), torch.cat(origins) if len(origins) == len(known) else None)
        order = Regroup(sizes, self.groups)
        self._insert(node, "regroup", order, joined.reordered(order.order))

    def _alike(self, node: fx.Node) -> Channels:
        """Operands have the same channels; what is averaged or padded are rows and columns."""
        name = operation(node)
        if name == "mean":
            dims = argument(node, 1, "dim")
            listed = {dims} if isinstance(dims, int) else set(dims or ())
            if not listed or not listed <= _WITHIN_A_CHANNEL:
                raise InputError(where(node), f"the mean over {dims}", "one of rows and columns")
        if name == "pad" and len(argument(node, 1, "pad")) > 4:
            raise InputError(where(node), "padded channels", "padded rows and columns")
        operands = [one for one in node.all_input_nodes if math.prod(shape(one)) > 1]
        self._check_groups(node, operands)
        counts = [self.channels[one].count for one in operands]
        if len(set(counts)) > 1:
            found = f"{' and '.join(map(str, counts))} channels"
            raise InputError(where(node), found, "the same channels of each")
        return self.channels[operands[0]]

    def _check_groups(self, node: fx.Node, operands: Collection[fx.Node]) -> None:
        for one in operands:
            if one not in self.channels:
                found = f"{one.name}, which no device has a group of"
                raise InputError(where(node), found, "tensors in groups alone")

    def _shuffle(self, node: fx.Node) -> None:
        node = self.latest.get(node, node)
        if node not in self.channels:
            raise InputError(f"shuffle after {where(node)}", "a whole tensor", "one in groups")
        channels = self.channels[node]
        order = torch.arange(channels.count).view(-1, self.groups).T.flatten()
        self._insert(node, "shuffle", Shuffle(self.groups), channels.reordered(order))

    def _insert(self, node: fx.Node, name: str, layer: nn.Module, channels: Channels) -> None:
        """Let all that read the node read what the layer makes of it."""
        target = f"{node.name}_{name}"
        self.network.add_submodule(target, layer)
        with self.network.graph.inserting_after(node):
            new = self.network.graph.call_module(target, (node,))
        node.replace_all_uses_with(new, delete_user_cb=lambda user: user is not new)
        new.meta = {"shape": shape(node)}
        self.latest[node], self.channels[new] = new, channels
