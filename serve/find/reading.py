"""What the cross-encoder reads of each candidate: a commit's message, and what one file's change shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.cross_encoder import Change
from pipeline.source.languages import language_of
from pipeline.text import semantic_text
from serve.find.fuse import Candidate
from stores.showing import Shelf, Shown


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """A question and the candidates' changes, which are read when somebody asks for them."""

    question: str
    changes: Callable[[], list[Change]]


def pairs(question: str, shelf: Shelf, candidates: Sequence[Candidate]) -> Pairs:
    """One change for each candidate, in their order."""
    hunks = [candidate.hunk_id for candidate in candidates]
    return Pairs(question, lambda: [*map(change, shelf.of(hunks))])


def change(shown: Shown) -> Change:
    """What is read of a hunk."""
    lines = shown.diff.split("\n")
    text = semantic_text(
        message="",
        path=shown.file_path,
        language=language_of(shown.file_path),
        symbols=shown.symbols,
        change=shown.change_kind,
        added="\n".join(line[1:] for line in lines if line.startswith("+")),
        removed="\n".join(line[1:] for line in lines if line.startswith("-")),
    )
    return Change(shown.commit_message, text)
