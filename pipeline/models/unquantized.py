"""The bundled encoder with its weights as 32-bit floats: what graphics and neural processors run fast.

Made from the bundled file, so that nothing is downloaded and both forms are one model. Only steps that every
provider has are in it: looking up tokens before it and making lengths 1 after it are left to numpy, so that no
step has to go back to the CPU. Each number of it is the product of numbers of the bundled file, rounded as IEEE
754 says: the file is the same to the byte wherever it is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.models import wire
from pipeline.models.bert import EPSILON, HEADS, HIDDEN, LAYERS
from pipeline.models.wire import Node, Tensors

BUNDLED: Final = Path(__file__).with_name("minilm.onnx")
# The first one whose LayerNormalization is a step of its own.
OPSET: Final = 17
# Adds nothing to a token that is there, and takes one that only fills a row out of every softmax.
FILLED: Final = np.float32(-10_000)


@dataclass(frozen=True, slots=True)
class Words:
    """What the first layer reads of a token: its word's row, times its scale, and its position's."""

    table: NDArray[np.int8]
    scales: NDArray[np.float32]
    positions: NDArray[np.float32]

    @classmethod
    def bundled(cls) -> Words:
        """Those of the bundled encoder."""
        tensors = wire.constants(BUNDLED.read_bytes())
        return cls(tensors["words"], tensors["words_scale"], tensors["positions"])

    def placed(self, tokens: NDArray[np.int64]) -> NDArray[np.float32]:
        """Rows of token ids -> rows of rows of numbers."""
        rows = self.table[tokens].astype(np.float32) * self.scales[tokens]
        return rows + self.positions[: tokens.shape[1]]


@dataclass(frozen=True, slots=True)
class _Graph:
    """Steps and constants in the order they are added; every method gives the name of its output."""

    source: Tensors
    nodes: list[Node] = field(default_factory=list)
    tensors: Tensors = field(default_factory=dict)

    def constant(self, name: str, value: NDArray[Any]) -> str:
        self.tensors[name] = value
        return name

    def kept(self, name: str) -> str:
        return self.constant(name, self.source[name])

    def node(self, operator: str, inputs: Sequence[str], output: str, **settings: Any) -> str:
        self.nodes.append(Node(operator, inputs, output, settings))
        return output

    def normalised(self, x: str, name: str) -> str:
        parts = [x, self.kept(f"{name}.weight"), self.kept(f"{name}.bias")]
        return self.node("LayerNormalization", parts, name, axis=-1, epsilon=EPSILON)

    def product(self, x: str, name: str, divided_as: str) -> str:
        """x times a matrix plus its bias; the input's division is in the matrix."""
        divisor = self.source[f"{divided_as}.divisor"]
        table = self.source[f"{name}.weight"].astype(np.float32) * self.source[f"{name}.scale"]
        matrix = self.constant(f"{name}.matrix", table * divisor[:, None])
        return self.node(
            "Add", [self.node("MatMul", [x, matrix], f"{name}.product"), self.kept(f"{name}.bias")], name
        )

    def heads(self, x: str, order: Sequence[int]) -> str:
        """Each head's part of the numbers, as a matrix of its own."""
        split = self.node("Reshape", [x, "split"], f"{x}.split")
        return self.node("Transpose", [split], f"{x}.heads", perm=order)

    def attention(self, x: str, name: str) -> str:
        query, key, value = (
            self.product(x, f"{name}.{part}", f"{name}.query") for part in ("query", "key", "value")
        )
        keys = self.heads(key, (0, 2, 3, 1))
        scores = self.node("MatMul", [self.heads(query, (0, 2, 1, 3)), keys], f"{name}.products")
        scores = self.node("Mul", [scores, "by_size"], f"{name}.scores")
        scores = self.node("Add", [scores, "filled"], f"{name}.masked")
        odds = self.node("Softmax", [scores], f"{name}.odds", axis=-1)
        mixed = self.node("MatMul", [odds, self.heads(value, (0, 2, 1, 3))], f"{name}.mixed")
        return self.node(
            "Reshape", [self.node("Transpose", [mixed], f"{name}.back", perm=(0, 2, 1, 3)), "joined"], name
        )

    def gelu(self, x: str, name: str) -> str:
        error = self.node("Erf", [self.node("Mul", [x, "root_half"], f"{name}.turned")], f"{name}.erf")
        share = self.node(
            "Mul", [self.node("Add", [error, "one"], f"{name}.raised"), "half"], f"{name}.share"
        )
        return self.node("Mul", [x, share], name)

    def layer(self, x: str, name: str) -> str:
        attended = self.attention(x, f"{name}.attention.self")
        output = f"{name}.attention.output"
        attended = self.product(attended, f"{output}.dense", f"{output}.dense")
        x = self.normalised(self.node("Add", [attended, x], f"{output}.sum"), f"{output}.LayerNorm")
        inner = self.product(x, f"{name}.intermediate.dense", f"{name}.intermediate.dense")
        out = self.product(self.gelu(inner, f"{name}.gelu"), f"{name}.output.dense", f"{name}.output.dense")
        return self.normalised(self.node("Add", [out, x], f"{name}.output.sum"), f"{name}.output.LayerNorm")

    def shared(self) -> None:
        """The numbers that every layer uses."""
        sizes = (0, 0, HEADS, HIDDEN // HEADS), (0, 0, HIDDEN)
        for name, size in zip(("split", "joined"), sizes, strict=True):
            self.constant(name, np.array(size, np.int64))
        numbers = {"one": 1.0, "half": 0.5, "root_half": 0.5**0.5, "by_size": (HEADS / HIDDEN) ** 0.5}
        for name, number in numbers.items():
            self.constant(name, np.array(number, np.float32))


def made() -> bytes:
    """The whole file.

    In: `placed`, what `Words` gives; `filled`, 0 or FILLED for each token; `counted`, 1 or 0 for each token.
    Out: `sum`, the sum of what was made of the tokens that count.
    """
    graph = _Graph(wire.constants(BUNDLED.read_bytes()))
    graph.shared()
    x = graph.normalised("placed", "embeddings.LayerNorm")
    for layer in range(LAYERS):
        x = graph.layer(x, f"encoder.layer.{layer}")
    graph.node("MatMul", ["counted", x], "sum")
    return wire.model(
        "all-MiniLM-L6-v2",
        graph.nodes,
        graph.tensors,
        inputs={
            "placed": ("texts", "tokens", HIDDEN),
            "filled": ("texts", 1, 1, "tokens"),
            "counted": ("texts", 1, "tokens"),
        },
        outputs={"sum": ("texts", 1, HIDDEN)},
        opset=OPSET,
    )
