"""One file, one path: relative to the workspace inside it, absolute outside, however somebody wrote it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mindmap import validation
from stores.errors import LineageError


class BadPath(LineageError):
    """A path that names no file of a map."""


class NoWorkspace(BadPath):
    """Neither the map nor who asks names a workspace."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Paths as a map keeps them; `root` is the workspace without links; `forms` are it and as it was written."""

    root: str
    forms: tuple[str, ...]

    @classmethod
    def of(cls, workspace: str | None) -> Paths:
        """Those of a map with this workspace, or with none."""
        if not workspace:
            return cls("", ())
        root = real(workspace)
        # The longer first: one may lie inside the other.
        return cls(root, tuple(sorted({root, _normal(workspace)}, key=len, reverse=True)))

    def kept(self, path: str) -> str:
        """The path as it is kept."""
        name = validation.text(path, "path", most=validation.LONGEST_PATH, strip=False)
        if self.root and not name.startswith("/"):
            name = f"{self.root}/{name}"
        name = _normal(name)
        for root in self.forms:
            if name == root:
                raise BadPath(f"{name} is the workspace itself.", hint="Name a file in it.")
            if name.startswith(f"{root}/"):
                return name[len(root) + 1 :]
        if name == os.curdir:
            raise BadPath(f"{path!r} names no file.", hint="Name a file.")
        return name


def shown(path: bytes) -> str:
    """A path's bytes as text; one that is not UTF-8 has the other bytes written out."""
    return path.decode("utf-8", errors="backslashreplace")


def workspace(path: str) -> str:
    """A folder that is there, as an absolute path."""
    folder = named(path)
    if not os.path.isdir(folder):  # noqa: PTH112 - unlike `Path.is_dir`, it knows no errors
        raise BadPath(f"{folder} is no folder.", hint="Give the path of a folder in a git repository.")
    return folder


def named(path: str) -> str:
    """The absolute path of a workspace, be it there or not."""
    name = validation.text(path, "workspace path", most=validation.LONGEST_PATH)
    folder = Path(os.path.expanduser(name))  # noqa: PTH111 - leaves nobody's home as it is
    if not folder.is_absolute():
        raise BadPath(f"{name!r} is no absolute path.", hint="Give the workspace's whole path, from / on.")
    return _normal(str(folder))


def settled(own: str | None, given: str | None) -> str:
    """The workspace of a map: its own, or the one given where it has none or its own is gone."""
    if own is None and given is None:
        raise NoWorkspace(
            "The map has no workspace.", hint="Give workspacePath, the absolute path of a git work tree."
        )
    if given is None:
        return workspace(own or "")
    chosen = workspace(given)
    if own is None or not os.path.isdir(own):  # noqa: PTH112 - as above
        return chosen
    if os.path.realpath(own) != os.path.realpath(chosen):
        raise BadPath(f"The map belongs to the workspace {own}.", hint=f"Make another map for {chosen}.")
    return own


def real(path: str) -> str:
    """The path without links; one that no system knows, which another program may have written, as it is."""
    try:
        return os.path.realpath(path)
    except ValueError:  # a NUL
        return _normal(path)


def _normal(path: str) -> str:
    """The path without what says nothing; POSIX lets two slashes in front mean something, and no system here does."""
    normal = os.path.normpath(path)
    return normal[1:] if normal.startswith("//") else normal
