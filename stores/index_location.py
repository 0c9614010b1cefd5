"""Where the index of a repository lives, and the repo id that names its folder.

The id comes from the repository's canonical path and its first commit. A small `place.json` in each
folder says both again, so that an index is found under its path when the first commit changed because
a shallow clone was completed, and is not found by another repository that came to the same path.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stores import errors
from stores.errors import LineageError

DATABASE: Final = "index.duckdb"
PLACE: Final = "place.json"
EMBEDDINGS: Final = "embeddings.duckdb"
GRAPH: Final = "git"

# 64 bits: two of a person's repositories never meet, and the folder's name stays readable.
ID_DIGITS: Final = 16
# A folder's name may have 255 bytes; forty characters are enough to recognise a repository by.
LONGEST_NAME: Final = 40
# The owner's alone: diffs hold secrets.
PRIVATE: Final = 0o700


class HomeUnusable(LineageError):
    """Where indexes are to be kept there is something else than a folder, or can be none."""


class ForeignFolder(LineageError):
    """What lies under the name of an index's folder leads elsewhere."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one repository's index lives, whether or not it exists yet.

    `repo_id` is the folder's name under `home`; `path` the repository's canonical path; `first_commit`
    the first commit on HEAD when the place was found or made.
    """

    home: Path
    repo_id: str
    path: Path
    first_commit: str | None

    @property
    def folder(self) -> Path:
        """Holds the database, its side files, the locks and `place.json`."""
        return self.home / self.repo_id

    @property
    def database(self) -> Path:
        """The DuckDB file."""
        return self.folder / DATABASE

    @property
    def wal(self) -> Path:
        """DuckDB's write-ahead log beside it."""
        return self.folder / f"{DATABASE}.wal"

    @property
    def codes(self) -> Path:
        """The side file of a large index: its vectors as codes."""
        return self.folder / f"{DATABASE}.codes"

    @property
    def embeddings(self) -> Path:
        """The embedding cache, where one is in use; it outlives the database."""
        return self.folder / EMBEDDINGS

    @property
    def graph(self) -> Path:
        """An object directory of git's own form, for the commit-graph that is lent to it."""
        return self.folder / GRAPH


def locate(
    home: Path,
    canonical: Path,
    first_commit: Callable[[], str | None],
    contains: Callable[[str], bool],
) -> Place:
    """The place of the repository at `canonical`; nothing is created.

    `first_commit` is called only when no index is found under the path. `contains` says whether the
    repository has a commit: the one an index was made with must still be there. HomeUnusable where the home
    is something else than a folder.
    """
    if os.path.lexists(home) and not home.is_dir():
        raise _unusable(home)
    found = [place for place in under_path(home, canonical) if contains(place.first_commit or "")]
    if len(found) == 1:
        return found[0]
    made = _made(home, canonical, first_commit())
    same = [place for place in found if place.repo_id == made.repo_id]
    return (same or found or [made])[0]


def existing(
    home: Path,
    canonical: Path,
    first_commit: Callable[[], str | None],
    contains: Callable[[str], bool],
) -> Place | None:
    """The place of an index that may be there, or None at once: walking to the first commit takes a while."""
    found = next(under_path(home, canonical), None)
    if found is None and all(map(_read, home.glob(f"{_name(canonical)}-*/{PLACE}"))):
        return None
    return locate(home, canonical, first_commit, contains)


def claim(place: Place) -> None:
    """Make the folder, readable by its owner only, and say in it whose it is.

    HomeUnusable, or ForeignFolder before anything in it is touched.
    """
    try:
        place.home.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError, FileNotFoundError) as error:
        raise _unusable(place.home) from error
    refuse_foreign(place)
    place.folder.mkdir(mode=PRIVATE, exist_ok=True)
    # It may have been made by a program with other habits; where it may only be read, it is left as it is.
    if stat.S_IMODE(place.folder.stat().st_mode) != PRIVATE:
        place.folder.chmod(PRIVATE)
    if _read(place.folder / PLACE) is None:
        _write(place)


def refuse_foreign(place: Place) -> None:
    """ForeignFolder unless the folder lies, or would lie, under its own name in the home itself."""
    named = Path(place.repo_id).name == place.repo_id and place.repo_id not in {"", ".", ".."}
    if not named or place.folder.is_symlink():
        raise ForeignFolder(
            f"{place.folder} is not an index folder directly under {place.home}; nothing in it was touched.",
            hint="Look where it leads, and remove it by hand if it is meant to go.",
        )


def sync(file: Path) -> None:
    """Have the system write the file to the disk, before another one gives way to it."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        with errors.named(file):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unusable(home: Path) -> HomeUnusable:
    return HomeUnusable(
        f"Indexes cannot be kept in {home}: it is no folder, and none can be made there.",
        hint="LINEAGE_HOME must name a folder, or where one can be made.",
    )


def _write(place: Place) -> None:
    text = json.dumps({"path": str(place.path), "first_commit": place.first_commit})
    draft = place.folder / f"{PLACE}.{os.getpid()}"
    try:
        with errors.named(draft):
            draft.write_text(text + "\n", encoding="ascii")
        draft.chmod(0o600)
        sync(draft)
        draft.replace(place.folder / PLACE)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _made(home: Path, canonical: Path, first_commit: str | None) -> Place:
    digest = hashlib.sha256(os.fsencode(canonical) + b"\0" + (first_commit or "").encode()).hexdigest()
    return Place(home, f"{_name(canonical)}-{digest[:ID_DIGITS]}", canonical, first_commit)


def _name(canonical: Path) -> str:
    return (
        re.sub(r"[^A-Za-z0-9_-]+", "-", canonical.name.removesuffix(".git")).strip("-")[:LONGEST_NAME]
        or "repo"
    )


def under_path(home: Path, canonical: Path) -> Iterator[Place]:
    """The indexes that were made of a repository at this path, of this one or of one that was there before."""
    for file in sorted(home.glob(f"{_name(canonical)}-*/{PLACE}")):
        said = _read(file)
        if said is not None and said[0] == str(canonical) and said[1]:
            yield Place(home, file.parent.name, canonical, said[1])


def _read(file: Path) -> tuple[str, str] | None:
    """Path and first commit, or None for a file that does not say them: it then counts as absent."""
    try:
        said = json.loads(file.read_text(encoding="ascii"))
        return str(said["path"]), str(said["first_commit"] or "")
    except (OSError, ValueError, KeyError, TypeError):
        return None
