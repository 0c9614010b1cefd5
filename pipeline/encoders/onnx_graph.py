"""Reader and writer of ONNX files, builder of transformer graphs, and the embeddings and FP32 graph of MiniLM.

- `read_constants`, `serialize_model`: reader of a model's weights, and writer of a model. They know only the fields of
  ONNX's protobuf format that these graphs have, so the package `onnx` is not needed to run.
- `TransformerGraph`: builder of transformer layers. Subclasses supply the weights and the matrix product.
- `TokenEmbeddings`: lookup of token embeddings in NumPy, for the FP32 encoder and the cross-encoder.
- `build_fp32_model`: the bundled encoder with FP32 weights, for GPUs and NPUs. It is computed from the bundled int8
  file, so nothing is downloaded. Token lookup and normalization stay in NumPy, so that every node runs on every
  provider. The result is the same to the byte on every machine, and its digest is checked.
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
from pipeline.encoders.minilm import EPSILON, HEAD_COUNT, HIDDEN_SIZE, LAYER_COUNT

Tensors: TypeAlias = dict[str, NDArray[Any]]
Shape: TypeAlias = Sequence[int | str]

# TensorProto.DataType: number of each element type.
FLOAT32: Final = 1
_DTYPES: Final[dict[int, Any]] = {FLOAT32: np.float32, 3: np.int8, 6: np.int32, 7: np.int64}
_DATA_TYPES: Final = {np.dtype(dtype): data_type for data_type, dtype in _DTYPES.items()}

# Field numbers, as in onnx.proto: of ModelProto, of GraphProto, and of TensorProto. Fields that are only written have
# their numbers where they are written.
_GRAPH: Final = 7
_INITIALIZER: Final = 5
_DIMS, _DATA_TYPE, _NAME, _RAW_DATA = 1, 2, 8, 9

# Protobuf wire types: the low three bits of a field's key. _BYTES has a length first.
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
# AttributeProto.AttributeType.
_FLOAT_ATTRIBUTE, _INT_ATTRIBUTE, _INTS_ATTRIBUTE = 1, 2, 7
# Version of the ONNX file format (ModelProto.ir_version).
_IR_VERSION = 9

# The first version of ONNX's operators with LayerNormalization.
OPSET: Final = 17


@dataclass(frozen=True, slots=True)
class Node:
    """Node of a graph: one operator with named inputs and one named output.

    `domain`: operator set; empty for ONNX's own, `com.microsoft` for operators that only ONNX Runtime has.
    """

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
    """Return a serialized model with float32 inputs and outputs.

    `inputs` and `outputs` map names to shapes; a dynamic dimension is a name. `opset`: version of ONNX's operators.
    """
    graph = b"".join(
        [
            *(_encode_bytes(1, _encode_node(node)) for node in nodes),
            _encode_bytes(2, name.encode()),
            *(_encode_bytes(_INITIALIZER, _encode_tensor(key, value)) for key, value in tensors.items()),
            *(_encode_bytes(11, _encode_value_info(key, shape)) for key, shape in inputs.items()),
            *(_encode_bytes(12, _encode_value_info(key, shape)) for key, shape in outputs.items()),
        ]
    )
    # Each domain needs a version. ONNX Runtime's own operators have version 1.
    versions = {"": opset} | {node.domain: 1 for node in nodes if node.domain}
    domains = b"".join(
        _encode_bytes(8, _encode_bytes(1, domain.encode()) + _encode_int(2, version))
        for domain, version in versions.items()
    )
    producer = _encode_bytes(2, b"history-lineage")
    return _encode_int(1, _IR_VERSION) + producer + _encode_bytes(_GRAPH, graph) + domains


def _iter_fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield a message's field numbers and values, which are integers or bytes."""
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
    """Return the integer at an offset, and the offset of the next byte. A byte holds 7 bits, the lowest first."""
    value, shift = 0, 0
    while True:
        byte = message[offset]
        value |= (byte & 127) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 128:
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
    """Return the integers of a repeated field: a single one, or several packed into bytes."""
    if isinstance(value, int):
        return [value]
    numbers, offset = [], 0
    while offset < len(value):
        number, offset = _read_varint(value, offset)
        numbers.append(number)
    return numbers


def _encode_varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # a negative number is its 64-bit two's complement
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _encode_int(field: int, value: int) -> bytes:
    return _encode_varint(field << 3 | _VARINT) + _encode_varint(value)


def _encode_bytes(field: int, value: bytes) -> bytes:
    return _encode_varint(field << 3 | _BYTES) + _encode_varint(len(value)) + value


def _encode_node(node: Node) -> bytes:
    output = node.output.encode()
    return b"".join(
        [
            *(_encode_bytes(1, name.encode()) for name in node.inputs),
            _encode_bytes(2, output),
            _encode_bytes(3, output),  # the node is named like its output
            _encode_bytes(4, node.operator.encode()),
            *(_encode_bytes(5, _encode_attribute(name, value)) for name, value in node.attributes.items()),
            *([_encode_bytes(7, node.domain.encode())] if node.domain else []),
        ]
    )


def _encode_attribute(name: str, value: float | int | Sequence[int]) -> bytes:
    if isinstance(value, float):
        encoded, attribute_type = (
            _encode_varint(2 << 3 | _FOUR_BYTES) + struct.pack("<f", value),
            _FLOAT_ATTRIBUTE,
        )
    elif isinstance(value, int):
        encoded, attribute_type = _encode_int(3, value), _INT_ATTRIBUTE
    else:
        encoded, attribute_type = b"".join(_encode_int(8, number) for number in value), _INTS_ATTRIBUTE
    return _encode_bytes(1, name.encode()) + encoded + _encode_int(20, attribute_type)


def _encode_tensor(name: str, value: NDArray[Any]) -> bytes:
    return (
        b"".join(_encode_int(_DIMS, size) for size in value.shape)
        + _encode_int(_DATA_TYPE, _DATA_TYPES[value.dtype])
        + _encode_bytes(_NAME, name.encode())
        + _encode_bytes(_RAW_DATA, np.ascontiguousarray(value).tobytes())
    )


def _encode_value_info(name: str, shape: Shape) -> bytes:
    dims = b"".join(
        _encode_bytes(1, _encode_bytes(2, size.encode()) if isinstance(size, str) else _encode_int(1, size))
        for size in shape
    )
    tensor = _encode_int(1, FLOAT32) + _encode_bytes(2, dims)
    return _encode_bytes(1, name.encode()) + _encode_bytes(2, _encode_bytes(1, tensor))


@dataclass(frozen=True, slots=True)
class TransformerGraph(ABC):
    """Builder of a transformer graph: nodes and constants in the order they are added.

    Every method that adds nodes takes the name `x` of its input and returns the name of its output. `name` is the
    prefix of the weights' names, and `label` that of the nodes' names: a layer that is used twice has the same weights
    twice, but nodes of its own. `is_padded`: the graph adds the input `padding_bias` to the attention scores.
    """

    is_padded: bool
    nodes: list[Node] = field(default_factory=list)
    tensors: Tensors = field(default_factory=dict)

    @abstractmethod
    def get_weight(self, name: str) -> NDArray[Any]:
        """Return a tensor of the model."""

    @abstractmethod
    def add_linear(self, x: str, name: str, label: str) -> str:
        """Add the product of x and a weight matrix, plus a bias."""

    def add_constant(self, name: str, value: NDArray[Any]) -> str:
        """Add a constant tensor, unless the graph already has one of that name; return the name."""
        self.tensors.setdefault(name, value)
        return name

    def add_model_tensor(self, name: str) -> str:
        """Add a tensor of the model as a constant, unchanged; return its name."""
        return self.add_constant(name, self.get_weight(name))

    def add_node(
        self, operator: str, inputs: Sequence[str], output: str, *, domain: str = "", **attributes: Any
    ) -> str:
        """Add a node; return its output."""
        self.nodes.append(Node(operator, inputs, output, attributes, domain))
        return output

    def add_layer_norm(self, x: str, name: str, label: str = "") -> str:
        """Add a layer normalization."""
        inputs = [x, self.add_model_tensor(f"{name}.weight"), self.add_model_tensor(f"{name}.bias")]
        return self.add_node("LayerNormalization", inputs, label or name, axis=-1, epsilon=EPSILON)

    def split_heads(self, x: str, order: Sequence[int]) -> str:
        """Split the hidden dimension into attention heads.

        `order`: permutation of the axes (texts, tokens, heads, components).
        """
        split = self.add_node("Reshape", [x, "heads_shape"], f"{x}.split")
        return self.add_node("Transpose", [split], f"{x}.heads", perm=order)

    def add_attention(self, x: str, name: str, label: str) -> str:
        """Add multi-head self-attention."""
        query, key, value = (
            self.add_linear(x, f"{name}.{part}", f"{label}.{part}") for part in ("query", "key", "value")
        )
        keys = self.split_heads(key, (0, 2, 3, 1))
        scores = self.add_node("MatMul", [self.split_heads(query, (0, 2, 1, 3)), keys], f"{label}.products")
        scores = self.add_node("Mul", [scores, "scale"], f"{label}.scores")
        if self.is_padded:
            scores = self.add_node("Add", [scores, "padding_bias"], f"{label}.masked")
        weights = self.add_node("Softmax", [scores], f"{label}.weights", axis=-1)
        weighted = self.add_node(
            "MatMul", [weights, self.split_heads(value, (0, 2, 1, 3))], f"{label}.weighted"
        )
        transposed = self.add_node("Transpose", [weighted], f"{label}.transposed", perm=(0, 2, 1, 3))
        return self.add_node("Reshape", [transposed, "merged_shape"], label)

    def add_gelu(self, x: str, name: str) -> str:
        """Add the GELU activation: x times the standard normal CDF at x."""
        error = self.add_node(
            "Erf", [self.add_node("Mul", [x, "root_half"], f"{name}.scaled")], f"{name}.erf"
        )
        probability = self.add_node(
            "Mul", [self.add_node("Add", [error, "one"], f"{name}.sum"), "half"], f"{name}.probability"
        )
        return self.add_node("Mul", [x, probability], name)

    def add_layer(self, x: str, name: str, label: str = "") -> str:
        """Add one transformer layer."""
        label = label or name
        attended = self.add_attention(x, f"{name}.attention.self", f"{label}.attention.self")
        output, output_label = f"{name}.attention.output", f"{label}.attention.output"
        attended = self.add_linear(attended, f"{output}.dense", f"{output_label}.dense")
        residual = self.add_node("Add", [attended, x], f"{output_label}.sum")
        x = self.add_layer_norm(residual, f"{output}.LayerNorm", f"{output_label}.LayerNorm")
        inner = self.add_linear(x, f"{name}.intermediate.dense", f"{label}.intermediate.dense")
        out = self.add_linear(
            self.add_gelu(inner, f"{label}.gelu"), f"{name}.output.dense", f"{label}.output.dense"
        )
        residual = self.add_node("Add", [out, x], f"{label}.output.sum")
        return self.add_layer_norm(residual, f"{name}.output.LayerNorm", f"{label}.output.LayerNorm")

    def add_shared_constants(self) -> None:
        """Add the constants that every layer uses."""
        # In a Reshape, 0 copies the input's dimension.
        shapes = {
            "heads_shape": (0, 0, HEAD_COUNT, HIDDEN_SIZE // HEAD_COUNT),
            "merged_shape": (0, 0, HIDDEN_SIZE),
        }
        for name, shape in shapes.items():
            self.add_constant(name, np.array(shape, np.int64))
        numbers = {
            "one": 1.0,
            "half": 0.5,
            "root_half": 0.5**0.5,
            "scale": (HEAD_COUNT / HIDDEN_SIZE) ** 0.5,
        }
        for name, number in numbers.items():
            self.add_constant(name, np.array(number, np.float32))


BUNDLED_MODEL: Final = MODELS_DIR / "minilm.onnx"
# Added to the attention scores of padding, so that the softmax gives it no weight.
PADDING_BIAS: Final = np.float32(-10_000)


@dataclass(frozen=True, slots=True)
class TokenEmbeddings:
    """Quantized token embeddings and position embeddings, whose sum is the input of the first layer.

    `table`: a row of int8 per token id. `scales`: the number that each row is multiplied by. `positions`: a row per
    position.
    """

    table: NDArray[np.int8]
    scales: NDArray[np.float32]
    positions: NDArray[np.float32]

    @classmethod
    def load_bundled(cls) -> TokenEmbeddings:
        """Load the embeddings of the bundled encoder."""
        tensors = read_constants(BUNDLED_MODEL.read_bytes())
        # Without the copies, these views would hold the whole file in memory.
        return cls(*(tensors[name].copy() for name in ("words", "words_scale", "positions")))

    def look_up(self, tokens: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the embeddings of token ids: shape (texts, tokens) in, (texts, tokens, HIDDEN_SIZE) out."""
        rows = self.table[tokens].astype(np.float32) * self.scales[tokens]
        return rows + self.positions[: tokens.shape[1]]


@dataclass(frozen=True, slots=True)
class _Fp32Graph(TransformerGraph):
    """Graph of the bundled encoder's layers with FP32 weights. `source`: tensors of the bundled int8 file."""

    source: Tensors = field(default_factory=dict)

    def get_weight(self, name: str) -> NDArray[Any]:
        return self.source[name]

    def add_linear(self, x: str, name: str, label: str) -> str:
        # The int8 graph divides outlier channels of the input and multiplies their weights. Here the factors are taken
        # out of the weights, by the reciprocals in the file. Query, key and value share those of the query.
        parent, _, part = name.rpartition(".")
        reciprocals = self.source[f"{parent}.{'query' if part in ('key', 'value') else part}.divisor"]
        weights = self.source[f"{name}.weight"].astype(np.float32) * self.source[f"{name}.scale"]
        matrix = self.add_constant(f"{name}.matrix", weights * reciprocals[:, None])
        product = self.add_node("MatMul", [x, matrix], f"{label}.product")
        return self.add_node("Add", [product, self.add_model_tensor(f"{name}.bias")], label)


def build_fp32_model() -> bytes:
    """Return the serialized FP32 model.

    Inputs: `token_embeddings`, from `TokenEmbeddings`; `padding_bias`, 0 for each token and PADDING_BIAS for padding;
    `token_mask`, 1 for each token and 0 for padding. Output: `sum`, the sum of each text's token vectors. Shapes are
    listed below.
    """
    graph = _Fp32Graph(is_padded=True, source=read_constants(BUNDLED_MODEL.read_bytes()))
    graph.add_shared_constants()
    x = graph.add_layer_norm("token_embeddings", "embeddings.LayerNorm")
    for layer in range(LAYER_COUNT):
        x = graph.add_layer(x, f"encoder.layer.{layer}")
    graph.add_node("MatMul", ["token_mask", x], "sum")
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
