"""Tests of the DuckDB instances."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import duckdb
import pytest

from stores import duckdb_engine
from tests.stores.batches import make_location


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


def test_engines_that_spill_at_the_same_time(tmp_path: Path) -> None:
    """Two engines of an index spill to different files, which are deleted with the engines."""
    location = make_location(tmp_path)
    location.folder.mkdir()
    with ExitStack() as stack:
        engines = [stack.enter_context(closing(duckdb_engine.start_engine(location, 1))) for _ in range(2)]
        for number, engine in enumerate(engines):
            engine.execute("SET memory_limit = '20MB'")
            engine.execute(
                f"CREATE TABLE spilled AS SELECT hash(i + {number}) AS h FROM range(4_000_000) r(i)"
            )
        assert len(list(location.folder.iterdir())) == 2
        expected = "SELECT bit_xor(hash(i + {number})) FROM range(4_000_000) r(i)"
        for number, engine in enumerate(engines):
            rows = engine.execute("SELECT bit_xor(h) FROM spilled").fetchall()
            assert rows == engine.execute(expected.format(number=number)).fetchall()
    assert list(location.folder.iterdir()) == []
