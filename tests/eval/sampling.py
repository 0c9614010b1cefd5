"""Which commits a history is asked for: those whose message tells of one change that can be found by looking.

Left out are merges, reverts, bumps and releases, subjects that several commits have, subjects that name a changed
file (the path would answer, not the change), and commits that change nothing an index holds.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath
from typing import Final, TypeVar

from tests.eval.changelog import FEWEST_WORDS, without_issues
from tests.eval.commits import Told
from tests.eval.near_duplicates import Twins

Item = TypeVar("Item")

# Squashed merges have one parent and still the merge's subject.
_MERGE: Final = re.compile(r"merge (?:branch|pull|remote|tag|commit|.* into )", re.IGNORECASE)
_REVERT: Final = re.compile(r"(?:\w+(?:\([^)]*\))?: )?(?:revert|back(?:ed)? out|undo)\b", re.IGNORECASE)
_REVERTS: Final = re.compile(r"^This (?:reverts|backs out) commit [0-9a-f]{7,}", re.MULTILINE)
# "deps: send@0.17", "build(deps): bump x", "Update dependency x to v2", "Prepare for release 4.0", "ignore-0.4.33".
_BUMP: Final = re.compile(
    r"(?:\w+[(:/ -]+)*(?:deps|dependencies|deps-dev)\b[):]"
    r"|(?:\w+(?:\([^)]*\))?: )?(?:bump|release|prepar\w+|upgrad\w+|updat\w+|set|switch|version)\b.*(?<![\w.])v?\d+\.\d+"
    r"|(?:\w+(?:\([^)]*\))?: )?(?:bump|prepare (?:for|next|version)|cut (?:a )?release)\b"
    r"|release(?: notes.*| candidate.*| v?\d.*)?$"
    r"|update dependenc"
    r"|\S*\d+\.\d+\S*$",
    re.IGNORECASE,
)


def tellable(commits: Sequence[Told], twins: Twins, indexed: Callable[[str], bool]) -> list[Told]:
    """The commits worth asking for, in their order; `indexed` says whether an index holds a path's changes."""
    often = Counter(_bare(commit.subject) for commit in commits if twins.one(commit.sha) == commit.sha)
    return [
        commit
        for commit in commits
        if twins.one(commit.sha) == commit.sha
        and often[_bare(commit.subject)] == 1
        and tells_a_change(commit)
        and any(map(indexed, commit.paths))
    ]


def tells_a_change(commit: Told) -> bool:
    """No merge, no revert, no bump, and words enough to search by."""
    return (
        len(commit.parents) < 2
        and not any(pattern.match(commit.subject) for pattern in (_MERGE, _REVERT, _BUMP))
        and not _REVERTS.search(commit.body)
        and len(without_issues(commit.subject).split()) >= FEWEST_WORDS
    )


def names_a_file(subject: str, paths: Iterable[str]) -> bool:
    """Whether a subject says the name of one of these files, with or without its extension."""
    names = {part.lower() for path in map(PurePosixPath, paths) for part in (path.name, path.stem)}
    # One expression over all names: a sweep changes thousands of files.
    any_name = "|".join(map(re.escape, sorted(names)))
    return bool(names) and re.search(rf"(?<!\w)(?:{any_name})(?!\w)", subject.lower()) is not None


def drawn(items: Sequence[Item], count: int, seed: int) -> list[Item]:
    """At most so many of the items, the same ones for a seed, in their order."""
    chance = random.Random(seed)  # noqa: S311 - a repeatable draw, nothing secret
    places = sorted(chance.sample(range(len(items)), min(count, len(items))))
    return [items[place] for place in places]


def _bare(subject: str) -> str:
    return without_issues(subject).casefold().rstrip(".")
