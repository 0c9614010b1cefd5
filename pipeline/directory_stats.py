"""Which paths each commit changed, from the git program: five times as fast as libgit2 with its renames.

A renamed file counts as two changed ones, under its old and its new name: finding the pairs means reading both.

Changes -> what happened in each directory, at every depth that a pattern may name.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Final

import polars as pl

from pipeline.file_roles import kind_of
from pipeline.git import commit_graph
from pipeline.git.changes import shown_path
from pipeline.git.repository import Repository

# Plumbing, so that no setting of the person's changes what it prints; a merge brings what differs from each parent.
COMMAND: Final = (
    *("diff-tree", "--stdin", "-r", "-c", "--root", "-z", "--name-only", "--no-renames", "-O/dev/null"),
)
READ_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Changed:
    """What a history changed: for each change the number of its commit and the number of its path.

    `total` commits were to be read, `read` of them could be. `paths` are distinct; bytes that are not UTF-8 stand in
    them as `\\xNN`.
    """

    total: int
    read: int
    paths: tuple[str, ...]
    commit_of: array[int]
    path_of: array[int]


def changed(repository: Repository, head: str) -> Changed:
    """Every change that HEAD reaches."""
    walked = [sha for sha in repository.walk(head) if repository.readable(sha)]
    given = "".join(f"{sha}\n" for sha in walked).encode()
    with commit_graph.program(repository).started(*COMMAND, given=given) as running:
        assert running.process.stdout is not None  # noqa: S101 - started with a pipe
        found = _collected(_words(running.process.stdout), walked)
        code = running.finished().code
    # It ends at the first tree that is missing: the commits after it are those that were not read.
    return found if code else Changed(found.total, len(walked), found.paths, found.commit_of, found.path_of)


def _collected(words: Iterator[bytes], walked: Sequence[str]) -> Changed:
    numbers = {sha.encode(): number for number, sha in enumerate(walked)}
    paths: dict[bytes, int] = {}
    commit_of, path_of = array("L"), array("L")
    commit = last = 0
    for word in words:
        if word in numbers:
            commit = numbers[word]
            last = max(last, commit + 1)
            continue
        commit_of.append(commit)
        path_of.append(paths.setdefault(word, len(paths)))
    return Changed(len(walked), last, tuple(map(shown_path, paths)), commit_of, path_of)


def _words(stream: IO[bytes]) -> Iterator[bytes]:
    """What the zero bytes divide."""
    rest = b""
    while piece := stream.read(READ_BYTES):
        *words, rest = (rest + piece).split(b"\0")
        yield from words


# Deeper than this, a directory is part of something larger that can be named.
DEEPEST: Final = 8
TOP: Final = ""  # stands for the files that lie in no directory


@dataclass(frozen=True, slots=True)
class Directory:
    """What the history did in one directory and below.

    `commits` changed something in it; `hunks` counts files changed, once for each commit. Of its distinct `files`, ever
    there, so many are `code`, `prose` and `data`; `code_hunks` are the hunks of code. `judged` files were looked at, or
    have a telling name, and `machine` of these are a program's work.
    """

    path: str  # ends with a slash
    commits: int
    hunks: int
    code_hunks: int
    files: int
    code: int
    prose: int
    data: int
    judged: int
    machine: int

    @property
    def name(self) -> str:
        """Its last part, in small letters."""
        return self.path.rstrip("/").rpartition("/")[2].lower()

    @property
    def depth(self) -> int:
        """How many directories deep it lies; 1 at the top."""
        return self.path.count("/")


def changes_frame(changed: Changed) -> pl.DataFrame:
    """One row for each change: `commit`, `path`, by number."""
    columns = {"commit": changed.commit_of, "path": changed.path_of}
    return pl.DataFrame({name: pl.Series(values, dtype=pl.UInt32) for name, values in columns.items()})


def paths_frame(paths: tuple[str, ...], machine: Mapping[str, bool]) -> pl.DataFrame:
    """One row for each path: its number and `name`, its `kind`, whether a program wrote it (null: not judged)."""
    return pl.DataFrame(
        {
            "path": pl.Series(range(len(paths)), dtype=pl.UInt32),
            "name": pl.Series(paths, dtype=pl.String),
            "kind": pl.Series([kind_of(path) for path in paths], dtype=pl.String),
            "machine": pl.Series([machine.get(path) for path in paths], dtype=pl.Boolean),
        }
    )


def directories(changes: pl.DataFrame, paths: pl.DataFrame) -> list[Directory]:
    """Every directory, those with the most commits first; `TOP` for the files that lie in none."""
    inside = paths.with_columns(
        pl.Series("directory", [list(above(name)) for name in paths["name"]], dtype=pl.List(pl.String))
    ).explode("directory", empty_as_null=True, keep_nulls=True)
    is_code = (pl.col("kind") == "code") & ~pl.col("machine").fill_null(value=False)
    files = inside.group_by("directory").agg(
        pl.len().alias("files"),
        is_code.sum().alias("code"),
        (pl.col("kind") == "prose").sum().alias("prose"),
        (pl.col("kind") == "data").sum().alias("data"),
        pl.col("machine").is_not_null().sum().alias("judged"),
        pl.col("machine").fill_null(value=False).sum().alias("machine"),
    )
    touched = (
        changes.join(inside.select("path", "directory", is_code.alias("is_code")), on="path")
        .group_by("directory")
        .agg(
            pl.col("commit").n_unique().alias("commits"),
            pl.len().alias("hunks"),
            pl.col("is_code").sum().alias("code_hunks"),
        )
    )
    told = touched.join(files, on="directory").sort("commits", "directory", descending=[True, False])
    return [Directory(**row) for row in told.rename({"directory": "path"}).iter_rows(named=True)]


def above(path: str) -> Iterator[str]:
    """The directories a path lies in, from the top; `TOP` for one that lies in none."""
    parts = path.split("/")[:-1][:DEEPEST]
    if not parts:
        yield TOP
    for depth in range(1, len(parts) + 1):
        yield "/".join(parts[:depth]) + "/"
