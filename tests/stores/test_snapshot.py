"""Snapshots of the hunks that HEAD reaches."""

from __future__ import annotations

import duckdb
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stores import snapshot
from stores.filters import QuotedSymbol
from stores.history import ReachabilityDelta
from stores.snapshot import PositionLookup
from tests.stores.sample_index import HeadSymbol, SampleHunk, create_index, make_sha

COMMITS = range(6)
commit_lists = st.lists(st.sampled_from(COMMITS), unique=True, max_size=4)
deltas = st.builds(
    ReachabilityDelta,
    removed_commits=commit_lists.map(lambda commits: tuple(map(make_sha, commits))),
    added_commits=commit_lists.map(lambda commits: tuple(map(make_sha, commits))),
    lists_all_commits=st.booleans(),
)
hunk_lists = st.lists(
    st.builds(
        SampleHunk,
        commit=st.sampled_from(COMMITS),
        path=st.sampled_from(["a.py", "src/b.py", "c.md"]),
        words=st.lists(st.sampled_from(["alpha", "beta"]), max_size=3),
        symbols=st.lists(st.sampled_from(["alpha", "beta"]), max_size=2),
        vector=st.tuples(st.integers(0, 3).map(float), st.just(1.0)),
    ),
    max_size=12,
    unique_by=lambda hunk: (hunk.commit, hunk.path),
)


def is_reachable(hunk: SampleHunk, unreachable: list[int], delta: ReachabilityDelta) -> bool:
    """Return whether HEAD reaches the hunk's commit; `unreachable`: commits that the index's HEAD does not reach."""
    was_reachable = hunk.commit not in unreachable and hunk.sha not in delta.removed_commits
    return hunk.sha in delta.added_commits or (was_reachable and not delta.lists_all_commits)


@settings(max_examples=60)
@given(hunk_lists, commit_lists, deltas)
def test_snapshot_has_reachable_hunks(
    sample_hunks: list[SampleHunk], unreachable: list[int], delta: ReachabilityDelta
) -> None:
    """The snapshot has all reachable hunks with their fields, ordered by newest commit, sha and path."""
    loaded_snapshot = snapshot.load_snapshot(create_index(sample_hunks, unreachable=unreachable), delta)
    hunk_ids = [n for n, hunk in enumerate(sample_hunks) if is_reachable(hunk, unreachable, delta)]
    hunk_ids.sort(key=lambda n: (-sample_hunks[n].commit, sample_hunks[n].sha, sample_hunks[n].path))
    expected = [sample_hunks[n] for n in hunk_ids]
    hunks = loaded_snapshot.hunks
    assert hunks.ids.tolist() == hunk_ids
    assert hunks.word_counts.tolist() == [len(hunk.words) for hunk in expected]
    assert hunks.symbol_word_counts.tolist() == [len(hunk.symbols) for hunk in expected]
    assert hunks.commit_info.to_pylist() == [
        {"commit_date": hunk.date, "commit_sha": hunk.sha, "file_path": hunk.path} for hunk in expected
    ]
    assert hunks.text_digests.to_pylist() == [hunk.digest for hunk in expected]
    assert loaded_snapshot.file_count == len({hunk.path for hunk in expected})
    paths_with_index = {
        (hunk.path, int(index)) for hunk, index in zip(expected, hunks.file_indices, strict=True)
    }
    assert len(paths_with_index) == loaded_snapshot.file_count


@given(st.lists(st.integers(0, 30), unique=True), st.lists(st.integers(0, 40)))
def test_position_lookup(row_numbers: list[int], queries: list[int]) -> None:
    """The lookup gives the position of each row, and -1 for any other number."""
    expected = [row_numbers.index(row) if row in row_numbers else -1 for row in queries]
    lookup = PositionLookup.from_rows(np.array(row_numbers, dtype=np.int64))
    assert lookup.find_positions(np.array(queries, dtype=np.int64)).tolist() == expected


def test_head_symbol_files() -> None:
    """A HEAD symbol has the file index of hunks with the same path, if there are any."""
    hunks = [SampleHunk(1, "a.py"), SampleHunk(2, "b.py"), SampleHunk(3, "b.py")]
    symbols = [
        HeadSymbol("b.py", "send"),
        HeadSymbol("new.py", "Send"),
        HeadSymbol("a.py", "close", ["send"]),
    ]
    loaded_snapshot = snapshot.load_snapshot(create_index(hunks, symbols=symbols), ReachabilityDelta())
    path_by_index = dict(
        zip(loaded_snapshot.hunks.file_indices.tolist(), ["b.py", "b.py", "a.py"], strict=True)
    )
    assert [path_by_index.get(index) for index in loaded_snapshot.symbols.file_indices.tolist()] == [
        "b.py",
        None,
        "a.py",
    ]
    assert loaded_snapshot.symbols.word_counts.tolist() == [1, 1, 2]
    assert loaded_snapshot.symbols.names.to_pylist() == ["send", "Send", "close"]


def test_parts_of_quoted_symbols() -> None:
    """A HEAD symbol matches a quoted symbol by its name, and by the name of the innermost symbol around it."""
    connection = create_index([SampleHunk(1, "a.py")], symbols=[HeadSymbol("a.py", "send")] * 5)
    parents = ["", "Event", "Outer.Event", "Display for Event", "Event.Outer"]
    for number, parent in enumerate(parents):
        connection.execute("UPDATE head_symbols SET parent = ? WHERE symbol_id = ?", [parent, number])
    symbols = snapshot.load_snapshot(connection, ReachabilityDelta()).symbols
    assert symbols.count_matched_parts((QuotedSymbol("send", "Event"),)).tolist() == [1, 2, 2, 2, 1]
    assert symbols.count_matched_parts((QuotedSymbol("send"), QuotedSymbol("x", "y"))).tolist() == [1] * 5
    assert symbols.count_matched_parts((QuotedSymbol("Send", "Event"),)).tolist() == [0] * 5
    assert symbols.count_matched_parts(()).tolist() == [0] * 5


def test_order_of_rows_does_not_matter() -> None:
    """Rows in another order give the same snapshot, except for the hunk ids."""
    hunks = [SampleHunk(n % 5, f"{n % 7}.py", vector=(n % 3, 1)) for n in range(35)]
    first, second = (
        snapshot.load_snapshot(create_index(rows), ReachabilityDelta()) for rows in (hunks, hunks[::-1])
    )
    assert first.hunks.commit_info.equals(second.hunks.commit_info)
    assert first.hunks.text_digests.equals(second.hunks.text_digests)


def test_order_of_undecodable_paths() -> None:
    """Two paths of a commit that differ only in bytes that are not UTF-8 are ordered by these bytes."""
    connection = create_index([SampleHunk(1, "?.py"), SampleHunk(1, "?.py", words=["other"])])
    _set_path_bytes(connection, {0: b"\xff.py", 1: b"\xfe.py"})
    assert snapshot.load_snapshot(connection, ReachabilityDelta()).hunks.ids.tolist() == [1, 0]


def _set_path_bytes(connection: duckdb.DuckDBPyConnection, path_by_hunk: dict[int, bytes]) -> None:
    for hunk_id, path in path_by_hunk.items():
        connection.execute("UPDATE hunks SET file_path_bytes = ? WHERE hunk_id = ?", [path, hunk_id])
