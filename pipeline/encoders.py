"""The bundled encoders by their names."""

from __future__ import annotations

from pipeline.encoder import Encoder, OnnxEncoder
from pipeline.modes import Encoding
from pipeline.static import StaticEncoder


def bundled_encoder(encoding: Encoding, threads: int = 0) -> Encoder:
    """The encoder of that name, on the CPU; it loads its model at the first text."""
    return StaticEncoder() if encoding is Encoding.STATIC else OnnxEncoder(threads)
