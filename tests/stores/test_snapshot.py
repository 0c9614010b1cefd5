"""A snapshot says what the tables say of the hunks HEAD reaches, in the order of content."""

from __future__ import annotations

import duckdb
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stores import snapshot
from stores.snapshot import Numbers
from stores.types import Reach
from tests.stores.sample_index import Doc, HeadSymbol, sha, small_index

COMMITS = range(6)
some = st.lists(st.sampled_from(COMMITS), unique=True, max_size=4)
reaches = st.builds(
    Reach,
    gone=some.map(lambda commits: tuple(map(sha, commits))),
    back=some.map(lambda commits: tuple(map(sha, commits))),
    complete=st.booleans(),
)
docs = st.lists(
    st.builds(
        Doc,
        commit=st.sampled_from(COMMITS),
        path=st.sampled_from(["a.py", "src/b.py", "c.md"]),
        words=st.lists(st.sampled_from(["alpha", "beta"]), max_size=3),
        symbols=st.lists(st.sampled_from(["alpha", "beta"]), max_size=2),
        vector=st.tuples(st.integers(0, 3).map(float), st.just(1.0)),
    ),
    max_size=12,
    unique_by=lambda doc: (doc.commit, doc.path),
)


def reached(doc: Doc, unreached: list[int], reach: Reach) -> bool:
    """By the words of `Reach`: what the index's HEAD reaches less `gone`, and `back`; or `back` alone."""
    kept = doc.commit not in unreached and doc.sha not in reach.gone
    return doc.sha in reach.back or (kept and not reach.complete)


@settings(max_examples=60)
@given(docs, some, reaches)
def test_hunks_are_those_head_reaches(documents: list[Doc], unreached: list[int], reach: Reach) -> None:
    """Every field of every position is that of the hunk there, newest commit first, then by sha and path."""
    connection = small_index(documents, unreached=unreached)
    found = snapshot.load(connection, reach)
    here = [number for number, doc in enumerate(documents) if reached(doc, unreached, reach)]
    here.sort(key=lambda number: (-documents[number].commit, documents[number].sha, documents[number].path))
    expected = [documents[number] for number in here]
    hunks = found.hunks
    assert hunks.ids.tolist() == here
    assert hunks.words.tolist() == [len(doc.words) for doc in expected]
    assert hunks.symbol_words.tolist() == [len(doc.symbols) for doc in expected]
    assert hunks.shown.to_pylist() == [
        {"commit_date": doc.date, "commit_sha": doc.sha, "file_path": doc.path} for doc in expected
    ]
    assert found.texts.tolist() == sorted({doc.digest.rstrip(b"\0") for doc in expected})
    assert [found.texts[text] for text in hunks.texts] == [doc.digest.rstrip(b"\0") for doc in expected]
    assert found.files == len({doc.path for doc in expected})
    same_file = {(doc.path, int(file)) for doc, file in zip(expected, hunks.files, strict=True)}
    assert len(same_file) == found.files


@given(st.lists(st.integers(0, 30), unique=True), st.lists(st.integers(0, 40)))
def test_numbers_find_positions(rows: list[int], asked: list[int]) -> None:
    """A row is found at its place; one that is not among them, however high its number, at none."""
    expected = [rows.index(row) if row in rows else -1 for row in asked]
    numbers = Numbers.of(np.array(rows, dtype=np.int64))
    assert numbers.at(np.array(asked, dtype=np.int64)).tolist() == expected


def test_head_symbols_know_their_files() -> None:
    """A symbol's file is that of the hunks under the same path, and none where HEAD's history has no such path."""
    documents = [Doc(1, "a.py"), Doc(2, "b.py"), Doc(3, "b.py")]
    symbols = [
        HeadSymbol("b.py", "send"),
        HeadSymbol("new.py", "Send"),
        HeadSymbol("a.py", "close", ["send"]),
    ]
    found = snapshot.load(small_index(documents, symbols=symbols), Reach())
    paths = dict(zip(found.hunks.files.tolist(), ["b.py", "b.py", "a.py"], strict=True))
    assert [paths.get(file) for file in found.symbols.files.tolist()] == ["b.py", None, "a.py"]
    assert found.symbols.words.tolist() == [1, 1, 2]
    assert found.symbols.named(("send", "absent")).tolist() == [True, False, False]


def test_order_of_rows_says_nothing() -> None:
    """The same content in rows of another order is the same snapshot, but for the rows' numbers."""
    documents = [Doc(n % 5, f"{n % 7}.py", vector=(n % 3, 1)) for n in range(35)]
    shuffled = documents[::-1]
    one, other = (snapshot.load(small_index(rows), Reach()) for rows in (documents, shuffled))
    assert one.hunks.shown.equals(other.hunks.shown)
    assert one.texts.tolist() == other.texts.tolist()
    assert one.hunks.texts.tolist() == other.hunks.texts.tolist()


def test_paths_that_only_look_the_same() -> None:
    """Of two paths of one commit that are no text and read the same, the bytes decide who leads."""
    connection = small_index([Doc(1, "?.py"), Doc(1, "?.py", words=["other"])])
    _write_bytes(connection, {0: b"\xff.py", 1: b"\xfe.py"})
    assert snapshot.load(connection, Reach()).hunks.ids.tolist() == [1, 0]


def _write_bytes(connection: duckdb.DuckDBPyConnection, names: dict[int, bytes]) -> None:
    for hunk, name in names.items():
        connection.execute("UPDATE hunks SET file_path_bytes = ? WHERE hunk_id = ?", [name, hunk])
