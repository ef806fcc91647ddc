"""ONNX files of a few operators, written by hand: a board has no library for it, nor needs one.

An ONNX file is a protocol buffer: numbers of fields and their content, nested. Files of others are
looked through for tensors whose numbers lie elsewhere.
"""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FLOAT, UINT8, FLOAT16 = 1, 2, 10  # of onnx.TensorProto.DataType
_VERSION, _OPERATORS = 7, 13  # of the format and of its operators: what old boards can read
_INT, _INTS = 2, 7  # of onnx.AttributeProto.AttributeType

# Of each message, the fields that hold messages with tensors in them.
_MODEL, _TRAINING, _FUNCTION, _GRAPH, _NODE, _ATTRIBUTE, _SPARSE, _TENSOR = range(8)
_INSIDE: Mapping[int, Mapping[int, int]] = {
    _MODEL: {7: _GRAPH, 20: _TRAINING, 25: _FUNCTION},
    _TRAINING: {1: _GRAPH, 2: _GRAPH},
    _FUNCTION: {7: _NODE, 11: _ATTRIBUTE},
    _GRAPH: {1: _NODE, 5: _TENSOR, 15: _SPARSE},
    _NODE: {5: _ATTRIBUTE},
    _ATTRIBUTE: {5: _TENSOR, 6: _GRAPH, 10: _TENSOR, 11: _GRAPH, 22: _SPARSE, 23: _SPARSE},
    _SPARSE: {1: _TENSOR, 2: _TENSOR},
    _TENSOR: {},
}
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14  # of a tensor
_VARINT, _COUNTED = 0, 2  # how a field's content is written
_FIXED = {1: 8, 5: 4}  # the bytes of what has always as many


def network(
    nodes: Sequence[bytes],
    inputs: Mapping[str, tuple[int, int]],
    outputs: Mapping[str, tuple[int, int]],
    constants: Mapping[str, float],
) -> bytes:
    """A network: its tensors by type and number of dimensions, which may be of any size."""
    graph = b"".join(_field(1, one) for one in nodes) + _field(2, b"casting")
    graph += b"".join(_field(5, _scalar(name, value)) for name, value in constants.items())
    for number, tensors in ((11, inputs), (12, outputs)):
        graph += b"".join(_field(number, _tensor(name, *one)) for name, one in tensors.items())
    return _whole(1, _VERSION) + _field(7, graph) + _field(8, _whole(2, _OPERATORS))


def node(operator: str, inputs: str, outputs: str, **attributes: int | list[int]) -> bytes:
    """One operator: the names of its tensors, with spaces between them."""
    found = b"".join(_field(1, name.encode()) for name in inputs.split())
    found += b"".join(_field(2, name.encode()) for name in outputs.split())
    found += _field(4, operator.encode())
    for name, value in attributes.items():
        if isinstance(value, list):
            content = b"".join(_whole(8, one) for one in value) + _whole(20, _INTS)
        else:
            content = _whole(3, value) + _whole(20, _INT)
        found += _field(5, _field(1, name.encode()) + content)
    return found


def has_external_data(content: memoryview) -> bool:
    """Whether a tensor's numbers lie outside the file; ValueError where it is no ONNX file.

    What is not plainly a protocol buffer is none, lest another reader see a tensor there. Numbers
    are passed over, and nesting has no limit.
    """
    at, open_messages = 0, [(len(content), _MODEL)]
    while open_messages:
        end, kind = open_messages[-1]
        if at == end:
            open_messages.pop()
            continue
        tag, at = _number_at(content, at, end)
        field, written_as = tag >> 3, tag & 7
        if not field or tag >= 2**32:
            raise ValueError(f"no field at byte {at}")
        value, size = 1, 0
        if written_as == _VARINT:
            value, at = _number_at(content, at, end)
        elif written_as == _COUNTED:
            size, at = _number_at(content, at, end)
        elif written_as in _FIXED:
            size = _FIXED[written_as]
        else:
            raise ValueError(f"no field at byte {at}")
        if at + size > end:
            raise ValueError(f"a field beyond its end at byte {at}")
        if kind == _TENSOR and (field == _EXTERNAL_DATA or (field == _DATA_LOCATION and value)):
            return True
        inside = _INSIDE[kind].get(field) if written_as == _COUNTED else None
        if inside is None:
            at += size
        else:
            open_messages.append((at + size, inside))
    return False


def _number_at(content: memoryview, at: int, end: int) -> tuple[int, int]:
    """The number that is written at a place, seven bits a byte, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at == end:
            break
        byte = content[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError(f"no number at byte {at}")


def _tensor(name: str, kind: int, dimensions: int) -> bytes:
    shape = b"".join(_field(1, _field(2, b"d%d" % i)) for i in range(dimensions))
    described = _field(1, _whole(1, kind) + _field(2, shape))
    return _field(1, name.encode()) + _field(2, described)


def _scalar(name: str, value: float) -> bytes:
    return _whole(2, FLOAT) + _field(8, name.encode()) + _field(9, pack("<f", value))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _whole(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)
