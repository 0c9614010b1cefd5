"""The unquantized encoder as a file: made when it is first needed, and again when it is not what it was."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from stores import locking
from stores.locking import Deadline

FOLDER: Final = "models"
NAME: Final = "minilm-fp32.onnx"
LOCK: Final = "making.lock"
# Making takes a second or two; on a machine with much else to do, some more.
WAIT_SECONDS: Final = 60.0
# Of the file that `unquantized` makes; it changes with the bundled file, and so does this.
DIGEST: Final = "35a1e2f0c9ffa0a8ed83a404c754ee59ac8d3ce66248e35a59d76d58571dcd72"


def kept(home: Path) -> Path:
    """The file under the home of the indexes, whole."""
    file = home / FOLDER / NAME
    if not _is_whole(file):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locking.held(file.parent / LOCK, Deadline.after(WAIT_SECONDS)):
            if not _is_whole(file):  # whoever had the lock may have made it
                _make(file)
    return file


def _is_whole(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest() == DIGEST
    except OSError:
        return False


def _make(file: Path) -> None:
    """In one step at the end: killed, it leaves a draft that the next one writes over."""
    from pipeline.models import unquantized

    draft = file.with_name(f"{NAME}.draft")
    with open(draft, "wb", opener=_owners) as opened:  # the owner's alone from its first byte
        opened.write(unquantized.made())
        opened.flush()
        os.fsync(opened.fileno())
    draft.replace(file)


def _owners(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
