"""Search for commits that change no file themselves: empty commits and clean merges."""

from __future__ import annotations

from pathlib import Path

import pytest

from serve.excerpts import EXCERPT_LINES
from tests.repos import Repo, create_once
from tests.serve.sample_index import build_index
from tests.serve.search.helpers import FindOptions, find

GRACE = "Grace Hopper <grace@navy.example>"
ROOT = "Start the ledger"
EMPTY = "Decide against plugins"
TITLE = "Merge pull request #42: rate limiting for the login endpoint"
OCTOPUS = "Gather parser and printer"
IGNORED_CONFLICT = "Combine both lock files"


@create_once
def create_repo(path: Path) -> Repo:
    """Repository with an empty root, an empty commit by Grace, and three merges without hunks."""
    repo = Repo.create(path)
    repo.commit(ROOT)
    repo.commit_file("src/app.py", "def main():\n    pass\n", "Add an entry point")
    repo.commit(EMPTY, author=GRACE)
    repo.branch("limits")
    repo.commit_file("auth/throttle.py", "def throttle():\n    pass\n", "Count attempts")
    repo.switch("main")
    repo.merge("limits", message=TITLE)
    for name in ("parser", "printer"):
        repo.branch(name, "main")
        repo.commit_file(f"{name}.py", "x = 1\n", f"Write a {name}")
        repo.switch("main")
    repo.merge("parser", "printer", message=OCTOPUS)
    repo.branch("lock")
    repo.write("package-lock.json", "[1]")
    repo.commit_file("deps.py", "x = 1\n", "Need one")
    repo.switch("main")
    repo.commit_file("package-lock.json", "[2]", "Need two")
    repo.merge("lock", message=IGNORED_CONFLICT, resolution={"package-lock.json": "[1, 2]"})
    return repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return create_repo(tmp_path / "repo")


@pytest.mark.parametrize(
    ("text", "message", "kind", "excerpt"),
    [
        ("start the ledger", ROOT, "empty", ""),
        ("decide against plugins", EMPTY, "empty", ""),
        ("rate limiting for the login endpoint", TITLE, "merged", " auth/throttle.py\n"),
        ("gather parser and printer", OCTOPUS, "merged", " parser.py\n printer.py\n"),
        ("combine lock files", IGNORED_CONFLICT, "merged", " deps.py\n"),
    ],
)
@pytest.mark.parametrize("rerank", [True, False])
def test_commits_are_found_by_their_message(
    repo: Repo, home: Path, text: str, message: str, kind: str, excerpt: str, *, rerank: bool
) -> None:
    """Each kind of commit is the first hit for its message, without a file; a merge lists the files it brings."""
    build_index(repo, home)
    hit = find(repo, home, text, rerank=rerank).hits[0]
    assert (hit.commit_message, hit.file_path, hit.change_kind) == (message, "", kind)
    assert (hit.diff_excerpt, hit.diff_truncated, hit.related_head_symbols) == (excerpt, False, ())


@pytest.mark.parametrize("rerank", [True, False])
def test_merge_is_found_by_words_of_its_paths(repo: Repo, home: Path, *, rerank: bool) -> None:
    """A merge is found by the paths of its files; the commit that changed the file comes first."""
    build_index(repo, home)
    hits = find(repo, home, "auth/throttle.py", rerank=rerank).hits
    assert [hit.commit_message for hit in hits[:2]] == ["Count attempts", TITLE]


@pytest.mark.parametrize(
    ("filters", "is_found"),
    [
        ({"author": "grace"}, True),
        ({"author": "ada"}, False),
        ({"since": "2020-01-01"}, True),
        ({"since": "2020-01-02"}, False),
        ({"language": "python"}, False),
        ({"path": "*"}, False),
        ({"path": "!docs/"}, False),
    ],
)
def test_filters(repo: Repo, home: Path, filters: FindOptions, *, is_found: bool) -> None:
    """Filters of author and date apply; filters of language and path, also a negated one, leave the commits out."""
    build_index(repo, home)
    messages = [hit.commit_message for hit in find(repo, home, "decide against plugins", **filters).hits]
    assert (EMPTY in messages) == is_found


def test_path_filter_leaves_merges_out(repo: Repo, home: Path) -> None:
    """A path filter finds the commit that changed the file, not the merge that brings it."""
    build_index(repo, home)
    hits = find(repo, home, "throttle", path="auth/").hits
    assert [hit.commit_message for hit in hits] == ["Count attempts"]


def test_long_file_lists(tmp_path: Path, home: Path) -> None:
    """A merge names 50 files and counts the others. No name of a file can break the excerpt."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit(ROOT)
    repo.branch("side")
    for number in range(60):
        repo.write(f"@@ -{number:02}", "x\n")
    repo.write("A\n@@ -1 +1 @@", "x\n")
    repo.commit("Add files")
    repo.switch("main")
    repo.merge("side", message="Bring many files")
    build_index(repo, home)
    hit = find(repo, home, "bring many files", k=1).hits[0]
    lines = (hit.diff_excerpt or "").splitlines()
    assert lines[:2] == [" @@ -00", " @@ -01"] and len(lines) == EXCERPT_LINES and hit.diff_truncated
