"""A history as a graph of parents: what a commit reaches, and the order it is indexed in; pure.

The bytes of commit and tree objects -> their fields; pure.

Commits are parsed here rather than by libgit2, which refuses a whole commit for a malformed author
line that git itself only complains about.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

Parents = tuple[str, ...]


def reachable(tips: Iterable[str], parents_of: Callable[[str], Parents]) -> dict[str, Parents]:
    """Every commit the tips reach, themselves included, with its parents."""
    found: dict[str, Parents] = {}
    waiting = list(tips)
    while waiting:
        sha = waiting.pop()
        if sha not in found:
            found[sha] = parents_of(sha)
            waiting.extend(found[sha])
    return found


def parents_first(tip: str, parents: Mapping[str, Parents]) -> list[str]:
    """Every commit of the graph that `tip` reaches, parents before children.

    Depth first along first parents, so the order is a function of the graph alone. Leaving out a set that
    holds all its own ancestors keeps the order of the rest: a walk behind a watermark is the full walk's.
    """
    order: list[str] = []
    seen = {tip}
    path: list[tuple[str, Iterator[str]]] = [(tip, iter(parents[tip]))] if tip in parents else []
    while path:
        ahead = next((sha for sha in path[-1][1] if sha in parents and sha not in seen), None)
        if ahead is None:
            order.append(path.pop()[0])
        else:
            seen.add(ahead)
            path.append((ahead, iter(parents[ahead])))
    return order


# Signs of a person, as lenient as git: whatever stands before `<`, up to `>`, then seconds and zone. Of the seconds as
# many digits as a calendar can need: Python refuses to read thousands.
IDENTITY: Final = re.compile(rb"(?P<name>[^<]*)<(?P<email>[^>]*)>?[^0-9-]*(?P<seconds>-?\d{1,20})?")
TREE_ENTRY: Final = re.compile(rb"(\d+) ([^\0]+)\0(.{20})", re.DOTALL)
# git has no dates before 1970, and Python's end with the year 9999: what lies outside is a broken clock.
EPOCH: Final = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)
LATEST_SECONDS: Final = 253_402_214_400  # 9999-12-31

UTF_8: Final = "utf-8"
# Python's codecs for its own literals and for host names: nobody's message is written in them.
NOT_OF_TEXT: Final = frozenset({"unicode-escape", "raw-unicode-escape", "punycode", "idna", "undefined"})


@dataclass(frozen=True, slots=True)
class Person:
    """Who did something, and when."""

    name: str
    email: str
    date: datetime  # UTC, without a zone, clamped to 1970..9999


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit's own fields, without its change."""

    sha: str
    tree: str
    parents: tuple[str, ...]  # first parent first; none for a root and at a shallow boundary
    author_name: str  # after .mailmap
    author_email: str  # after .mailmap
    author_date: datetime  # UTC, without a zone
    commit_date: datetime  # the committer's, UTC, without a zone
    message: str  # decoded by the commit's own encoding, bad bytes replaced, without its last line breaks


@dataclass(frozen=True, slots=True)
class Links:
    """The objects a commit points to."""

    tree: str
    parents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One name in a directory."""

    mode: int
    name: bytes
    sha: str


@dataclass(slots=True)
class _Header:
    tree: str = ""
    parents: list[str] = field(default_factory=list)
    author: bytes = b""
    committer: bytes = b""
    encoding: str = UTF_8


def parse_commit(sha: str, data: bytes) -> Commit:
    """The commit in an object's bytes; never fails on bytes that git would show."""
    head, _, message = data.partition(b"\n\n")
    header = _header(head)
    author, committer = _person(header.author, header.encoding), _person(header.committer, header.encoding)
    return Commit(
        sha=sha,
        tree=header.tree,
        parents=tuple(header.parents),
        author_name=author.name,
        author_email=author.email,
        author_date=author.date,
        commit_date=committer.date,
        message=_decoded(message, header.encoding).rstrip("\n"),
    )


def links_of(data: bytes) -> Links:
    """Only what a commit points to: all that a walk needs."""
    tree, *lines = data.partition(b"\n\n")[0].decode("utf-8", errors="replace").split("\n")
    parents = tuple(line[7:] for line in lines if line[:7] == "parent ")
    return Links(tree.removeprefix("tree "), parents)


def entries_of(data: bytes) -> dict[bytes, tuple[bytes, bytes]]:
    """Name -> mode and object, as they stand in a tree object: all that comparing trees needs."""
    return {name: (mode, raw) for mode, name, raw in TREE_ENTRY.findall(data)}


def tagged(data: bytes) -> str:
    """The object that a tag names."""
    return data.partition(b"\n")[0].decode("ascii", "replace").removeprefix("object ")


def parse_tree(data: bytes) -> Iterator[TreeEntry]:
    """The names in a tree object, in its own order."""
    for mode, name, raw in TREE_ENTRY.findall(data):
        yield TreeEntry(int(mode, 8), name, raw.hex())


def _header(head: bytes) -> _Header:
    header = _Header()
    for line in head.split(b"\n"):
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


def _person(line: bytes, encoding: str) -> Person:
    match = IDENTITY.match(line)
    if match is None:
        return Person(_decoded(line, encoding).strip(), "", EPOCH)
    seconds = min(max(int(match["seconds"] or 0), 0), LATEST_SECONDS)
    return Person(
        _decoded(match["name"], encoding).strip(),
        _decoded(match["email"], encoding).strip(),
        EPOCH + timedelta(seconds=seconds),
    )


def _decoded(text: bytes, encoding: str) -> str:
    """As text that can be written anywhere: whatever the encoding, no half of a surrogate pair is left alone."""
    if encoding == UTF_8:
        return text.decode(UTF_8, errors="replace")
    try:
        if codecs.lookup(encoding).name in NOT_OF_TEXT:
            return text.decode(UTF_8, errors="replace")
        found = text.decode(encoding, errors="replace")
    except (LookupError, ValueError):  # a name no codec has, or a codec that is none of text
        return text.decode(UTF_8, errors="replace")
    return found.encode("utf-16", errors="surrogatepass").decode("utf-16", errors="replace")
