"""Records what fp32 makes of 500 hunks of this project's own history: `encoder_reference.npz`.

    python -m tests.data.encoder_reference WEIGHTS

WEIGHTS is what `pipeline.training.export` wrote beside the bundled file. Run it in a clone with the whole history. The
vectors come from the plain model in `pipeline.encoders.minilm_numpy`, not from the graph they are to check.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import numpy as np

from pipeline.encoders.base import readable, tokenizer
from pipeline.encoders.minilm_numpy import Bert
from pipeline.extract import Task, extract
from pipeline.git.repository import open_repository
from pipeline.ignore import IgnoreRules

ROOT: Final = Path(__file__).parent.parent.parent
REFERENCE: Final = Path(__file__).with_suffix(".npz")
HUNKS: Final = 500


def main(weights: Path) -> None:
    """Write texts and vectors."""
    everything = texts()
    drawn = [everything[place] for place in np.random.default_rng(0).permutation(len(everything))[:HUNKS]]
    with np.load(weights) as kept:
        model = Bert(dict(kept))
    read = tokenizer()
    vectors = [model.vector(read.encode(text).ids) for text in drawn]
    as_bytes = np.frombuffer(json.dumps(drawn).encode(), np.uint8)
    np.savez_compressed(REFERENCE, texts=as_bytes, vectors=np.stack(vectors).astype(np.float16))


def texts() -> list[str]:
    """What an index of the history embeds of its hunks, each text once, as much of it as is read."""
    repository = open_repository(ROOT)
    head = repository.head()
    assert head, "no history to draw from"
    found = extract(Task(ROOT, IgnoreRules.of(repository), tuple(repository.walk(head))))
    return sorted({readable(text) for text in found.hunks.column("semantic_text").to_pylist() if text})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
