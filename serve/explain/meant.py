"""Files of HEAD that may have been meant by a name that is none of them."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from pipeline.git.changes import shown_path
from pipeline.git.program import Git

# More are a list to search, not an answer.
MOST: Final = 3


def meant(path: bytes, head: str, git: Git) -> list[str]:
    """The files that have this name in another folder; where there is none, those of a like name in this folder."""
    # A partial clone may lack a folder: what could be listed will do.
    files = git.output("ls-tree", "-r", "-z", "--name-only", "--full-tree", head).out.split(b"\0")
    folder, _, name = path.rpartition(b"/")
    elsewhere = [file for file in files if file.rpartition(b"/")[2].lower() == name.lower()]
    if elsewhere:
        return [shown_path(file) for file in elsewhere[:MOST]]
    here = [shown_path(file) for file in files if file and file.rpartition(b"/")[0] == folder]
    return get_close_matches(shown_path(path), here, n=MOST, cutoff=0.8)
