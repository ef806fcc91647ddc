"""Pools whose last windows would start in the padding: such windows are left out.

So says ONNX since its operators' version 22, and so do PyTorch and onnxruntime for every version;
but the shapes that the onnx library infers for older ones count them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from forerun.errors import InputError

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto


def drop_windows_in_padding(graph: GraphProto, where: str) -> bool:
    """Write such pools without ceil_mode; whether there was any."""
    dims = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.value_info, *graph.output)
    }
    found = False
    for node in graph.node:
        before, after = dims.get(next(iter(node.input), ""), []), dims.get(node.output[0], [])
        if node.op_type in ("AveragePool", "MaxPool") and len(before) == len(after) > 2:
            found |= _rewritten(node, before[2:], after[2:], where)
    return found


def _rewritten(node: NodeProto, sizes: list[int], results: list[int], where: str) -> bool:
    from onnx import helper

    given = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    axes = range(len(sizes))
    strides = given.get("strides", [1] * len(sizes))
    pads = list(given.get("pads", [0] * 2 * len(sizes)))
    in_padding = [(results[i] - 1) * strides[i] >= sizes[i] + pads[i] for i in axes]
    if not given.get("ceil_mode") or not any(in_padding):
        return False
    dilations = given.get("dilations", [1] * len(sizes))
    for i in axes:
        extent = (given["kernel_shape"][i] - 1) * dilations[i] + 1
        last = (results[i] - 1) * strides[i] - pads[i] + extent
        beyond = last - sizes[i] - pads[i + len(sizes)]
        if not in_padding[i] and beyond > 0:
            if given.get("count_include_pad"):
                raise InputError(
                    f"{where}: node {node.name or node.output[0]} ({node.op_type})",
                    "ceil_mode with windows that start in the padding",
                    "operators of version 22",
                )
            pads[i + len(sizes)] += beyond
    kept = [one for one in node.attribute if one.name not in ("ceil_mode", "pads")]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute("pads", pads)])
    return True
