"""libgit2: memory limits, functions that pygit2 lacks, and translation of errors."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Final, ParamSpec, TypeVar

import pygit2
from pygit2.enums import ConfigLevel, ObjectType, RepositoryOpenFlag

from pipeline.git.errors import (
    NothingToIndex,
    UnreadableObject,
    build_alternate_error,
    build_blocking_file_error,
    build_work_tree_error,
)
from pipeline.git.git_dir import (
    blocks_git,
    find_blocking_git_file,
    find_unreadable_git_file,
    find_unreadable_objects,
    list_object_dirs,
    read_or_empty,
    resolve_common_dir,
)
from stores.errors import build_permission_error

# Size of libgit2's cache of parsed trees and commits (default: 256 MiB). With 6 MiB, and the caches of `repository`
# twice as large, extracting a history took 0.7 % fewer instructions, but 8 MB more memory in each worker.
OBJECT_CACHE_BYTES: Final = 2 << 20
# Size of one mapped window of a pack file. This limit and the next one cost 0.2 % more instructions than libgit2's
# defaults of gigabytes.
PACK_WINDOW_BYTES: Final = 1 << 20
# Size of all mapped windows together. Mapped pages count as memory of the process. With 256 MiB, and windows of 32 MiB,
# all of a pack of 109 MB was mapped.
PACK_MAPPED_BYTES: Final = 32 << 20


# Matches the file in git's message about a loose object that is damaged or has no read permission.
_LOOSE_OBJECT: Final = re.compile(r"\(stored in (.+)\) is corrupt")
# Raw object id of the empty tree. git and libgit2's diff know it without a stored object; `Odb.read` does not.
EMPTY_TREE: Final = bytes.fromhex("4b825dc642cb6eb9a060e54bf8d69288fbee4904")
# Part of libgit2's message about a pack that is gone or damaged.
_LOST_PACK: Final = "invalid packfile"
# Id that no object has. The search for it makes libgit2 list the packs again.
_UNKNOWN_ID: Final = "f" * 40

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _configure_libgit2() -> None:
    pygit2.settings.cache_max_size(OBJECT_CACHE_BYTES)
    pygit2.settings.mwindow_size = PACK_WINDOW_BYTES
    pygit2.settings.mwindow_mapped_limit = PACK_MAPPED_BYTES
    # Verifying its SHA takes a third of the time of reading an object. git does not do it either: zlib has a checksum.
    pygit2.settings.enable_strict_hash_verification(False)
    # Some git versions mark partial clones with this extension. libgit2 can read such clones, and fetches no objects.
    pygit2.settings.set_extensions(["partialclone"])


_configure_libgit2()

# Opening a repository changes the process's environment temporarily, so one thread at a time may do it.
_environment_lock: Final = Lock()


def open_without_index(path: str) -> pygit2.Repository:
    """Open a repository with an empty index in place of `.git/index`.

    libgit2 looks attributes up in the index, and fails for every diff if the index is split, sparse or damaged. Only an
    environment variable can name another index, so it is set, and the user's variables GIT_* are removed, while the
    repository is opened.

    Raises DamagedRepository if `core.worktree` names no directory, and GitError for other problems.
    """
    with _environment_lock:
        hidden_variables = {
            name: os.environ.pop(name) for name in list(os.environ) if name.startswith("GIT_")
        }
        os.environ["GIT_INDEX_FILE"] = f"{os.devnull}/no-index"
        try:
            git = pygit2.Repository(path, RepositoryOpenFlag.FROM_ENV)
            # libgit2 opens these three on first use, with the environment of that time. So use them now.
            _ = git.index, git.odb, git.config
            return git
        except (pygit2.GitError, OSError, UnicodeDecodeError) as error:
            # pygit2 raises UnicodeDecodeError if a path in libgit2's message is not UTF-8.
            _check_work_tree(path)
            raise pygit2.GitError(str(error)) from error
        finally:
            del os.environ["GIT_INDEX_FILE"]
            os.environ.update(hidden_variables)


def check_git_dir(git_dir: Path) -> None:
    """Raise DamagedRepository if a file would block git, and StorageError for a file without read permission.

    libgit2 would wait for the blocking file, and report the unreadable one as missing or locked.
    """
    user_files = _list_user_files((ConfigLevel.GLOBAL, ".gitconfig"), (ConfigLevel.XDG, "config"))
    if blocking_user_file := next(filter(blocks_git, user_files), None):
        raise build_blocking_file_error(blocking_user_file)
    if blocking_file := find_blocking_git_file(git_dir):
        # A file outside the git directories can only come from `include.path`.
        is_included = not {git_dir, resolve_common_dir(git_dir)} & set(blocking_file.parents)
        raise build_blocking_file_error(blocking_file, "include.path" if is_included else "")
    if unreadable_file := find_unreadable_git_file(git_dir):
        raise build_permission_error(unreadable_file)


def check_objects(objects_dir: Path, message: str = "") -> None:
    """Raise StorageError for objects without read permission. libgit2 reports them as missing.

    `message`: git's message, which can name the file of an object.
    """
    directories = list_object_dirs(objects_dir)
    unreadable_path = next(filter(None, map(find_unreadable_objects, directories)), None)
    if (match := _LOOSE_OBJECT.search(message)) and not os.access(match[1], os.R_OK):
        unreadable_path = Path(match[1])
    if unreadable_path:
        raise build_permission_error(unreadable_path)


def check_alternates(objects_dir: Path) -> None:
    """Raise DamagedRepository if an alternate object directory is missing. Call this only if no history can be read.

    A repository that needs no alternate may still name one that was deleted.
    """
    for directory in list_object_dirs(objects_dir):
        if not directory.is_dir():
            raise build_alternate_error(directory)


def _check_work_tree(path: str) -> None:
    """Raise DamagedRepository if `core.worktree` names no directory, for which libgit2's error is misleading."""
    # For any other problem, the caller raises its own error.
    with suppress(pygit2.GitError, OSError, KeyError, ValueError):
        git_dir = pygit2.discover_repository(path) or path
        value = dict(read_settings(pygit2.Repository(git_dir, RepositoryOpenFlag.BARE)))["core.worktree"]
        if value and not (Path(git_dir) / value).is_dir():
            raise build_work_tree_error(Path(git_dir), value)


def list_default_user_files() -> list[Path]:
    """Return the paths where git looks for the user's attributes and ignore files if no setting names others."""
    return _list_user_files((ConfigLevel.XDG, "attributes"), (ConfigLevel.XDG, "ignore"))


def _list_user_files(*names: tuple[ConfigLevel, str]) -> list[Path]:
    """Return the paths of files with these names in the user's directories; none for an unknown directory."""
    directories = pygit2.settings.search_path
    return [Path(directories[level], name) for level, name in names if directories[level]]


def find_user_attributes_file(configuration: Mapping[str, str]) -> Path | None:
    """Return the user's attributes file: `core.attributesFile`, or git's default path; None if there is no path."""
    home, xdg_directory = (
        pygit2.settings.search_path[level] for level in (ConfigLevel.GLOBAL, ConfigLevel.XDG)
    )
    path = configuration.get("core.attributesfile") or (xdg_directory and f"{xdg_directory}/attributes")
    if path.startswith("~/"):
        return Path(home) / path.removeprefix("~/")
    return Path(path) if path else None


def is_implicitly_bare(git: pygit2.Repository, git_dir: Path) -> bool:
    """Return whether git treats a repository as bare although `core.bare` is not set.

    This is so if no setting names its work tree, its git directory is not called `.git`, and a search from the work
    tree that libgit2 assumes does not find it.
    """
    is_work_tree_known = "core.worktree" in git.config or git_dir.name == ".git"
    return not is_work_tree_known and not is_discoverable_from(Path(git.workdir), git_dir)


def is_discoverable_from(directory: Path, git_dir: Path) -> bool:
    """Return whether the search for a repository from `directory` finds the one with this git directory."""
    discovered_path = pygit2.discover_repository(str(directory))
    return discovered_path is not None and Path(discovered_path).resolve() == git_dir


def describe_head_repair(git_dir: Path, common_dir: Path) -> str:
    """Return sentences that say how to repair HEAD, or its branch. git itself refuses most commands until then."""
    branch = read_or_empty(git_dir / "HEAD").decode("utf-8", "replace").strip().removeprefix("ref: ")
    if not branch.startswith("refs/") or "\0" in branch or not pygit2.reference_is_valid_name(branch):
        return f"Write `ref: refs/heads/BRANCH` into {git_dir / 'HEAD'}, with the name of your branch."
    return (
        f"Write the SHA of a commit into {common_dir / branch}: {git_dir / 'logs' / 'HEAD'} lists earlier ones, the "
        "newest last. If an object is missing, another clone may have it."
    )


def build_head_error(git: pygit2.Repository, root: Path, *, is_bare: bool) -> NothingToIndex:
    """Return the error for a HEAD without a commit. If the repository has other branches, it names the missing one."""
    with ErrorTranslation("the references"):
        names = [reference.name for reference in git.references.iterator()]
        head_target = str(git.lookup_reference("HEAD").target)
    if not names:
        return NothingToIndex(
            f"{root} has no commits yet.", hint="Commit something, then run `lineage index`."
        )
    remote_names = [name.split("/", 3)[-1] for name in names if name.startswith("refs/remotes/")]
    branches = [name.removeprefix("refs/heads/") for name in names if name.startswith("refs/heads/")]
    branches = branches or sorted({*remote_names} - {"HEAD"})
    branch = shlex.quote(branches[0]) if len(branches) == 1 else "NAME"
    source = " with the name of a branch (`git branch --all` lists them)" if branch == "NAME" else ""
    command = f"git symbolic-ref HEAD refs/heads/{branch}" if is_bare else f"git switch {branch}"
    alternative = "" if is_bare else " or commit something,"
    kind = "branch" if head_target.startswith("refs/heads/") else "reference"
    return NothingToIndex(
        f"HEAD of {root} names the {kind} {head_target.removeprefix('refs/heads/')!r:.200}, which does not exist.",
        hint=f"Run `{command}`{source},{alternative} then `lineage index`.",
    )


def read_settings(git: pygit2.Repository) -> Iterator[tuple[str, str]]:
    """Yield name and value of all settings; "true" for a setting without a value.

    Bytes of a value that are not UTF-8 become surrogates. Settings whose name is not UTF-8, such as those of a branch
    or remote with such a name, are left out.
    """
    entries = iter(git.config)
    while True:
        try:
            entry = next(entries)
        except StopIteration:
            return
        except UnicodeDecodeError:
            continue
        yield entry.name, "true" if entry.raw_value is None else os.fsdecode(entry.raw_value)


def load_mailmap(git: pygit2.Repository) -> pygit2.Mailmap:
    """Load the mailmap of a repository; an empty one if a mailmap file is unreadable or a pipe, which would block."""
    root = Path(git.workdir or git.path)
    configured_names = [value for name, value in read_settings(git) if name == "mailmap.file" and value]
    # `Path.expanduser` would raise for an unknown user.
    names = [".mailmap", *map(os.path.expanduser, configured_names)]
    if any(blocks_git(root / name) for name in names):
        return pygit2.Mailmap()
    try:
        return pygit2.Mailmap.from_repository(git)
    except (pygit2.GitError, KeyError, UnicodeDecodeError):  # unreadable, perhaps at a path that is not UTF-8
        return pygit2.Mailmap()


def resolve_author(mailmap: pygit2.Mailmap, name: str, email: str) -> tuple[str, str]:
    """Return the name and address that the mailmap gives an author, with bytes that are not UTF-8 replaced."""
    with suppress(ValueError):  # a NUL, or an empty name
        try:
            return mailmap.resolve(name, email)
        except UnicodeDecodeError:
            author = mailmap.resolve_signature(pygit2.Signature(name, email))
            return author.raw_name.decode("utf-8", "replace"), author.raw_email.decode("utf-8", "replace")
    return name, email


class ErrorTranslation:
    """Context manager that turns errors of libgit2 into UnreadableObject. `sha`: the object to name in the error.

    It is a class, because it is entered for every object, and a generator takes more time.
    """

    __slots__ = ("_sha",)

    def __init__(self, sha: str) -> None:
        self._sha = sha

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, KeyError):
            raise UnreadableObject(self._sha, f"object {error.args[0]} is missing") from error
        if isinstance(error, (pygit2.GitError, ValueError)):
            raise UnreadableObject(self._sha, str(error)) from error


class ObjectDatabase:
    """Object database that lists the packs again if git has deleted one, as by `git gc`, and retries once.

    libgit2 itself does so only for packs that no multi-pack-index names.
    """

    def __init__(self, odb: pygit2.Odb) -> None:
        self._odb = odb

    def __contains__(self, sha: str) -> bool:
        return sha in self._odb

    def read_with_retry(
        self, read: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Return the result of a function that reads objects. Call it again if git has deleted their pack.

        Raises GitError if the pack is damaged.
        """
        try:
            return read(*args, **kwargs)
        except OSError as error:
            if _LOST_PACK not in str(error):
                raise
        _ = _UNKNOWN_ID in self._odb
        try:
            return read(*args, **kwargs)
        except OSError as error:
            raise pygit2.GitError(str(error)) from error

    def read(self, sha: str | pygit2.Oid) -> tuple[int, bytes]:
        """Return type and data of an object. Raises KeyError if it is missing."""
        return self.read_with_retry(self._odb.read, sha)

    def read_header(self, sha: str) -> tuple[int, int]:
        """Return type and size of an object. Raises KeyError if it is missing."""
        return self.read_with_retry(self._odb.read_header, sha)

    def read_tree(self, object_id: bytes) -> bytes:
        """Return the data of the tree with a raw object id. Raises KeyError if it is missing or no tree."""
        if object_id == EMPTY_TREE:
            return b""
        object_type, data = self.read(pygit2.Oid(raw=object_id))
        if object_type != ObjectType.TREE:
            raise KeyError(object_id.hex())
        return data
