"""What an answer shows of a hunk: its commit, its diff, the symbols it touched."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeAlias

import duckdb

if TYPE_CHECKING:
    import pyarrow as pa

Connection: TypeAlias = duckdb.DuckDBPyConnection

# Nine diffs in ten have less than 3 KB; the few longer ones are read when they are shown.
LONGEST_KEPT_DIFF: Final = 8_000
# The diffs of about 50,000 hunks; beyond it, none is kept and each answer reads its own.
MOST_KEPT_BYTES: Final = 64_000_000
_BATCH_ROWS: Final = 2_048


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


@dataclass(frozen=True, slots=True, eq=False)
class Diffs:
    """Diffs at hand. They are stored compressed, 2,048 in one piece: five cost as much as ten thousand."""

    texts: pa.Array
    rows: dict[int, int]

    @property
    def bytes(self) -> int:
        """About how many bytes it keeps."""
        return int(self.texts.nbytes) + 100 * len(self.rows)

    def of(self, hunks: Iterable[int]) -> dict[int, str]:
        """Those of these hunks' diffs that are at hand."""
        return {hunk: self.texts[self.rows[hunk]].as_py() for hunk in hunks if hunk in self.rows}


# Numbers stand as constants: bound as a list they keep a scan from skipping row groups.
_HUNKS: Final = """
SELECT hunk_id, commit_sha, file_path, change_kind, diff_truncated FROM hunks WHERE hunk_id IN ({hunks})"""
_DIFFS: Final = "SELECT hunk_id, diff FROM hunks WHERE hunk_id IN ({hunks})"
# Joined with hunks, they would all be read and decompressed.
_COMMITS: Final = """
SELECT commit_sha, message, author_name, commit_date FROM commits WHERE commit_sha IN ({commits})"""
_SYMBOLS: Final = "SELECT hunk_id, name FROM hunk_symbols WHERE hunk_id IN ({hunks}) ORDER BY rowid"
_SHORT_DIFFS: Final = "SELECT hunk_id, diff FROM hunks WHERE strlen(diff) <= {longest}"


def shown(connection: Connection, hunks: Sequence[int], diffs: Diffs | None = None) -> tuple[Shown, ...]:
    """These hunks, in the order asked for; diffs that are not at hand are read."""
    if not hunks:
        return ()
    rows = {hunk: rest for hunk, *rest in connection.execute(_HUNKS.format(hunks=_numbers(hunks))).fetchall()}
    commits = _commits(connection, {sha for sha, *_ in rows.values()})
    texts = _texts(connection, hunks, diffs)
    symbols = _symbols(connection, hunks)

    def one(hunk: int) -> Shown:
        sha, path, kind, truncated = rows[hunk]
        return Shown(hunk, sha, *commits[sha], path, kind, texts[hunk], truncated, symbols[hunk])

    return tuple(map(one, hunks))


@dataclass(frozen=True, slots=True, eq=False)
class Shelf:
    """Hunks as one answer needs them, each read once: the candidates, and of them those that are shown."""

    connection: Connection
    diffs: Diffs | None = None
    read: dict[int, Shown] = field(default_factory=dict)

    def of(self, hunks: Sequence[int]) -> tuple[Shown, ...]:
        """As `shown`."""
        others = [hunk for hunk in hunks if hunk not in self.read]
        self.read.update((one.hunk_id, one) for one in shown(self.connection, others, self.diffs))
        return tuple(self.read[hunk] for hunk in hunks)


def diffs(connection: Connection) -> Diffs:
    """All diffs but the longest; none where they are too many to keep."""
    import pyarrow as pa  # an explanation imports this module, and needs no Arrow

    reader = connection.execute(_SHORT_DIFFS.format(longest=LONGEST_KEPT_DIFF)).to_arrow_reader(_BATCH_ROWS)
    batches, size = [], 0
    for batch in reader:
        batches.append(batch)
        size += batch.nbytes
        if size > MOST_KEPT_BYTES:
            return Diffs(pa.array([], pa.string()), {})
    table = pa.Table.from_batches(batches, reader.schema).combine_chunks()
    rows = {hunk: row for row, hunk in enumerate(table.column(0).to_pylist())}
    return Diffs(table.column(1).combine_chunks(), rows)


def languages(connection: Connection) -> frozenset[str]:
    """Every language the history has files of."""
    sql = "SELECT DISTINCT language FROM hunks WHERE language IS NOT NULL"
    return frozenset(language for (language,) in connection.execute(sql).fetchall())


def has_path(connection: Connection, path: str) -> bool:
    """Whether a file of the history has this path, or lies in it: `src/net`, `net/`, `tcp.py`, but not `et/tcp`."""
    begun = f"/{path.lstrip('/')}"
    sql = "SELECT EXISTS (SELECT 1 FROM hunks WHERE contains('/' || file_path || '/', $path))"
    ((found,),) = connection.execute(sql, {"path": begun if path.endswith("/") else f"{begun}/"}).fetchall()
    return bool(found)


def _texts(connection: Connection, hunks: Sequence[int], diffs: Diffs | None) -> dict[int, str]:
    found = diffs.of(hunks) if diffs else {}
    others = [hunk for hunk in hunks if hunk not in found]
    if others:
        found |= dict(connection.execute(_DIFFS.format(hunks=_numbers(others))).fetchall())
    return found


def _commits(connection: Connection, shas: Iterable[str]) -> dict[str, tuple[str, str, datetime]]:
    """Message, author and date of each commit."""
    quoted = ", ".join(f"'{sha}'" for sha in shas)
    return {sha: tuple(rest) for sha, *rest in connection.execute(_COMMITS.format(commits=quoted)).fetchall()}


def _symbols(connection: Connection, hunks: Sequence[int]) -> dict[int, tuple[str, ...]]:
    names: dict[int, dict[str, None]] = defaultdict(dict)
    for hunk, name in connection.execute(_SYMBOLS.format(hunks=_numbers(hunks))).fetchall():
        names[hunk][name] = None
    return {hunk: tuple(names[hunk]) for hunk in hunks}


def _numbers(hunks: Sequence[int]) -> str:
    return ", ".join(map(str, hunks))
