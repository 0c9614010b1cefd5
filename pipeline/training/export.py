"""Export of trained models to the files that ship, with their SHA-256 digests.

    python -m pipeline.training.export static TABLE [--into FOLDER]
    python -m pipeline.training.export encoder CHECKPOINT WEIGHTS --weights FOLDER [--share S] [--into FOLDER]
    python -m pipeline.training.export cross-encoder CHECKPOINT [--into FOLDER]

Each command updates SHA256SUMS of the folder. Raise the model's version by hand: `STATIC_MODEL` or `EMBEDDING_MODEL` in
`pipeline.encoders.base`, `CROSS_ENCODER` in `pipeline.encoders.cross_encoder`; after `encoder` also `DIGEST` in
`pipeline.encoders.accelerated`.

`encoder` writes the weights as 32-bit floats to WEIGHTS, for `tests.data.encoder_reference`; `--share` is the
fraction of
the way from the original weights to the trained ones.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from pipeline.encoders.cross_encoder_graph import CROSS_ENCODER_FILE
from pipeline.encoders.minilm_numpy import LAYERS, Weights
from pipeline.encoders.registry import SUMS
from pipeline.encoders.static import STATIC_FILE
from pipeline.training import export_onnx
from pipeline.training.train_static import cut

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
    file = folder / STATIC_FILE
    np.savez(file, words=words, steps=steps, scales=scales)
    return hashlib.sha256(file.read_bytes()).hexdigest()


def summed(folder: Path, name: str, digest: str) -> None:
    """Note a file's digest among those of the others."""
    sums = folder / SUMS
    others = [
        line for line in sums.read_text(encoding="ascii").splitlines() if not line.endswith(f"  {name}")
    ]
    sums.write_text("\n".join([*others, f"{digest}  {name}", ""]), encoding="ascii")


def export_static(given: argparse.Namespace) -> None:
    """Export a static table."""
    summed(given.into, STATIC_FILE, bundle(given.table, given.into))


Value = TypeVar("Value")

# What either side of a layer's name is called: in the network, in the file.
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


def of_layer(state: Mapping[str, Value], number: int, name: str) -> dict[str, Value]:
    """A network's layer by the names of a file, where it is called `name`."""
    return {
        f"{name}.{theirs}.{part}": state[f"layers.{number}.{ours}.{part}"]
        for part in ("weight", "bias")
        for ours, theirs in LAYER_PARTS.items()
    }


# What either side of a network's name is called in the file.
ALIKE: Final = ("side", "scale")
OTHER_PARTS: Final = {"placed": "embeddings.LayerNorm", "telling": "telling", "joint": "joint", "out": "out"}


def named(state: Mapping[str, npt.ArrayLike], apart: int) -> dict[str, npt.NDArray[np.float16]]:
    """A checkpoint's tensors by the names in `pipeline.encoders.cross_encoder_graph`; `apart`: layers each side has
    alone."""
    layers = len({name.split(".")[1] for name in state if name.startswith("layers.")})
    made: dict[str, npt.ArrayLike] = {"apart": np.array(apart), "layers": np.array(layers)}
    for part in ("weight", "bias"):
        for ours, theirs in OTHER_PARTS.items():
            made[f"{theirs}.{part}"] = state[f"{ours}.{part}"]
    for layer in range(layers):
        made |= of_layer(state, layer, f"layer.{layer}")
    made |= {name: state[name] for name in ALIKE}
    return {name: np.asarray(value).astype(np.float16) for name, value in made.items()}


def state(bundled: Mapping[str, npt.NDArray[np.generic]]) -> dict[str, npt.NDArray[np.float32]]:
    """The network's tensors out of a bundled file's: `named` the other way around."""
    made = {name: bundled[name] for name in ALIKE}
    for part in ("weight", "bias"):
        made |= {f"{ours}.{part}": bundled[f"{theirs}.{part}"] for ours, theirs in OTHER_PARTS.items()}
        for layer in range(int(bundled["layers"])):
            for ours, theirs in LAYER_PARTS.items():
                made[f"layers.{layer}.{ours}.{part}"] = bundled[f"layer.{layer}.{theirs}.{part}"]
    return {name: value.astype(np.float32) for name, value in made.items()}


def export_cross_encoder(given: argparse.Namespace) -> None:
    """Export a checkpoint of the cross-encoder, in 16 bits a number."""
    import torch

    from pipeline.training.torch_models import APART

    file = given.into / CROSS_ENCODER_FILE
    np.savez(file, allow_pickle=False, **named(torch.load(given.checkpoint), len(APART)))
    summed(given.into, CROSS_ENCODER_FILE, hashlib.sha256(file.read_bytes()).hexdigest())


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


def export_encoder(given: argparse.Namespace) -> None:
    """Export a checkpoint of the encoder, quantized."""
    import torch

    weights = between(
        export_onnx.weights_in(given.weights), learnt(torch.load(given.checkpoint)), given.share
    )
    np.savez(given.out, allow_pickle=False, **weights)
    file = export_onnx.write(weights, given.into)
    summed(given.into, file.name, hashlib.sha256(file.read_bytes()).hexdigest())


def main() -> None:
    """Run the command line."""
    given = _parser().parse_args()
    given.export(given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.training.export",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True)
    static = commands.add_parser("static", help=export_static.__doc__)
    static.add_argument("table", type=Path)
    static.set_defaults(export=export_static)
    encoder = commands.add_parser("encoder", help=export_encoder.__doc__)
    encoder.add_argument("checkpoint", type=Path)
    encoder.add_argument("out", type=Path, metavar="WEIGHTS")
    encoder.add_argument("--weights", type=Path, required=True, metavar="FOLDER")
    encoder.add_argument("--share", type=float, default=SHARE)
    encoder.set_defaults(export=export_encoder)
    cross_encoder = commands.add_parser("cross-encoder", help=export_cross_encoder.__doc__)
    cross_encoder.add_argument("checkpoint", type=Path)
    cross_encoder.set_defaults(export=export_cross_encoder)
    for command in (static, encoder, cross_encoder):
        command.add_argument("--into", type=Path, default=export_onnx.HERE)
    return parser


if __name__ == "__main__":
    main()
