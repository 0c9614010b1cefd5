"""libgit2 as this program has it: what it may keep in memory, and its errors as ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final

import pygit2
from pygit2.enums import ConfigLevel

from pipeline.git import git_dir
from pipeline.git.errors import UnreadableObject

# libgit2 keeps parsed trees and commits: its own 256 MiB would grow with the history for years of commits. Only
# what `edited` leaves to it asks for them again. With 6 MiB, and twice of what `repository` keeps, extracting a
# history took 0.7 % fewer instructions and 8 MB more in each worker.
OBJECT_CACHE_BYTES: Final = 2 << 20
# Pack files are mapped in windows, whose pages count as the process's memory. With windows of 32 MiB, 256 in all, a
# process came to hold the whole of a pack of 109 MB; libgit2's own end at gigabytes. These cost 0.2 % of instructions.
PACK_WINDOW_BYTES: Final = 1 << 20
PACK_MAPPED_BYTES: Final = 32 << 20


def _prepare_library() -> None:
    pygit2.settings.cache_max_size(OBJECT_CACHE_BYTES)
    pygit2.settings.mwindow_size = PACK_WINDOW_BYTES
    pygit2.settings.mwindow_mapped_limit = PACK_MAPPED_BYTES
    # git does not recompute an object's sha on reading either: zlib's checksum stands. A third of the time.
    pygit2.settings.enable_strict_hash_verification(False)
    # Some versions of git mark partial clones so. Reading them is safe: libgit2 never fetches what is absent.
    pygit2.settings.set_extensions(["partialclone"])


_prepare_library()


def persons_attributes(configuration: Mapping[str, str]) -> Path | None:
    """The file of attributes that a person has for all repositories: as configured, or where git looks for one."""
    home, usual = (pygit2.settings.search_path[level] for level in (ConfigLevel.GLOBAL, ConfigLevel.XDG))
    named = configuration.get("core.attributesfile") or (usual and f"{usual}/attributes")
    if named.startswith("~/"):
        return Path(home) / named.removeprefix("~/")
    return Path(named) if named else None


def is_bare_unsaid(git: pygit2.Repository, git_dir: Path) -> bool:
    """Whether a repository that does not say so is bare, as git guesses: no work tree is named, or leads to it."""
    named = "core.worktree" in git.config or git_dir.name == ".git"
    return not named and not leads(Path(git.workdir), git_dir)


def leads(folder: Path, git_dir: Path) -> bool:
    """Whether standing in a folder is standing in the repository."""
    found = pygit2.discover_repository(str(folder))
    return found is not None and Path(found).resolve() == git_dir


def mailmap(git: pygit2.Repository) -> pygit2.Mailmap:
    """Whom a repository calls how; nobody where what says so cannot be read, or would be waited for."""
    if git.workdir and git_dir.waits(Path(git.workdir) / ".mailmap"):
        return pygit2.Mailmap()
    try:
        return pygit2.Mailmap.from_repository(git)
    except (pygit2.GitError, KeyError):  # a mailmap that cannot be read renames nobody
        return pygit2.Mailmap()


class Reading:
    """Turns libgit2's errors into ours, naming the commit that cannot be read. Entered for every object."""

    __slots__ = ("_sha",)

    def __init__(self, sha: str) -> None:
        self._sha = sha

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, KeyError):
            raise UnreadableObject(self._sha, f"object {error.args[0]} is missing") from error
        if isinstance(error, (pygit2.GitError, ValueError)):
            raise UnreadableObject(self._sha, str(error)) from error
