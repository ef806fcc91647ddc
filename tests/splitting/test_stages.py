"""Where a decoupled network shuffles, on graphs that are drawn by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from forerun.errors import InputError
from forerun.splitting.stages import boundaries, ends, waists


@dataclass(eq=False)
class Node:
    name: str
    users: list[Node] = field(default_factory=list)
    meta: dict[str, object] = field(default_factory=dict)


def graph(*edges: str) -> list[Node]:
    """Nodes in the order of their first letters: "ab" lets b read a."""
    nodes = {name: Node(name) for name in sorted({letter for edge in edges for letter in edge})}
    for edge in edges:
        nodes[edge[0]].users.append(nodes[edge[1]])
    return list(nodes.values())


def names(nodes: list[Node]) -> str:
    return "".join(node.name for node in nodes)


def test_waists_are_where_all_paths_meet() -> None:
    #   a - b - c - e - f, and around c: b - d - e
    nodes = graph("ab", "bc", "bd", "ce", "de", "ef")
    assert names(list(waists(nodes))) == "abef"


def test_a_chain_is_all_waists() -> None:
    assert names(list(waists(graph("ab", "bc", "cd")))) == "abcd"


def found(nodes: list[Node], mixing: str, rows: dict[str, int], every: bool = False) -> str:
    return names(
        boundaries(
            nodes,
            [node for node in nodes if node.name in mixing],
            {node: rows[node.name] for node in nodes},
            every=every,
        )
    )


def test_a_boundary_lies_after_pooling() -> None:
    # The stem a, then b and c mix, d pools, e mixes.
    nodes = graph("ab", "bc", "cd", "de")
    rows = dict(zip("abcde", (8, 8, 8, 4, 4), strict=True))
    assert found(nodes, "bce", rows) == "d"
    assert found(nodes, "bce", rows, every=True) == "bd"


def test_a_boundary_lies_before_a_block_that_strides_inside() -> None:
    # The stem a, then b mixes; c and d, which strides, are a block, and e is around them.
    nodes = graph("ab", "bc", "be", "cd", "df", "ef")
    rows = dict(zip("abcdef", (8, 8, 8, 4, 4, 4), strict=True))
    assert found(nodes, "bcde", rows) == "b"


def test_nothing_is_shuffled_before_the_first_layer_in_groups_or_after_the_last() -> None:
    nodes = graph("ab", "bc", "cd")
    rows = dict(zip("abcd", (8, 4, 2, 1), strict=True))
    assert found(nodes, "b", rows, every=True) == ""


def test_a_module_ends_with_its_last_node() -> None:
    nodes = graph("ab", "bc", "cd")
    for node, stack in zip(nodes, ([], ["one"], ["one", "one.inner"], ["two"]), strict=True):
        node.meta["nn_module_stack"] = {name: (name, object) for name in stack}
    assert names(ends(nodes, ["one", "two"])) == "cd"
    with pytest.raises(InputError, match="shuffles: found three, expected a module of the netw"):
        ends(nodes, ["three"])
