"""Fast diff of two trees that differ only in edited, added or deleted regular files."""

from __future__ import annotations

import pytest
from hypothesis import given

from pipeline.git.merges import TREE_MODE, TreeEntries
from pipeline.git.tree_diff import diff_plain_files, iter_differing_paths
from tests.pipeline.git.test_merges import Directory, FakeTrees, directories, flatten

SHA = b"\x01" * 20
OTHER_SHA = b"\x02" * 20


@given(directories, directories)
def test_every_path_that_differs_is_found(old: Directory, new: Directory) -> None:
    """`iter_differing_paths` yields the paths that a comparison of all files gives, with the blobs of both trees."""
    trees = FakeTrees()
    differences = iter_differing_paths(trees.build_entries(old), trees.build_entries(new), trees.read)
    blobs_by_path = {
        path.decode(): tuple(entry and entry[1].decode() for entry in entries)
        for path, *entries in differences
    }
    old_files, new_files = flatten(old), flatten(new)
    paths = {path for path in old_files | new_files if old_files.get(path) != new_files.get(path)}
    assert blobs_by_path == {path: (old_files.get(path), new_files.get(path)) for path in paths}


@given(directories, directories)
def test_plain_edits_are_listed_by_path(old: Directory, new: Directory) -> None:
    """There is one change per path, ordered by path; with both added and deleted files, libgit2's diff is needed."""
    trees = FakeTrees()
    changes = diff_plain_files(trees.build_entries(old), trees.build_entries(new), trees.read)
    old_files, new_files = flatten(old), flatten(new)
    if set(old_files) - set(new_files) and set(new_files) - set(old_files):
        assert changes is None
        return
    assert changes is not None
    assert [change.path.decode() for change in changes] == sorted(
        path for path in old_files | new_files if old_files.get(path) != new_files.get(path)
    )
    assert {change.kind for change in changes if change.path.decode() not in old_files} <= {"added"}
    assert {change.kind for change in changes if change.path.decode() not in new_files} <= {"deleted"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((b"100644", SHA), (b"100755", SHA)),
        ((b"100644", SHA), (b"120000", OTHER_SHA)),
        (None, (b"120000", SHA)),
        (None, (b"160000", SHA)),
        (None, (b"100664", SHA)),  # group-writable, written by early versions of git
        ((b"100644", SHA), (TREE_MODE, OTHER_SHA)),
    ],
)
def test_other_changes_are_left_to_libgit2(old: tuple[bytes, bytes] | None, new: tuple[bytes, bytes]) -> None:
    """Changed or unusual modes, symlinks, submodules, and a file that became a directory need libgit2."""

    def read_tree(_: bytes) -> TreeEntries:
        return {b"inside": (b"100644", SHA)}

    old_entries: TreeEntries = {b"a": old} if old else {}
    assert diff_plain_files(old_entries, {b"a": new}, read_tree) is None


def test_a_path_that_is_not_utf8_is_left_to_libgit2() -> None:
    """A path that is not UTF-8 needs libgit2's diff; other non-ASCII paths do not."""
    assert diff_plain_files({}, {b"\xe9": (b"100644", SHA)}, FakeTrees().read) is None
    assert diff_plain_files({}, {"é".encode(): (b"100644", SHA)}, FakeTrees().read) is not None
