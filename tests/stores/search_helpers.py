"""Lanes asked in one breath: snapshot, filters, lane."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import duckdb

from stores import fulltext, snapshot, vector_search
from stores.filters import Where, chosen
from stores.snapshot import Ranked
from stores.types import Reach
from stores.whitening import Space, Vectors

ALL = Where()
HERE = Reach()


def by_text(
    connection: duckdb.DuckDBPyConnection,
    words: Iterable[str],
    where: Where = ALL,
    *,
    reach: Reach = HERE,
    **how: Any,
) -> tuple[Ranked, ...]:
    """The hunk-text lane."""
    seen = snapshot.load(connection, reach)
    asked = fulltext.look_up(connection, seen, words)
    return fulltext.hunk_text(seen, asked, chosen(connection, seen, where), **how)


def by_names(
    connection: duckdb.DuckDBPyConnection,
    words: Iterable[str],
    where: Where = ALL,
    *,
    reach: Reach = HERE,
    **how: Any,
) -> tuple[Ranked, ...]:
    """The symbol-name lane."""
    seen = snapshot.load(connection, reach)
    asked = fulltext.look_up(connection, seen, words)
    return fulltext.symbol_names(connection, seen, asked, chosen(connection, seen, where), **how)


def nearest(
    connection: duckdb.DuckDBPyConnection,
    query: Vectors,
    where: Where = ALL,
    *,
    reach: Reach = HERE,
    space: Space | None = None,
    **how: Any,
) -> tuple[Ranked, ...]:
    """The vector lane."""
    seen = snapshot.load(connection, reach)
    texts = vector_search.load(connection, seen, space=space)
    return vector_search.ask(connection, seen, texts, query, chosen(connection, seen, where), **how)
