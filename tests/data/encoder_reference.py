"""Script that writes `encoder_reference.npz`: fp32 vectors of 60 hunks of this project's history.

    python -m tests.data.encoder_reference WEIGHTS

WEIGHTS is the file that `pipeline.training.export` wrote next to the bundled one. Run it in a clone with the whole
history. The vectors come from the reference model in `pipeline.encoders.minilm`, not from the graph that they
test.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import numpy as np

from pipeline.encoders.base import load_tokenizer, sanitize_text
from pipeline.encoders.minilm import NumpyMiniLM
from pipeline.extract import ExtractTask, extract_batches
from pipeline.git.repository import open_repository
from pipeline.ignore import IgnoreRules

ROOT: Final = Path(__file__).parent.parent.parent
REFERENCE: Final = Path(__file__).with_suffix(".npz")
HUNK_COUNT: Final = 60


def main(weights: Path) -> None:
    """Sample hunks and write their texts and vectors."""
    texts = read_texts()
    order = np.random.default_rng(0).permutation(len(texts))
    sample = [texts[position] for position in order[:HUNK_COUNT]]
    with np.load(weights) as arrays:
        model = NumpyMiniLM(dict(arrays))
    tokenizer = load_tokenizer()
    vectors = [model.embed(tokenizer.encode(text).ids) for text in sample]
    as_bytes = np.frombuffer(json.dumps(sample).encode(), np.uint8)
    np.savez_compressed(REFERENCE, texts=as_bytes, vectors=np.stack(vectors).astype(np.float16))


def read_texts() -> list[str]:
    """Return the distinct texts that an index of the history embeds, truncated as the encoder does."""
    repository = open_repository(ROOT)
    head = repository.read_head()
    assert head, "no history to draw from"
    [found] = extract_batches(
        ExtractTask(ROOT, IgnoreRules.from_repository(repository), (tuple(repository.walk(head)),))
    )
    return sorted({sanitize_text(text) for text in found.hunks.column("semantic_text").to_pylist() if text})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
