"""Selection of the symbol that a name means, and its changes through moves and renames."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from pipeline.file_roles import classify_role
from pipeline.git.changes import FileChange, decode_path
from pipeline.git.errors import UnreadableObject
from pipeline.git.repository import Repository
from pipeline.syntax.languages import detect_language, get_grammar_name
from serve.commit_types import HeadPlace
from serve.text import escape_in_sentence, format_commit_count
from serve.trace.symbol_changes import (
    Body,
    Deadline,
    DefinitionReader,
    NameHistory,
    SymbolChange,
    SymbolKey,
    group_bodies,
    score_move,
)
from stores import history as symbol_history
from stores.errors import LineageError
from stores.history import SymbolTouch
from stores.hunk_details import Connection

# Least similarity of a symbol to the one that it was renamed from. Half of the code can be edited in the same commit.
MIN_RENAME_SIMILARITY: Final = 0.7
# The second best symbol must be less similar by this much: otherwise either can be the one.
MIN_ADVANTAGE: Final = 0.1
# Shorter symbols are similar to others by chance.
MIN_TOKENS: Final = 12
# Files of a commit that are searched. More of them are a mass edit.
MAX_FILES: Final = 30

# Time for reading definitions from git. Later commits count as modifications.
MAX_SECONDS: Final = 4.0
# Places of a name whose histories are compared to find out which belong together. More of them are listed instead.
MAX_PLACES: Final = 40
# Names that a symbol is followed to.
MAX_NAMES: Final = 8
# Languages that assign functions to properties of objects.
SCRIPTS: Final = frozenset({"javascript", "typescript"})
# Symbols that an error lists, and names that it suggests.
MAX_CANDIDATES: Final = 12
MAX_SUGGESTIONS: Final = 3
# Characters of a requested symbol that an error repeats. No name is suggested for a longer one.
MAX_QUOTED: Final = 200


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


class UnknownSymbol(LineageError):
    """No recorded commit touched a symbol of this name."""


class AmbiguousSymbol(LineageError):
    """Several symbols have the name."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Symbol of a name: all of its places, and its changes."""

    name: str
    keys: frozenset[SymbolKey]
    changes: tuple[SymbolChange, ...]

    @property
    def newest_change(self) -> SymbolChange:
        """Newest change; of several with the same date, the last one in the order of parents before children."""
        return max(reversed(self.changes), key=lambda change: change.date)

    @property
    def is_in_source(self) -> bool:
        """True if the symbol is in source code, not in a test, a type stub or the like."""
        path = decode_path(self.newest_change.key.path)
        return classify_role(path) == "source" and not path.endswith(".pyi")

    def __str__(self) -> str:
        commits = format_commit_count(len({change.commit_sha for change in self.changes}))
        newest = self.newest_change
        date = datetime.fromtimestamp(newest.date, UTC).date()
        removed = f", removed {date}" if newest.step == "removed" else ""
        return f"{newest.key.format_place(self.name)} ({commits}{removed})"


@dataclass(slots=True)
class SymbolTracer:
    """Tracer of symbols in an open index."""

    repository: Repository
    connection: Connection
    is_reachable: Callable[[str], bool]
    deadline: Deadline = field(default_factory=lambda: Deadline(time.monotonic() + MAX_SECONDS))
    reader: DefinitionReader = field(init=False)
    _histories: dict[str, NameHistory] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Create the reader of definitions."""
        self.reader = DefinitionReader(self.repository)

    def select_candidate(self, symbol: str) -> tuple[Candidate, list[Candidate]]:
        """Return the symbol that is meant, and others of the name that are less likely meant."""
        path, qualified_name = parse_symbol(symbol)
        name, keys = self._find_places(symbol, path, qualified_name)
        if len(keys) > MAX_PLACES:
            raise _build_ambiguous_error(symbol, [key.format_place(name) for key in keys])
        candidates = self._find_candidates(name, keys)
        if not candidates:  # the commit that renamed the file removed the symbol: only the old path had it
            others = [key for key in self._get_history(name).keys if key not in keys]
            raise _build_unknown_error(symbol, name, others)
        if len(candidates) == 1:
            return candidates[0], []
        candidates.sort(key=lambda candidate: not candidate.is_in_source)
        if [candidate.is_in_source for candidate in candidates[:2]] == [True, False]:
            return candidates[0], candidates[1:]
        raise _build_ambiguous_error(symbol, list(map(str, candidates)))

    def follow_names(self, candidate: Candidate) -> list[SymbolChange]:
        """Return the changes of a symbol, also under the names that it had before and after."""
        finder = RenameFinder(self.reader, self.deadline)
        changes: dict[SymbolChange, None] = {}
        names = {candidate.name}
        pending: list[tuple[Sequence[SymbolChange], SymbolChange | None]] = [(candidate.changes, None)]
        while pending:
            found_changes, link = pending.pop()
            for change in found_changes:
                if link is not None and not _belongs_to_partner(change, link):
                    continue
                is_end = change.step in ("introduced", "removed") and len(names) < MAX_NAMES
                partner = finder.find_partner(change) if is_end else None
                if partner is None:
                    changes[change] = None
                    continue
                old, new = (change, partner) if change.step == "removed" else (partner, change)
                rename = SymbolChange(
                    change.commit_sha,
                    change.date,
                    "renamed",
                    new.name,
                    new.key,
                    old.name,
                    old.key,
                    new.body,
                    is_exact=False,
                )
                changes[rename] = None  # the history of the other name can have it, too
                if partner.name not in names:
                    names.add(partner.name)
                    partner_candidates = self._find_candidates(partner.name, [partner.key])
                    pending += [(found.changes, change) for found in partner_candidates]
        return list(changes)

    def find_head_places(self, changes: Sequence[SymbolChange]) -> tuple[HeadPlace, ...]:
        """Return where HEAD defines the symbol, whose changes are given newest first."""
        head = self.repository.read_head()
        places = _list_last_places(changes)
        return tuple(
            HeadPlace(
                key.format_symbol(name), symbol.kind, decode_path(path), symbol.start_line, symbol.end_line
            )
            for path in sorted({key.path for _, key in places})
            for symbol in (self.reader.list_symbols(head, path) if head else None) or ()
            if (name := symbol.name, key := SymbolKey(path, symbol.parent)) in places
        )

    def _find_places(self, symbol: str, path: str | None, qualified_name: str) -> tuple[str, list[SymbolKey]]:
        """Return the name of the symbol, and its possible places. Raises UnknownSymbol."""
        short_name = qualified_name.rpartition(".")[2]
        for name in dict.fromkeys((qualified_name, short_name)):
            all_keys = self._get_history(name).keys
            keys = _select_keys(all_keys, name, path, qualified_name)
            if not keys and len(all_keys) <= MAX_PLACES:
                # A renamed container gives a symbol a place at which no commit touched it.
                moved_keys = {key for each in all_keys for key in self._get_history(name).collect(each)[0]}
                keys = _select_keys(sorted(moved_keys), name, path, qualified_name)
            if keys:
                return name, keys
            if all_keys:
                raise _build_unknown_error(symbol, name, all_keys)
        similar = (
            symbol_history.find_similar_names(self.connection, short_name, MAX_SUGGESTIONS)
            if len(short_name) <= MAX_QUOTED
            else []
        )
        question = f"Did you mean {' or '.join(map(escape_in_sentence, similar))}? " if similar else ""
        raise UnknownSymbol(
            f"The history has no symbol {_quote(symbol)}.",
            hint=f"{question}Case matters. `lineage grep` finds a text that is no symbol.",
        )

    def _find_candidates(self, name: str, places: Sequence[SymbolKey]) -> list[Candidate]:
        """Return the symbols at these places, the last changed ones first. One symbol can have had several places."""
        history = self._get_history(name)
        # A symbol that was removed from one file and added to another one by a later commit has two histories.
        parents = {key.parent for key in places}
        relatives = [key for key in history.keys if key.parent in parents and key not in places]
        keys = [*places, *relatives[:MAX_PLACES]]
        candidates: list[Candidate] = []
        known: set[SymbolKey] = set()
        for key in keys:
            if key not in known:
                found_keys, changes = history.collect(key)
                known |= found_keys
                if changes:
                    candidates.append(Candidate(name, frozenset(found_keys), tuple(changes)))
        return [
            candidate for candidate in _join_restored(candidates) if not candidate.keys.isdisjoint(places)
        ]

    def _get_history(self, name: str) -> NameHistory:
        if name not in self._histories:
            self._histories[name] = NameHistory(
                name,
                self._load_touches(name),
                symbol_history.load_renames_and_merges(self.connection, name, self.is_reachable),
                self.reader,
                self.deadline,
                self._load_touches,
            )
        return self._histories[name]

    def _load_touches(self, name: str) -> list[SymbolTouch]:
        return symbol_history.load_symbol_touches(self.connection, name, self.is_reachable)


def parse_symbol(symbol: str) -> tuple[str | None, str]:
    """Return the file and the qualified name of `PATH:Class.method`, `Class::method`, `Class#method` or `method()`."""
    text = symbol.strip().removesuffix("()").replace("::", ".")
    path, _, name = text.rpartition(":")
    # JavaScript's `Class.#method` is a private one.
    return (path.removeprefix("./") or None), re.sub(r"(?<=\w)#", ".", name).strip(".")


def has_qualified_name(candidate: Candidate, symbol: str) -> bool:
    """Return False if only the last part of the requested name is that of the symbol."""
    _, qualified_name = parse_symbol(symbol)
    return any(_is_at(key, candidate.name, qualified_name) for key in candidate.keys)


def _is_at(key: SymbolKey, name: str, qualified_name: str) -> bool:
    return f".{key.format_symbol(name)}".endswith(f".{qualified_name}")


def _list_last_places(changes: Sequence[SymbolChange]) -> set[tuple[str, SymbolKey]]:
    """Return the places of a symbol that no later change removed it from. `changes`: newest first."""
    places: set[tuple[str, SymbolKey]] = set()
    seen: set[tuple[str, SymbolKey]] = set()
    for change in changes:
        place = (change.name, change.key)
        if place not in seen and change.step != "removed":
            places.add(place)
        seen.add(place)
        if change.old_key:
            seen.add((change.old_name or change.name, change.old_key))
    return places


def _select_keys(
    keys: Sequence[SymbolKey], name: str, path: str | None, qualified_name: str
) -> list[SymbolKey]:
    """Return the places that a name can mean. It may lack enclosing symbols, and the path directories.

    With a path, places that it names completely are preferred. Functions that JavaScript assigns to a property of an
    object have no enclosing symbol: `res.send` finds `send`.
    """
    matches = [key for key in keys if _is_at(key, name, qualified_name)]
    if not matches:
        matches = [
            key for key in keys if not key.parent and detect_language(decode_path(key.path)) in SCRIPTS
        ]
    if path is None:
        return matches
    matches = [key for key in matches if f"/{decode_path(key.path)}".endswith(f"/{path}")]
    in_file = [key for key in matches if decode_path(key.path) == path] or matches
    return [key for key in in_file if key.format_symbol(name) == qualified_name] or in_file


def _join_restored(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Join symbols of which one was removed before another one with similar code was introduced elsewhere."""
    joined = list(candidates)
    for later in candidates:
        for earlier in candidates:
            if later is earlier or not _is_restored(earlier, later):
                continue
            groups = [group for group in joined if group.keys & (earlier.keys | later.keys)]
            if len(groups) > 1:
                joined = [group for group in joined if group not in groups]
                joined.append(
                    Candidate(
                        later.name,
                        frozenset().union(*(group.keys for group in groups)),
                        tuple(dict.fromkeys(change for group in groups for change in group.changes)),
                    )
                )
    return joined


def _is_restored(earlier: Candidate, later: Candidate) -> bool:
    removal = earlier.newest_change
    introduction = min(later.changes, key=lambda change: change.date)
    return (
        removal.step == "removed"
        and removal.date <= introduction.date
        and score_restored(removal, introduction) > 0
    )


def score_restored(removal: SymbolChange, introduction: SymbolChange) -> float:
    """Return how similar an introduced symbol is to one that was removed before; 0 if it is another one."""
    if introduction.step != "introduced" or removal.body is None or introduction.body is None:
        return 0.0
    return score_move(removal.key, removal.body, introduction.key, introduction.body)


def _belongs_to_partner(change: SymbolChange, link: SymbolChange) -> bool:
    """Check whether a change under another name belongs to the symbol: it is after the rename, or before it."""
    if change.commit_sha == link.commit_sha:
        return False
    return change.date >= link.date if link.step == "removed" else change.date <= link.date


def _quote(symbol: str) -> str:
    return f"'{escape_in_sentence(symbol[:MAX_QUOTED])}'"


def _build_unknown_error(symbol: str, name: str, keys: Sequence[SymbolKey]) -> UnknownSymbol:
    places = [key.format_place(name) for key in keys]
    return UnknownSymbol(
        f"The history has no symbol {_quote(symbol)}.",
        hint=list_places("Symbols of this name", places) if places else "",
    )


def _build_ambiguous_error(symbol: str, places: Sequence[str]) -> AmbiguousSymbol:
    return AmbiguousSymbol(
        f"{len(places)} symbols are called {_quote(symbol)}.",
        hint=list_places("Give one of them", places),
    )


def list_places(heading: str, places: Sequence[str]) -> str:
    """Return a sentence with the first `MAX_CANDIDATES` places, and the number of the others."""
    others = f", and {len(places) - MAX_CANDIDATES:,} more" if len(places) > MAX_CANDIDATES else ""
    names = ", ".join(map(escape_in_sentence, places[:MAX_CANDIDATES]))
    return f"{heading}: {names}{others}."
