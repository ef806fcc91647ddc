"""Where a decoupled network shuffles: between its stages, between its blocks, or where it is told.

A *waist* is a tensor that all paths from the input to the output go through. What lies between two
waists is a chain's single layer or a whole block with its branches, so that a shuffle of a waist
never stands inside a block.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Protocol, TypeVar

from forerun.errors import InputError


class _Node(Protocol):
    """What is asked of a node of `torch.fx`."""

    meta: dict[str, object]

    @property
    def users(self) -> Iterable[object]: ...


Node = TypeVar("Node", bound=_Node)


def waists(nodes: Sequence[Node]) -> Iterator[Node]:
    """The nodes whose value is the only one that later nodes read, first to last."""
    places = {id(node): place for place, node in enumerate(nodes)}
    reached = 0  # the last node that reads one of those before
    for place, node in enumerate(nodes):
        if reached <= place:
            yield node
        reached = max([reached, *(places.get(id(user), len(nodes)) for user in node.users)])


def boundaries(
    nodes: Sequence[Node], mixing: Collection[Node], rows: Mapping[Node, int], *, every: bool
) -> list[Node]:
    """The waists between two stretches that mix channels; unless `every`, where the rows change.

    The tensor is taken as late as possible, that is after pooling: a shuffle moves less of it.
    """
    places = {id(node): place for place, node in enumerate(nodes)}
    found: list[Node] = []
    last: int | None = None  # rows of what the stretch before gave
    for before, after in pairwise(waists(nodes)):
        stretch = nodes[places[id(before)] + 1 : places[id(after)] + 1]
        if not any(node in mixing for node in stretch):
            continue
        if last is not None and (every or rows.get(after) != last):
            found.append(before)
        last = rows.get(after)
    return found


def ends(nodes: Sequence[Node], names: Iterable[str]) -> list[Node]:
    """The last node of each module named."""
    last: dict[str, Node] = {}
    for node in nodes:
        stack = node.meta.get("nn_module_stack")
        if isinstance(stack, dict):
            last |= {str(name): node for name, _ in stack.values()}
    for name in names:
        if name not in last:
            raise InputError("shuffles", name, f"a module of the network: {_few(last)}")
    return [last[name] for name in names]


def _few(names: Iterable[str]) -> str:
    listed = sorted(names, key=lambda name: name.count("."))
    return ", ".join(listed[:8]) + (" …" if len(listed) > 8 else "")
