"""Records what fp32 makes of 500 pieces of this project's own source: `encoder_reference.npz`.

    python -m tests.data.encoder_reference WEIGHTS

WEIGHTS is what `training.encoder.bundle` wrote beside the bundled file. The vectors come from the plain model in
`pipeline.models.bert`, not from the graph they are to check.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from tokenizers import Tokenizer

from pipeline.encoder import MODELS
from pipeline.models.bert import Bert
from pipeline.source.grammars import language_of
from pipeline.text import semantic_text

ROOT: Final = Path(__file__).parent.parent.parent
REFERENCE: Final = Path(__file__).with_suffix(".npz")
FOLDERS: Final = ("pipeline", "stores", "serve", "tests")
SUFFIXES: Final = {".py", ".scm", ".sql"}
PIECES: Final = 500
# Spread evenly in the logarithm, as hunks are: most are small, and some outgrow the encoder's 256 tokens.
LINES: Final = (1, 1, 2, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64)


def main(weights: Path) -> None:
    """Write texts and vectors."""
    everything = list(pieces())
    texts = [everything[place] for place in np.random.default_rng(0).permutation(len(everything))[:PIECES]]
    with np.load(weights) as kept:
        model = Bert(dict(kept))
    tokenizer = Tokenizer.from_file(str(MODELS / "tokenizer.json"))
    vectors = [model.vector(tokenizer.encode(text).ids) for text in texts]
    as_bytes = np.frombuffer(json.dumps(texts).encode(), np.uint8)
    np.savez_compressed(REFERENCE, texts=as_bytes, vectors=np.stack(vectors).astype(np.float16))


def pieces() -> Iterator[str]:
    """The sources cut into consecutive pieces, written as the hunks that would have added them."""
    sizes = np.random.default_rng(0)
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*")):
        if path.suffix not in SUFFIXES:
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        while lines:
            size = int(sizes.choice(LINES))
            yield _hunk(path, lines[:size])
            lines = lines[size:]


def _hunk(path: Path, lines: list[str]) -> str:
    name = path.relative_to(ROOT).as_posix()
    return semantic_text(
        message=f"Add {path.stem.replace('_', ' ')}",
        path=name,
        language=language_of(name),
        symbols=[],
        change="added",
        added="\n".join(lines),
        removed="",
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
