"""Schema migrations, which bring an index to the current schema step by step.

Each step runs once. One transaction contains the step and its record in the table `migrations`. A step that fails or is
killed leaves the index unchanged, so the program version that made the index can still use it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import resources
from typing import Final

import duckdb

from stores.errors import LineageError

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

# Components that wrote rows of the history and of the HEAD snapshot in schema 1, besides the parsers of the languages
# in the index.
_HISTORY_COMPONENTS: Final = (
    "embedding_model",
    "embedding_dimension",
    "embed_cache",
    "semantic_text_version",
    "words_version",
)
_HEAD_COMPONENTS: Final = ("chunker_version", "words_version")
_PARSER_LANGUAGES: Final = ("rust", "python", "java", "kotlin", "typescript", "javascript")

# The version stays null in an index whose first run has not finished.
_SET_VERSION: Final = "UPDATE metadata SET version = ? WHERE component = 'schema' AND version IS NOT NULL"

# Number of embeddings that are converted at a time: 13 MB.
_CONVERTED_ROWS: Final = 8_192

_TABLES_OF_SCHEMA_2: Final = """
CREATE OR REPLACE TABLE metadata (component VARCHAR NOT NULL, version VARCHAR, writer VARCHAR);
CREATE TABLE made_by (part VARCHAR NOT NULL, component VARCHAR NOT NULL, version VARCHAR);
CREATE TABLE embed_cache (entries BIGINT NOT NULL, asked BIGINT NOT NULL, found BIGINT NOT NULL);
-- Null, because schema 1 did not record whether the last run finished; the next run checks all commits.
ALTER TABLE repository ADD COLUMN completed_commit VARCHAR"""


@dataclass(frozen=True, slots=True)
class FullTextIndex:
    """Values of the placeholders in `full_text.sql`.

    - `table`: table of the documents. `key`: its column with the ids. `length`: its column with the numbers of terms.
    - `field`: column that DuckDB's full-text extension would index.
    - `postings`: table of the postings.
    """

    table: str
    key: str
    length: str
    field: str
    postings: str


FULL_TEXT_INDEXES: Final = (
    FullTextIndex("hunks", "hunk_id", "word_count", "semantic_text", "hunk_postings"),
    FullTextIndex("head_symbols", "symbol_id", "word_count", "name", "head_postings"),
)


def migrate_to_2(connection: duckdb.DuckDBPyConnection) -> None:
    """Record the component versions of the history and of the HEAD snapshot separately.

    Schema 1 recorded one version of each component for both. A component without a recorded version gets null.
    """
    metadata = connection.execute("SELECT component, version, complete FROM metadata").fetchall()
    versions = {component: version for component, version, _ in metadata}
    row_components = [
        *_find_row_components(connection, "history", _HISTORY_COMPONENTS, "hunks"),
        *_find_row_components(connection, "head", _HEAD_COMPONENTS, "head_files"),
    ]
    connection.execute(_TABLES_OF_SCHEMA_2)
    for component, version, is_complete in metadata:
        if is_complete:
            connection.execute("INSERT INTO metadata VALUES (?, ?, NULL)", [component, version])
    for part, component in row_components:
        connection.execute("INSERT INTO made_by VALUES (?, ?, ?)", [part, component, versions.get(component)])


def _find_row_components(
    connection: duckdb.DuckDBPyConnection, part: str, components: tuple[str, ...], table: str
) -> list[tuple[str, str]]:
    """Return (part, component) for each component that wrote rows of the part; empty if the part has no rows.

    `components`: components that always write rows of the part. The parsers of the languages in `table` are added.
    """
    rows = connection.execute(f"SELECT DISTINCT language FROM {table}").fetchall()
    languages = {language for (language,) in rows}
    parsers = [f"parser_{language}" for language in _PARSER_LANGUAGES if language in languages]
    return [(part, component) for component in (*components, *parsers)] if rows else []


def migrate_to_3(connection: duckdb.DuckDBPyConnection) -> None:
    """Let the next index run read the commits without hunks again.

    Up to schema 2, an empty commit or a clean merge had no row in `hunks`, and no query found it.
    """
    connection.execute(
        "UPDATE repository SET completed_commit = NULL"
        " WHERE EXISTS (FROM commits ANTI JOIN hunks USING (commit_sha))"
    )


def migrate_to_4(connection: duckdb.DuckDBPyConnection) -> None:
    """Convert the vectors to 8-bit codes."""
    from stores import vectors  # imports NumPy, which most commands do not need

    connection.execute("ALTER TABLE vectors RENAME TO embeddings")
    connection.execute(
        "CREATE TABLE vectors (text_digest BLOB NOT NULL, codes TINYINT[384] NOT NULL, scale FLOAT NOT NULL)"
    )
    rows = connection.execute("SELECT coalesce(max(rowid) + 1, 0) FROM embeddings").fetchall()[0][0]
    for first in range(0, rows, _CONVERTED_ROWS):
        embeddings = connection.execute(
            "SELECT text_digest, embedding FROM embeddings WHERE rowid BETWEEN ? AND ?",
            [first, first + _CONVERTED_ROWS - 1],
        ).to_arrow_table()
        connection.register("vectors_in", vectors.quantize_table(embeddings))
        connection.execute("INSERT INTO vectors FROM vectors_in")
        connection.unregister("vectors_in")
    connection.execute("DROP TABLE embeddings")


def migrate_to_5(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the schemas of DuckDB's full-text index."""
    connection.execute(load_full_text_sql())


def migrate_to_6(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the tables of branches."""
    connection.execute("CREATE TABLE branch_patterns (pattern VARCHAR NOT NULL)")
    connection.execute("CREATE TABLE branch_tips (commit_sha VARCHAR NOT NULL)")


class NewerSchema(LineageError):
    """Error for an index that a newer version of the program made. It is neither read nor written."""


class MigrationFailed(LineageError):
    """Error for a migration that failed and left the index unchanged."""


# Migration to each schema version. A new index gets the current tables at once.
MIGRATIONS: Final[dict[int, Callable[[duckdb.DuckDBPyConnection], None]]] = {
    2: migrate_to_2,
    3: migrate_to_3,
    4: migrate_to_4,
    5: migrate_to_5,
    6: migrate_to_6,
}


def load_tables_sql() -> str:
    """Return the DDL of the current schema: `tables.sql`, and the full-text indexes."""
    return "\n".join((read_sql("tables.sql"), load_full_text_sql()))


def load_full_text_sql() -> str:
    """Return the DDL of the full-text indexes and of the macro `tokenize` that they use."""
    template = read_sql("full_text.sql")
    schemas = [f"CREATE SCHEMA IF NOT EXISTS fts_main_{index.table};" for index in FULL_TEXT_INDEXES]
    indexes = [template.format_map(asdict(index)) for index in FULL_TEXT_INDEXES]
    return "\n".join((*schemas, read_sql("tokenize.sql"), *indexes))


def read_sql(name: str) -> str:
    """Return the SQL statements in a file of this package, given by its name."""
    return resources.files("stores").joinpath(name).read_text(encoding="utf-8")


def check_schema(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the schema version of the index, 0 if it has no tables; raise NewerSchema if it is too new."""
    version = read_schema_version(connection)
    if version > SCHEMA_VERSION:
        raise NewerSchema(
            f"The index has schema {version}; this version of lineage supports schemas up to {SCHEMA_VERSION}.",
            hint="Use the version of lineage that made it, or run `lineage index --rebuild --yes` to rebuild it.",
        )
    return version


def migrate(connection: duckdb.DuckDBPyConnection) -> None:
    """Bring the index to the current schema; raise NewerSchema or MigrationFailed."""
    current = check_schema(connection)
    if not current:
        _apply(connection, SCHEMA_VERSION, _create_tables)
        return
    for version in range(current + 1, SCHEMA_VERSION + 1):
        try:
            _apply(connection, version, MIGRATIONS[version])
        except duckdb.Error as error:
            raise build_migration_error(version, str(error).splitlines()[0]) from error


def read_schema_version(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the schema version of the index, 0 if it has no tables."""
    try:
        row = connection.execute("SELECT coalesce(max(version), 0) FROM migrations").fetchone()
    except duckdb.CatalogException:
        return 0
    return int(row[0]) if row else 0


def build_migration_error(version: int, reason: str) -> MigrationFailed:
    """Return the error for an index that could not be migrated to this schema version."""
    return MigrationFailed(
        f"The migration to schema {version} failed and changed nothing: {reason}",
        hint="Check that the index's directory is writable and the disk has free space, then try again. Or rebuild the "
        "index with `lineage index --rebuild --yes`.",
    )


def _create_tables(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(load_tables_sql())


def _apply(
    connection: duckdb.DuckDBPyConnection,
    version: int,
    migration: Callable[[duckdb.DuckDBPyConnection], None],
) -> None:
    """Run a migration and record its version, in one transaction."""
    connection.execute("BEGIN")
    try:
        migration(connection)
        connection.execute(_SET_VERSION, [str(version)])
        now = datetime.now(UTC).replace(tzinfo=None)
        connection.execute("INSERT INTO migrations VALUES (?, ?)", [version, now])
    except BaseException:
        with suppress(duckdb.Error):  # raised if the first error has ended the transaction
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
