"""Builder of the int8 ONNX graph of the encoder; `pipeline.training.export_onnx` explains the quantization.

Used only for the export, because it needs the `onnx` package. Names of nodes and constants are part of the bundled
file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.encoders.minilm_numpy import (
    EPSILON,
    HEAD_COUNT,
    HIDDEN_SIZE,
    LAYER_COUNT,
    Floats,
    Weights,
    get_position_embeddings,
)

if TYPE_CHECKING:
    from onnx import ModelProto

# Largest absolute int8 code. Weights have 7 bits, so that AVX2's 16-bit sums of two u8 products do not overflow.
WEIGHT_LEVELS: Final = 63
EMBEDDING_LEVELS: Final = 127

# Operator sets, each with its version: ONNX's own, and ONNX Runtime's.
DEFAULT_DOMAIN: Final = ("", 18)
MICROSOFT: Final = ("com.microsoft", 1)


def quantize(table: Floats, axis: int, levels: int) -> tuple[NDArray[np.int8], Floats]:
    """Quantize a matrix to symmetric int8 with codes up to `levels`; return the codes and the scales.

    Each slice along `axis` has a scale of its own: axis 0 gives one for each column.
    """
    scales = (np.abs(table).max(axis, keepdims=True) / levels).astype(np.float32)
    return np.round(table / scales).astype(np.int8), scales


@dataclass(frozen=True, slots=True)
class QuantizedGraph:
    """Builder of the graph. Every method adds nodes and returns the name of its output.

    `divisors`: for each matrix product the number by which the graph divides each channel of its input, and multiplies
    the weights. It is above 1 for outlier channels: those far larger than the rest, which would set the scale of all.
    """

    weights: Weights
    divisors: Weights
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def add_constant(self, name: str, value: NDArray[Any]) -> str:
        """Add a constant tensor; return its name."""
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add_node(
        self, operator: str, inputs: Sequence[str], output: str, *, domain: str = "", **attributes: Any
    ) -> str:
        """Add a node; return its output."""
        from onnx import helper

        self.nodes.append(helper.make_node(operator, inputs, [output], output, domain=domain, **attributes))
        return output

    def add_microsoft_node(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Add a node with an operator that only ONNX Runtime has."""
        return self.add_node(operator, inputs, output, domain=MICROSOFT[0], **attributes)

    def add_embeddings(self) -> str:
        """Add the lookup of word and position embeddings."""
        from onnx import TensorProto

        codes, scales = quantize(self.weights["embeddings.word_embeddings.weight"], 1, EMBEDDING_LEVELS)
        words = self.add_node("Gather", [self.add_constant("words", codes), "input_ids"], "words_int8")
        word_scales = self.add_node(
            "Gather", [self.add_constant("words_scale", scales), "input_ids"], "words_scales"
        )
        words = self.add_node("Cast", [words], "words_float", to=TensorProto.FLOAT)
        words = self.add_node("Mul", [words, word_scales], "words_scaled")
        return self.add_node("Add", [words, self._add_positions()], "words_placed")

    def _add_positions(self) -> str:
        table = self.add_constant("positions", get_position_embeddings(self.weights))
        zero = self.add_constant("zero", np.array([0], np.int64))
        length = self.add_node("Shape", ["input_ids"], "length", start=1, end=2)
        return self.add_node("Slice", [table, zero, length, zero], "positions_used")

    def add_layer_norm(self, x: str, name: str) -> str:
        """Add a layer normalization."""
        scale = self.add_constant(f"{name}.weight", self.weights[f"{name}.weight"])
        bias = self.add_constant(f"{name}.bias", self.weights[f"{name}.bias"])
        return self.add_node("LayerNormalization", [x, scale, bias], name, axis=-1, epsilon=EPSILON)

    def divide_outliers(self, x: str, name: str) -> str:
        """Divide the outlier channels of the input of the matrix product `name`."""
        reciprocals = self.add_constant(f"{name}.divisor", (1 / self.divisors[name]).astype(np.float32))
        return self.add_node("Mul", [x, reciprocals], f"{name}.divided")

    def add_linear(self, x: str, name: str, divisor_name: str) -> str:
        """Add the product of x and a weight matrix in int8, plus a bias. `divisor_name`: product that divided x."""
        matrix = (self.weights[f"{name}.weight"] * self.divisors[divisor_name]).T
        codes, scales = quantize(matrix, 0, WEIGHT_LEVELS)
        inputs = [
            x,
            self.add_constant(f"{name}.weight", codes),
            self.add_constant(f"{name}.scale", scales[0]),
            self.add_constant(f"{name}.zero", np.zeros(len(scales[0]), np.int8)),
            self.add_constant(f"{name}.bias", self.weights[f"{name}.bias"]),
        ]
        return self.add_microsoft_node("DynamicQuantizeMatMul", inputs, name)

    def add_attention(self, x: str, name: str) -> str:
        """Add multi-head attention. Query, key and value have the same input, so they share its divisors."""
        divided = self.divide_outliers(x, f"{name}.query")
        inputs = [
            self.add_linear(divided, f"{name}.{part}", f"{name}.query") for part in ("query", "key", "value")
        ]
        return self.add_microsoft_node(
            "MultiHeadAttention", [*inputs, "", "mask_int"], name, num_heads=HEAD_COUNT
        )

    def add_scaled_linear(self, x: str, name: str) -> str:
        """Add a linear layer whose input has its outlier channels divided."""
        return self.add_linear(self.divide_outliers(x, name), name, name)

    def add_layer(self, x: str, name: str) -> str:
        """Add one transformer layer."""
        attended = self.add_attention(x, f"{name}.attention.self")
        attended = self.add_scaled_linear(attended, f"{name}.attention.output.dense")
        attended = self.add_node("Add", [attended, x], f"{name}.attention.sum")
        x = self.add_layer_norm(attended, f"{name}.attention.output.LayerNorm")
        inner = self.add_microsoft_node(
            "Gelu", [self.add_scaled_linear(x, f"{name}.intermediate.dense")], f"{name}.gelu"
        )
        out = self.add_node("Add", [self.add_scaled_linear(inner, f"{name}.output.dense"), x], f"{name}.sum")
        return self.add_layer_norm(out, f"{name}.output.LayerNorm")

    def add_sum_pool(self, x: str) -> str:
        """Add the sum of the token vectors. The next step normalizes it, so the mean would give the same result."""
        from onnx import TensorProto

        token_axis = self.add_constant("one", np.array([1], np.int64))
        mask = self.add_node("Cast", ["attention_mask"], "mask_float", to=TensorProto.FLOAT)
        mask = self.add_node("Unsqueeze", [mask, token_axis], "mask_row")
        return self.add_node("Squeeze", [self.add_node("MatMul", [mask, x], "sums"), token_axis], "sum")


def build_encoder(weights: Weights, divisors: Weights) -> ModelProto:
    """Build the model.

    Inputs: `input_ids` and `attention_mask`, int64 of shape (texts, tokens). Output: `embedding`, unit vectors of shape
    (texts, HIDDEN_SIZE).
    """
    from onnx import TensorProto, helper

    graph = QuantizedGraph(weights, divisors)
    graph.add_node("Cast", ["attention_mask"], "mask_int", to=TensorProto.INT32)
    x = graph.add_layer_norm(graph.add_embeddings(), "embeddings.LayerNorm")
    for layer in range(LAYER_COUNT):
        x = graph.add_layer(x, f"encoder.layer.{layer}")
    graph.add_node("LpNormalization", [graph.add_sum_pool(x)], "embedding", axis=-1, p=2)
    shape = ["texts", "tokens"]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, shape)
        for name in ("input_ids", "attention_mask")
    ]
    outputs = [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["texts", HIDDEN_SIZE])]
    body = helper.make_graph(graph.nodes, "all-MiniLM-L6-v2", inputs, outputs, graph.constants)
    domains = [helper.make_opsetid(*DEFAULT_DOMAIN), helper.make_opsetid(*MICROSOFT)]
    return helper.make_model(body, opset_imports=domains, ir_version=9, producer_name="history-lineage")
