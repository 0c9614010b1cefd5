"""The side file of a large index: the same ranking as without it, and no trust in a file that is not whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from stores import database, history, quantized_search, quantized_vectors, snapshot, vector_search, writer
from stores.filters import Where, chosen
from stores.index_location import Place
from stores.quantized_vectors import PAGE
from stores.snapshot import Ranked, Snapshot
from stores.types import Reach
from stores.vector_search import Texts
from tests.stores.batches import CURRENT, Document, batch, place_in
from tests.stores.processes import running
from tests.stores.sample_index import Doc, small_index
from tests.stores.test_vector_search import LARGE, QUERY

MAKE_FOR_EVER = """
from stores import quantized_vectors, history
history.MOST_KEPT_ROWS = 10
while True:
    place.codes.unlink(missing_ok=True); say("again"); quantized_vectors.refresh(place)
"""


@pytest.fixture(autouse=True)
def threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes of these tests are large."""
    monkeypatch.setattr(history, "MOST_KEPT_ROWS", 10)


@pytest.fixture(scope="module")
def many() -> Iterator[duckdb.DuckDBPyConnection]:
    with small_index(LARGE) as connection:
        yield connection


@pytest.fixture
def side(many: duckdb.DuckDBPyConnection, tmp_path: Path) -> Path:
    return made(many, tmp_path)


def made(connection: duckdb.DuckDBPyConnection, folder: Path) -> Path:
    file = folder / "index.duckdb.codes"
    quantized_vectors.write(connection, file, quantized_vectors._made_of(connection))
    return file


def loaded(
    connection: duckdb.DuckDBPyConnection, side: Path | None, reach: Reach | None = None
) -> tuple[Snapshot, Texts]:
    seen = snapshot.load(connection, reach or Reach())
    return seen, vector_search.load(connection, seen, side=side)


def asked(
    connection: duckdb.DuckDBPyConnection, side: Path | None, where: Where, limit: int = 100
) -> tuple[Ranked, ...]:
    seen, texts = loaded(connection, side)
    assert (texts.coded is not None) == (side is not None)
    return vector_search.ask(connection, seen, texts, QUERY, chosen(connection, seen, where), limit=limit)


@pytest.mark.parametrize("limit", [1, 10, 100, 5_000])
@pytest.mark.parametrize(
    "where",
    [
        Where(),
        Where(language="rust"),
        Where(path="1*.py"),
        Where(path="17.py"),
        Where(path="none.py"),
        Where(near=("7*",)),
        Where(language="python", near=("7*", "1*")),
    ],
)
def test_same_rows_and_scores(many: duckdb.DuckDBPyConnection, side: Path, where: Where, limit: int) -> None:
    """Filtered by much, little or nothing, the lane gives the rows of the exhaustive ranking, with its scores."""
    assert asked(many, side, where, limit) == asked(many, None, where, limit)


def test_few_vectors_are_read(
    many: duckdb.DuckDBPyConnection, side: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The codes tell so well which texts may be among the best that hardly more than these are read."""
    read: list[int] = []
    vectors_of = quantized_search.Coded.vectors

    def counting(self: quantized_search.Coded, texts: np.ndarray) -> np.ndarray:
        read.append(len(texts))
        return vectors_of(self, texts)

    monkeypatch.setattr(quantized_search.Coded, "vectors", counting)
    asked(many, side, Where(), 10)
    assert read and 10 <= read[0] < 40


def test_bounds_hold(many: duckdb.DuckDBPyConnection, side: Path) -> None:
    """No code is further from its text's place than the file says."""
    found = quantized_vectors.opened(many, side)
    assert found is not None
    placed = found.space.placed(found.rows.astype(np.float64))
    placed /= np.linalg.norm(placed, axis=1, keepdims=True)
    coded = found.coded.decoded(np.arange(len(found.rows), dtype=np.int32))
    off = np.linalg.norm(placed - coded, axis=1)
    assert (off <= found.coded.errors + 1e-6).all() and off.max() < 0.05
    assert found.coded.rests == pytest.approx(
        np.linalg.norm(coded[:, quantized_vectors.FIRST_AXES :], axis=1)
    )


def test_first_axes_say_the_most(many: duckdb.DuckDBPyConnection, side: Path) -> None:
    """Texts spread along the axes in their order, so that the first ones leave little to the rest."""
    found = quantized_vectors.opened(many, side)
    assert found is not None
    spread = np.square(found.coded.first.astype(np.float64)).mean(axis=0)
    assert spread[:100].min() > spread[-100:].max()
    assert np.median(found.coded.rests) < 0.5


def test_tail_is_scored(tmp_path: Path) -> None:
    """Texts that came after the file was made are ranked with the others, filtered or not."""
    late = [
        Doc(500 + n, f"late{n}.rs", language="rust", vector=doc.vector[::-1])
        for n, doc in enumerate(LARGE[:40])
    ]
    earlier, everything = small_index(LARGE), small_index([*LARGE, *late])
    side = made(earlier, tmp_path)
    seen, texts = loaded(everything, side)
    assert texts.coded is not None and len(texts.coded.tail) == 40
    in_its_space = vector_search.load(everything, seen, space=texts.space)
    for where in (Where(), Where(language="rust"), Where(path="late*")):
        picked = chosen(everything, seen, where)
        hits = vector_search.ask(everything, seen, texts, QUERY, picked)
        assert hits == vector_search.ask(everything, seen, in_its_space, QUERY, picked)
    assert any(hit.file_path.startswith("late") for hit in hits)


def test_unreached_texts_are_left_out(tmp_path: Path) -> None:
    """Texts in the file that no commit HEAD reaches has are in no ranking."""
    stray = [Doc(900, f"stray{n}.py", vector=(*QUERY.tolist()[:-1], n)) for n in range(20)]
    connection = small_index([*LARGE, *stray], unreached=[900])
    seen, texts = loaded(connection, made(connection, tmp_path))
    hits = vector_search.ask(connection, seen, texts, QUERY, chosen(connection, seen, Where()), limit=2_000)
    assert len(hits) == len(LARGE) and not any(hit.file_path.startswith("stray") for hit in hits)


def test_similarities(many: duckdb.DuckDBPyConnection, side: Path) -> None:
    """The cosines people see are those of the vectors as stored."""
    seen, texts = loaded(many, side)
    _, without = loaded(many, None)
    shown = vector_search.similarities(many, seen, texts, QUERY, [3, 1, 999])
    assert shown == vector_search.similarities(many, seen, without, QUERY, [3, 1, 999])
    assert vector_search.similarities(many, seen, without, QUERY, []) == {}


def test_no_memory_for_vectors(many: duckdb.DuckDBPyConnection, side: Path) -> None:
    """What is kept is a number for each hunk; codes and vectors are the system's to keep or to drop."""
    _, texts = loaded(many, side)
    assert texts.rows is None and texts.bytes - texts.space.axes.nbytes == 4 * len(LARGE)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut short": lambda file: os.truncate(file, file.stat().st_size - 1),
    "empty": lambda file: file.write_bytes(b""),
    "something else": lambda file: file.write_bytes(b"garbage" * 10_000),
    "without its description": lambda file: overwritten(file, 0, b" " * PAGE),
    "another version's": lambda file: file.write_bytes(
        file.read_bytes().replace(b'"version": 2', b'"version": 1', 1)
    ),
    "of another model": lambda file: file.write_bytes(
        file.read_bytes().replace(b'"embedding_model": [', b'"embedding_mode1": [', 1)
    ),
    "with another code": lambda file: overwritten(file, code_offset() + 500, b"\x55" * 50),
}


def overwritten(file: Path, offset: int, data: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(offset)
        opened.write(data)


def code_offset() -> int:
    return quantized_vectors.layout(len(LARGE))["first"].offset


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_file_is_not_used(many: duckdb.DuckDBPyConnection, side: Path, damage: str) -> None:
    """A file that is damaged, or was made of something else, is passed over; the ranking stays what it was."""
    expected = asked(many, None, Where())
    DAMAGE[damage](side)
    seen, texts = loaded(many, side)
    assert texts.coded is None
    assert vector_search.ask(many, seen, texts, QUERY, chosen(many, seen, Where())) == expected


def test_damaged_vectors_are_found_out(many: duckdb.DuckDBPyConnection, side: Path) -> None:
    """A vector that does not belong to its code is noticed when it is read: the index itself answers, the file goes."""
    expected = asked(many, None, Where())
    seen, texts = loaded(many, side)
    rows = quantized_vectors.layout(len(LARGE))["rows"]
    overwritten(side, rows.offset, os.urandom(16) * (rows.bytes // 16))
    assert vector_search.ask(many, seen, texts, QUERY, chosen(many, seen, Where())) == expected
    assert not side.exists()


def nearest_row(many: duckdb.DuckDBPyConnection, side: Path) -> tuple[int, int]:
    """The hunk that is nearest to the question, and which row of the file its text has."""
    seen, texts = loaded(many, side)
    assert texts.coded is not None
    hunk = asked(many, side, Where())[0].hunk_id
    return hunk, int(texts.coded.rows[seen.hunks.positions.at(np.array([hunk]))][0])


@pytest.mark.parametrize(
    "data", [b"\xff" * 1536, b"\0" * 1536, bytes([0, 0, 128, 127]) * 384, b"\x55" * 1536]
)
def test_one_damaged_vector(many: duckdb.DuckDBPyConnection, side: Path, data: bytes) -> None:
    """No number, nothing, without bounds or just another: one such vector is noticed, whoever reads it."""
    hunk, row = nearest_row(many, side)
    _, without = loaded(many, None)
    seen, texts = loaded(many, side)
    overwritten(side, quantized_vectors.layout(len(LARGE))["rows"].offset + 1536 * row, data)
    shown = vector_search.similarities(many, seen, texts, QUERY, [hunk, 3])
    assert shown == vector_search.similarities(many, seen, without, QUERY, [hunk, 3])
    assert not side.exists()
    expected = asked(many, None, Where())
    assert vector_search.ask(many, seen, texts, QUERY, chosen(many, seen, Where())) == expected


@pytest.fixture
def place(tmp_path: Path) -> Place:
    here = place_in(tmp_path)
    with database.writing(here) as connection:
        writer.begin_pass(connection, here, head="h" * 40, unreached=[], components=CURRENT)
    add(here, range(40))
    return here


def add(here: Place, numbers: range) -> None:
    with database.writing(here) as connection:
        writer.replace_batch(connection, batch([Document(number) for number in numbers]))


def texts_in(here: Place) -> int | None:
    with database.reading(here) as connection:
        found = quantized_vectors.opened(connection, here.codes)
    return None if found is None else len(found.digests)


def test_made_when_large(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is made beyond the named number of texts, kept while it is good, and gone when the index is small."""
    assert quantized_vectors.refresh(place) and texts_in(place) == 40
    assert place.codes.stat().st_mode & 0o777 == 0o600
    inode = place.codes.stat().st_ino
    assert not quantized_vectors.refresh(place) and place.codes.stat().st_ino == inode
    monkeypatch.setattr(history, "MOST_KEPT_ROWS", 40)
    assert not quantized_vectors.refresh(place)
    assert not place.codes.exists()


def test_made_anew_when_the_tail_is_long(place: Place) -> None:
    """A twentieth of new texts is left to the tail, more is not."""
    quantized_vectors.refresh(place)
    add(place, range(40, 42))
    assert not quantized_vectors.refresh(place) and texts_in(place) == 40
    add(place, range(42, 44))
    assert quantized_vectors.refresh(place) and texts_in(place) == 44


def test_another_model_makes_another_file(place: Place) -> None:
    """A file made of one model's vectors is none for an index of another's."""
    quantized_vectors.refresh(place)
    with database.writing(place) as connection:
        connection.execute("INSERT INTO made_by VALUES ('history', 'embedding_model', 'other')")
        assert quantized_vectors.is_missing(connection, place)
    assert quantized_vectors.refresh(place) and texts_in(place) == 40


def test_deleting_an_index_deletes_it(place: Place) -> None:
    """It goes with the index."""
    quantized_vectors.refresh(place)
    writer.delete_index(place)
    assert not place.codes.exists()


def test_its_making_is_a_change_of_state(place: Place) -> None:
    """Whoever keeps what was read of the index sees that there is more to be read."""
    before = database.fingerprint(place)
    quantized_vectors.refresh(place)
    assert database.fingerprint(place) != before


def test_no_room_is_no_failure(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk without room leaves no file and no draft."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(quantized_vectors, "describe", full)
    assert not quantized_vectors.refresh(place)
    assert not list(place.folder.glob("*.codes")) and not list(place.folder.glob("*.draft"))


def test_begun_anew_with_more_memory(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file whose making ran out of memory is the same in the end, byte for byte."""
    quantized_vectors.refresh(place)
    before = place.codes.read_bytes()
    place.codes.unlink()
    written, given = quantized_vectors.write, list[str]()

    def out_of_memory_once(connection: duckdb.DuckDBPyConnection, *said: Any) -> None:
        [(limit,)] = connection.execute("SELECT current_setting('memory_limit')").fetchall()
        given.append(limit)
        written(connection, *said)
        if len(given) == 1:
            raise duckdb.OutOfMemoryException("failed to pin block")

    monkeypatch.setattr(quantized_vectors, "write", out_of_memory_once)
    assert quantized_vectors.refresh(place)
    assert place.codes.read_bytes() == before
    assert len(set(given)) == 2


def test_killed_while_it_is_made(place: Place) -> None:
    """However often the making is killed, there is a whole file or none, and the next one clears up."""
    for attempt in range(4):
        with running(MAKE_FOR_EVER, place.home) as process:
            assert process.stdout is not None
            for _ in range(attempt + 2):
                process.stdout.readline()
            process.kill()
        assert texts_in(place) in (None, 40)
    quantized_vectors.refresh(place)
    assert texts_in(place) == 40
    place.codes.unlink()
    quantized_vectors.refresh(place)
    assert not list(place.folder.glob("*.draft"))
