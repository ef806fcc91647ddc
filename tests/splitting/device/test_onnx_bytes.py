from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from forerun.splitting.device.casting import _networks
from forerun.splitting.device.onnx_bytes import FLOAT, has_external_data, network, node


def test_a_network_is_what_the_onnx_library_reads() -> None:
    made = network(
        [node("Mul", "x two", "d"), node("ReduceMax", "d", "y", axes=[1], keepdims=0)],
        {"x": (FLOAT, 2)},
        {"y": (FLOAT, 1)},
        {"two": 2.0},
    )
    model = onnx.load_model_from_string(made)
    onnx.checker.check_model(model, full_check=True)
    (found,) = ReferenceEvaluator(model).run(None, {"x": np.eye(3, 200, dtype=np.float32)})
    assert np.asarray(found).tolist() == [2, 2, 2]


@pytest.mark.parametrize("name", _networks())
def test_the_networks_that_cast_are_valid(name: str) -> None:
    onnx.checker.check_model(onnx.load_model_from_string(_networks()[name]), full_check=True)


def is_outside(content: bytes) -> bool:
    return has_external_data(memoryview(content))


def elsewhere() -> TensorProto:
    """A tensor whose numbers are in /etc/passwd."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")
    return tensor


def model(graph: GraphProto) -> ModelProto:
    return helper.make_model(graph)


def graph(*nodes: NodeProto, **stored: Any) -> GraphProto:
    return helper.make_graph(list(nodes), "g", [], [], **stored)


def sparse(values: TensorProto, indices: TensorProto) -> onnx.SparseTensorProto:
    return onnx.SparseTensorProto(values=values, indices=indices, dims=[2])


def in_function(tensor: TensorProto) -> ModelProto:
    made = model(graph())
    constant = helper.make_node("Constant", [], ["y"], value=tensor)
    opsets = [helper.make_opsetid("", 17)]
    made.functions.append(helper.make_function("d", "f", [], ["y"], [constant], opsets))
    return made


def in_default(tensor: TensorProto) -> ModelProto:
    made = in_function(TensorProto())
    made.functions[0].attribute_proto.append(
        AttributeProto(name="a", t=tensor, type=AttributeProto.TENSOR)
    )
    return made


def in_training(tensor: TensorProto) -> ModelProto:
    made = model(graph())
    made.training_info.add(algorithm=graph(initializer=[tensor]))
    return made


WAYS: dict[str, Callable[[TensorProto], ModelProto]] = {
    "initializer": lambda t: model(graph(initializer=[TensorProto(), t])),
    "attribute": lambda t: model(graph(helper.make_node("Constant", [], ["y"], value=t))),
    "attributes": lambda t: model(graph(helper.make_node("X", [], ["y"], a=[TensorProto(), t]))),
    "branch": lambda t: model(
        graph(helper.make_node("If", ["c"], ["y"], then_branch=graph(initializer=[t])))
    ),
    "branches": lambda t: model(
        graph(helper.make_node("X", [], ["y"], a=[graph(), graph(initializer=[t])]))
    ),
    "sparse": lambda t: model(graph(sparse_initializer=[sparse(t, TensorProto())])),
    "indices": lambda t: model(graph(sparse_initializer=[sparse(TensorProto(), t)])),
    "sparse attribute": lambda t: model(
        graph(helper.make_node("Constant", [], ["y"], sparse_value=sparse(t, TensorProto())))
    ),
    "sparse attributes": lambda t: model(
        graph(helper.make_node("X", [], ["y"], a=[sparse(t, TensorProto())]))
    ),
    "function": in_function,
    "default of a function": in_default,
    "training": in_training,
}


@pytest.mark.parametrize("way", WAYS)
def test_external_data_is_found_wherever_a_tensor_can_be(way: str) -> None:
    inline = onnx.numpy_helper.from_array(np.full(1000, 13 << 3 | 2, np.uint8), "w")
    assert not is_outside(WAYS[way](inline).SerializeToString())
    assert is_outside(WAYS[way](elsewhere()).SerializeToString())
    for one in (TensorProto(data_location=TensorProto.EXTERNAL), TensorProto()):
        if not one.data_location:
            one.external_data.add(key="location", value="x")
        assert is_outside(WAYS[way](one).SerializeToString())


def test_graphs_may_be_nested_deeper_than_python_recurses() -> None:
    content = field(5, elsewhere().SerializeToString())
    for _ in range(3000):  # a graph in an attribute of a node of a graph
        content = field(1, field(5, field(6, content)))
    assert is_outside(field(7, content))


def field(number: int, content: bytes) -> bytes:
    size, found = len(content), bytearray([number << 3 | 2])
    while size > 127:
        found.append(size & 127 | 128)
        size >>= 7
    return bytes([*found, size]) + content


@pytest.mark.parametrize(
    "content",
    [
        b"\x3a",  # a field without a length
        b"\x3a\x05abc",  # shorter than it says
        b"\x3a\x80",  # a number without an end
        b"\xba\x80\x80\x80\x10\x00",  # the number of a field in 33 bits: others drop one
        b"\x02\x00",  # field 0
        b"\x0b\x0c",  # a group, which ONNX has none of
        b"\xff" * 20,
        b"GIF89a",
    ],
)
def test_what_is_no_protocol_buffer_is_told(content: bytes) -> None:
    with pytest.raises(ValueError, match="at byte"):
        is_outside(content)


@pytest.mark.parametrize("name", _networks())
def test_networks_of_our_own_have_all_their_numbers(name: str) -> None:
    assert not is_outside(_networks()[name])


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([*WAYS]), st.data())
def test_nothing_is_missed_that_the_onnx_library_sees(way: str, data: st.DataObject) -> None:
    content = bytearray(WAYS[way](elsewhere()).SerializeToString())
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        read = onnx.load_model_from_string(bytes(content))
    except Exception:
        return
    try:
        found = is_outside(bytes(content))
    except ValueError:
        return
    tensors = onnx.external_data_helper._get_all_tensors(read)
    assert found or not any(one.data_location or one.external_data for one in tensors)
