"""What is known of each candidate, as numbers: what of the question its parts hold, and how near it lies in meaning.

Every number is absolute, so that 0.6 says the same for any question of any history, and what a ranker learnt on one
history holds on the next. Weights of words are BM25's, over the hunks' texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from pipeline.text import as_written, identifiers, sequence, words
from serve.find.fuse import Candidate
from serve.find.lanes import Rankings
from serve.find.query import Query
from stores import lexical, messages, vectors
from stores.lexical import Asked
from stores.ranking import Floats
from stores.showing import Connection
from stores.snapshot import Bools, Ints

# What a question is built with and no change is about. Their stems are rare in code, where BM25 takes them for telling.
FUNCTION_WORDS: Final = frozenset(
    words(
        "a about all an and any are as at be been before being but by can could did do does doing done for from get"
        " gets getting got had has have how i if in into is it its made make more no not of on only or our should so"
        " some such than that the their them then there these they this those to us use used using was way we were"
        " what when where which who why will with would you"
    )
)

# The rarest words tell why a hit is there; a long question would list itself.
SHOWN_WORDS: Final = 5

# The features, in the order of a row's numbers.
FEATURES: Final = (
    "hunk near",  # cosine of the question and the hunk's text
    "hunk near, whitened",  # the same in the index's own space, where what all its texts share is gone
    "message near",  # cosine of the question and the commit's message
    "words",  # BM25 of the hunk, as a share of the most the question could have
    "words found",  # the weight of the question's words that the hunk's text has, as a share of all
    "words in the subject",  # the same of the message's first line
    "words in order",  # the share of the question's neighbouring words that are neighbours in the message
    "names found",  # the weight of the question's identifiers that the hunk's text has whole
    "words in the path",
)


@dataclass(frozen=True, slots=True)
class Found:
    """Which of the question's words a candidate has, as they were typed, rarest first, by the part that has them."""

    message: tuple[str, ...]
    path: tuple[str, ...]
    symbols: tuple[str, ...]
    change: tuple[str, ...]

    def __str__(self) -> str:
        parts = {"message": self.message, "path": self.path, "symbols": self.symbols, "change": self.change}
        said = [f"{part}: {', '.join(found[:SHOWN_WORDS])}" for part, found in parts.items() if found]
        return "; ".join(said) or "near in meaning; none of its words"


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """A row of numbers for each candidate, in their order, and the words that each was found by."""

    rows: Floats
    found: tuple[Found, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """The question's words: those the index knows with what each is worth, and what all are worth together.

    `written` is how each was typed, `content` those that are no function words, `names` those typed as identifiers.
    """

    words: tuple[str, ...]
    written: tuple[str, ...]
    worth: Floats
    content: Bools
    names: Bools
    total: float
    attainable: float
    pairs: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, query: Query, asked: Asked, documents: int) -> Wanted:
        """What a question asks for; words the index does not know count as the rarest."""
        worth = lexical.rarity(asked.text.holders, documents)
        unknown = [word for word in query.terms if word not in asked.words]
        rarest = float(lexical.rarity(np.zeros(1, np.int64), documents)[0])
        content = np.array([word not in FUNCTION_WORDS for word in asked.words], np.bool_)
        typed, written = identifiers(query.text), as_written(query.text)
        missing = rarest * sum(word not in FUNCTION_WORDS for word in unknown)
        most = float(worth.sum()) + rarest * len(unknown)
        return cls(
            asked.words,
            tuple(written.get(word, word) for word in asked.words),
            worth,
            content,
            np.array([word in typed for word in asked.words], np.bool_),
            float(worth[content].sum()) + missing or 1.0,
            most * (lexical.K1 + 1) or 1.0,
            frozenset(_pairs(sequence(query.text))),
        )

    def counted(self, texts: Iterable[str]) -> Ints:
        """How often each word (columns) stands in each text (rows)."""
        counts = [[said.get(word, 0) for word in self.words] for said in map(words, texts)]
        return np.array(counts, np.int64).reshape(len(counts), len(self.words))

    def share(self, counts: Ints, which: Bools) -> Floats:
        """What the words of a kind that stand there are worth, as a share of all that is asked for."""
        return np.asarray((counts > 0) @ (self.worth * which) / self.total)

    def rarest(self, count: Ints) -> tuple[str, ...]:
        """The words that stand there as they were typed, rarest first, of equally rare ones by the alphabet."""
        there = np.flatnonzero((count > 0) & self.content)
        best = sorted(there, key=lambda place: (-self.worth[place], self.words[place]))
        return tuple(dict.fromkeys(self.written[place] for place in best))


def gather(
    connection: Connection, query: Query, rankings: Rankings, candidates: Sequence[Candidate]
) -> Evidence:
    """What is known of each candidate."""
    hunks = rankings.seen.snapshot.hunks
    wanted = Wanted.of(query, rankings.asked, int(np.count_nonzero(hunks.words)))
    positions = hunks.positions.at(np.array([candidate.hunk_id for candidate in candidates], np.int64))
    texts, near = _messages(connection, rankings, candidates)
    anywhere = rankings.asked.text.postings.table(positions, len(wanted.words))
    message = wanted.counted(texts)
    path = wanted.counted(hunks.shown.column("file_path").take(positions).to_pylist())
    touched = lexical.touched(connection, rankings.seen.snapshot, rankings.asked)
    symbols = touched.postings.table(positions, len(wanted.words))
    rows = np.column_stack(
        (
            *_nearness(connection, rankings, candidates),
            near,
            rankings.asked.text.scores[positions] / wanted.attainable,
            wanted.share(anywhere, wanted.content),
            wanted.share(wanted.counted(map(_subject, texts)), wanted.content),
            [_in_order(wanted, text) for text in texts],
            wanted.share(anywhere, wanted.names),
            wanted.share(path, wanted.content),
        )
    )
    change = anywhere - message - path - symbols
    parts = zip(message, path, symbols, change, strict=True)
    return Evidence(rows, tuple(Found(*map(wanted.rarest, part)) for part in parts))


def _messages(
    connection: Connection, rankings: Rankings, candidates: Sequence[Candidate]
) -> tuple[list[str], Floats]:
    """Each candidate's message, and how near it is to the question."""
    shas = [candidate.commit_sha for candidate in candidates]
    texts, rows = (rankings.seen.messages or messages.some(connection, shas)).of(shas)
    return texts, vectors.cosines(rows, rankings.vector)


def _nearness(
    connection: Connection, rankings: Rankings, candidates: Sequence[Candidate]
) -> tuple[Floats, Floats]:
    """How near each candidate's text is to the question: as the encoder sees it, and whitened."""
    seen = rankings.seen
    hunks = [candidate.hunk_id for candidate in candidates]
    rows = vectors.of_hunks(connection, seen.snapshot, seen.texts, hunks)
    space = seen.texts.space
    placed = space.placed(rows.astype(np.float64)), space.placed(rankings.vector.astype(np.float64))
    return vectors.cosines(rows, rankings.vector), vectors.cosines(*placed)


def _in_order(wanted: Wanted, text: str) -> float:
    return len(wanted.pairs & set(_pairs(sequence(text)))) / len(wanted.pairs) if wanted.pairs else 0.0


def _pairs(said: Sequence[str]) -> Iterator[tuple[str, str]]:
    for one, after in pairwise(said):
        if one not in FUNCTION_WORDS and after not in FUNCTION_WORDS:
            yield one, after


def _subject(message: str) -> str:
    return message.split("\n", 1)[0]
