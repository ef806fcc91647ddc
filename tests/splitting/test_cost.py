"""What splits take, where it can be counted by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from onnx_networks import decoupled, plain

from forerun.errors import InputError
from forerun.infrastructure import Infrastructure, Link
from forerun.modelling.columns import Array
from forerun.splitting.cost import Device, devices_of, linked, predict
from forerun.splitting.graph import Graph
from forerun.splitting.layers import Layer, PlainRule, Predictor, Wire
from forerun.splitting.layout import layout
from forerun.splitting.segment_layers import layers_of
from forerun.splitting.segments import programs

BOARD = Device("board", 0.1, memory=1e9, rate=12.5e6, latency=2e-4)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return Graph.of(plain(64, 32))


@pytest.fixture
def rule() -> Predictor:
    return Predictor(PlainRule())


def macs(graph: Graph) -> int:
    return sum(program.macs for program in programs(graph, layout(graph, "whole", (1.0,))))


def test_one_device_takes_its_layers_over_its_speed(graph: Graph, rule: Predictor) -> None:
    whole = layout(graph, "whole", (1.0,))
    found = predict(graph, whole, [BOARD], rule)
    segment = programs(graph, whole)[0].segments[0]
    layers = layers_of(graph, segment)
    assert sum(one.macs for one in layers if one.kind in ("conv", "gemm")) == macs(graph)
    computing = rule.segment(layers).seconds / BOARD.speed
    answer = rule.times.constants.message / BOARD.speed
    assert found.busy[0] == pytest.approx(computing + answer, rel=0.01)
    assert found.latency == pytest.approx(found.busy[0] + 2e-4, rel=0.01)
    assert found.period == pytest.approx(found.latency)
    assert found.low == pytest.approx(found.latency / 3, rel=0.05)
    assert found.high == pytest.approx(found.latency * 3, rel=0.05)


def test_activations_and_sums_are_computed_with_their_convolution(graph: Graph) -> None:
    segment = programs(graph, layout(graph, "whole", (1.0,)))[0].segments[0]
    kinds = [one.kind for one in layers_of(graph, segment)]
    assert kinds.count("conv") == 9
    assert kinds.count("elementwise") == 0
    assert (kinds.count("pool"), kinds.count("gemm")) == (1, 1)


def test_twice_the_speed_takes_half_of_the_computing(graph: Graph, rule: Predictor) -> None:
    whole = layout(graph, "whole", (1.0,))
    slow = predict(graph, whole, [BOARD], rule)
    fast = predict(graph, whole, [replace(BOARD, speed=0.2)], rule)
    assert slow.busy[0] == pytest.approx(2 * fast.busy[0])


def test_rows_share_the_work_and_send_their_edges(graph: Graph, rule: Predictor) -> None:
    rows = layout(graph, "rows", (1.0,) * 2)
    found = predict(graph, rows, [BOARD] * 2, rule)
    alone = predict(graph, layout(graph, "whole", (1.0,)), [BOARD], rule)
    assert max(found.busy) < 0.7 * alone.busy[0]
    assert found.latency < alone.latency
    made = programs(graph, rows)
    for sent, program in zip(found.sent, made, strict=True):
        pieces = [piece for message in program.sends for piece in message.pieces]
        size = 4 * sum(one.numbers * graph.tensors[one.source.tensor].columns for one in pieces)
        assert size < sent < size + 200 * (len(program.sends) + 1)  # headers, and the answer
    assert found.weights[0] == pytest.approx(alone.weights[0], rel=0.05)
    assert found.activations[0] < alone.activations[0]


@pytest.mark.parametrize(("wire", "share"), [("float32", 1.0), ("float16", 0.5), ("int8", 0.25)])
def test_fewer_bits_are_fewer_bytes(wire: Wire, share: float) -> None:
    graph, rule = Graph.of(decoupled(64)), Predictor(PlainRule())
    groups = layout(graph, "groups", (1.0,) * 4)
    full = predict(graph, groups, [BOARD] * 4, rule)
    found = predict(graph, groups, [BOARD] * 4, rule, wire=wire)
    assert sum(found.sent) == pytest.approx(share * sum(full.sent), rel=0.03)


def test_whole_numbers_compute_faster_and_take_a_quarter(graph: Graph, rule: Predictor) -> None:
    whole = layout(graph, "whole", (1.0,))
    full = predict(graph, whole, [BOARD], rule)
    found = predict(graph, whole, [BOARD], rule, precision="int8")
    assert found.weights[0] == pytest.approx(full.weights[0] / 4)
    assert found.latency < full.latency


def test_a_slower_link_takes_longer_and_a_longer_way_too(graph: Graph, rule: Predictor) -> None:
    rows = layout(graph, "rows", (1.0,) * 2)
    near = predict(graph, rows, [BOARD] * 2, rule)
    slow = linked([BOARD] * 2, Link(bandwidth=1.25e6))
    far = linked([BOARD] * 2, Link(bandwidth=12.5e6, latency=5e-3))
    assert predict(graph, rows, slow, rule).latency > near.latency
    exchanges = 8  # before each of the other convolutions
    later = predict(graph, rows, far, rule).latency - near.latency
    assert later == pytest.approx((exchanges + 1) * (5e-3 - 2e-4), rel=0.3)


def test_samples_in_flight_fill_the_time_of_waiting(graph: Graph, rule: Predictor) -> None:
    rows = layout(graph, "rows", (1.0,) * 2)
    slow = linked([BOARD] * 2, Link(bandwidth=12.5e6, latency=5e-3))
    one = predict(graph, rows, slow, rule)
    four = predict(graph, rows, slow, rule, in_flight=4)
    assert 1.3 * four.period < one.period
    assert four.latency > one.latency
    assert four.period >= max(four.busy) * 0.999
    assert max(four.memory) > max(one.memory)


def test_a_pipeline_answers_as_often_as_its_longest_part_allows(
    graph: Graph, rule: Predictor
) -> None:
    made = layout(graph, "pipeline", (1.0,) * 2)
    found = predict(graph, made, [BOARD] * 2, rule, in_flight=4)
    assert found.period == pytest.approx(max(found.busy), rel=0.05)
    assert found.latency > sum(found.busy) * 0.95


def test_a_layer_model_speaks_for_every_kind(graph: Graph) -> None:
    asked: set[tuple[str, str]] = set()

    class Noting(PlainRule):
        def each(self, layers: Sequence[Layer]) -> tuple[Array, Array]:
            asked.update((layer.kind, layer.precision) for layer in layers)
            return super().each(layers)

    predict(graph, layout(graph, "rows", (1.0,) * 2), [BOARD] * 2, Predictor(Noting()))
    assert {kind for kind, _ in asked} >= {"conv", "pool", "gemm", "reorder"}
    assert {one for _, one in asked} == {"float32"}
    predict(
        graph,
        layout(graph, "rows", (1.0,) * 2),
        [BOARD] * 2,
        Predictor(Noting()),
        precision="int8",
    )
    assert ("conv", "int8") in asked


def test_boards_of_an_infrastructure() -> None:
    found = Infrastructure.model_validate(
        {
            "name": "shelf",
            "boards": {
                "pi": {
                    "count": 2,
                    "processors": {"microarchitecture": "cortex_a72", "cores": 4},
                    "memory": "1 GiB",
                    "link": {"bandwidth": "100 Mbit/s"},
                    "speed": 0.35,
                    "power": 5,
                },
            },
        }
    )
    first, second = devices_of(found.boards)
    assert (first.name, second.name) == ("pi-0", "pi-1")
    assert (first.speed, first.rate, first.memory, first.power) == (0.35, 12.5e6, 2**30, 5)
    assert first.latency == 1e-4


def test_a_layout_for_other_devices(graph: Graph, rule: Predictor) -> None:
    with pytest.raises(InputError, match="devices: found 1, expected 2, as the layout has"):
        predict(graph, layout(graph, "rows", (1.0,) * 2), [BOARD], rule)


def test_a_layer_of_nothing_has_a_point() -> None:
    layer = Layer("pool", 0, 0, 4, 4)
    assert layer.point["macs"] == 1
    assert math.isfinite(PlainRule().each([layer])[0][0])
