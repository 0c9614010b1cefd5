"""Quoted symbol names, reachability difference, filters of commits, schema version and embedding dimension.

Imports only the standard library, because every command imports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class QuotedSymbol:
    """Name of a symbol that a query quotes. `parent` is the name of the enclosing symbol; empty if it is not given."""

    name: str
    parent: str = ""

    def __str__(self) -> str:
        return f"{self.parent}.{self.name}" if self.parent else self.name


@dataclass(frozen=True, slots=True)
class ReachabilityDelta:
    """Difference between the recorded commits that HEAD reaches and those that the index's HEAD reaches.

    The index's HEAD is that of its newest index run. `removed_commits`: only the index's HEAD reaches them.
    `added_commits`: only the current HEAD reaches them. `is_complete`: the index's HEAD commit no longer exists, and
    `added_commits` lists every recorded commit that the current HEAD reaches.
    """

    removed_commits: tuple[str, ...] = ()
    added_commits: tuple[str, ...] = ()
    is_complete: bool = False


@dataclass(frozen=True, slots=True)
class ReleaseFilter:
    """Filter for commits whose first release is `tag`. `commits`: all of them."""

    tag: str
    commits: frozenset[str]


@dataclass(frozen=True, slots=True)
class CommitRange:
    """Filter for the commits of a range in git's syntax. `text`: as given. `commits`: all of them, indexed or not."""

    text: str
    commits: frozenset[str]


SCHEMA_VERSION: Final = 6
# Tables, columns and rows that each schema version added.
SCHEMA_HISTORY: Final = {
    1: "commits, hunks, touched symbols, vectors, terms by lane, HEAD symbols and chunks, watermark",
    2: "component versions of the rows, HEAD of the newest finished index run, embedding cache usage",
    3: "a row in `hunks` for each commit that changes no file itself",
    4: "vectors as 8-bit codes",
    5: "schemas of DuckDB's full-text index",
    6: "patterns and tips of branches besides HEAD",
}

EMBEDDING_DIMENSION: Final = 384
