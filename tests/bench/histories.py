"""Histories to measure: clones of real repositories, cut to a length, a wide one and an even one made on the spot."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.programs import git
from tests.repos import Repo

# Enough to see a cost that grows with the tree; a large project of one team has about as many files.
WIDE_FILES: Final = 5_000
FILES_PER_FOLDER: Final = 50
FUNCTIONS_PER_FILE: Final = 6
SEED: Final = 7
# Of an even history: files of 8 KB, of which each commit changes a few.
EVEN_FILES: Final = 100
EVEN_FUNCTIONS: Final = 40
CHANGED_FILES: Final = 4
CHANGED_FUNCTIONS: Final = 3

_VERBS: Final = ("read", "write", "merge", "parse", "close", "open", "count", "sort", "send", "fold")
_THINGS: Final = (
    "header",
    "record",
    "socket",
    "window",
    "token",
    "ledger",
    "branch",
    "buffer",
    "cursor",
    "event",
)


@dataclass(frozen=True, slots=True)
class History:
    """A working copy to index: `commits` is how many HEAD reaches."""

    name: str
    path: Path
    commits: int

    @classmethod
    def of(cls, source: Path, path: Path) -> History:
        """The working copy at `path`, named for what it was cloned from."""
        folder = source.absolute()
        named = folder.parent if folder.name in ("repo", "repo.git", ".git") else folder
        return cls(named.name.removesuffix(".git"), path, _count(path, "HEAD"))


def cut(source: Path, into: Path, commits: int | None = None) -> History:
    """A fresh single-branch clone of `source`, its HEAD set back until it reaches at most so many commits."""
    git(source, "clone", "--quiet", "--no-local", "--single-branch", str(source.absolute()), str(into))
    if commits is not None:
        git(into, "reset", "--quiet", "--hard", _ancestor(into, commits))
    return History.of(source, into)


def pack_bytes(source: Path, into: Path) -> int:
    """Size of what a fresh single-branch clone of `source` keeps of the history."""
    git(
        source,
        "clone",
        "--quiet",
        "--bare",
        "--no-local",
        "--single-branch",
        str(source.absolute()),
        str(into),
    )
    return sum(pack.stat().st_size for pack in (into / "objects" / "pack").glob("*.pack"))


def wide(path: Path, files: int = WIDE_FILES) -> History:
    """A history of two commits with many small modules at HEAD, the same on every machine."""
    chance = random.Random(SEED)  # noqa: S311 - repeatable content, nothing secret
    repo = Repo.create(path)
    for number in range(files):
        repo.write(f"part{number // FILES_PER_FOLDER:03}/module{number:04}.py", _module(chance, number))
    repo.commit("Begin with every module")
    repo.commit_file("part000/module0000.py", _module(chance, 0), "Write the first module again")
    return History("wide", path, 2)


def even(path: Path, commits: int) -> History:
    """A history whose files and commits stay as large however long it gets, the same on every machine."""
    chance = random.Random(SEED)  # noqa: S311 - repeatable content, nothing secret
    repo = Repo.create(path)
    names = [f"{verb}_{place}" for place in range(EVEN_FUNCTIONS // len(_VERBS)) for verb in _VERBS]
    files = [[_function(chance, name) for name in names] for _ in range(EVEN_FILES)]
    stream = []
    for number in range(commits):
        message = f"Change {chance.choice(_THINGS)} number {number}"
        when = f"committer Ada <ada@example.com> {1_500_000_000 + 60 * number} +0000"
        stream += [f"commit refs/heads/main\n{when}\n", _counted(message)]
        for changed in chance.sample(range(EVEN_FILES), CHANGED_FILES) if number else range(EVEN_FILES):
            for place in chance.sample(range(EVEN_FUNCTIONS), CHANGED_FUNCTIONS):
                files[changed][place] = _function(chance, names[place])
            stream += [f"M 100644 inline module{changed:03}.py\n", _counted("".join(files[changed]))]
    repo.git("fast-import", "--quiet", stdin="".join(stream).encode())
    repo.git("reset", "--quiet", "--hard", "main")
    return History("even", path, commits)


def add_commit(history: History, number: int) -> None:
    """One more commit as people make them: a function more in one source file, its message above it."""
    repo = Repo(history.path)
    files = sorted(history.path.rglob("*.py")) or sorted(history.path.rglob("*.[jrkt]*s"))
    file = files[number % len(files)]
    chance = random.Random(number)  # noqa: S311 - repeatable content, nothing secret
    repo.write(
        str(file.relative_to(history.path)), file.read_bytes() + _function(chance, f"added_{number}").encode()
    )
    repo.commit(f"Add a function to {file.name}, number {number}")


def _ancestor(clone: Path, commits: int) -> str:
    """The newest first-parent ancestor of HEAD that reaches at most so many commits."""
    line = git(clone, "rev-list", "--first-parent", "--reverse", "HEAD").split()
    low, high = 0, len(line) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _count(clone, line[middle]) <= commits else (low, middle - 1)
    return line[low]


def _count(clone: Path, tip: str) -> int:
    return int(git(clone, "rev-list", "--count", tip))


def _counted(text: str) -> str:
    """As fast-import reads data, of one byte a character."""
    return f"data {len(text)}\n{text}\n"


def _module(chance: random.Random, number: int) -> str:
    functions = (_function(chance, f"{chance.choice(_VERBS)}_{place}") for place in range(FUNCTIONS_PER_FILE))
    return f'"""Module {number}: {chance.choice(_VERBS)}s one {chance.choice(_THINGS)}."""\n' + "".join(
        functions
    )


def _function(chance: random.Random, name: str) -> str:
    thing, other = chance.sample(_THINGS, 2)
    lines = [f"    {thing} = {chance.choice(_VERBS)}({other}, {chance.randrange(1000)})" for _ in range(4)]
    return f"\n\ndef {name}_{thing}({other}):\n" + "\n".join((*lines, f"    return {thing}\n"))
