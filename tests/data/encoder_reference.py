"""Script that writes `encoder_reference.npz`: fp32 vectors of 60 hunks of this project's history.

The hunks are those 20 of a sample of 500 whose vectors of the bundled encoder agree least with fp32, and 40 others.

    python -m tests.data.encoder_reference WEIGHTS

WEIGHTS is the file that `pipeline.training.export` wrote next to the bundled one. Run it in a clone with the whole
history, then set REFERENCE_TOKENS of `tests.pipeline.encoders.test_base` to `pipeline.encoders.base.MAX_TOKENS`. The
vectors come from the reference model in `pipeline.encoders.minilm`, not from the graph that they test.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.encoders.base import OnnxEncoder, load_tokenizer, sanitize_text
from pipeline.encoders.minilm import NumpyMiniLM
from pipeline.extract import ExtractTask, extract_batches
from pipeline.git.repository import open_repository
from pipeline.ignore import IgnoreRules

ROOT: Final = Path(__file__).parent.parent.parent
REFERENCE: Final = Path(__file__).with_suffix(".npz")
SAMPLE_SIZE: Final = 500
WORST_COUNT: Final = 20
OTHER_COUNT: Final = 40


def main(weights: Path) -> None:
    """Sample hunks and write their texts and vectors."""
    texts = read_texts()
    order = np.random.default_rng(0).permutation(len(texts))
    sample = [texts[position] for position in order[:SAMPLE_SIZE]]
    with np.load(weights) as arrays:
        model = NumpyMiniLM(dict(arrays))
    tokenizer = load_tokenizer()
    vectors = np.stack([model.embed(tokenizer.encode(text).ids) for text in sample])
    selected = select_hunks((OnnxEncoder().encode(sample) * vectors).sum(1))
    as_bytes = np.frombuffer(json.dumps([sample[position] for position in selected]).encode(), np.uint8)
    np.savez_compressed(REFERENCE, texts=as_bytes, vectors=vectors[selected].astype(np.float16))


def select_hunks(cosines: NDArray[np.float32]) -> list[int]:
    """Return the positions of the lowest cosines and the first other ones, in their order."""
    worst = np.argsort(cosines, kind="stable")[:WORST_COUNT].tolist()
    others = [position for position in range(len(cosines)) if position not in worst]
    return sorted([*worst, *others[:OTHER_COUNT]])


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
