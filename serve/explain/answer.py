"""Commits as an explanation shows them."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.git.changes import shown_path
from pipeline.git.objects import Commit
from serve.answers import ExplainHit, RelatedCommit, rfc3339
from serve.explain.blame import Line
from serve.explain.excerpts import Excerpt, main_origin
from stores.history import FileCommit


def hit(commit: Commit, lines: Sequence[Line], excerpt: Excerpt | None) -> ExplainHit:
    """A commit as it is shown, with the lines it wrote."""
    return ExplainHit(
        commit_sha=commit.sha,
        commit_message=commit.message,
        commit_author=commit.author_name,
        commit_date=rfc3339(commit.commit_date),
        blame_lines=tuple(line.number for line in lines),
        file_path=shown_path(main_origin(lines).path),
        diff_excerpt=excerpt.text if excerpt else None,
        diff_truncated=bool(excerpt and excerpt.truncated),
    )


def related(commit: FileCommit) -> RelatedCommit:
    """A neighbour as it is shown."""
    return RelatedCommit(
        commit_sha=commit.commit_sha,
        commit_message=commit.commit_message,
        commit_author=commit.commit_author,
        commit_date=rfc3339(commit.commit_date),
        touched_hunks=commit.touched_hunks,
    )
