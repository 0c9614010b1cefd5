"""Fast diff of trees that differ only in edited, added or deleted files, and check for changes of a merge itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.git.objects import DIRECTORY_MODE, TreeEntries
from pipeline.git.tree_diff import diff_plain_files, has_merge_changes, iter_differing_paths

SHA = b"\x01" * 20
OTHER_SHA = b"\x02" * 20

Directory: TypeAlias = "Mapping[str, str | Directory]"

contents = st.sampled_from(["1", "2", "3"])
directories = st.recursive(
    st.dictionaries(st.sampled_from("xy"), contents, min_size=1, max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("xyde"), contents | inner, min_size=1, max_size=4),
    max_leaves=6,
)


class FakeTrees:
    """Trees as git stores them, with a key derived from the content in place of an object id."""

    def __init__(self) -> None:
        self.directories: dict[bytes, Directory] = {}

    def build_entries(self, directory: Directory) -> TreeEntries:
        return {name.encode(): self.build_entry(content) for name, content in directory.items()}

    def build_entry(self, content: str | Directory) -> tuple[bytes, bytes]:
        if isinstance(content, str):
            return b"100644", content.encode()
        key = repr(sorted(flatten(content).items())).encode()
        self.directories[key] = content
        return DIRECTORY_MODE, key

    def read(self, key: bytes) -> TreeEntries:
        return self.build_entries(self.directories[key])


def flatten(directory: Directory, prefix: str = "") -> dict[str, str]:
    """Return the content of every file by path."""
    content_by_path: dict[str, str] = {}
    for name, content in directory.items():
        content_by_path |= (
            {prefix + name: content} if isinstance(content, str) else flatten(content, f"{prefix}{name}/")
        )
    return content_by_path


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
    """Each path has one change, ordered by path. If files were both added and deleted, libgit2's diff is needed."""
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
        ((b"100644", SHA), (DIRECTORY_MODE, OTHER_SHA)),
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


@given(directories, st.lists(directories, min_size=2, max_size=3))
def test_has_merge_changes_misses_no_file(result: Directory, parents: list[Directory]) -> None:
    """The result is exact, but if a name is a file in one tree and a directory in another, it may count as a change."""
    trees = FakeTrees()
    has_changes = has_merge_changes(
        trees.build_entries(result), [trees.build_entries(parent) for parent in parents], trees.read
    )
    result_files, parent_files = flatten(result), [flatten(parent) for parent in parents]
    paths = {path for files in (result_files, *parent_files) for path in files}
    expected = any(all(result_files.get(path) != files.get(path) for files in parent_files) for path in paths)
    has_mixed_names = any(f"{path}/" in other[: len(path) + 1] for path in paths for other in paths)
    assert has_changes == expected or (has_mixed_names and has_changes)
