"""Where an index lives, and how it is found again."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from stores import index_location
from stores.index_location import ForeignFolder, HomeUnusable, Place
from tests.readonly_fs import read_only

FIRST, BOUNDARY = "a" * 40, "b" * 40


def place(home: Path, path: str, first: str | None = FIRST, has: tuple[str, ...] = (FIRST,)) -> Place:
    return index_location.locate(home, Path(path), lambda: first, lambda sha: sha in has)


def test_id_is_stable_and_readable(tmp_path: Path) -> None:
    """The same path and first commit give the same id, which starts with the repository's name."""
    assert place(tmp_path, "/src/flask") == place(tmp_path, "/src/flask")
    assert place(tmp_path, "/src/flask").repo_id.startswith("flask-")
    assert len({place(tmp_path, path).repo_id for path in ("/src/flask", "/old/flask", "/src/rich")}) == 3


def test_locating_makes_nothing(tmp_path: Path) -> None:
    """Asking where an index would live leaves no trace."""
    place(tmp_path / "home", "/src/flask")
    assert not (tmp_path / "home").exists()


def test_claimed_folder_is_private(tmp_path: Path) -> None:
    """The home, the folder and what it says of itself are their owner's only."""
    claimed = place(tmp_path / "home", "/src/flask")
    index_location.claim(claimed)
    assert [
        stat.S_IMODE(path.stat().st_mode)
        for path in (claimed.home, claimed.folder, claimed.folder / index_location.PLACE)
    ] == [0o700, 0o700, 0o600]


def test_found_again_after_unshallowing(tmp_path: Path) -> None:
    """When the first commit changes because history was fetched, the index is still found under its path."""
    shallow = place(tmp_path, "/src/flask", BOUNDARY, (BOUNDARY,))
    index_location.claim(shallow)
    assert place(tmp_path, "/src/flask", FIRST, (FIRST, BOUNDARY)) == shallow


def test_found_without_walking(tmp_path: Path) -> None:
    """A known path asks for no first commit, which would cost a walk."""
    index_location.claim(place(tmp_path, "/src/flask"))

    def walk() -> str:
        raise AssertionError("not asked")

    assert index_location.locate(tmp_path, Path("/src/flask"), walk, FIRST.__eq__).first_commit == FIRST


def test_other_repository_at_the_same_path(tmp_path: Path) -> None:
    """A repository that replaced another at its path gets an index of its own."""
    before = place(tmp_path, "/src/flask")
    index_location.claim(before)
    after = place(tmp_path, "/src/flask", BOUNDARY, (BOUNDARY,))
    assert after.repo_id != before.repo_id
    index_location.claim(after)
    assert place(tmp_path, "/src/flask", BOUNDARY, (BOUNDARY,)) == after


def test_several_candidates(tmp_path: Path) -> None:
    """Of two indexes made under one path, the one with the present first commit is taken."""
    index_location.claim(place(tmp_path, "/src/flask", BOUNDARY, (BOUNDARY,)))
    full = place(tmp_path, "/src/flask")
    index_location.claim(full)
    assert place(tmp_path, "/src/flask", FIRST, (FIRST, BOUNDARY)) == full


@pytest.mark.parametrize("text", ["", "[]", '{"path": 1}', "null", json.dumps({"path": "/x"})])
def test_unreadable_description_counts_as_absent(tmp_path: Path, text: str) -> None:
    """A place.json that says nothing useful stops nobody, and is written anew by whoever claims the place."""
    claimed = place(tmp_path, "/src/flask")
    index_location.claim(claimed)
    file = claimed.folder / index_location.PLACE
    before = file.read_text()
    file.write_text(text)
    assert place(tmp_path, "/src/flask") == claimed
    assert list(index_location.under_path(tmp_path, Path("/src/flask"))) == []
    index_location.claim(claimed)
    assert file.read_text() == before


def test_a_description_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is on the disk before it gets its name; on a full disk the draft is named, and goes."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    claimed = place(tmp_path, "/src/flask")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space") as raised:
        index_location.claim(claimed)
    assert str(raised.value.filename).startswith(str(claimed.folder / index_location.PLACE))
    assert list(claimed.folder.iterdir()) == []


def test_a_foreign_folder_is_not_touched(tmp_path: Path) -> None:
    """A link under an index's name is refused before anything behind it changes, its mode included."""
    foreign = tmp_path / "foreign"
    foreign.mkdir(mode=0o755)
    (tmp_path / "home").mkdir()
    linked = place(tmp_path / "home", "/src/flask")
    linked.folder.symlink_to(foreign)
    with pytest.raises(ForeignFolder, match="nothing in it was touched"):
        index_location.claim(linked)
    assert (stat.S_IMODE(foreign.stat().st_mode), list(foreign.iterdir())) == (0o755, [])


def homes_that_are_none(tmp_path: Path) -> dict[str, Path]:
    """What LINEAGE_HOME may name by mistake."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "at all")
    (tmp_path / "loop").symlink_to("loop")
    found = {name: tmp_path / name for name in ("file", "dangling", "loop")}
    return found | {"below": tmp_path / "file" / "below", "proc": Path("/proc/nope")}


@pytest.mark.parametrize("kind", ["file", "dangling", "loop", "below", "proc"])
def test_a_home_that_is_no_folder(tmp_path: Path, kind: str) -> None:
    """No index can be kept there, which is said with the name of what to change; and none is there to be found."""
    home = homes_that_are_none(tmp_path)[kind]
    with pytest.raises(HomeUnusable, match="LINEAGE_HOME must name a folder") as raised:
        index_location.claim(Place(home, "flask-01", Path("/src/flask"), FIRST))
    assert str(home) in raised.value.message
    if kind in {"file", "dangling", "loop"}:
        with pytest.raises(HomeUnusable):
            place(home, "/src/flask")


def test_a_place_is_claimed_where_nothing_can_be_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all is as it should be, nothing is written."""
    claimed = place(tmp_path, "/src/flask")
    index_location.claim(claimed)
    read_only(tmp_path, monkeypatch)
    index_location.claim(claimed)
    with pytest.raises(OSError, match="Read-only"):
        index_location.claim(place(tmp_path, "/src/rich"))


@pytest.mark.parametrize("path", ["/", "/src/.hidden", "/src/bad\udcff", "/src/a b.git", "/src/" + "x" * 200])
def test_any_path_gives_a_plain_folder_name(tmp_path: Path, path: str) -> None:
    """Whatever a repository's folder is called, the id is a plain name, and is found again."""
    claimed = place(tmp_path, path)
    assert claimed.repo_id.isascii() and "/" not in claimed.repo_id and claimed.repo_id[0] not in ".-"
    index_location.claim(claimed)
    assert place(tmp_path, path) == claimed


def test_empty_repository(tmp_path: Path) -> None:
    """Before its first commit a repository has a place, and another one afterwards."""
    empty = place(tmp_path, "/src/flask", None, ())
    index_location.claim(empty)
    assert place(tmp_path, "/src/flask").repo_id != empty.repo_id
