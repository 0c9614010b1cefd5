"""What we tell agents, written for the model that reads it: when to ask, what to ask, what to make of the answer.

The file that agents read at the root of a work tree, with our stanza in it.
"""

from __future__ import annotations

import os
from typing import Final

from pipeline.git.repository import Repository
from serve.setup.file_edit import BrokenFence, Change, Fences, content_of
from serve.setup.git_hooks import check_own, contains
from stores.errors import LineageError

FENCES: Final = Fences(b"<!-- lineage:start -->", b"<!-- lineage:end -->", breaks=2)

STANZA: Final = b"""\
<!-- lineage:start -->
## History of this repository: lineage

A local index of this repository's commits answers two questions that the code at HEAD cannot. Ask before you
decide, not after.

- **How was this done before?** Tool `find_pattern`, or `lineage query --query "retry a request with backoff"`.
  Ask before you write something that may have been done here already: a feature like an earlier one, a fix like an
  earlier fix, an entry in the same configuration. Describe the change in plain words; a `symbol` in backquotes,
  "in src/net/", "in Rust" or "last 3 months" narrow it. The hits are ranked guesses: read a hit's diff before you
  follow it.
- **Why does this look the way it does?** Tool `explain_change`, or `lineage explain src/net/client.py --lines 40:60`.
  Ask before you change or delete code whose reason you do not see. The hits are exact: the commits that wrote
  these lines, newest first, with their messages.

Neither finds where something is defined or used now: search the files for that. Without the tools, the commands
print the same answers as JSON. The index follows every commit in the background; when an answer says that it is
behind HEAD and that matters, run `lineage index --incremental`.
<!-- lineage:end -->"""


# The first is what most agents read, and the one that is made; the others are some clients' own names.
FILES: Final = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", "AGENT.md")


class StanzaRefused(LineageError):
    """The file cannot take the stanza."""


def written(repository: Repository) -> Change:
    """The file with our stanza: the one that has it, else the first of those there, else a new one."""
    there = [name for name in FILES if os.path.lexists(repository.root / name)]
    having = [name for name in there if _has_stanza(repository, name)]
    name = next(iter([*having, *there, *FILES]))
    file = repository.root / name
    before = _taken(repository, name)
    if before is None:
        return Change(name, file, "created", STANZA + b"\n")
    if not _has_stanza(repository, name):
        return Change(name, file, "added", FENCES.added(before, STANZA, at=len(before)))
    after = FENCES.renewed(before, STANZA)
    return Change(name, file, "unchanged") if after == before else Change(name, file, "renewed", after)


def removed(repository: Repository) -> list[Change]:
    """Each file that has our stanza without it, or no file where nothing else is in it."""
    return [_without(repository, name) for name in FILES if _has_stanza(repository, name)]


def _without(repository: Repository, name: str) -> Change:
    file = repository.root / name
    after = FENCES.removed(content_of(file) or b"")
    if after.strip() or file.is_symlink():
        return Change(name, file, "taken out", after)
    return Change(name, file, "deleted", gone=True)


def _taken(repository: Repository, name: str) -> bytes | None:
    file = repository.root / name
    check_own(repository, file, StanzaRefused, by_hand="the text")
    return content_of(file)


def _has_stanza(repository: Repository, name: str) -> bool:
    file = repository.root / name
    if not file.is_file() or not contains(repository, file):
        return False
    try:
        return FENCES.encloses(content_of(file) or b"")
    except BrokenFence as broken:
        raise StanzaRefused(f"{file}: {broken.message}.", hint=f"{broken.hint}.".capitalize()) from broken
