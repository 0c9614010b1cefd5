"""Lines whose origin is known, and the comparison of tools on them."""

from __future__ import annotations

from pathlib import Path

from tests.eval.origins.comparison import compare
from tests.eval.origins.lines import OriginLine, load_lines
from tests.repos import Repo


def test_lines_are_complete() -> None:
    """There are thirty lines and more of four histories, each with full SHAs, and a third of them is held out."""
    lines = load_lines()
    assert len({(line.repository, line.path, line.line) for line in lines}) == len(lines) >= 30
    assert len({line.repository for line in lines}) == 4
    assert len({(line.repository, line.revision) for line in lines}) == 4
    assert all(len(sha) == 40 for line in lines for sha in (line.revision, line.origin))
    assert 0.25 < sum(line.is_holdout for line in lines) / len(lines) < 0.4


def test_compare(tmp_path: Path) -> None:
    """An indented line is found by `git log -L` and in the chain, but not by blame."""
    repo = Repo.create(tmp_path / "repo")
    origin = repo.commit_file("a.py", "import os\nprint_usage(parser)\n", "Print")
    revision = repo.commit_file("a.py", "import os\nif fails:\n    print_usage(parser)\n", "Check")
    line = OriginLine("repo", revision, "a.py", 3, "print_usage(parser)", origin, "Prints.", is_holdout=False)
    result = compare(line, repo.path, tmp_path / "home")
    assert (result.blame, result.log, result.chain, result.leads, result.steps) == (
        False,
        True,
        True,
        False,
        1,
    )
