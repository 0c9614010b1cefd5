"""Full-text search: insertion of postings, and the two full-text lanes, which rank hunks by BM25.

- `insert_postings` writes the terms of new hunks or symbols.
- `search_hunk_text` ranks hunks by the terms of their text.
- `search_symbol_names` ranks hunks by the names of the symbols that they touched or that their file has at HEAD.

A posting is a row with a term, a document (hunk or symbol) that has it, and the number of occurrences. The postings of
the query's terms are in the snapshot, or are read by an SQL statement. NumPy computes the scores, because DuckDB takes
longer just to plan a statement that would compute them. The scores equal those of DuckDB's full-text extension, which
is not used.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stores import schema
from stores.database import fetch_int, format_literals, register_tables
from stores.filters import QuotedSymbol
from stores.schema import Rows
from stores.snapshot import (
    INNERMOST_PARENT,
    LANE_DEPTH,
    POSTINGS,
    POSTINGS_TABLES,
    PREFERRED_PATH_BOOST,
    Bools,
    FilterMask,
    Floats,
    Ints,
    RankedHunk,
    Snapshot,
    select_top_k,
    to_int_array,
)

# The usual saturation and length normalisation of BM25, also the defaults of DuckDB's full-text extension.
K1: Final = 1.2
B: Final = 0.75

# Weight of the symbols that the hunk's file has at HEAD; touched symbols have 1. All hunks of a file have the
# same HEAD score, so a small weight orders hunks of different files that are otherwise equal.
HEAD_WEIGHT: Final = 0.05
# Weight of the text score in the symbol-name lane. See "Symbol-name lane" in README.md.
TEXT_WEIGHT: Final = 0.3
# The symbol-name lane ignores terms in more than this share of the texts. See "Symbol-name lane" in README.md.
COMMON_TERM_SHARE: Final = 0.15
# Minimum share of the query's term weights that a name must match. See "Symbol-name lane" in README.md.
MIN_NAME_MATCH_SHARE: Final = 0.5
# Factor for a symbol whose name the query quotes, and once more if the quoted parent matches too. With 2.0 such symbols
# rank above those that share only terms with the query. A match of a rare term still outranks a very common name.
QUOTED_NAME_BOOST: Final = 2.0

# Scores are summed as integer multiples of this unit, because the sum of floats depends on their order.
_UNIT: Final = 1e-12

_POSTINGS_OF_TERMS: Final = f"{POSTINGS} WHERE term_id IN ({{terms}})"
_TERMS: Final = "SELECT term_id, term FROM terms WHERE term IN ({terms}) ORDER BY term_id"
_HUNKS_BY_SYMBOL: Final = f"""
SELECT hunk_id, max(CASE WHEN {INNERMOST_PARENT} || '.' || name IN ({{full_names}}) THEN 2 ELSE 1 END) AS parts
FROM hunk_symbols
WHERE name IN ({{names}})
GROUP BY hunk_id"""

_RECORDED_TERMS: Final = "SELECT position, term_id FROM vocabulary_in JOIN terms USING (term)"
_NEXT_TERM_ID: Final = "SELECT coalesce(max(term_id) + 1, 0) FROM terms"


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """Postings of the query's terms in one table. Documents are hunks or symbols.

    - `term_count`: number of terms that were looked up.
    - `term_indices`, `documents`, `frequencies`: one element per posting: index of its term among these terms, position
      of its document in the snapshot, and number of occurrences of the term in the document.
    """

    term_count: int
    term_indices: Ints
    documents: Ints
    frequencies: Ints

    def count_terms(self, documents: Ints) -> Ints:
        """Return a matrix of the number of occurrences of each term (columns) in each of these documents (rows)."""
        is_present = np.isin(self.documents, documents)
        sorted_rows = np.argsort(documents, kind="stable")
        rows = sorted_rows[np.searchsorted(documents, self.documents[is_present], sorter=sorted_rows)]
        counts = np.zeros((len(documents), self.term_count), np.int64)
        counts[rows, self.term_indices[is_present]] = self.frequencies[is_present]
        return counts

    def select_terms(self, term_mask: Bools) -> Postings:
        """Return the postings of the terms that the mask (an element per term) selects."""
        posting_mask = term_mask[self.term_indices]
        return Postings(
            self.term_count,
            self.term_indices[posting_mask],
            self.documents[posting_mask],
            self.frequencies[posting_mask],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Bm25Scores:
    """BM25 scores of all documents.

    - `scores`: score by position of the document; 0 for a document without any of the terms.
    - `is_matched`: mask of the documents that have a term.
    - `document_frequencies`: number of documents that have the term, by index of the term.
    """

    scores: Floats
    is_matched: Bools
    document_frequencies: Ints
    postings: Postings


@dataclass(frozen=True, slots=True, eq=False)
class SymbolNameScores:
    """Scores of all hunks by the names of their symbols, by position of the hunk.

    `matched_weight`: sum of the weights of the query's terms in the names, in units of `_UNIT`.
    """

    scores: Floats
    matched_weight: Ints


@dataclass(frozen=True, slots=True, eq=False)
class TermLookup:
    """Terms of the query that are in the index.

    - `terms`, `term_ids`: the terms and their ids, by ascending id.
    - `text_scores`: scores of the hunks' texts.
    - `name_postings`: postings of the names of touched symbols.
    """

    terms: tuple[str, ...]
    term_ids: Ints
    text_scores: Bm25Scores
    name_postings: Postings


def look_up_terms(
    connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, terms: Iterable[str]
) -> TermLookup:
    """Look up these terms in the index and score the text of all hunks."""
    if snapshot.postings:
        rows = snapshot.postings.find_terms(terms)
    else:
        rows = connection.execute(_TERMS.format(terms=format_literals(terms))).fetchall()
    term_ids = np.array([term_id for term_id, _ in rows], dtype=np.int64)
    text_postings = _load_postings(connection, snapshot, "hunk_postings", term_ids)
    name_postings = _load_postings(connection, snapshot, "symbol_postings", term_ids)
    text_scores = _score_bm25(text_postings, snapshot.hunks.word_counts)
    return TermLookup(tuple(term for _, term in rows), term_ids, text_scores, name_postings)


def search_hunk_text(
    snapshot: Snapshot, lookup: TermLookup, mask: FilterMask, *, limit: int = LANE_DEPTH
) -> tuple[RankedHunk, ...]:
    """Return the hunks whose text has the highest BM25 scores, best first."""
    scores = lookup.text_scores.scores * _compute_preference_factors(mask)
    return select_top_k(snapshot, scores, lookup.text_scores.is_matched & mask.is_included, limit)


def search_symbol_names(
    connection: duckdb.DuckDBPyConnection,
    snapshot: Snapshot,
    lookup: TermLookup,
    mask: FilterMask,
    *,
    quoted_symbols: tuple[QuotedSymbol, ...] = (),
    touched_parts: Ints | None = None,
    limit: int = LANE_DEPTH,
) -> tuple[RankedHunk, ...]:
    """Return the hunks with the best matching symbol names, best first.

    `quoted_symbols`: names that the query quotes. With them, common terms count and a single matching term is enough.
    `touched_parts`: result of `count_touched_parts` for these names; None to count here.
    """
    if touched_parts is None:
        touched_parts = count_touched_parts(connection, snapshot, quoted_symbols)
    text_count = int(np.count_nonzero(snapshot.hunks.word_counts))
    weights = _to_units(
        compute_inverse_document_frequency(lookup.text_scores.document_frequencies, text_count)
    )
    is_term_used = (
        np.ones(len(lookup.term_ids), np.bool_)
        if quoted_symbols
        else ~_find_common_terms(snapshot, lookup.text_scores)
    )
    touched_scores = _score_touched_symbols(
        snapshot, lookup.name_postings.select_terms(is_term_used), touched_parts, weights
    )
    head_scores = _score_head_symbols(
        connection, snapshot, lookup.term_ids[is_term_used], quoted_symbols, weights[is_term_used]
    )
    scores = (
        touched_scores.scores + HEAD_WEIGHT * head_scores.scores + TEXT_WEIGHT * lookup.text_scores.scores
    )
    matched_weight = np.maximum(touched_scores.matched_weight, head_scores.matched_weight)
    min_weight = (0 if quoted_symbols else MIN_NAME_MATCH_SHARE) * weights.sum()
    is_eligible = (matched_weight > 0) & (matched_weight >= min_weight) & mask.is_included
    return select_top_k(snapshot, scores * _compute_preference_factors(mask), is_eligible, limit)


def compute_inverse_document_frequency(document_frequencies: Ints, document_count: int) -> Floats:
    """Return BM25's inverse document frequency of each term.

    `document_frequencies`: number of documents that have the term. `document_count`: number of all documents.
    """
    return np.asarray(
        np.log10((document_count - document_frequencies + 0.5) / (document_frequencies + 0.5) + 1)
    )


def count_touched_parts(
    connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, quoted_symbols: tuple[QuotedSymbol, ...]
) -> Ints:
    """Return how many parts of a quoted symbol each hunk touched: 0, 1 (the name) or 2 (also the parent)."""
    counts = np.zeros(len(snapshot.hunks), np.int64)
    if quoted_symbols:
        sql = _HUNKS_BY_SYMBOL.format(
            names=format_literals(quoted.name for quoted in quoted_symbols),
            full_names=format_literals(str(quoted) for quoted in quoted_symbols if quoted.parent),
        )
        rows = connection.execute(sql).to_arrow_table()
        positions = snapshot.hunks.positions.find_positions(to_int_array(rows.column("hunk_id")))
        is_included = positions >= 0
        counts[positions[is_included]] = to_int_array(rows.column("parts"))[is_included]
    return counts


def _find_common_terms(snapshot: Snapshot, text_scores: Bm25Scores) -> Bools:
    """Return a mask of the terms in more than COMMON_TERM_SHARE of the texts and in more than LANE_DEPTH texts."""
    text_count = np.count_nonzero(snapshot.hunks.word_counts)
    return np.asarray(text_scores.document_frequencies > max(LANE_DEPTH, COMMON_TERM_SHARE * text_count))


def _score_touched_symbols(
    snapshot: Snapshot, name_postings: Postings, touched_parts: Ints, weights: Ints
) -> SymbolNameScores:
    """Score the names of the symbols that each hunk touched."""
    hunks = snapshot.hunks
    scores = _score_bm25(name_postings, hunks.symbol_word_counts).scores
    matched_weight = _sum_weights(name_postings, weights, len(hunks))
    scores = scores * QUOTED_NAME_BOOST**touched_parts
    return SymbolNameScores(scores, matched_weight)


def _score_head_symbols(
    connection: duckdb.DuckDBPyConnection,
    snapshot: Snapshot,
    term_ids: Ints,
    quoted_symbols: tuple[QuotedSymbol, ...],
    weights: Ints,
) -> SymbolNameScores:
    """Score each hunk by the best matching symbol that its file has at HEAD.

    `weights`: weight of each term of `term_ids`.
    """
    symbols = snapshot.symbols
    postings = _load_postings(connection, snapshot, "head_postings", term_ids)
    scores = _score_bm25(postings, symbols.word_counts).scores
    matched_weight = _sum_weights(postings, weights, len(symbols.word_counts))
    scores = scores * QUOTED_NAME_BOOST ** symbols.count_matched_parts(quoted_symbols)
    matched_symbols = np.flatnonzero((matched_weight > 0) & (symbols.file_indices >= 0))
    best_scores, best_weights = np.zeros(snapshot.file_count), np.zeros(snapshot.file_count, np.int64)
    np.maximum.at(best_scores, symbols.file_indices[matched_symbols], scores[matched_symbols])
    np.maximum.at(best_weights, symbols.file_indices[matched_symbols], matched_weight[matched_symbols])
    file_indices = snapshot.hunks.file_indices
    return SymbolNameScores(best_scores[file_indices], best_weights[file_indices])


def _sum_weights(postings: Postings, weights: Ints, document_count: int) -> Ints:
    """Return the sum of the weights of the terms that each document has. `weights`: by index of the term."""
    sums = np.zeros(document_count, np.int64)
    np.add.at(sums, postings.documents, weights[postings.term_indices])
    return sums


def _score_bm25(postings: Postings, word_counts: Ints) -> Bm25Scores:
    """Score the documents of one postings table; `word_counts` has the number of words in each document."""
    document_frequencies = np.bincount(postings.term_indices, minlength=postings.term_count)
    sums, is_matched = np.zeros(len(word_counts), np.int64), np.zeros(len(word_counts), np.bool_)
    if len(postings.documents):
        posting_document_frequencies = document_frequencies[postings.term_indices]
        np.add.at(
            sums, postings.documents, _score_postings(posting_document_frequencies, postings, word_counts)
        )
        is_matched[postings.documents] = True
    return Bm25Scores(np.asarray(sums * _UNIT, dtype=np.float64), is_matched, document_frequencies, postings)


def _load_postings(
    connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, table: str, term_ids: Ints
) -> Postings:
    """Return the postings of these terms in one table, from the snapshot if it has postings. `term_ids`: ascending."""
    if not len(term_ids):
        return Postings(0, term_ids, term_ids, term_ids)
    if snapshot.postings:
        return Postings(len(term_ids), *snapshot.postings.tables[table].find_postings(term_ids))
    terms = format_literals(term_ids.tolist())
    sql = _POSTINGS_OF_TERMS.format(key=POSTINGS_TABLES[table], table=table, terms=terms)
    posting_term_ids, document_ids, frequencies = map(
        to_int_array, connection.execute(sql).to_arrow_table().columns
    )
    documents = snapshot.get_positions(table).find_positions(document_ids)
    is_included = documents >= 0
    term_indices = np.searchsorted(term_ids, posting_term_ids[is_included])
    return Postings(len(term_ids), term_indices, documents[is_included], frequencies[is_included])


def _score_postings(posting_document_frequencies: Ints, postings: Postings, word_counts: Ints) -> Ints:
    """Return what each posting adds to the score of its document, in units of `_UNIT`.

    `posting_document_frequencies`: number of documents that have the term, for each posting.
    """
    document_count, frequencies = int(np.count_nonzero(word_counts)), postings.frequencies
    saturation = frequencies + K1 * (
        1 - B + B * word_counts[postings.documents] / (word_counts.sum() / document_count)
    )
    rarity = compute_inverse_document_frequency(posting_document_frequencies, document_count)
    return _to_units(rarity * frequencies * (K1 + 1) / saturation)


def _to_units(values: Floats) -> Ints:
    """Convert values to multiples of `_UNIT`."""
    return np.asarray(np.rint(values / _UNIT), dtype=np.int64)


def _compute_preference_factors(mask: FilterMask) -> Floats:
    """Return the factor of each hunk's score: `PREFERRED_PATH_BOOST` in preferred paths, else 1."""
    return np.where(mask.is_preferred, PREFERRED_PATH_BOOST, 1.0)


def insert_postings(
    connection: duckdb.DuckDBPyConnection, terms_by_table: Mapping[str, Rows], first_document_id: int
) -> float:
    """Insert the postings of a batch's documents, and the terms that are new; return the seconds that this took.

    New terms are numbered by their first document, then alphabetically, so that ids do not depend on the size of
    batches. The batch's postings are sorted by term. NumPy does both, because SQL with a join per table took twice the
    time.

    `terms_by_table`: rows of `schema.DOCUMENT_TERMS`, by postings table. `first_document_id`: id of the
    batch's first document. In the rows, documents are numbered from 0.
    """
    started = time.perf_counter()
    occurrences = _TermOccurrences.from_term_rows(terms_by_table)
    if not len(occurrences.vocabulary):
        return 0.0
    term_ids = _assign_term_ids(connection, occurrences)[occurrences.vocabulary_indices]
    offsets = accumulate((rows.num_rows for rows in terms_by_table.values()), initial=0)
    for (table, rows), (start, end) in zip(terms_by_table.items(), pairwise(offsets), strict=True):
        table_ids, documents = term_ids[start:end], occurrences.documents[start:end]
        order = np.lexsort((documents, table_ids))
        postings = pa.table(
            {
                "term_id": table_ids[order],
                "document": documents[order] + first_document_id,
                "frequency": rows.column("frequency").take(pa.array(order)),
            }
        )
        with register_tables(connection, postings_in=postings):
            connection.execute(f"INSERT INTO {table} FROM postings_in")
    return time.perf_counter() - started


@dataclass(frozen=True, slots=True, eq=False)
class _TermOccurrences:
    """Occurrences of terms, one per row of the tables. `vocabulary`: the distinct terms.

    `documents`, `vocabulary_indices`: document and index of the term of each occurrence.
    """

    documents: Ints
    vocabulary_indices: Ints
    vocabulary: pa.StringArray

    @classmethod
    def from_term_rows(cls, terms_by_table: Mapping[str, Rows]) -> _TermOccurrences:
        table = pa.concat_tables(
            pa.table(rows.columns, schema.DOCUMENT_TERMS) for rows in terms_by_table.values()
        )
        encoded = table.column("term").combine_chunks().dictionary_encode()
        return cls(table.column("document").to_numpy(), encoded.indices.to_numpy(), encoded.dictionary)

    def sort_vocabulary(self) -> Ints:
        """Return the indices of the terms, sorted by the first document that has the term, then alphabetically."""
        first_documents = np.full(len(self.vocabulary), np.iinfo(np.int64).max)
        np.minimum.at(first_documents, self.vocabulary_indices, self.documents)
        alphabetical = pc.sort_indices(self.vocabulary).to_numpy()
        order: Ints = alphabetical[np.argsort(first_documents[alphabetical], kind="stable")]
        return order


def _assign_term_ids(connection: duckdb.DuckDBPyConnection, occurrences: _TermOccurrences) -> Ints:
    """Return the id of each term of the vocabulary. Insert the terms that are new."""
    term_ids = np.full(len(occurrences.vocabulary), -1)
    vocabulary = pa.table({"position": np.arange(len(term_ids)), "term": occurrences.vocabulary})
    with register_tables(connection, vocabulary_in=vocabulary):
        recorded_terms = connection.execute(_RECORDED_TERMS).fetchnumpy()
    term_ids[recorded_terms["position"]] = recorded_terms["term_id"]
    order = occurrences.sort_vocabulary()
    new_terms = order[term_ids[order] < 0]
    if len(new_terms):
        term_ids[new_terms] = fetch_int(connection, _NEXT_TERM_ID) + np.arange(len(new_terms))
        terms = pa.table(
            {"term_id": term_ids[new_terms], "term": occurrences.vocabulary.take(pa.array(new_terms))}
        )
        with register_tables(connection, terms_in=terms):
            connection.execute("INSERT INTO terms FROM terms_in")
    return term_ids
