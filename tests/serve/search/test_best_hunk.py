"""One hit for each commit, and the hunk it is shown by."""

from __future__ import annotations

import pytest

from pipeline.file_roles import Role
from serve.search.rerank import LIKELY_ENOUGH, WEAK, Placed, best_of_each_commit, by_fusion
from serve.search.retrieval import Candidate
from tests.repos import FIRST_DATE


def candidate(path: str, commit: str = "one") -> Candidate:
    return Candidate(hash(path), 0.01, commit, FIRST_DATE, path)


def placed(path: str, probability: float, *literal: bool, commit: str = "one") -> Placed:
    return Placed(candidate(path, commit), 1.05 * probability, None, probability, literal=literal)


def shown(*own: Placed, roles: frozenset[Role] = frozenset()) -> str:
    (best,) = best_of_each_commit(own, 5, roles)
    return best.candidate.file_path


@pytest.mark.parametrize(
    "first", ["CHANGELOG.md", "tests/test_pool.py", "setup.py", "core/api/core.api", "uv.lock"]
)
def test_the_program_is_shown(first: str) -> None:
    """A change to the program is shown in place of what only goes with it, the likeliest where there are several."""
    own = placed(first, 0.9), placed("docs/pool.md", 0.8), placed("src/pool.py", 0.7), placed("src/a.py", 0.6)
    assert shown(*own) == "src/pool.py"


def test_commits_stay_where_they_are() -> None:
    """Order, score and weakness are those of each commit's best hunk, whichever hunk is shown."""
    one = placed("README.md", WEAK * 1.5), placed("src/a.py", WEAK)
    two = placed("README.md", WEAK * 0.9, commit="two"), placed("src/a.py", WEAK * 0.8, commit="two")
    ordered = sorted((*one, *two), key=lambda each: -each.score)
    best = best_of_each_commit(ordered, 5, frozenset())
    assert [(each.candidate.commit_sha, each.score, each.weak) for each in best] == [
        ("one", one[0].score, False),
        ("two", two[0].score, True),
    ]
    assert {each.candidate.file_path for each in best} == {"src/a.py"}
    assert best_of_each_commit(ordered, 1, frozenset()) == best[:1]


def test_code_of_another_matter_is_not_shown() -> None:
    """What is less than half as likely is not what was asked for, though it is code."""
    least = 0.9 * LIKELY_ENOUGH
    assert shown(placed("README.md", 0.9), placed("src/a.py", least)) == "src/a.py"
    assert shown(placed("README.md", 0.9), placed("src/a.py", least - 1e-9)) == "README.md"


@pytest.mark.parametrize(
    ("role", "first", "before"),
    [
        ("tests", "tests/test_a.py", "CHANGELOG.md"),
        ("prose", "CHANGELOG.md", "setup.py"),
        ("other", "pyproject.toml", "README.md"),
    ],
)
def test_what_is_asked_for_is_shown(role: Role, first: str, before: str) -> None:
    """Who asks for tests, documentation or configuration is shown them; others of a commit still give way."""
    own = placed(first, 0.9), placed("src/a.py", 0.8)
    assert shown(*own, roles=frozenset({role})) == first
    assert shown(*own) == "src/a.py"
    assert shown(placed(before, 0.9), *own, roles=frozenset({role})) == first


def test_what_is_meant_to_the_letter_is_shown() -> None:
    """A hunk in the path, or of the name, that the question names gives way only to one that is so too."""
    first = placed("tests/test_a.py", 0.9, True, False)
    assert shown(first, placed("src/a.py", 0.8, False, True)) == "tests/test_a.py"
    assert shown(first, placed("src/a.py", 0.8, True, True)) == "src/a.py"
    assert (
        shown(placed("tests/test_a.py", 0.9, False, False), placed("src/a.py", 0.8, False, False))
        == "src/a.py"
    )


def test_fusion_shows_its_own() -> None:
    """Without reranking the first hunk of each commit is shown, whatever it is."""
    own = by_fusion([candidate("README.md"), candidate("src/a.py"), candidate("b.py", "two")])
    best = best_of_each_commit(own, 5, frozenset())
    assert [each.candidate.file_path for each in best] == ["README.md", "b.py"]
