"""Requests for small real repositories, and git's own answers to compare with."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict, Unpack

from serve.explain.blame import parse_porcelain
from serve.explain.explain_change import Explainer
from serve.explain_types import ExplainAnswer, ExplainRequest
from tests.repos import Repo, create_once

THREE_LINES = "one\ntwo\nthree\n"


class ExplainOptions(TypedDict, total=False):
    """Fields of a request except its file and lines."""

    k: int
    include_diff: bool
    include_related: bool
    ignore_whitespace: bool
    follow_moves: bool
    include_evolution: bool


@create_once
def create_five_line_repo(path: Path) -> Repo:
    """Create a repository with a file of five lines that three commits wrote."""
    repo = Repo.create(path)
    repo.commit_file("src/a.py", THREE_LINES, "Write three lines\n\nWith a body.")
    repo.commit_file("src/a.py", "one\nTWO\nthree\n", "Shout the second")
    repo.commit_file("src/a.py", "one\nTWO\nthree\nfour\nfive\n", "Count on")
    return repo


def explain(
    repo: Repo,
    home: Path,
    file: str,
    start: int = 1,
    end: int = 0,
    *,
    cwd: Path | None = None,
    **options: Unpack[ExplainOptions],
) -> ExplainAnswer:
    """Explain lines with a new explainer."""
    return Explainer(home).explain(ExplainRequest(file, start, end, **options), repo.path, cwd)


def list_blamed_commits(repo: Repo, file: str, *options: str) -> list[str | None]:
    """Return the commit of each line by `git blame`; None for an uncommitted line."""
    lines = parse_porcelain(repo.git_bytes("blame", "--porcelain", *options, "--", file)).lines
    return [line.origin.commit_sha if line.is_committed else None for line in lines]


def list_line_commits(answer: ExplainAnswer) -> list[str | None]:
    """Return the commit of each line in the answer."""
    return [line.commit_sha for line in answer.lines]


def list_hit_commits(answer: ExplainAnswer) -> list[str]:
    return [hit.commit_sha for hit in answer.hits]


def get_limitation(answer: ExplainAnswer) -> str:
    return answer.meta.explain.limitation or ""
