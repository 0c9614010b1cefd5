"""Bundled encoders by name, and check of the bundled model files against their SHA-256 sums."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from pipeline.encoders import base
from pipeline.encoders.base import Encoder, OnnxEncoder
from pipeline.encoders.static import StaticEncoder
from pipeline.options import EncoderName

# In the format of `sha256sum --check`, so that users can check the files without this program.
CHECKSUM_FILE: Final = "SHA256SUMS"


def read_checksums() -> dict[str, str]:
    """Read the SHA-256 of each bundled file, by file name."""
    lines = (base.MODELS_DIR / CHECKSUM_FILE).read_text(encoding="ascii").splitlines()
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def find_corrupt_files() -> dict[str, str]:
    """Return a description of the fault of each bundled file that is missing or changed, by file name."""
    faults = {
        name: _describe_fault(base.MODELS_DIR / name, digest) for name, digest in read_checksums().items()
    }
    return {name: fault for name, fault in faults.items() if fault}


def _describe_fault(file: Path, digest: str) -> str:
    """Return the fault of a file; empty if its content has the digest."""
    try:
        with file.open("rb") as stream:
            is_intact = hashlib.file_digest(stream, "sha256").hexdigest() == digest
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return "" if is_intact else "its content is not what was shipped"


def create_bundled_encoder(name: EncoderName) -> Encoder:
    """Create the bundled encoder of that name, on the CPU. It loads its model at the first text."""
    return StaticEncoder() if name is EncoderName.STATIC else OnnxEncoder()
