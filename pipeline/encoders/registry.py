"""The bundled model files, and whether they are the ones that were shipped.

The bundled encoders by their names.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from pipeline.encoders.base import Encoder, OnnxEncoder
from pipeline.encoders.static import StaticEncoder
from pipeline.options import Encoding

FOLDER: Final = Path(__file__).parent / "models"
# In the form of `sha256sum --check`, so that a person can ask without this program.
SUMS: Final = "SHA256SUMS"


def shipped() -> dict[str, str]:
    """SHA-256 of each bundled file, by name."""
    lines = (FOLDER / SUMS).read_text(encoding="ascii").splitlines()
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def differing() -> dict[str, str]:
    """The files that are not what was shipped, each with what is wrong with it."""
    found = {name: _fault(FOLDER / name, digest) for name, digest in shipped().items()}
    return {name: fault for name, fault in found.items() if fault}


def _fault(file: Path, digest: str) -> str:
    try:
        with file.open("rb") as content:
            same = hashlib.file_digest(content, "sha256").hexdigest() == digest
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return "" if same else "its content is not what was shipped"


def bundled_encoder(encoding: Encoding, threads: int = 0) -> Encoder:
    """The encoder of that name, on the CPU; it loads its model at the first text."""
    return StaticEncoder() if encoding is Encoding.STATIC else OnnxEncoder(threads)
