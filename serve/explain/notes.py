"""Files of HEAD that may have been meant by a name that is none of them.

What limits an answer, in sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from pipeline.git.changes import shown_path
from pipeline.git.git_cli import Git
from pipeline.git.repository import Repository, UnreadableObject
from serve.api_types import ExplainRequest
from serve.explain.blame import Ignoring, Line, Refused
from serve.explain.file_history import Added, Index
from serve.explain.target import Target
from serve.index_status import index_hints
from serve.text import named

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


# More runs of lines than this are a rewrite, and the first ones say so.
NAMED_SPANS: Final = 6


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many of the lines that were asked about have commits that an index may know, and that this one knows."""

    lines: int
    knowable: int
    known: int

    @property
    def share(self) -> float:
        """The share of the lines whose commit the index knows."""
        return round(self.known / self.lines, 6) if self.lines else 0.0


def about_range(target: Target, request: ExplainRequest) -> str:
    """Why a range of a file that has lines holds none of them; empty where it holds some."""
    count = len(target.lines)
    if not count:
        return f"{target.shown} is empty."
    if request.line_start > count:
        return f"{target.shown} has {_counted(count, 'line')}: the range starts after its end."
    return ""


def about_refusal(refused: Refused, repository: Repository) -> str:
    """Why git could not blame."""
    if repository.is_partial:
        return f"git could not read the history: {refused.reason}. This partial clone lacks it; nothing is fetched."
    return f"git could not say: {refused.reason}."


def about_lines(lines: Sequence[Line], repository: Repository) -> Iterator[str]:
    """What blame could not say about some of the lines."""
    fresh = [line.number for line in lines if not line.committed]
    if fresh:
        yield f"{_named(fresh)} not committed yet."
    ends = [line.number for line in lines if line.origin.commit_sha in repository.boundary]
    if ends:
        yield (
            f"History ends at the boundary of this shallow clone: {_named(ends, 'is', 'are').lower()}"
            " shown at its last commit and may be older; `git fetch --unshallow` brings the rest."
        )


def about_file(target: Target, ignored: Ignoring, repository: Repository) -> Iterator[str]:
    """What is special about the file or the way it was blamed."""
    if target.note:
        yield target.note
    if ignored.note and target.content is not None:
        yield ignored.note
    driver = repository.attribute(target.shown, "filter")
    if isinstance(driver, str) and any(name.startswith(f"filter.{driver}.") for name in repository.filters):
        yield (
            f"The filter {driver!r} that this file passes through on its way into git was not run: "
            "lines it changes count as not committed."
        )


def about_missing(target: Target, repository: Repository, head: str, git: Git) -> str:
    """When a file that is not there went, and where to."""
    last = git.output("rev-list", "-1", head, "--", target.path).out.decode().strip()
    if not last:
        alike = meant(target.path, head, git)
        asked = f" Did you mean {' or '.join(alike)}?" if alike else ""
        return f"{target.shown} does not exist in HEAD, nor did it before.{asked}"
    subject = repository.commit(last).message.partition("\n")[0].strip()
    gone = f"{target.shown} does not exist in HEAD"
    if goal := _renamed_to(repository, last, target.path):
        return f"{gone}: commit {last[:12]} ({subject}) renamed it to {goal}. Ask about that file."
    return f"{gone}: commit {last[:12]} ({subject}) was the last to change it."


def about_enrichment(index: Index, added: Added, path: str) -> str | None:
    """What the index could not add."""
    if added.trouble:
        return f"The index could not be read. {added.trouble}"
    if index.connection is None:
        return "There is no index, so neither coverage nor related commits are known."
    if index.standing.behind:
        commits = _counted(index.standing.behind, "commit")
        return f"The index is {commits} behind HEAD: related commits may be missing."
    if not added.recorded:
        return f"The index has no change of {path}, so there are no related commits."
    return None


def hint(index: Index, added: Added, coverage: Coverage) -> str | None:
    """What a person can do about the index."""
    if added.trouble:
        return added.trouble
    if index.standing.verdict is None:
        waiting = "run `lineage index` to have related commits and `lineage query` too"
        return (
            f"This repository is not indexed yet; blame needs no index, {waiting}."
            if index.standing.behind
            else "The repository has no commits yet."
        )
    hints = list(index_hints(index.standing))
    if coverage.known < coverage.knowable and not index.standing.behind:
        hints.append("Some of the lines come from commits the index does not know: run `lineage index`.")
    return " ".join(hints) or None


def _renamed_to(repository: Repository, sha: str, path: bytes) -> str | None:
    try:
        changes = [change for found in repository.differences(sha) for change in found.changes]
    except UnreadableObject:
        return None
    return next((shown_path(change.path) for change in changes if change.old_path == path), None)


def _named(numbers: Sequence[int], one: str = "is", several: str = "are") -> str:
    found = named(numbers)
    said = ", ".join(found[:NAMED_SPANS]) + (" and others" if len(found) > NAMED_SPANS else "")
    return f"Line {said} {one}" if len(numbers) == 1 else f"Lines {said} {several}"


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
