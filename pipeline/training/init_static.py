"""Initial vectors of the static table: the transformer's embedding of each word.

python -m pipeline.training.init_static BAGS OUT REPOSITORY... [--held-out NAME]...

The table has stems, the transformer reads words: each stem is embedded in the form that the commit
messages of the REPOSITORIES use most often.
"""

from __future__ import annotations

import argparse
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from pipeline.encoders.base import OnnxEncoder
from pipeline.text import count_terms
from pipeline.training import train_static
from pipeline.training.train_static import WORDS

# Cap per repository, so that one repository does not decide the form.
MAX_COUNT_PER_REPOSITORY: int = 1_000


def most_frequent_forms(repositories: Iterable[Path]) -> dict[str, str]:
    """Return the most frequent form of each stem in the commit messages of the repositories."""
    totals: Counter[str] = Counter()
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
        messages = (
            subprocess.run(command, capture_output=True, check=True).stdout.decode(errors="replace").lower()
        )
        counts = Counter(token for token in messages.split() if token.isalpha())
        totals.update({token: min(count, MAX_COUNT_PER_REPOSITORY) for token, count in counts.items()})
    form_by_stem: dict[str, str] = {}
    for token, _ in totals.most_common():
        for stem in count_terms(token):
            form_by_stem.setdefault(stem, token)
    return form_by_stem


def display_forms(vocabulary: Sequence[str], form_by_stem: Mapping[str, str]) -> list[str]:
    """Return the form of each vocabulary word that the transformer embeds."""
    return [form_by_stem.get(word, word.replace("_", " ")) for word in vocabulary]


def main() -> None:
    """Write one vector per vocabulary word."""
    arguments = _parser().parse_args()
    files = [file for file in sorted(arguments.bags.glob("*.npz")) if file.stem not in arguments.held_out]
    vocabulary = train_static.select_vocabulary(files, WORDS)
    vectors = OnnxEncoder(threads=1).encode(
        display_forms(vocabulary, most_frequent_forms(arguments.repositories))
    )
    np.savez(
        arguments.out,
        words=np.frombuffer("\n".join(vocabulary).encode(), np.uint8),
        vectors=vectors.astype(np.float16),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pipeline.training.init_static", description=__doc__)
    parser.add_argument("bags", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("repositories", nargs="+", type=Path, metavar="REPOSITORY")
    parser.add_argument("--held-out", action="append", default=[], metavar="NAME")
    return parser


if __name__ == "__main__":
    main()
