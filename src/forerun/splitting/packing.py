"""What one device gets: its segments as ONNX files, and what it does with them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forerun.splitting.emitting import Builder
from forerun.splitting.graph import Graph
from forerun.splitting.memory import program_peak
from forerun.splitting.regions import Box, Region, as_json
from forerun.splitting.segments import Program, Segment
from forerun.splitting.steps import Value

_NEWEST_FORMAT = 10  # of ONNX files, that onnxruntime 1.20 reads
_FLOAT = 1  # ONNX's number of float32


def write_package(graph: Graph, program: Program, place: Path) -> dict[str, Any]:
    """Write a device's segments; the description that is to stand beside them."""
    folder = place / f"device-{program.device}"
    folder.mkdir()
    segments = [
        _write_segment(graph, program, segment, folder / f"segment-{number:03d}.onnx")
        for number, segment in enumerate(program.segments)
    ]
    return _package(graph, program, segments)


def _package(graph: Graph, program: Program, segments: Sequence[dict[str, Any]]) -> dict[str, Any]:
    names = program.buffers

    def part(value: Value, box: Box) -> dict[str, Any]:
        return {"buffer": names[value], "box": as_json(box)}

    made: dict[str, Any] = {
        "device": program.device,
        "macs": program.macs,
        "weights_bytes": program.weights_bytes,
        "activations_bytes": program_peak(graph, program),
        "buffers": {name: _dims(graph, value) for value, name in names.items()},
        "segments": list(segments),
        "copies": [
            {
                "from": names[piece.source],
                "from_box": as_json(piece.source_box),
                "to": names[piece.target],
                "to_box": as_json(piece.target_box),
                "add": add,
            }
            for piece, add in program.copies
        ],
        "sends": [
            {
                "message": message.number,
                "to": message.target,
                "parts": [part(piece.source, piece.source_box) for piece in message.pieces],
            }
            for message in program.sends
        ],
        "receives": [
            {
                "message": message.number,
                "from": message.source,
                "parts": [
                    {**part(piece.target, piece.target_box), "add": _adds(piece.target)}
                    for piece in message.pieces
                ],
            }
            for message in program.receives
        ],
        "inputs": [
            {
                "name": value.tensor,
                "buffer": names[value],
                "box_of_network_input": as_json(_box_of(value)),
            }
            for value in program.inputs
        ],
        "outputs": [
            {
                "name": answer.value.tensor,
                "buffer": names[answer.value],
                "box_of_network_output": as_json(answer.box),
                "add": answer.adds,
            }
            for answer in program.outputs
        ],
    }
    if program.probes:
        made["probes"] = [
            {
                "tensor": value.tensor,
                "buffer": names[value],
                "channels": value.region.channels.array.tolist(),
                "rows": value.region.rows.array.tolist(),
            }
            for value in program.probes
        ]
    return made


def _adds(value: Value) -> bool:
    return value.gather is not None and value.gather.adds


def _box_of(value: Value) -> Box:
    """A region without gaps, in its tensor's coordinates."""
    channels, rows = value.region.channels, value.region.rows
    return range(channels.start, channels.stop), range(rows.start, rows.stop)


def _write_segment(graph: Graph, program: Program, segment: Segment, path: Path) -> dict[str, Any]:
    content, inputs, outputs = segment_model(graph, segment)
    path.write_bytes(content)
    names = program.buffers
    return {
        "file": path.name,
        "sha256": hashlib.sha256(content).hexdigest(),
        "inputs": {name: names[value] for name, value in inputs.items()},
        "outputs": {name: names[value] for name, value in outputs.items()},
        "macs": segment.macs,
        "weights_bytes": segment.weights_bytes,
        "activations_bytes": segment.activations_bytes,
    }


def segment_model(
    graph: Graph, segment: Segment
) -> tuple[bytes, dict[str, Value], dict[str, Value]]:
    """The ONNX file of a segment, and what its inputs and outputs are called in it."""
    builder = Builder(graph)
    inputs = {f"i{number}": value for number, value in enumerate(segment.inputs)}
    held: dict[Value, str] = {}
    for name, value in inputs.items():
        kind = graph.types.get(value.tensor, _FLOAT)
        held[value] = builder.inside(name, graph.tensors[value.tensor], kind)
    narrowed: dict[tuple[str, Region], str] = {}
    for step in segment.steps:
        names = [
            _narrowed(builder, held, narrowed, value, need)
            for value, need in zip(step.inputs, step.needs, strict=True)
        ]
        held.update(zip(step.outputs, builder.task(step.task, names), strict=True))
    outputs: dict[str, Value] = {}
    for value in segment.outputs:
        kind = graph.types.get(value.tensor, _FLOAT)
        name = builder.outside(held[value], graph.tensors[value.tensor], kind)
        if name in inputs or name in outputs:
            name = builder.node("Identity", [name])
        outputs[name] = value
    return _serialised(graph, builder, inputs, outputs), inputs, outputs


def _narrowed(
    builder: Builder,
    held: Mapping[Value, str],
    known: dict[tuple[str, Region], str],
    value: Value | None,
    need: Region,
) -> str:
    """What a step needs of a value, cut out once; no name where it needs nothing."""
    if value is None:
        return ""
    key = (held[value], need)
    if key not in known:
        known[key] = builder.narrowed(held[value], value.region, need)
    return known[key]


def _serialised(
    graph: Graph, builder: Builder, inputs: Mapping[str, Value], outputs: Mapping[str, Value]
) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    def infos(values: Mapping[str, Value]) -> list[Any]:
        return [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, _dims(graph, value))
            for name, value in values.items()
        ]

    stored = [numpy_helper.from_array(value, name) for name, value in builder.constants.items()]
    made = helper.make_graph(builder.nodes, "segment", infos(inputs), infos(outputs), stored)
    opsets = [
        helper.make_opsetid(domain, version) for domain, version in sorted(graph.opsets.items())
    ]
    model = helper.make_model(
        made, opset_imports=opsets, ir_version=_NEWEST_FORMAT, producer_name="forerun"
    )
    return bytes(model.SerializeToString(deterministic=True))


def _dims(graph: Graph, value: Value) -> list[int]:
    return graph.tensors[value.tensor].of_region(value.region)
