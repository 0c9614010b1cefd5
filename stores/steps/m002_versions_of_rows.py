"""Schema 1 knew of each component the oldest version only, and of a pass that ended no more than that one had."""

from __future__ import annotations

from typing import Final

import duckdb

# What each component made in schema 1, whose parsers were called after their languages.
_HISTORY: Final = (
    "embedding_model",
    "embedding_dimension",
    "embed_cache",
    "semantic_text_version",
    "words_version",
)
_HEAD: Final = ("chunker_version", "words_version")
_LANGUAGES: Final = ("rust", "python", "java", "kotlin", "typescript", "javascript")

_TABLES: Final = """
CREATE OR REPLACE TABLE metadata (component VARCHAR NOT NULL, version VARCHAR, writer VARCHAR);
CREATE TABLE made_by (part VARCHAR NOT NULL, component VARCHAR NOT NULL, version VARCHAR);
CREATE TABLE embed_cache (entries BIGINT NOT NULL, asked BIGINT NOT NULL, found BIGINT NOT NULL);
-- Null: whether the newest pass ended is not known, so the next one looks at everything once.
ALTER TABLE repository ADD COLUMN completed_commit VARCHAR"""


def apply(connection: duckdb.DuckDBPyConnection) -> None:
    """Carry over what is known; rows whose version nobody noted are of version null."""
    said = connection.execute("SELECT component, version, complete FROM metadata").fetchall()
    versions = {component: version for component, version, _ in said}
    vouched = [(component, version) for component, version, complete in said if complete]
    made = [*_made(connection, "history", _HISTORY, "hunks"), *_made(connection, "head", _HEAD, "head_files")]
    connection.execute(_TABLES)
    for component, version in vouched:
        brought = "2" if component == "schema" else version
        connection.execute("INSERT INTO metadata VALUES (?, ?, NULL)", [component, brought])
    for part, component in made:
        connection.execute("INSERT INTO made_by VALUES (?, ?, ?)", [part, component, versions.get(component)])


def _made(
    connection: duckdb.DuckDBPyConnection, part: str, components: tuple[str, ...], table: str
) -> list[tuple[str, str]]:
    """The components that made rows of this part; none where it is empty."""
    rows = connection.execute(f"SELECT DISTINCT language FROM {table}").fetchall()
    spoken = {language for (language,) in rows}
    parsers = [f"parser_{language}" for language in _LANGUAGES if language in spoken]
    return [(part, component) for component in (*components, *parsers)] if rows else []
