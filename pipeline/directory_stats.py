"""Number of changes and files per directory, computed from the paths that each commit of a history changed.

The git program lists the paths, without rename detection. libgit2 with rename detection would take five times as long.
So a renamed file counts as two changed files, one under the old path and one under the new path.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Final

import polars as pl

from pipeline.file_classification import classify_kind
from pipeline.git import commit_graph
from pipeline.git.changes import decode_path, list_parent_directories
from pipeline.git.libgit2 import check_objects
from pipeline.git.ranges import find_read_errors
from pipeline.git.repository import Repository

# `-c`: for a merge, list the paths that differ from every parent. `--name-status`: print a status before each path, so
# that no path is taken for the SHA of a commit. The last two options override user settings.
DIFF_TREE_ARGUMENTS: Final = (
    "diff-tree", "--stdin", "-r", "-c", "--root", "-z", "--name-status", "--no-renames", "-O/dev/null",
    "--ignore-submodules=none",
)  # fmt: skip
# Bytes of git's output to read at once.
READ_BYTES: Final = 1 << 20
# Depth of the deepest directories with stats. A file below them counts for the directories down to this depth.
MAX_DEPTH: Final = 8
# Value of `DirectoryStats.path` for the files that are in no directory, at the root of the repository.
ROOT: Final = ""


@dataclass(frozen=True, slots=True)
class HistoryChanges:
    """Paths that the commits of a history changed.

    `total_commits`: number of commits that can be compared with their parents.
    `readable_commits`: number of these commits whose paths git could list.
    `paths`: distinct paths, with bytes that are not UTF-8 as `\\xNN`.
    `commit_numbers`, `path_numbers`: two arrays of the same length, with an element per change. Commits are numbered
    from 0, parents before children. A path number is an index into `paths`.
    """

    total_commits: int
    readable_commits: int
    paths: tuple[str, ...]
    commit_numbers: array[int]
    path_numbers: array[int]


def read_history_changes(repository: Repository, head: str) -> HistoryChanges:
    """Read the paths that each commit changed, of the commits that `head` reaches.

    Commits at a shallow boundary, and commits with missing or damaged trees, are left out.
    """
    shas = [sha for sha in repository.walk(head) if repository.can_diff(sha)]
    changes = _read_changes(repository, shas)
    if changes.readable_commits < len(shas):  # git stops at the first tree that it cannot read
        check_objects(repository.objects_dir)
        git = commit_graph.create_git_program(repository)
        unreadable = {error.sha for error in find_read_errors(repository, git, shas)}
        readable_shas = [sha for sha in shas if sha not in unreadable]
        changes = replace(_read_changes(repository, readable_shas), total_commits=len(shas))
    return changes


def _read_changes(repository: Repository, shas: Sequence[str]) -> HistoryChanges:
    """Read the changes of the commits up to the first one that git cannot read."""
    stdin = "".join(f"{sha}\n" for sha in shas).encode()
    with commit_graph.create_git_program(repository).start(*DIFF_TREE_ARGUMENTS, stdin=stdin) as git_process:
        assert git_process.process.stdout is not None  # noqa: S101 - `start` pipes it
        changes = _parse_output(_split_at_nul(git_process.process.stdout), shas)
        exit_code = git_process.wait().exit_code
    # If git succeeded, it read all commits, even if its output ends earlier: it omits commits that changed no path.
    return changes if exit_code else replace(changes, readable_commits=len(shas))


def _parse_output(fields: Iterator[bytes], shas: Sequence[str]) -> HistoryChanges:
    """Parse the fields of git's output: the SHA of each commit, followed by a status and a path for each change.

    `shas`: the commits that git was asked for, in their order.
    """
    commit_number_by_sha = {sha.encode(): number for number, sha in enumerate(shas)}
    path_number_by_path: dict[bytes, int] = {}
    commit_numbers, path_numbers = array("L"), array("L")
    commit_number = readable_commits = 0
    for field in fields:
        if field in commit_number_by_sha:
            commit_number = commit_number_by_sha[field]
            readable_commits = max(readable_commits, commit_number + 1)
            continue
        path = next(fields, None)  # the field itself is the status
        if path is None:  # git was killed
            break
        commit_numbers.append(commit_number)
        path_numbers.append(path_number_by_path.setdefault(path, len(path_number_by_path)))
    paths = tuple(map(decode_path, path_number_by_path))
    return HistoryChanges(len(shas), readable_commits, paths, commit_numbers, path_numbers)


def _split_at_nul(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the fields of a stream in which a NUL byte ends each field."""
    incomplete_field = b""
    while block := stream.read(READ_BYTES):
        *fields, incomplete_field = (incomplete_field + block).split(b"\0")
        yield from fields


@dataclass(frozen=True, slots=True)
class DirectoryStats:
    """Numbers of changes and files of a directory with its subdirectories, over a history.

    `path`: path of the directory with a slash at the end; ROOT for the files in no directory.
    `commits`: number of commits that changed a file in the directory.
    `hunks`: number of changed files, summed over the commits. `code_hunks`: the part of this sum from files with code
    that is not generated.
    `files`: number of distinct paths that ever existed. `prose_files`, `data_files`: how many of them are prose, and
    data. `code_files`: how many of them are code that is not generated.
    `inspected_files`: number of files whose content was read, or whose name only generated files have.
    `generated_files`: how many of the inspected files are generated.
    """

    path: str
    commits: int
    hunks: int
    code_hunks: int
    files: int
    code_files: int
    prose_files: int
    data_files: int
    inspected_files: int
    generated_files: int

    @property
    def name(self) -> str:
        """Last part of the path, in lower case."""
        return self.path.rstrip("/").rpartition("/")[2].lower()

    @property
    def depth(self) -> int:
        """Number of directories in the path: 0 for ROOT, 1 for `docs/`."""
        return self.path.count("/")


def build_changes_frame(history: HistoryChanges) -> pl.DataFrame:
    """Return one row per change, with the numbers of its `commit` and its `path`."""
    columns = {"commit": history.commit_numbers, "path": history.path_numbers}
    return pl.DataFrame({name: pl.Series(values, dtype=pl.UInt32) for name, values in columns.items()})


def build_paths_frame(paths: tuple[str, ...], generated_by_path: Mapping[str, bool]) -> pl.DataFrame:
    """Return a row per path: its number (`path`), its text (`name`), its `kind`, and `is_generated`.

    `generated_by_path`: whether each inspected path is generated. For other paths, `is_generated` is null.
    """
    return pl.DataFrame(
        {
            "path": pl.Series(range(len(paths)), dtype=pl.UInt32),
            "name": pl.Series(paths, dtype=pl.String),
            "kind": pl.Series([classify_kind(path) for path in paths], dtype=pl.String),
            "is_generated": pl.Series([generated_by_path.get(path) for path in paths], dtype=pl.Boolean),
        }
    )


def compute_directory_stats(changes: pl.DataFrame, paths: pl.DataFrame) -> list[DirectoryStats]:
    """Return the stats of every directory and of ROOT, sorted by the number of commits, the highest first.

    `changes`: result of `build_changes_frame`. `paths`: result of `build_paths_frame`.
    """
    paths_by_directory = paths.with_columns(
        pl.Series(
            "directory",
            [list_directories_with_stats(name) for name in paths["name"]],
            dtype=pl.List(pl.String),
        )
    ).explode("directory", empty_as_null=True, keep_nulls=True)
    is_code = (pl.col("kind") == "code") & ~pl.col("is_generated").fill_null(value=False)
    file_counts = paths_by_directory.group_by("directory").agg(
        pl.len().alias("files"),
        is_code.sum().alias("code_files"),
        (pl.col("kind") == "prose").sum().alias("prose_files"),
        (pl.col("kind") == "data").sum().alias("data_files"),
        pl.col("is_generated").is_not_null().sum().alias("inspected_files"),
        pl.col("is_generated").fill_null(value=False).sum().alias("generated_files"),
    )
    change_counts = (
        changes.join(paths_by_directory.select("path", "directory", is_code.alias("is_code")), on="path")
        .group_by("directory")
        .agg(
            pl.col("commit").n_unique().alias("commits"),
            pl.len().alias("hunks"),
            pl.col("is_code").sum().alias("code_hunks"),
        )
    )
    stats = change_counts.join(file_counts, on="directory").sort(
        "commits", "directory", descending=[True, False]
    )
    return [DirectoryStats(**row) for row in stats.rename({"directory": "path"}).iter_rows(named=True)]


def list_directories_with_stats(path: str) -> list[str]:
    """Return the directories above a path, topmost first, down to MAX_DEPTH; only ROOT for a path in no directory."""
    return [f"{directory}/" for directory in list_parent_directories(path)[:MAX_DEPTH]] or [ROOT]
