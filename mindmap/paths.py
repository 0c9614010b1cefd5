"""Paths of files as a mindmap stores them (relative to its workspace, absolute outside), and paths of workspaces."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mindmap import validation
from stores.errors import LineageError


class BadPath(LineageError):
    """Error for a path that does not name a file, or a directory that cannot be a workspace."""


class NoWorkspace(BadPath):
    """Error for an operation that needs a workspace, if neither the map nor the caller names one."""


@dataclass(frozen=True, slots=True)
class WorkspacePaths:
    """Path normalizer of a workspace.

    `root` is the workspace with symbolic links resolved. `prefixes` are `root` and the workspace as the map stores it.
    Without a workspace both are empty.
    """

    root: str
    prefixes: tuple[str, ...]

    @classmethod
    def from_workspace(cls, workspace: str | None) -> WorkspacePaths:
        """Return the normalizer for a map with this workspace, or without one."""
        if not workspace:
            return cls("", ())
        root = resolve_symlinks(workspace)
        # The longer prefix first, as one of these directories may be inside the other.
        return cls(root, tuple(sorted({root, _normalize(workspace)}, key=len, reverse=True)))

    def normalize(self, path: str) -> str:
        """Return the path as a map stores it. Raises BadPath if it cannot name a file."""
        file = validation.validate_text(path, "path", max_length=validation.MAX_PATH_LENGTH, strip=False)
        if self.root and not file.startswith("/"):
            file = f"{self.root}/{file}"
        file = _normalize(file)
        for prefix in self.prefixes:
            if file == prefix:
                raise BadPath(f"{file} is the workspace itself.", hint="Give the path of a file in it.")
            if file.startswith(f"{prefix}/"):
                return file[len(prefix) + 1 :]
        if file == os.curdir:
            raise BadPath(f"{path!r} does not name a file.", hint="Give the path of a file.")
        return file

    def follow_links(self, path: str) -> str:
        """Return the path of the file that an agent's path names, as a map stores it. Raises BadPath.

        Links to directories are followed, so that a file has one path and none outside passes for one in the workspace.
        A link to a file stays: git and the watcher record it as a file of its own.
        """
        written_path = self.normalize(path)
        if not self.root:
            return written_path
        file = Path(self.root, path)
        return self.normalize(str(Path(resolve_symlinks(str(file.parent)), file.name)))

    def describe_outside(self, *stored_paths: str | None) -> str:
        """Return a warning that names the paths outside the workspace; an empty text if there are none."""
        outside = [path for path in stored_paths if self.root and path and path.startswith("/")]
        return f"Outside the workspace, logged by absolute path: {', '.join(outside)}." if outside else ""


def decode_path(path: bytes) -> str:
    """Decode a path as UTF-8; other bytes become backslash escapes."""
    return path.decode("utf-8", errors="backslashreplace")


def validate_workspace(path: str) -> str:
    """Return the absolute path of a workspace. Raises BadPath unless it is an existing directory."""
    directory = normalize_workspace(path)
    if not os.path.isdir(directory):  # noqa: PTH112 - unlike `Path.is_dir`, it raises no errors
        raise BadPath(
            f"{directory} is not a directory.", hint="Give the path of a directory in a git repository."
        )
    return directory


def normalize_workspace(path: str) -> str:
    """Return the normalized path of a workspace, which need not exist. Raises BadPath if it is not absolute."""
    workspace = validation.validate_text(path, "workspace path", max_length=validation.MAX_PATH_LENGTH)
    directory = Path(os.path.expanduser(workspace))  # noqa: PTH111 - it leaves an unknown user's ~ unchanged
    if not directory.is_absolute():
        raise BadPath(
            f"{workspace!r} is not an absolute path.",
            hint="Give the workspace's complete path, starting with /.",
        )
    return _normalize(str(directory))


def resolve_workspace(current: str | None, requested: str | None) -> str:
    """Return the workspace of a map: its current one, or the requested one if there is none or it no longer exists.

    Raises NoWorkspace if both are None, and BadPath if the resulting workspace does not exist, or the requested one
    differs from an existing current one.
    """
    if current is None and requested is None:
        raise NoWorkspace(
            "The map has no workspace.", hint="Give workspacePath, the absolute path of a git work tree."
        )
    if requested is None:
        return validate_workspace(current or "")
    requested = validate_workspace(requested)
    if current is None or not os.path.isdir(current):  # noqa: PTH112 - as above
        return requested
    if os.path.realpath(current) != os.path.realpath(requested):
        raise BadPath(
            f"The map belongs to the workspace {current}.", hint=f"Create another map for {requested}."
        )
    return current


def resolve_symlinks(path: str) -> str:
    """Resolve symbolic links. A path with a NUL, which another program may have written, is only normalized."""
    try:
        return os.path.realpath(path)
    except ValueError:
        return _normalize(path)


def _normalize(path: str) -> str:
    """Normalize a path. Two leading slashes, which `os.path.normpath` does not change, become one."""
    normalized_path = os.path.normpath(path)
    return normalized_path[1:] if normalized_path.startswith("//") else normalized_path
