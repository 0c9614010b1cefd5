"""Index locations: lookup, creation and refusal."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from stores import errors, index_location
from stores.index_location import ForeignFolder, HomeUnusable, IndexLocation
from tests.readonly_fs import make_read_only

# First commit of a full clone, and of a shallow one.
FIRST, BOUNDARY = "a" * 40, "b" * 40


def resolve(
    home: Path, path: str, first_commit: str | None = FIRST, commits: tuple[str, ...] = (FIRST,)
) -> IndexLocation:
    return index_location.resolve_location(home, Path(path), lambda: first_commit, lambda sha: sha in commits)


def test_id_is_stable_and_readable(tmp_path: Path) -> None:
    """The same path and first commit give the same id, which starts with the repository's name."""
    assert resolve(tmp_path, "/src/flask") == resolve(tmp_path, "/src/flask")
    assert resolve(tmp_path, "/src/flask").repo_id.startswith("flask-")
    assert len({resolve(tmp_path, path).repo_id for path in ("/src/flask", "/old/flask", "/src/rich")}) == 3


def test_resolving_creates_nothing(tmp_path: Path) -> None:
    """Resolving a location creates no file or directory."""
    resolve(tmp_path / "home", "/src/flask")
    assert not (tmp_path / "home").exists()


def test_index_directory_is_private(tmp_path: Path) -> None:
    """Only the owner can access the home, the index directory and `place.json`."""
    location = resolve(tmp_path / "home", "/src/flask")
    index_location.create_index_directory(location)
    assert [
        stat.S_IMODE(path.stat().st_mode)
        for path in (location.home, location.folder, location.folder / index_location.LOCATION_FILE)
    ] == [0o700, 0o700, 0o600]


def test_found_again_after_unshallowing(tmp_path: Path) -> None:
    """If `git fetch --unshallow` changes the first commit, the index is still found by its path."""
    shallow = resolve(tmp_path, "/src/flask", BOUNDARY, (BOUNDARY,))
    index_location.create_index_directory(shallow)
    assert resolve(tmp_path, "/src/flask", FIRST, (FIRST, BOUNDARY)) == shallow


def test_indexed_path_needs_no_walk(tmp_path: Path) -> None:
    """If an index has the path, `find_first_commit` is not called, because it walks the history."""
    index_location.create_index_directory(resolve(tmp_path, "/src/flask"))

    def walk() -> str:
        raise AssertionError("must not be called")

    assert (
        index_location.resolve_location(tmp_path, Path("/src/flask"), walk, FIRST.__eq__).first_commit
        == FIRST
    )


def test_other_repository_at_the_same_path(tmp_path: Path) -> None:
    """Another repository at the same path gets an index of its own."""
    first_location = resolve(tmp_path, "/src/flask")
    index_location.create_index_directory(first_location)
    second_location = resolve(tmp_path, "/src/flask", BOUNDARY, (BOUNDARY,))
    assert second_location.repo_id != first_location.repo_id
    index_location.create_index_directory(second_location)
    assert resolve(tmp_path, "/src/flask", BOUNDARY, (BOUNDARY,)) == second_location


def test_several_candidates(tmp_path: Path) -> None:
    """If two indexes have the path, the one with the present first commit is returned."""
    index_location.create_index_directory(resolve(tmp_path, "/src/flask", BOUNDARY, (BOUNDARY,)))
    full_location = resolve(tmp_path, "/src/flask")
    index_location.create_index_directory(full_location)
    assert resolve(tmp_path, "/src/flask", FIRST, (FIRST, BOUNDARY)) == full_location


@pytest.mark.parametrize("text", ["", "[]", '{"path": 1}', "null", json.dumps({"path": "/x"}), "[" * 200_000])
def test_invalid_location_file(tmp_path: Path, text: str) -> None:
    """An invalid `place.json` is ignored, and rewritten when the index directory is created again."""
    location = resolve(tmp_path, "/src/flask")
    index_location.create_index_directory(location)
    file = location.folder / index_location.LOCATION_FILE
    old_content = file.read_text()
    file.write_text(text)
    assert resolve(tmp_path, "/src/flask") == location
    assert list(index_location.find_by_path(tmp_path, Path("/src/flask"))) == []
    index_location.create_index_directory(location)
    assert file.read_text() == old_content


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_something_else_in_place_of_the_location_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A pipe in place of `place.json` is replaced; for a directory the error names it, not a temporary file."""
    location = resolve(tmp_path, "/src/flask")
    location.folder.mkdir()
    file = location.folder / index_location.LOCATION_FILE
    make(file)
    assert resolve(tmp_path, "/src/flask") == location
    if make is os.mkfifo:
        index_location.create_index_directory(location)
        assert list(index_location.find_by_path(tmp_path, Path("/src/flask"))) == [location]
        return
    with pytest.raises(IsADirectoryError) as error:
        index_location.create_index_directory(location)
    assert str(errors.from_os_error(error.value)) == (
        f"Is a directory: {file}\n  A file belongs there. Move the directory away, or name another path."
    )


def test_location_file_is_complete_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk, the error names the temporary file, which is deleted, and no `place.json` exists."""

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    location = resolve(tmp_path, "/src/flask")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space") as error_info:
        index_location.create_index_directory(location)
    assert str(error_info.value.filename).startswith(str(location.folder / index_location.LOCATION_FILE))
    assert list(location.folder.iterdir()) == []


def test_foreign_directory_is_not_touched(tmp_path: Path) -> None:
    """A symlink in place of an index directory is refused, and its target stays unchanged, including its mode."""
    foreign_folder = tmp_path / "foreign"
    foreign_folder.mkdir(mode=0o755)
    (tmp_path / "home").mkdir()
    location = resolve(tmp_path / "home", "/src/flask")
    location.folder.symlink_to(foreign_folder)
    with pytest.raises(ForeignFolder, match="Nothing was changed"):
        index_location.create_index_directory(location)
    assert (stat.S_IMODE(foreign_folder.stat().st_mode), list(foreign_folder.iterdir())) == (0o755, [])


def create_invalid_homes(tmp_path: Path) -> dict[str, Path]:
    """Create and return paths that cannot be LINEAGE_HOME."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "at all")
    (tmp_path / "loop").symlink_to("loop")
    homes = {name: tmp_path / name for name in ("file", "dangling", "loop")}
    return homes | {"below": tmp_path / "file" / "below", "proc": Path("/proc/nope")}


@pytest.mark.parametrize("kind", ["file", "dangling", "loop", "below", "proc"])
def test_invalid_home(tmp_path: Path, kind: str) -> None:
    """The error for a home that is not a directory names it and LINEAGE_HOME."""
    home = create_invalid_homes(tmp_path)[kind]
    with pytest.raises(HomeUnusable, match="Set LINEAGE_HOME to a directory") as error_info:
        index_location.create_index_directory(IndexLocation(home, "flask-01", Path("/src/flask"), FIRST))
    assert str(home) in error_info.value.message
    if kind in {"file", "dangling", "loop"}:
        with pytest.raises(HomeUnusable):
            resolve(home, "/src/flask")


def test_home_that_is_not_utf_8(tmp_path: Path) -> None:
    """A home that is not UTF-8 is an error, also for a list of its indexes."""
    home = tmp_path / "\udcff"
    home.mkdir()
    with pytest.raises(HomeUnusable, match="is not UTF-8"):
        list(index_location.list_indexes(home))


def test_existing_directory_on_read_only_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An existing index directory is not written to, so it may be read-only; a new one is refused."""
    location = resolve(tmp_path, "/src/flask")
    index_location.create_index_directory(location)
    make_read_only(tmp_path, monkeypatch)
    index_location.create_index_directory(location)
    with pytest.raises(OSError, match="Read-only"):
        index_location.create_index_directory(resolve(tmp_path, "/src/rich"))


@pytest.mark.parametrize("path", ["/", "/src/.hidden", "/src/bad\udcff", "/src/a b.git", "/src/" + "x" * 200])
def test_id_is_plain_for_any_path(tmp_path: Path, path: str) -> None:
    """The id of any path is a plain directory name, and is found again."""
    location = resolve(tmp_path, path)
    assert location.repo_id.isascii() and "/" not in location.repo_id and location.repo_id[0] not in ".-"
    index_location.create_index_directory(location)
    assert resolve(tmp_path, path) == location


def test_empty_repository(tmp_path: Path) -> None:
    """An empty repository has a location, and another one after its first commit."""
    empty_location = resolve(tmp_path, "/src/flask", None, ())
    index_location.create_index_directory(empty_location)
    assert resolve(tmp_path, "/src/flask").repo_id != empty_location.repo_id
