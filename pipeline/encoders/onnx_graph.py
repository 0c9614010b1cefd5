"""Graphs of transformer models: builder of their layers, and the embeddings and FP32 graph of MiniLM.

- `TransformerGraph`: builder of transformer layers. Subclasses supply the weights and the matrix product.
- `TokenEmbeddings`: lookup of token embeddings in NumPy, for the FP32 encoder and the cross-encoder.
- `build_fp32_model`: the bundled encoder with FP32 weights, for GPUs and NPUs. It is computed from the bundled int8
  file, so nothing is downloaded. Token lookup and normalization stay in NumPy, so that every node runs on every
  provider. The result is the same to the byte on every machine, and its digest is checked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.encoders.base import MODELS_DIR
from pipeline.encoders.minilm import EPSILON, HEAD_COUNT, HIDDEN_SIZE, LAYER_COUNT
from pipeline.encoders.onnx_file import Node, Tensors, read_constants, serialize_model

BUNDLED_MODEL: Final = MODELS_DIR / "minilm.onnx"
# The first version of ONNX's operators with LayerNormalization.
OPSET: Final = 17
# Added to the attention scores of padding, so that the softmax gives it no weight.
PADDING_BIAS: Final = np.float32(-10_000)


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
