"""A scrubbed history is the same history without its words."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.bench.programs import Failed
from tests.eval.hidden_messages import MESSAGE, rewritten, scrub, shas_of
from tests.repos import Repo


def test_only_messages_change(tmp_path: Path) -> None:
    """Trees, parents, authors and dates stay; every message is the constant; shas are told and told again."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a b.py", b"data 4\ncommit refs/heads/x\n\xff\x00", "Begin: data 3\n\nbody\n")
    repo.branch("side")
    repo.commit_file("side.py", "", "Say nothing in a file", date=repo.clock)
    repo.switch("main")
    repo.rename("a b.py", "c.py")
    repo.write("c.py", "c = 1\n", executable=True)
    repo.git("config", "i18n.commitEncoding", "ISO-8859-1")
    repo.commit("Rename", author="Grace <grace@example.org>")
    repo.merge("side", message="Merge both")

    shas = scrub(repo.path, tmp_path / "scrubbed")

    copy = Repo(tmp_path / "scrubbed")
    originals = repo.git("rev-list", "HEAD").split()
    assert sorted(shas) == sorted(originals)
    assert copy.head == shas[repo.head]
    for original in originals:
        kept = "%T %an %ae %at %cn %ce %ct"
        assert copy.git("log", "-1", f"--format={kept}", shas[original]) == repo.git(
            "log", "-1", f"--format={kept}", original
        )
        parents = repo.git("log", "-1", "--format=%P", original).split()
        assert copy.git("log", "-1", "--format=%P", shas[original]).split() == [shas[p] for p in parents]
    assert set(copy.git("log", "--format=%B").split()) == {MESSAGE.decode().strip()}
    assert copy.git("status", "--porcelain") == ""
    assert shas_of(copy.path) == shas


def test_unrelated_roots(tmp_path: Path) -> None:
    """A second root stays a root."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "a = 1\n", "Begin")
    repo.git("switch", "--quiet", "--orphan", "other")
    repo.commit_file("b.py", "b = 1\n", "Begin elsewhere")
    repo.merge("main")
    shas = scrub(repo.path, tmp_path / "scrubbed")
    roots = Repo(tmp_path / "scrubbed").git("rev-list", "--max-parents=0", "HEAD").split()
    assert set(roots) == {shas[sha] for sha in repo.git("rev-list", "--max-parents=0", "HEAD").split()}
    assert len(roots) == 2


def test_broken_stream() -> None:
    """A stream that ends inside a block is an error, not a shorter history."""
    with pytest.raises(Failed):
        rewritten(io.BytesIO(b"blob\nmark :1\ndata 10\nabc"), io.BytesIO())
