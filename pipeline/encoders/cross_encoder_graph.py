"""Builder of the ONNX graph of the cross-encoder from the bundled weights, in full precision or int8.

Question and text go through the first layers separately and through the last ones together. The score combines the
similarity of their tokens before and after the joint layers (MaxSim of late interaction: Khattab and Zaharia, 2020),
the cosine of their mean vectors, and a small dense layer over both means. Tensor names such as `telling` and `apart`
are those of the bundled file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.encoders import onnx_graph
from pipeline.encoders.minilm_numpy import HIDDEN_SIZE
from pipeline.encoders.onnx_graph import OPSET, Tensors, TransformerGraph
from pipeline.encoders.quantization import MICROSOFT, WEIGHT_LEVELS, quantize
from pipeline.options import Precision

CROSS_ENCODER_FILE: Final = "cross.npz"
SIDES: Final = ("question", "text")


def load_weights(file: Path) -> Tensors:
    """Load all tensors of a file as float32; the file has float16."""
    with file.open("rb") as opened, np.load(opened) as arrays:
        return {name: arrays[name].astype(np.float32) for name in arrays.files}


@dataclass(frozen=True, slots=True)
class _CrossEncoderGraph(TransformerGraph):
    """Graph over the tensors of `source`. Every method adds nodes and returns the name of its output."""

    source: Tensors = field(default_factory=dict)
    precision: Precision = Precision.FULL

    def get_weight(self, name: str) -> NDArray[Any]:
        return self.source[name]

    def linear(self, x: str, name: str, label: str) -> str:
        matrix = self.source[f"{name}.weight"].T
        if self.precision is Precision.FULL:
            product = self.node("MatMul", [x, self.constant(f"{name}.matrix", matrix)], f"{label}.product")
            return self.node("Add", [product, self.model_tensor(f"{name}.bias")], label)
        table, scale = quantize(matrix, 0, WEIGHT_LEVELS)
        inputs = [
            x,
            self.constant(f"{name}.table", table),
            self.constant(f"{name}.scale", scale[0]),
            self.constant(f"{name}.zero", np.zeros(len(scale[0]), np.int8)),
            self.model_tensor(f"{name}.bias"),
        ]
        return self.node("DynamicQuantizeMatMul", inputs, label, domain=MICROSOFT[0])

    def max_similarity(self, sides: Sequence[str], name: str) -> str:
        """Add MaxSim: each question token's best cosine with a text token, averaged by the tokens' importance."""
        units = [self.normalize_rows(x, f"{x}.{name}.unit") for x in sides]
        transposed = self.node("Transpose", [units[1]], f"{name}.transposed", perm=(0, 2, 1))
        products = self.node("MatMul", [units[0], transposed], f"{name}.products")
        nearest = self.node("ReduceMax", [products], f"{name}.nearest", axes=(2,), keepdims=0)
        importance = self.token_importance(sides[0], name)
        weighted = self.node("Mul", [nearest, importance], f"{name}.weighted")
        total, weight = self.sum_rows(weighted, f"{name}.total"), self.sum_rows(importance, f"{name}.weight")
        return self.node("Div", [total, weight], name)

    def token_importance(self, question: str, name: str) -> str:
        """Add the importance of each question token, between 0 and 1."""
        matrix = self.constant("telling.matrix", self.source["telling.weight"].T)
        logits = self.node("MatMul", [question, matrix], f"{name}.product")
        logits = self.node("Add", [logits, self.model_tensor("telling.bias")], f"{name}.logits")
        importance = self.node("Sigmoid", [logits], f"{name}.sigmoid")
        return self.node("Squeeze", [importance, "last"], f"{name}.importance")

    def normalize_rows(self, x: str, name: str) -> str:
        """Scale each row to length 1."""
        return self.node("LpNormalization", [x], name, axis=-1, p=2)

    def sum_rows(self, x: str, name: str) -> str:
        """Add the sum of each row."""
        return self.node("ReduceSum", [x, "second"], name, keepdims=1)

    def encode_separately(self) -> list[str]:
        """Run question and text through the first layers separately; return both outputs."""
        outputs = [self.layer_norm(side, "embeddings.LayerNorm", f"{side}.normalized") for side in SIDES]
        for layer in range(int(self.source["apart"])):
            outputs = [
                self.layer(x, f"layer.{layer}", f"{side}.{layer}")
                for x, side in zip(outputs, SIDES, strict=True)
            ]
        return outputs

    def encode_jointly(self, inputs: Sequence[str]) -> list[str]:
        """Run question and text through the remaining layers together; return both outputs."""
        marked = [
            self.node("Add", [x, self.constant(f"{side}.side", vector)], f"{side}.marked")
            for x, side, vector in zip(inputs, SIDES, self.source["side"], strict=True)
        ]
        x = self.node("Concat", marked, "both", axis=1)
        for layer in range(int(self.source["apart"]), int(self.source["layers"])):
            x = self.layer(x, f"layer.{layer}")
        length = self.node("Shape", [SIDES[0]], "length", start=1, end=2)
        question = self.node("Slice", [x, "zero", length, "second"], "question.joint")
        return [question, self.node("Slice", [x, length, "end", "second"], "text.joint")]

    def mean_cosine(self, means: Sequence[str]) -> str:
        """Add the cosine of both sides' means."""
        units = [self.normalize_rows(x, f"{x}.unit") for x in means]
        return self.sum_rows(self.node("Mul", units, "cosine.products"), "cosine")

    def joint_layer(self, means: Sequence[str]) -> str:
        """Add the small dense layer over both means."""
        product = self.node("Mul", [self.node("Mul", means, "means.product"), "ten"], "means.scaled")
        both = self.node("Concat", [product, self.node("Add", means, "means.sum")], "means", axis=1)
        return self.node("Tanh", [self.linear(both, "joint", "joint")], "hidden")

    def build_score(self) -> str:
        """Add the whole model; its output is `score`."""
        separate = self.encode_separately()
        joint = self.encode_jointly(separate)
        means = [self.node("ReduceMean", [x], f"{x}.mean", axes=(1,), keepdims=0) for x in joint]
        parts = [
            self.max_similarity(separate, "separate similarity"),
            self.max_similarity(joint, "joint similarity"),
            self.mean_cosine(means),
            self.joint_layer(means),
        ]
        matrix = np.concatenate([self.source["scale"], self.source["out.weight"][0]])[:, None]
        joined = self.node("Concat", parts, "parts", axis=1)
        summed = self.node("MatMul", [joined, self.constant("out.matrix", matrix)], "summed")
        return self.node("Add", [summed, self.model_tensor("out.bias")], "score")

    def add_constants(self) -> None:
        """Add the numbers that the graph's nodes use."""
        self.add_shared_constants()
        axes = {"zero": 0, "second": 1, "last": 2, "end": np.iinfo(np.int64).max}
        for name, axis in axes.items():
            self.constant(name, np.array([axis], np.int64))
        self.constant("ten", np.array(10.0, np.float32))


def build_model(source: Tensors, precision: Precision) -> bytes:
    """Return the serialized ONNX model.

    Inputs: `question` and `text`, arrays of shape (1, tokens, HIDDEN_SIZE) from `TokenEmbeddings`. Output: `score`,
    shape (1, 1).
    """
    graph = _CrossEncoderGraph(is_padded=False, source=source, precision=precision)
    graph.add_constants()
    graph.build_score()
    tokens = {side: (1, f"{side} tokens", HIDDEN_SIZE) for side in SIDES}
    return onnx_graph.serialize_model(
        "cross-encoder", graph.nodes, graph.tensors, inputs=tokens, outputs={"score": (1, 1)}, opset=OPSET
    )
