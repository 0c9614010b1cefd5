"""The trained network -> the file that ships, in 16 bits a number, and its digest.

python -m training.cross_encoder.bundle CHECKPOINT [--into FOLDER]

The folder's SHA256SUMS is brought up to date; `pipeline.cross_encoder.CROSS_ENCODER` has to be raised by hand.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pipeline.models.cross import NAME
from training.bundle import summed

# What either side of a network's name is called in the file.
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
OTHER_PARTS: Final = {"placed": "embeddings.LayerNorm", "telling": "telling", "joint": "joint", "out": "out"}


def named(state: Mapping[str, Any], apart: int) -> dict[str, npt.NDArray[np.float16]]:
    """A checkpoint's tensors by the names that `pipeline.models.cross` knows; `apart`: layers each side has alone."""
    layers = len({name.split(".")[1] for name in state if name.startswith("layers.")})
    made = {"apart": np.array(apart), "layers": np.array(layers)}
    for part in ("weight", "bias"):
        for ours, theirs in OTHER_PARTS.items():
            made[f"{theirs}.{part}"] = state[f"{ours}.{part}"].numpy()
        for layer in range(layers):
            for ours, theirs in LAYER_PARTS.items():
                made[f"layer.{layer}.{theirs}.{part}"] = state[f"layers.{layer}.{ours}.{part}"].numpy()
    made |= {name: state[name].numpy() for name in ("side", "scale")}
    return {name: value.astype(np.float16) for name, value in made.items()}


def main() -> None:
    """Bundle a checkpoint."""
    import torch

    from training.cross_encoder.model import APART

    parser = argparse.ArgumentParser(prog="python -m training.cross_encoder.bundle", description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--into", type=Path, default=Path("pipeline/models"))
    given = parser.parse_args()
    file = given.into / NAME
    np.savez(file, **named(torch.load(given.checkpoint), len(APART)))  # type: ignore[arg-type]
    summed(given.into, NAME, hashlib.sha256(file.read_bytes()).hexdigest())


if __name__ == "__main__":
    main()
