"""Tensors by the names the networks have for them and by those that files have: of layers, which all share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

Value = TypeVar("Value")

# What either side of a layer's name is called: in the network, in the file.
LAYER_PARTS: Final = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "attended": "attention.output.dense",
    "first": "attention.output.LayerNorm",
    "inner": "intermediate.dense",
    "outer": "output.dense",
    "second": "output.LayerNorm",
}


def of_layer(state: Mapping[str, Value], number: int, name: str) -> dict[str, Value]:
    """A network's layer by the names of a file, where it is called `name`."""
    return {
        f"{name}.{theirs}.{part}": state[f"layers.{number}.{ours}.{part}"]
        for part in ("weight", "bias")
        for ours, theirs in LAYER_PARTS.items()
    }
