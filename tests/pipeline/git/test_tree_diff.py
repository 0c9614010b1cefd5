"""The fast diff of trees with plain edits."""

from __future__ import annotations

import pytest
from hypothesis import given

from pipeline.git.merges import TREE_MODE, TreeEntries
from pipeline.git.tree_diff import diff_plain_files, iter_differing_paths
from tests.pipeline.git.test_merges import FakeTrees, Folder, flatten, folders

SHA = b"\x01" * 20
OTHER = b"\x02" * 20


@given(folders, folders)
def test_every_path_that_differs_is_found(old: Folder, new: Folder) -> None:
    """The paths are those of a comparison of all files, including a file that became a directory."""
    trees = FakeTrees()
    found = iter_differing_paths(trees.build_entries(old), trees.build_entries(new), trees.read)
    listed = {path.decode(): tuple(side and side[1].decode() for side in sides) for path, *sides in found}
    old_files, new_files = flatten(old), flatten(new)
    paths = {path for path in old_files | new_files if old_files.get(path) != new_files.get(path)}
    assert listed == {path: (old_files.get(path), new_files.get(path)) for path in paths}


@given(folders, folders)
def test_plain_edits_are_listed_by_path(old: Folder, new: Folder) -> None:
    """There is one change per path; if one file was added and another deleted, libgit2 decides."""
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
        ((b"100644", SHA), (b"120000", OTHER)),
        (None, (b"120000", SHA)),
        (None, (b"160000", SHA)),
        (None, (b"100664", SHA)),  # group-writable, written by early versions of git
        ((b"100644", SHA), (TREE_MODE, OTHER)),
    ],
)
def test_other_changes_are_left_to_libgit2(old: tuple[bytes, bytes] | None, new: tuple[bytes, bytes]) -> None:
    """Changed or unusual modes, symlinks, submodules, and a file that became a directory need libgit2."""

    def read(_: bytes) -> TreeEntries:
        return {b"inside": (b"100644", SHA)}

    before: TreeEntries = {b"a": old} if old else {}
    assert diff_plain_files(before, {b"a": new}, read) is None


def test_a_path_that_is_not_utf8_is_left_to_libgit2() -> None:
    """Only paths that are UTF-8 can be passed to libgit2 as text."""
    assert diff_plain_files({}, {b"\xe9": (b"100644", SHA)}, FakeTrees().read) is None
    assert diff_plain_files({}, {"é".encode(): (b"100644", SHA)}, FakeTrees().read) is not None
