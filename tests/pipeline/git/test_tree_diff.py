"""The files edited between two trees: all of them, in order, or the word that libgit2 must tell."""

from __future__ import annotations

import pytest
from hypothesis import given

from pipeline.git.merges import TREE, Entries
from pipeline.git.tree_cache import Recent
from pipeline.git.tree_diff import differing, edits
from tests.pipeline.git.test_merges import Folder, Trees, flat, folders

SHA = b"\x01" * 20
OTHER = b"\x02" * 20


@given(folders, folders)
def test_every_path_that_differs_is_found(old: Folder, new: Folder) -> None:
    """As comparing the lists of all files finds them, a file that became a folder included."""
    trees = Trees()
    found = differing(trees.entries(old), trees.entries(new), trees.read)
    named = {path.decode(): tuple(side and side[1].decode() for side in sides) for path, *sides in found}
    was, now = flat(old), flat(new)
    paths = {path for path in was | now if was.get(path) != now.get(path)}
    assert named == {path: (was.get(path), now.get(path)) for path in paths}


@given(folders, folders)
def test_edits_are_listed_by_path_unless_a_file_may_have_moved(old: Folder, new: Folder) -> None:
    """One change a path; none are told where one file came and another went."""
    trees = Trees()
    told = edits(trees.entries(old), trees.entries(new), trees.read)
    was, now = flat(old), flat(new)
    if set(was) - set(now) and set(now) - set(was):
        assert told is None
        return
    assert told is not None
    assert [change.path.decode() for change in told] == sorted(
        path for path in was | now if was.get(path) != now.get(path)
    )
    assert {change.kind for change in told if change.path.decode() not in was} <= {"added"}
    assert {change.kind for change in told if change.path.decode() not in now} <= {"deleted"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((b"100644", SHA), (b"100755", SHA)),
        ((b"100644", SHA), (b"120000", OTHER)),
        (None, (b"120000", SHA)),
        (None, (b"160000", SHA)),
        (None, (b"100664", SHA)),  # of git's first years
        ((b"100644", SHA), (TREE, OTHER)),
    ],
)
def test_what_is_no_plain_edit_is_left_to_libgit2(
    old: tuple[bytes, bytes] | None, new: tuple[bytes, bytes]
) -> None:
    """Other modes, links, submodules, and a file that became a folder."""

    def read(_: bytes) -> Entries:
        return {b"inside": (b"100644", SHA)}

    before: Entries = {b"a": old} if old else {}
    assert edits(before, {b"a": new}, read) is None


def test_a_path_that_is_no_text_is_left_to_libgit2() -> None:
    """It takes paths from here as text only; those that are UTF-8 it can be told."""
    assert edits({}, {b"\xe9": (b"100644", SHA)}, Trees().read) is None
    assert edits({}, {"é".encode(): (b"100644", SHA)}, Trees().read) is not None


def test_what_was_read_last_is_kept_within_its_bound() -> None:
    """The longest unused goes first, and what would fill the room alone is not kept."""
    recent = Recent[str, int](10)
    for key in ("a", "b"):
        recent.keep(key, 1, 4)
    assert recent.get("a") == 1
    recent.keep("c", 1, 4)
    recent.keep("large", 1, 6)
    assert [key for key in ("a", "b", "c", "large") if recent.get(key)] == ["a", "c"]
