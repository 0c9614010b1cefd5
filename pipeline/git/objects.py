"""Parsers of commit, tag and tree objects; reader of trees; reachable commits and their topological order.

Commits are not parsed by libgit2, because it rejects malformed author lines for which git only warns.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from cachetools import LRUCache

from pipeline.git.changes import SUBMODULE_MODE, TREE_MODE, is_regular

Parents: TypeAlias = tuple[str, ...]
# Entries of a directory: name -> (mode, raw object id).
TreeEntries: TypeAlias = Mapping[bytes, tuple[bytes, bytes]]
# Mode of a directory in a tree object.
DIRECTORY_MODE: Final = b"40000"

# Maximum number of directory entries to cache for the diff of the next commit. An entry takes about 200 bytes.
MAX_CACHED_NAMES: Final = 4_000


def collect_reachable(
    tips: Iterable[str], get_parents: Callable[[str], Parents], excluded: Collection[str] = ()
) -> dict[str, Parents]:
    """Return the tips and the commits that they reach, each with its parents. Stop before excluded commits."""
    parents_by_sha: dict[str, Parents] = {}
    pending = list(tips)
    while pending:
        sha = pending.pop()
        if sha not in parents_by_sha and sha not in excluded:
            parents_by_sha[sha] = get_parents(sha)
            pending.extend(parents_by_sha[sha])
    return parents_by_sha


def sort_topologically(tip: str, parents: Mapping[str, Parents]) -> list[str]:
    """Return `tip` and the commits that it reaches, parents before children.

    `parents`: parents of each commit to return. The walk is depth first and visits the first parent first, so the order
    depends only on the graph. If a commit and all its ancestors are left out, the order of the others does not change.
    """
    sorted_shas: list[str] = []
    visited_shas = {tip}
    stack: list[tuple[str, Iterator[str]]] = [(tip, iter(parents[tip]))] if tip in parents else []
    while stack:
        parent = next((sha for sha in stack[-1][1] if sha in parents and sha not in visited_shas), None)
        if parent is None:
            sorted_shas.append(stack.pop()[0])
        else:
            visited_shas.add(parent)
            stack.append((parent, iter(parents[parent])))
    return sorted_shas


# Matches an author or committer line as git does: name and `<email>`, and after the last `>` seconds and time zone.
SIGNATURE: Final = re.compile(
    rb"(?P<name>[^<]*)<(?P<email>[^>]*)(?:(?>.*>)\s*(?P<seconds>\d+)\s*[+-]\d)?", re.DOTALL
)
# Number of digits of a date that are read, because Python refuses to parse integers of thousands of digits.
MAX_DIGITS: Final = 20
# Mode, name and raw object id of an entry in a tree object.
TREE_ENTRY: Final = re.compile(rb"(\d+) ([^\0]+)\0(.{20})", re.DOTALL)
# git shows dates before 1970, and those after LATEST_GIT_SECONDS, as 1970. Python has no year after 9999.
EPOCH: Final = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)
LATEST_SECONDS: Final = 253_402_300_799  # the last second of 9999
LATEST_GIT_SECONDS: Final = 67_768_036_191_676_799

UTF_8: Final = "utf-8"
# Codecs of Python for its literals and for host names. They are no encodings of commit messages.
NON_TEXT_CODECS: Final = frozenset({"unicode-escape", "raw-unicode-escape", "punycode", "idna", "undefined"})


# Matches names of programs that commit. Email addresses are not checked, as those of people often name the git host.
BOT_NAME: Final = re.compile(
    r"\[bot\]|\bbot\b|dependabot|renovate|greenkeeper|pre-commit-ci|pyup|weblate|github[- ]actions?\b",
    re.IGNORECASE,
)


def is_bot(author_name: str) -> bool:
    """Return whether an author has the name of a program that commits."""
    return BOT_NAME.search(author_name) is not None


@dataclass(frozen=True, slots=True)
class Signature:
    """Author or committer of a commit, with the date."""

    name: str
    email: str
    date: datetime  # in UTC without a time zone; see `parse_seconds`


@dataclass(frozen=True, slots=True)
class Commit:
    """Fields of a commit object."""

    sha: str
    tree: str
    parents: tuple[str, ...]  # first parent first; empty for a root commit and at a shallow boundary
    author_name: str  # after .mailmap
    author_email: str  # after .mailmap
    author_date: datetime  # in UTC without a time zone
    commit_date: datetime  # date of the committer, in UTC without a time zone
    message: str  # invalid bytes replaced by U+FFFD, line feeds at the end removed


@dataclass(frozen=True, slots=True)
class CommitLinks:
    """Objects that a commit points to: its tree and its parents."""

    tree: str
    parents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """Entry of a tree object."""

    mode: int
    name: bytes
    sha: str


@dataclass(slots=True)
class _CommitHeader:
    tree: str = ""
    parents: list[str] = field(default_factory=list)
    author: bytes = b""
    committer: bytes = b""
    encoding: str = UTF_8


def parse_commit(sha: str, data: bytes) -> Commit:
    """Parse a commit object. Missing fields become empty, and malformed dates 1970.

    Parents and names are as recorded in the object: neither a shallow boundary nor `.mailmap` is applied.
    """
    header_lines, _, message = data.partition(b"\n\n")
    header = _parse_header(header_lines)
    author, committer = (
        _parse_signature(header.author, header.encoding),
        _parse_signature(header.committer, header.encoding),
    )
    return Commit(
        sha=sha,
        tree=header.tree,
        parents=tuple(header.parents),
        author_name=author.name,
        author_email=author.email,
        author_date=author.date,
        commit_date=committer.date,
        message=_decode(message, header.encoding).rstrip("\n"),
    )


def parse_commit_links(data: bytes) -> CommitLinks:
    """Parse only the tree and the parents of a commit object, which is faster than `parse_commit`."""
    tree, *lines = data.partition(b"\n\n")[0].decode("utf-8", errors="replace").split("\n")
    parents = tuple(line.removeprefix("parent ") for line in lines if line.startswith("parent "))
    return CommitLinks(tree.removeprefix("tree "), parents)


def parse_tree_entries(data: bytes) -> dict[bytes, tuple[bytes, bytes]]:
    """Parse a tree object into name -> (mode, raw object id). Both stay bytes, so that comparing trees is fast."""
    return {name: (mode, object_id) for mode, name, object_id in TREE_ENTRY.findall(data)}


def parse_tag_target(data: bytes) -> str:
    """Return the SHA of the object that a tag object points to."""
    return data.partition(b"\n")[0].decode("ascii", "replace").removeprefix("object ")


def iter_tree_entries(data: bytes) -> Iterator[TreeEntry]:
    """Yield the entries of a tree object, in their order."""
    for mode, name, object_id in TREE_ENTRY.findall(data):
        yield TreeEntry(int(mode, 8), name, object_id.hex())


def _parse_header(header_lines: bytes) -> _CommitHeader:
    header = _CommitHeader()
    for line in header_lines.split(b"\n"):
        key, _, value = line.partition(b" ")
        if key == b"parent":
            header.parents.append(value.decode("ascii", "replace"))
        elif key == b"tree":
            header.tree = value.decode("ascii", "replace")
        elif key == b"author":
            header.author = value
        elif key == b"committer":
            header.committer = value
        elif key == b"encoding":
            header.encoding = value.decode("ascii", "replace").strip()
    return header


def parse_seconds(digits: str | bytes | None) -> int:
    """Return the seconds since 1970 of a recorded date; 0 if there is no date, or if git shows it as 1970.

    Dates after the year 9999 become the last second of that year, so that their commits are the newest, as for git.
    """
    seconds = int((digits or b"0")[:MAX_DIGITS])
    return min(seconds, LATEST_SECONDS) if 0 <= seconds <= LATEST_GIT_SECONDS else 0


def _parse_signature(line: bytes, encoding: str) -> Signature:
    match = SIGNATURE.match(line)
    if match is None:
        return Signature(_decode(line, encoding).strip(), "", EPOCH)
    return Signature(
        _decode(match["name"], encoding).strip(),
        _decode(match["email"], encoding).strip(),
        EPOCH + timedelta(seconds=parse_seconds(match["seconds"])),
    )


def _decode(data: bytes, encoding: str) -> str:
    """Decode bytes, as UTF-8 if the encoding is unknown. Invalid bytes and lone surrogates become U+FFFD."""
    if encoding == UTF_8:
        return data.decode(UTF_8, errors="replace")
    try:
        if codecs.lookup(encoding).name in NON_TEXT_CODECS:
            return data.decode(UTF_8, errors="replace")
        text = data.decode(encoding, errors="replace")
    except (LookupError, ValueError):  # the codec is unknown, or does not decode to text
        return data.decode(UTF_8, errors="replace")
    return text.encode("utf-16", errors="surrogatepass").decode("utf-16", errors="replace")


class TreeReader:
    """Reader of tree objects.

    `read`: returns the bytes of the tree with a raw object id. Errors of `read` are not caught.
    """

    def __init__(self, read: Callable[[bytes], bytes]) -> None:
        self._read = read
        self._cache: LRUCache[bytes, TreeEntries] = LRUCache(MAX_CACHED_NAMES, getsizeof=len)

    def read_entries(self, tree: bytes) -> TreeEntries:
        """Return the entries of a directory by name. `tree`: raw object id."""
        cached_entries = self._cache.get(tree)
        if cached_entries is not None:
            return cached_entries
        entries = parse_tree_entries(self._read(tree))
        if len(entries) <= MAX_CACHED_NAMES // 2:  # a larger directory would evict most of the others
            self._cache[tree] = entries
        return entries

    def find_entry(self, tree: str, path: bytes) -> TreeEntry | None:
        """Return the entry at a path, or the submodule that contains the path; None if there is neither.

        The name of the returned entry is its whole path.
        """
        entry = TreeEntry(TREE_MODE, b"", tree)
        for name in path.split(b"/"):
            if entry.mode != TREE_MODE:
                return entry if entry.mode == SUBMODULE_MODE else None
            child = self.read_entries(bytes.fromhex(entry.sha)).get(name)
            if child is None:
                return None
            mode, object_id = child
            entry = TreeEntry(int(mode, 8), entry.name + b"/" + name if entry.name else name, object_id.hex())
        return entry

    def iter_files(self, tree: str) -> Iterator[tuple[bytes, str]]:
        """Yield path and blob SHA of each regular file in a tree and its subdirectories, in the order of the tree."""
        stack = [(b"", self._iter_entries(tree))]
        while stack:
            directory, entries = stack[-1]
            entry = next(entries, None)
            if entry is None:
                stack.pop()
            elif entry.mode == TREE_MODE:
                stack.append((directory + entry.name + b"/", self._iter_entries(entry.sha)))
            elif is_regular(entry.mode):
                yield directory + entry.name, entry.sha

    def _iter_entries(self, tree: str) -> Iterator[TreeEntry]:
        return iter_tree_entries(self._read(bytes.fromhex(tree)))
