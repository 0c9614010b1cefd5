"""The trained network -> the file that ships, and its digest.

python -m training.encoder.bundle CHECKPOINT WEIGHTS --weights FOLDER [--share S] [--into FOLDER]

S of every weight's way from what it was to what was learnt is gone: part of the way a network ranks what it was
taught nearly as well, and what it was not taught better. WEIGHTS gets the weights as 32-bit floats, for
`tests.data.encoder_reference`. The folder's SHA256SUMS is brought up to date; `pipeline.encoder.EMBEDDING_MODEL` and
`pipeline.models.keeping.DIGEST` have to be changed by hand.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.models import make
from pipeline.models.bert import LAYERS, Weights
from training.bundle import summed
from training.naming import of_layer


def learnt(state: Mapping[str, npt.ArrayLike]) -> Weights:
    """What a checkpoint has, by the names of the encoder's own weights."""
    found = {f"embeddings.LayerNorm.{part}": state[f"placed.{part}"] for part in ("weight", "bias")}
    for layer in range(LAYERS):
        found |= of_layer(state, layer, f"encoder.layer.{layer}")
    return {name: np.asarray(value, np.float32) for name, value in found.items()}


def between(begun: Weights, ended: Weights, share: float) -> Weights:
    """The weights at a share of the way from where they began to where they ended."""
    moved = {name: begun[name] + np.float32(share) * (value - begun[name]) for name, value in ended.items()}
    return begun | moved


def main() -> None:
    """Bundle a checkpoint."""
    import torch

    given = _parser().parse_args()
    weights = between(make.weights_in(given.weights), learnt(torch.load(given.checkpoint)), given.share)
    np.savez(given.out, **weights)  # type: ignore[arg-type]
    file = make.write(weights, given.into)
    summed(given.into, file.name, hashlib.sha256(file.read_bytes()).hexdigest())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m training.encoder.bundle", description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path, metavar="WEIGHTS")
    parser.add_argument("--weights", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--into", type=Path, default=make.HERE)
    return parser


if __name__ == "__main__":
    main()
