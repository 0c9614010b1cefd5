"""The encoder as an ONNX graph, quantized as it is written; see `pipeline.training.export_onnx` for what and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.encoders.minilm_numpy import EPSILON, HEADS, HIDDEN, LAYERS, Floats, Weights, positions

if TYPE_CHECKING:
    from onnx import ModelProto

# 7 bits: two products of u8 and this fit the 16 bits in which AVX2 adds them.
WEIGHT_LEVELS: Final = 63
EMBEDDING_LEVELS: Final = 127

DEFAULT_DOMAIN: Final = ("", 18)
MICROSOFT: Final = ("com.microsoft", 1)


def quantized(table: Floats, axis: int, levels: int) -> tuple[NDArray[np.int8], Floats]:
    """Symmetric int8 and its scales, one for each slice along the other axis."""
    scale = (np.abs(table).max(axis, keepdims=True) / levels).astype(np.float32)
    return np.round(table / scale).astype(np.int8), scale


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes and constants in the order they are added; every method gives the name of its output."""

    weights: Weights
    divisors: Weights
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """A tensor that ships with the graph."""
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(
        self, operator: str, inputs: Sequence[str], output: str, *, domain: str = "", **settings: Any
    ) -> str:
        """One step."""
        from onnx import helper

        self.nodes.append(helper.make_node(operator, inputs, [output], output, domain=domain, **settings))
        return output

    def microsoft(self, operator: str, inputs: Sequence[str], output: str, **settings: Any) -> str:
        """One step by an operator of ONNX Runtime's own."""
        return self.node(operator, inputs, output, domain=MICROSOFT[0], **settings)

    def embeddings(self) -> str:
        """Token ids -> what the first layer reads."""
        table, scale = quantized(self.weights["embeddings.word_embeddings.weight"], 1, EMBEDDING_LEVELS)
        words = self.node("Gather", [self.constant("words", table), "input_ids"], "words_int8")
        scales = self.node("Gather", [self.constant("words_scale", scale), "input_ids"], "words_scales")
        words = self.node("Cast", [words], "words_float", to=1)
        words = self.node("Mul", [words, scales], "words_scaled")
        return self.node("Add", [words, self._positions()], "words_placed")

    def _positions(self) -> str:
        table = self.constant("positions", positions(self.weights))
        zero = self.constant("zero", np.array([0], np.int64))
        length = self.node("Shape", ["input_ids"], "length", start=1, end=2)
        return self.node("Slice", [table, zero, length, zero], "positions_used")

    def normalised(self, x: str, name: str) -> str:
        """LayerNorm."""
        scale = self.constant(f"{name}.weight", self.weights[f"{name}.weight"])
        bias = self.constant(f"{name}.bias", self.weights[f"{name}.bias"])
        return self.node("LayerNormalization", [x, scale, bias], name, axis=-1, epsilon=EPSILON)

    def divided(self, x: str, name: str) -> str:
        """The input of product `name`, its outliers divided."""
        divisor = self.constant(f"{name}.divisor", (1 / self.divisors[name]).astype(np.float32))
        return self.node("Mul", [x, divisor], f"{name}.divided")

    def product(self, x: str, name: str, divided_as: str) -> str:
        """x times a weight matrix, plus its bias, in int8."""
        matrix = (self.weights[f"{name}.weight"] * self.divisors[divided_as]).T
        table, scale = quantized(matrix, 0, WEIGHT_LEVELS)
        inputs = [
            x,
            self.constant(f"{name}.weight", table),
            self.constant(f"{name}.scale", scale[0]),
            self.constant(f"{name}.zero", np.zeros(len(scale[0]), np.int8)),
            self.constant(f"{name}.bias", self.weights[f"{name}.bias"]),
        ]
        return self.microsoft("DynamicQuantizeMatMul", inputs, name)

    def attention(self, x: str, name: str) -> str:
        """Query, key and value read the same input, so they share its divisor."""
        shared = self.divided(x, f"{name}.query")
        parts = [
            self.product(shared, f"{name}.{part}", f"{name}.query") for part in ("query", "key", "value")
        ]
        return self.microsoft("MultiHeadAttention", [*parts, "", "mask_int"], name, num_heads=HEADS)

    def plain_product(self, x: str, name: str) -> str:
        """A product and the division before it."""
        return self.product(self.divided(x, name), name, name)

    def layer(self, x: str, name: str) -> str:
        """One transformer layer."""
        attended = self.attention(x, f"{name}.attention.self")
        attended = self.plain_product(attended, f"{name}.attention.output.dense")
        attended = self.node("Add", [attended, x], f"{name}.attention.sum")
        x = self.normalised(attended, f"{name}.attention.output.LayerNorm")
        inner = self.microsoft("Gelu", [self.plain_product(x, f"{name}.intermediate.dense")], f"{name}.gelu")
        out = self.node("Add", [self.plain_product(inner, f"{name}.output.dense"), x], f"{name}.sum")
        return self.normalised(out, f"{name}.output.LayerNorm")

    def pooled(self, x: str) -> str:
        """Mean over the mask; its length is made 1 next, so that the sum does."""
        one = self.constant("one", np.array([1], np.int64))
        mask = self.node(
            "Unsqueeze", [self.node("Cast", ["attention_mask"], "mask_float", to=1), one], "mask_row"
        )
        return self.node("Squeeze", [self.node("MatMul", [mask, x], "sums"), one], "sum")


def encoder(weights: Weights, divisors: Weights) -> ModelProto:
    """The whole graph: token ids and mask in, unit vectors out."""
    from onnx import TensorProto, helper

    graph = Graph(weights, divisors)
    graph.node("Cast", ["attention_mask"], "mask_int", to=TensorProto.INT32)
    x = graph.normalised(graph.embeddings(), "embeddings.LayerNorm")
    for layer in range(LAYERS):
        x = graph.layer(x, f"encoder.layer.{layer}")
    graph.node("LpNormalization", [graph.pooled(x)], "embedding", axis=-1, p=2)
    shape = ["texts", "tokens"]
    inputs = [
        helper.make_tensor_value_info(n, TensorProto.INT64, shape) for n in ("input_ids", "attention_mask")
    ]
    outputs = [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["texts", HIDDEN])]
    body = helper.make_graph(graph.nodes, "all-MiniLM-L6-v2", inputs, outputs, graph.constants)
    domains = [helper.make_opsetid(*DEFAULT_DOMAIN), helper.make_opsetid(*MICROSOFT)]
    return helper.make_model(body, opset_imports=domains, ir_version=9, producer_name="history-lineage")
