"""A clone -> the working copy that a protocol asks, indexed: made once in a folder, and found there again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from pipeline.options import Encoding
from tests.bench.histories import History, cut
from tests.bench.programs import git, lineage
from tests.eval import hidden_messages
from tests.eval.changelog import leave_out


class Variant(Enum):
    """What the index may know: all, all but announcements of changes, or no messages and no announcements."""

    WHOLE = "whole"
    UNANNOUNCED = "unannounced"
    SCRUBBED = "scrubbed"


@dataclass(frozen=True, slots=True)
class Prepared:
    """`told` is the history in its authors' words, `path` the indexed one; `shas` leads from the first to the second.

    Shas that are not in `shas` are the same in both.
    """

    history: History
    told: Path
    path: Path
    shas: Mapping[str, str]


def prepared(clone: Path, folder: Path, variant: Variant, head: str = "HEAD") -> Prepared:
    """The working copy at `head`, not indexed yet."""
    tip = git(clone, "rev-parse", f"{head}^{{commit}}")
    told = _place(folder, Variant.WHOLE, clone, tip)
    if not told.exists():
        _made(told, lambda part: _cut_at(clone, part, tip))
    history = History.of(clone, told)
    if variant is Variant.WHOLE:
        return Prepared(history, told, told, {})
    path = _place(folder, variant, clone, tip)
    if not path.exists():
        _made(path, lambda part: _without(variant, told, part))
    shas = hidden_messages.shas_of(path) if variant is Variant.SCRUBBED else {}
    return Prepared(history, told, path, shas)


def index(prepared: Prepared, home: Path, encoding: Encoding) -> None:
    """Bring its index to its HEAD."""
    options = ("--incremental", "--no-progress", "--encoder", encoding)
    lineage(home, "index", prepared.path, *options, memory=False)


def _place(folder: Path, variant: Variant, clone: Path, tip: str) -> Path:
    """One place for each history, state of it, and variant: another HEAD is asked in another working copy."""
    return folder / f"{variant.value}-{tip[:12]}" / clone.absolute().as_posix().strip("/").replace("/", "-")


def _without(variant: Variant, told: Path, path: Path) -> None:
    if variant is Variant.SCRUBBED:
        hidden_messages.scrub(told, path)
    else:
        cut(told, path)
    leave_out(path)


def _cut_at(clone: Path, path: Path, tip: str) -> None:
    cut(clone, path)
    git(path, "reset", "--quiet", "--hard", tip)


def _made(path: Path, make: Callable[[Path], None]) -> None:
    """Make a folder under another name first: one that is there is whole."""
    part = path.with_name(f"{path.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.parent.mkdir(parents=True, exist_ok=True)
    make(part)
    part.rename(path)
