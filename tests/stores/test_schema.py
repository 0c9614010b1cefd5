"""The Arrow schemas and the published DDL say the same."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from stores import schema
from stores.migrations import tables_sql

SQL_TYPES = {
    pa.string(): "VARCHAR",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.bool_(): "BOOLEAN",
    pa.binary(): "BLOB",
    schema.DIGEST: "BLOB",
    schema.TIMESTAMP: "TIMESTAMP",
    schema.VECTOR: "FLOAT[384]",
    pa.list_(pa.string()): "VARCHAR[]",
}


def test_tables_are_the_same() -> None:
    """DDL and schemas name the same tables, in the same order."""
    with duckdb.connect() as connection:
        connection.execute(tables_sql())
        rows = connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY table_oid").fetchall()
    assert [name for (name,) in rows] == list(schema.TABLES)


@pytest.mark.parametrize("table", schema.TABLES)
def test_columns_are_the_same(table: str) -> None:
    """A table's columns agree in name, order, type and whether they may be null."""
    with duckdb.connect() as connection:
        connection.execute(tables_sql())
        rows = connection.execute(f"DESCRIBE {table}").fetchall()
    said = [(name, kind, null == "YES") for name, kind, null, *_ in rows]
    assert said == [(column.name, SQL_TYPES[column.type], column.nullable) for column in schema.TABLES[table]]


@pytest.mark.parametrize("table", schema.TABLES)
def test_every_column_has_a_meaning(table: str) -> None:
    """Every field says in a line what it holds."""
    for column in schema.TABLES[table]:
        assert column.metadata[b"meaning"].decode().endswith("."), column.name
