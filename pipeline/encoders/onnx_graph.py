"""ONNX graphs of the FP32 MiniLM model and of the cross-encoder, and lookup of their token embeddings.

- `TransformerGraph`: builder of transformer layers. Subclasses supply the weights and the matrix product.
- `TokenEmbeddings`: lookup of token embeddings in NumPy, for the FP32 encoder and the cross-encoder.
- `build_fp32_model`: an encoder with FP32 weights, either the query encoder, or the encoder of texts for GPUs and NPUs.
  The weights of the latter are computed from the bundled int8 file, so nothing is downloaded. Token lookup and
  normalization are done in NumPy, so that every node runs on every execution provider. The bytes of the model are the
  same on every machine, and the digest of the encoder of texts is checked.
- `build_cross_encoder`: the bundled cross-encoder in full precision or int8. Question and text pass the first layers
  separately and the last layers together. MaxSim is the weighted mean, over the question's tokens, of the best cosine
  with a token of the text (late interaction: Khattab and Zaharia, 2020). The score combines MaxSim before the last
  layers, MaxSim after them, the cosine of the two mean vectors, and a dense layer over the mean vectors.

Import this module only to load a model: it imports NumPy, which most commands do not need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.encoders import base
from pipeline.encoders.cross_encoder import MEANS_PRODUCT_SCALE, SEGMENTS
from pipeline.encoders.minilm import (
    EPSILON,
    HEAD_COUNT,
    HIDDEN_SIZE,
    LAYER_COUNT,
    MAX_WEIGHT_CODE,
    MICROSOFT_OPSET,
    quantize,
)
from pipeline.encoders.onnx_file import Node, Tensors, read_constants, serialize_model
from pipeline.options import Precision

# Version of ONNX's operators: the first one with LayerNormalization.
OPSET: Final = 17
# Tensors with an older name in the file of the cross-encoder: name in the file -> name in this module.
_OLD_NAMES: Final = {"telling.weight": "importance.weight", "telling.bias": "importance.bias"}
# Added to the attention scores of padding tokens, so that the softmax gives them no weight.
PADDING_BIAS: Final = np.float32(-10_000)


@dataclass(frozen=True, slots=True)
class TransformerGraph(ABC):
    """Builder of a transformer graph. It has nodes and constants (`tensors`) in the order in which they were added.

    A method that adds nodes returns the name of their output. `x` is the name of an input. In a method that has a
    parameter `label`, `name` is the prefix of the weights' names, and `label` the prefix of the nodes' names: a layer
    that is used twice has one `name`, but two labels.
    `is_padded`: whether texts are padded. Then the graph adds its input `padding_bias` to the attention scores.
    """

    is_padded: bool
    nodes: list[Node] = field(default_factory=list)
    tensors: Tensors = field(default_factory=dict)

    @abstractmethod
    def get_weight(self, name: str) -> NDArray[Any]:
        """Return the tensor of the model with this name."""

    @abstractmethod
    def add_linear(self, x: str, name: str, label: str) -> str:
        """Add the product of x and a weight matrix, plus a bias."""

    def add_constant(self, name: str, value: NDArray[Any]) -> str:
        """Add a constant tensor, unless the graph already has one of that name; return the name."""
        self.tensors.setdefault(name, value)
        return name

    def add_model_tensor(self, name: str) -> str:
        """Add a tensor of the model as a constant; return its name."""
        return self.add_constant(name, self.get_weight(name))

    def add_node(
        self, operator: str, inputs: Sequence[str], output: str, *, domain: str = "", **attributes: Any
    ) -> str:
        """Add a node with one output; return the name of the output."""
        self.nodes.append(Node(operator, inputs, output, attributes, domain))
        return output

    def add_layer_norm(self, x: str, name: str, label: str = "") -> str:
        """Add a layer normalization."""
        inputs = [x, self.add_model_tensor(f"{name}.weight"), self.add_model_tensor(f"{name}.bias")]
        return self.add_node("LayerNormalization", inputs, label or name, axis=-1, epsilon=EPSILON)

    def split_heads(self, x: str, order: Sequence[int]) -> str:
        """Add the split of the last axis into attention heads, and a transposition.

        `order`: order of the axes in the result: 0 for texts, 1 for tokens, 2 for heads, 3 for components of a head.
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
        """Add one transformer layer. `label` is `name` by default."""
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
        # In a Reshape, 0 keeps the size of a dimension.
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
    """Token embeddings and position embeddings, whose sum is the input of the first layer.

    `table`: quantized embedding of each token id, one per row. `scales`: factor of each row.
    `positions`: embedding of each position, one per row.
    """

    table: NDArray[np.int8]
    scales: NDArray[np.float32]
    positions: NDArray[np.float32]

    @classmethod
    def load_bundled(cls) -> TokenEmbeddings:
        """Load the embeddings of the bundled encoder."""
        tensors = read_constants((base.MODELS_DIR / base.ENCODER_FILE).read_bytes())
        # Without the copies, these views would hold the whole file in memory.
        return cls(*(tensors[name].copy() for name in ("words", "words_scale", "positions")))

    def look_up(self, tokens: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return an array of shape (texts, tokens, HIDDEN_SIZE). `tokens`: token ids, of shape (texts, tokens)."""
        embeddings = self.table[tokens].astype(np.float32) * self.scales[tokens]
        return embeddings + self.positions[: tokens.shape[1]]


@dataclass(frozen=True, slots=True)
class _Fp32Graph(TransformerGraph):
    """Builder of an encoder's layers with FP32 weights. `source`: weights as `read_encoder_weights` returns them."""

    source: Tensors = field(default_factory=dict)

    def get_weight(self, name: str) -> NDArray[Any]:
        return self.source[name]

    def add_linear(self, x: str, name: str, label: str) -> str:
        matrix = self.add_constant(f"{name}.matrix", self.source[f"{name}.weight"].T)
        product = self.add_node("MatMul", [x, matrix], f"{label}.product")
        return self.add_node("Add", [product, self.add_model_tensor(f"{name}.bias")], label)


def read_encoder_weights() -> Tensors:
    """Read the weights of the bundled int8 encoder, as FP32, under their names in the original model."""
    tensors = read_constants((base.MODELS_DIR / base.ENCODER_FILE).read_bytes())
    weights = {
        name: value for name, value in tensors.items() if ".LayerNorm." in name or name.endswith(".bias")
    }
    for name in tensors:
        if name.endswith(".scale"):
            layer = name.removesuffix(".scale")
            weights[f"{layer}.weight"] = _dequantize_matrix(tensors, layer).T
    positions = tensors["positions"]  # the sum of the embeddings of the position and of token type 0
    return weights | {
        "embeddings.word_embeddings.weight": tensors["words"].astype(np.float32) * tensors["words_scale"],
        "embeddings.position_embeddings.weight": positions,
        "embeddings.token_type_embeddings.weight": np.zeros_like(positions[:1]),
    }


def _dequantize_matrix(tensors: Tensors, name: str) -> NDArray[np.float32]:
    """Return the FP32 matrix of a linear layer, inputs as rows. `tensors`: tensors of the bundled int8 file."""
    # The int8 file has the weights of each input channel multiplied by a factor, and in `.divisor` the factor's
    # reciprocal. Key and value have the factors of the query.
    parent, _, part = name.rpartition(".")
    reciprocals = tensors[f"{parent}.{'query' if part in ('key', 'value') else part}.divisor"]
    weights = tensors[f"{name}.weight"].astype(np.float32) * tensors[f"{name}.scale"]
    return np.asarray(weights * reciprocals[:, None], np.float32)


def build_fp32_model(weights: Tensors) -> bytes:
    """Return the serialized FP32 model of an encoder. `weights`: as `read_encoder_weights` returns them.

    Inputs: `token_embeddings`, from `TokenEmbeddings`; `padding_bias`, 0 for each token and PADDING_BIAS for padding;
    `token_mask`, 1 for each token and 0 for padding. Output: `sum`, the sum of each text's token vectors.
    """
    graph = _Fp32Graph(is_padded=True, source=weights)
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


def load_weights(file: Path) -> Tensors:
    """Load the tensors of the cross-encoder or of the query encoder from an `.npz` file, as float32."""
    with file.open("rb") as stream, np.load(stream) as arrays:
        return {_OLD_NAMES.get(name, name): arrays[name].astype(np.float32) for name in arrays.files}


@dataclass(frozen=True, slots=True)
class _CrossEncoderGraph(TransformerGraph):
    """Builder of the cross-encoder. `source`: tensors of its file. Besides the transformer layers, these are:

    - `layers`: number of layers. `apart`: number of layers that question and text pass separately
    - `side`: segment embeddings, added to all tokens of question and text before the joint layers
    - `importance`: layer that computes the importance of a question token
    - `joint`: dense layer over the mean vectors of question and text
    - `scale`: weights of the three similarities in the score
    - `out`: weights of the dense layer's outputs in the score, and the bias of the score
    """

    source: Tensors = field(default_factory=dict)
    precision: Precision = Precision.FULL

    def get_weight(self, name: str) -> NDArray[Any]:
        return self.source[name]

    def add_linear(self, x: str, name: str, label: str) -> str:
        matrix = self.source[f"{name}.weight"].T
        if self.precision is Precision.FULL:
            product = self.add_node(
                "MatMul", [x, self.add_constant(f"{name}.matrix", matrix)], f"{label}.product"
            )
            return self.add_node("Add", [product, self.add_model_tensor(f"{name}.bias")], label)
        codes, scales = quantize(matrix, 0, MAX_WEIGHT_CODE)
        inputs = [
            x,
            self.add_constant(f"{name}.table", codes),
            self.add_constant(f"{name}.scale", scales[0]),
            self.add_constant(f"{name}.zero", np.zeros(len(scales[0]), np.int8)),
            self.add_model_tensor(f"{name}.bias"),
        ]
        return self.add_node("DynamicQuantizeMatMul", inputs, label, domain=MICROSOFT_OPSET[0])

    def add_max_similarity(self, segments: Sequence[str], name: str) -> str:
        """Add MaxSim: the best cosine of each question token with a text token, averaged with the importance as weight.

        `segments`: outputs of a layer for question and text.
        """
        question, text = (self.normalize_rows(x, f"{x}.{name}.unit") for x in segments)
        transposed = self.add_node("Transpose", [text], f"{name}.transposed", perm=(0, 2, 1))
        products = self.add_node("MatMul", [question, transposed], f"{name}.products")
        nearest = self.add_node("ReduceMax", [products], f"{name}.nearest", axes=(2,), keepdims=0)
        importance = self.add_token_importance(segments[0], name)
        weighted = self.add_node("Mul", [nearest, importance], f"{name}.weighted")
        weighted_sum = self.sum_rows(weighted, f"{name}.total")
        importance_sum = self.sum_rows(importance, f"{name}.weight")
        return self.add_node("Div", [weighted_sum, importance_sum], name)

    def add_token_importance(self, question: str, name: str) -> str:
        """Add the importance of each question token, between 0 and 1. `question`: output of a layer."""
        matrix = self.add_constant("importance.matrix", self.source["importance.weight"].T)
        logits = self.add_node("MatMul", [question, matrix], f"{name}.product")
        logits = self.add_node("Add", [logits, self.add_model_tensor("importance.bias")], f"{name}.logits")
        importance = self.add_node("Sigmoid", [logits], f"{name}.sigmoid")
        return self.add_node("Squeeze", [importance, "axis_2"], f"{name}.importance")

    def normalize_rows(self, x: str, name: str) -> str:
        """Add the scaling of each row to length 1."""
        return self.add_node("LpNormalization", [x], name, axis=-1, p=2)

    def sum_rows(self, x: str, name: str) -> str:
        """Add the sum of each row."""
        return self.add_node("ReduceSum", [x, "axis_1"], name, keepdims=1)

    def add_separate_layers(self) -> list[str]:
        """Add the first layers, once for the question and once for the text; return both outputs."""
        outputs = [
            self.add_layer_norm(segment, "embeddings.LayerNorm", f"{segment}.normalized")
            for segment in SEGMENTS
        ]
        for layer in range(int(self.source["apart"])):
            outputs = [
                self.add_layer(x, f"layer.{layer}", f"{segment}.{layer}")
                for x, segment in zip(outputs, SEGMENTS, strict=True)
            ]
        return outputs

    def add_joint_layers(self, inputs: Sequence[str]) -> list[str]:
        """Add the last layers, which question and text pass together; return the output for each of them."""
        marked = [
            self.add_node("Add", [x, self.add_constant(f"{segment}.side", vector)], f"{segment}.marked")
            for x, segment, vector in zip(inputs, SEGMENTS, self.source["side"], strict=True)
        ]
        x = self.add_node("Concat", marked, "both", axis=1)
        for layer in range(int(self.source["apart"]), int(self.source["layers"])):
            x = self.add_layer(x, f"layer.{layer}")
        length = self.add_node("Shape", [SEGMENTS[0]], "length", start=1, end=2)
        question = self.add_node("Slice", [x, "slice_start", length, "axis_1"], "question.joint")
        return [question, self.add_node("Slice", [x, length, "slice_end", "axis_1"], "text.joint")]

    def add_mean_cosine(self, means: Sequence[str]) -> str:
        """Add the cosine of `means`, the mean vectors of question and text."""
        units = [self.normalize_rows(x, f"{x}.unit") for x in means]
        return self.sum_rows(self.add_node("Mul", units, "cosine.products"), "cosine")

    def add_means_layer(self, means: Sequence[str]) -> str:
        """Add the dense layer over the product and the sum of `means`, the mean vectors of question and text."""
        product = self.add_node(
            "Mul", [self.add_node("Mul", means, "means.product"), "product_scale"], "means.scaled"
        )
        both = self.add_node("Concat", [product, self.add_node("Add", means, "means.sum")], "means", axis=1)
        return self.add_node("Tanh", [self.add_linear(both, "joint", "joint")], "hidden")

    def add_model(self) -> str:
        """Add the whole model; its output is `score`."""
        separate = self.add_separate_layers()
        joint = self.add_joint_layers(separate)
        means = [self.add_node("ReduceMean", [x], f"{x}.mean", axes=(1,), keepdims=0) for x in joint]
        features = [
            self.add_max_similarity(separate, "separate similarity"),
            self.add_max_similarity(joint, "joint similarity"),
            self.add_mean_cosine(means),
            self.add_means_layer(means),
        ]
        matrix = np.concatenate([self.source["scale"], self.source["out.weight"][0]])[:, None]
        joined = self.add_node("Concat", features, "parts", axis=1)
        summed = self.add_node("MatMul", [joined, self.add_constant("out.matrix", matrix)], "summed")
        return self.add_node("Add", [summed, self.add_model_tensor("out.bias")], "score")

    def add_number_constants(self) -> None:
        """Add the constants that the nodes use: axes, bounds of slices and factors."""
        self.add_shared_constants()
        integers = {"slice_start": 0, "axis_1": 1, "axis_2": 2, "slice_end": np.iinfo(np.int64).max}
        for name, number in integers.items():
            self.add_constant(name, np.array([number], np.int64))
        self.add_constant("product_scale", np.array(MEANS_PRODUCT_SCALE, np.float32))


def build_cross_encoder(source: Tensors, precision: Precision) -> bytes:
    """Return the serialized ONNX model.

    Inputs: `question` and `text`, arrays of shape (1, tokens, HIDDEN_SIZE) from `TokenEmbeddings`. Output: `score`,
    shape (1, 1).
    """
    graph = _CrossEncoderGraph(is_padded=False, source=source, precision=precision)
    graph.add_number_constants()
    graph.add_model()
    inputs = {segment: (1, f"{segment} tokens", HIDDEN_SIZE) for segment in SEGMENTS}
    return serialize_model(
        "cross-encoder", graph.nodes, graph.tensors, inputs=inputs, outputs={"score": (1, 1)}, opset=OPSET
    )
