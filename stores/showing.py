"""What an answer shows of a hunk: its commit, its diff, the symbols it touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

import duckdb

Connection: TypeAlias = duckdb.DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class Shown:
    """A hunk with its commit; `symbols` are names it touched, each once, as the store has them in order."""

    hunk_id: int
    commit_sha: str
    commit_message: str
    commit_author: str
    commit_date: datetime
    file_path: str
    change_kind: str
    diff: str
    diff_truncated: bool
    symbols: tuple[str, ...]


_SHOWN: Final = """
SELECT hunk_id, commit_sha, message, author_name, commit_date, file_path, change_kind, diff, diff_truncated
FROM hunks JOIN commits USING (commit_sha)
WHERE hunk_id IN ({hunks})"""

_SYMBOLS: Final = """
SELECT hunk_id, list(name ORDER BY rowid) FROM hunk_symbols
WHERE hunk_id IN ({hunks})
GROUP BY hunk_id"""


def shown(connection: Connection, hunks: Sequence[int]) -> tuple[Shown, ...]:
    """These hunks, in the order asked for."""
    if not hunks:
        return ()
    # As constants: bound as a list they keep the scan from skipping row groups.
    asked = ", ".join(map(str, hunks))
    names = dict(connection.execute(_SYMBOLS.format(hunks=asked)).fetchall())
    rows = {row[0]: row for row in connection.execute(_SHOWN.format(hunks=asked)).fetchall()}
    symbols = {hunk: tuple(dict.fromkeys(names.get(hunk, ()))) for hunk in hunks}
    return tuple(Shown(*(*rows[hunk], symbols[hunk])) for hunk in hunks)


def languages(connection: Connection) -> frozenset[str]:
    """Every language the history has files of."""
    sql = "SELECT DISTINCT language FROM hunks WHERE language IS NOT NULL"
    return frozenset(language for (language,) in connection.execute(sql).fetchall())
