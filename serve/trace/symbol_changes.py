"""Changes of the symbols of one name: the commits that introduced, modified, moved, renamed or removed each symbol.

The index says which commits touched a symbol. A touch (`SymbolTouch`) is the change of one file by such a commit. If a
commit can have introduced or removed the symbol, for example because it changed a line with the name, the definitions
before and after it are read from git and compared. Otherwise the commit only modified the symbol. The parent of a
symbol is the symbol that encloses it, such as the class of a method; parents of commits are called parent commits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from pipeline.file_classification import get_grammar_name
from pipeline.git.changes import decode_path
from pipeline.git.errors import UnreadableObject
from pipeline.git.repository import Repository
from pipeline.interrupts import Deadline
from pipeline.syntax.outline import Symbol, parse_symbols
from pipeline.syntax.symbols import CALLABLE_KINDS
from pipeline.syntax.trees import MAX_PARSED_BYTES
from serve.commit_types import TraceStep
from serve.explain.changed_lines import find_blob
from serve.explain.line_similarity import TOKEN, count_common_tokens
from stores.history import SymbolTouch, get_definition_word

# Maximum number of tokens at the start of a definition that are compared, about 400 lines. A comparison takes 10 ms.
MAX_TOKENS: Final = 4_000
# Maximum number of definitions whose tokens are cached.
CACHED_TEXTS: Final = 256

# A removed and an added symbol with equal parents count as one moved symbol if they are at least this similar.
MIN_MOVE_SIMILARITY: Final = 0.5
# The same minimum if the parents differ. It is higher, because an equal parent is evidence of a move.
MIN_OTHER_PARENT_SIMILARITY: Final = 0.7
# Maximum number of pairs of a removed and an added symbol that are compared. Each pair takes up to 10 ms.
MAX_COMPARISONS: Final = 400


@dataclass(frozen=True, slots=True)
class Body:
    """Source of a symbol. The definitions of several symbols at one place, such as overloads, are joined."""

    text: str
    is_callable: bool

    @property
    def token_count(self) -> int:
        """Number of tokens that are compared, at most MAX_TOKENS."""
        return len(_split_tokens(self.text))

    def compute_similarity(self, other: Body) -> float:
        """Return the similarity, 0 to 1: the share of the tokens that both bodies have in the same order.

        The similarity of a function to another kind of symbol is 0, unless their texts are equal.
        """
        if self.text == other.text:
            return 1.0
        tokens, other_tokens = _split_tokens(self.text), _split_tokens(other.text)
        if not tokens or not other_tokens or self.is_callable != other.is_callable:
            return 0.0
        return 2 * count_common_tokens(tokens, other_tokens) / (len(tokens) + len(other_tokens))


@dataclass(frozen=True, slots=True)
class DefinitionReader:
    """Reader of the definitions in a commit's files. It parses each version of a file once."""

    repository: Repository
    _symbols_by_blob: dict[tuple[str, str], tuple[Symbol, ...] | None] = field(default_factory=dict)

    def list_symbols(self, commit: str, path: bytes, word: str = "") -> tuple[Symbol, ...] | None:
        """Return the symbols of a file; None if the file cannot be read or parsed.

        The result is empty if the commit has no such file, or if the file does not contain `word`.
        """
        path_text = decode_path(path)
        if get_grammar_name(path_text) is None:
            return None
        try:
            blob = find_blob(self.repository, commit, path)
            if blob is None:
                return ()
            if self.repository.read_blob_size(blob) > MAX_PARSED_BYTES:
                return None
            if word and word.encode() not in self.repository.read_blob(blob):
                return ()
            version = (blob, path_text)
            if version not in self._symbols_by_blob:
                self._symbols_by_blob[version] = parse_symbols(self.repository.read_blob(blob), path_text)
        except UnreadableObject:
            return None
        return self._symbols_by_blob[version]

    def find_bodies(self, commit: str, path: bytes, name: str) -> dict[str, Body] | None:
        """Return the bodies of a name's symbols in a file, by parent; None if the file cannot be read or parsed."""
        # A file without this word does not define the symbol, and is not parsed.
        symbols = self.list_symbols(commit, path, get_definition_word(name))
        if symbols is None:
            return None
        bodies = group_bodies(symbol for symbol in symbols if symbol.name == name)
        return {parent: body for (parent, _), body in bodies.items()}


def group_bodies(symbols: Iterable[Symbol]) -> dict[tuple[str, str], Body]:
    """Return the bodies of the symbols, by parent and name."""
    bodies: dict[tuple[str, str], Body] = {}
    for symbol in symbols:
        qualified_name = (symbol.parent, symbol.name)
        text = bodies[qualified_name].text if qualified_name in bodies else ""
        bodies[qualified_name] = Body(text + symbol.source_text, symbol.kind in CALLABLE_KINDS)
    return bodies


@lru_cache(CACHED_TEXTS)
def _split_tokens(text: str) -> tuple[str, ...]:
    return tuple(TOKEN.findall(text)[:MAX_TOKENS])


@dataclass(frozen=True, slots=True, order=True)
class SymbolPlace:
    """Place of a symbol. `path`: its file. `parent`: names of the enclosing symbols, joined by dots; may be empty."""

    path: bytes
    parent: str

    def format_symbol(self, name: str) -> str:
        """Return the qualified name: `Flask.run`."""
        return f"{self.parent}.{name}" if self.parent else name

    def format_place(self, name: str) -> str:
        """Return the file and the qualified name: `src/flask/app.py:Flask.run`."""
        return f"{decode_path(self.path)}:{self.format_symbol(name)}"


@dataclass(frozen=True, slots=True)
class SymbolChange:
    """Change of a symbol by a commit.

    `commit_row`: as in SymbolTouch. `date`: in seconds since the epoch. `step`: what the commit did to the symbol.
    `place`, `name`, `body`: after the change, or before a removal. `body` is None if the step is `modified`.
    `old_place`, `old_name`: before a move or a rename. `is_exact`: False if the step is inferred, from similar code or
    from the text that git shows after `@@`.
    """

    commit_sha: str
    commit_row: int
    date: int
    step: TraceStep
    name: str
    place: SymbolPlace
    old_name: str | None = None
    old_place: SymbolPlace | None = None
    body: Body | None = None
    is_exact: bool = True

    @property
    def order(self) -> tuple[int, int]:
        """Key that sorts changes by date. Of commits with one date, as after a rebase, parents come first."""
        return self.date, self.commit_row


@dataclass(slots=True)
class NameHistory:
    """Changes of all symbols of one name.

    `touches`: changes of files that touched a symbol of the name. `file_changes`: result of `load_renames_and_merges`.
    `load_touches`: loads the touches of another name.
    """

    name: str
    touches: Sequence[SymbolTouch]
    file_changes: Sequence[SymbolTouch]
    reader: DefinitionReader
    deadline: Deadline
    load_touches: Callable[[str], Sequence[SymbolTouch]]
    _touches_by_commit: dict[str, list[SymbolTouch]] = field(init=False)
    _shas_by_path: dict[bytes, dict[str, None]] = field(init=False)
    _changes: dict[str, list[SymbolChange]] = field(init=False, default_factory=dict)
    _searched_parents: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        """Assign the touches to commits and paths."""
        self.touches = _assign_parents(self.touches)
        self._touches_by_commit, self._shas_by_path = defaultdict(list), defaultdict(dict)
        for touch in (*self.touches, *_select_file_changes(self.touches, self.file_changes)):
            self._add_touch(touch)

    @property
    def places(self) -> list[SymbolPlace]:
        """All places at which a symbol of this name was touched, the most recently touched place first."""
        places = dict.fromkeys(
            SymbolPlace(touch.path, touch.parent)
            for touch in reversed(self.touches)
            if touch.parent is not None
        )
        return list(places)

    def collect(self, start: SymbolPlace) -> tuple[set[SymbolPlace], list[SymbolChange]]:
        """Follow the symbol that is, or once was, at `start`. Return all of its places and all of its changes."""
        places, pending = {start}, [start]
        changes: dict[SymbolChange, None] = {}
        while pending:
            place = pending.pop()
            self._add_parent_touches(place)
            for sha in tuple(self._shas_by_path.get(place.path, ())):
                for change in self._classify(sha):
                    change_places = [change.place, *([change.old_place] if change.old_place else [])]
                    if place in change_places:
                        changes[change] = None
                        new_places = [other for other in change_places if other not in places]
                        places.update(new_places)
                        pending += new_places
        return places, list(changes)

    def _add_touch(self, touch: SymbolTouch) -> None:
        self._touches_by_commit[touch.commit_sha].append(touch)
        for path in (touch.path, touch.old_path):
            if path is not None:
                self._shas_by_path[path][touch.commit_sha] = None

    def _add_parent_touches(self, place: SymbolPlace) -> None:
        """Add the touches of the symbols that enclose a place. Their renames and moves change the place, too."""
        parents = {parent for parent in place.parent.split(".") if parent} - self._searched_parents
        self._searched_parents |= parents
        for touch in (touch for parent in parents for touch in self.load_touches(parent)):
            if touch.may_introduce_or_remove and {touch.path, touch.old_path} & self._shas_by_path.keys():
                # `_list_modified` ignores touches with parent None: only the enclosing symbol was touched.
                self._add_touch(replace(touch, parent=None))
                self._changes.pop(touch.commit_sha, None)

    def _classify(self, sha: str) -> list[SymbolChange]:
        """Return the changes of the symbols by a commit, from the cache if they were computed before."""
        if sha not in self._changes:
            touches = self._touches_by_commit[sha]
            if any(touch.may_introduce_or_remove for touch in touches) and self.deadline.has_time():
                self._changes[sha] = self._compare_versions(sha, touches)
            else:
                self._changes[sha] = self._list_modified(sha, touches, set())
        return self._changes[sha]

    def _list_modified(
        self, sha: str, touches: Sequence[SymbolTouch], excluded: set[SymbolPlace]
    ) -> list[SymbolChange]:
        """Return a `modified` change for each place that was touched, except those in `excluded`."""
        changes = {
            place: SymbolChange(
                sha, touch.commit_row, touch.date, "modified", self.name, place, is_exact=touch.is_exact
            )
            for touch in touches
            if touch.parent is not None and (place := SymbolPlace(touch.path, touch.parent)) not in excluded
        }
        return list(changes.values())

    def _compare_versions(self, sha: str, touches: Sequence[SymbolTouch]) -> list[SymbolChange]:
        """Return the changes by a commit, from the definitions before and after it in all files of `touches`."""
        try:
            parent_commits = self.reader.repository.read_commit(sha).parents
        except UnreadableObject:
            return self._list_modified(sha, touches, set())
        comparison = _Comparison()
        # The touches of one hunk concern the same file, which is compared once.
        for touch in {touch.hunk_id: touch for touch in touches}.values():
            if not self.deadline.has_time():
                return self._list_modified(sha, touches, set())
            new_bodies = self.reader.find_bodies(sha, touch.path, self.name)
            old_versions = [self._find_old_bodies(commit, touch) for commit in parent_commits]
            readable_versions = [bodies for bodies in old_versions if bodies is not None]
            if new_bodies is not None and len(readable_versions) == len(parent_commits):
                comparison.add_file(touch, readable_versions, new_bodies)
        changes = [
            replace(
                change,
                commit_sha=sha,
                commit_row=touches[0].commit_row,
                date=touches[0].date,
                name=self.name,
                old_name=self.name if change.old_place else None,
            )
            for change in (*comparison.renamed, *match_places(comparison.added, comparison.removed))
        ]
        return [*changes, *self._list_modified(sha, touches, comparison.changed_places)]

    def _find_old_bodies(self, parent_commit: str, touch: SymbolTouch) -> dict[str, Body] | None:
        """Return the bodies of the touched file in a parent commit; see `DefinitionReader.find_bodies`."""
        bodies = self.reader.find_bodies(parent_commit, touch.old_path or touch.path, self.name)
        # In another parent of a merge, the file may already have the new path.
        if not bodies and touch.old_path:
            return self.reader.find_bodies(parent_commit, touch.path, self.name)
        return bodies


@dataclass(slots=True)
class _Comparison:
    """Symbols of a name that a commit added, removed or changed.

    `added`, `removed`: bodies of symbols by place. `renamed`: changes of symbols whose file was renamed; the caller
    sets their commit, date and name. `changed_places`: old and new places of the symbols in the other fields.
    """

    added: dict[SymbolPlace, Body] = field(default_factory=dict)
    removed: dict[SymbolPlace, Body] = field(default_factory=dict)
    renamed: list[SymbolChange] = field(default_factory=list)
    changed_places: set[SymbolPlace] = field(default_factory=set)

    def add_file(
        self,
        touch: SymbolTouch,
        old_versions: Sequence[Mapping[str, Body]],
        new_version: Mapping[str, Body],
    ) -> None:
        """Add the changed symbols of a file.

        `new_version`: bodies of the file's symbols in the commit, by parent. `old_versions`: the bodies in each of its
        parent commits. A merge adds a symbol if it has the symbol and none of its parent commits has it. It removes a
        symbol if it lacks the symbol and all of its parent commits have it.
        """
        old_path = touch.old_path or touch.path
        for parent in {parent for old_version in old_versions for parent in old_version} | new_version.keys():
            place, old_place = SymbolPlace(touch.path, parent), SymbolPlace(old_path, parent)
            is_in_old_versions = [parent in old_version for old_version in old_versions]
            if parent in new_version and not any(is_in_old_versions):
                self.added[place] = new_version[parent]
            elif parent not in new_version and all(is_in_old_versions):
                self.removed[old_place] = old_versions[0][parent]
            elif parent in new_version and place != old_place:
                body = new_version[parent]
                self.renamed.append(
                    SymbolChange("", 0, 0, "renamed", "", place, old_place=old_place, body=body)
                )
            else:
                continue
            self.changed_places |= {place, old_place}


def match_places(
    added: Mapping[SymbolPlace, Body], removed: Mapping[SymbolPlace, Body]
) -> Iterator[SymbolChange]:
    """Yield a move for each added symbol that is similar to a removed symbol, then all other additions and removals.

    The caller sets the commit, date and name of the changes.
    """
    # In a mass move, only symbols with equal code count as moved.
    is_mass_move = len(added) * len(removed) > MAX_COMPARISONS
    scores = [
        (score, old_place, place)
        for place, body in added.items()
        for old_place, old_body in removed.items()
        if (not is_mass_move or body.text == old_body.text)
        and (score := score_move(old_place, old_body, place, body))
    ]
    moved_places: set[SymbolPlace] = set()
    for score, old_place, place in sorted(scores, key=lambda entry: (-entry[0], entry[1], entry[2])):
        if place not in moved_places and old_place not in moved_places:
            moved_places |= {place, old_place}
            yield SymbolChange(
                "", 0, 0, "moved", "", place, old_place=old_place, body=added[place], is_exact=score == 1
            )
    for place in added.keys() - moved_places:
        yield SymbolChange("", 0, 0, "introduced", "", place, body=added[place])
    for place in removed.keys() - moved_places:
        yield SymbolChange("", 0, 0, "removed", "", place, body=removed[place])


def score_move(old_place: SymbolPlace, old_body: Body, place: SymbolPlace, body: Body) -> float:
    """Return the similarity of a removed and an added symbol; 0 if it is too small for a move of one symbol."""
    similarity = old_body.compute_similarity(body)
    has_same_parent = old_place.parent == place.parent
    min_similarity = MIN_MOVE_SIMILARITY if has_same_parent else MIN_OTHER_PARENT_SIMILARITY
    return similarity if similarity >= min_similarity else 0.0


def _assign_parents(touches: Sequence[SymbolTouch]) -> list[SymbolTouch]:
    """Return the touches, with the unknown parents of inexact touches replaced by those of exact touches.

    An inexact touch is known only from git's hunk header, so its parent is unknown and recorded as empty. If all exact
    touches of its file have one parent, the inexact touch gets this parent. If they have several, it is left out. If
    there are none, it is unchanged.
    """
    parents_by_path: dict[bytes, set[str]] = defaultdict(set)
    for touch in touches:
        if touch.is_exact and touch.parent is not None:
            parents_by_path[touch.path].add(touch.parent)
    assigned_touches = []
    for touch in touches:
        parents = parents_by_path.get(touch.path, set())
        if touch.is_exact or not parents:
            assigned_touches.append(touch)
        elif len(parents) == 1:
            assigned_touches.append(replace(touch, parent=next(iter(parents))))
    return assigned_touches


def _select_file_changes(
    touches: Sequence[SymbolTouch], file_changes: Sequence[SymbolTouch]
) -> Iterable[SymbolTouch]:
    """Return the changes of the touched files, also under earlier and later paths of these files."""
    paths = {path for touch in touches for path in (touch.path, touch.old_path) if path is not None}
    selected: dict[SymbolTouch, None] = {}
    previous_count = -1
    while len(selected) > previous_count:
        previous_count = len(selected)
        for change in file_changes:
            if change.path in paths or change.old_path in paths:
                selected[change] = None
                paths |= {change.path, change.old_path or change.path}
    return selected
