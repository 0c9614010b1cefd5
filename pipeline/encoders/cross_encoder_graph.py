"""ONNX graph of the bundled cross-encoder, built from its weights in full precision or int8.

The two segments of the input, question and text, pass the first layers separately and the last ones together. The score
combines the similarity of their tokens before and after the last layers (MaxSim of late interaction: Khattab and
Zaharia, 2020), the cosine of their mean vectors, and a small dense layer over both means. This module imports NumPy,
which most commands do not need, so `cross_encoder` imports it only to load the model.

Tensors of the bundled file, besides those of the layers:

- `apart`, `layers`: numbers of separate and of all layers
- `side`: segment embeddings of question and text
- `importance`: layer for the importance of a question token; the file calls it by an older name
- `joint`: dense layer over both means
- `scale`: weights of the three similarities
- `out`: output layer
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.encoders.cross_encoder import MEANS_PRODUCT_SCALE, SEGMENTS
from pipeline.encoders.minilm import HIDDEN_SIZE, MAX_WEIGHT_CODE, MICROSOFT, quantize
from pipeline.encoders.onnx_file import Tensors, serialize_model
from pipeline.encoders.onnx_graph import OPSET, TransformerGraph
from pipeline.options import Precision

# Names of tensors in the bundled file that differ from those in this module.
_OLD_NAMES: Final = {"telling.weight": "importance.weight", "telling.bias": "importance.bias"}


def load_weights(file: Path) -> Tensors:
    """Load all tensors of a float16 `.npz` file as float32."""
    with file.open("rb") as stream, np.load(stream) as arrays:
        return {_OLD_NAMES.get(name, name): arrays[name].astype(np.float32) for name in arrays.files}


@dataclass(frozen=True, slots=True)
class _CrossEncoderGraph(TransformerGraph):
    """Graph with the weights of `source`, the tensors of the bundled file."""

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
        return self.add_node("DynamicQuantizeMatMul", inputs, label, domain=MICROSOFT[0])

    def add_max_similarity(self, segments: Sequence[str], name: str) -> str:
        """Add MaxSim: each question token's best cosine with a text token, averaged by the tokens' importance."""
        units = [self.normalize_rows(x, f"{x}.{name}.unit") for x in segments]
        transposed = self.add_node("Transpose", [units[1]], f"{name}.transposed", perm=(0, 2, 1))
        products = self.add_node("MatMul", [units[0], transposed], f"{name}.products")
        nearest = self.add_node("ReduceMax", [products], f"{name}.nearest", axes=(2,), keepdims=0)
        importance = self.add_token_importance(segments[0], name)
        weighted = self.add_node("Mul", [nearest, importance], f"{name}.weighted")
        total, weight = self.sum_rows(weighted, f"{name}.total"), self.sum_rows(importance, f"{name}.weight")
        return self.add_node("Div", [total, weight], name)

    def add_token_importance(self, question: str, name: str) -> str:
        """Add the importance of each question token, between 0 and 1."""
        matrix = self.add_constant("importance.matrix", self.source["importance.weight"].T)
        logits = self.add_node("MatMul", [question, matrix], f"{name}.product")
        logits = self.add_node("Add", [logits, self.add_model_tensor("importance.bias")], f"{name}.logits")
        importance = self.add_node("Sigmoid", [logits], f"{name}.sigmoid")
        return self.add_node("Squeeze", [importance, "axis_2"], f"{name}.importance")

    def normalize_rows(self, x: str, name: str) -> str:
        """Scale each row to length 1."""
        return self.add_node("LpNormalization", [x], name, axis=-1, p=2)

    def sum_rows(self, x: str, name: str) -> str:
        """Add the sum of each row."""
        return self.add_node("ReduceSum", [x, "axis_1"], name, keepdims=1)

    def encode_separately(self) -> list[str]:
        """Run question and text through the first layers separately; return both outputs."""
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

    def encode_jointly(self, inputs: Sequence[str]) -> list[str]:
        """Run question and text through the remaining layers together; return both outputs."""
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
        """Add the cosine of the mean vectors of question and text."""
        units = [self.normalize_rows(x, f"{x}.unit") for x in means]
        return self.sum_rows(self.add_node("Mul", units, "cosine.products"), "cosine")

    def add_means_layer(self, means: Sequence[str]) -> str:
        """Add the small dense layer over the product and the sum of both means."""
        product = self.add_node(
            "Mul", [self.add_node("Mul", means, "means.product"), "product_scale"], "means.scaled"
        )
        both = self.add_node("Concat", [product, self.add_node("Add", means, "means.sum")], "means", axis=1)
        return self.add_node("Tanh", [self.add_linear(both, "joint", "joint")], "hidden")

    def build_score(self) -> str:
        """Add the whole model; its output is `score`."""
        separate = self.encode_separately()
        joint = self.encode_jointly(separate)
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
        """Add the numbers that the nodes use: axes, positions and factors."""
        self.add_shared_constants()
        integers = {"slice_start": 0, "axis_1": 1, "axis_2": 2, "slice_end": np.iinfo(np.int64).max}
        for name, number in integers.items():
            self.add_constant(name, np.array([number], np.int64))
        self.add_constant("product_scale", np.array(MEANS_PRODUCT_SCALE, np.float32))


def build_model(source: Tensors, precision: Precision) -> bytes:
    """Return the serialized ONNX model.

    Inputs: `question` and `text`, arrays of shape (1, tokens, HIDDEN_SIZE) from `TokenEmbeddings`. Output: `score`,
    shape (1, 1).
    """
    graph = _CrossEncoderGraph(is_padded=False, source=source, precision=precision)
    graph.add_number_constants()
    graph.build_score()
    inputs = {segment: (1, f"{segment} tokens", HIDDEN_SIZE) for segment in SEGMENTS}
    return serialize_model(
        "cross-encoder", graph.nodes, graph.tensors, inputs=inputs, outputs={"score": (1, 1)}, opset=OPSET
    )
