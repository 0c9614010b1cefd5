"""Git access of mindmap: a workspace in a repository, parsers of git's output, and ignore rules.

`serve` injects the implementation of the GitRunner protocol. Git sync and the watcher ignore files with fixed names,
the files of mindmaps (short: maps), and the files that git ignores.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from mindmap.validation import decode_path
from stores.errors import LineageError

# Codes of `git status --porcelain` for unmerged files, except DD: both sides deleted the file.
_UNMERGED_CODES: Final = ("AU", "UD", "UA", "DU", "AA", "UU")
# Matches the reflog entries of commands that write files of the new HEAD. Such writes are not recorded as edits.
_CHECKOUT_ENTRY: Final = re.compile(rb"(?:checkout|reset|merge|pull|rebase)\b")
# A git command holds the index lock while it writes files. A lock that is older than this is ignored: the git process
# was killed, or waits for an editor.
MAX_LOCK_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class StatusEntry:
    """One file that differs from HEAD. All paths are relative to the work tree.

    `action` is one of `mindmap.document.ACTIONS`. `previous_path` is the old path of a staged rename. If
    `is_untracked`, the line counts of `git diff` do not describe the file on disk: they are missing, or, after
    `git rm --cached`, they count all lines as deleted.
    """

    path: bytes
    action: str
    previous_path: bytes | None = None
    is_untracked: bool = False


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Numbers of added and deleted lines; both 0 for a binary file."""

    added: int
    deleted: int


def parse_status(status: bytes) -> list[StatusEntry]:
    """Parse the output of `git status --porcelain -z`. Returns one entry for each path, without nested repositories.

    After `git rm --cached` git lists a file as deleted, then as untracked. The last entry wins: it describes the file
    on disk.
    """
    return list({entry.path: entry for entry in _iter_entries(status)}.values())


def parse_numstat(numstat: bytes) -> dict[bytes, LineCounts]:
    """Parse the output of `git diff --numstat -z` into line counts by path; a renamed file has its new path."""
    counts: dict[bytes, LineCounts] = {}
    fields = iter(numstat.split(b"\0"))
    for field in fields:
        if field:
            added, deleted, path = field.split(b"\t", 2)
            if not path:
                _, path = next(fields), next(fields)
            counts[path] = LineCounts(_parse_count(added), _parse_count(deleted))
    return counts


def _iter_entries(status: bytes) -> Iterator[StatusEntry]:
    fields = iter(status.split(b"\0"))
    for field in fields:
        if field:
            code, path = field[:2].decode("ascii", "replace"), field[3:]
            old_path = next(fields) if {"R", "C"} & set(code) else None
            if not path:
                raise GitFailed(
                    "git status lists a file without a name.",
                    hint="Its index is damaged. Run `git read-tree HEAD` to rebuild it; staged changes are lost.",
                )
            is_nested_repository = path.endswith(b"/")
            if not is_nested_repository:
                yield from _iter_file_entries(code, path, old_path)


def _iter_file_entries(code: str, path: bytes, old_path: bytes | None) -> Iterator[StatusEntry]:
    """Yield the entry of a file; for a rename that is not staged, first the deletion of its old path."""
    index_code, worktree_code = code[0], code[1]
    if old_path is not None and index_code == "R" and worktree_code != "D":
        yield StatusEntry(path, "rename", old_path)
        return
    # The rename is not staged, or the file was deleted after the rename was staged.
    if old_path is not None and "R" in code:
        yield StatusEntry(old_path, "delete")
    yield StatusEntry(path, "create" if code == " R" else _parse_action(code), is_untracked=code == "??")


def _parse_action(code: str) -> str:
    if code in _UNMERGED_CODES:
        return "modify"
    if code[1] == "D" or (code[0] == "D" and code[1] == " "):
        return "delete"
    return "create" if code == "??" or "A" in code else "modify"


def _parse_count(digits: bytes) -> int:
    return 0 if digits == b"-" else int(digits)


class GitFailed(LineageError):
    """Error for a git command that failed."""


class NoWorkTree(LineageError):
    """Error for a bare repository, or for a workspace outside the work tree."""


class GitOutput(Protocol):
    """Output of a finished git command."""

    @property
    def stdout(self) -> bytes:
        """Standard output."""

    @property
    def stderr(self) -> str:
        """Standard error."""

    @property
    def exit_code(self) -> int:
        """Exit status."""


class GitRunner(Protocol):
    """Runner of git commands in one repository, without pager, prompt, hooks, file-system monitor or other programs."""

    @property
    def git_dir(self) -> Path:
        """The git directory of the work tree."""

    @property
    def root(self) -> Path | None:
        """The root of the work tree; None for a bare repository."""

    def run(self, *arguments: str | bytes, stdin: bytes | None = None) -> GitOutput:
        """Run a git command until it exits. `stdin` is its input; None means an empty input."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace directory in a git work tree.

    `root` is the work tree with symbolic links resolved. `prefix` is the path of the workspace relative to `root` and
    ends in `/`; it is empty if the workspace is the complete work tree.
    """

    git: GitRunner
    root: bytes
    prefix: bytes

    @classmethod
    def from_path(cls, path: str, git: GitRunner) -> Workspace:
        """Return the workspace at a path, which may contain symbolic links. Raises NoWorkTree."""
        if git.root is None:
            raise NoWorkTree(f"{path} is a bare repository.", hint="Give the path of one of its work trees.")
        root, directory = os.fsencode(os.path.realpath(git.root)), os.fsencode(os.path.realpath(path))
        if directory == root:
            return cls(git, root, b"")
        if not directory.startswith(root + b"/"):
            raise NoWorkTree(
                f"{path} is not in the work tree {git.root}.",
                hint="Give the path of a directory in the work tree.",
            )
        return cls(git, root, directory[len(root) + 1 :] + b"/")

    @property
    def directory(self) -> bytes:
        """The absolute path of the workspace, with symbolic links resolved."""
        return self.root + b"/" + self.prefix.rstrip(b"/") if self.prefix else self.root

    def run_git(self, *arguments: str | bytes) -> bytes:
        """Run git on the files of the workspace and return its standard output. Raises GitFailed."""
        scope = ("--", self.prefix) if self.prefix else ("--",)
        output = self.git.run(*arguments, *scope)
        if output.exit_code:
            last_line = output.stderr.splitlines()[-1:] or [f"exit status {output.exit_code}"]
            raise GitFailed(
                f"git {os.fsdecode(arguments[0])} failed: {last_line[0]}",
                hint="Run `git status` in the workspace and fix the problem that it reports.",
            )
        return output.stdout

    def find_diff_base(self) -> str:
        """Return the revision to compare files with: HEAD, or the empty tree before the first commit."""
        head = self.git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if head.exit_code == 0:
            return "HEAD"
        return self.git.run("hash-object", "-t", "tree", "--stdin").stdout.decode().strip()

    def is_locked(self) -> bool:
        """Return True while a git command writes files of the work tree or the index."""
        with suppress(OSError):
            return time.time() - (self.git.git_dir / "index.lock").lstat().st_mtime < MAX_LOCK_SECONDS
        return False

    def find_checkout_time(self) -> float:
        """Return when git last wrote files to move HEAD, in seconds since 1970.

        Return 0 if HEAD's newest reflog entry is of another command, such as `git commit` or `git switch -c`, or if
        there is no entry.
        """
        output = self.git.run(
            "log", "--walk-reflogs", "--max-count=2", "--format=%H %gs", "HEAD", "--"
        ).stdout
        commit, _, reason = output.partition(b" ")
        is_new_branch = reason.startswith(b"checkout") and output.count(commit) > 1
        with suppress(OSError):
            # Not the time in the entry, which is GIT_COMMITTER_DATE if this variable is set.
            if not is_new_branch and _CHECKOUT_ENTRY.match(reason):
                return (self.git.git_dir / "logs" / "HEAD").stat().st_mtime
        return 0.0

    def list_relative_paths(self, *arguments: str) -> frozenset[bytes]:
        """Return the paths in the workspace that a git command prints, relative to the workspace. Raises GitFailed.

        The command prints paths relative to the work tree, each followed by a NUL.
        """
        printed_paths = self.run_git(*arguments).split(b"\0")
        return frozenset(path for printed_path in printed_paths if (path := self.make_relative(printed_path)))

    def make_relative(self, path: bytes) -> bytes | None:
        """Convert a path relative to the work tree to one relative to the workspace; None for a path outside it."""
        return path[len(self.prefix) :] if path.startswith(self.prefix) else None


# Files and directories with these names are ignored at any depth.
IGNORED_NAMES: Final = frozenset(
    (".git", "node_modules", "dist", "build", ".next", "coverage", ".cache", ".DS_Store")
)
# Temporary files of editors.
TEMPORARY_SUFFIXES: Final = ("~", ".swp", ".tmp")
# JSON files directly in this directory of the workspace are ignored, as they may be maps.
DATA_DIRECTORY: Final = "data"
# The git runner turns on literal pathspecs for every command, but check-ignore refuses to run with them.
CHECK_IGNORE: Final = (
    "--no-literal-pathspecs",
    "check-ignore",
    "--stdin",
    "-z",
    "--verbose",
    "--non-matching",
)
LIST_IGNORED_DIRECTORIES: Final = (
    "ls-files",
    "--others",
    "--ignored",
    "--exclude-standard",
    "--directory",
    "-z",
)
# Maximum number of directories in one git command, since a command line is limited in length.
MAX_DIRECTORY_ARGUMENTS: Final = 500
# Maximum number of runs of check-ignore for one list of paths. It exits at a path that it rejects, and then has to run
# again for the paths after the rejected one.
MAX_GIT_RUNS: Final = 20


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """Fixed ignore rules of one workspace, for git sync and the watcher. They do not include git's ignore rules.

    `root` (the workspace) and `map_directory` are absolute paths with symbolic links resolved. The methods take paths
    relative to the workspace.
    """

    root: bytes
    map_directory: bytes

    @classmethod
    def from_workspace(cls, root: bytes, map_directory: Path) -> IgnoreRules:
        """Return the rules of the workspace at `root`, for maps in `map_directory`."""
        return cls(root, os.fsencode(os.path.realpath(map_directory)))

    def ignores_file(self, path: bytes) -> bool:
        """Return True if a file must not be recorded."""
        return is_ignored(decode_path(path)) or self._is_map_file(path)

    def ignores_directory(self, path: bytes) -> bool:
        """Return True if nothing in a directory may be recorded."""
        return (
            not IGNORED_NAMES.isdisjoint(decode_path(path).split("/"))
            or self.root + b"/" + path == self.map_directory
        )

    def _is_map_file(self, path: bytes) -> bool:
        if self.root == self.map_directory:
            # If a map recorded the writes of its own file, each record would cause the next one.
            return path.startswith(b".") or (b"/" not in path and b".json" in path)
        return (self.root + b"/" + path).startswith(self.map_directory + b"/")


def is_ignored(path: str) -> bool:
    """Return True if fixed rules ignore this path in every workspace. It is relative to the workspace."""
    directory, _, name = path.rpartition("/")
    return (
        name.endswith(TEMPORARY_SUFFIXES)
        or not IGNORED_NAMES.isdisjoint(path.split("/"))
        or (directory == DATA_DIRECTORY and name.endswith(".json"))
    )


def find_ignored_paths(workspace: Workspace, paths: Sequence[bytes]) -> set[bytes]:
    """Return the paths that git ignores and does not track. All paths are relative to the workspace.

    A path that git rejects, such as a path in a submodule, counts as not ignored. After MAX_GIT_RUNS rejected paths,
    all further paths count as not ignored.
    """
    ignored_paths: set[bytes] = set()
    remaining_paths = list(paths)
    for _ in range(MAX_GIT_RUNS):
        if not remaining_paths:
            break
        results = _check_ignore(workspace, remaining_paths)
        ignored_paths |= {path for path, is_path_ignored in results if is_path_ignored}
        remaining_paths = remaining_paths[len(results) + 1 :]
    return ignored_paths


def find_ignored_directories(
    workspace: Workspace, top_directories: Collection[bytes] = ()
) -> frozenset[bytes]:
    """Return the directories of the workspace in which git ignores every new file.

    Only `top_directories` and their subdirectories are searched; the complete workspace if `top_directories` is empty
    or has more than MAX_DIRECTORY_ARGUMENTS directories. All paths are relative to the workspace.
    """
    if 0 < len(top_directories) <= MAX_DIRECTORY_ARGUMENTS:
        scope = [workspace.prefix + path for path in top_directories]
    else:
        scope = [workspace.prefix] if workspace.prefix else []
    output = workspace.git.run(*LIST_IGNORED_DIRECTORIES, "--", *scope)
    repository_paths = [path[:-1] for path in output.stdout.split(b"\0") if path.endswith(b"/")]
    directories = [path for directory in repository_paths if (path := workspace.make_relative(directory))]
    # The output also has directories that git does not ignore but in which it ignores all present files.
    return frozenset(find_ignored_paths(workspace, directories))


def _check_ignore(workspace: Workspace, paths: Sequence[bytes]) -> list[tuple[bytes, bool]]:
    """Return each path with True if git ignores it, in order, up to the first path that git rejects."""
    # Without ./ git would read a path that starts with a colon as a pattern.
    stdin = b"".join(b"./" + workspace.prefix + path + b"\0" for path in paths)
    output = workspace.git.run(*CHECK_IGNORE, stdin=stdin)
    fields = output.stdout.split(b"\0")
    # git prints four fields for each path: source, line, pattern, path. A pattern with ! means not ignored.
    patterns = fields[2::4][: len(fields) // 4]
    return [
        (path, bool(pattern) and not pattern.startswith(b"!"))
        for path, pattern in zip(paths, patterns, strict=False)
    ]
