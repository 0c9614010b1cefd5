"""Path normalization: relative to the workspace for files inside it, absolute for files outside."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mindmap import validation
from stores.errors import LineageError


class BadPath(LineageError):
    """A path that does not name a file, or a directory that cannot be a workspace."""


class NoWorkspace(BadPath):
    """Neither the map nor the caller names a workspace."""


@dataclass(frozen=True, slots=True)
class WorkspacePaths:
    """Path normalizer of a workspace.

    `root` is the workspace with symbolic links resolved; `prefixes` are `root` and the workspace as it was written.
    """

    root: str
    prefixes: tuple[str, ...]

    @classmethod
    def from_workspace(cls, workspace: str | None) -> WorkspacePaths:
        """Return the normalizer for a map with this workspace, or without one."""
        if not workspace:
            return cls("", ())
        root = real_path(workspace)
        # The longer prefix first: one may lie inside the other.
        return cls(root, tuple(sorted({root, _normalize(workspace)}, key=len, reverse=True)))

    def normalize(self, path: str) -> str:
        """Return the path as a map stores it."""
        name = validation.validate_text(path, "path", max_length=validation.MAX_PATH_LENGTH, strip=False)
        if self.root and not name.startswith("/"):
            name = f"{self.root}/{name}"
        name = _normalize(name)
        for root in self.prefixes:
            if name == root:
                raise BadPath(f"{name} is the workspace itself.", hint="Name a file in it.")
            if name.startswith(f"{root}/"):
                return name[len(root) + 1 :]
        if name == os.curdir:
            raise BadPath(f"{path!r} does not name a file.", hint="Name a file.")
        return name


def decode_path(path: bytes) -> str:
    """Decode a path as UTF-8; other bytes become backslash escapes."""
    return path.decode("utf-8", errors="backslashreplace")


def existing_workspace(path: str) -> str:
    """Return the absolute path of an existing workspace directory."""
    directory = absolute_workspace(path)
    if not os.path.isdir(directory):  # noqa: PTH112 - unlike `Path.is_dir`, it raises no errors
        raise BadPath(
            f"{directory} is not a directory.", hint="Give the path of a directory in a git repository."
        )
    return directory


def absolute_workspace(path: str) -> str:
    """Return the absolute path of a workspace, which need not exist."""
    name = validation.validate_text(path, "workspace path", max_length=validation.MAX_PATH_LENGTH)
    directory = Path(os.path.expanduser(name))  # noqa: PTH111 - it leaves an unknown user's ~ unchanged
    if not directory.is_absolute():
        raise BadPath(
            f"{name!r} is not an absolute path.", hint="Give the workspace's complete path, starting with /."
        )
    return _normalize(str(directory))


def resolve_workspace(current: str | None, requested: str | None) -> str:
    """Return the workspace of a map: the current one, or the requested one if it has none or its own is gone.

    Raises BadPath if the requested workspace differs from an existing current one.
    """
    if current is None and requested is None:
        raise NoWorkspace(
            "The map has no workspace.", hint="Give workspacePath, the absolute path of a git work tree."
        )
    if requested is None:
        return existing_workspace(current or "")
    requested = existing_workspace(requested)
    if current is None or not os.path.isdir(current):  # noqa: PTH112 - as above
        return requested
    if os.path.realpath(current) != os.path.realpath(requested):
        raise BadPath(
            f"The map belongs to the workspace {current}.", hint=f"Create another map for {requested}."
        )
    return current


def real_path(path: str) -> str:
    """Resolve symbolic links. A path with a NUL, which another program may have written, is only normalized."""
    try:
        return os.path.realpath(path)
    except ValueError:
        return _normalize(path)


def _normalize(path: str) -> str:
    """Normalize a path, including two leading slashes, which POSIX leaves to the system."""
    normal = os.path.normpath(path)
    return normal[1:] if normal.startswith("//") else normal
