"""The trained network -> the file that ships, and its digest.

python -m training.encoder.bundle CHECKPOINT WEIGHTS --weights FOLDER [--share S] [--into FOLDER]

A share S of every weight's way from what it was to what was learnt is gone. WEIGHTS gets the weights as 32-bit floats,
for `tests.data.encoder_reference`. The folder's SHA256SUMS is brought up to date; `pipeline.encoder.EMBEDDING_MODEL`
and `pipeline.models.keeping.DIGEST` have to be changed by hand.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pipeline.models import make
from pipeline.models.bert import LAYERS, Weights
from training.bundle import summed
from training.naming import of_layer

# Part of the way a network knows nearly all that it was taught, and has forgotten less (Wortsman et al., 2022): nDCG@10
# of 72 graded questions in the asker's own words, of tox, retrofit and urql, was 0.350 there, and 0.334 all of the way,
# with a network that was taught like the one that ships, a day before it.
SHARE: Final = 0.6


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
    np.savez(given.out, allow_pickle=False, **weights)
    file = make.write(weights, given.into)
    summed(given.into, file.name, hashlib.sha256(file.read_bytes()).hexdigest())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m training.encoder.bundle", description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path, metavar="WEIGHTS")
    parser.add_argument("--weights", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--share", type=float, default=SHARE)
    parser.add_argument("--into", type=Path, default=make.HERE)
    return parser


if __name__ == "__main__":
    main()
