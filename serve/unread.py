"""Commits that an index lacks because they could not be read: what a person does about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeline.git.refusals import BEYOND_BOUNDARY

if TYPE_CHECKING:
    from stores.history import Unreadable


def remedy(unreadable: Sequence[Unreadable]) -> str:
    """What brings them: a shallow clone lacks parents by design, and git finds nothing wrong with it."""
    if all(entry.reason == BEYOND_BOUNDARY for entry in unreadable):
        return "`git fetch --unshallow`, then `lineage index`, takes them up."
    return "`git fsck` names what is missing; every `lineage index` tries them again."
