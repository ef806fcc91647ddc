"""What operators need, beside what really changes their results."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import ModelProto
from random_networks import Maker, networks, sample

from forerun.splitting.check import probed
from forerun.splitting.graph import Graph, Operation
from forerun.splitting.regions import EMPTY, Indices, Region
from forerun.splitting.rules import macs, needs, summed, uncut, weights, widened
from forerun.splitting.simulate import session


def only(net: Maker, output: str) -> tuple[Graph, Operation]:
    graph = Graph.of(net.model(output))
    return graph, graph.makers[output]


def rows(start: int, stop: int, channels: int) -> Region:
    return Region(Indices.span(0, channels), Indices.span(start, stop))


def test_rows_under_a_strided_kernel() -> None:
    """h_in = (h_out - 1)·s + k, less what is padding."""
    net = Maker({"x": (1, 3, 16, 16)})
    graph, op = only(net, net.conv("x", 4, 7, strides=[2, 2]))
    assert needs(graph, op, rows(0, 4, 4)) == [rows(0, 10, 3)]
    assert needs(graph, op, rows(4, 6, 4)) == [rows(5, 14, 3)]
    assert needs(graph, op, rows(4, 8, 4)) == [rows(5, 16, 3)]


def test_a_result_that_sees_only_padding_is_computed_with_one_that_sees_more() -> None:
    net = Maker({"x": (1, 1, 4, 4)})
    graph, op = only(net, net.conv("x", 1, 1, pads=[2, 0, 2, 0]))
    assert needs(graph, op, rows(0, 1, 1)) == [rows(0, 1, 1)]
    assert needs(graph, op, rows(7, 8, 1)) == [rows(3, 4, 1)]


def test_rows_that_the_last_stride_steps_over_need_not_be_cut_off() -> None:
    net = Maker({"x": (1, 3, 16, 16)})
    graph, op = only(net, net.conv("x", 4, 1, strides=[3, 3]))
    (need,) = needs(graph, op, rows(0, 4, 4))
    assert need == rows(0, 10, 3)
    held = [rows(0, 11, 5), rows(0, 12, 5), rows(0, 13, 5), rows(0, 10, 5)]
    assert [uncut(graph, op, need, one) for one in held] == [
        rows(0, 11, 3),
        rows(0, 12, 3),
        need,  # of which there would be a fifth result
        need,
    ]
    gap = Region(Indices.span(0, 3), Indices.of([*range(10), 11]))
    assert uncut(graph, op, need, gap) == need
    graph, op = only(net, net.add("Relu", "x"))
    assert uncut(graph, op, rows(0, 10, 3), rows(0, 11, 3)) == rows(0, 10, 3)


def test_channels_of_groups() -> None:
    net = Maker({"x": (1, 8, 5, 5)})
    graph, op = only(net, net.conv("x", 12, 1, group=4))
    wanted = Region(Indices.of([2, 3]), Indices.span(1, 2))  # of the first and the second group
    assert needs(graph, op, wanted) == [Region(Indices.span(0, 4), Indices.span(1, 2))]


def test_costs_of_a_convolution() -> None:
    net = Maker({"x": (1, 8, 6, 5)})
    graph, op = only(net, net.conv("x", 12, 3))
    part = Region(Indices.span(0, 3), Indices.span(0, 2))
    portion = Region(Indices.span(0, 4), Indices.span(0, 6))
    assert macs(graph, op, part) == 3 * 2 * 5 * 8 * 9
    assert macs(graph, op, part, portion) == 3 * 2 * 5 * 4 * 9
    assert weights(graph, op, part) == 3 * 8 * 9 + 3
    assert weights(graph, op, part, portion) == 3 * 4 * 9 + 3
    assert summed(op) == "channels"


def test_what_has_no_rule_costs_all_of_it_wherever_it_is_computed() -> None:
    net = Maker({"x": (1, 8, 7, 7)})
    graph, op = only(net, net.add("ConvTranspose", "x", net.weight(8, 4, 2, 2), strides=[2, 2]))
    assert graph.tensors[op.output].dims == (1, 4, 14, 14)
    assert macs(graph, op, graph.tensors[op.output].whole) == 7 * 7 * 8 * 4 * 2 * 2
    assert macs(graph, op, EMPTY) == 0


def test_what_has_no_rule_needs_all_and_makes_all() -> None:
    net = Maker({"x": (1, 2, 4, 4)})
    graph, op = only(net, net.add("InstanceNormalization", "x", net.weight(2), net.weight(2)))
    assert needs(graph, op, rows(1, 2, 2)) == [graph.tensors["x"].whole]
    assert widened(graph, op.output, rows(1, 2, 2)) == graph.tensors["x"].whole
    assert summed(op) is None


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(networks(most=3), st.data())
def test_nothing_else_of_the_input_changes_a_region(model: ModelProto, data: st.DataObject) -> None:
    """Follow a region of a result back to the input, and change all the rest."""
    graph = Graph.of(model)
    wanted = graph.outputs[0]
    channel = data.draw(st.integers(0, graph.tensors[wanted].channels - 1))
    row = data.draw(st.integers(0, graph.tensors[wanted].rows - 1))
    needed = {wanted: Region(Indices.of([channel]), Indices.of([row]))}
    for op in reversed(graph.operations):
        for name in op.outputs:
            if name in needed:
                region = widened(graph, name, needed[name])
                for before, need in zip(op.inputs, needs(graph, op, region), strict=True):
                    needed[before] = need | needed[before] if before in needed else need
    region = needed["x"]
    first, second = sample(model)["x"], sample(model, seed=1)["x"]
    kept = (0, region.channels.array[:, None], region.rows.array)
    second[kept] = first[kept]
    run = session(model.SerializeToString())
    a, b = (run.run([wanted], {"x": x})[0] for x in (first, second))
    place = (0, channel, row) if a.ndim == 4 else (0, channel)
    np.testing.assert_allclose(a[place], b[place], rtol=1e-4, atol=1e-5)
    assert wanted in probed(graph)
