"""What the bundled transformer makes of each word alone: where the table's rows begin.

python -m pipeline.training.init_static LESSONS OUT REPOSITORY... [--held-out NAME]...

The table knows words by their stems, the transformer by their letters: each stem is shown in the form that commit
messages of the REPOSITORIES have it in most often.
"""

from __future__ import annotations

import argparse
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from pipeline.encoders.base import OnnxEncoder
from pipeline.text import words
from pipeline.training import train_static
from pipeline.training.train_static import WORDS

# What one history says more often than this weighs no more.
MOST_OF_ONE: int = 1_000


def forms(repositories: Iterable[Path]) -> dict[str, str]:
    """Stem -> its most frequent form in messages; what is made of parts is its own."""
    seen: Counter[str] = Counter()
    for repository in repositories:
        command = [
            "git",
            "-C",
            str(repository),
            "log",
            "--no-merges",
            "--max-count=5000",
            "--format=%B",
            "HEAD",
        ]
        said = (
            subprocess.run(command, capture_output=True, check=True).stdout.decode(errors="replace").lower()
        )
        here = Counter(token for token in said.split() if token.isalpha())
        seen.update({token: min(count, MOST_OF_ONE) for token, count in here.items()})
    found: dict[str, str] = {}
    for token, _ in seen.most_common():
        for stem in words(token):
            found.setdefault(stem, token)
    return found


def shown(known: Sequence[str], form: Mapping[str, str]) -> list[str]:
    """The words as the transformer should read them."""
    return [form.get(word, word.replace("_", " ")) for word in known]


def main() -> None:
    """Keep a vector for each word that the table will know."""
    given = _parser().parse_args()
    files = [file for file in sorted(given.lessons.glob("*.npz")) if file.stem not in given.held_out]
    known = train_static.chosen(files, WORDS)
    vectors = OnnxEncoder(threads=1).encode(shown(known, forms(given.repositories)))
    np.savez(
        given.out,
        words=np.frombuffer("\n".join(known).encode(), np.uint8),
        vectors=vectors.astype(np.float16),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pipeline.training.init_static", description=__doc__)
    parser.add_argument("lessons", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("repositories", nargs="+", type=Path, metavar="REPOSITORY")
    parser.add_argument("--held-out", action="append", default=[], metavar="NAME")
    return parser


if __name__ == "__main__":
    main()
