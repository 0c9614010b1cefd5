"""Index tables as polars frames."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import polars as pl
import pytest

from stores import database, frames, maintenance, writer
from stores.index_location import IndexLocation
from tests.stores.batches import (
    CURRENT_VERSIONS,
    SampleCommit,
    make_batch,
    make_head_change,
    make_location,
    make_sha,
)
from tests.stores.processes import read_line, run_script

# Script that writes batches until it is killed.
WRITE_BATCHES = """
from stores.connections import IndexWriter
with IndexWriter(location) as index:
    for number in range(100, 1_000_000):
        with index.open_batch() as connection:
            writer.replace_batch(connection, make_batch([SampleCommit(number)]))
        print(number)
"""


@pytest.fixture
def location(tmp_path: Path) -> IndexLocation:
    location = make_location(tmp_path)
    with database.open_for_writing(location) as connection:
        writer.record_run_start(
            connection,
            location,
            head="h" * 40,
            unreachable=[make_sha(1)],
            components=CURRENT_VERSIONS,
            branch_patterns=(),
        )
        commits = [SampleCommit(number, {"a": 2, f"w{number}": 1}, {"f": 1}) for number in range(40)]
        writer.replace_batch(connection, make_batch(commits))
        writer.replace_head(connection, make_head_change(["a.py"], ["f", "g"]))
    return location


def test_frames_have_all_rows(location: IndexLocation) -> None:
    """Each frame has all rows of its table; commits have reachability and UTC dates."""
    index = frames.read_frames(location)
    assert [index.commits.height, index.hunks.height, index.symbols.height] == [40, 40, 40]
    assert index.head_symbols.get_column("name").to_list() == ["f", "g"]
    assert index.commits.filter(~pl.col("reached")).get_column("commit_sha").to_list() == [make_sha(1)]
    assert index.commits.row(0, named=True)["commit_date"].tzinfo is not None
    assert index.commits.schema["commit_date"] == pl.Datetime("us", UTC)
    assert index.words.filter(term="a").get_column("frequency").to_list() == [2] * 40
    assert index.vectors.get_column("codes").to_numpy().shape == (80, 384)


def test_texts_on_request(location: IndexLocation) -> None:
    """The large text columns are read only with `texts`."""
    assert not frames.TEXT_COLUMNS & {
        *frames.read_frames(location).hunks.columns,
        *frames.read_frames(location).head_symbols.columns,
    }
    index = frames.read_frames(location, texts=True)
    assert {"diff", "semantic_text"} <= set(
        index.hunks.columns
    ) and "source_text" in index.head_symbols.columns


def test_sizes_add_up(location: IndexLocation) -> None:
    """The sizes of columns and free blocks add up to the file's blocks, and the size of the vectors is right."""
    maintenance.compact(location)
    sizes = frames.read_frames(location).sizes
    with database.open_for_reading(location) as connection:
        sql = "SELECT block_size * total_blocks FROM pragma_database_size() WHERE database_name = 'ix'"
        [(total,)] = connection.execute(sql).fetchall()
    assert sizes.get_column("bytes").sum() == total
    vectors = sizes.filter(table="vectors", column="codes").get_column("bytes").item()
    assert 0.8 * 80 * 384 < vectors < 1.2 * 80 * 384


def test_concurrent_reader_and_run(location: IndexLocation) -> None:
    """Frames can be read while another reader has the index open, and between two batches of an index run."""
    with database.open_for_reading(location):
        assert frames.read_frames(location).commits.height == 40
    with run_script(WRITE_BATCHES, location.home) as process:
        read_line(process)
        index = frames.read_frames(location)
        assert index.commits.height == index.hunks.height > 40
        assert read_line(process)


def test_missing_index(tmp_path: Path) -> None:
    """Without an index, the error names the command that creates one."""
    with pytest.raises(database.NotIndexed, match="lineage index"):
        frames.read_frames(make_location(tmp_path))
