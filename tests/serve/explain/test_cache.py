"""Answers are cached exactly as long as nothing they depend on changes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from serve.api_types import ExplainAnswer, ExplainRequest
from serve.explain import explain_change as explain_change
from serve.explain.cache import BoundedCache
from serve.explain.explain_change import ExplainContext, Explainer
from tests.repos import Repo
from tests.serve.sample_index import build_index

LINES = "".join(f"{n}\n" for n in range(1, 10))
REQUEST = ExplainRequest("a.py", 2, 4)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", LINES, "Write")
    repo.commit_file("a.py", LINES.replace("3", "three"), "Spell")
    repo.commit_file("b.py", LINES, "Copy")
    return repo


@pytest.fixture
def computed_contexts(monkeypatch: pytest.MonkeyPatch) -> list[ExplainContext]:
    """Return a list of the contexts that answers are computed for."""
    contexts: list[ExplainContext] = []
    compute = explain_change.compute_answer

    def record(context: ExplainContext) -> ExplainAnswer:
        contexts.append(context)
        return compute(context)

    monkeypatch.setattr(explain_change, "compute_answer", record)
    return contexts


OTHER_REQUESTS = [
    replace(REQUEST, line_start=1),
    replace(REQUEST, line_end=5),
    replace(REQUEST, line_end=0),
    replace(REQUEST, file="b.py"),
    replace(REQUEST, k=1),
    replace(REQUEST, include_diff=False),
    replace(REQUEST, include_related=True),
    replace(REQUEST, ignore_whitespace=True),
    replace(REQUEST, follow_moves=True),
]


def test_repeated_request_is_cached(repo: Repo, home: Path, computed_contexts: list[ExplainContext]) -> None:
    """A repeated request has the same answer, which is not computed again."""
    explainer = Explainer(home)
    first = [explainer.explain(request, repo.path) for request in (REQUEST, *OTHER_REQUESTS)]
    again = [explainer.explain(request, repo.path / ".git" / "..") for request in (REQUEST, *OTHER_REQUESTS)]
    assert first == again
    assert len(computed_contexts) == 1 + len(OTHER_REQUESTS)


def test_every_range_has_its_own_answer(repo: Repo, home: Path) -> None:
    """For every range, a cached answer equals one of a new explainer."""
    explainer = Explainer(home)
    ranges = [ExplainRequest("a.py", start, end) for start in range(1, 10) for end in range(start, 10)]
    cached = [explainer.explain(request, repo.path) for request in ranges]
    assert cached == [Explainer(home).explain(request, repo.path) for request in reversed(ranges)][::-1]
    assert cached == [explainer.explain(request, repo.path) for request in ranges]


def _write(name: str, content: str) -> Callable[[Repo], object]:
    return lambda repo: repo.write(name, content)


def _run_git(*arguments: str) -> Callable[[Repo], object]:
    return lambda repo: repo.git(*arguments)


CHANGES: dict[str, Callable[[Repo], object]] = {
    "the file's content": _write("a.py", LINES.replace("3", "THREE")),
    "HEAD": _run_git("commit", "--quiet", "--allow-empty", "-m", "Nothing"),
    "a commit amended": _run_git("commit", "--quiet", "--amend", "-m", "Other words"),
    "names of authors": _write(".mailmap", "Countess <ada@example.org>\n"),
    "commits to ignore": lambda repo: repo.write(".git-blame-ignore-revs", repo.git("rev-parse", "HEAD~1")),
    "the configuration": _run_git("config", "core.autocrlf", "input"),
    "attributes": _write(".gitattributes", "*.py text eol=crlf\n"),
    "this clone's attributes": _write(".git/info/attributes", "*.py -diff\n"),
    "what is staged": _run_git("rm", "--quiet", "--cached", "b.py"),
    "replace refs": lambda repo: repo.git("replace", repo.head, repo.git("rev-parse", "HEAD~1")),
    "an index": lambda repo: build_index(repo, repo.path.parent / "lineage-home"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_invalidate_the_cache(
    repo: Repo, home: Path, computed_contexts: list[ExplainContext], change: str
) -> None:
    """If anything that an answer depends on changes, it is computed again and equals one of a new explainer."""
    explainer = Explainer(home)
    explainer.explain(REQUEST, repo.path)
    CHANGES[change](repo)
    answer = explainer.explain(REQUEST, repo.path)
    assert len(computed_contexts) == 2
    assert answer == Explainer(home).explain(REQUEST, repo.path)


def test_index_run_invalidates_the_cache(
    repo: Repo, home: Path, computed_contexts: list[ExplainContext]
) -> None:
    """The key contains the state of the index."""
    build_index(repo, home, revision="HEAD~1")
    explainer = Explainer(home)
    assert explainer.explain(REQUEST, repo.path).meta.index_status.commits_behind_head == 1
    build_index(repo, home)
    assert explainer.explain(REQUEST, repo.path).meta.index_status.commits_behind_head == 0
    assert len(computed_contexts) == 2


def test_unshallowing_invalidates_the_cache(repo: Repo, home: Path, tmp_path: Path) -> None:
    """The key contains the boundary of a shallow clone."""
    shallow = repo.clone(tmp_path / "shallow", "--depth=1")
    explainer = Explainer(home)
    assert "shallow clone" in (explainer.explain(REQUEST, shallow.path).meta.explain.limitation or "")
    shallow.git("fetch", "--quiet", "--unshallow")
    assert explainer.explain(REQUEST, shallow.path).meta.explain.limitation is None


def test_answers_of_a_changing_file_are_not_cached(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer during which the file changed is returned but not cached."""
    compute = explain_change.compute_answer

    def change_file(context: ExplainContext) -> ExplainAnswer:
        repo.write("a.py", "meanwhile\n" + LINES)
        return compute(context)

    explainer = Explainer(home)
    monkeypatch.setattr(explain_change, "compute_answer", change_file)
    explainer.explain(REQUEST, repo.path)
    monkeypatch.setattr(explain_change, "compute_answer", compute)
    repo.write("a.py", LINES.replace("3", "three"))
    assert explainer.explain(REQUEST, repo.path) == Explainer(home).explain(REQUEST, repo.path)


def test_number_of_entries_is_limited() -> None:
    """Above the limit, the least recently used entry is evicted."""
    cache: BoundedCache[int] = BoundedCache(max_entries=2)
    for number, key in enumerate((b"a", b"b")):
        cache.put(key, number)
    assert cache.get(b"a") == 0
    cache.put(b"c", 2)
    assert [cache.get(key) for key in (b"a", b"b", b"c")] == [0, None, 2]


def test_size_of_entries_is_limited() -> None:
    """Entries above the total size are evicted, and an entry that is too large is not cached."""
    cache: BoundedCache[int] = BoundedCache(max_bytes=10)
    for number, key in enumerate((b"a", b"b", b"c")):
        cache.put(key, number, size_bytes=4)
    assert [cache.get(key) for key in (b"a", b"b", b"c")] == [None, 1, 2]
    cache.put(b"d", 3, size_bytes=11)
    assert cache.get(b"d") is None


def test_cached_answer_starts_no_program(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checking that nothing changed starts no process."""
    explainer = Explainer(home)
    first = explainer.explain(REQUEST, repo.path)
    monkeypatch.setattr(subprocess, "Popen", None)
    assert explainer.explain(REQUEST, repo.path) == first
