"""The cross-encoder's tensors, by their own names and by those that the file that ships has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from training.naming import LAYER_PARTS, of_layer

# What either side of a network's name is called in the file.
ALIKE: Final = ("side", "scale")
OTHER_PARTS: Final = {"placed": "embeddings.LayerNorm", "telling": "telling", "joint": "joint", "out": "out"}


def named(state: Mapping[str, npt.ArrayLike], apart: int) -> dict[str, npt.NDArray[np.float16]]:
    """A checkpoint's tensors by the names that `pipeline.models.cross` knows; `apart`: layers each side has alone."""
    layers = len({name.split(".")[1] for name in state if name.startswith("layers.")})
    made: dict[str, npt.ArrayLike] = {"apart": np.array(apart), "layers": np.array(layers)}
    for part in ("weight", "bias"):
        for ours, theirs in OTHER_PARTS.items():
            made[f"{theirs}.{part}"] = state[f"{ours}.{part}"]
    for layer in range(layers):
        made |= of_layer(state, layer, f"layer.{layer}")
    made |= {name: state[name] for name in ALIKE}
    return {name: np.asarray(value).astype(np.float16) for name, value in made.items()}


def state(bundled: Mapping[str, npt.NDArray[np.generic]]) -> dict[str, npt.NDArray[np.float32]]:
    """The network's tensors out of a bundled file's: `named` the other way around."""
    made = {name: bundled[name] for name in ALIKE}
    for part in ("weight", "bias"):
        made |= {f"{ours}.{part}": bundled[f"{theirs}.{part}"] for ours, theirs in OTHER_PARTS.items()}
        for layer in range(int(bundled["layers"])):
            for ours, theirs in LAYER_PARTS.items():
                made[f"layers.{layer}.{ours}.{part}"] = bundled[f"layer.{layer}.{theirs}.{part}"]
    return {name: value.astype(np.float32) for name, value in made.items()}
