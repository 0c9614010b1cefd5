"""Edits of files that belong to the user: managed sections, atomic writes and planned changes.

- `ManagedSection`: text between two marker lines in a user's file. Every other byte of the file stays as it is, and
  removing the section restores the file. A section at the end is inserted after an additional line break, so there is a
  blank line above it if the file ended with a line break.
- `read_file`, `write_file`, `delete_file`, `rename_file`: file operations whose system errors become
  `FileAccessError`. A write is atomic: the file always has its old or its new content.
- `FileChange`: a change that is planned first and applied later, so that an error in the plan of one file leaves all
  files unchanged.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.git.git_dir import blocks_on_open
from stores.errors import LineageError

_WRONG_PATH_HINT: Final = "Move it away, or name another file."
_PERMISSION_HINT: Final = "Check its permissions, then try again."
_DISK_FULL_HINT: Final = "Free some space on the disk, then try again."
# The first five are errors of paths that cannot lead to a regular file, such as a loop of links.
_HINTS: Final = {
    errno.EISDIR: _WRONG_PATH_HINT,
    errno.EEXIST: _WRONG_PATH_HINT,
    errno.ELOOP: _WRONG_PATH_HINT,
    errno.ENOTDIR: _WRONG_PATH_HINT,
    errno.ENAMETOOLONG: _WRONG_PATH_HINT,
    errno.EACCES: _PERMISSION_HINT,
    errno.EPERM: _PERMISSION_HINT,
    errno.EROFS: _PERMISSION_HINT,
    errno.ENOSPC: _DISK_FULL_HINT,
    errno.EDQUOT: _DISK_FULL_HINT,
}


class SectionMarkerError(LineageError):
    """Error for a start marker without an end marker, so that the end of the section is unknown."""

    def __init__(self, start: bytes, end: bytes) -> None:
        super().__init__(
            f"The line `{start.decode()}` is not followed by `{end.decode()}`, so lineage cannot find the end of its "
            "section.",
            hint="Delete what is left of the section, including its first line. Then run the command again.",
        )


class FileAccessError(LineageError):
    """Error for a file that cannot be read, written, renamed or deleted."""


@dataclass(frozen=True, slots=True)
class ManagedSection:
    """Start and end marker lines of a section that lineage writes into a user's file.

    `line_ending`: line ending of the section; None uses the line ending of the file.
    """

    start: bytes
    end: bytes
    line_ending: bytes | None = None

    def is_in(self, text: bytes) -> bool:
        """Return whether the text has the section. Raise SectionMarkerError if the end marker is missing."""
        return bool(self._find_spans(text))

    def insert_into(self, text: bytes, section_text: bytes, offset: int) -> bytes:
        """Return the text with the section, markers included, inserted at `offset`.

        `offset` is the start of a line, or the end of the text.
        """
        line_ending = self._get_line_ending(text)
        section_text = self._convert_line_endings(section_text, text)
        before, after = text[:offset], text[offset:]
        return before + (b"" if after else line_ending) + section_text + line_ending + after

    def update_in(self, text: bytes, section_text: bytes) -> bytes:
        """Return the text with its first section replaced by `section_text`, and without further sections.

        The text must have a section.
        """
        (start, end), *duplicates = self._find_spans(text)
        for span in reversed(duplicates):
            text = self._remove_span(text, *span)
        return text[:start] + self._convert_line_endings(section_text, text[start:end]) + text[end:]

    def remove_from(self, text: bytes) -> bytes:
        """Return the text without its sections, as it was before they were inserted."""
        for start, end in reversed(self._find_spans(text)):
            text = self._remove_span(text, start, end)
        return text

    def _remove_span(self, text: bytes, start: int, end: int) -> bytes:
        """Return the text without the bytes of a section and the line breaks that `insert_into` added around it."""
        line_ending = b"\r\n" if b"\r\n" in text[start:end] else b"\n"
        before, after = text[:start], text[end:].removeprefix(line_ending)
        shortened_before = before.removesuffix(line_ending)
        # The text before and the text after the section stay on separate lines.
        return (shortened_before if shortened_before.endswith(b"\n") or not after else before) + after

    def _get_line_ending(self, text: bytes) -> bytes:
        """Return the line ending of sections in this text."""
        return self.line_ending or (b"\r\n" if b"\r\n" in text else b"\n")

    def _convert_line_endings(self, section: bytes, text: bytes) -> bytes:
        """Return the section with the line ending of sections in this text."""
        return section.replace(b"\n", self._get_line_ending(text))

    def _find_spans(self, text: bytes) -> list[tuple[int, int]]:
        """Return start and end offset of each section, without the line break after it."""
        spans, section_start, offset = [], None, 0
        for line in text.splitlines(keepends=True):
            match line.strip():
                case self.start if section_start is None:
                    section_start = offset
                case self.end if section_start is not None:
                    spans.append((section_start, offset + len(line.rstrip(b"\r\n"))))
                    section_start = None
            offset += len(line)
        if section_start is not None:
            raise SectionMarkerError(self.start, self.end)
        return spans


@dataclass(frozen=True, slots=True)
class FileChange:
    """Planned change of the file `file`.

    `action`: "created", "updated", ..., shown to the user. `content`: the new content, None to write nothing.
    `is_executable`: the written file is made executable. `is_deletion`: the file is deleted. `backup`: path that the
    current file is renamed to first. `restore_from`: path of a file that is renamed to `file`. `notes`: sentences that
    are shown to the user below the action.
    """

    file: Path
    action: str
    content: bytes | None = None
    is_executable: bool = False
    is_deletion: bool = False
    backup: Path | None = None
    restore_from: Path | None = None
    notes: tuple[str, ...] = ()

    def apply(self) -> None:
        """Change the file as planned."""
        if self.backup is not None:
            rename_file(self.file, self.backup)
        if self.restore_from is not None:
            rename_file(self.restore_from, self.file)
        elif self.is_deletion:
            delete_file(self.file)
        elif self.content is not None:
            write_file(self.file, self.content, is_executable=self.is_executable)


def read_file(file: Path) -> bytes | None:
    """Return the content of the file, or None if there is no such file. Raise FileAccessError if it cannot be read."""
    with convert_os_errors(file):
        if blocks_on_open(file):
            raise FileAccessError(f"{file} is no regular file.", hint=_WRONG_PATH_HINT)
        try:
            return file.read_bytes()
        except FileNotFoundError:
            return None


def write_file(
    file: Path, content: bytes, *, is_executable: bool = False, mode_source: Path | None = None
) -> None:
    """Replace the content of the file atomically. Links are followed; an existing file keeps its mode and owner.

    `is_executable` lets everyone who may read the file execute it. `mode_source` is another file whose mode and owner
    are copied.
    """
    with convert_os_errors(mode_source or file):
        target = file.resolve()
        if target.exists() and not target.is_file():
            raise FileAccessError(f"{file} is no regular file.", hint=_WRONG_PATH_HINT)
        target.parent.mkdir(parents=True, exist_ok=True)
        temp_file = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}")
        try:
            _write_temp_file(temp_file, content, mode_source or target)
            if is_executable:
                temp_file.chmod(temp_file.stat().st_mode | (temp_file.stat().st_mode & 0o444) >> 2)
            temp_file.replace(target)
        except BaseException:
            temp_file.unlink(missing_ok=True)
            raise


def create_private_directory(directory: Path) -> None:
    """Create the directory, if needed, so that only its user can read it."""
    with convert_os_errors(directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)


def delete_file(file: Path) -> None:
    """Delete the file if it exists."""
    with convert_os_errors(file):
        file.unlink(missing_ok=True)


def rename_file(file: Path, new_path: Path) -> None:
    """Rename the file. If it is a link, the link is renamed and its target stays."""
    with convert_os_errors(file):
        file.rename(new_path)


def _write_temp_file(temp_file: Path, content: bytes, mode_source: Path) -> None:
    # `tempfile` would set the mode 0600, but a new file must get the mode of the user's umask.
    with temp_file.open("xb") as out:
        if mode_source.exists():
            _copy_mode_and_owner(temp_file, mode_source)
        out.write(content)
        out.flush()
        os.fsync(out.fileno())


def _copy_mode_and_owner(temp_file: Path, source: Path) -> None:
    # Replacing a file needs write permission only on its directory. Without this check, a read-only file would be
    # replaced.
    if not os.access(source, os.W_OK):
        raise PermissionError(errno.EACCES, "the file is read-only")
    status = source.stat()
    with suppress(PermissionError):
        os.chown(temp_file, status.st_uid, status.st_gid)
    temp_file.chmod(status.st_mode & 0o7777)


@contextmanager
def convert_os_errors(file: Path) -> Iterator[None]:
    """Raise FileAccessError for an OSError in the `with` body, which reads or changes this file."""
    try:
        yield
    except OSError as error:
        raise FileAccessError(
            f"{file} could not be read or changed: {(error.strerror or str(error)).lower()}.",
            hint=_HINTS.get(
                error.errno or 0, "Check its permissions and the free disk space, then try again."
            ),
        ) from error
