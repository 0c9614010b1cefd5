"""Tests of the DuckDB instances."""

from __future__ import annotations

import importlib.util
import sys

import duckdb
import pytest

from stores import duckdb_engine


def test_bound_values_without_searches_for_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB's import of pandas for each bound value must not search the file system."""
    assert duckdb_engine.MEMORY_LIMIT  # the import installs the finder
    searched = []

    class LastFinder:
        """Finder that records the modules that no other finder knows."""

        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            searched.append(name)

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, LastFinder])
    with duckdb.connect() as connection:
        rows = connection.execute("SELECT ?, ?", ["word", [1, 2]]).fetchall()
    assert rows == [("word", [1, 2])]
    assert searched == []


def test_pandas_is_an_ordinary_missing_module() -> None:
    """Other libraries learn that pandas is missing as usual: from an import, and from `find_spec`."""
    assert duckdb_engine.MEMORY_LIMIT  # the import installs the finder
    with pytest.raises(ModuleNotFoundError, match="No module named 'pandas'"):
        importlib.import_module("pandas")
    assert importlib.util.find_spec("pandas") is None
