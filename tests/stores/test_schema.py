"""Equality of the Arrow schemas and the published DDL."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from stores import schema
from stores.migrations import load_tables_sql

SQL_TYPES = {
    pa.string(): "VARCHAR",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.bool_(): "BOOLEAN",
    pa.binary(): "BLOB",
    schema.DIGEST: "BLOB",
    schema.TIMESTAMP: "TIMESTAMP",
    pa.float32(): "FLOAT",
    schema.CODES: "TINYINT[384]",
    pa.list_(pa.string()): "VARCHAR[]",
}


def test_tables_are_the_same() -> None:
    """DDL and schemas have the same tables, in the same order."""
    with duckdb.connect() as connection:
        connection.execute(load_tables_sql())
        rows = connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY table_oid").fetchall()
    assert [name for (name,) in rows] == list(schema.TABLES)


@pytest.mark.parametrize("table", schema.TABLES)
def test_columns_are_the_same(table: str) -> None:
    """The columns of a table have the same names, order, types and nullability."""
    with duckdb.connect() as connection:
        connection.execute(load_tables_sql())
        rows = connection.execute(f"DESCRIBE {table}").fetchall()
    columns = [(name, sql_type, null == "YES") for name, sql_type, null, *_ in rows]
    assert columns == [
        (column.name, SQL_TYPES[column.type], column.nullable) for column in schema.TABLES[table]
    ]


@pytest.mark.parametrize("table", schema.TABLES)
def test_every_column_has_a_meaning(table: str) -> None:
    """Every field has a description that ends with a period."""
    for column in schema.TABLES[table]:
        assert column.metadata[b"meaning"].decode().endswith("."), column.name
