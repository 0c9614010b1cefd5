"""Renames of a symbol: a symbol of another name in the same commit whose code is similar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.git.changes import FileChange, decode_path
from pipeline.git.errors import UnreadableObject
from pipeline.syntax.languages import get_grammar_name
from serve.trace.bodies import Body, DefinitionReader, group_bodies
from serve.trace.symbol_changes import Deadline, SymbolChange, SymbolKey

# Least similarity of a symbol to the one that it was renamed from. Half of the code can be edited in the same commit.
MIN_RENAME_SIMILARITY: Final = 0.7
# The second best symbol must be less similar by this much: otherwise either can be the one.
MIN_ADVANTAGE: Final = 0.1
# Shorter symbols are similar to others by chance.
MIN_TOKENS: Final = 12
# Files of a commit that are searched. More of them are a mass edit.
MAX_FILES: Final = 30


@dataclass(frozen=True, slots=True)
class Partner:
    """Symbol that became another one in a commit, or that another one became."""

    name: str
    key: SymbolKey
    body: Body


@dataclass(frozen=True, slots=True)
class RenameFinder:
    """Finder of the symbol that a removed symbol became, or that an introduced one was before."""

    reader: DefinitionReader
    deadline: Deadline

    def find_partner(self, change: SymbolChange) -> Partner | None:
        """Return the symbol that this one was renamed to, if the change is a removal, else the one it was before.

        The files of the symbol are searched first, then the other files of the commit.
        """
        if change.body is None or change.body.token_count < MIN_TOKENS or not self.deadline.check():
            return None
        try:
            parents = self.reader.repository.read_commit(change.commit_sha).parents
            diffs = self.reader.repository.diff_with_parents(change.commit_sha)
        except UnreadableObject:
            return None
        if not parents or not diffs:
            return None
        files = [file for file in diffs[0].changes if get_grammar_name(decode_path(file.path))]
        own_files = [file for file in files if change.key.path in (file.path, file.old_path)]
        other_files = [file for file in files if file not in own_files][:MAX_FILES]
        for searched_files in (own_files, other_files):
            if partner := self._find_in_files(change, change.body, parents[0], searched_files):
                return partner
        return None

    def _find_in_files(
        self, change: SymbolChange, body: Body, parent: str, files: Sequence[FileChange]
    ) -> Partner | None:
        is_removal = change.step == "removed"
        scored: list[tuple[float, Partner]] = []
        for file in files:
            if not self.deadline.check():
                return None
            old_path = file.old_path or file.path
            versions = (
                (parent, old_path, change.commit_sha, file.path)
                if is_removal
                else (change.commit_sha, file.path, parent, old_path)
            )
            scored += [
                (body.compute_similarity(partner.body), partner)
                for partner in self._list_new_symbols(*versions)
                if partner.name != change.name and partner.body.token_count >= MIN_TOKENS
            ]
        scored.sort(key=lambda entry: -entry[0])
        if not scored or scored[0][0] < MIN_RENAME_SIMILARITY:
            return None
        is_clear = len(scored) == 1 or scored[0][0] - scored[1][0] >= MIN_ADVANTAGE
        return scored[0][1] if is_clear else None

    def _list_new_symbols(
        self, commit: str, path: bytes, other_commit: str, other_path: bytes
    ) -> Iterator[Partner]:
        """Yield the symbols of the second version of a file that the first one lacks."""
        known = group_bodies(self.reader.list_symbols(commit, path) or ())
        others = self.reader.list_symbols(other_commit, other_path) or ()
        for (parent, name), body in group_bodies(others).items():
            if (parent, name) not in known:
                yield Partner(name, SymbolKey(other_path, parent), body)
