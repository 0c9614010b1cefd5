"""The trained network -> the file that ships, in 16 bits a number, and its digest.

python -m training.cross_encoder.bundle CHECKPOINT [--into FOLDER]

The folder's SHA256SUMS is brought up to date; `pipeline.cross_encoder.CROSS_ENCODER` has to be raised by hand.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import numpy as np

from pipeline.models.cross import NAME
from training.bundle import summed


def main() -> None:
    """Bundle a checkpoint."""
    import torch

    from training.cross_encoder.model import APART
    from training.cross_encoder.naming import named

    parser = argparse.ArgumentParser(prog="python -m training.cross_encoder.bundle", description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--into", type=Path, default=Path("pipeline/models"))
    given = parser.parse_args()
    file = given.into / NAME
    np.savez(file, allow_pickle=False, **named(torch.load(given.checkpoint), len(APART)))
    summed(given.into, NAME, hashlib.sha256(file.read_bytes()).hexdigest())


if __name__ == "__main__":
    main()
