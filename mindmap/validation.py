"""Validation of the input of mindmap operations: texts, batch sizes, line ranges, and paths.

A line range is `10-20`, or `10` for one line. A mindmap (short: map) stores the path of a file relative to its
workspace; the path of a file outside the workspace is absolute.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stores.errors import LineageError

# Maximum length of a text: ten screens of 2,000 characters. A longer text belongs in a file.
MAX_TEXT_LENGTH: Final = 20_000
# Maximum length of a path, which is PATH_MAX of Linux.
MAX_PATH_LENGTH: Final = 4_096
# Maximum number of nodes, and of links. A larger map is not readable on a page, and every write rewrites the whole map.
MAX_NODES: Final = 20_000
MAX_LINKS: Final = 20_000
# Maximum number of items in one call. Agents send at most about a hundred.
MAX_BATCH_SIZE: Final = 1_000
# Maximum number of levels below the root. JSON readers accept a few hundred nested brackets. A level takes two.
MAX_DEPTH: Final = 64


class OverLimit(LineageError):
    """Error for input that exceeds a limit of a map; the message names the limit."""


class BadText(LineageError):
    """Error for an empty text or batch, or a text with characters that a map file cannot contain."""


def validate_text(
    value: str,
    name: str,
    *,
    max_length: int = MAX_TEXT_LENGTH,
    may_be_empty: bool = False,
    strip: bool = True,
) -> str:
    """Check a text and return it, without surrounding white space if `strip`.

    `name`: name of the text in error messages. Raises OverLimit if the text is too long, and BadText if it is empty or
    contains a NUL or a lone surrogate.
    """
    if len(value) > max_length:
        raise OverLimit(
            f"The {name} has {len(value):,} characters. At most {max_length:,} are possible.",
            hint="Store a summary here and the rest in a file.",
        )
    text = value.strip() if strip else value
    if not text and not may_be_empty:
        raise BadText(f"The {name} is empty.", hint="Give it at least one character other than white space.")
    if "\0" in text or not _is_utf8_encodable(text):
        raise BadText(f"The {name} contains invalid characters.", hint="Remove NUL and lone surrogates.")
    return text


def validate_optional_text(value: str | None, name: str) -> str | None:
    """Check an optional text and return it; None if it is None or empty."""
    return None if value is None else validate_text(value, name, may_be_empty=True) or None


def check_batch_size(items: Sized, name: str, max_size: int = MAX_BATCH_SIZE) -> None:
    """Raise BadText for an empty batch, and OverLimit for a batch larger than `max_size`."""
    if not len(items):
        raise BadText(f"The list of {name} is empty.", hint="Give at least one.")
    if len(items) > max_size:
        raise OverLimit(
            f"At most {max_size:,} {name} are allowed in one list; this one has {len(items):,}.",
            hint="Make several calls.",
        )


def _is_utf8_encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


# Start of a path in a directory whose files the system generates. `/dev/shm` is excluded: it has files of users.
SYSTEM_DIRECTORY: Final = re.compile(r"/(?:proc|sys|dev(?!/shm/))/")
# Agents write `10-20`; `lineage explain` takes `10:20`.
_LINE_RANGE: Final = re.compile(r"\s*([0-9]{1,9})(?:\s*[-:]\s*([0-9]{1,9}))?\s*")


class BadLines(BadText):
    """Error for a text that is not a line range."""


def parse_line_range(lines: str) -> tuple[int, int]:
    """Return the first and the last line of a range, counted from 1, both inclusive. Raises BadLines."""
    match = _LINE_RANGE.fullmatch(lines)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= first <= last:
        raise BadLines(
            f"{lines[:60]!r} is not a line range.",
            hint="Give `10-20`, or `10` for one line. For several ranges, give one that includes them all.",
        )
    return first, last


def normalize_line_range(lines: str | None) -> str | None:
    """Return a line range as a map stores it, `10-20` or `10`. Returns None for None or an empty text."""
    if lines is None or not lines.strip():
        return None
    first, last = parse_line_range(lines)
    return str(first) if first == last else f"{first}-{last}"


class BadPath(LineageError):
    """Error for an invalid path of a file or of a workspace."""


class NoWorkspace(BadPath):
    """Error for an operation that needs a workspace, if neither the map nor the caller names one."""


@dataclass(frozen=True, slots=True)
class WorkspacePaths:
    """Path normalizer of a map's workspace.

    `root` is the workspace with symbolic links resolved. `prefixes` are the paths with which the path of a file in the
    workspace may begin: `root`, and the workspace's path as the map stores it. Both are empty without a workspace.
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
        return cls(root, tuple(sorted({root, _normpath(workspace)}, key=len, reverse=True)))

    def normalize(self, path: str) -> str:
        """Return the path as a map stores it. Raises BadPath if it cannot name a file."""
        file = validate_text(path, "path", max_length=MAX_PATH_LENGTH, strip=False)
        if self.root and not file.startswith("/"):
            file = f"{self.root}/{file}"
        file = _normpath(file)
        for prefix in self.prefixes:
            if file == prefix:
                raise BadPath(f"{file} is the workspace itself.", hint="Give the path of a file in it.")
            if file.startswith(f"{prefix}/"):
                return file[len(prefix) + 1 :]
        if file == os.curdir:
            raise BadPath(f"{path!r} does not name a file.", hint="Give the path of a file.")
        return file

    def follow_links(self, path: str) -> str:
        """Return a path as a map stores it, with symbolic links to directories resolved. Raises BadPath.

        So a file has only one path, and a file outside the workspace has an absolute path even if a link in the
        workspace leads to it. A link to a file is not resolved, since git and the watcher record the link as a file.
        """
        normalized_path = self.normalize(path)
        if not self.root:
            return normalized_path
        file = Path(self.root, path)
        return self.normalize(str(Path(resolve_symlinks(str(file.parent)), file.name)))

    def describe_paths_outside(self, *stored_paths: str | None) -> str:
        """Return a warning that names the paths outside the workspace; an empty text if there are none."""
        outside_paths = [path for path in stored_paths if self.root and path and path.startswith("/")]
        return (
            f"Outside the workspace, stored with absolute paths: {', '.join(outside_paths)}."
            if outside_paths
            else ""
        )


def decode_path(path: bytes) -> str:
    """Decode a path as UTF-8. Bytes that are not UTF-8 become backslash escapes."""
    return path.decode("utf-8", errors="backslashreplace")


def validate_workspace(path: str) -> str:
    """Return the absolute path of a workspace.

    Raises BadPath if the path is relative, is not a directory, or is a directory of the system.
    """
    directory = normalize_workspace(path)
    if not os.path.isdir(directory):  # noqa: PTH112 - unlike `Path.is_dir`, it raises no errors
        raise BadPath(
            f"{directory} is not a directory.", hint="Give the path of a directory in a git repository."
        )
    if SYSTEM_DIRECTORY.match(f"{os.path.realpath(directory)}/"):
        raise BadPath(
            f"{directory} is a directory of the system, whose changes cannot be watched.",
            hint="Give the path of a directory in a git repository.",
        )
    return directory


def normalize_workspace(path: str) -> str:
    """Return the normalized path of a workspace, which need not exist. Raises BadPath if it is not absolute."""
    workspace = validate_text(path, "workspace path", max_length=MAX_PATH_LENGTH)
    directory = Path(os.path.expanduser(workspace))  # noqa: PTH111 - it leaves an unknown user's ~ unchanged
    if not directory.is_absolute():
        raise BadPath(
            f"{workspace!r} is not an absolute path.",
            hint="Give the workspace's complete path, starting with /.",
        )
    return _normpath(str(directory))


def resolve_workspace(current: str | None, requested: str | None) -> str:
    """Return the current workspace of a map if its directory exists, else the requested workspace.

    Raises NoWorkspace if both are None, and BadPath in these cases:

    - The requested workspace does not exist.
    - Both exist and differ.
    - The current workspace does not exist, and none is requested.
    """
    if current is None and requested is None:
        raise NoWorkspace(
            "The map has no workspace.", hint="Give workspacePath, the absolute path of a git work tree."
        )
    if requested is None:
        return validate_workspace(current or "")
    requested = validate_workspace(requested)
    if current is None or not os.path.isdir(current):  # noqa: PTH112 - unlike `Path.is_dir`, it raises no errors
        return requested
    if os.path.realpath(current) != os.path.realpath(requested):
        raise BadPath(
            f"The map belongs to the workspace {current}.", hint=f"Create another map for {requested}."
        )
    return current


def resolve_symlinks(path: str) -> str:
    """Resolve symbolic links. A path with a NUL, as in a map that another program wrote, is only normalized."""
    try:
        return os.path.realpath(path)
    except ValueError:
        return _normpath(path)


def _normpath(path: str) -> str:
    """Normalize a path as `os.path.normpath` does. Unlike that function, replace two leading slashes by one."""
    normalized_path = os.path.normpath(path)
    return normalized_path[1:] if normalized_path.startswith("//") else normalized_path
