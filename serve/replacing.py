"""A person's own file, read and replaced: it is the old one or the new one at every moment, never half of one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stores.errors import LineageError


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
