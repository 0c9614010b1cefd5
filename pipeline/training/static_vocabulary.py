"""Vocabulary of the static encoder, and the initial vectors of its words.

python -m pipeline.training.static_vocabulary BAGS OUT REPOSITORY... [--held-out NAME]...

The command writes the vocabulary and its initial vectors to OUT, an `.npz` file. The vocabulary has the most frequent
words of BAGS, the directory written by `pipeline.training.word_bags`. The initial vectors are MiniLM embeddings. Most
words of the vocabulary are stems, but MiniLM needs full words. So for each stem, it embeds the word with this stem that
is most frequent in the commit messages of the repositories. `--held-out`: repository whose words do not count.
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
from pipeline.training.word_bags import BagDataset

# Maximum number of words with a row of their own. With the hash buckets for the other words, the table of the static
# encoder has at most 65,536 rows.
MAX_WORDS: Final = 49_152
# Minimum number of repositories that use a word. Words of fewer repositories are specific to them: names, keys, typos.
MIN_REPOSITORIES: Final = 3
# Maximum number of occurrences of a word that count in one repository, so that words of one repository do not outweigh
# common words.
MAX_COUNT_PER_REPOSITORY: Final = 200
# Number of the newest commits of a repository whose messages are read to choose the most frequent word of each stem.
MAX_MESSAGES: Final = 5_000
# Maximum number of occurrences of a word that count in the messages of one repository.
MAX_WORD_COUNT_IN_MESSAGES: Final = 1_000


def select_vocabulary(files: Iterable[Path], max_words: int = MAX_WORDS) -> list[str]:
    """Return the most frequent words that at least MIN_REPOSITORIES repositories use, at most `max_words`."""
    repository_counts: Counter[str] = Counter()
    bag_counts: Counter[str] = Counter()
    for file in files:
        bags = BagDataset.read(file)
        counts = np.bincount(bags.word_numbers, minlength=len(bags.words))
        repository_counts.update(bags.words)
        bag_counts.update(
            {
                word: min(int(count), MAX_COUNT_PER_REPOSITORY)
                for word, count in zip(bags.words, counts, strict=True)
            }
        )
    common_words = [word for word, count in repository_counts.items() if count >= MIN_REPOSITORIES]
    return sorted(common_words, key=lambda word: (-bag_counts[word], word))[:max_words]


def find_most_frequent_words(repositories: Iterable[Path]) -> dict[str, str]:
    """Return the most frequent word of each stem in the commit messages of the repositories, in lower case."""
    totals: Counter[str] = Counter()
    for repository in repositories:
        command = ("log", "--no-merges", f"--max-count={MAX_MESSAGES}", "--format=%B", "HEAD")
        output = subprocess.run(
            ["git", "-C", str(repository), *command], capture_output=True, check=True
        ).stdout
        tokens = output.decode(errors="replace").lower().split()
        counts = Counter(token for token in tokens if token.isalpha())
        totals.update({token: min(count, MAX_WORD_COUNT_IN_MESSAGES) for token, count in counts.items()})
    word_by_stem: dict[str, str] = {}
    for token, _ in totals.most_common():
        for stem in count_terms(token):
            word_by_stem.setdefault(stem, token)
    return word_by_stem


def choose_texts(vocabulary: Sequence[str], word_by_stem: Mapping[str, str]) -> list[str]:
    """Return the text that MiniLM embeds for each word of the vocabulary.

    It is the most frequent word with this stem. If `word_by_stem` does not have the stem, it is the word of the
    vocabulary, with spaces for underscores.
    """
    return [word_by_stem.get(word, word.replace("_", " ")) for word in vocabulary]


def main() -> None:
    """Run the command line."""
    arguments = _build_parser().parse_args()
    files = [file for file in sorted(arguments.bags.glob("*.npz")) if file.stem not in arguments.held_out]
    vocabulary = select_vocabulary(files)
    vectors = OnnxEncoder().encode(choose_texts(vocabulary, find_most_frequent_words(arguments.repositories)))
    np.savez(
        arguments.out,
        words=np.frombuffer("\n".join(vocabulary).encode(), np.uint8),
        vectors=vectors.astype(np.float16),
    )


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.training.static_vocabulary",
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
