"""Tests of `tests.eval.hidden_messages`: copies without commit messages."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.bench.programs import ProgramFailed
from tests.eval.hidden_messages import MESSAGE, hide_messages, load_sha_map, rewrite_stream
from tests.repos import Repo


def test_only_messages_change(tmp_path: Path) -> None:
    """Trees, parents, authors and dates stay; every message is replaced; the sha map is saved and loaded."""
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

    shas = hide_messages(repo.path, tmp_path / "scrubbed")

    copy = Repo(tmp_path / "scrubbed")
    originals = repo.git("rev-list", "HEAD").split()
    assert sorted(shas) == sorted(originals)
    assert copy.head == shas[repo.head]
    for original in originals:
        metadata = "--format=%T %an %ae %at %cn %ce %ct"
        assert copy.git("log", "-1", metadata, shas[original]) == repo.git("log", "-1", metadata, original)
        parents = repo.git("log", "-1", "--format=%P", original).split()
        assert copy.git("log", "-1", "--format=%P", shas[original]).split() == [shas[p] for p in parents]
    assert set(copy.git("log", "--format=%B").split()) == {MESSAGE.decode().strip()}
    assert copy.git("status", "--porcelain") == ""
    assert load_sha_map(copy.path) == shas


def test_unrelated_roots(tmp_path: Path) -> None:
    """A history with two root commits still has two."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "a = 1\n", "Begin")
    repo.git("switch", "--quiet", "--orphan", "other")
    repo.commit_file("b.py", "b = 1\n", "Begin elsewhere")
    repo.merge("main")
    shas = hide_messages(repo.path, tmp_path / "scrubbed")
    roots = Repo(tmp_path / "scrubbed").git("rev-list", "--max-parents=0", "HEAD").split()
    assert set(roots) == {shas[sha] for sha in repo.git("rev-list", "--max-parents=0", "HEAD").split()}
    assert len(roots) == 2


def test_truncated_stream() -> None:
    """A stream that ends inside a data block raises an error."""
    with pytest.raises(ProgramFailed):
        rewrite_stream(io.BytesIO(b"blob\nmark :1\ndata 10\nabc"), io.BytesIO())
