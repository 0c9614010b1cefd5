"""Full-text lanes: BM25 as plain SQL over the posting tables.

Two lanes rank hunks: `HUNK_TEXT` by the words of the change, `SYMBOL_NAMES` by the names of the symbols it
touched and, through the file, by the symbols and siblings that live there at HEAD; a share of the text's score
decides among names that say the same. BM25 scores equal those of DuckDB's own full-text extension over the same
documents; the extension itself is never loaded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final

import duckdb

from stores import filters
from stores.filters import Parameter, Where

# Robertson's usual saturation and length weights, which DuckDB's extension has as defaults too.
K1: Final = 1.2
B: Final = 0.75
LANE_DEPTH: Final = 100

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
# A name typed in quotes is meant literally. Doubling lets it pass names that only share its words, and still
# lets a rare word outweigh a very common name.
QUOTED_NAME: Final = 2.0
# A path named in the query is a strong hint, not a filter: half again leaves room for a far better match.
PREFERRED_PATH: Final = 1.5

# Sums of doubles depend on their order, and so a parallel scan's ties. Whole numbers of this unit do not.
_UNIT: Final = 1e-12


class Lane(Enum):
    """The full-text lanes."""

    HUNK_TEXT = "hunk text"
    SYMBOL_NAMES = "symbol names"


@dataclass(frozen=True, slots=True)
class Ranked:
    """One hunk of a lane's ranking; everything but the score identifies it by content."""

    hunk_id: int
    score: float
    commit_date: datetime
    commit_sha: str
    file_path: str


# The weight of each asked word in each document that has it, summed. {corpus} has rows (document, length).
_BM25: Final = """
{name}_found AS (
    SELECT term_id, document, frequency, length
    FROM (SELECT term_id, {key} AS document, frequency FROM {postings} WHERE term_id IN ({terms}){but})
    JOIN {name}_corpus USING (document)
),
{name}_score AS (
    SELECT document, sum(round(
               log10((size - holders + 0.5) / (holders + 0.5) + 1)
               * frequency * ({k1} + 1) / (frequency + {k1} * (1 - {b} + {b} * length / average))
               / {unit})::BIGINT) * {unit} AS score
    FROM {name}_found
    JOIN (SELECT term_id, count(*) AS holders FROM {name}_found GROUP BY term_id) USING (term_id)
    CROSS JOIN (SELECT count(*) AS size, avg(length) AS average FROM {name}_corpus)
    GROUP BY document
)"""

_HUNK_TEXT: Final = """
WITH {documents},
text_corpus AS (SELECT hunk_id AS document, word_count AS length FROM documents WHERE word_count > 0),
{text}
SELECT hunk_id, score * CASE WHEN preferred THEN {preferred} ELSE 1 END AS score,
       commit_date, commit_sha, file_path
FROM text_score JOIN documents ON hunk_id = document
WHERE kept
ORDER BY {best_first} LIMIT $limit"""

# `common`: words left out, none that a lane can list whole, and none of a name in quotes. `touched`: the hunk's
# own symbols. `living`: the best HEAD symbol of the hunk's file.
_SYMBOL_NAMES: Final = """
WITH {documents},
common AS (
    SELECT term_id FROM hunk_postings JOIN documents USING (hunk_id)
    WHERE term_id IN ({terms}) AND len($quoted) = 0
    GROUP BY term_id
    HAVING count(*) > greatest({lane_depth}, {common_word} * (SELECT count(*) FROM documents WHERE word_count > 0))
),
touched_corpus AS (
    SELECT hunk_id AS document, symbol_word_count AS length FROM documents WHERE symbol_word_count > 0
),
{touched},
text_corpus AS (SELECT hunk_id AS document, word_count AS length FROM documents WHERE word_count > 0),
{text},
living_corpus AS (SELECT symbol_id AS document, word_count AS length FROM head_symbols WHERE word_count > 0),
{living},
named AS (SELECT DISTINCT hunk_id FROM hunk_symbols WHERE name IN (SELECT unnest($quoted::VARCHAR[]))),
touched AS (
    SELECT document AS hunk_id,
           score * CASE WHEN named.hunk_id IS NULL THEN 1 ELSE {quoted_name} END AS touched
    FROM touched_score LEFT JOIN named ON named.hunk_id = document
),
living AS (
    SELECT file_path,
           max(score * CASE WHEN name IN (SELECT unnest($quoted::VARCHAR[])) THEN {quoted_name} ELSE 1 END)
               AS living
    FROM living_score JOIN head_symbols ON symbol_id = document
    GROUP BY file_path
)
SELECT hunk_id,
       (coalesce(touched, 0) + {head_share} * coalesce(living, 0) + {text_share} * coalesce(text_score.score, 0))
           * CASE WHEN preferred THEN {preferred} ELSE 1 END AS score,
       commit_date, commit_sha, file_path
FROM documents LEFT JOIN touched USING (hunk_id) LEFT JOIN living USING (file_path)
LEFT JOIN text_score ON text_score.document = hunk_id
WHERE kept AND (touched IS NOT NULL OR living IS NOT NULL)
ORDER BY {best_first} LIMIT $limit"""


def ask(
    connection: duckdb.DuckDBPyConnection,
    lane: Lane,
    terms: Iterable[str],
    where: Where,
    *,
    quoted: tuple[str, ...] = (),
    limit: int = LANE_DEPTH,
) -> tuple[Ranked, ...]:
    """The lane's best hunks for these words, best first; `quoted` are symbol names meant literally."""
    numbers = _numbers(connection, terms)
    if not numbers:
        return ()
    clause = filters.documents(where)
    parameters: dict[str, Parameter] = {**clause.parameters, "limit": limit}
    if lane is Lane.SYMBOL_NAMES:
        parameters["quoted"] = list(quoted)
    rows = connection.execute(_question(lane, clause.sql, numbers), parameters).fetchall()
    return tuple(Ranked(*row) for row in rows)


def _question(lane: Lane, documents: str, numbers: list[int]) -> str:
    # Numbers stand in the text, not in parameters: only constants let a scan skip row groups of other words.
    terms = ", ".join(map(str, numbers))
    if lane is Lane.HUNK_TEXT:
        text = _scores("text", "hunk_postings", "hunk_id", terms)
        return _HUNK_TEXT.format(
            documents=documents, text=text, preferred=PREFERRED_PATH, best_first=filters.BEST_FIRST
        )
    telling = " AND term_id NOT IN (FROM common)"
    return _SYMBOL_NAMES.format(
        documents=documents,
        terms=terms,
        lane_depth=LANE_DEPTH,
        common_word=COMMON_WORD,
        touched=_scores("touched", "symbol_postings", "hunk_id", terms, telling),
        text=_scores("text", "hunk_postings", "hunk_id", terms),
        text_share=TEXT_SHARE,
        living=_scores("living", "head_postings", "symbol_id", terms, telling),
        quoted_name=QUOTED_NAME,
        head_share=HEAD_SHARE,
        preferred=PREFERRED_PATH,
        best_first=filters.BEST_FIRST,
    )


def _scores(name: str, postings: str, key: str, terms: str, but: str = "") -> str:
    return _BM25.format(name=name, postings=postings, key=key, terms=terms, but=but, k1=K1, b=B, unit=_UNIT)


def _numbers(connection: duckdb.DuckDBPyConnection, terms: Iterable[str]) -> list[int]:
    """The store's numbers of these words; words it never saw have none."""
    asked = sorted(set(terms))
    sql = "SELECT term_id FROM terms WHERE term IN (SELECT unnest($terms::VARCHAR[])) ORDER BY term_id"
    return [number for (number,) in connection.execute(sql, {"terms": asked}).fetchall()]
