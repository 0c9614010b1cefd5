"""Snapshots of the hunks that HEAD reaches."""

from __future__ import annotations

import duckdb
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stores import snapshot
from stores.snapshot import PositionLookup
from stores.types import ReachabilityDelta
from tests.stores.sample_index import Doc, HeadSymbol, create_index, sha

COMMITS = range(6)
commit_lists = st.lists(st.sampled_from(COMMITS), unique=True, max_size=4)
deltas = st.builds(
    ReachabilityDelta,
    removed=commit_lists.map(lambda commits: tuple(map(sha, commits))),
    added=commit_lists.map(lambda commits: tuple(map(sha, commits))),
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


def is_reachable(doc: Doc, unreached: list[int], delta: ReachabilityDelta) -> bool:
    """Return whether HEAD reaches the commit, by the definition of `ReachabilityDelta`."""
    is_unchanged = doc.commit not in unreached and doc.sha not in delta.removed
    return doc.sha in delta.added or (is_unchanged and not delta.complete)


@settings(max_examples=60)
@given(docs, commit_lists, deltas)
def test_snapshot_has_reachable_hunks(
    documents: list[Doc], unreached: list[int], delta: ReachabilityDelta
) -> None:
    """The snapshot has all reachable hunks with their fields, ordered by newest commit, sha and path."""
    connection = create_index(documents, unreached=unreached)
    found = snapshot.load_snapshot(connection, delta)
    hunk_ids = [number for number, doc in enumerate(documents) if is_reachable(doc, unreached, delta)]
    hunk_ids.sort(
        key=lambda number: (-documents[number].commit, documents[number].sha, documents[number].path)
    )
    expected = [documents[number] for number in hunk_ids]
    hunks = found.hunks
    assert hunks.ids.tolist() == hunk_ids
    assert hunks.word_counts.tolist() == [len(doc.words) for doc in expected]
    assert hunks.symbol_word_counts.tolist() == [len(doc.symbols) for doc in expected]
    assert hunks.commit_info.to_pylist() == [
        {"commit_date": doc.date, "commit_sha": doc.sha, "file_path": doc.path} for doc in expected
    ]
    assert found.texts.tolist() == sorted({doc.digest.rstrip(b"\0") for doc in expected})
    assert [found.texts[text] for text in hunks.text_indices] == [
        doc.digest.rstrip(b"\0") for doc in expected
    ]
    assert found.file_count == len({doc.path for doc in expected})
    path_indices = {(doc.path, int(file)) for doc, file in zip(expected, hunks.file_indices, strict=True)}
    assert len(path_indices) == found.file_count


@given(st.lists(st.integers(0, 30), unique=True), st.lists(st.integers(0, 40)))
def test_position_lookup(rows: list[int], queried: list[int]) -> None:
    """The lookup gives the position of each row, and -1 for any other number."""
    expected = [rows.index(row) if row in rows else -1 for row in queried]
    lookup = PositionLookup.from_rows(np.array(rows, dtype=np.int64))
    assert lookup.positions_of(np.array(queried, dtype=np.int64)).tolist() == expected


def test_head_symbol_files() -> None:
    """A HEAD symbol has the file index of hunks with the same path, if there are any."""
    documents = [Doc(1, "a.py"), Doc(2, "b.py"), Doc(3, "b.py")]
    symbols = [
        HeadSymbol("b.py", "send"),
        HeadSymbol("new.py", "Send"),
        HeadSymbol("a.py", "close", ["send"]),
    ]
    found = snapshot.load_snapshot(create_index(documents, symbols=symbols), ReachabilityDelta())
    paths = dict(zip(found.hunks.file_indices.tolist(), ["b.py", "b.py", "a.py"], strict=True))
    assert [paths.get(file) for file in found.symbols.file_indices.tolist()] == ["b.py", None, "a.py"]
    assert found.symbols.word_counts.tolist() == [1, 1, 2]
    assert found.symbols.match_names(("send", "absent")).tolist() == [True, False, False]


def test_order_of_rows_does_not_matter() -> None:
    """Rows in another order give the same snapshot, except for the hunk ids."""
    documents = [Doc(n % 5, f"{n % 7}.py", vector=(n % 3, 1)) for n in range(35)]
    shuffled = documents[::-1]
    one, other = (
        snapshot.load_snapshot(create_index(rows), ReachabilityDelta()) for rows in (documents, shuffled)
    )
    assert one.hunks.commit_info.equals(other.hunks.commit_info)
    assert one.texts.tolist() == other.texts.tolist()
    assert one.hunks.text_indices.tolist() == other.hunks.text_indices.tolist()


def test_order_of_undecodable_paths() -> None:
    """Two undecodable paths of a commit with the same text are ordered by their bytes."""
    connection = create_index([Doc(1, "?.py"), Doc(1, "?.py", words=["other"])])
    _set_path_bytes(connection, {0: b"\xff.py", 1: b"\xfe.py"})
    assert snapshot.load_snapshot(connection, ReachabilityDelta()).hunks.ids.tolist() == [1, 0]


def _set_path_bytes(connection: duckdb.DuckDBPyConnection, names: dict[int, bytes]) -> None:
    for hunk, name in names.items():
        connection.execute("UPDATE hunks SET file_path_bytes = ? WHERE hunk_id = ?", [name, hunk])
