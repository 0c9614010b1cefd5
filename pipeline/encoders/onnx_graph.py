"""ONNX files read and written: the few of protobuf's messages that weights and a graph of dense steps need.

The `onnx` package does this too, and weighs more than everything else of the encoder together. Field numbers are
those of onnx.proto.

A transformer's steps as a graph of ONNX's own operators, written without the `onnx` package.

Where weights come from, and how a matrix product is done, is for those who derive from `Steps` to say.

The bundled encoder with its weights as 32-bit floats: what graphics and neural processors run fast.

Made from the bundled file, so that nothing is downloaded and both forms are one model. Only steps that every
provider has are in it: looking up tokens before it and making lengths 1 after it are left to numpy, so that no
step has to go back to the CPU. Each number of it is the product of numbers of the bundled file, rounded as IEEE
754 says: the file is the same to the byte wherever it is made.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.encoders.minilm_numpy import EPSILON, HEADS, HIDDEN, LAYERS

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


# The first one whose LayerNormalization is a step of its own.
OPSET: Final = 17


@dataclass(frozen=True, slots=True)
class Steps(ABC):
    """Steps and constants in the order they are added; every method gives the name of its output.

    `masked` says that texts are filled to one length, and `filled` names what tells so. A layer that is used twice
    has its weights once, and its steps under a label of their own each time.
    """

    masked: bool
    nodes: list[Node] = field(default_factory=list)
    tensors: Tensors = field(default_factory=dict)

    @abstractmethod
    def weight(self, name: str) -> NDArray[Any]:
        """A tensor of the model."""

    @abstractmethod
    def product(self, x: str, name: str, label: str) -> str:
        """x times a matrix plus its bias."""

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """A tensor that ships with the graph, once."""
        self.tensors.setdefault(name, value)
        return name

    def kept(self, name: str) -> str:
        """A tensor of the model as it is."""
        return self.constant(name, self.weight(name))

    def node(
        self, operator: str, inputs: Sequence[str], output: str, *, domain: str = "", **settings: Any
    ) -> str:
        """One step."""
        self.nodes.append(Node(operator, inputs, output, settings, domain))
        return output

    def normalised(self, x: str, name: str, label: str = "") -> str:
        """LayerNorm."""
        parts = [x, self.kept(f"{name}.weight"), self.kept(f"{name}.bias")]
        return self.node("LayerNormalization", parts, label or name, axis=-1, epsilon=EPSILON)

    def heads(self, x: str, order: Sequence[int]) -> str:
        """Each head's part of the numbers, as a matrix of its own."""
        split = self.node("Reshape", [x, "split"], f"{x}.split")
        return self.node("Transpose", [split], f"{x}.heads", perm=order)

    def attention(self, x: str, name: str, label: str) -> str:
        """Every token with what it takes from the others."""
        query, key, value = (
            self.product(x, f"{name}.{part}", f"{label}.{part}") for part in ("query", "key", "value")
        )
        keys = self.heads(key, (0, 2, 3, 1))
        scores = self.node("MatMul", [self.heads(query, (0, 2, 1, 3)), keys], f"{label}.products")
        scores = self.node("Mul", [scores, "by_size"], f"{label}.scores")
        if self.masked:
            scores = self.node("Add", [scores, "filled"], f"{label}.masked")
        odds = self.node("Softmax", [scores], f"{label}.odds", axis=-1)
        mixed = self.node("MatMul", [odds, self.heads(value, (0, 2, 1, 3))], f"{label}.mixed")
        return self.node(
            "Reshape", [self.node("Transpose", [mixed], f"{label}.back", perm=(0, 2, 1, 3)), "joined"], label
        )

    def gelu(self, x: str, name: str) -> str:
        """x times the share of a normal distribution below x."""
        error = self.node("Erf", [self.node("Mul", [x, "root_half"], f"{name}.turned")], f"{name}.erf")
        share = self.node(
            "Mul", [self.node("Add", [error, "one"], f"{name}.raised"), "half"], f"{name}.share"
        )
        return self.node("Mul", [x, share], name)

    def layer(self, x: str, name: str, label: str = "") -> str:
        """One transformer layer."""
        label = label or name
        attended = self.attention(x, f"{name}.attention.self", f"{label}.attention.self")
        output, said = f"{name}.attention.output", f"{label}.attention.output"
        attended = self.product(attended, f"{output}.dense", f"{said}.dense")
        together = self.node("Add", [attended, x], f"{said}.sum")
        x = self.normalised(together, f"{output}.LayerNorm", f"{said}.LayerNorm")
        inner = self.product(x, f"{name}.intermediate.dense", f"{label}.intermediate.dense")
        out = self.product(self.gelu(inner, f"{label}.gelu"), f"{name}.output.dense", f"{label}.output.dense")
        together = self.node("Add", [out, x], f"{label}.output.sum")
        return self.normalised(together, f"{name}.output.LayerNorm", f"{label}.output.LayerNorm")

    def shared(self) -> None:
        """The numbers that every layer uses."""
        sizes = (0, 0, HEADS, HIDDEN // HEADS), (0, 0, HIDDEN)
        for name, size in zip(("split", "joined"), sizes, strict=True):
            self.constant(name, np.array(size, np.int64))
        numbers = {"one": 1.0, "half": 0.5, "root_half": 0.5**0.5, "by_size": (HEADS / HIDDEN) ** 0.5}
        for name, number in numbers.items():
            self.constant(name, np.array(number, np.float32))


BUNDLED: Final = Path(__file__).parent / "models" / "minilm.onnx"
# Adds nothing to a token that is there, and takes one that only fills a row out of every softmax.
FILLED: Final = np.float32(-10_000)


@dataclass(frozen=True, slots=True)
class Words:
    """What the first layer reads of a token: its word's row, times its scale, and its position's."""

    table: NDArray[np.int8]
    scales: NDArray[np.float32]
    positions: NDArray[np.float32]

    @classmethod
    def bundled(cls) -> Words:
        """Those of the bundled encoder."""
        tensors = constants(BUNDLED.read_bytes())
        # Copies: the others, which are read from the same bytes, need not stay.
        return cls(*(tensors[name].copy() for name in ("words", "words_scale", "positions")))

    def placed(self, tokens: NDArray[np.int64]) -> NDArray[np.float32]:
        """Rows of token ids -> rows of rows of numbers."""
        rows = self.table[tokens].astype(np.float32) * self.scales[tokens]
        return rows + self.positions[: tokens.shape[1]]


@dataclass(frozen=True, slots=True)
class _Unquantized(Steps):
    """The bundled file's layers with their weights as floats."""

    source: Tensors = field(default_factory=dict)

    def weight(self, name: str) -> NDArray[Any]:
        return self.source[name]

    def product(self, x: str, name: str, label: str) -> str:
        """The input's division is in the matrix; query, key and value read the same input, and share it."""
        above, _, part = name.rpartition(".")
        divisor = self.source[f"{above}.{'query' if part in ('key', 'value') else part}.divisor"]
        table = self.source[f"{name}.weight"].astype(np.float32) * self.source[f"{name}.scale"]
        matrix = self.constant(f"{name}.matrix", table * divisor[:, None])
        product = self.node("MatMul", [x, matrix], f"{label}.product")
        return self.node("Add", [product, self.kept(f"{name}.bias")], label)


def made() -> bytes:
    """The whole file.

    In: `placed`, what `Words` gives; `filled`, 0 or FILLED for each token; `counted`, 1 or 0 for each token.
    Out: `sum`, the sum of what was made of the tokens that count.
    """
    graph = _Unquantized(masked=True, source=constants(BUNDLED.read_bytes()))
    graph.shared()
    x = graph.normalised("placed", "embeddings.LayerNorm")
    for layer in range(LAYERS):
        x = graph.layer(x, f"encoder.layer.{layer}")
    graph.node("MatMul", ["counted", x], "sum")
    return model(
        "all-MiniLM-L6-v2",
        graph.nodes,
        graph.tensors,
        inputs={
            "placed": ("texts", "tokens", HIDDEN),
            "filled": ("texts", 1, 1, "tokens"),
            "counted": ("texts", 1, "tokens"),
        },
        outputs={"sum": ("texts", 1, HIDDEN)},
        opset=OPSET,
    )
