"""ONNX files read and written: the few of protobuf's messages that weights and a graph of dense steps need.

The `onnx` package does this too, and weighs more than everything else of the encoder together. Field numbers are
those of onnx.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Tensors: TypeAlias = dict[str, NDArray[Any]]
Shape: TypeAlias = Sequence[int | str]

FLOAT: Final = 1
_TYPES: Final[dict[int, Any]] = {1: np.float32, 3: np.int8, 6: np.int32, 7: np.int64}
_NUMBERS: Final = {np.dtype(kind): number for number, kind in _TYPES.items()}

# Of ModelProto, GraphProto and TensorProto.
_GRAPH, _INITIALIZER = 7, 5
_DIMS, _DATA_TYPE, _NAME, _RAW = 1, 2, 8, 9

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_FLOAT_ATTRIBUTE, _INT_ATTRIBUTE, _INTS_ATTRIBUTE = 1, 2, 7


@dataclass(frozen=True, slots=True)
class Node:
    """One step of a graph; its operator is ONNX's own, or of the domain that is named."""

    operator: str
    inputs: Sequence[str]
    output: str
    settings: Mapping[str, float | int | Sequence[int]]
    domain: str = ""


def constants(model: bytes) -> Tensors:
    """The tensors that ship with a graph, by name."""
    (graph,) = (body for number, body in _fields(memoryview(model)) if number == _GRAPH)
    return dict(_tensor(body) for number, body in _fields(graph) if number == _INITIALIZER)


def model(
    name: str,
    nodes: Sequence[Node],
    tensors: Mapping[str, NDArray[Any]],
    *,
    inputs: Mapping[str, Shape],
    outputs: Mapping[str, Shape],
    opset: int,
) -> bytes:
    """A file whose inputs and outputs are 32-bit floats; a dimension is a number, or a name where it is free."""
    graph = b"".join(
        [
            *(_field(1, _node(node)) for node in nodes),
            _field(2, name.encode()),
            *(_field(_INITIALIZER, _tensor_bytes(key, value)) for key, value in tensors.items()),
            *(_field(11, _value(key, shape)) for key, shape in inputs.items()),
            *(_field(12, _value(key, shape)) for key, shape in outputs.items()),
        ]
    )
    # What other domains than ONNX's own have is asked for in its first version.
    versions = {"": opset} | {node.domain: 1 for node in nodes if node.domain}
    domains = b"".join(
        _field(8, _field(1, name.encode()) + _number(2, number)) for name, number in versions.items()
    )
    return _number(1, 9) + _field(2, b"history-lineage") + _field(_GRAPH, graph) + domains


def _fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    """Field numbers and their values: a number, or the bytes."""
    at = 0
    while at < len(message):
        key, at = _read_number(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _read_number(message, at)
            yield number, value
            continue
        if kind == _BYTES:
            length, at = _read_number(message, at)
        else:
            length = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}[kind]
        yield number, message[at : at + length]
        at += length


def _read_number(message: memoryview, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _tensor(message: memoryview) -> tuple[str, NDArray[Any]]:
    shape: list[int] = []
    found: dict[int, Any] = {_RAW: b""}
    for number, value in _fields(message):
        if number == _DIMS:
            shape += _packed(value)
        else:
            found[number] = value
    kind = _TYPES[found[_DATA_TYPE]]
    return bytes(found[_NAME]).decode(), np.frombuffer(found[_RAW], kind).reshape(shape)


def _packed(value: int | memoryview) -> list[int]:
    """Repeated numbers come one by one or all in one field."""
    if isinstance(value, int):
        return [value]
    numbers, at = [], 0
    while at < len(value):
        number, at = _read_number(value, at)
        numbers.append(number)
    return numbers


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _field(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(value)) + value


def _node(node: Node) -> bytes:
    return b"".join(
        [
            *(_field(1, name.encode()) for name in node.inputs),
            _field(2, node.output.encode()),
            _field(3, node.output.encode()),
            _field(4, node.operator.encode()),
            *(_field(5, _attribute(name, value)) for name, value in node.settings.items()),
            *([_field(7, node.domain.encode())] if node.domain else []),
        ]
    )


def _attribute(name: str, value: float | int | Sequence[int]) -> bytes:
    named = _field(1, name.encode())
    if isinstance(value, float):
        return (
            named + _varint(2 << 3 | _FOUR_BYTES) + struct.pack("<f", value) + _number(20, _FLOAT_ATTRIBUTE)
        )
    if isinstance(value, int):
        return named + _number(3, value) + _number(20, _INT_ATTRIBUTE)
    return named + b"".join(_number(8, part) for part in value) + _number(20, _INTS_ATTRIBUTE)


def _tensor_bytes(name: str, value: NDArray[Any]) -> bytes:
    dims = b"".join(_number(_DIMS, size) for size in value.shape)
    kind = _number(_DATA_TYPE, _NUMBERS[value.dtype])
    return dims + kind + _field(_NAME, name.encode()) + _field(_RAW, np.ascontiguousarray(value).tobytes())


def _value(name: str, shape: Shape) -> bytes:
    dims = b"".join(
        _field(1, _field(2, size.encode()) if isinstance(size, str) else _number(1, size)) for size in shape
    )
    tensor = _number(1, FLOAT) + _field(2, dims)
    return _field(1, name.encode()) + _field(2, _field(1, tensor))
