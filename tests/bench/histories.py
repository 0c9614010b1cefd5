"""Histories to benchmark: clones of real repositories, limited to a number of commits, and two synthetic ones."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.programs import run_git
from tests.repos import Repo

# Enough to show a cost that grows with the work tree; about the size of a large project of one team.
WIDE_FILES: Final = 5_000
FILES_PER_FOLDER: Final = 50
FUNCTIONS_PER_FILE: Final = 6
SEED: Final = 7
# Uniform history: files of 8 KB; each commit changes a few.
UNIFORM_FILES: Final = 100
UNIFORM_FUNCTIONS: Final = 40
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
    """Work tree to index; `commits` is the number of commits that HEAD reaches."""

    name: str
    path: Path
    commit_count: int

    @classmethod
    def from_clone(cls, source: Path, path: Path) -> History:
        """Return the history of the work tree at `path`, named after the clone's source."""
        folder = source.absolute()
        named_folder = folder.parent if folder.name in ("repo", "repo.git", ".git") else folder
        return cls(named_folder.name.removesuffix(".git"), path, _count_commits(path, "HEAD"))


def clone_history(source: Path, target: Path, max_commits: int | None = None) -> History:
    """Clone one branch of `source` to `target`; reset HEAD to the newest commit that reaches at most `max_commits`."""
    run_git(source, "clone", "--quiet", "--no-local", "--single-branch", str(source.absolute()), str(target))
    if max_commits is not None:
        run_git(target, "reset", "--quiet", "--hard", _find_ancestor(target, max_commits))
    return History.from_clone(source, target)


def measure_pack(source: Path, target: Path) -> int:
    """Return the bytes of the pack files of a fresh single-branch clone, which is made at `target`."""
    run_git(
        source,
        "clone",
        "--quiet",
        "--bare",
        "--no-local",
        "--single-branch",
        str(source.absolute()),
        str(target),
    )
    return sum(pack.stat().st_size for pack in (target / "objects" / "pack").glob("*.pack"))


def create_wide_history(path: Path, files: int = WIDE_FILES) -> History:
    """Create a history of two commits with many small modules at HEAD; deterministic."""
    generator = random.Random(SEED)  # noqa: S311 - repeatable content, nothing secret
    repo = Repo.create(path)
    for number in range(files):
        repo.write(
            f"part{number // FILES_PER_FOLDER:03}/module{number:04}.py", _generate_module(generator, number)
        )
    repo.commit("Begin with every module")
    repo.commit_file("part000/module0000.py", _generate_module(generator, 0), "Write the first module again")
    return History("wide", path, 2)


def create_uniform_history(path: Path, commits: int) -> History:
    """Create a history whose files and commits have a constant size; deterministic."""
    generator = random.Random(SEED)  # noqa: S311 - repeatable content, nothing secret
    repo = Repo.create(path)
    names = [f"{verb}_{place}" for place in range(UNIFORM_FUNCTIONS // len(_VERBS)) for verb in _VERBS]
    files = [[_generate_function(generator, name) for name in names] for _ in range(UNIFORM_FILES)]
    stream = []
    for number in range(commits):
        message = f"Change {generator.choice(_THINGS)} number {number}"
        when = f"committer Ada <ada@example.com> {1_500_000_000 + 60 * number} +0000"
        stream += [f"commit refs/heads/main\n{when}\n", _format_fast_import_data(message)]
        for file_number in (
            generator.sample(range(UNIFORM_FILES), CHANGED_FILES) if number else range(UNIFORM_FILES)
        ):
            for place in generator.sample(range(UNIFORM_FUNCTIONS), CHANGED_FUNCTIONS):
                files[file_number][place] = _generate_function(generator, names[place])
            stream += [
                f"M 100644 inline module{file_number:03}.py\n",
                _format_fast_import_data("".join(files[file_number])),
            ]
    repo.git("fast-import", "--quiet", stdin="".join(stream).encode())
    repo.git("reset", "--quiet", "--hard", "main")
    return History("even", path, commits)


def add_commit(history: History, number: int) -> None:
    """Add a commit that appends a function to one source file."""
    repo = Repo(history.path)
    files = sorted(history.path.rglob("*.py")) or sorted(history.path.rglob("*.[jrkt]*s"))
    file = files[number % len(files)]
    generator = random.Random(number)  # noqa: S311 - repeatable content, nothing secret
    repo.write(
        str(file.relative_to(history.path)),
        file.read_bytes() + _generate_function(generator, f"added_{number}").encode(),
    )
    repo.commit(f"Add a function to {file.name}, number {number}")


def _find_ancestor(clone: Path, commits: int) -> str:
    """Return the newest first-parent ancestor of HEAD that reaches at most `commits` commits."""
    ancestors = run_git(clone, "rev-list", "--first-parent", "--reverse", "HEAD").split()
    low, high = 0, len(ancestors) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high) if _count_commits(clone, ancestors[middle]) <= commits else (low, middle - 1)
        )
    return ancestors[low]


def _count_commits(clone: Path, tip: str) -> int:
    return int(run_git(clone, "rev-list", "--count", tip))


def _format_fast_import_data(text: str) -> str:
    """Format ASCII text as fast-import data."""
    return f"data {len(text)}\n{text}\n"


def _generate_module(generator: random.Random, number: int) -> str:
    functions = (
        _generate_function(generator, f"{generator.choice(_VERBS)}_{place}")
        for place in range(FUNCTIONS_PER_FILE)
    )
    return f'"""Module {number}: {generator.choice(_VERBS)}s one {generator.choice(_THINGS)}."""\n' + "".join(
        functions
    )


def _generate_function(generator: random.Random, name: str) -> str:
    thing, other = generator.sample(_THINGS, 2)
    lines = [
        f"    {thing} = {generator.choice(_VERBS)}({other}, {generator.randrange(1000)})" for _ in range(4)
    ]
    return f"\n\ndef {name}_{thing}({other}):\n" + "\n".join((*lines, f"    return {thing}\n"))
