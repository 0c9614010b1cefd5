"""Questions that name an issue, a pull request or a release."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest

from pipeline.git.repository import open_repository
from pipeline.interrupts import RequestCancelled, use_cancellation_flag
from serve.api_types import NamedRepository
from serve.evidence import EvidenceLoader
from serve.find_types import FindAnswer, FindRequest
from serve.search.find_pattern import PatternSearcher
from serve.search.merged_search import find_in_repositories
from serve.search.query_hints import EMPTY_CONTEXT, RepositoryContext, parse_hints
from stores.filters import ReleaseFilter
from stores.snapshot import LANE_DEPTH
from tests.repos import Repo, create_once
from tests.serve.sample_index import WordEncoder, build_index
from tests.serve.search.helpers import NOW, find


@create_once
def create_repo(path: Path) -> Repo:
    """Commits about a timeout in two releases; a pull request of two commits, and a commit that closes an issue."""
    repo = Repo.create(path)
    repo.commit_file("a.py", "timeout = 1\n", "Add a timeout")
    repo.commit_file("a.py", "timeout = 2\n", "Double the timeout")
    repo.git("tag", "v1.0.0")
    repo.branch("feature")
    repo.commit_file("b.py", "letters = 1\n", "Spell")
    repo.commit_file("c.py", "words = 1\n", "Read")
    repo.switch("main")
    repo.merge("feature", message="Merge pull request #123 from ada/feature\n\nRead and spell")
    repo.commit_file("d.py", "numbers = 1\n", "Count\n\nFixes GH-45, see psf/black#123, #1234 and #12")
    repo.git("tag", "2.0")
    repo.commit_file("e.py", "timeout = 3\n", "Raise the timeout")
    return repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return create_repo(tmp_path / "repo")


def list_subjects(answer: FindAnswer) -> list[str]:
    return [hit.commit_message.partition("\n")[0] for hit in answer.hits]


@pytest.mark.parametrize("rerank", [True, False])
def test_pull_request(repo: Repo, tmp_path: Path, rerank: bool) -> None:
    """The merge of a pull request and its commits come first, then what matches the words. They are not weak."""
    build_index(repo, tmp_path)
    answer = find(repo, tmp_path, "what did #123 change about the timeout", rerank=rerank, k=20)
    subjects = list_subjects(answer)
    assert set(subjects[:3]) == {"Merge pull request #123 from ada/feature", "Spell", "Read"}
    assert "timeout" in subjects[3]
    assert [hit.weak for hit in answer.hits[:3]] == [False if rerank else None] * 3
    assert "commits of #123: shown first" in answer.meta.query_profile.explanation


@pytest.mark.parametrize("question", ["#45", "GH-45", "why did we close #45?"])
def test_issue(repo: Repo, tmp_path: Path, question: str) -> None:
    """A commit that refers to an issue comes first, however the message and the question write its number."""
    build_index(repo, tmp_path)
    assert list_subjects(find(repo, tmp_path, question))[0] == "Count"


def test_unknown_number(repo: Repo, tmp_path: Path) -> None:
    """A number that no message names changes nothing, and the answer says so."""
    build_index(repo, tmp_path)
    plain, numbered = (find(repo, tmp_path, f"timeout{number}") for number in ("", " #99"))
    assert set(list_subjects(plain)) == set(list_subjects(numbered))
    assert "commits of #99: none" in numbered.meta.query_profile.explanation


def test_filter_of_referring_commits(repo: Repo, tmp_path: Path) -> None:
    """Filters apply to the commits of a pull request, too."""
    build_index(repo, tmp_path)
    answer = find(repo, tmp_path, "#123", path="b.py")
    assert list_subjects(answer) == ["Spell"]
    assert "commits of #123: shown first if they pass the filters" in answer.meta.query_profile.explanation


def test_unreachable_referring_commits(repo: Repo, tmp_path: Path) -> None:
    """Commits that HEAD no longer reaches do not count as those of an issue."""
    build_index(repo, tmp_path)
    repo.git("reset", "--quiet", "--hard", "HEAD~2")
    assert "commits of #45: none" in find(repo, tmp_path, "#45").meta.query_profile.explanation


def test_color(repo: Repo, tmp_path: Path) -> None:
    """A number that commits mention, but that no commit closes or has as its pull request, may be a color."""
    repo.commit_file("f.css", "text\n", "Use the color #333 for text")
    build_index(repo, tmp_path)
    assert "commits of #333: none" in find(repo, tmp_path, "#333").meta.query_profile.explanation


def test_commit_of_many_files(repo: Repo, tmp_path: Path) -> None:
    """A commit of many files does not hide the other commits of an issue."""
    for number in range(LANE_DEPTH):
        repo.write(f"files/{number}.py", f"value = {number}\n")
    repo.git("add", "--all")
    repo.git("commit", "--quiet", "--message", "Spell more, closes #45")
    build_index(repo, tmp_path)
    assert set(list_subjects(find(repo, tmp_path, "#45"))[:2]) == {"Count", "Spell more, closes #45"}


def test_many_numbers() -> None:
    """Of a text with thousands of numbers only the first are looked up."""
    text = " ".join(f"#{number}" for number in range(1, 5_000))
    assert parse_hints(text, NOW, EMPTY_CONTEXT).numbers == tuple(f"#{number}" for number in range(1, 11))


def test_cancelled_lookup(repo: Repo) -> None:
    """The lookup of commits ends when the request is cancelled."""
    flag = Event()
    flag.set()
    loader = EvidenceLoader(open_repository(repo.path))
    with use_cancellation_flag(flag), pytest.raises(RequestCancelled):
        loader.find_referring_commits(lambda _: {repo.head: "Fix #1"}, ["#1"])


@pytest.mark.parametrize("release", ["v1.0.0", "1.0.0", "version 1.0.0", "the release `v1.0.0`"])
def test_release(repo: Repo, tmp_path: Path, release: str) -> None:
    """A release in the question restricts the hits to the commits first released in it."""
    build_index(repo, tmp_path)
    answer = find(repo, tmp_path, f"what changed about the timeout in {release}?", k=20)
    assert set(list_subjects(answer)) == {"Add a timeout", "Double the timeout"}
    assert {hit.release and hit.release.tag for hit in answer.hits} == {"v1.0.0"}
    assert "first released in: v1.0.0" in answer.meta.query_profile.explanation


def test_release_after_index_run(repo: Repo, tmp_path: Path) -> None:
    """A tag that was created after the index run counts at once."""
    build_index(repo, tmp_path)
    repo.git("tag", "3.0")
    assert list_subjects(find(repo, tmp_path, "timeout in 3.0", k=20)) == ["Raise the timeout"]


def test_release_without_commits(repo: Repo, tmp_path: Path) -> None:
    """A tag that is the first of no commit, such as another one of the same commit, is no filter."""
    build_index(repo, tmp_path)
    repo.git("tag", "--annotate", "2.0.1", "2.0", "--message", "Again", date=NOW)
    answer = find(repo, tmp_path, "timeout in 2.0.1", k=20)
    assert list_subjects(answer)
    assert "first released" not in answer.meta.query_profile.explanation


@pytest.mark.parametrize(
    "text",
    [
        "support Python 2.0",
        "in Python 2.0",
        "retry in 2 steps",
        "in 2.0.1.5",
        "timeout of 20 seconds",
        "in latest",
        "raise 2.0",
        "since version 2.0",
        "before release 2.0",
        "from version 1.0 to 2.0",
        "until tag 2.0",
        "since the release of 2.0",
        "before release of version 2.0",
        "python version 2.0",
        "in python version 2.0",
    ],
)
def test_no_release(text: str) -> None:
    """Versions of other programs, counts and unknown versions name no release, and the text stays unchanged."""
    tags = {"2.0", "2", "20", "latest"}
    context = RepositoryContext(
        lambda _: False,
        lambda _: False,
        find_release=lambda name: ReleaseFilter(name, frozenset()) if name in tags else None,
    )
    hints = parse_hints(text, NOW, context)
    assert (hints.release, hints.text) == (None, text)


def test_several_repositories(repo: Repo, tmp_path: Path) -> None:
    """Commits of a pull request come first also among the hits of several repositories."""
    other = Repo.create(tmp_path / "other")
    other.commit_file("a.py", "timeout = 1\n", "What did change about the timeout")
    for each in (repo, other):
        build_index(each, tmp_path)
    searcher = PatternSearcher(tmp_path, load_encoder=lambda _: WordEncoder())
    repositories = [NamedRepository(each.path.name, str(each.path)) for each in (repo, other)]
    request = FindRequest("what did #123 change about the timeout", k=20)
    answer = find_in_repositories(searcher, request, repositories, NOW)
    searcher.close()
    assert set(list_subjects(answer)[:3]) == {"Merge pull request #123 from ada/feature", "Spell", "Read"}
    assert list_subjects(answer)[3] == "What did change about the timeout"
