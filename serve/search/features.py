"""What the cross-encoder reads of each candidate: a commit's message, and what one file's change shows.

What is known of each candidate, as numbers: what of the question its parts hold, and how near it lies in meaning.

Every number is absolute, so that 0.6 says the same for any question of any history, and what a ranker learnt on one
history holds on the next. Weights of words are BM25's, over the hunks' texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Final

import numpy as np

from pipeline.encoders.cross_encoder import Change
from pipeline.syntax.languages import language_of
from pipeline.text import Spelled, as_written, identifiers, semantic_text, sequence, spelled
from serve.search.query import Query
from serve.search.query_hints import FUNCTION_WORDS
from serve.search.retrieval import Candidate, Rankings
from stores import fulltext, vector_search
from stores.fulltext import Asked
from stores.hunk_details import Connection, Shelf, Shown
from stores.snapshot import Bools, Floats, Hunks, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """A question and the candidates' changes, which are read when somebody asks for them."""

    question: str
    changes: Callable[[], list[Change]]


def pairs(question: str, shelf: Shelf, candidates: Sequence[Candidate]) -> Pairs:
    """One change for each candidate, in their order."""
    hunks = [candidate.hunk_id for candidate in candidates]
    return Pairs(question, lambda: [*map(change, shelf.of(hunks))])


def change(shown: Shown) -> Change:
    """What is read of a hunk."""
    lines = shown.diff.split("\n")
    text = semantic_text(
        message="",
        path=shown.file_path,
        language=language_of(shown.file_path),
        symbols=shown.symbols,
        change=shown.change_kind,
        added="\n".join(line[1:] for line in lines if line.startswith("+")),
        removed="\n".join(line[1:] for line in lines if line.startswith("-")),
    )
    return Change(shown.commit_message, text)


# The rarest words tell why a hit is there; a long question would list itself.
SHOWN_WORDS: Final = 5

# "wip", "Change", "." and nothing at all say that something was done, not what.
FEWEST_TOLD: Final = 2

# What a question may say to the letter, beside its words.
LITERAL: Final = ("a path", "a name in quotes")

# Where a word may stand, in the order they are told.
PARTS: Final = ("message", "path", "symbols", "change")

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
        worth = fulltext.rarity(asked.text.holders, documents)
        unknown = [word for word in query.terms if word not in asked.words]
        rarest = float(fulltext.rarity(np.zeros(1, np.int64), documents)[0])
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
            most * (fulltext.K1 + 1) or 1.0,
            frozenset(_pairs(sequence(spelled(query.text)))),
        )

    def counted(self, texts: Sequence[Spelled]) -> Ints:
        """How often each word (columns) stands in each text (rows)."""
        places = {word: place for place, word in enumerate(self.words)}
        counts = np.zeros((len(texts), len(self.words)), np.int64)
        for count, text in zip(counts, texts, strict=True):
            for word in chain.from_iterable(text):
                if word in places:
                    count[places[word]] += 1
        return counts

    def in_order(self, text: Spelled) -> float:
        """The share of the question's pairs of words that the text has."""
        return len(self.pairs.intersection(pairwise(sequence(text)))) / (len(self.pairs) or 1)

    def share(self, counts: Ints, which: Bools) -> Floats:
        """What the words of a kind that stand there are worth, as a share of all that is asked for."""
        return np.asarray((counts > 0) @ (self.worth * which) / self.total)

    def rarest(self, count: Ints) -> tuple[str, ...]:
        """The words that stand there as they were typed, rarest first, of equally rare ones by the alphabet."""
        there = np.flatnonzero((count > 0) & self.content)
        best = sorted(there, key=lambda place: (-self.worth[place], self.words[place]))
        return tuple(dict.fromkeys(self.written[place] for place in best))


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """How often each of the question's words stands in each part of a candidate.

    Of a message that is read in part only, the rest counts as the change.
    """

    wanted: Wanted
    counts: Ints

    def __str__(self) -> str:
        """The words as they were typed, by part, rarest first."""
        by_part = zip(PARTS, map(self.wanted.rarest, self.counts), strict=True)
        said = [f"{part}: {', '.join(found[:SHOWN_WORDS])}" for part, found in by_part if found]
        return "; ".join(said) or "near in meaning; none of the question's words"


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """A row of numbers for each candidate, in their order, and what of the question each was found by.

    `told` are those whose commit says of itself what it did; `literal` which candidates (rows) have what the question
    says to the letter (columns, as in `LITERAL`); `pairs` is what a cross-encoder reads.
    """

    rows: Floats
    found: tuple[Found, ...]
    told: Bools
    literal: Bools
    pairs: Pairs


def gather(
    connection: Connection, query: Query, rankings: Rankings, candidates: Sequence[Candidate]
) -> Evidence:
    """What is known of each candidate."""
    hunks, asked = rankings.seen.snapshot.hunks, rankings.asked
    wanted = Wanted.of(query, asked, int(np.count_nonzero(hunks.words)))
    positions = hunks.positions.at(np.array([candidate.hunk_id for candidate in candidates], np.int64))
    texts, near = _messages(rankings, candidates)
    subjects, rests = zip(*map(_parted, texts), strict=True)
    anywhere, symbols = asked.text.postings.table(positions), asked.names.table(positions)
    subject, path = wanted.counted(subjects), wanted.counted(_paths(hunks, positions))
    message = subject + wanted.counted(rests)
    rows = np.column_stack(
        (
            *_nearness(connection, rankings, candidates),
            near,
            asked.text.scores[positions] / wanted.attainable,
            wanted.share(anywhere, wanted.content),
            wanted.share(subject, wanted.content),
            [wanted.in_order(one + other) for one, other in zip(subjects, rests, strict=True)],
            wanted.share(anywhere, wanted.names),
            wanted.share(path, wanted.content),
        )
    )
    parts = np.stack((message, path, symbols, anywhere - message - path - symbols), axis=1)
    told = [len(one) + len(other) >= FEWEST_TOLD for one, other in zip(subjects, rests, strict=True)]
    return Evidence(
        rows,
        tuple(Found(wanted, counts) for counts in parts),
        np.array(told, np.bool_),
        _literal(connection, query, rankings)[positions],
        pairs(query.text, rankings.shelf, candidates),
    )


def _literal(connection: Connection, query: Query, rankings: Rankings) -> Bools:
    """What each hunk of the snapshot has of what the question says to the letter."""
    touching = fulltext.touching(connection, rankings.seen.snapshot, query.symbols)
    return np.column_stack((rankings.chosen.preferred, touching))


def _messages(rankings: Rankings, candidates: Sequence[Candidate]) -> tuple[list[str], Floats]:
    """Each candidate's message, and how near it is to the question."""
    messages, shas = rankings.messages, [candidate.commit_sha for candidate in candidates]
    return messages.texts_of(shas), vector_search.cosines(messages.vectors_of(shas), rankings.vector)


def _nearness(
    connection: Connection, rankings: Rankings, candidates: Sequence[Candidate]
) -> tuple[Floats, Floats]:
    """How near each candidate's text is to the question: as the encoder sees it, and whitened."""
    seen = rankings.seen
    hunks = [candidate.hunk_id for candidate in candidates]
    rows = vector_search.of_hunks(connection, seen.snapshot, seen.texts, hunks)
    space = seen.texts.space
    placed = space.placed(rows.astype(np.float64)), space.asked(rankings.vector.astype(np.float64))
    return vector_search.cosines(rows, rankings.vector), vector_search.cosines(*placed)


def _pairs(said: Sequence[str]) -> Iterator[tuple[str, str]]:
    for one, after in pairwise(said):
        if one not in FUNCTION_WORDS and after not in FUNCTION_WORDS:
            yield one, after


def _parted(message: str) -> tuple[Spelled, Spelled]:
    """The words of a message's first line, and of the others."""
    subject, _, rest = message.partition("\n")
    return spelled(subject), spelled(rest)


def _paths(hunks: Hunks, positions: Ints) -> list[Spelled]:
    return [spelled(path) for path in hunks.shown.column("file_path").take(positions).to_pylist()]
