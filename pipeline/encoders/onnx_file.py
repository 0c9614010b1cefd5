"""Reader of the weights in an ONNX file, and writer of ONNX files.

Both support only those fields of ONNX's protobuf format that the models of this package use. So lineage needs no `onnx`
package to run.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Tensors: TypeAlias = dict[str, NDArray[Any]]
# Size of each dimension, or its name if the size is dynamic.
Shape: TypeAlias = Sequence[int | str]

# Numbers of TensorProto.DataType, and the NumPy type of each.
FLOAT32: Final = 1
_DTYPES: Final[dict[int, Any]] = {FLOAT32: np.float32, 3: np.int8, 6: np.int32, 7: np.int64}
_DATA_TYPES: Final = {np.dtype(dtype): data_type for data_type, dtype in _DTYPES.items()}

# Numbers in onnx.proto of the fields that are read. The number of a field that is only written is in the code, with the
# field's name as comment.
_GRAPH: Final = 7  # of ModelProto
_INITIALIZER: Final = 5  # of GraphProto
_DIMS, _DATA_TYPE, _NAME, _RAW_DATA = 1, 2, 8, 9  # of TensorProto

# Protobuf wire types, which are the low three bits of a field's key. A _BYTES field starts with its length.
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
# Numbers of AttributeProto.AttributeType.
_FLOAT_ATTRIBUTE, _INT_ATTRIBUTE, _INTS_ATTRIBUTE = 1, 2, 7
# Version of the ONNX file format (ModelProto.ir_version).
_IR_VERSION: Final = 9


@dataclass(frozen=True, slots=True)
class Node:
    """Node of a graph: an operator with named inputs and one named output.

    `domain`: operator set; empty for the operators of ONNX, `com.microsoft` for those that only ONNX Runtime has.
    """

    operator: str
    inputs: Sequence[str]
    output: str
    attributes: Mapping[str, float | int | Sequence[int]]
    domain: str = ""


def read_constants(model: bytes) -> Tensors:
    """Return the weights (ONNX: initializers) of a serialized model, by name."""
    (graph,) = (body for number, body in _iter_fields(memoryview(model)) if number == _GRAPH)
    return dict(_parse_tensor(body) for number, body in _iter_fields(graph) if number == _INITIALIZER)


def serialize_model(
    name: str,
    nodes: Sequence[Node],
    tensors: Mapping[str, NDArray[Any]],
    *,
    inputs: Mapping[str, Shape],
    outputs: Mapping[str, Shape],
    opset: int,
) -> bytes:
    """Return a serialized model with float32 inputs and outputs.

    `name`: name of the graph. `tensors`: constants by name. `inputs`, `outputs`: shapes by name.
    `opset`: version of ONNX's operators.
    """
    graph = b"".join(
        [
            *(_encode_bytes(1, _encode_node(node)) for node in nodes),  # node
            _encode_bytes(2, name.encode()),  # name
            *(_encode_bytes(_INITIALIZER, _encode_tensor(key, value)) for key, value in tensors.items()),
            *(_encode_bytes(11, _encode_value_info(key, shape)) for key, shape in inputs.items()),  # input
            *(_encode_bytes(12, _encode_value_info(key, shape)) for key, shape in outputs.items()),  # output
        ]
    )
    # opset_import: a domain and its version. The operators of ONNX Runtime have version 1.
    versions = {"": opset} | {node.domain: 1 for node in nodes if node.domain}
    domains = b"".join(
        _encode_bytes(8, _encode_bytes(1, domain.encode()) + _encode_int(2, version))
        for domain, version in versions.items()
    )
    ir_version = _encode_int(1, _IR_VERSION)
    producer_name = _encode_bytes(2, b"history-lineage")
    return ir_version + producer_name + _encode_bytes(_GRAPH, graph) + domains


def _iter_fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each field of a message. A value is an integer or a view of bytes."""
    offset = 0
    while offset < len(message):
        key, offset = _read_varint(message, offset)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            value, offset = _read_varint(message, offset)
            yield number, value
            continue
        if wire_type == _BYTES:
            length, offset = _read_varint(message, offset)
        else:
            length = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}[wire_type]
        yield number, message[offset : offset + length]
        offset += length


def _read_varint(message: memoryview, offset: int) -> tuple[int, int]:
    """Return the integer at an offset, and the offset after it. Each byte has 7 bits of it, the lowest bits first."""
    value, shift = 0, 0
    while True:
        byte = message[offset]
        value |= (byte & 127) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 128:  # the high bit marks all bytes but the last
            return value, offset


def _parse_tensor(message: memoryview) -> tuple[str, NDArray[Any]]:
    """Return a tensor's name and values."""
    shape: list[int] = []
    fields: dict[int, Any] = {_RAW_DATA: b""}
    for number, value in _iter_fields(message):
        if number == _DIMS:
            shape += _parse_repeated(value)
        else:
            fields[number] = value
    dtype = _DTYPES[fields[_DATA_TYPE]]
    return bytes(fields[_NAME]).decode(), np.frombuffer(fields[_RAW_DATA], dtype).reshape(shape)


def _parse_repeated(value: int | memoryview) -> list[int]:
    """Return the integers of a field that may be repeated: one integer, or several packed into bytes."""
    if isinstance(value, int):
        return [value]
    numbers, offset = [], 0
    while offset < len(value):
        number, offset = _read_varint(value, offset)
        numbers.append(number)
    return numbers


def _encode_varint(value: int) -> bytes:
    """Encode an integer as `_read_varint` reads it."""
    value &= (1 << 64) - 1  # a negative number is its 64-bit two's complement
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _encode_int(field: int, value: int) -> bytes:
    """Encode an integer field. `field`: its number."""
    return _encode_varint(field << 3 | _VARINT) + _encode_varint(value)


def _encode_bytes(field: int, value: bytes) -> bytes:
    """Encode a field of bytes, a string or a message. `field`: its number."""
    return _encode_varint(field << 3 | _BYTES) + _encode_varint(len(value)) + value


def _encode_node(node: Node) -> bytes:
    output = node.output.encode()
    attributes = [_encode_attribute(name, value) for name, value in node.attributes.items()]
    return b"".join(
        [
            *(_encode_bytes(1, name.encode()) for name in node.inputs),  # input
            _encode_bytes(2, output),  # output
            _encode_bytes(3, output),  # name: the same as the output's
            _encode_bytes(4, node.operator.encode()),  # op_type
            *(_encode_bytes(5, attribute) for attribute in attributes),  # attribute
            *([_encode_bytes(7, node.domain.encode())] if node.domain else []),  # domain
        ]
    )


def _encode_attribute(name: str, value: float | int | Sequence[int]) -> bytes:
    if isinstance(value, float):
        value_field = _encode_varint(2 << 3 | _FOUR_BYTES) + struct.pack("<f", value)  # f
        attribute_type = _FLOAT_ATTRIBUTE
    elif isinstance(value, int):
        value_field = _encode_int(3, value)  # i
        attribute_type = _INT_ATTRIBUTE
    else:
        value_field = b"".join(_encode_int(8, number) for number in value)  # ints
        attribute_type = _INTS_ATTRIBUTE
    name_field = _encode_bytes(1, name.encode())
    return name_field + value_field + _encode_int(20, attribute_type)  # type


def _encode_tensor(name: str, value: NDArray[Any]) -> bytes:
    return (
        b"".join(_encode_int(_DIMS, size) for size in value.shape)
        + _encode_int(_DATA_TYPE, _DATA_TYPES[value.dtype])
        + _encode_bytes(_NAME, name.encode())
        + _encode_bytes(_RAW_DATA, np.ascontiguousarray(value).tobytes())
    )


def _encode_value_info(name: str, shape: Shape) -> bytes:
    """Encode the name and the type of an input or output: a float32 tensor of this shape."""
    shape_message = b"".join(_encode_bytes(1, _encode_dimension(size)) for size in shape)  # dim
    tensor_type = _encode_int(1, FLOAT32) + _encode_bytes(2, shape_message)  # elem_type, shape
    return _encode_bytes(1, name.encode()) + _encode_bytes(2, _encode_bytes(1, tensor_type))  # name, type


def _encode_dimension(size: int | str) -> bytes:
    if isinstance(size, str):
        return _encode_bytes(2, size.encode())  # dim_param
    return _encode_int(1, size)  # dim_value
