"""Vocabulary of the static encoder, the initial vectors of its words, and its training examples.

python -m pipeline.training.static_dataset BAGS OUT REPOSITORY... [--held-out NAME]...

The command writes the vocabulary and its initial vectors to OUT, an `.npz` file. The vocabulary has the most frequent
words of BAGS, the directory written by `pipeline.training.word_bags`. The initial vectors are MiniLM embeddings. Most
words of the vocabulary are stems, but MiniLM needs full words. So for each stem, it embeds the word with this stem that
is most frequent in the commit messages of the repositories. `--held-out NAME`: leave out the bags of this repository.

`StaticTrainingSet` also reads BAGS, and draws batches of examples. A bag is the set of distinct words of one text, here
as row numbers of the table of word vectors. An example is a query and a text that matches it. The other texts of the
batch are the negatives of the query. They should come from its own repository, so a batch has few repositories.
"""

from __future__ import annotations

import argparse
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pipeline.encoders.base import OnnxEncoder
from pipeline.encoders.static import Lexicon
from pipeline.text import count_terms
from pipeline.training.word_bags import BagDataset, BagKind

Ints = npt.NDArray[np.int64]

# Share of each kind of query. All other queries are subjects. If a commit has no query of the drawn kind, its subject
# is the query.
QUERY_KIND_SHARES: Final = {
    BagKind.SENTENCE: 0.25,
    BagKind.BODY: 0.1,
    BagKind.CHANGELOG: 0.2,
    BagKind.COMMENT: 0.15,
}
# Probability that the text shows the commit subject, by kind of query.
SUBJECT_SHOWN_SHARES: Final = {
    BagKind.SUBJECT: 0.0,
    BagKind.SENTENCE: 0.7,
    BagKind.BODY: 0.0,
    BagKind.CHANGELOG: 0.7,
    BagKind.COMMENT: 0.5,
}
# Probability that the text shows the body of the message, if the query is a subject.
BODY_SHOWN_SHARE: Final = 0.3
# Number of examples in a block. They are of one repository, and serve as negatives of each other.
BLOCK_SIZE: Final = 256
# Maximum number of table rows of a query or text in an example. If it has more, each example has a new random sample
# of them, which halves the time and prevents memorizing.
MAX_ROWS: Final = 96
# Bag number of a text that does not exist.
NO_BAG: Final = -1

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

    For a stem in `word_by_stem`, the text is its most frequent word; for another word, the word itself, with spaces for
    underscores.
    """
    return [word_by_stem.get(word, word.replace("_", " ")) for word in vocabulary]


@dataclass(frozen=True, slots=True, eq=False)
class Bags:
    """Table rows of all bags, as 16-bit row numbers. Bag i has the row numbers `rows[starts[i]:ends[i]]`."""

    rows: npt.NDArray[np.uint16]
    starts: Ints
    ends: Ints

    def merge_bags(
        self, bag_numbers: Ints, generator: np.random.Generator | None = None
    ) -> tuple[Ints, Ints]:
        """Merge the bags of each item, a query or a text. `bag_numbers` has the shape (items, bags per item).

        Return the distinct table rows of all items, one item after the other, and the index at which each item starts.
        NO_BAG counts as an empty bag. With a generator, sample at most MAX_ROWS rows of each item.
        """
        numbers = bag_numbers.reshape(-1)
        items = np.repeat(np.arange(len(bag_numbers)), bag_numbers.shape[1])
        items, numbers = items[numbers != NO_BAG], numbers[numbers != NO_BAG]
        counts = self.ends[numbers] - self.starts[numbers]
        # `offsets + np.arange(...)` are the positions of the bags' rows in `self.rows`.
        offsets = np.repeat(self.starts[numbers] - (np.cumsum(counts) - counts), counts)
        rows = self.rows[offsets + np.arange(counts.sum())].astype(np.int64)
        # Item number and row in one integer, so that one sort finds the distinct rows of each item.
        keys = np.unique(np.repeat(items, counts) << 16 | rows)
        if generator is not None:
            keys = _sample_rows(keys, generator)
        lengths = np.bincount(keys >> 16, minlength=len(bag_numbers))
        return keys & 0xFFFF, np.cumsum(lengths) - lengths


def _sample_rows(keys: Ints, generator: np.random.Generator) -> Ints:
    """Sample at most MAX_ROWS keys of each item; a key is `item << 16 | row`."""
    order = np.lexsort((generator.random(len(keys)), keys >> 16))
    lengths = np.bincount(keys >> 16)
    ranks = np.arange(len(keys)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return keys[order][ranks < MAX_ROWS]


@dataclass(frozen=True, slots=True, eq=False)
class StaticTrainingSet:
    """Bags of all repositories, and the numbers of the bags of each commit and change; NO_BAG for a missing one.

    Arrays by commit number: bags of the `subject`, `body`, `changelog` and `first_sentence`, and `sentence_counts`. The
    bags of a commit's sentences have consecutive numbers. Arrays by change number: bags of the `change` and its
    `comment`, and the numbers of its `commit` and `repository`.
    """

    bags: Bags
    subject: Ints
    body: Ints
    changelog: Ints
    first_sentence: Ints
    sentence_counts: Ints
    change: Ints
    comment: Ints
    commit: Ints
    repository: Ints

    @classmethod
    def read(cls, files: Sequence[Path], lexicon: Lexicon) -> StaticTrainingSet:
        """Read bag files and map their words to table rows."""
        table_rows, lengths, commits, kinds, repositories = [], [], [], [], []
        commit_count = 0
        for repository, file in enumerate(files):
            dataset = BagDataset.read(file)
            rows, ends = _find_table_rows(dataset, lexicon)
            table_rows.append(rows)
            lengths.append(np.diff(ends, prepend=0))
            commits.append(dataset.commits.astype(np.int64) + commit_count)
            kinds.append(dataset.kinds)
            repositories.append(np.full(len(ends), repository))
            commit_count = commits[-1].max() + 1
        ends = np.cumsum(np.concatenate(lengths))
        bags = Bags(np.concatenate(table_rows), np.concatenate([[0], ends[:-1]]), ends)
        return _build_training_set(
            bags, np.concatenate(commits), np.concatenate(kinds), np.concatenate(repositories)
        )

    @property
    def block_count(self) -> int:
        """Number of blocks per epoch."""
        return int((np.bincount(self.repository) // BLOCK_SIZE).sum())

    def iter_batches(self, blocks_per_batch: int, generator: np.random.Generator) -> Iterator[Ints]:
        """Yield the numbers of the changes of one epoch, in random order, batch by batch.

        A block has BLOCK_SIZE changes of one repository. Changes that fill no block or batch are left out.
        """
        order = np.lexsort((generator.random(len(self.change)), self.repository))
        all_blocks = [
            changes[start : start + BLOCK_SIZE]
            for changes in np.split(order, np.flatnonzero(np.diff(self.repository[order])) + 1)
            for start in range(0, len(changes) - BLOCK_SIZE + 1, BLOCK_SIZE)
        ]
        shuffled = generator.permutation(len(all_blocks))
        for start in range(0, len(all_blocks) - blocks_per_batch + 1, blocks_per_batch):
            batch_blocks = shuffled[start : start + blocks_per_batch]
            yield np.concatenate([all_blocks[number] for number in batch_blocks])

    def draw_examples(self, changes: Ints, generator: np.random.Generator) -> tuple[Ints, Ints]:
        """Draw a query and a text for each change: bag numbers of shape (changes, 1) and (changes, 4).

        A text has the bags of the change, its comments, the subject and the body, or NO_BAG for what it does not show.
        """
        commits = self.commit[changes]
        drawn_offsets = (generator.random(len(changes)) * self.sentence_counts[commits]).astype(np.int64)
        sentences = self.first_sentence[commits] + drawn_offsets
        bags_by_kind = {
            BagKind.SENTENCE: np.where(self.sentence_counts[commits] > 0, sentences, NO_BAG),
            BagKind.BODY: self.body[commits],
            BagKind.CHANGELOG: self.changelog[commits],
            BagKind.COMMENT: self.comment[changes],
        }
        queries, kinds = self.subject[commits], np.full(len(changes), int(BagKind.SUBJECT))
        draws, cumulative_share = generator.random(len(changes)), 0.0
        for kind, bag in bags_by_kind.items():
            is_drawn = (draws >= cumulative_share) & (draws < cumulative_share + QUERY_KIND_SHARES[kind])
            is_kind = is_drawn & (bag != NO_BAG)
            queries, kinds = np.where(is_kind, bag, queries), np.where(is_kind, int(kind), kinds)
            cumulative_share += QUERY_KIND_SHARES[kind]
        texts = np.stack(
            [
                self.change[changes],
                np.where(kinds == BagKind.COMMENT, NO_BAG, self.comment[changes]),
                np.where(
                    _draw_by_kind(SUBJECT_SHOWN_SHARES, kinds, generator), self.subject[commits], NO_BAG
                ),
                np.where(
                    (kinds == BagKind.SUBJECT) & (generator.random(len(kinds)) < BODY_SHOWN_SHARE),
                    self.body[commits],
                    NO_BAG,
                ),
            ],
            axis=1,
        )
        return queries[:, None], texts


def _draw_by_kind(
    shares: dict[BagKind, float], kinds: Ints, generator: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """Draw a boolean for each entry of `kinds`, True with the probability of its kind."""
    probabilities = np.array([shares.get(kind, 0.0) for kind in BagKind])
    return np.asarray(generator.random(len(kinds)) < probabilities[kinds])


def _find_table_rows(bags: BagDataset, lexicon: Lexicon) -> tuple[npt.NDArray[np.uint16], Ints]:
    """Return the table rows of all bags, one bag after the other, and the index at which each bag ends."""
    # A word of the vocabulary has one row. Any other word has up to two (hash buckets), or none if it is all digits.
    rows_by_word = [lexicon.find_rows([word]) for word in bags.words]
    counts = np.array([len(rows) for rows in rows_by_word], np.int64)
    all_rows = np.array([row for rows in rows_by_word for row in rows], np.int64)
    starts = np.cumsum(counts) - counts
    # The rows of an occurrence of a word are `all_rows[start:start + count]`.
    row_counts = counts[bags.word_numbers]
    offsets = np.repeat(starts[bags.word_numbers] - (np.cumsum(row_counts) - row_counts), row_counts)
    ends = np.concatenate([[0], np.cumsum(row_counts)])[bags.ends]
    return all_rows[offsets + np.arange(row_counts.sum())].astype(np.uint16), ends


def _build_training_set(
    bags: Bags, commits: Ints, kinds: npt.NDArray[np.uint8], repositories: Ints
) -> StaticTrainingSet:
    """Find the bags of each commit and change. `commits`, `kinds`, `repositories`: one entry per bag."""
    count = int(commits.max()) + 1

    def find_first_bags(kind: BagKind) -> Ints:
        first_bags = np.full(count, NO_BAG, np.int64)
        # In reverse, because NumPy keeps the last assignment for an index: here the first bag of a commit.
        bag_numbers = np.flatnonzero(kinds == kind)[::-1]
        first_bags[commits[bag_numbers]] = bag_numbers
        return first_bags

    change = np.flatnonzero(kinds == BagKind.CHANGE)
    next_bag = np.minimum(change + 1, len(kinds) - 1)
    comment = np.where(kinds[next_bag] == BagKind.COMMENT, next_bag, NO_BAG)
    return StaticTrainingSet(
        bags,
        subject=find_first_bags(BagKind.SUBJECT),
        body=find_first_bags(BagKind.BODY),
        changelog=find_first_bags(BagKind.CHANGELOG),
        first_sentence=find_first_bags(BagKind.SENTENCE),
        sentence_counts=np.bincount(commits[kinds == BagKind.SENTENCE], minlength=count),
        change=change,
        comment=comment,
        commit=commits[change],
        repository=repositories[change],
    )


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
        prog="python -m pipeline.training.static_dataset",
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
