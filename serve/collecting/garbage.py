"""One thing that may go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What it is."""

    INDEX = "index"
    COMMITS = "commits"
    CACHE = "cache"
    LEFTOVER = "leftover"


@dataclass(frozen=True, slots=True)
class Garbage:
    """One thing that may go: what it is, why, about how many bytes it frees, and what lets it go.

    `sure`: nothing that anybody could miss; else only a person can know, such as of an unmounted disk. `sweep` is
    under the locks of writers, and looks again at what it deletes.
    """

    kind: Kind
    what: str
    why: str
    bytes: int
    sweep: Callable[[], None]
    sure: bool = True
