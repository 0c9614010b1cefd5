"""Commits that an index lacks because they could not be read: what a person does about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pipeline.git.refusals import BEYOND_BOUNDARY

if TYPE_CHECKING:
    from stores.history import Unreadable


ASK: Final = "`lineage index` says which, and what brings them."


def count(unreadable: int) -> str:
    """How many they are, in words."""
    return "1 commit" if unreadable == 1 else f"{unreadable:,} commits"


def remedy(unreadable: Sequence[Unreadable], *, partial: bool = False) -> str:
    """What brings them: a shallow or partial clone lacks some by design, and git finds nothing wrong with it."""
    if partial and any(entry.reason.endswith(" is missing") for entry in unreadable):
        return (
            "A partial clone has not fetched all objects, and lineage never does: `git fetch --refetch --no-filter`, "
            "then `lineage index`, takes them up."
        )
    beyond = {entry.reason == BEYOND_BOUNDARY for entry in unreadable}
    if beyond == {True, False}:
        return (
            "`git fetch --unshallow`, then `lineage index`, takes up those at the shallow boundary; "
            "of the others `git fsck` names what is missing, and every `lineage index` tries them again."
        )
    if beyond == {True}:
        return "`git fetch --unshallow`, then `lineage index`, takes them up."
    return "`git fsck` names what is missing; every `lineage index` tries them again."
