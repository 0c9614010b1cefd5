"""Questions put to small real repositories, and git's own answers to compare with."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict, Unpack

from serve.api_types import ExplainAnswer, ExplainRequest
from serve.explain.blame import parsed
from serve.explain.explain_change import Explainer
from tests.repos import Repo

THREE = "one\ntwo\nthree\n"


class Options(TypedDict, total=False):
    """Those of a question, beside its lines."""

    k: int
    include_diff: bool
    include_related: bool
    ignore_whitespace: bool
    follow_moves: bool


def counted(path: Path) -> Repo:
    """A file of five lines that three commits wrote."""
    repo = Repo.create(path)
    repo.commit_file("src/a.py", THREE, "Write three lines\n\nWith a body.")
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
    here: Path | None = None,
    **options: Unpack[Options],
) -> ExplainAnswer:
    """One answer of a fresh engine."""
    return Explainer(home).explain(ExplainRequest(file, start, end, **options), repo.path, here)


def blamed(repo: Repo, file: str, *options: str) -> list[str | None]:
    """Each line's commit as the git program has it; None where it is not committed."""
    lines = parsed(repo.git_bytes("blame", "--porcelain", *options, "--", file)).lines
    return [line.origin.commit_sha if line.committed else None for line in lines]


def commits(answer: ExplainAnswer) -> list[str | None]:
    """Each line's commit as the answer has it."""
    return [line.commit_sha for line in answer.lines]


def shas(answer: ExplainAnswer) -> list[str]:
    return [hit.commit_sha for hit in answer.hits]


def limitation(answer: ExplainAnswer) -> str:
    return answer.meta.explain.limitation or ""
