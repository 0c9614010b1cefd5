"""Index directory of a repository, `$LINEAGE_HOME/<repo id>`, and its files.

The repo id is the repository's name and a hash of its canonical path and first commit. `place.json` in the directory
records this path and first commit. With this record, an index is still found after a shallow clone was completed, which
changes the first commit. The record also prevents its use for another repository that moved to the same path.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stores import errors
from stores.errors import LineageError

DATABASE_FILE: Final = "index.duckdb"
LOCATION_FILE: Final = "place.json"
EMBEDDINGS_FILE: Final = "embeddings.duckdb"
GIT_DIRECTORY: Final = "git"

# Hexadecimal digits of the hash in a repo id. 64 bits: no collisions among one user's repositories, and a short name.
ID_DIGITS: Final = 16
# Characters of the repository's name in a repo id, enough for people to recognize it. A file name may have 255 bytes.
MAX_NAME_LENGTH: Final = 40
# Mode of directories: accessible by the owner only, because diffs can contain secrets.
PRIVATE_MODE: Final = 0o700


class HomeUnusable(LineageError):
    """Error for a LINEAGE_HOME that is not UTF-8, or is not a directory and cannot be created."""


class ForeignFolder(LineageError):
    """Error for an index directory that is a symlink, or is not a direct child of LINEAGE_HOME."""


@dataclass(frozen=True, slots=True)
class IndexLocation:
    """Location of one repository's index, which need not exist yet.

    - `repo_id`: name of the directory under `home`.
    - `path`: canonical path of the repository.
    - `first_commit`: first commit on HEAD when the index was created, or now if there is no index. None or empty if
      HEAD has no commit.
    """

    home: Path
    repo_id: str
    path: Path
    first_commit: str | None

    @property
    def folder(self) -> Path:
        """Directory of the database, the embedding cache, the locks and `place.json`."""
        return self.home / self.repo_id

    @property
    def database(self) -> Path:
        """DuckDB database file."""
        return self.folder / DATABASE_FILE

    def has_database(self) -> bool:
        """Return whether there is a database file, or something else in its place, such as a broken link.

        Raises PermissionError if this user may not see it.
        """
        return self.database.exists() or self.database.is_symlink()

    @property
    def wal(self) -> Path:
        """DuckDB's write-ahead log."""
        return self.folder / f"{DATABASE_FILE}.wal"

    @property
    def hnsw(self) -> Path:
        """Optional database file with an HNSW index of the vectors."""
        return self.folder / f"{DATABASE_FILE}.hnsw"

    @property
    def times(self) -> Path:
        """JSON file with the durations of the index runs, by phase."""
        return self.folder / f"{DATABASE_FILE}.times"

    @property
    def damage(self) -> Path:
        """File that records corruption which a reader found. A rebuild deletes it with the other files of the index."""
        return self.folder / f"{DATABASE_FILE}.damage"

    @property
    def embeddings(self) -> Path:
        """Database of the embedding cache. A rebuild of the index does not delete it."""
        return self.folder / EMBEDDINGS_FILE

    @property
    def git_directory(self) -> Path:
        """Git object directory that holds the commit-graph."""
        return self.folder / GIT_DIRECTORY


def resolve_location(
    home: Path,
    canonical_path: Path,
    find_first_commit: Callable[[], str | None],
    has_commit: Callable[[str], bool],
) -> IndexLocation:
    """Return the location of the index of the repository at `canonical_path`, without creating anything.

    An index at this path belongs to the repository only if the repository has the recorded first commit.

    `find_first_commit`: returns the first commit on HEAD, None if there is none; called unless exactly one index
    belongs to the repository. `has_commit`: returns whether the repository has this commit.

    Raises HomeUnusable.
    """
    check_home(home)
    candidates = [
        location for location in find_by_path(home, canonical_path) if has_commit(location.first_commit or "")
    ]
    if len(candidates) == 1:
        return candidates[0]
    new_location = _build_new_location(home, canonical_path, find_first_commit())
    for location in candidates:
        if location.repo_id == new_location.repo_id:
            return location
    return candidates[0] if candidates else new_location


def find_location(
    home: Path,
    canonical_path: Path,
    find_first_commit: Callable[[], str | None],
    has_commit: Callable[[str], bool],
) -> IndexLocation | None:
    """Return the same location as `resolve_location`; None if no index directory can belong to the repository.

    The arguments are those of `resolve_location`. If the result is None, `find_first_commit` is not called. A
    directory that this process may not read can belong to the repository. Opening an index there raises
    PermissionError.
    """
    has_index_at_path = next(find_by_path(home, canonical_path), None) is not None
    location_files = _find_location_files(home, canonical_path)
    # A directory whose location file cannot be read may belong to the repository.
    if not has_index_at_path and all(map(_read_location_file, location_files)):
        return None
    return resolve_location(home, canonical_path, find_first_commit, has_commit)


def find_by_path(home: Path, canonical_path: Path) -> Iterator[IndexLocation]:
    """Yield the indexes of the repository at this path, and of repositories that were there earlier.

    An index without a recorded first commit is left out.
    """
    for file in _find_location_files(home, canonical_path):
        recorded_path, first_commit = _read_location_file(file) or ("", "")
        if recorded_path == str(canonical_path) and first_commit:
            yield IndexLocation(home, file.parent.name, canonical_path, first_commit)


def list_indexes(home: Path) -> Iterator[IndexLocation]:
    """Yield every index under `home` whose directory is not a symlink.

    The repository's path is read from `place.json`. If this file is missing, damaged or edited by hand, the path that
    is recorded in the index itself is preferred. The next index run writes a missing file again. An index whose path
    cannot be read is left out. Raises HomeUnusable, and StorageError if `home` cannot be read.
    """
    check_home(home)
    files = [file for name in (LOCATION_FILE, DATABASE_FILE) for file in find_files(home, name)]
    if home in files:  # `find_files` has no permission to read it
        raise errors.build_permission_error(home)
    folders = {file.parent for file in files if not file.parent.is_symlink()}
    for folder in sorted(folder for folder in folders if os.access(folder, os.X_OK)):
        location = IndexLocation(home, folder.name, folder, None)
        repository = _read_repository(location)
        if repository is not None:
            path, first_commit = repository
            yield IndexLocation(home, folder.name, Path(path), first_commit)


def _read_repository(location: IndexLocation) -> tuple[str, str] | None:
    """Return path and first commit of the repository of an index; None if they cannot be read."""
    file_record = _read_location_file(location.folder / LOCATION_FILE)
    if file_record is not None:
        path, first_commit = file_record
        # A path and first commit that give the directory's name were not edited.
        if _build_new_location(location.home, Path(path), first_commit).repo_id == location.repo_id:
            return file_record
    database_record = _read_repository_in_database(location)
    # A user who moved the repository may have edited the file. Then the path in the database does not exist.
    if file_record is not None and (database_record is None or not Path(database_record[0]).exists()):
        return file_record
    return database_record


def _read_repository_in_database(location: IndexLocation) -> tuple[str, str] | None:
    """Return path and first commit from the database; None if it cannot be read without waiting."""
    if not location.database.is_file():
        return None
    from stores import database

    with suppress(LineageError, OSError), database.open_for_reading(location, wait=0) as connection:
        row = connection.execute("SELECT path, coalesce(first_commit, '') FROM repository").fetchone()
        # A path that is not UTF-8 is recorded in an escaped form, which would name another file.
        return (str(row[0]), str(row[1])) if row and "\\x" not in row[0] else None
    return None


def check_home(home: Path) -> None:
    """Raise HomeUnusable if `home` is not UTF-8, which DuckDB needs, or exists and is not a directory."""
    if str(home) != str(home).encode(errors="replace").decode():
        raise HomeUnusable(
            f"LINEAGE_HOME is not UTF-8, so no index can be stored there: {str(home)!r}.",
            hint="Set LINEAGE_HOME to a path with UTF-8 characters only.",
        )
    if os.path.lexists(home) and not home.is_dir():
        raise _build_home_error(home)


def create_index_directory(location: IndexLocation) -> None:
    """Create the index directory, private to its owner, and `place.json` if it is missing or invalid.

    Raises HomeUnusable; raises ForeignFolder before changing anything in the directory.
    """
    try:
        location.home.mkdir(mode=PRIVATE_MODE, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError, FileNotFoundError) as error:
        raise _build_home_error(location.home) from error
    check_index_directory(location)
    location.folder.mkdir(mode=PRIVATE_MODE, exist_ok=True)
    # Another program may have created the directory. On a read-only file system, a needless chmod would fail.
    if stat.S_IMODE(location.folder.stat().st_mode) != PRIVATE_MODE:
        location.folder.chmod(PRIVATE_MODE)
    if _read_location_file(location.folder / LOCATION_FILE) is None:
        _write_location_file(location)


def check_index_directory(location: IndexLocation) -> None:
    """Raise ForeignFolder if the index directory is a symlink or not a direct child of `home`."""
    name = location.repo_id
    is_plain_name = Path(name).name == name and name not in {"", ".", ".."}
    if not is_plain_name or location.folder.is_symlink():
        raise ForeignFolder(
            f"{location.folder} is not an index directory directly under {location.home}. Nothing was changed.",
            hint="Check what is there. To delete it, remove it by hand.",
        )


def fsync_file(file: Path) -> None:
    """Flush the file to disk. Call this before the file replaces another one."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        with errors.attach_filename(file):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _build_home_error(home: Path) -> HomeUnusable:
    return HomeUnusable(
        f"Indexes cannot be stored in {home}: it is not a directory and cannot be created.",
        hint="Set LINEAGE_HOME to a directory, or to a path where one can be created.",
    )


def _write_location_file(location: IndexLocation) -> None:
    text = json.dumps({"path": str(location.path), "first_commit": location.first_commit})
    temp_file = location.folder / f"{LOCATION_FILE}.{os.getpid()}"
    try:
        with errors.attach_filename(temp_file):
            temp_file.write_text(text + "\n", encoding="ascii")
        temp_file.chmod(0o600)
        fsync_file(temp_file)
        temp_file.replace(location.folder / LOCATION_FILE)
    except BaseException:
        temp_file.unlink(missing_ok=True)
        raise


def _build_new_location(home: Path, canonical_path: Path, first_commit: str | None) -> IndexLocation:
    identity = os.fsencode(canonical_path) + b"\0" + (first_commit or "").encode()
    digest = hashlib.sha256(identity).hexdigest()[:ID_DIGITS]
    repo_id = f"{_build_name_prefix(canonical_path)}-{digest}"
    return IndexLocation(home, repo_id, canonical_path, first_commit)


def _build_name_prefix(canonical_path: Path) -> str:
    """Return the part of the repo id before the hash: the repository's name, without special characters."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", canonical_path.name.removesuffix(".git"))
    return name.strip("-")[:MAX_NAME_LENGTH] or "repo"


def find_files(home: Path, name: str, prefix: str = "") -> list[Path]:
    """Return the files with this name in directories under `home` with names that start with `prefix`, sorted.

    Files that may exist in a directory without permission to read it are included. The result is `[home]`
    without permission to read `home` itself, and empty if `home` cannot be read for another reason.
    """
    try:
        folders = sorted(folder for folder in home.iterdir() if folder.name.startswith(prefix))
    except OSError as error:
        return [home] if isinstance(error, PermissionError) else []
    return [folder / name for folder in folders if not _is_missing(folder / name)]


def _is_missing(file: Path) -> bool:
    """Return whether a file does not exist; False without permission to look."""
    try:
        file.lstat()
    except OSError as error:
        return not isinstance(error, PermissionError)
    return False


def _find_location_files(home: Path, canonical_path: Path) -> list[Path]:
    """Return the location files of all repositories with the same name, found by `find_files`."""
    return find_files(home, LOCATION_FILE, f"{_build_name_prefix(canonical_path)}-")


def _read_location_file(file: Path) -> tuple[str, str] | None:
    """Return the recorded path and first commit (may be empty); None if the file is unreadable or invalid."""
    try:
        if errors.is_special_file(file):
            return None
        content = json.loads(file.read_text(encoding="ascii"))
        os.fsencode(content["path"])  # raises UnicodeEncodeError for a text that is no path
        return str(content["path"]), str(content["first_commit"] or "")
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
