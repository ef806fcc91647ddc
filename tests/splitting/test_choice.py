"""The best exact split: what is best follows from links, memory and speeds."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from onnx_networks import decoupled, plain

from forerun.errors import InputError
from forerun.infrastructure import Link
from forerun.splitting.choice import Alternative, Choice, _runs, choose, fused
from forerun.splitting.cost import Device, linked, predict
from forerun.splitting.graph import Graph
from forerun.splitting.layers import PlainRule, Predictor
from forerun.splitting.layout import layout
from forerun.splitting.mixtures import Mixture, described, groups_of, layout_of, mixed

BOARD = Device("board", 0.05, memory=1e9, rate=12.5e6, latency=2e-4)
FAST = Link(bandwidth=1.25e9, latency=1e-6)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return Graph.of(plain(48, 24))


@pytest.fixture(scope="module")
def rule() -> Predictor:
    return Predictor(PlainRule())


def considered(found: Choice, name: str) -> Alternative:
    return next(one for one in found.alternatives if one.name == name)


def test_nothing_that_has_a_name_is_better_than_the_choice(graph: Graph, rule: Predictor) -> None:
    found = choose(graph, [BOARD] * 3, times=rule)
    for name in ("rows", "outputs", "inputs", "pipeline"):
        plainly = predict(graph, layout(graph, name, (1.0,) * 3), [BOARD] * 3, rule)
        assert found.cost.latency <= plainly.latency
    names = [one.name for one in found.alternatives]
    assert {"alone", "chosen", "rows", "outputs", "inputs", "pipeline"} <= set(names)
    times = [one.cost.latency for one in found.alternatives if one.cost and not one.reason]
    assert times == sorted(times)
    assert found.cost.latency == times[0]


def test_rows_that_are_fused_are_not_better_either(rule: Predictor) -> None:
    """Of so small a network, late layers look best alone while all rows are exchanged."""
    graph, boards = Graph.of(plain(32, 16)), [replace(BOARD, rate=125e6, latency=1e-4)] * 2
    found = choose(graph, boards, times=rule, alone=False)
    assert found.cost.latency <= fused(graph, boards, rule).cost.latency


def test_what_is_said_of_the_choice_is_what_it_takes(graph: Graph, rule: Predictor) -> None:
    found = choose(graph, [BOARD] * 2, times=rule)
    again = predict(graph, found.layout, [BOARD] * 2, rule, early=found.early)
    assert again == found.cost


def test_a_long_way_fuses_layers(graph: Graph, rule: Predictor) -> None:
    """Where a message takes long, rows are computed twice rather than sent."""
    near = fused(graph, [BOARD] * 2, rule, FAST).layout
    far = fused(graph, [BOARD] * 2, rule, Link(bandwidth=1.25e9, latency=0.05)).layout
    assert len(far.exchanged) < len(near.exchanged)
    assert far.about["dropped"]


def test_runs_are_dropped_by_the_least_sum() -> None:
    """Against all ways to drop consecutive runs of five points."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        count = 5
        gains = {
            (a, b): float(rng.normal(0.5, 1)) for a in range(count) for b in range(a + 1, count + 1)
        }
        found = set(_runs(count, gains))
        assert worth(found, gains) == pytest.approx(
            min(
                worth(set(some), gains)
                for size in range(count + 1)
                for some in combinations(range(count), size)
            )
        )


def worth(dropped: set[int], gains: dict[tuple[int, int], float]) -> float:
    total, place = 0.0, 0
    while place < 5:
        stop = place
        while stop in dropped:
            stop += 1
        total += gains[place, stop] if stop > place else 0.0
        place = stop + 1
    return total


def test_little_memory_cuts_the_weights(rule: Predictor) -> None:
    graph = Graph.of(plain(32, 48))
    boards = [replace(BOARD, rate=1.25e9)] * 4
    free = choose(graph, boards, times=rule)
    rows = predict(graph, layout(graph, "rows", (1.0,) * 4), boards, rule)
    limit = max(rows.memory) - 0.3 * rows.weights[0]
    found = choose(graph, boards, memory=limit, times=rule)
    assert max(found.cost.memory) <= limit < max(rows.memory)
    assert found.cost.latency >= free.cost.latency
    refused = {one.name: one.reason for one in found.alternatives if one.reason}
    assert refused["rows"].startswith("memory: board needs ")


def test_no_layout_fits(graph: Graph, rule: Predictor) -> None:
    with pytest.raises(InputError, match="memory: found no layout that fits, expected at least"):
        choose(graph, [BOARD] * 2, memory=1e6, times=rule)


def test_a_faster_board_gets_more(rule: Predictor) -> None:
    graph = Graph.of(plain(96, 32))
    boards = linked([BOARD, replace(BOARD, speed=0.15)], FAST)
    found = choose(graph, boards, times=rule)
    equal = predict(graph, layout(graph, "rows", (1.0, 1.0)), boards, rule)
    assert found.cost.latency < 0.8 * equal.latency
    assert max(found.cost.busy) < 1.5 * min(found.cost.busy)
    alone = considered(found, "alone").cost
    assert alone is not None
    assert found.cost.latency < alone.latency


SLOW = Link(bandwidth=1.25e5, latency=0.1)


def test_one_device_does_it_all_where_links_are_slow(graph: Graph, rule: Predictor) -> None:
    boards = linked([BOARD, replace(BOARD, speed=0.5)], SLOW)
    found = choose(graph, boards, times=rule)
    assert (found.layout.name, found.layout.devices) == ("alone", 2)
    assert found.cost.busy[0] == 0 < found.cost.busy[1]
    whole = predict(graph, layout(graph, "whole", (1.0,)), boards[1:], rule)
    assert found.cost.latency == pytest.approx(whole.latency)
    assert found.cost == considered(found, "alone").cost


def test_who_insists_gets_the_best_of_several_devices(graph: Graph, rule: Predictor) -> None:
    boards = linked([BOARD, replace(BOARD, speed=0.5)], SLOW)
    found = choose(graph, boards, times=rule, alone=False)
    assert "alone" not in {one.name for one in found.alternatives}
    assert min(found.cost.busy) > 0
    assert found.cost.latency > choose(graph, boards, times=rule).cost.latency


def test_one_device_that_lacks_memory_does_not_do_it_all(rule: Predictor) -> None:
    graph = Graph.of(plain(32, 48))
    small = linked([replace(BOARD, memory=85e6)] * 4, SLOW)
    found = choose(graph, small, times=rule)
    assert found.layout.name != "alone"
    assert considered(found, "alone").reason.startswith("memory: board needs ")


def test_throughput_is_another_goal(graph: Graph, rule: Predictor) -> None:
    slow = Link(bandwidth=1.25e6, latency=5e-3)
    soon = choose(graph, [BOARD] * 2, slow, times=rule)
    often = choose(graph, [BOARD] * 2, slow, "throughput", times=rule)
    assert often.cost.period <= soon.cost.period
    assert often.layout.name == "pipeline"


def test_one_device_has_no_choice(graph: Graph, rule: Predictor) -> None:
    found = choose(graph, [BOARD], times=rule)
    assert found.layout.name == "whole"
    assert found.cost.sent[0] < 100


def test_what_a_plan_names_can_be_made_again(graph: Graph, rule: Predictor) -> None:
    found = choose(graph, [BOARD] * 3, times=rule, alone=False)
    again = layout_of(graph, described(found.layout))
    assert again.exchanged == found.layout.exchanged
    assert dict(again.placements) == dict(found.layout.placements)
    for name in ("alone", "rows", "fused", "outputs"):
        made = layout(graph, name, (1.0, 2.0))
        assert layout_of(graph, described(made)).exchanged == made.exchanged


def test_the_late_layers_may_be_cut_otherwise(graph: Graph, rule: Predictor) -> None:
    order = [name for op in graph.operations for name in op.outputs]
    start = order[len(order) // 2]
    for tail in ("one", "outputs", "inputs"):
        made = mixed(graph, Mixture((1.0,) * 3, start=start, tail=tail))
        found = predict(graph, made, [BOARD] * 3, rule)
        assert found.latency > 0
        if tail == "one":
            assert found.busy[0] > 1.2 * found.busy[1]
        else:
            assert max(found.weights) < 0.7 * sum(found.weights)


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"name": "chosen", "shares": "all", "dropped": []}, "layout, shares: found all"),
        ({"name": "chosen", "shares": [1, -1], "dropped": []}, "share of device 1: found -1"),
        ({"name": "chosen", "shares": [1], "dropped": 3}, "layout, dropped: found 3"),
        ({"name": "chosen", "shares": [1], "dropped": ["no"]}, "dropped: found no, expected"),
        ({"name": "chosen", "shares": [1], "dropped": [], "tail": "x"}, "tail: found x"),
        (
            {"name": "chosen", "shares": [1], "dropped": [], "start": "no", "tail": "one"},
            "start: found no, expected a tensor",
        ),
        ({"name": "slices", "shares": [1]}, "layout: found slices, expected one of"),
    ],
)
def test_a_layout_that_is_none(graph: Graph, document: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        layout_of(graph, document)


def test_groups_of_a_decoupled_network(graph: Graph) -> None:
    assert groups_of(graph) == 1
    assert groups_of(Graph.of(decoupled())) == 4
