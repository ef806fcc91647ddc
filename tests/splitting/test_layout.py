"""Who has what under each layout: counts that can be worked out by hand, and bad input."""

import numpy as np
import pytest
from random_networks import Maker

from forerun.errors import InputError
from forerun.splitting.graph import Graph
from forerun.splitting.layout import Layout, Placement, layout, settle
from forerun.splitting.layouts import LAYOUTS
from forerun.splitting.placing import by_rows
from forerun.splitting.regions import EMPTY, shared_out


def chain(rows: int = 16, convolutions: int = 3) -> Graph:
    """Convolutions with activations, and a vector."""
    net = Maker({"x": (1, 3, rows, 8)})
    x = "x"
    for _ in range(convolutions):
        x = net.add("Relu", net.conv(x, 8))
    return Graph.of(net.model(net.head(x, 10)))


def heights(made: Layout, tensor: str) -> list[int]:
    return [len(part.rows) for part in made.placements[tensor].regions]


def widths(made: Layout, tensor: str) -> list[int]:
    return [len(part.channels) for part in made.placements[tensor].regions]


def test_rows_are_exchanged_before_what_sees_them() -> None:
    graph = chain()
    made = layout(graph, "rows", (1, 1, 1, 1))
    assert heights(made, "t0") == [4, 4, 4, 4]
    # Two activations with a halo, the mean and the answer as sums; never what is not activated yet.
    assert made.exchanged == {"t1", "t3", "t6", "t8"}
    flow = settle(graph, made)
    assert [len(part.rows) for part in flow.needed["t1"]] == [5, 6, 6, 5]
    assert [len(part.rows) for part in flow.needed["x"]] == [5, 6, 6, 5]
    assert flow.computed["t1"] == made.placements["t1"].regions


def test_faster_devices_have_more_rows() -> None:
    assert heights(layout(chain(), "rows", (1, 2, 1)), "t0") == [4, 8, 4]


def test_fused_rows_are_computed_twice() -> None:
    graph = chain()
    made = Layout.fused(graph, (1, 1), ["t1"])
    flow = settle(graph, made)
    # Half of the rows, and one for the convolution after it.
    assert [len(part.rows) for part in flow.computed["t3"]] == [9, 9]
    assert [len(part.rows) for part in flow.needed["t1"]] == [10, 10]
    assert [len(part.rows) for part in flow.computed["t1"]] == [8, 8]
    # What a device has to do is counted by these, so that one that does more is found.
    assert [heights(made, name) for name in ("t1", "t2", "t3", "t5")] == [
        [8, 8],
        [9, 9],
        [9, 9],
        [8, 8],
    ]
    everything = settle(graph, Layout.fused(graph, (1, 1), []))
    assert [len(part.rows) for part in everything.needed["x"]] == [11, 11]


def test_fused_by_default_computes_little_more() -> None:
    graph = chain(rows=512, convolutions=4)
    rows, fused = (settle(graph, layout(graph, name, (1, 1))) for name in ("rows", "fused"))
    assert len(fused.placements) < len(rows.placements)
    assert rows.macs(graph, 0) < fused.macs(graph, 0) <= 1.05 * rows.macs(graph, 0)


def test_cuts_after_a_stride_stay_where_they_were() -> None:
    net = Maker({"x": (1, 3, 28, 8)})
    x = net.conv("x", 4)
    for _ in range(2):
        x = net.conv(x, 4, 1, strides=[2, 2])  # sees every second row alone
    graph = Graph.of(net.model(x))
    made = layout(graph, "rows", (1, 1, 1, 1))
    assert [heights(made, name) for name in graph.makers] == [[7] * 4, [4, 3, 4, 3], [2, 2, 2, 1]]
    assert not made.exchanged


def test_fewer_rows_than_devices_at_the_end() -> None:
    net = Maker({"x": (1, 3, 8, 8)})
    graph = Graph.of(net.model(net.conv(net.conv("x", 4, strides=[4, 4]), 4)))
    made = layout(graph, "rows", (1, 1, 1, 1))
    assert sorted(heights(made, "t1")) == [0, 0, 1, 1]


def test_outputs_are_gathered() -> None:
    graph = chain()
    made = layout(graph, "outputs", (1, 1, 1))
    assert widths(made, "t1") == [3, 2, 3]
    flow = settle(graph, made)
    assert [len(part.channels) for part in flow.needed["t1"]] == [8, 8, 8]
    total = sum(flow.weights(graph, device) for device in range(3))
    assert total == settle(graph, layout(graph, "whole", (1,))).weights(graph, 0)


def test_inputs_come_by_turns() -> None:
    graph = chain()
    made = layout(graph, "inputs", (1, 1))
    # The first by outputs, the second sums over what is there, the third gathers again.
    assert "t1" not in made.exchanged
    assert made.placements["t2"].is_sum
    assert not made.placements["t4"].is_sum
    flow = settle(graph, made)
    assert flow.needed["t1"] == made.placements["t1"].regions
    assert flow.macs(graph, 0) + flow.macs(graph, 1) == settle(
        graph, layout(graph, "whole", (1,))
    ).macs(graph, 0)


def grouped(channels: int = 16, groups: int = 4) -> Graph:
    net = Maker({"x": (1, 3, 8, 8)})
    x = net.add("Relu", net.conv("x", channels))
    x = net.add("Relu", net.conv(x, channels, group=groups))
    order = np.arange(channels).reshape(groups, -1).T.reshape(-1)
    x = net.add("Gather", x, net.constant(order), axis=1)
    x = net.add("Relu", net.conv(x, channels, group=groups))
    return Graph.of(net.model(net.head(x, 10)))


def test_groups_exchange_what_shuffles_mix() -> None:
    graph = grouped()
    made = layout(graph, "groups", (1, 1, 1, 1))
    assert made.exchanged == {"t3", "t9"}  # the shuffle's input, and the answer's parts
    flow = settle(graph, made)
    for device, part in enumerate(flow.needed["t3"]):
        assert len(part.channels) == 4
        assert len((part & made.placements["t3"].regions[device]).channels) == 1


def test_shares_of_groups() -> None:
    made = layout(grouped(), "groups", (1, 1, 1))
    assert widths(made, "t1") == [4, 8, 4]


def test_groups_need_a_decoupled_network() -> None:
    with pytest.raises(InputError, match="layout groups: found convolutions with no common groups"):
        layout(chain(), "groups", (1, 1))
    with pytest.raises(InputError, match="layout groups: found 5 devices, expected at most 4"):
        layout(grouped(), "groups", (1,) * 5)


def test_channels_that_the_groups_do_not_divide() -> None:
    net = Maker({"x": (1, 3, 8, 8)})
    x = net.conv(net.conv("x", 6), 8)
    graph = Graph.of(net.model(net.conv(x, 8, group=4)))
    with pytest.raises(InputError) as caught:
        layout(graph, "groups", (1, 1))
    assert str(caught.value) == (
        "layout groups: nt0 (Conv): found 6 channels, "
        "expected a multiple of 4, the number of groups"
    )


def test_a_pipeline_is_balanced() -> None:
    graph = chain(convolutions=5)
    flow = settle(graph, layout(graph, "pipeline", (1, 1)))
    loads = [flow.macs(graph, device) for device in (0, 1)]
    assert sum(loads) == settle(graph, layout(graph, "whole", (1,))).macs(graph, 0)
    assert max(loads) / sum(loads) < 0.6
    faster = settle(graph, layout(graph, "pipeline", (3, 1)))
    assert faster.macs(graph, 0) > flow.macs(graph, 0)


@pytest.mark.parametrize("name", ["rows", "fused"])
def test_more_devices_than_rows(name: str) -> None:
    with pytest.raises(InputError) as caught:
        layout(chain(rows=3), name, (1,) * 4)
    assert str(caught.value) == (
        "layout rows: nt0 (Conv): found 4 devices for 3 rows, "
        "expected at most as many devices as rows"
    )


def test_unknown_names() -> None:
    with pytest.raises(InputError, match="layout: found columns, expected one of whole, alone"):
        layout(chain(), "columns", (1, 1))
    with pytest.raises(InputError, match="boundary: found nowhere"):
        Layout.fused(chain(), (1, 1), ["nowhere"])
    others = {"rows", "fused", "outputs", "inputs", "groups", "pipeline"}
    assert set(LAYOUTS) == {"whole", "alone", *others}


def test_a_layout_that_leaves_rows_out() -> None:
    graph = chain()
    made = layout(graph, "rows", (1, 1))
    half = Placement((made.placements["t1"].regions[0], EMPTY))
    broken = Layout({**made.placements, "t1": half}, made.exchanged)
    with pytest.raises(InputError, match="layout mixed: t1: found nobody who has"):
        settle(graph, broken)


def test_sums_that_are_none() -> None:
    graph = chain()
    made = layout(graph, "rows", (1, 1))
    rows = by_rows(shared_out(16, (1, 1)), graph.tensors["t1"]).regions
    of_relu = Placement(made.placements["t1"].regions, rows)
    with pytest.raises(InputError, match=r"nt1 \(Relu\): found a partial sum"):
        settle(graph, Layout({**made.placements, "t1": of_relu}, made.exchanged))
    twice = Placement(made.placements["t6"].regions, (rows[0], rows[0]))
    with pytest.raises(InputError, match="portions that overlap or leave something out"):
        settle(graph, Layout({**made.placements, "t6": twice}, made.exchanged))


def test_alone_the_fastest_device_does_it_all() -> None:
    graph = chain()
    flow = settle(graph, layout(graph, "alone", (1, 2, 1)))
    whole = settle(graph, layout(graph, "whole", (1,)))
    assert [flow.macs(graph, device) for device in range(3)] == [0, whole.macs(graph, 0), 0]
    assert not any(flow.needed["x"][device] for device in (0, 2))
