"""Few segments, few messages, and the bytes that the formulas say."""

import numpy as np
import onnx
import pytest
from random_networks import Maker

from forerun.errors import InputError
from forerun.splitting import early
from forerun.splitting.graph import Graph
from forerun.splitting.layout import Layout, Placement, layout
from forerun.splitting.packing import segment_model
from forerun.splitting.regions import EMPTY
from forerun.splitting.segments import Program, programs


def bottlenecks(blocks: int = 2, rows: int = 16) -> Graph:
    """Blocks that narrow, see their neighbours, widen, and add; the first one has a shortcut."""
    net = Maker({"x": (1, 8, rows, 8)})
    x = net.add("Relu", net.conv("x", 16, 1))
    for number in range(blocks):
        y = net.add("Relu", net.conv(x, 4, 1))
        y = net.add("Relu", net.conv(y, 4, 3))
        y = net.conv(y, 16, 1)
        around = net.conv(x, 16, 1) if number == 0 else x
        x = net.add("Relu", net.add("Add", y, around))
    return Graph.of(net.model(net.head(x, 10)))


def sent(graph: Graph, program: Program) -> int:
    """Bytes of float32."""
    pieces = [piece for message in program.sends for piece in message.pieces]
    return 4 * sum(one.numbers * graph.tensors[one.source.tensor].columns for one in pieces)


def test_one_device_has_one_segment_and_sends_nothing() -> None:
    graph = bottlenecks()
    for name in ("whole", "rows", "outputs", "inputs", "pipeline"):
        (program,) = programs(graph, layout(graph, name, (1,)))
        assert len(program.segments) == 1
        assert not program.sends
        assert not program.copies


def test_a_strided_shortcut_copies_nothing() -> None:
    """A kernel of 1 and a stride of 2 see all but the last of 16 rows."""
    net = Maker({"x": (1, 8, 16, 16)})
    x = net.add("Relu", net.conv("x", 8, 3))
    y = net.conv(net.add("Relu", net.conv(x, 4, 3, strides=[2, 2])), 8, 1)
    x = net.add("Relu", net.add("Add", y, net.conv(x, 8, 1, strides=[2, 2])))
    graph = Graph.of(net.model(net.head(x, 10)))
    (program,) = programs(graph, layout(graph, "whole", (1,)))
    content, _, _ = segment_model(graph, program.segments[0])
    kinds = [node.op_type for node in onnx.load_from_string(content).graph.node]
    assert kinds.count("Conv") == 4
    assert "Slice" not in kinds


def test_rows_of_bottlenecks() -> None:
    """One exchange a block: a row of 4 channels and 8 columns to each neighbour."""
    graph = bottlenecks(blocks=3)
    found = programs(graph, layout(graph, "rows", (1, 1, 1, 1)))
    assert (
        sum(program.macs for program in found)
        == programs(graph, layout(graph, "whole", (1,)))[0].macs
    )
    halo, mean = 4 * 8 * 4, 16 * 4
    assert sent(graph, found[0]) == 3 * halo + 3 * mean // 4
    assert sent(graph, found[1]) == 3 * 2 * halo + 3 * mean // 4
    # Before the first exchange, between them, the mean, the answer; and the shortcut while waiting.
    assert [len(program.segments) for program in found] == [6] * 4


def test_the_shortcut_runs_while_rows_travel() -> None:
    graph = bottlenecks(blocks=1)
    program = programs(graph, layout(graph, "rows", (1, 1)))[0]
    first, second = program.segments[:2]
    assert "Conv" in {step.task.op.kind for step in second.steps}
    assert [value.tensor for value in second.outputs] == ["t7"]
    sources = {piece.source for message in program.sends for piece in message.pieces}
    assert sources & set(first.outputs)
    assert not sources & set(second.outputs)


def test_edges_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early, "MOST", 1.0)  # of a network of one block, its weights are many
    graph = bottlenecks(blocks=1)
    made = layout(graph, "rows", (1, 1))
    for program in programs(graph, made, early=1e-9):
        (step,) = (s for s in program.segments[0].steps if s.task.op.output == "t2")
        assert len(step.task.region.rows) == 1
        later = {s.task.op.output: s for s in program.segments[1].steps}
        assert len(later["t2"].task.region.rows) == 7
    assert [p.macs for p in programs(graph, made, early=1e-9)] == [
        p.macs for p in programs(graph, made)
    ]
    # Nothing is worth more than all of it.
    assert len(programs(graph, made, early=1.0)[0].segments) == len(
        programs(graph, made)[0].segments
    )


def test_weights_that_are_stored_twice_are_few() -> None:
    graph = bottlenecks(blocks=6, rows=16)
    made = layout(graph, "rows", (1, 1, 1))
    pairs = zip(programs(graph, made, early=1e-9), programs(graph, made), strict=True)
    for divided, plain in pairs:
        assert plain.weights_bytes < divided.weights_bytes <= 1.07 * plain.weights_bytes


def test_outputs_gather_all_but_a_part() -> None:
    """(N - 1)/N of an activation, to each of N - 1 others."""
    net = Maker({"x": (1, 3, 8, 8)})
    x = net.conv(net.add("Relu", net.conv("x", 8)), 8)
    graph = Graph.of(net.model(x))
    found = programs(graph, layout(graph, "outputs", (1, 1, 1, 1)))
    assert [sent(graph, program) for program in found] == [3 * 2 * 64 * 4] * 4


def test_one_message_for_a_pair_and_exchange() -> None:
    """Two tensors that one segment makes travel together."""
    net = Maker({"x": (1, 3, 8, 8)})
    x = net.add("Relu", net.conv("x", 4))
    joined = net.add("Concat", net.conv(x, 2, 1), net.conv(x, 3, 1), axis=1)
    graph = Graph.of(net.model(net.conv(joined, 4)))
    found = programs(graph, layout(graph, "rows", (1, 1)))
    assert [len(message.pieces) for message in found[0].sends] == [2]
    assert [message.number for message in found[0].sends] == [
        message.number for message in found[1].receives
    ]


def test_what_travels_at_a_shuffle_lands_at_its_new_places() -> None:
    net = Maker({"x": (1, 3, 6, 6)})
    x = net.add("Relu", net.conv("x", 16))
    order = np.arange(16).reshape(4, 4).T.reshape(-1)
    x = net.conv(net.add("Gather", x, net.constant(order), axis=1), 16, group=4)
    graph = Graph.of(net.model(x))
    found = programs(graph, layout(graph, "groups", (1, 1, 1, 1)))
    for program in found:
        assert [len(message.pieces) for message in program.receives] == [1, 1, 1]
        assert sent(graph, program) == 3 * 36 * 4  # a channel to each other device
        targets = {piece.target_box[0].step for one in program.receives for piece in one.pieces}
        kinds = {step.task.op.kind for segment in program.segments for step in segment.steps}
        assert targets == {1}
        assert "Select" not in kinds


def test_a_pipeline_hands_over_once() -> None:
    graph = bottlenecks()
    found = programs(graph, layout(graph, "pipeline", (1, 1)))
    assert [len(program.segments) for program in found] == [1, 1]
    assert [len(program.sends) for program in found] == [1, 0]
    assert not found[1].copies  # what was received is what the segment reads


def test_peaks_of_memory() -> None:
    """A convolution's input and result; an activation takes its place."""
    net = Maker({"x": (1, 2, 8, 8)})
    graph = Graph.of(net.model(net.add("Relu", net.conv("x", 6))))
    (program,) = programs(graph, layout(graph, "whole", (1,)))
    assert program.segments[0].activations_bytes == (2 + 6) * 64 * 4


def test_a_layout_may_exchange_what_is_not_needed() -> None:
    graph = bottlenecks()
    made = layout(graph, "rows", (1, 1))
    more = Layout(made.placements, frozenset(n for n in graph.makers if n in made.placements))
    found = [sent(graph, program) for program in programs(graph, more)]
    assert found == [sent(graph, program) for program in programs(graph, made)]


def test_an_answer_that_nobody_has_all_of() -> None:
    net = Maker({"x": (1, 3, 8, 8)})
    graph = Graph.of(net.model(net.conv("x", 4)))
    made = layout(graph, "rows", (1, 1))
    half = Placement((made.placements["t0"].regions[0], EMPTY))
    with pytest.raises(InputError, match=r"layout: t0: found nobody who has .*4:8"):
        programs(graph, Layout({"t0": half}, frozenset()))
