"""Component versions and the compatibility verdict: what of an index this program would make differently.

This file knows the components by name and by what their change means; which versions are current is
said by the caller.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Final

import duckdb

REBUILD: Final = "lineage index --rebuild --yes"
FORCE: Final = "lineage index --force"

# Vectors, or the tables themselves, mean something else when one of these changes.
VECTOR_AFFECTING: Final = frozenset({"schema", "embedding_model", "embedding_dimension", "embed_cache"})
# Made no row, so there is none to be stale.
ROWLESS: Final = frozenset({"reranker_model"})
# Made only rows of the HEAD snapshot, which `--force` makes anew.
HEAD_ONLY: Final = frozenset({"chunker_version"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """Versions by component; None where nothing is recorded."""

    schema: str | None = None
    embedding_model: str | None = None
    embedding_dimension: str | None = None
    reranker_model: str | None = None
    chunker_version: str | None = None
    semantic_text_version: str | None = None
    parser_rust: str | None = None
    parser_python: str | None = None
    parser_java: str | None = None
    parser_kotlin: str | None = None
    parser_typescript: str | None = None
    parser_javascript: str | None = None
    words_version: str | None = None
    embed_cache: str | None = None


NAMES: Final = tuple(component.name for component in fields(Components))


class Status(Enum):
    """What the recorded components mean for this program."""

    COMPATIBLE = "compatible"
    NEEDS_REFRESH = "query_compatible_needs_refresh"
    NEEDS_REBUILD = "needs_rebuild"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict; `reason` says which components differ, and `missing` names those without a record.

    `remedy` is the command after which the verdict is `compatible`.
    """

    status: Status
    reason: str | None = None
    missing: tuple[str, ...] = ()
    remedy: str | None = None

    def __str__(self) -> str:
        """The text `lineage status` prints."""
        if self.status is Status.NEEDS_REFRESH:
            return f"query-compatible, refresh recommended ({self.reason})"
        if self.status is Status.NEEDS_REBUILD:
            return f"needs rebuild ({self.reason})"
        if self.status is Status.UNKNOWN:
            return f"unknown (no metadata for {', '.join(self.missing)})"
        return "compatible"


def verdict(recorded: Components, current: Components) -> Verdict:
    """Compare what an index records with what this program would record."""
    differing = [name for name in NAMES if version(recorded, name) and not _same(recorded, current, name)]
    worst = [name for name in differing if name in VECTOR_AFFECTING]
    missing = tuple(name for name in NAMES if version(recorded, name) is None)
    if worst:
        return Verdict(Status.NEEDS_REBUILD, _reason(worst, recorded, current), remedy=REBUILD)
    if missing:
        return Verdict(Status.UNKNOWN, missing=missing, remedy=FORCE)
    if differing:
        remedy = FORCE if set(differing) <= HEAD_ONLY | ROWLESS else REBUILD
        reason = f"{_reason(differing, recorded, current)}; run `{remedy}`"
        return Verdict(Status.NEEDS_REFRESH, reason, remedy=remedy)
    return Verdict(Status.COMPATIBLE)


def after_pass(begun: Components, current: Components, *, head_refreshed: bool) -> Components:
    """What may be recorded when a pass ends: the current version only where it made every row.

    `begun` are the versions the oldest rows may have; `head_refreshed` says that every row of the HEAD
    snapshot was made anew.
    """
    renewed = ROWLESS | (HEAD_ONLY if head_refreshed else frozenset())
    kept = {
        name: version(begun, name)
        for name in NAMES
        if version(begun, name) and name not in renewed and not _same(begun, current, name)
    }
    return replace(current, **kept)


def version(components: Components, name: str) -> str | None:
    """One component's version."""
    value: str | None = getattr(components, name)
    return value


def rows(components: Components) -> tuple[tuple[str, str], ...]:
    """Component and version of those that have one."""
    named = ((name, version(components, name)) for name in NAMES)
    return tuple((name, value) for name, value in named if value is not None)


def recorded(connection: duckdb.DuckDBPyConnection) -> Components:
    """What the index vouches for: versions recorded by a pass that ended."""
    return _read(connection, "SELECT component, version FROM metadata WHERE complete")


def begun(connection: duckdb.DuckDBPyConnection) -> Components:
    """What the oldest rows may have been made with, by passes that were cut short too."""
    return _read(connection, "SELECT component, version FROM metadata")


def _read(connection: duckdb.DuckDBPyConnection, sql: str) -> Components:
    found = connection.execute(sql).fetchall()
    return Components(**{name: value for name, value in found if name in NAMES})


def _same(recorded: Components, current: Components, name: str) -> bool:
    before, now = version(recorded, name), version(current, name)
    if name == "embed_cache":
        # `off` and `semantic` give the same vectors; only `diff` embeds another text.
        return (before == "diff") == (now == "diff")
    return before == now


def _reason(names: list[str], recorded: Components, current: Components) -> str:
    return ", ".join(f"{name} {version(recorded, name)}, now {version(current, name)}" for name in names)
