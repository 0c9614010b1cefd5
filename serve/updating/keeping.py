"""An environment kept while an installer works on it, and put back unless the work was done.

What is killed puts nothing back: a person is told before how to do that themselves.

pipx and uv change their environments in place. The copy takes little room: large files are linked, since installers
write new files in the place of old ones and never into them; small ones are copied, because some are rewritten.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ENDING: Final = ".before-update"
BROKEN: Final = ".broken-update"
SMALL_BYTES: Final = 1 << 20


@contextmanager
def kept(folder: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Let the body change a folder; when it fails or is interrupted, the folder is what it was.

    `tell` hears first of a command that puts it back, should nobody live to do so.
    """
    copy = folder.with_name(folder.name + ENDING)
    shutil.rmtree(copy, ignore_errors=True)  # of an update that was killed
    shutil.copytree(folder, copy, symlinks=True, copy_function=_copied)
    old, new = shlex.quote(str(folder)), shlex.quote(str(copy))
    tell(f"test -d {new} && rm -rf {old} && mv {new} {old}")
    try:
        yield
    except BaseException:
        # Two renames, and only then what takes its time: the old one is back at once.
        broken = folder.with_name(folder.name + BROKEN)
        shutil.rmtree(broken, ignore_errors=True)
        if folder.exists():
            folder.rename(broken)
        copy.rename(folder)
        shutil.rmtree(broken, ignore_errors=True)
        raise
    shutil.rmtree(copy, ignore_errors=True)


def _copied(source: str, target: str) -> str:
    if Path(source).stat().st_size > SMALL_BYTES:
        try:
            os.link(source, target)
        except OSError:  # a file system without links
            return str(shutil.copy2(source, target))
        return target
    return str(shutil.copy2(source, target))
