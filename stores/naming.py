"""What the files of mindmaps are called: ids, which become part of paths, and the names beside theirs."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime
from typing import Final

from stores.errors import LineageError

SUFFIX: Final = ".json"
# Beside its name a file has a suffix and a moment, and most file systems allow 255 bytes for it all.
LONGEST_ID: Final = 128
_ID: Final = re.compile(r"[A-Za-z0-9_-]+")
# A damaged map's file that was moved out of the way: its name, this, a moment.
_ASIDE: Final = re.compile(r"([A-Za-z0-9_-]+)\.json\.damaged-.+")


class BadMindmapId(LineageError):
    """Not an id: it could name a file outside the folder, or none at all."""


def checked(mindmap_id: str) -> str:
    """The id, if it is one: it becomes part of a path."""
    if len(mindmap_id) > LONGEST_ID:
        raise BadMindmapId(
            f"A mindmap id has at most {LONGEST_ID} characters; this one has {len(mindmap_id):,}.",
            hint="Use an id as it was given when the map was made.",
        )
    if not _ID.fullmatch(mindmap_id):
        raise BadMindmapId(
            f"{mindmap_id!r} is not a mindmap id.",
            hint="An id consists of letters, digits, `_` and `-` only.",
        )
    return mindmap_id


def file_of(mindmap_id: str) -> str:
    """The name of the map's file."""
    return f"{checked(mindmap_id)}{SUFFIX}"


def id_of(name: str) -> str | None:
    """The id of the map whose file has this name; None for any other file."""
    mindmap_id = name.removesuffix(SUFFIX)
    is_map = name.endswith(SUFFIX) and len(mindmap_id) <= LONGEST_ID and _ID.fullmatch(mindmap_id)
    return mindmap_id if is_map else None


def draft_of(mindmap_id: str) -> str:
    """What is written before it takes the file's place: one name for each map, so that kills leave one at most."""
    return f".{mindmap_id}.tmp"


def lock_of(mindmap_id: str) -> str:
    """The file that is locked while the map is changed."""
    return f".locks/{mindmap_id}.lock"


def aside_of(mindmap_id: str) -> str:
    """A name to move a damaged file to, which no other has."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{file_of(mindmap_id)}.damaged-{moment}-{secrets.token_hex(2)}"


def id_of_aside(name: str) -> str | None:
    """The id of the map that was moved out of the way to this name; None for any other file."""
    found = _ASIDE.fullmatch(name)
    return found[1] if found else None
