"""MiniLM: reference implementation in NumPy, int8 quantization, and builder of the int8 ONNX graph.

The reference implementation finds outlier channels, and tests compare its vectors with those of the ONNX graphs. Only
the export uses the builder, which needs the `onnx` package; `pipeline.training.export` explains the quantization. Names
of nodes and constants are part of the bundled file, so renaming one changes the recorded digest of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnx import ModelProto


Floats = NDArray[np.float32]
NamedArrays = dict[str, Floats]
# Tensors by their names in the file of the original model.
Weights = NamedArrays

LAYER_COUNT: Final = 6
HEAD_COUNT: Final = 12
HIDDEN_SIZE: Final = 384
# Rows of the table of position embeddings. A text may have fewer tokens: see `MAX_TOKENS` in `pipeline.encoders.base`.
POSITION_COUNT: Final = 256
# Added to the variance in layer normalizations, against a division by zero.
EPSILON: Final = 1e-12

# A channel is an outlier if its peak (largest absolute value) is more than this many times the median peak of all
# channels. Of the ratios 1.5, 2, 3 and 4, this one gave the vectors closest to those in FP32.
OUTLIER_RATIO: Final = 3.0
# Number of random texts with which the outlier channels are found. Real hunks have the same outlier channels.
PROBE_COUNT: Final = 40
# Number of tokens in each random text.
PROBE_TOKENS: Final = 128
# Lowest token id of a random text. Lower ids are unused or stand for single characters.
FIRST_PROBE_TOKEN: Final = 1_000

# Largest absolute int8 value of a weight: 7 bits, so that AVX2's 16-bit sums of two u8 x s8 products do not overflow.
MAX_WEIGHT_CODE: Final = 63
# Largest absolute int8 value of a word embedding.
MAX_EMBEDDING_CODE: Final = 127

# Domain and version of the operator set of ONNX.
DEFAULT_OPSET: Final = ("", 18)
# Domain and version of the operator set that only ONNX Runtime has.
MICROSOFT_OPSET: Final = ("com.microsoft", 1)


@dataclass(frozen=True, slots=True)
class NumpyMiniLM:
    """Reference implementation of MiniLM, for one text at a time.

    `peaks`: largest absolute value of each input channel over all texts so far, by the name of the matrix product.
    """

    weights: Weights
    peaks: NamedArrays = field(default_factory=dict)

    def embed(self, tokens: Sequence[int]) -> Floats:
        """Return the unit vector of a text, given its token ids, at most POSITION_COUNT."""
        x = self._apply_layer_norm(
            get_position_embeddings(self.weights)[: len(tokens)] + self._look_up_words(tokens),
            "embeddings.LayerNorm",
        )
        for layer in range(LAYER_COUNT):
            x = self._apply_layer(x, f"encoder.layer.{layer}")
        mean = x.mean(0)
        unit: Floats = mean / np.linalg.norm(mean)
        return unit

    def _look_up_words(self, tokens: Sequence[int]) -> Floats:
        return self.weights["embeddings.word_embeddings.weight"][list(tokens)]

    def _apply_layer(self, x: Floats, name: str) -> Floats:
        attended = self._apply_linear(
            self._apply_attention(x, f"{name}.attention.self"), f"{name}.attention.output.dense"
        )
        x = self._apply_layer_norm(attended + x, f"{name}.attention.output.LayerNorm")
        inner = gelu(self._apply_linear(x, f"{name}.intermediate.dense"))
        return self._apply_layer_norm(
            self._apply_linear(inner, f"{name}.output.dense") + x, f"{name}.output.LayerNorm"
        )

    def _apply_attention(self, x: Floats, name: str) -> Floats:
        query, key, value = (
            self._apply_linear(x, f"{name}.{part}").reshape(len(x), HEAD_COUNT, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        scores = query @ key.swapaxes(1, 2) / np.sqrt(HIDDEN_SIZE / HEAD_COUNT)
        exponentials = np.exp(scores - scores.max(-1, keepdims=True))
        weighted: Floats = (exponentials / exponentials.sum(-1, keepdims=True)) @ value
        return weighted.swapaxes(0, 1).reshape(len(x), HIDDEN_SIZE)

    def _apply_linear(self, x: Floats, name: str) -> Floats:
        peak = np.abs(x).max(0)
        self.peaks[name] = np.maximum(self.peaks.get(name, peak), peak)
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _apply_layer_norm(self, x: Floats, name: str) -> Floats:
        centered = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt((centered**2).mean(-1, keepdims=True) + EPSILON)
        scaled: Floats = centered / deviation * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]
        return scaled


def gelu(x: Floats) -> Floats:
    """Return the GELU activation: x times the standard normal CDF at x.

    The error function is approximated by formula 7.1.26 of Abramowitz and Stegun.
    """
    t = 1 / (1 + 0.3275911 * np.abs(x) / np.sqrt(2))
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(x) * (1 - series * np.exp(-(x**2) / 2))
    result: Floats = (0.5 * x * (1 + erf)).astype(np.float32)
    return result


def get_position_embeddings(weights: Weights) -> Floats:
    """Return position embeddings plus the embedding of the only token type: shape (POSITION_COUNT, HIDDEN_SIZE)."""
    table = (
        weights["embeddings.position_embeddings.weight"]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    positions: Floats = table[:POSITION_COUNT]
    return positions


def compute_outlier_divisors(weights: Weights) -> NamedArrays:
    """Return a divisor per input channel of each matrix product, by the product's name.

    The peaks of random texts decide: the divisor is 1 for most channels, and larger for outliers. Divisors are rounded,
    because the last bits of a matrix product differ between machines, and the bundled file must not.
    """
    model = NumpyMiniLM(weights)
    random = np.random.default_rng(0)
    vocabulary_size = len(weights["embeddings.word_embeddings.weight"])
    for _ in range(PROBE_COUNT):
        model.embed(random.integers(FIRST_PROBE_TOKEN, vocabulary_size, PROBE_TOKENS).tolist())
    return {
        name: np.maximum(1, np.round(peak / (OUTLIER_RATIO * np.median(peak)), 2))
        for name, peak in model.peaks.items()
    }


def quantize(table: Floats, axis: int, max_code: int) -> tuple[NDArray[np.int8], Floats]:
    """Quantize a matrix to int8. Return the codes, and the scales to multiply them by.

    `max_code`: largest absolute code. `axis`: 0 for one scale per column, 1 for one per row.
    """
    peaks = np.maximum(np.abs(table).max(axis, keepdims=True), np.finfo(np.float32).tiny)
    scales = (peaks / max_code).astype(np.float32)
    return np.round(table / scales).astype(np.int8), scales


@dataclass(frozen=True, slots=True)
class QuantizedGraphBuilder:
    """Builder of the int8 graph. A method that adds nodes or a constant returns the name of the output or constant.

    `x` is the name of an input, and `name` the name of the weights and the output.
    `divisors`: result of `compute_outlier_divisors`. The graph divides each input channel by its divisor, and its
    weights are multiplied by the divisor. An outlier channel would otherwise set the scale of all channels.
    """

    weights: Weights
    divisors: NamedArrays
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
        """Add a node with one output; return the name of the output."""
        from onnx import helper

        self.nodes.append(helper.make_node(operator, inputs, [output], output, domain=domain, **attributes))
        return output

    def add_microsoft_node(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Add a node with an operator that only ONNX Runtime has."""
        return self.add_node(operator, inputs, output, domain=MICROSOFT_OPSET[0], **attributes)

    def add_embeddings(self) -> str:
        """Add the lookup of word and position embeddings, and their sum."""
        from onnx import TensorProto

        codes, scales = quantize(self.weights["embeddings.word_embeddings.weight"], 1, MAX_EMBEDDING_CODE)
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
        """Add the division of the outlier channels of x, which is the input of the matrix product `name`."""
        reciprocals = self.add_constant(f"{name}.divisor", (1 / self.divisors[name]).astype(np.float32))
        return self.add_node("Mul", [x, reciprocals], f"{name}.divided")

    def add_linear(self, x: str, name: str, divisor_name: str) -> str:
        """Add the product of x and a weight matrix in int8, plus a bias.

        `divisor_name`: name of the matrix product by whose divisors x is divided.
        """
        matrix = (self.weights[f"{name}.weight"] * self.divisors[divisor_name]).T
        codes, scales = quantize(matrix, 0, MAX_WEIGHT_CODE)
        inputs = [
            x,
            self.add_constant(f"{name}.weight", codes),
            self.add_constant(f"{name}.scale", scales[0]),
            self.add_constant(f"{name}.zero", np.zeros(len(scales[0]), np.int8)),
            self.add_constant(f"{name}.bias", self.weights[f"{name}.bias"]),
        ]
        return self.add_microsoft_node("DynamicQuantizeMatMul", inputs, name)

    def add_attention(self, x: str, name: str) -> str:
        """Add multi-head attention. Query, key and value have the same input, so all use the divisors of the query."""
        divided = self.divide_outliers(x, f"{name}.query")
        inputs = [
            self.add_linear(divided, f"{name}.{part}", f"{name}.query") for part in ("query", "key", "value")
        ]
        return self.add_microsoft_node(
            "MultiHeadAttention", [*inputs, "", "mask_int"], name, num_heads=HEAD_COUNT
        )

    def add_scaled_linear(self, x: str, name: str) -> str:
        """Add the division of the outlier channels of x, then the linear layer `name`."""
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
        """Add the sum of the token vectors of each text. Once normalized, it equals the normalized mean."""
        from onnx import TensorProto

        token_axis = self.add_constant("one", np.array([1], np.int64))
        mask = self.add_node("Cast", ["attention_mask"], "mask_float", to=TensorProto.FLOAT)
        mask = self.add_node("Unsqueeze", [mask, token_axis], "mask_row")
        return self.add_node("Squeeze", [self.add_node("MatMul", [mask, x], "sums"), token_axis], "sum")


def build_encoder(weights: Weights, divisors: NamedArrays) -> ModelProto:
    """Build the int8 ONNX model.

    Inputs: `input_ids` and `attention_mask`, int64 of shape (texts, tokens). Output: `embedding`, unit vectors of shape
    (texts, HIDDEN_SIZE).
    """
    from onnx import TensorProto, helper

    graph = QuantizedGraphBuilder(weights, divisors)
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
    domains = [helper.make_opsetid(*DEFAULT_OPSET), helper.make_opsetid(*MICROSOFT_OPSET)]
    return helper.make_model(body, opset_imports=domains, ir_version=9, producer_name="history-lineage")
