"""The cross-encoder as a graph, made from the bundled weights when it is loaded, in full precision or in int8.

A question and a text go through the first layers apart, as in the encoder that these began as, and through the last
one together. What says how well they fit: how near their tokens are to each other before that layer and behind it
(MaxSim, as late interaction has it: Khattab and Zaharia, 2020), how near their means are, and a small dense layer over
both means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.encoders import onnx_graph
from pipeline.encoders.minilm_numpy import HIDDEN
from pipeline.encoders.onnx_graph import OPSET, Steps, Tensors
from pipeline.encoders.quantization import MICROSOFT, WEIGHT_LEVELS, quantized
from pipeline.options import Precision

CROSS_ENCODER_FILE: Final = "cross.npz"
SIDES: Final = ("question", "text")


def weights(file: Path) -> Tensors:
    """Every tensor of a file, which has them in 16 bits, in 32."""
    with file.open("rb") as opened, np.load(opened) as kept:
        return {name: kept[name].astype(np.float32) for name in kept.files}


@dataclass(frozen=True, slots=True)
class _Cross(Steps):
    """The model's steps, over the tensors of `source`."""

    source: Tensors = field(default_factory=dict)
    precision: Precision = Precision.FULL

    def weight(self, name: str) -> NDArray[Any]:
        return self.source[name]

    def product(self, x: str, name: str, label: str) -> str:
        matrix = self.source[f"{name}.weight"].T
        if self.precision is Precision.FULL:
            product = self.node("MatMul", [x, self.constant(f"{name}.matrix", matrix)], f"{label}.product")
            return self.node("Add", [product, self.kept(f"{name}.bias")], label)
        table, scale = quantized(matrix, 0, WEIGHT_LEVELS)
        inputs = [
            x,
            self.constant(f"{name}.table", table),
            self.constant(f"{name}.scale", scale[0]),
            self.constant(f"{name}.zero", np.zeros(len(scale[0]), np.int8)),
            self.kept(f"{name}.bias"),
        ]
        return self.node("DynamicQuantizeMatMul", inputs, label, domain=MICROSOFT[0])

    def near(self, read: Sequence[str], name: str) -> str:
        """How near each of the question's tokens comes to one of the text's: a mean, weighed by the tokens."""
        units = [self.unit(x, f"{x}.{name}.unit") for x in read]
        turned = self.node("Transpose", [units[1]], f"{name}.turned", perm=(0, 2, 1))
        products = self.node("MatMul", [units[0], turned], f"{name}.products")
        nearest = self.node("ReduceMax", [products], f"{name}.nearest", axes=(2,), keepdims=0)
        worth = self.worth(read[0], name)
        weighed = self.node("Mul", [nearest, worth], f"{name}.weighed")
        return self.node(
            "Div", [self.summed(weighed, f"{name}.total"), self.summed(worth, f"{name}.all")], name
        )

    def worth(self, question: str, name: str) -> str:
        """How telling each of its tokens is."""
        matrix = self.constant("telling.matrix", self.source["telling.weight"].T)
        said = self.node("MatMul", [question, matrix], f"{name}.said")
        said = self.node("Add", [said, self.kept("telling.bias")], f"{name}.told")
        return self.node("Squeeze", [self.node("Sigmoid", [said], f"{name}.worths"), "last"], f"{name}.worth")

    def unit(self, x: str, name: str) -> str:
        """Every row at length 1."""
        return self.node("LpNormalization", [x], name, axis=-1, p=2)

    def summed(self, x: str, name: str) -> str:
        """The sum of each row."""
        return self.node("ReduceSum", [x, "second"], name, keepdims=1)

    def apart(self) -> list[str]:
        """Both sides as the first layers leave them."""
        read = [self.normalised(side, "embeddings.LayerNorm", f"{side}.placed") for side in SIDES]
        for layer in range(int(self.source["apart"])):
            read = [
                self.layer(x, f"layer.{layer}", f"{side}.{layer}")
                for x, side in zip(read, SIDES, strict=True)
            ]
        return read

    def together(self, read: Sequence[str]) -> list[str]:
        """Both sides as the layers leave them that read one beside the other."""
        sides = [
            self.node("Add", [x, self.constant(f"{side}.side", self.source["side"][place])], f"{side}.marked")
            for place, (x, side) in enumerate(zip(read, SIDES, strict=True))
        ]
        x = self.node("Concat", sides, "both", axis=1)
        for layer in range(int(self.source["apart"]), int(self.source["layers"])):
            x = self.layer(x, f"layer.{layer}")
        length = self.node("Shape", [SIDES[0]], "length", start=1, end=2)
        question = self.node("Slice", [x, "zero", length, "second"], "question.read")
        return [question, self.node("Slice", [x, length, "end", "second"], "text.read")]

    def alike(self, means: Sequence[str]) -> str:
        """The cosine of both sides' means."""
        units = [self.unit(x, f"{x}.unit") for x in means]
        return self.summed(self.node("Mul", units, "alike"), "likeness")

    def hidden(self, means: Sequence[str]) -> str:
        """The small dense layer over both means."""
        product = self.node("Mul", [self.node("Mul", means, "means.product"), "ten"], "means.raised")
        both = self.node("Concat", [product, self.node("Add", means, "means.sum")], "means", axis=1)
        return self.node("Tanh", [self.product(both, "joint", "joint")], "hidden")

    def fit(self) -> str:
        """The model's score."""
        read = self.apart()
        before = self.near(read, "near before")
        read = self.together(read)
        means = [self.node("ReduceMean", [x], f"{x}.mean", axes=(1,), keepdims=0) for x in read]
        parts = [before, self.near(read, "near behind"), self.alike(means), self.hidden(means)]
        matrix = np.concatenate([self.source["scale"], self.source["out.weight"][0]])[:, None]
        joined = self.node("Concat", parts, "parts", axis=1)
        summed = self.node("MatMul", [joined, self.constant("out.matrix", matrix)], "summed")
        return self.node("Add", [summed, self.kept("out.bias")], "score")

    def numbers(self) -> None:
        """Numbers that its own steps use."""
        self.shared()
        axes = {"zero": 0, "second": 1, "last": 2, "end": np.iinfo(np.int64).max}
        for name, axis in axes.items():
            self.constant(name, np.array([axis], np.int64))
        self.constant("ten", np.array(10.0, np.float32))


def made(source: Tensors, precision: Precision) -> bytes:
    """The whole file.

    In: `question` and `text`, a row of numbers for each token, its word's and its position's. Out: `score`.
    """
    graph = _Cross(masked=False, source=source, precision=precision)
    graph.numbers()
    graph.fit()
    tokens = {side: (1, f"{side} tokens", HIDDEN) for side in SIDES}
    return onnx_graph.model(
        "cross-encoder", graph.nodes, graph.tensors, inputs=tokens, outputs={"score": (1, 1)}, opset=OPSET
    )
