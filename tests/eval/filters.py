"""Check of filtered search: the top 100 of each lane must equal the filtered exhaustive ranking.

python -m tests.eval.filters CLONE...

The exhaustive ranking has no filter and no limit. It is filtered here, with a second implementation of `language`,
`since`, `path` and `author`. Queries are subjects of the history's own commits.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb
import polars as pl
from pathspec import GitIgnoreSpec

from pipeline.encoders.base import Encoder, OnnxEncoder
from pipeline.git.repository import open_repository
from pipeline.text import count_terms
from serve.index_status import load_index_status
from serve.search.cache import LoadedSnapshot, load_snapshot_with_vectors
from stores import fulltext, vector_search
from stores.filters import QueryFilter
from stores.snapshot import LANE_DEPTH, FilterMask, RankedHunk, apply_filter
from stores.vector_search import TextVectors
from stores.vectors import Whitening
from tests.bench import indexes
from tests.bench.histories import clone_history
from tests.bench.programs import run_lineage
from tests.bench.report import create_temporary_directory, parse_arguments, print_line, print_table

QUERIES: Final = 8
# More hits than any index has.
NO_LIMIT: Final = 1 << 40

_HUNKS: Final = """
SELECT hunk_id, language, file_path, commit_date, author_name, author_email
FROM hunks JOIN commits USING (commit_sha) ORDER BY hunk_id"""
_SUBJECTS: Final = """
SELECT split_part(message, chr(10), 1) FROM commits
WHERE length(message) > 20 ORDER BY commit_date, commit_sha"""

Lane = Callable[[str, FilterMask, int], Sequence[RankedHunk]]
FilteredLane = Callable[[str, QueryFilter, int], Sequence[RankedHunk]]
Lanes = dict[str, FilteredLane]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of one query, lane and filter. A lane is the ranking of one retriever; `expected`: number of hits."""

    lane: str
    filter_name: str
    is_equal: bool
    expected: int


def main() -> int:
    """Run the command. Return 1 if a ranking differs."""
    options = parse_arguments(__doc__ or "")
    comparisons: list[Comparison] = []
    for clone in options.clones:
        with create_temporary_directory() as folder:
            history = clone_history(clone, folder / "clone", options.commits)
            run_lineage(folder / "home", "index", history.path, "--no-progress")
            comparisons += compare_lanes(history.path, folder / "home", OnnxEncoder())
    print_table(summarize(comparisons))
    difference_count = sum(not comparison.is_equal for comparison in comparisons)
    print_line(f"{len(comparisons)} comparisons, {difference_count} differ")
    return int(difference_count > 0)


def compare_lanes(repository: Path, home: Path, encoder: Encoder) -> list[Comparison]:
    """Compare every lane under every filter."""
    with indexes.open_index(repository, home) as connection:
        reachability = load_index_status(open_repository(repository), connection).reachability
        hunks = connection.execute(_HUNKS).pl()
        lanes = _create_lanes(connection, encoder, load_snapshot_with_vectors(connection, reachability))
        return list(_compare(lanes, _select_queries(connection), hunks))


def summarize(comparisons: Sequence[Comparison]) -> pl.DataFrame:
    """Return a table of the comparisons by lane and filter."""
    rows = [
        (comparison.lane, comparison.filter_name, comparison.is_equal, comparison.expected)
        for comparison in comparisons
    ]
    table = pl.DataFrame(rows, schema=["lane", "filter", "equal", "expected"], orient="row")
    return table.group_by("lane", "filter", maintain_order=True).agg(
        pl.len().alias("queries"),
        pl.col("equal").sum(),
        pl.col("expected").mean().round(1).alias("hunks expected"),
    )


def _compare(lanes: Lanes, queries: Sequence[str], hunks: pl.DataFrame) -> Iterator[Comparison]:
    filters = _create_filters(hunks)
    hunk_ids_by_filter = {name: set(filter_hunks(hunks, where)) for name, where in filters.items()}
    for lane, search in lanes.items():
        for query in queries:
            exhaustive = search(query, QueryFilter(), NO_LIMIT)
            for name, where in filters.items():
                expected = [hit for hit in exhaustive if hit.hunk_id in hunk_ids_by_filter[name]][:LANE_DEPTH]
                is_equal = list(search(query, where, LANE_DEPTH)) == expected
                yield Comparison(lane, name, is_equal, len(expected))


def filter_hunks(hunks: pl.DataFrame, where: QueryFilter) -> list[int]:
    """Return the ids of the hunks that pass a filter, by checking each row."""
    spec = GitIgnoreSpec.from_lines([where.path]) if where.path is not None else None
    author = where.author.lower() if where.author is not None else ""
    return [
        row["hunk_id"]
        for row in hunks.iter_rows(named=True)
        if (where.language is None or row["language"] == where.language)
        and (where.since is None or row["commit_date"] >= where.since)
        and (spec is None or spec.match_file(row["file_path"]))
        and author in f"{row['author_name']} <{row['author_email']}>".lower()
    ]


def _create_filters(hunks: pl.DataFrame) -> dict[str, QueryFilter]:
    """Return filters that many, few and no hunks of this history pass, and one that combines them."""
    language = _find_most_common(hunks["language"].drop_nulls().to_list())
    extension = _find_most_common([Path(path).suffix for path in hunks["file_path"] if Path(path).suffix])
    folder = _find_most_common([path.partition("/")[0] for path in hunks["file_path"] if "/" in path])
    author = _find_most_common(hunks["author_name"].to_list())
    dates = hunks["commit_date"].sort()
    median, last_tenth = dates[len(dates) // 2], dates[len(dates) * 9 // 10]
    return {
        f"language {language}": QueryFilter(language=language),
        "language klingon": QueryFilter(language="klingon"),
        "since, newer half": QueryFilter(since=median),
        "since, newest tenth": QueryFilter(since=last_tenth),
        f"path *{extension}": QueryFilter(path=f"*{extension}"),
        f"path /{folder}/": QueryFilter(path=f"/{folder}/"),
        "author, most active": QueryFilter(author=author.upper()),
        "all together": QueryFilter(language, median, f"/{folder}/", author),
    }


def _find_most_common(values: Sequence[str]) -> str:
    # The first name of equally frequent ones, so that every run uses the same filters.
    return min(Counter(values).items(), key=lambda entry: (-entry[1], entry[0]))[0]


def _select_queries(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return subjects at equal distances in time."""
    subjects = [subject for (subject,) in connection.execute(_SUBJECTS).fetchall()]
    return subjects[:: max(1, len(subjects) // QUERIES)][:QUERIES]


def _create_lanes(connection: duckdb.DuckDBPyConnection, encoder: Encoder, loaded: LoadedSnapshot) -> Lanes:
    snapshot = loaded.snapshot
    unwhitened = vector_search.load_text_vectors(connection, snapshot, whitening=Whitening.identity())

    def search_vectors(texts: TextVectors) -> Lane:
        return lambda query, mask, limit: vector_search.search(
            snapshot, texts, texts.whiten_query(encoder.encode([query])[0]), mask, limit=limit
        )

    def search_text(query: str, mask: FilterMask, limit: int) -> Sequence[RankedHunk]:
        lookup = fulltext.look_up_terms(connection, snapshot, count_terms(query))
        return fulltext.search_hunk_text(snapshot, lookup, mask, limit=limit)

    def search_names(query: str, mask: FilterMask, limit: int) -> Sequence[RankedHunk]:
        lookup = fulltext.look_up_terms(connection, snapshot, count_terms(query))
        return fulltext.search_symbol_names(connection, snapshot, lookup, mask, limit=limit)

    def apply_filters(lane: Lane) -> FilteredLane:
        return lambda query, where, limit: lane(query, apply_filter(connection, snapshot, where), limit)

    lanes = {
        "vector": search_vectors(loaded.text_vectors),
        "vector, raw": search_vectors(unwhitened),
        "hunk text": search_text,
        "symbol names": search_names,
    }
    return {name: apply_filters(lane) for name, lane in lanes.items()}


if __name__ == "__main__":
    sys.exit(main())
