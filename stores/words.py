"""Words of documents -> numbered terms, and postings that name them by number.

The database is asked once which words it has; the rest is arithmetic on columns. In SQL, with a join for each table,
it was twice the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stores import schema
from stores.database import registered

if TYPE_CHECKING:
    import duckdb

    from stores.snapshot import Ints

Rows: TypeAlias = pa.Table | pa.RecordBatch

_KNOWN: Final = "SELECT place, term_id FROM asked_words JOIN terms ON word = term"
_NEXT: Final = "SELECT coalesce(max(term_id) + 1, 0) FROM terms"


def write(connection: duckdb.DuckDBPyConnection, words: Mapping[str, Rows], shift: int) -> None:
    """Insert the postings of a batch's documents, and the words that no document had before.

    `words`: by table of postings, rows as in `schema.WORDS`. `shift`: the number of the batch's first document.
    A word gets its number when it first appears: in the order of documents, then of the alphabet. So the numbers do
    not depend on how the documents were cut into batches. By number within a batch: each is a short clustered run.
    """
    said = _Said.of(words)
    if not len(said.vocabulary):
        return
    numbers = _numbers(connection, said)[said.words]
    ends = accumulate((rows.num_rows for rows in words.values()), initial=0)
    for (table, rows), (start, end) in zip(words.items(), pairwise(ends), strict=True):
        term_ids, documents = numbers[start:end], said.documents[start:end]
        order = np.lexsort((documents, term_ids))
        postings = pa.table(
            {
                "term_id": term_ids[order],
                "document": documents[order] + shift,
                "frequency": rows.column("frequency").take(pa.array(order)),
            }
        )
        with registered(connection, postings_in=postings):
            connection.execute(f"INSERT INTO {table} FROM postings_in")


@dataclass(frozen=True, slots=True, eq=False)
class _Said:
    """Row by row, which document says which word of the vocabulary."""

    documents: Ints
    words: Ints
    vocabulary: pa.StringArray

    @classmethod
    def of(cls, words: Mapping[str, Rows]) -> _Said:
        parts = pa.concat_tables(pa.table(rows.columns, schema.WORDS) for rows in words.values())
        coded = parts.column("term").combine_chunks().dictionary_encode()
        return cls(parts.column("document").to_numpy(), coded.indices.to_numpy(), coded.dictionary)

    def in_order(self) -> Ints:
        """The vocabulary's places, by the first document with the word, then by the alphabet."""
        first = np.full(len(self.vocabulary), np.iinfo(np.int64).max)
        np.minimum.at(first, self.words, self.documents)
        by_alphabet = pc.sort_indices(self.vocabulary).to_numpy()
        in_order: Ints = by_alphabet[np.argsort(first[by_alphabet], kind="stable")]
        return in_order


def _numbers(connection: duckdb.DuckDBPyConnection, said: _Said) -> Ints:
    """The number of each word of the vocabulary; those that had none are now recorded with theirs."""
    numbers = np.full(len(said.vocabulary), -1)
    asked = pa.table({"place": np.arange(len(numbers)), "word": said.vocabulary})
    with registered(connection, asked_words=asked):
        known = connection.execute(_KNOWN).fetchnumpy()
    numbers[known["place"]] = known["term_id"]
    in_order = said.in_order()
    fresh = in_order[numbers[in_order] < 0]
    if len(fresh):
        numbers[fresh] = connection.execute(_NEXT).fetchall()[0][0] + np.arange(len(fresh))
        terms = pa.table({"number": numbers[fresh], "word": said.vocabulary.take(pa.array(fresh))})
        with registered(connection, terms_in=terms):
            connection.execute("INSERT INTO terms FROM terms_in")
    return numbers
