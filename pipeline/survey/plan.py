"""Repository -> where its commits go, and what to leave out of its index: the line of `lineage plan`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl
from pathspec import GitIgnoreSpec

from pipeline.git.refusals import NothingToIndex, UnreadableObject
from pipeline.git.repository import Repository
from pipeline.hunks import OVERSIZE_BYTES
from pipeline.ignore import IgnoreRules
from pipeline.survey import kinds
from pipeline.survey.changed import Changed, changed
from pipeline.survey.directories import Directory, changes_frame, directories, paths_frame
from pipeline.survey.effect import Effect, effect
from pipeline.survey.patterns import Wanted, wanted

# Files read to see who wrote them: half a second's worth, spread evenly over the tree.
LOOKED_AT: Final = 5_000


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A pattern, why, and what it alone would leave out."""

    pattern: str
    reason: str
    effect: Effect


@dataclass(frozen=True, slots=True)
class Plan:
    """What a survey found.

    `commits` were surveyed, `unread` could not be; `hunks` are those that the rules in force keep, `ignored` the
    others. `directories` are those at the top. `together` is what all suggestions leave out.
    """

    head: str
    commits: int
    unread: int
    hunks: int
    ignored: int
    directories: tuple[Directory, ...]
    suggestions: tuple[Suggestion, ...]
    together: Effect


def plan(repository: Repository, own_lines: Sequence[str]) -> Plan:
    """Survey the history of HEAD; `own_lines` are the person's own in `.lineageignore`, which are respected."""
    head = repository.head()
    if head is None:
        raise NothingToIndex(repository.root)
    in_force = IgnoreRules.of(repository)
    rules = IgnoreRules(in_force.door, tuple(own_lines), in_force.has_attributes)
    history = changed(repository, head)
    every = changes_frame(history)
    paths = _kept_paths(history, rules, repository, head)
    changes = every.join(paths.select("path"), on="path")
    found = directories(changes, paths)
    suggestions = [
        Suggestion(one.pattern, one.reason, effect([one.pattern], changes, paths))
        for one in wanted(found, changes["commit"].n_unique())
        if not _kept_by(own_lines, one)
    ]
    return Plan(
        head=head,
        commits=history.read,
        unread=history.total - history.read,
        hunks=changes.height,
        ignored=every.height - changes.height,
        directories=tuple(one for one in found if one.depth <= 1),
        suggestions=tuple(sorted(suggestions, key=lambda one: -one.effect.hunks)),
        together=effect([one.pattern for one in suggestions], changes, paths),
    )


def _kept_paths(history: Changed, rules: IgnoreRules, repository: Repository, head: str) -> pl.DataFrame:
    """The paths that are in the index by the rules in force, each with what it is."""
    machine = {path: True for path in history.paths if kinds.machine_named(path)}
    machine |= _looked_at(repository, head, rules)
    frame = paths_frame(history.paths, machine)
    return frame.filter(pl.Series([not rules.ignored(path) for path in history.paths], dtype=pl.Boolean))


def _looked_at(repository: Repository, head: str, rules: IgnoreRules) -> dict[str, bool]:
    """Whether a program wrote them, of files at HEAD that are read for it."""
    try:
        there = [entry for entry in repository.tree_files(head) if not kinds.machine_named(entry[0])]
    except UnreadableObject:
        return {}
    source = [(path, blob) for path, blob in there if kinds.kind_of(path) in ("code", "other")]
    step = -(-len(source) // LOOKED_AT) or 1
    return dict(_judged(repository, [entry for entry in source[::step] if not rules.ignored(entry[0])]))


def _judged(repository: Repository, files: Sequence[tuple[str, str]]) -> Iterator[tuple[str, bool]]:
    for path, blob in files:
        try:
            # Hardly anybody writes by hand what is too large to be opened.
            large = repository.size(blob) > OVERSIZE_BYTES
            yield path, large or kinds.machine_made(repository.blob(blob))
        except UnreadableObject:  # a partial clone has not every content
            continue


def _kept_by(own_lines: Sequence[str], one: Wanted) -> bool:
    """Whether the person's own lines say that it is to stay: `!docs/` is an answer to `/docs/`."""
    verdict = GitIgnoreSpec.from_lines(own_lines, backend="simple").check_file(one.pattern.strip("/") + "/x")
    return verdict.include is False
