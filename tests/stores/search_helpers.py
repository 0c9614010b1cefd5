"""Searches that load the snapshot, look up the terms and apply the filter first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import duckdb

from stores import fulltext, snapshot, vector_search
from stores.filters import QueryFilter
from stores.history import ReachabilityDelta
from stores.snapshot import RankedHunk, Snapshot, apply_filter
from stores.vectors import Vectors, Whitening

NO_FILTER = QueryFilter()
NO_DELTA = ReachabilityDelta()


def search_text(
    connection: duckdb.DuckDBPyConnection,
    words: Iterable[str],
    query_filter: QueryFilter = NO_FILTER,
    *,
    reachability: ReachabilityDelta = NO_DELTA,
    has_postings: bool = False,
    **options: Any,
) -> tuple[RankedHunk, ...]:
    """Search the hunk texts, with postings in memory or not; other options are those of `search_hunk_text`."""
    loaded_snapshot = _load_snapshot(connection, reachability, has_postings)
    terms = fulltext.look_up_terms(connection, loaded_snapshot, words)
    return fulltext.search_hunk_text(
        loaded_snapshot, terms, apply_filter(connection, loaded_snapshot, query_filter), **options
    )


def search_names(
    connection: duckdb.DuckDBPyConnection,
    words: Iterable[str],
    query_filter: QueryFilter = NO_FILTER,
    *,
    reachability: ReachabilityDelta = NO_DELTA,
    has_postings: bool = False,
    **options: Any,
) -> tuple[RankedHunk, ...]:
    """Search the symbol names, with postings in memory or not; other options are those of `search_symbol_names`."""
    loaded_snapshot = _load_snapshot(connection, reachability, has_postings)
    terms = fulltext.look_up_terms(connection, loaded_snapshot, words)
    mask = apply_filter(connection, loaded_snapshot, query_filter)
    return fulltext.search_symbol_names(connection, loaded_snapshot, terms, mask, **options)


def search_vectors(
    connection: duckdb.DuckDBPyConnection,
    query: Vectors,
    query_filter: QueryFilter = NO_FILTER,
    *,
    reachability: ReachabilityDelta = NO_DELTA,
    whitening: Whitening | None = None,
    **options: Any,
) -> tuple[RankedHunk, ...]:
    """Search the vectors; `options` are those of `vector_search.search`."""
    loaded_snapshot = snapshot.load_snapshot(connection, reachability)
    texts = vector_search.load_text_vectors(connection, loaded_snapshot, whitening=whitening)
    mask = apply_filter(connection, loaded_snapshot, query_filter)
    return vector_search.search(loaded_snapshot, texts, texts.whiten_query(query), mask, **options)


def _load_snapshot(
    connection: duckdb.DuckDBPyConnection, reachability: ReachabilityDelta, has_postings: bool
) -> Snapshot:
    loaded_snapshot = snapshot.load_snapshot(connection, reachability)
    return loaded_snapshot.with_postings(connection) if has_postings else loaded_snapshot
