"""ONNX models without the `onnx` package, which is larger than all other parts of the encoder.

- `read_constants`, `serialize_model`: minimal protobuf reader and writer; field numbers are those of onnx.proto.
- `TransformerGraph`: builder of transformer layers. Subclasses supply the weights and the matrix product.
- `build_fp32_model`: the bundled encoder with FP32 weights, for GPUs and NPUs. It is derived from the bundled int8
  file, so nothing is downloaded. Token lookup and normalization stay in NumPy, so that every node runs on every
  provider. Each weight is an IEEE 754 product of numbers in the bundled file: the result is the same to the byte on
  every machine, node names included, and its digest is checked.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.encoders.base import MODELS_DIR
from pipeline.encoders.minilm_numpy import EPSILON, HEAD_COUNT, HIDDEN_SIZE, LAYER_COUNT

Tensors: TypeAlias = dict[str, NDArray[Any]]
Shape: TypeAlias = Sequence[int | str]

FLOAT: Final = 1
_DTYPES: Final[dict[int, Any]] = {1: np.float32, 3: np.int8, 6: np.int32, 7: np.int64}
_TYPE_NUMBERS: Final = {np.dtype(kind): number for number, kind in _DTYPES.items()}

# Field numbers of ModelProto, GraphProto and TensorProto.
_GRAPH, _INITIALIZER = 7, 5
_DIMS, _DATA_TYPE, _NAME, _RAW = 1, 2, 8, 9

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_FLOAT_ATTRIBUTE, _INT_ATTRIBUTE, _INTS_ATTRIBUTE = 1, 2, 7


@dataclass(frozen=True, slots=True)
class Node:
    """Node of a graph. Its operator is ONNX's own, or that of another domain."""

    operator: str
    inputs: Sequence[str]
    output: str
    attributes: Mapping[str, float | int | Sequence[int]]
    domain: str = ""


def read_constants(model: bytes) -> Tensors:
    """Read a serialized model's initializers (weights), by name."""
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
    """Return a serialized model with float32 inputs and outputs. A dimension is a number, or a name if it is free."""
    graph = b"".join(
        [
            *(_encode_bytes(1, _encode_node(node)) for node in nodes),
            _encode_bytes(2, name.encode()),
            *(_encode_bytes(_INITIALIZER, _encode_tensor(key, value)) for key, value in tensors.items()),
            *(_encode_bytes(11, _encode_value_info(key, shape)) for key, shape in inputs.items()),
            *(_encode_bytes(12, _encode_value_info(key, shape)) for key, shape in outputs.items()),
        ]
    )
    # Domains other than ONNX's own are required in version 1.
    versions = {"": opset} | {node.domain: 1 for node in nodes if node.domain}
    domains = b"".join(
        _encode_bytes(8, _encode_bytes(1, name.encode()) + _encode_int(2, number))
        for name, number in versions.items()
    )
    return _encode_int(1, 9) + _encode_bytes(2, b"history-lineage") + _encode_bytes(_GRAPH, graph) + domains


def _iter_fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield a message's field numbers and values, which are integers or bytes."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _read_varint(message, at)
            yield number, value
            continue
        if kind == _BYTES:
            length, at = _read_varint(message, at)
        else:
            length = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}[kind]
        yield number, message[at : at + length]
        at += length


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _parse_tensor(message: memoryview) -> tuple[str, NDArray[Any]]:
    shape: list[int] = []
    fields: dict[int, Any] = {_RAW: b""}
    for number, value in _iter_fields(message):
        if number == _DIMS:
            shape += _parse_repeated(value)
        else:
            fields[number] = value
    dtype = _DTYPES[fields[_DATA_TYPE]]
    return bytes(fields[_NAME]).decode(), np.frombuffer(fields[_RAW], dtype).reshape(shape)


def _parse_repeated(value: int | memoryview) -> list[int]:
    """Return a repeated field's integers, which are encoded one by one or packed into one field."""
    if isinstance(value, int):
        return [value]
    numbers, at = [], 0
    while at < len(value):
        number, at = _read_varint(value, at)
        numbers.append(number)
    return numbers


def _encode_varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _encode_int(field: int, value: int) -> bytes:
    return _encode_varint(field << 3 | _VARINT) + _encode_varint(value)


def _encode_bytes(field: int, value: bytes) -> bytes:
    return _encode_varint(field << 3 | _BYTES) + _encode_varint(len(value)) + value


def _encode_node(node: Node) -> bytes:
    return b"".join(
        [
            *(_encode_bytes(1, name.encode()) for name in node.inputs),
            _encode_bytes(2, node.output.encode()),
            _encode_bytes(3, node.output.encode()),
            _encode_bytes(4, node.operator.encode()),
            *(_encode_bytes(5, _encode_attribute(name, value)) for name, value in node.attributes.items()),
            *([_encode_bytes(7, node.domain.encode())] if node.domain else []),
        ]
    )


def _encode_attribute(name: str, value: float | int | Sequence[int]) -> bytes:
    named = _encode_bytes(1, name.encode())
    if isinstance(value, float):
        return (
            named
            + _encode_varint(2 << 3 | _FOUR_BYTES)
            + struct.pack("<f", value)
            + _encode_int(20, _FLOAT_ATTRIBUTE)
        )
    if isinstance(value, int):
        return named + _encode_int(3, value) + _encode_int(20, _INT_ATTRIBUTE)
    return named + b"".join(_encode_int(8, part) for part in value) + _encode_int(20, _INTS_ATTRIBUTE)


def _encode_tensor(name: str, value: NDArray[Any]) -> bytes:
    dims = b"".join(_encode_int(_DIMS, size) for size in value.shape)
    kind = _encode_int(_DATA_TYPE, _TYPE_NUMBERS[value.dtype])
    return (
        dims
        + kind
        + _encode_bytes(_NAME, name.encode())
        + _encode_bytes(_RAW, np.ascontiguousarray(value).tobytes())
    )


def _encode_value_info(name: str, shape: Shape) -> bytes:
    dims = b"".join(
        _encode_bytes(1, _encode_bytes(2, size.encode()) if isinstance(size, str) else _encode_int(1, size))
        for size in shape
    )
    tensor = _encode_int(1, FLOAT) + _encode_bytes(2, dims)
    return _encode_bytes(1, name.encode()) + _encode_bytes(2, _encode_bytes(1, tensor))


# The first opset with LayerNormalization.
OPSET: Final = 17


@dataclass(frozen=True, slots=True)
class TransformerGraph(ABC):
    """Builder of a transformer graph: nodes and constants in the order they are added.

    Every method adds nodes and returns the name of its output. `is_padded`: texts are padded, and the input
    `padding_bias` is added to the attention scores. A layer that is used twice has its weights once, and its nodes once
    per `label`.
    """

    is_padded: bool
    nodes: list[Node] = field(default_factory=list)
    tensors: Tensors = field(default_factory=dict)

    @abstractmethod
    def get_weight(self, name: str) -> NDArray[Any]:
        """Return a tensor of the model."""

    @abstractmethod
    def linear(self, x: str, name: str, label: str) -> str:
        """Multiply x by a weight matrix and add its bias."""

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """Add a constant tensor, unless its name is there already."""
        self.tensors.setdefault(name, value)
        return name

    def model_tensor(self, name: str) -> str:
        """Add a tensor of the model, unchanged."""
        return self.constant(name, self.get_weight(name))

    def node(
        self, operator: str, inputs: Sequence[str], output: str, *, domain: str = "", **settings: Any
    ) -> str:
        """Add a node."""
        self.nodes.append(Node(operator, inputs, output, settings, domain))
        return output

    def layer_norm(self, x: str, name: str, label: str = "") -> str:
        """Add a layer normalization."""
        parts = [x, self.model_tensor(f"{name}.weight"), self.model_tensor(f"{name}.bias")]
        return self.node("LayerNormalization", parts, label or name, axis=-1, epsilon=EPSILON)

    def split_heads(self, x: str, order: Sequence[int]) -> str:
        """Split the hidden dimension into attention heads, with the axes in this order."""
        split = self.node("Reshape", [x, "heads_shape"], f"{x}.split")
        return self.node("Transpose", [split], f"{x}.heads", perm=order)

    def attention(self, x: str, name: str, label: str) -> str:
        """Add multi-head self-attention."""
        query, key, value = (
            self.linear(x, f"{name}.{part}", f"{label}.{part}") for part in ("query", "key", "value")
        )
        keys = self.split_heads(key, (0, 2, 3, 1))
        scores = self.node("MatMul", [self.split_heads(query, (0, 2, 1, 3)), keys], f"{label}.products")
        scores = self.node("Mul", [scores, "scale"], f"{label}.scores")
        if self.is_padded:
            scores = self.node("Add", [scores, "padding_bias"], f"{label}.masked")
        weights = self.node("Softmax", [scores], f"{label}.weights", axis=-1)
        weighted = self.node("MatMul", [weights, self.split_heads(value, (0, 2, 1, 3))], f"{label}.weighted")
        transposed = self.node("Transpose", [weighted], f"{label}.transposed", perm=(0, 2, 1, 3))
        return self.node("Reshape", [transposed, "merged_shape"], label)

    def gelu(self, x: str, name: str) -> str:
        """Add the GELU activation: x times the normal distribution's probability below x."""
        error = self.node("Erf", [self.node("Mul", [x, "root_half"], f"{name}.scaled")], f"{name}.erf")
        probability = self.node(
            "Mul", [self.node("Add", [error, "one"], f"{name}.sum"), "half"], f"{name}.probability"
        )
        return self.node("Mul", [x, probability], name)

    def layer(self, x: str, name: str, label: str = "") -> str:
        """Add one transformer layer."""
        label = label or name
        attended = self.attention(x, f"{name}.attention.self", f"{label}.attention.self")
        output, output_label = f"{name}.attention.output", f"{label}.attention.output"
        attended = self.linear(attended, f"{output}.dense", f"{output_label}.dense")
        residual = self.node("Add", [attended, x], f"{output_label}.sum")
        x = self.layer_norm(residual, f"{output}.LayerNorm", f"{output_label}.LayerNorm")
        inner = self.linear(x, f"{name}.intermediate.dense", f"{label}.intermediate.dense")
        out = self.linear(self.gelu(inner, f"{label}.gelu"), f"{name}.output.dense", f"{label}.output.dense")
        residual = self.node("Add", [out, x], f"{label}.output.sum")
        return self.layer_norm(residual, f"{name}.output.LayerNorm", f"{label}.output.LayerNorm")

    def add_shared_constants(self) -> None:
        """Add the constants that every layer uses."""
        sizes = (0, 0, HEAD_COUNT, HIDDEN_SIZE // HEAD_COUNT), (0, 0, HIDDEN_SIZE)
        for name, size in zip(("heads_shape", "merged_shape"), sizes, strict=True):
            self.constant(name, np.array(size, np.int64))
        numbers = {
            "one": 1.0,
            "half": 0.5,
            "root_half": 0.5**0.5,
            "scale": (HEAD_COUNT / HIDDEN_SIZE) ** 0.5,
        }
        for name, number in numbers.items():
            self.constant(name, np.array(number, np.float32))


BUNDLED_MODEL: Final = MODELS_DIR / "minilm.onnx"
# Added to the attention scores of padding, so that it takes no part in a softmax.
PADDING_BIAS: Final = np.float32(-10_000)


@dataclass(frozen=True, slots=True)
class TokenEmbeddings:
    """Quantized word embeddings and position embeddings: the input of the first layer."""

    table: NDArray[np.int8]
    scales: NDArray[np.float32]
    positions: NDArray[np.float32]

    @classmethod
    def load_bundled(cls) -> TokenEmbeddings:
        """Load those of the bundled encoder."""
        tensors = read_constants(BUNDLED_MODEL.read_bytes())
        # Copied, so that the memory of the file's other tensors is freed.
        return cls(*(tensors[name].copy() for name in ("words", "words_scale", "positions")))

    def look_up(self, tokens: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the embeddings, (texts, tokens, HIDDEN_SIZE), of token ids, (texts, tokens)."""
        rows = self.table[tokens].astype(np.float32) * self.scales[tokens]
        return rows + self.positions[: tokens.shape[1]]


@dataclass(frozen=True, slots=True)
class _Fp32Graph(TransformerGraph):
    """Graph of the bundled file's layers with FP32 weights."""

    source: Tensors = field(default_factory=dict)

    def get_weight(self, name: str) -> NDArray[Any]:
        return self.source[name]

    def linear(self, x: str, name: str, label: str) -> str:
        # The input's outlier divisors are multiplied into the matrix. Query, key and value share those of the query.
        parent, _, part = name.rpartition(".")
        divisor = self.source[f"{parent}.{'query' if part in ('key', 'value') else part}.divisor"]
        table = self.source[f"{name}.weight"].astype(np.float32) * self.source[f"{name}.scale"]
        matrix = self.constant(f"{name}.matrix", table * divisor[:, None])
        product = self.node("MatMul", [x, matrix], f"{label}.product")
        return self.node("Add", [product, self.model_tensor(f"{name}.bias")], label)


def build_fp32_model() -> bytes:
    """Return the serialized FP32 model.

    Inputs: `token_embeddings`, from `TokenEmbeddings`; `padding_bias`, 0 for each token and PADDING_BIAS for padding;
    `token_mask`, 1 for each token and 0 for padding. Output: `sum`, the sum of each text's token vectors.
    """
    graph = _Fp32Graph(is_padded=True, source=read_constants(BUNDLED_MODEL.read_bytes()))
    graph.add_shared_constants()
    x = graph.layer_norm("token_embeddings", "embeddings.LayerNorm")
    for layer in range(LAYER_COUNT):
        x = graph.layer(x, f"encoder.layer.{layer}")
    graph.node("MatMul", ["token_mask", x], "sum")
    return serialize_model(
        "all-MiniLM-L6-v2",
        graph.nodes,
        graph.tensors,
        inputs={
            "token_embeddings": ("texts", "tokens", HIDDEN_SIZE),
            "padding_bias": ("texts", 1, 1, "tokens"),
            "token_mask": ("texts", 1, "tokens"),
        },
        outputs={"sum": ("texts", 1, HIDDEN_SIZE)},
        opset=OPSET,
    )
