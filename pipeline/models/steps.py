"""A transformer's steps as a graph of ONNX's own operators, written without the `onnx` package.

Where weights come from, and how a matrix product is done, is for those who derive from `Steps` to say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.models.bert import EPSILON, HEADS, HIDDEN
from pipeline.models.wire import Node, Tensors

# The first one whose LayerNormalization is a step of its own.
OPSET: Final = 17


@dataclass(frozen=True, slots=True)
class Steps(ABC):
    """Steps and constants in the order they are added; every method gives the name of its output.

    `masked` says that texts are filled to one length, and `filled` names what tells so. A layer that is used twice
    has its weights once, and its steps under a label of their own each time.
    """

    masked: bool
    nodes: list[Node] = field(default_factory=list)
    tensors: Tensors = field(default_factory=dict)

    @abstractmethod
    def weight(self, name: str) -> NDArray[Any]:
        """A tensor of the model."""

    @abstractmethod
    def product(self, x: str, name: str, label: str) -> str:
        """x times a matrix plus its bias."""

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """A tensor that ships with the graph, once."""
        self.tensors.setdefault(name, value)
        return name

    def kept(self, name: str) -> str:
        """A tensor of the model as it is."""
        return self.constant(name, self.weight(name))

    def node(
        self, operator: str, inputs: Sequence[str], output: str, *, domain: str = "", **settings: Any
    ) -> str:
        """One step."""
        self.nodes.append(Node(operator, inputs, output, settings, domain))
        return output

    def normalised(self, x: str, name: str, label: str = "") -> str:
        """LayerNorm."""
        parts = [x, self.kept(f"{name}.weight"), self.kept(f"{name}.bias")]
        return self.node("LayerNormalization", parts, label or name, axis=-1, epsilon=EPSILON)

    def heads(self, x: str, order: Sequence[int]) -> str:
        """Each head's part of the numbers, as a matrix of its own."""
        split = self.node("Reshape", [x, "split"], f"{x}.split")
        return self.node("Transpose", [split], f"{x}.heads", perm=order)

    def attention(self, x: str, name: str, label: str) -> str:
        """Every token with what it takes from the others."""
        query, key, value = (
            self.product(x, f"{name}.{part}", f"{label}.{part}") for part in ("query", "key", "value")
        )
        keys = self.heads(key, (0, 2, 3, 1))
        scores = self.node("MatMul", [self.heads(query, (0, 2, 1, 3)), keys], f"{label}.products")
        scores = self.node("Mul", [scores, "by_size"], f"{label}.scores")
        if self.masked:
            scores = self.node("Add", [scores, "filled"], f"{label}.masked")
        odds = self.node("Softmax", [scores], f"{label}.odds", axis=-1)
        mixed = self.node("MatMul", [odds, self.heads(value, (0, 2, 1, 3))], f"{label}.mixed")
        return self.node(
            "Reshape", [self.node("Transpose", [mixed], f"{label}.back", perm=(0, 2, 1, 3)), "joined"], label
        )

    def gelu(self, x: str, name: str) -> str:
        """x times the share of a normal distribution below x."""
        error = self.node("Erf", [self.node("Mul", [x, "root_half"], f"{name}.turned")], f"{name}.erf")
        share = self.node(
            "Mul", [self.node("Add", [error, "one"], f"{name}.raised"), "half"], f"{name}.share"
        )
        return self.node("Mul", [x, share], name)

    def layer(self, x: str, name: str, label: str = "") -> str:
        """One transformer layer."""
        label = label or name
        attended = self.attention(x, f"{name}.attention.self", f"{label}.attention.self")
        output, said = f"{name}.attention.output", f"{label}.attention.output"
        attended = self.product(attended, f"{output}.dense", f"{said}.dense")
        together = self.node("Add", [attended, x], f"{said}.sum")
        x = self.normalised(together, f"{output}.LayerNorm", f"{said}.LayerNorm")
        inner = self.product(x, f"{name}.intermediate.dense", f"{label}.intermediate.dense")
        out = self.product(self.gelu(inner, f"{label}.gelu"), f"{name}.output.dense", f"{label}.output.dense")
        together = self.node("Add", [out, x], f"{label}.output.sum")
        return self.normalised(together, f"{name}.output.LayerNorm", f"{label}.output.LayerNorm")

    def shared(self) -> None:
        """The numbers that every layer uses."""
        sizes = (0, 0, HEADS, HIDDEN // HEADS), (0, 0, HIDDEN)
        for name, size in zip(("split", "joined"), sizes, strict=True):
            self.constant(name, np.array(size, np.int64))
        numbers = {"one": 1.0, "half": 0.5, "root_half": 0.5**0.5, "by_size": (HEADS / HIDDEN) ** 0.5}
        for name, number in numbers.items():
            self.constant(name, np.array(number, np.float32))
