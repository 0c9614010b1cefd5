"""The part of a file that is ours, between two marks; every other byte stays as it is.

Ours can be taken out so that the file is what it was, because a file without a line break at its end is met by
leaving out ours: it then belongs to what was written before the part.

A person's own file, read and replaced: it is the old one or the new one at every moment, never half of one.

A file's change: decided first for all files, so that a refusal finds nothing changed yet, then made.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from stores.errors import LineageError


class BrokenFence(LineageError):
    """One of two marks is missing, so nobody can say what lies between them."""

    def __init__(self, start: bytes, end: bytes) -> None:
        super().__init__(
            f"a `{start.decode()}` has no `{end.decode()}` after it, so what is lineage's cannot be told",
            hint="take the rest of that part out by hand, its mark too, and run the command again",
        )


@dataclass(frozen=True, slots=True)
class Fences:
    """The two lines that enclose a part.

    `breaks`: how many line breaks go between it and what is before it. `eol`: what ends its lines; None: what
    ends the others in the file.
    """

    start: bytes
    end: bytes
    breaks: int
    eol: bytes | None = None

    def encloses(self, text: bytes) -> bool:
        """Whether the part is there; BrokenFence when it has no end."""
        return bool(self._spans(text))

    def added(self, text: bytes, part: bytes, at: int) -> bytes:
        """The text with the part, marks and all, on lines of its own before the byte `at`, or at the end."""
        eol, part = self._eol(text), self._fitting(part, text)
        before, after = text[:at], text[at:]
        if not before:
            return part + eol + after
        if before.endswith(b"\n"):
            return before + eol * (self.breaks - 1) + part + eol + after
        return before + eol * self.breaks + part  # the end of a text that ends without a line break

    def renewed(self, text: bytes, part: bytes) -> bytes:
        """The text with this part in the place of the one there, and without any further one."""
        (start, end), *more = self._spans(text)
        for again in reversed(more):
            text = self._cut(text, *again)
        return text[:start] + self._fitting(part, text) + text[end:]

    def removed(self, text: bytes) -> bytes:
        """The text without the part, as it was before it was added."""
        for start, end in reversed(self._spans(text)):
            text = self._cut(text, start, end)
        return text

    def _cut(self, text: bytes, start: int, end: int) -> bytes:
        eol = self._eol(text)
        before, after = text[:start], text[end:]
        if not after:
            return _shortened(before, eol, self.breaks)
        less = _shortened(before, eol, self.breaks - 1)
        return (less if less.endswith(b"\n") else before) + after.removeprefix(eol)

    def _eol(self, text: bytes) -> bytes:
        return self.eol or (b"\r\n" if b"\r\n" in text else b"\n")

    def _fitting(self, part: bytes, text: bytes) -> bytes:
        return part.replace(b"\n", self._eol(text))

    def _spans(self, text: bytes) -> list[tuple[int, int]]:
        """First and last byte of each part, without the line break after it."""
        spans, begun, at = [], None, 0
        for line in text.splitlines(keepends=True):
            match line.strip():
                case self.start if begun is None:
                    begun = at
                case self.end if begun is not None:
                    spans.append((begun, at + len(line.rstrip(b"\r\n"))))
                    begun = None
            at += len(line)
        if begun is not None:
            raise BrokenFence(self.start, self.end)
        return spans


def _shortened(text: bytes, eol: bytes, times: int) -> bytes:
    for _ in range(times):
        text = text.removesuffix(eol)
    return text


class FileRefused(LineageError):
    """The system does not let the file be read or written."""


def content_of(file: Path) -> bytes | None:
    """What is in the file; None where there is none."""
    with _refusals(file):
        try:
            return file.read_bytes()
        except FileNotFoundError:
            return None


def replace(file: Path, content: bytes, *, executable: bool = False, like: Path | None = None) -> None:
    """Put the content in the file's place; a link is followed, and a file that is there keeps its mode and owner.

    `executable` gives whoever may read the file the right to run it; `like` is the file to take mode and owner of
    instead.
    """
    with _refusals(like or file):
        target = file.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}")
        try:
            _write(draft, content, like or target)
            if executable:
                draft.chmod(draft.stat().st_mode | (draft.stat().st_mode & 0o444) >> 2)
            draft.replace(target)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise


def delete(file: Path) -> None:
    """Take the file away."""
    with _refusals(file):
        file.unlink(missing_ok=True)


def rename(file: Path, new: Path) -> None:
    """Give the file, or the link, another name."""
    with _refusals(file):
        file.rename(new)


def _write(draft: Path, content: bytes, like: Path) -> None:
    # Made by open(), so that a new file gets the mode that the person's umask gives to new files.
    with draft.open("xb") as out:
        if like.exists():
            _take_after(draft, like)
        out.write(content)
        out.flush()
        os.fsync(out.fileno())


def _take_after(draft: Path, file: Path) -> None:
    if not os.access(file, os.W_OK):  # replacing it would need no leave of the file itself
        raise PermissionError(None, "the file is read-only")
    old = file.stat()
    with suppress(PermissionError):
        os.chown(draft, old.st_uid, old.st_gid)
    draft.chmod(old.st_mode & 0o7777)


@contextmanager
def _refusals(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileRefused(
            f"{file} stays as it is: {(error.strerror or str(error)).lower()}.",
            hint="Nothing was written to it. Look at its permissions and at the disk, then try again.",
        ) from error


@dataclass(frozen=True, slots=True)
class Change:
    """What is to become of one file.

    `name` is what a person calls it, `said` one word for what happens. `content` is the file's new content; None
    leaves it alone. `gone` deletes it. `aside` is the name that the file there now gets first, `back` a file that
    gets this one's name.
    """

    name: str
    file: Path
    said: str
    content: bytes | None = None
    executable: bool = False
    gone: bool = False
    aside: Path | None = None
    back: Path | None = None
    notes: tuple[str, ...] = field(default=())

    def make(self) -> None:
        """Change the file."""
        if self.aside is not None:
            rename(self.file, self.aside)
        if self.back is not None:
            rename(self.back, self.file)
        elif self.gone:
            delete(self.file)
        elif self.content is not None:
            replace(self.file, self.content, executable=self.executable)
