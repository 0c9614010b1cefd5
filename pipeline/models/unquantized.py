"""The bundled encoder with its weights as 32-bit floats: what graphics and neural processors run fast.

Made from the bundled file, so that nothing is downloaded and both forms are one model. Only steps that every
provider has are in it: looking up tokens before it and making lengths 1 after it are left to numpy, so that no
step has to go back to the CPU. Each number of it is the product of numbers of the bundled file, rounded as IEEE
754 says: the file is the same to the byte wherever it is made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.models import wire
from pipeline.models.bert import HIDDEN, LAYERS
from pipeline.models.steps import OPSET, Steps
from pipeline.models.wire import Tensors

BUNDLED: Final = Path(__file__).with_name("minilm.onnx")
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
        # Copies: the others, which are read from the same bytes, need not stay.
        return cls(*(tensors[name].copy() for name in ("words", "words_scale", "positions")))

    def placed(self, tokens: NDArray[np.int64]) -> NDArray[np.float32]:
        """Rows of token ids -> rows of rows of numbers."""
        rows = self.table[tokens].astype(np.float32) * self.scales[tokens]
        return rows + self.positions[: tokens.shape[1]]


@dataclass(frozen=True, slots=True)
class _Unquantized(Steps):
    """The bundled file's layers with their weights as floats."""

    source: Tensors = field(default_factory=dict)

    def weight(self, name: str) -> NDArray[Any]:
        return self.source[name]

    def product(self, x: str, name: str, label: str) -> str:
        """The input's division is in the matrix; query, key and value read the same input, and share it."""
        above, _, part = name.rpartition(".")
        divisor = self.source[f"{above}.{'query' if part in ('key', 'value') else part}.divisor"]
        table = self.source[f"{name}.weight"].astype(np.float32) * self.source[f"{name}.scale"]
        matrix = self.constant(f"{name}.matrix", table * divisor[:, None])
        product = self.node("MatMul", [x, matrix], f"{label}.product")
        return self.node("Add", [product, self.kept(f"{name}.bias")], label)


def made() -> bytes:
    """The whole file.

    In: `placed`, what `Words` gives; `filled`, 0 or FILLED for each token; `counted`, 1 or 0 for each token.
    Out: `sum`, the sum of what was made of the tokens that count.
    """
    graph = _Unquantized(masked=True, source=wire.constants(BUNDLED.read_bytes()))
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
