"""The trained table -> the file that ships: eight bits a number, one scale a row, and its digest.

python -m training.bundle TABLE [--into FOLDER]

The folder's SHA256SUMS is brought up to date; `pipeline.encoder.STATIC_MODEL` has to be raised by hand.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.bundled import SUMS
from pipeline.static import NAME
from training.table import cut

MOST_STEPS = 127


def quantized(rows: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Each row in steps of its largest number's 127th part, and that part."""
    scales = np.maximum(np.abs(rows).max(axis=1), np.finfo(np.float32).tiny) / MOST_STEPS
    steps = np.rint(rows / scales[:, None]).astype(np.int8)
    return steps, scales.astype(np.float32)


def bundle(table: Path, folder: Path) -> str:
    """Write the file; its digest."""
    with np.load(table) as kept:
        words, rows = kept["words"], kept["rows"]
    steps, scales = quantized(cut(rows))
    file = folder / NAME
    np.savez(file, words=words, steps=steps, scales=scales)
    return hashlib.sha256(file.read_bytes()).hexdigest()


def summed(folder: Path, name: str, digest: str) -> None:
    """Note a file's digest among those of the others."""
    sums = folder / SUMS
    others = [
        line for line in sums.read_text(encoding="ascii").splitlines() if not line.endswith(f"  {name}")
    ]
    sums.write_text("\n".join([*others, f"{digest}  {name}", ""]), encoding="ascii")


def main() -> None:
    """Bundle a table."""
    parser = argparse.ArgumentParser(prog="python -m training.bundle", description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--into", type=Path, default=Path("pipeline/models"))
    given = parser.parse_args()
    summed(given.into, NAME, bundle(given.table, given.into))


if __name__ == "__main__":
    main()
