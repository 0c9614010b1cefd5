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

# 7 bits, so that AVX2's 16-bit sums of two u8 products do not overflow.
WEIGHT_LEVELS: Final = 63
EMBEDDING_LEVELS: Final = 127

DEFAULT_DOMAIN: Final = ("", 18)
MICROSOFT: Final = ("com.microsoft", 1)


def quantize(table: Floats, axis: int, levels: int) -> tuple[NDArray[np.int8], Floats]:
    """Quantize a matrix to symmetric int8; return it and the scales, one for each slice along the other axis."""
    scale = (np.abs(table).max(axis, keepdims=True) / levels).astype(np.float32)
    return np.round(table / scale).astype(np.int8), scale


@dataclass(frozen=True, slots=True)
class QuantizedGraph:
    """Builder of the graph. Every method adds nodes and returns the name of its output.

    `divisors`: by matrix product, the number that each outlier channel of its input is divided by.
    """

    weights: Weights
    divisors: Weights
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """Add a constant tensor."""
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(
        self, operator: str, inputs: Sequence[str], output: str, *, domain: str = "", **settings: Any
    ) -> str:
        """Add a node."""
        from onnx import helper

        self.nodes.append(helper.make_node(operator, inputs, [output], output, domain=domain, **settings))
        return output

    def microsoft_node(self, operator: str, inputs: Sequence[str], output: str, **settings: Any) -> str:
        """Add a node with an operator of ONNX Runtime's own."""
        return self.node(operator, inputs, output, domain=MICROSOFT[0], **settings)

    def embeddings(self) -> str:
        """Add the lookup of word and position embeddings."""
        table, scale = quantize(self.weights["embeddings.word_embeddings.weight"], 1, EMBEDDING_LEVELS)
        words = self.node("Gather", [self.constant("words", table), "input_ids"], "words_int8")
        scales = self.node("Gather", [self.constant("words_scale", scale), "input_ids"], "words_scales")
        words = self.node("Cast", [words], "words_float", to=1)
        words = self.node("Mul", [words, scales], "words_scaled")
        return self.node("Add", [words, self._positions()], "words_placed")

    def _positions(self) -> str:
        table = self.constant("positions", get_position_embeddings(self.weights))
        zero = self.constant("zero", np.array([0], np.int64))
        length = self.node("Shape", ["input_ids"], "length", start=1, end=2)
        return self.node("Slice", [table, zero, length, zero], "positions_used")

    def layer_norm(self, x: str, name: str) -> str:
        """Add a layer normalization."""
        scale = self.constant(f"{name}.weight", self.weights[f"{name}.weight"])
        bias = self.constant(f"{name}.bias", self.weights[f"{name}.bias"])
        return self.node("LayerNormalization", [x, scale, bias], name, axis=-1, epsilon=EPSILON)

    def divide_outliers(self, x: str, name: str) -> str:
        """Divide the outlier channels of the input of product `name`."""
        divisor = self.constant(f"{name}.divisor", (1 / self.divisors[name]).astype(np.float32))
        return self.node("Mul", [x, divisor], f"{name}.divided")

    def linear(self, x: str, name: str, divisor_name: str) -> str:
        """Multiply x by a weight matrix and add its bias, in int8."""
        matrix = (self.weights[f"{name}.weight"] * self.divisors[divisor_name]).T
        table, scale = quantize(matrix, 0, WEIGHT_LEVELS)
        inputs = [
            x,
            self.constant(f"{name}.weight", table),
            self.constant(f"{name}.scale", scale[0]),
            self.constant(f"{name}.zero", np.zeros(len(scale[0]), np.int8)),
            self.constant(f"{name}.bias", self.weights[f"{name}.bias"]),
        ]
        return self.microsoft_node("DynamicQuantizeMatMul", inputs, name)

    def attention(self, x: str, name: str) -> str:
        """Add multi-head attention. Query, key and value have the same input, so they share its divisors."""
        shared = self.divide_outliers(x, f"{name}.query")
        parts = [self.linear(shared, f"{name}.{part}", f"{name}.query") for part in ("query", "key", "value")]
        return self.microsoft_node("MultiHeadAttention", [*parts, "", "mask_int"], name, num_heads=HEAD_COUNT)

    def scaled_linear(self, x: str, name: str) -> str:
        """Divide the input's outliers, then multiply."""
        return self.linear(self.divide_outliers(x, name), name, name)

    def layer(self, x: str, name: str) -> str:
        """Add one transformer layer."""
        attended = self.attention(x, f"{name}.attention.self")
        attended = self.scaled_linear(attended, f"{name}.attention.output.dense")
        attended = self.node("Add", [attended, x], f"{name}.attention.sum")
        x = self.layer_norm(attended, f"{name}.attention.output.LayerNorm")
        inner = self.microsoft_node(
            "Gelu", [self.scaled_linear(x, f"{name}.intermediate.dense")], f"{name}.gelu"
        )
        out = self.node("Add", [self.scaled_linear(inner, f"{name}.output.dense"), x], f"{name}.sum")
        return self.layer_norm(out, f"{name}.output.LayerNorm")

    def sum_pool(self, x: str) -> str:
        """Add the sum over the mask. It replaces the mean, since the result is normalized next."""
        one = self.constant("one", np.array([1], np.int64))
        mask = self.node(
            "Unsqueeze", [self.node("Cast", ["attention_mask"], "mask_float", to=1), one], "mask_row"
        )
        return self.node("Squeeze", [self.node("MatMul", [mask, x], "sums"), one], "sum")


def build_encoder(weights: Weights, divisors: Weights) -> ModelProto:
    """Build the model: token ids and mask in, unit vectors out."""
    from onnx import TensorProto, helper

    graph = QuantizedGraph(weights, divisors)
    graph.node("Cast", ["attention_mask"], "mask_int", to=TensorProto.INT32)
    x = graph.layer_norm(graph.embeddings(), "embeddings.LayerNorm")
    for layer in range(LAYER_COUNT):
        x = graph.layer(x, f"encoder.layer.{layer}")
    graph.node("LpNormalization", [graph.sum_pool(x)], "embedding", axis=-1, p=2)
    shape = ["texts", "tokens"]
    inputs = [
        helper.make_tensor_value_info(n, TensorProto.INT64, shape) for n in ("input_ids", "attention_mask")
    ]
    outputs = [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["texts", HIDDEN_SIZE])]
    body = helper.make_graph(graph.nodes, "all-MiniLM-L6-v2", inputs, outputs, graph.constants)
    domains = [helper.make_opsetid(*DEFAULT_DOMAIN), helper.make_opsetid(*MICROSOFT)]
    return helper.make_model(body, opset_imports=domains, ir_version=9, producer_name="history-lineage")
