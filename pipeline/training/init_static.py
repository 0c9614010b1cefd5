"""Initial vectors of the static encoder's word table: the transformer's embedding of each word.

python -m pipeline.training.init_static BAGS OUT REPOSITORY... [--held-out NAME]...

BAGS is the directory written by `pipeline.training.word_bags`; OUT is the `.npz` file to write. The table has stems,
but the transformer reads words: it embeds the form of each stem that the commit messages of the repositories use most
often. `--held-out`: repository whose words do not count.
"""

from __future__ import annotations

import argparse
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from pipeline.encoders.base import OnnxEncoder
from pipeline.text import count_terms
from pipeline.training.static_dataset import select_vocabulary

# Most occurrences of a word that count in one repository, so that no repository decides alone.
MAX_COUNT_PER_REPOSITORY: Final = 1_000


def find_most_frequent_forms(repositories: Iterable[Path]) -> dict[str, str]:
    """Return the most frequent form of each stem in the commit messages of the repositories."""
    totals: Counter[str] = Counter()
    for repository in repositories:
        command = ("log", "--no-merges", "--max-count=5000", "--format=%B", "HEAD")
        output = subprocess.run(
            ["git", "-C", str(repository), *command], capture_output=True, check=True
        ).stdout
        tokens = output.decode(errors="replace").lower().split()
        counts = Counter(token for token in tokens if token.isalpha())
        totals.update({token: min(count, MAX_COUNT_PER_REPOSITORY) for token, count in counts.items()})
    form_by_stem: dict[str, str] = {}
    for token, _ in totals.most_common():
        for stem in count_terms(token):
            form_by_stem.setdefault(stem, token)
    return form_by_stem


def choose_forms(vocabulary: Sequence[str], form_by_stem: Mapping[str, str]) -> list[str]:
    """Return the form of each vocabulary word that the transformer embeds: its most frequent one if it is a stem."""
    return [form_by_stem.get(word, word.replace("_", " ")) for word in vocabulary]


def main() -> None:
    """Run the command line."""
    arguments = _build_parser().parse_args()
    files = [file for file in sorted(arguments.bags.glob("*.npz")) if file.stem not in arguments.held_out]
    vocabulary = select_vocabulary(files)
    vectors = OnnxEncoder().encode(choose_forms(vocabulary, find_most_frequent_forms(arguments.repositories)))
    np.savez(
        arguments.out,
        words=np.frombuffer("\n".join(vocabulary).encode(), np.uint8),
        vectors=vectors.astype(np.float16),
    )


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.training.init_static",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("bags", type=Path, metavar="BAGS")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("repositories", nargs="+", type=Path, metavar="REPOSITORY")
    parser.add_argument("--held-out", action="append", default=[], metavar="NAME")
    return parser


if __name__ == "__main__":
    main()
