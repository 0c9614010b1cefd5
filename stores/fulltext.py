"""Full-text lanes: BM25 over the posting tables.

Two lanes rank hunks: `hunk_text` by the words of the change, `symbol_names` by the names of the symbols it
touched and, through the file, by the symbols and siblings that live there at HEAD; a share of the text's score
decides among names that say the same. SQL only fetches the postings of the words that are asked; planning a
statement that scores took longer than scoring. Scores equal those of DuckDB's own full-text extension over the
same documents; the extension itself is never loaded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import duckdb
import numpy as np

from stores.filters import Chosen
from stores.snapshot import (
    LANE_DEPTH,
    PREFERRED_PATH,
    Bools,
    Floats,
    Ints,
    Numbers,
    Ranked,
    Snapshot,
    best,
    integers,
)

# Robertson's usual saturation and length weights, which DuckDB's extension has as defaults too.
K1: Final = 1.2
B: Final = 0.75

# A hunk that touched a matching symbol says more than one which only lives in a file that has such a symbol
# today, and every hunk of that file has the same score: a twentieth orders hunks that are equal otherwise.
HEAD_SHARE: Final = 0.05
# Names choose a hunk; what its text says of the question decides among hunks whose names say the same. Names
# alone pulled fusion's MRR@10 down by 0.04, 0.07 and 0.11 on three histories; with 0.3 of the text's score it
# rose from 0.78 to 0.84, from 0.63 to 0.66 and from 0.80 to 0.88 (the second was not tuned on); 1.0 did the same.
TEXT_SHARE: Final = 0.3
# "the", "is" and a project's own name stand in every text but in few symbols, where BM25 takes them for rare
# and telling. Leaving out of the symbol-name lane what more than this share of the texts have lifted fusion's
# MRR@10 from 0.78 to 0.80 and from 0.73 to 0.79 on two histories; 0.1 and 0.2 did the same.
COMMON_WORD: Final = 0.15
# Fusion knows ranks alone: a name that holds one word of a long question counts as much as one that holds all. Names
# that hold half of what the words are worth, in place of any, lifted fusion's nDCG@10 from 0.41 to 0.45 on the written
# questions of four histories, from 0.76 to 0.82 on changelogs and from 0.86 to 0.94 on sentences of messages of six
# others, from 0.48 to 0.53 on subjects asked without messages, and its MRR@10 on two histories that nothing was chosen
# by from 0.87 to 0.89 and from 0.77 to 0.90; on one it fell from 0.84 to 0.82. 0.7 did the same, 0.3 less. The order
# after reranking stays as it was.
NAMED_SHARE: Final = 0.5
# A name typed in quotes is meant literally. Doubling lets it pass names that only share its words, and still
# lets a rare word outweigh a very common name.
QUOTED_NAME: Final = 2.0

# The sum of doubles depends on its order. Whole numbers of this unit do not.
_UNIT: Final = 1e-12

# Numbers stand in the text, not in parameters: only constants let a scan skip row groups of other words.
_POSTINGS: Final = "SELECT term_id, {key}, frequency FROM {table} WHERE term_id IN ({terms})"
_KEYS: Final = {"hunk_postings": "hunk_id", "symbol_postings": "hunk_id", "head_postings": "symbol_id"}
# So do words and names: binding costs a tenth of a millisecond a value.
_TERMS: Final = "SELECT term_id, term FROM terms WHERE term IN ({words}) ORDER BY term_id"
_NAMED: Final = "SELECT DISTINCT hunk_id FROM hunk_symbols WHERE name IN ({names})"


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """Where words stand: each word's place among `asked` ones, the position of a document, how often there."""

    asked: int
    words: Ints
    documents: Ints
    frequencies: Ints

    def table(self, documents: Ints) -> Ints:
        """How often each of the words (columns) stands in each of these documents (rows)."""
        order = np.argsort(documents, kind="stable")
        places = np.minimum(np.searchsorted(documents, self.documents, sorter=order), len(documents) - 1)
        rows = order[places]
        here = documents[rows] == self.documents
        counts = np.zeros((len(documents), self.asked), np.int64)
        counts[rows[here], self.words[here]] = self.frequencies[here]
        return counts

    def only(self, which: Bools) -> Postings:
        """Those of some of the words."""
        kept = which[self.words]
        return Postings(self.asked, self.words[kept], self.documents[kept], self.frequencies[kept])


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """BM25 of every document of a corpus, by position: 0 for those that have none of the words, and not `found`.

    `postings` is where the words stand, `holders` how many documents have each.
    """

    scores: Floats
    found: Bools
    holders: Ints
    postings: Postings


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """How well the best of its names matches, of each hunk: by BM25, and what the words that it holds are worth."""

    scores: Floats
    worth: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Words looked up: those the store knows, its numbers of them, in order, and what the hunks' texts say of them.

    `names` is where they stand in the names of the symbols that hunks touched.
    """

    words: tuple[str, ...]
    terms: Ints
    text: Scores
    names: Postings


def look_up(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, words: Iterable[str]) -> Asked:
    """What the index knows of these words."""
    sql = _TERMS.format(words=_literals(words))
    known = connection.execute(sql).fetchall()
    terms = np.array([number for number, _ in known], dtype=np.int64)
    hunks = snapshot.hunks
    said = _postings(connection, "hunk_postings", terms, hunks.positions)
    names = _postings(connection, "symbol_postings", terms, hunks.positions)
    return Asked(tuple(word for _, word in known), terms, _scored(said, hunks.words), names)


def hunk_text(
    snapshot: Snapshot, asked: Asked, chosen: Chosen, *, limit: int = LANE_DEPTH
) -> tuple[Ranked, ...]:
    """The best hunks by the words of the change, best first."""
    scores = asked.text.scores * _preferring(chosen)
    return best(snapshot, scores, asked.text.found & chosen.kept, limit)


def symbol_names(
    connection: duckdb.DuckDBPyConnection,
    snapshot: Snapshot,
    asked: Asked,
    chosen: Chosen,
    *,
    quoted: tuple[str, ...] = (),
    limit: int = LANE_DEPTH,
) -> tuple[Ranked, ...]:
    """The best hunks by the names of symbols, best first; `quoted` are names meant literally."""
    worth = _units(rarity(asked.text.holders, int(np.count_nonzero(snapshot.hunks.words))))
    telling = np.ones(len(asked.terms), np.bool_) if quoted else ~_common(snapshot, asked.text)
    touched = _touched(connection, snapshot, asked.names.only(telling), quoted, worth)
    living = _living(connection, snapshot, asked.terms[telling], quoted, worth[telling])
    scores = touched.scores + HEAD_SHARE * living.scores + TEXT_SHARE * asked.text.scores
    held = np.maximum(touched.worth, living.worth)
    eligible = (held > 0) & (held >= (0 if quoted else NAMED_SHARE) * worth.sum()) & chosen.kept
    return best(snapshot, scores * _preferring(chosen), eligible, limit)


def touching(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, names: tuple[str, ...]) -> Bools:
    """Which hunks touched a symbol that has one of these names, to the letter."""
    found = np.zeros(len(snapshot.hunks), np.bool_)
    if names:
        rows = connection.execute(_NAMED.format(names=_literals(names))).to_arrow_table()
        positions = snapshot.hunks.positions.at(integers(rows.column("hunk_id")))
        found[positions[positions >= 0]] = True
    return found


def _common(snapshot: Snapshot, text: Scores) -> Bools:
    """Words that more than a share of the texts have, and more than a lane could list whole."""
    texts = np.count_nonzero(snapshot.hunks.words)
    return np.asarray(text.holders > max(LANE_DEPTH, COMMON_WORD * texts))


def _touched(
    connection: duckdb.DuckDBPyConnection,
    snapshot: Snapshot,
    names: Postings,
    quoted: tuple[str, ...],
    worth: Ints,
) -> Named:
    """How well the names of the symbols that each hunk touched match."""
    hunks = snapshot.hunks
    scores, held = _scored(names, hunks.symbol_words).scores, _held(names, worth, len(hunks))
    if not quoted:
        return Named(scores, held)
    return Named(scores * np.where(touching(connection, snapshot, quoted), QUOTED_NAME, 1.0), held)


def _living(
    connection: duckdb.DuckDBPyConnection,
    snapshot: Snapshot,
    terms: Ints,
    quoted: tuple[str, ...],
    worth: Ints,
) -> Named:
    """How well the best symbol matches that lives at HEAD in each hunk's file."""
    symbols = snapshot.symbols
    postings = _postings(connection, "head_postings", terms, symbols.positions)
    scores, held = _scored(postings, symbols.words).scores, _held(postings, worth, len(symbols.words))
    if quoted:
        scores = scores * np.where(symbols.named(quoted), QUOTED_NAME, 1.0)
    here = np.flatnonzero((held > 0) & (symbols.files >= 0))
    best_score, most_worth = np.zeros(snapshot.files), np.zeros(snapshot.files, np.int64)
    np.maximum.at(best_score, symbols.files[here], scores[here])
    np.maximum.at(most_worth, symbols.files[here], held[here])
    files = snapshot.hunks.files
    return Named(best_score[files], most_worth[files])


def _held(postings: Postings, worth: Ints, documents: int) -> Ints:
    """What the words that stand in each document are worth together, in whole units."""
    held = np.zeros(documents, np.int64)
    np.add.at(held, postings.documents, worth[postings.words])
    return held


def _scored(postings: Postings, lengths: Ints) -> Scores:
    """BM25 over the postings of one table: the weight of each word in each document that has it, summed."""
    holders = np.bincount(postings.words, minlength=postings.asked)
    sums, found = np.zeros(len(lengths), np.int64), np.zeros(len(lengths), np.bool_)
    if len(postings.documents):
        np.add.at(sums, postings.documents, _weights(holders[postings.words], postings, lengths))
        found[postings.documents] = True
    return Scores(np.asarray(sums * _UNIT, dtype=np.float64), found, holders, postings)


def _postings(connection: duckdb.DuckDBPyConnection, table: str, terms: Ints, positions: Numbers) -> Postings:
    if not len(terms):
        return Postings(0, terms, terms, terms)
    sql = _POSTINGS.format(key=_KEYS[table], table=table, terms=", ".join(map(str, terms.tolist())))
    numbers, rows, frequencies = map(integers, connection.execute(sql).to_arrow_table().columns)
    documents = positions.at(rows)
    there = documents >= 0
    return Postings(len(terms), np.searchsorted(terms, numbers[there]), documents[there], frequencies[there])


def rarity(holders: Ints, documents: int) -> Floats:
    """What a word is worth that this many of so many documents have: BM25's inverse document frequency."""
    return np.asarray(np.log10((documents - holders + 0.5) / (holders + 0.5) + 1))


def _weights(holders: Ints, postings: Postings, lengths: Ints) -> Ints:
    """Each posting's share of its document's score, in whole units."""
    size, frequencies = int(np.count_nonzero(lengths)), postings.frequencies
    saturation = frequencies + K1 * (1 - B + B * lengths[postings.documents] / (lengths.sum() / size))
    return _units(rarity(holders, size) * frequencies * (K1 + 1) / saturation)


def _units(values: Floats) -> Ints:
    return np.asarray(np.rint(values / _UNIT), dtype=np.int64)


def _preferring(chosen: Chosen) -> Floats:
    return np.where(chosen.preferred, PREFERRED_PATH, 1.0)


def _literals(texts: Iterable[str]) -> str:
    """The texts as SQL constants; of none, a list that nothing is in."""
    quoted = ("'" + text.replace("'", "''") + "'" for text in texts)
    return ", ".join(quoted) or "NULL"
