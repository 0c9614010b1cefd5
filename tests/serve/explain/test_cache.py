"""An answer is remembered exactly as long as everything it depends on is the same."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from serve.api_types import ExplainAnswer, ExplainRequest
from serve.explain import explain_change as straight
from serve.explain.cache import Warm
from serve.explain.explain_change import Explainer, Question
from tests.repos import Repo
from tests.serve.sample_index import index

LINES = "".join(f"{n}\n" for n in range(1, 10))
ASKED = ExplainRequest("a.py", 2, 4)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", LINES, "Write")
    repo.commit_file("a.py", LINES.replace("3", "three"), "Spell")
    repo.commit_file("b.py", LINES, "Copy")
    return repo


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[Question]:
    """The questions that git was asked for."""
    asked: list[Question] = []
    answer = straight._answered

    def told(question: Question) -> ExplainAnswer:
        asked.append(question)
        return answer(question)

    monkeypatch.setattr(straight, "_answered", told)
    return asked


OTHERS = [
    replace(ASKED, line_start=1),
    replace(ASKED, line_end=5),
    replace(ASKED, line_end=0),
    replace(ASKED, file="b.py"),
    replace(ASKED, k=1),
    replace(ASKED, include_diff=False),
    replace(ASKED, include_related=True),
    replace(ASKED, ignore_whitespace=True),
    replace(ASKED, follow_moves=True),
]


def test_the_same_question_is_answered_once(repo: Repo, home: Path, answered: list[Question]) -> None:
    """A question asked again has the same answer, without git."""
    explainer = Explainer(home)
    first = [explainer.explain(asked, repo.path) for asked in (ASKED, *OTHERS)]
    again = [explainer.explain(asked, repo.path / ".git" / "..") for asked in (ASKED, *OTHERS)]
    assert first == again
    assert len(answered) == 1 + len(OTHERS)


def test_ranges_do_not_answer_for_each_other(repo: Repo, home: Path) -> None:
    """Every range of a warm engine has the answer of a cold one."""
    explainer = Explainer(home)
    ranges = [ExplainRequest("a.py", start, end) for start in range(1, 10) for end in range(start, 10)]
    warm = [explainer.explain(asked, repo.path) for asked in ranges]
    assert warm == [Explainer(home).explain(asked, repo.path) for asked in reversed(ranges)][::-1]
    assert warm == [explainer.explain(asked, repo.path) for asked in ranges]


def _write(name: str, content: str) -> Callable[[Repo], object]:
    return lambda repo: repo.write(name, content)


def _git(*arguments: str) -> Callable[[Repo], object]:
    return lambda repo: repo.git(*arguments)


CHANGES: dict[str, Callable[[Repo], object]] = {
    "the file's content": _write("a.py", LINES.replace("3", "THREE")),
    "HEAD": _git("commit", "--quiet", "--allow-empty", "-m", "Nothing"),
    "a commit amended": _git("commit", "--quiet", "--amend", "-m", "Other words"),
    "names of people": _write(".mailmap", "Countess <ada@example.org>\n"),
    "commits to ignore": lambda repo: repo.write(".git-blame-ignore-revs", repo.git("rev-parse", "HEAD~1")),
    "the configuration": _git("config", "core.autocrlf", "input"),
    "attributes": _write(".gitattributes", "*.py text eol=crlf\n"),
    "this clone's attributes": _write(".git/info/attributes", "*.py -diff\n"),
    "what is staged": _git("rm", "--quiet", "--cached", "b.py"),
    "commits that stand in for others": lambda repo: repo.git(
        "replace", repo.head, repo.git("rev-parse", "HEAD~1")
    ),
    "an index": lambda repo: index(repo, repo.path.parent / "lineage-home"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_noticed(repo: Repo, home: Path, answered: list[Question], what: str) -> None:
    """When anything an answer depends on changes, git is asked again, and the answer is a cold engine's."""
    explainer = Explainer(home)
    explainer.explain(ASKED, repo.path)
    CHANGES[what](repo)
    found = explainer.explain(ASKED, repo.path)
    assert len(answered) == 2
    assert found == Explainer(home).explain(ASKED, repo.path)


def test_an_index_brought_up_is_noticed(repo: Repo, home: Path, answered: list[Question]) -> None:
    """The watermark belongs to the key."""
    index(repo, home, upto="HEAD~1")
    explainer = Explainer(home)
    assert explainer.explain(ASKED, repo.path).meta.index_status.commits_behind_head == 1
    index(repo, home)
    assert explainer.explain(ASKED, repo.path).meta.index_status.commits_behind_head == 0
    assert len(answered) == 2


def test_unshallowing_is_noticed(repo: Repo, home: Path, tmp_path: Path) -> None:
    """The boundary of a shallow clone belongs to the key."""
    shallow = repo.clone(tmp_path / "shallow", "--depth=1")
    explainer = Explainer(home)
    assert "boundary" in (explainer.explain(ASKED, shallow.path).meta.explain.limitation or "")
    shallow.git("fetch", "--quiet", "--unshallow")
    assert explainer.explain(ASKED, shallow.path).meta.explain.limitation is None


def test_what_changes_meanwhile_is_not_remembered(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer during which the file changed is given and forgotten."""
    answer = straight._answered

    def disturbed(question: Question) -> ExplainAnswer:
        repo.write("a.py", "meanwhile\n" + LINES)
        return answer(question)

    explainer = Explainer(home)
    monkeypatch.setattr(straight, "_answered", disturbed)
    explainer.explain(ASKED, repo.path)
    monkeypatch.setattr(straight, "_answered", answer)
    repo.write("a.py", LINES.replace("3", "three"))
    assert explainer.explain(ASKED, repo.path) == Explainer(home).explain(ASKED, repo.path)


def test_only_so_many_are_remembered() -> None:
    """Of more than it holds, what was not asked for longest is forgotten."""
    warm: Warm[int] = Warm(most=2)
    for number, key in enumerate((b"a", b"b")):
        warm.put(key, number)
    assert warm.get(b"a") == 0
    warm.put(b"c", 2)
    assert [warm.get(key) for key in (b"a", b"b", b"c")] == [0, None, 2]


def test_only_so_much_is_remembered() -> None:
    """What is too heavy together is forgotten, and what is too heavy alone is not kept."""
    warm: Warm[int] = Warm(heaviest=10)
    for number, key in enumerate((b"a", b"b", b"c")):
        warm.put(key, number, weight=4)
    assert [warm.get(key) for key in (b"a", b"b", b"c")] == [None, 1, 2]
    warm.put(b"d", 3, weight=11)
    assert warm.get(b"d") is None


def test_a_repeated_answer_starts_no_program(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding out that nothing changed takes no process."""
    explainer = Explainer(home)
    first = explainer.explain(ASKED, repo.path)
    monkeypatch.setattr(subprocess, "Popen", None)
    assert explainer.explain(ASKED, repo.path) == first
