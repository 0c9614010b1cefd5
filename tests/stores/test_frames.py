"""An index as frames: whole, from one state, and in nobody's way."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import polars as pl
import pytest

from stores import database, frames, maintenance, writer
from stores.index_location import Place
from tests.stores.batches import CURRENT, Document, batch, head, place_in, sha
from tests.stores.processes import line, running

WRITE_FOR_EVER = """
from stores.connections import Held
with Held(place) as index:
    for number in range(100, 1_000_000):
        with index.batch() as connection:
            writer.replace_batch(connection, batch([Document(number)]))
        say(number)
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = place_in(tmp_path)
    with database.writing(place) as connection:
        writer.begin_pass(connection, place, head="h" * 40, unreached=[sha(1)], components=CURRENT)
        documents = [Document(number, {"a": 2, f"w{number}": 1}, {"f": 1}) for number in range(40)]
        writer.replace_batch(connection, batch(documents))
        writer.replace_head(connection, head(["a.py"], ["f", "g"]))
    return place


def test_everything_is_there(place: Place) -> None:
    """Each frame has its table's rows; commits say whether HEAD reaches them, and when they were made, in UTC."""
    index = frames.read(place)
    assert [index.commits.height, index.hunks.height, index.symbols.height] == [40, 40, 40]
    assert index.head_symbols.get_column("name").to_list() == ["f", "g"]
    assert index.commits.filter(~pl.col("reached")).get_column("commit_sha").to_list() == [sha(1)]
    assert index.commits.row(0, named=True)["commit_date"].tzinfo is not None
    assert index.commits.schema["commit_date"] == pl.Datetime("us", UTC)
    assert index.words.filter(term="a").get_column("frequency").to_list() == [2] * 40
    assert index.vectors.get_column("embedding").to_numpy().shape == (80, 384)


def test_texts_on_request(place: Place) -> None:
    """What takes most of the room comes when it is asked for."""
    assert not frames.TEXTS & {*frames.read(place).hunks.columns, *frames.read(place).head_symbols.columns}
    index = frames.read(place, texts=True)
    assert {"diff", "semantic_text"} <= set(
        index.hunks.columns
    ) and "source_text" in index.head_symbols.columns


def test_sizes_add_up(place: Place) -> None:
    """The parts and what is free are the file's blocks, and the vectors take what vectors take."""
    maintenance.compact(place)
    sizes = frames.read(place).sizes
    with database.reading(place) as connection:
        sql = "SELECT block_size * total_blocks FROM pragma_database_size() WHERE database_name = 'ix'"
        [(whole,)] = connection.execute(sql).fetchall()
    assert sizes.get_column("bytes").sum() == whole
    vectors = sizes.filter(table="vectors", column="embedding").get_column("bytes").item()
    assert 0.8 * 80 * 384 * 4 < vectors < 1.2 * 80 * 384 * 4


def test_beside_a_reader_and_a_run(place: Place) -> None:
    """Others read meanwhile, and a run that writes without end lets the frames be read between two batches."""
    with database.reading(place):
        assert frames.read(place).commits.height == 40
    with running(WRITE_FOR_EVER, place.home) as process:
        line(process)
        index = frames.read(place)
        assert index.commits.height == index.hunks.height > 40
        assert line(process)


def test_without_an_index(tmp_path: Path) -> None:
    """There is nothing to read, and the error says what makes it."""
    with pytest.raises(database.NotIndexed, match="lineage index"):
        frames.read(place_in(tmp_path))
