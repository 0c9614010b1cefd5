"""Selection of the symbol that a name means, and its changes through moves and renames.

Several symbols can have one name. A candidate is one of these symbols, with all of its places and changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from pipeline.file_classification import classify_role, detect_language, get_grammar_name
from pipeline.git.changes import FileChange, decode_path
from pipeline.git.errors import UnreadableObject
from pipeline.git.repository import Repository
from pipeline.interrupts import Deadline
from serve.commit_types import HeadPlace
from serve.text import escape_in_sentence, format_commit_count
from serve.trace.symbol_changes import (
    Body,
    DefinitionReader,
    NameHistory,
    SymbolChange,
    SymbolPlace,
    group_bodies,
    score_move,
)
from stores import history
from stores.errors import LineageError
from stores.history import SymbolTouch
from stores.hunk_details import Connection

# Minimum similarity of the old and the new symbol of a rename. The code can be edited in the same commit.
MIN_RENAME_SIMILARITY: Final = 0.7
# The second best symbol must be less similar by this much. Otherwise it is unclear which one was renamed.
MIN_ADVANTAGE: Final = 0.1
# Minimum number of tokens of a renamed symbol. Shorter symbols can be similar by chance.
MIN_TOKENS: Final = 12
# Maximum number of other files of a commit that are searched for a renamed symbol.
MAX_FILES: Final = 30
# Seconds for reading definitions from git. Commits that are not checked in this time count as modifications.
MAX_SECONDS: Final = 4.0
# Maximum number of places of a name from which candidates are built. If there are more, the error lists them.
MAX_PLACES: Final = 40
# Maximum number of former and later names of a symbol that are followed.
MAX_NAMES: Final = 8
# Languages that assign functions to properties of objects.
LANGUAGES_WITH_PROPERTIES: Final = frozenset({"javascript", "typescript"})
# Maximum number of symbols that an error or a limitation lists.
MAX_CANDIDATES: Final = 12
# Maximum number of similar names that an error suggests.
MAX_SUGGESTIONS: Final = 3
# Maximum number of characters of a requested symbol that an error repeats. For a longer symbol, no name is suggested.
MAX_QUOTED: Final = 200


@dataclass(frozen=True, slots=True)
class Partner:
    """Other symbol of a rename: the new symbol for a removed one, the old symbol for an introduced one."""

    name: str
    place: SymbolPlace
    body: Body


@dataclass(frozen=True, slots=True)
class RenameFinder:
    """Finder of renames of symbols."""

    reader: DefinitionReader
    deadline: Deadline

    def find_partner(self, change: SymbolChange) -> Partner | None:
        """Return the new symbol if `change` removes the old one, or the old symbol if it introduces the new one.

        The file of the symbol is searched first, then other files of the commit. Return None without a clear partner.
        """
        if change.body is None or change.body.token_count < MIN_TOKENS or not self.deadline.has_time():
            return None
        try:
            parent_commits = self.reader.repository.read_commit(change.commit_sha).parents
            diffs = self.reader.repository.diff_with_parents(change.commit_sha)
        except UnreadableObject:
            return None
        if not parent_commits or not diffs:
            return None
        files = [file for file in diffs[0].changes if get_grammar_name(decode_path(file.path))]
        own_files = [file for file in files if change.place.path in (file.path, file.old_path)]
        other_files = [file for file in files if file not in own_files][:MAX_FILES]
        for searched_files in (own_files, other_files):
            if partner := self._find_in_files(change, change.body, parent_commits[0], searched_files):
                return partner
        return None

    def _find_in_files(
        self, change: SymbolChange, body: Body, parent_commit: str, files: Sequence[FileChange]
    ) -> Partner | None:
        """Return the clearly most similar symbol of the files. `parent_commit`: first parent of the change's commit."""
        is_removal = change.step == "removed"
        scored_partners: list[tuple[float, Partner]] = []
        for file in files:
            if not self.deadline.has_time():
                return None
            old_path = file.old_path or file.path
            before, after = (parent_commit, old_path), (change.commit_sha, file.path)
            versions = (before, after) if is_removal else (after, before)
            scored_partners += [
                (body.compute_similarity(partner.body), partner)
                for partner in self._list_only_in_second(*versions)
                if partner.name != change.name and partner.body.token_count >= MIN_TOKENS
            ]
        scored_partners.sort(key=lambda entry: -entry[0])
        if not scored_partners:
            return None
        (score, partner), *others = scored_partners
        second_score = others[0][0] if others else 0.0
        is_clear = score >= MIN_RENAME_SIMILARITY and score - second_score >= MIN_ADVANTAGE
        return partner if is_clear else None

    def _list_only_in_second(self, first: tuple[str, bytes], second: tuple[str, bytes]) -> Iterator[Partner]:
        """Yield the symbols that only the second version has. A version is a file, given by commit and path."""
        first_symbols = group_bodies(self.reader.list_symbols(*first) or ())
        second_symbols = group_bodies(self.reader.list_symbols(*second) or ())
        for (enclosing, name), body in second_symbols.items():
            if (enclosing, name) not in first_symbols:
                yield Partner(name, SymbolPlace(second[1], enclosing), body)


class UnknownSymbol(LineageError):
    """Error for a name that no symbol of the indexed history has."""


class AmbiguousSymbol(LineageError):
    """Error for a name that several symbols have."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Symbol that a name can mean, with all of its places and changes."""

    name: str
    places: frozenset[SymbolPlace]
    changes: tuple[SymbolChange, ...]

    @property
    def newest_change(self) -> SymbolChange:
        """Newest change."""
        return max(self.changes, key=lambda change: change.order)

    @property
    def is_in_source(self) -> bool:
        """True if the symbol is in source code, not in a test, a type stub or the like."""
        path = decode_path(self.newest_change.place.path)
        return classify_role(path) == "source" and not path.endswith(".pyi")

    def is_member_of(self, other: Candidate) -> bool:
        """Check whether another symbol of the same name encloses this one, as a Java class encloses its constructor."""
        members = {SymbolPlace(place.path, place.format_symbol(other.name)) for place in other.places}
        return other is not self and not members.isdisjoint(self.places)

    def __str__(self) -> str:
        """Return the newest place, the number of commits and the date of a removal, for a list of candidates."""
        commits = format_commit_count(len({change.commit_sha for change in self.changes}))
        newest = self.newest_change
        date = datetime.fromtimestamp(newest.date, UTC).date()
        removed = f", removed {date}" if newest.step == "removed" else ""
        return f"{newest.place.format_place(self.name)} ({commits}{removed})"


@dataclass(slots=True)
class SymbolTracer:
    """Tracer of symbols in an open index."""

    repository: Repository
    connection: Connection
    is_reachable: Callable[[str], bool]
    deadline: Deadline = field(default_factory=lambda: Deadline.after(MAX_SECONDS))
    reader: DefinitionReader = field(init=False)
    _histories: dict[str, NameHistory] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Create the reader of definitions."""
        self.reader = DefinitionReader(self.repository)

    def select_candidate(self, symbol: str) -> tuple[Candidate, list[Candidate]]:
        """Return the symbol that a name means, and the other symbols of the name.

        If several symbols have the name, it means a class rather than its constructor, and the symbol in source code
        if there is exactly one. Raises UnknownSymbol and AmbiguousSymbol.
        """
        path, qualified_name = parse_symbol(symbol)
        name, places = self._find_places(symbol, path, qualified_name)
        if len(places) > MAX_PLACES:
            raise _build_ambiguous_error(symbol, [place.format_place(name) for place in places])
        symbols = self._find_candidates(name, places)
        candidates = [candidate for candidate in symbols if not any(map(candidate.is_member_of, symbols))]
        if not candidates:  # no change has these places: one commit moved the file and removed the symbol
            others = [place for place in self._get_history(name).places if place not in places]
            raise _build_unknown_error(symbol, name, others)
        if len(candidates) == 1:
            return candidates[0], []
        candidates.sort(key=lambda candidate: not candidate.is_in_source)
        if [candidate.is_in_source for candidate in candidates[:2]] == [True, False]:
            return candidates[0], candidates[1:]
        raise _build_ambiguous_error(symbol, list(map(str, candidates)))

    def follow_names(self, candidate: Candidate) -> list[SymbolChange]:
        """Return the changes of a symbol, also under the names that it had before and after.

        A removal and an introduction become one change of the step `renamed` if `RenameFinder` connects them.
        """
        finder = RenameFinder(self.reader, self.deadline)
        changes: dict[SymbolChange, None] = {}
        names = {candidate.name}
        # Changes under each name to follow, and the change that led to the name; None for the first name.
        pending: list[tuple[Sequence[SymbolChange], SymbolChange | None]] = [(candidate.changes, None)]
        while pending:
            changes_of_name, link = pending.pop()
            for change in changes_of_name:
                if link is not None and not _belongs_to_partner(change, link):
                    continue
                may_be_rename = change.step in ("introduced", "removed") and len(names) < MAX_NAMES
                partner = finder.find_partner(change) if may_be_rename else None
                if partner is None:
                    changes[change] = None
                    continue
                old, new = (change, partner) if change.step == "removed" else (partner, change)
                rename = SymbolChange(
                    commit_sha=change.commit_sha,
                    commit_row=change.commit_row,
                    date=change.date,
                    step="renamed",
                    name=new.name,
                    place=new.place,
                    old_name=old.name,
                    old_place=old.place,
                    body=new.body,
                    is_exact=False,
                )
                changes[rename] = None  # the same rename is found again under the other name
                if partner.name not in names:
                    names.add(partner.name)
                    partner_candidates = self._find_candidates(partner.name, [partner.place])
                    pending += [(other.changes, change) for other in partner_candidates]
        return list(changes)

    def find_head_places(self, changes: Sequence[SymbolChange]) -> tuple[HeadPlace, ...]:
        """Return where HEAD defines the symbol. `changes`: newest first."""
        head = self.repository.read_head()
        named_places = _list_last_places(changes)
        return tuple(
            HeadPlace(
                place.format_symbol(name), symbol.kind, decode_path(path), symbol.start_line, symbol.end_line
            )
            for path in sorted({place.path for _, place in named_places})
            for symbol in (self.reader.list_symbols(head, path) if head else None) or ()
            if (name := symbol.name, place := SymbolPlace(path, symbol.parent)) in named_places
        )

    def _find_places(
        self, symbol: str, path: str | None, qualified_name: str
    ) -> tuple[str, list[SymbolPlace]]:
        """Return the name of the symbol, and its possible places. Raises UnknownSymbol."""
        short_name = qualified_name.rpartition(".")[2]
        for name_history in map(self._get_history, dict.fromkeys((qualified_name, short_name))):
            name, all_places = name_history.name, name_history.places
            places = _select_places(all_places, name, path, qualified_name)
            if not places and len(all_places) <= MAX_PLACES:
                # A rename of an enclosing symbol changes the place, although no commit touched the symbol itself.
                moved_places = set().union(*(name_history.collect(place)[0] for place in all_places))
                places = _select_places(sorted(moved_places), name, path, qualified_name)
            if places:
                return name, places
            if all_places:
                raise _build_unknown_error(symbol, name, all_places)
        similar: list[str] = []
        if len(short_name) <= MAX_QUOTED:
            recorded = history.find_similar_names(self.connection, short_name, 3 * MAX_SUGGESTIONS)
            similar = [name for name in recorded if self._get_history(name).places][:MAX_SUGGESTIONS]
        question = f"Did you mean {' or '.join(map(escape_in_sentence, similar))}? " if similar else ""
        raise UnknownSymbol(
            f"The history has no symbol {_quote(symbol)}.",
            hint=f"{question}Case matters. `lineage grep` finds a text that is no symbol.",
        )

    def _find_candidates(self, name: str, places: Sequence[SymbolPlace]) -> list[Candidate]:
        """Return the symbols that were at these places. One symbol can have been at several of them."""
        name_history = self._get_history(name)
        # A removed symbol may have been restored in another file. `_join_restored` joins such candidates.
        parents = {place.parent for place in places}
        others = [place for place in name_history.places if place not in places]
        relatives = [place for place in others if place.parent in parents]
        candidates: list[Candidate] = []
        assigned_places: set[SymbolPlace] = set()
        for place in (*places, *relatives[:MAX_PLACES]):
            if place not in assigned_places:
                own_places, changes = name_history.collect(place)
                assigned_places |= own_places
                if changes:
                    candidates.append(Candidate(name, frozenset(own_places), tuple(changes)))
        symbols = _join_restored(candidates, RenameFinder(self.reader, self.deadline))
        return [symbol for symbol in symbols if not symbol.places.isdisjoint(places)]

    def _get_history(self, name: str) -> NameHistory:
        """Return the changes of all symbols of a name. They are loaded only once."""
        if name not in self._histories:
            self._histories[name] = NameHistory(
                name,
                self._load_touches(name),
                history.load_renames_and_merges(self.connection, name, self.is_reachable),
                self.reader,
                self.deadline,
                self._load_touches,
            )
        return self._histories[name]

    def _load_touches(self, name: str) -> list[SymbolTouch]:
        return history.load_symbol_touches(self.connection, name, self.is_reachable)


def parse_symbol(symbol: str) -> tuple[str | None, str]:
    """Return the file and the qualified name of `PATH:Class.method`, `Class::method`, `Class#method` or `method()`."""
    text = symbol.strip().replace("::", ".")
    text = text if " " in text else text.removesuffix("()")  # a text with a space is the title of a test
    path, _, name = text.rpartition(":")
    # In JavaScript's `Class.#method` the sign belongs to the name of a private method.
    return (path.removeprefix("./") or None), re.sub(r"(?<=\w)#", ".", name).strip(".")


def has_qualified_name(candidate: Candidate, symbol: str) -> bool:
    """Check whether the symbol has the whole requested name, not only its last part."""
    _, qualified_name = parse_symbol(symbol)
    return any(_matches_name(place, candidate.name, qualified_name) for place in candidate.places)


def _matches_name(place: SymbolPlace, name: str, qualified_name: str) -> bool:
    return f".{place.format_symbol(name)}".endswith(f".{qualified_name}")


def _list_last_places(changes: Sequence[SymbolChange]) -> set[tuple[str, SymbolPlace]]:
    """Return the names and places that a symbol still has after its last change. `changes`: newest first."""
    last_places: set[tuple[str, SymbolPlace]] = set()
    changed_later: set[tuple[str, SymbolPlace]] = set()
    for change in changes:
        named_place = (change.name, change.place)
        if named_place not in changed_later and change.step != "removed":
            last_places.add(named_place)
        changed_later.add(named_place)
        if change.old_place:
            changed_later.add((change.old_name or change.name, change.old_place))
    return last_places


def _select_places(
    places: Sequence[SymbolPlace], name: str, path: str | None, qualified_name: str
) -> list[SymbolPlace]:
    """Return the places that `qualified_name` can mean. `name`: name of the symbols at `places`. `path`: may be None.

    The qualified name may lack enclosing symbols, and the path may lack directories. Places of the complete path are
    preferred, and of these the places of the complete name. A function that JavaScript assigns to a property of an
    object has no enclosing symbol, so `res.send` finds `send`.
    """
    matches = [place for place in places if _matches_name(place, name, qualified_name)]
    if not matches:
        matches = [
            place
            for place in places
            if not place.parent and detect_language(decode_path(place.path)) in LANGUAGES_WITH_PROPERTIES
        ]
    if path is None:
        return matches
    matches = [place for place in matches if f"/{decode_path(place.path)}".endswith(f"/{path}")]
    preferred = [place for place in matches if decode_path(place.path) == path] or matches
    return [place for place in preferred if place.format_symbol(name) == qualified_name] or preferred


def _join_restored(candidates: Sequence[Candidate], finder: RenameFinder) -> list[Candidate]:
    """Join candidates if one restores the other: it was introduced with similar code after the other's removal."""
    joined = list(candidates)
    for later in candidates:
        for earlier in candidates:
            if later is earlier or not _is_restored(earlier, later, finder):
                continue
            groups = [group for group in joined if group.places & (earlier.places | later.places)]
            if len(groups) > 1:
                joined = [group for group in joined if group not in groups]
                joined.append(
                    Candidate(
                        later.name,
                        frozenset().union(*(group.places for group in groups)),
                        tuple(dict.fromkeys(change for group in groups for change in group.changes)),
                    )
                )
    return joined


def _is_restored(earlier: Candidate, later: Candidate, finder: RenameFinder) -> bool:
    """Check whether the later symbol was introduced with similar code after the earlier one was removed."""
    removal = earlier.newest_change
    introduction = min(later.changes, key=lambda change: change.order)
    return (
        removal.step == "removed"
        and removal.order <= introduction.order
        and score_restored(removal, introduction) > 0
        and not any(map(finder.find_partner, (removal, introduction)))  # they are no renames
    )


def score_restored(removal: SymbolChange, introduction: SymbolChange) -> float:
    """Return how similar an introduced symbol is to one that was removed before; 0 if they are different symbols."""
    if introduction.step != "introduced" or removal.body is None or introduction.body is None:
        return 0.0
    return score_move(removal.place, removal.body, introduction.place, introduction.body)


def _belongs_to_partner(change: SymbolChange, link: SymbolChange) -> bool:
    """Check whether a change under another name belongs to the symbol. `link`: change that led to the other name.

    If `link` removed the symbol, the other name is its later name, so the change must be later than `link`.
    """
    earlier, later = (link, change) if link.step == "removed" else (change, link)
    return earlier.order < later.order


def _quote(symbol: str) -> str:
    return f"'{escape_in_sentence(symbol[:MAX_QUOTED])}'"


def _build_unknown_error(symbol: str, name: str, places: Sequence[SymbolPlace]) -> UnknownSymbol:
    names = [place.format_place(name) for place in places]
    return UnknownSymbol(
        f"The history has no symbol {_quote(symbol)}.",
        hint=format_places("Symbols of this name", names) if names else "",
    )


def _build_ambiguous_error(symbol: str, places: Sequence[str]) -> AmbiguousSymbol:
    return AmbiguousSymbol(
        f"{len(places)} symbols are called {_quote(symbol)}.",
        hint=format_places("Give one of them", places),
    )


def format_places(heading: str, places: Sequence[str]) -> str:
    """Return a sentence with the first MAX_CANDIDATES places, and the number of the others."""
    others = f", and {len(places) - MAX_CANDIDATES:,} more" if len(places) > MAX_CANDIDATES else ""
    names = ", ".join(map(escape_in_sentence, places[:MAX_CANDIDATES]))
    return f"{heading}: {names}{others}."
