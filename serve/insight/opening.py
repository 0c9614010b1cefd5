"""`open_index`: the index of a repository as frames, by one call."""

from __future__ import annotations

from pathlib import Path

from pipeline.git.repository import open_repository
from serve import settings
from serve.placing import place_of
from stores import frames
from stores.frames import Frames
from stores.places import Place


def place(path: Path | str | None = None) -> Place:
    """Where the index of the repository lives; without a path, of LINEAGE_REPOSITORY or of the working directory."""
    meant = Path(path).expanduser() if path is not None else settings.repository()
    return place_of(settings.read().home, open_repository(meant))


def open_index(path: Path | str | None = None, *, texts: bool = False) -> Frames:
    """The index of a repository as polars frames, read-only and from one moment; NotIndexed where there is none.

    An index run or a daemon at work is no obstacle, and nothing stays open. `texts`: with diffs, embedded texts and
    the source of symbols, too, which take most of the room.
    """
    return frames.read(place(path), texts=texts)
