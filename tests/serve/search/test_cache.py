"""A finder answers as if it kept nothing, sooner, and keeps no more than it may."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.git.repository import open_repository
from pipeline.options import Encoding
from serve.api_types import FindAnswer, FindRequest
from serve.repositories import place_of
from serve.search import cache
from serve.search.cache import Seen, see
from serve.search.find_pattern import Finder, find_pattern
from stores import hunk_details, maintenance, writer
from stores.index_location import Place
from tests.repos import FIRST_DATE, Repo
from tests.serve.sample_index import WordEncoder, index

NOW = FIRST_DATE + timedelta(days=100)
PATHS = ("src/net/tcp.py", "src/app.rs", "docs/guide.md", "src/pool.py")
WORDS = [
    "timeout",
    "connect",
    "close",
    "socket",
    "retry",
    "pool",
    "`send_3`",
    "docs/",
    "in rust",
    "fix",
    "config",
]
requests = st.builds(
    FindRequest,
    text=st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join),
    k=st.integers(1, 20),
    language=st.sampled_from([None, None, "python", "rust"]),
    since=st.sampled_from([None, None, "2020-01-20"]),
    path=st.sampled_from([None, None, "src/", "!*.py"]),
    author=st.sampled_from([None, None, "ada"]),
)
QUESTIONS = [
    FindRequest("how did we add a timeout to connect", k=20),
    FindRequest("close the socket in docs/", k=3),
    FindRequest("`send_3` retry", k=20, path="src/"),
]


def made(folder: Path) -> Repo:
    repo = Repo.create(folder)
    for number in range(12):
        author = f"{('Ada', 'Grace')[number % 2]} <someone@example.org>"
        lines = (f"def send_{n}():\n    {WORDS[n % 6]}({WORDS[(n + number) % 6]})\n" for n in range(number))
        repo.write(PATHS[number % 4], f"# {number}\n" + "".join(lines))
        repo.commit(
            f"Add {WORDS[number % 6]}, {number}", date=FIRST_DATE + timedelta(days=number), author=author
        )
    return repo


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Repo:
    repo = made(tmp_path / "repo")
    index(repo, home)
    return repo


@pytest.fixture
def finder(home: Path) -> Iterator[Finder]:
    with closing(Finder(home, encoder=WordEncoder)) as finder:
        yield finder


def warm(finder: Finder, repo: Repo) -> list[FindAnswer]:
    return [finder.find(request, repo.path, NOW) for request in QUESTIONS]


def cold(repo: Repo, home: Path) -> list[FindAnswer]:
    return [find_pattern(asked, repo.path, home, encoder=WordEncoder, now=NOW) for asked in QUESTIONS]


def place(repo: Repo, home: Path) -> Place:
    return place_of(home, open_repository(repo.path))


def add_commit(repo: Repo, home: Path) -> None:
    repo.commit_file("src/new.py", "def send_3():\n    timeout(connect)\n", "Add a timeout to connect")
    index(repo, home)


def amend(repo: Repo, home: Path) -> None:  # noqa: ARG001 - the index need not know
    repo.write(PATHS[3], "def send_3():\n    connect(timeout)\n")
    repo.commit("Add a timeout, better", amend=True)


def switch_branch(repo: Repo, home: Path) -> None:  # noqa: ARG001 - the index need not know
    repo.branch("topic", "HEAD~5")


def index_again(repo: Repo, home: Path) -> None:
    index(repo, home)


def rebuild(repo: Repo, home: Path) -> None:
    writer.delete_index(place(repo, home))
    index(repo, home)


def compact(repo: Repo, home: Path) -> None:
    maintenance.compact(place(repo, home))


def delete(repo: Repo, home: Path) -> None:
    shutil.rmtree(place(repo, home).folder)


@given(st.lists(requests, min_size=1, max_size=4))
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_answers_are_the_same(repo: Repo, home: Path, asked: list[FindRequest]) -> None:
    """Whatever was asked before, an answer is the one that is given when nothing is kept."""
    with closing(Finder(home, encoder=WordEncoder)) as finder:
        for request in [*asked, *asked]:
            alone = find_pattern(request, repo.path, home, encoder=WordEncoder, now=NOW)
            assert finder.find(request, repo.path, NOW) == alone


@pytest.mark.parametrize(
    "change",
    [add_commit, amend, switch_branch, index_again, rebuild, compact, delete],
    ids=lambda c: c.__name__,
)
@pytest.mark.parametrize("closed", [False, True])
def test_changes_are_noticed(
    repo: Repo, home: Path, finder: Finder, change: Callable[[Repo, Path], None], closed: bool
) -> None:
    """After any change of index or HEAD, while the index was held open or not, answers are those of a fresh start."""
    assert warm(finder, repo) == warm(finder, repo) == cold(repo, home)
    if closed:
        finder._kept._readings[place(repo, home)].close()
    change(repo, home)
    assert warm(finder, repo) == warm(finder, repo) == cold(repo, home)


def test_work_trees_side_by_side(repo: Repo, home: Path, finder: Finder) -> None:
    """Two work trees of one repository, each at its own HEAD, share an index and are both kept at hand."""
    other = repo.path.parent / "other"
    repo.git("worktree", "add", "--quiet", str(other), "HEAD~6")
    beside = Repo(other)
    before = [warm(finder, repo), warm(finder, beside)]
    assert [warm(finder, repo), warm(finder, beside)] == before == [cold(repo, home), cold(beside, home)]
    assert len(finder._kept._entries) == 2
    (held,) = finder.holdings()
    assert held.hunks == 12


def test_one_reads_and_others_wait(
    repo: Repo, home: Path, finder: Finder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Questions at once about an index that is not at hand read it once, and have the same answer."""
    reads: list[int] = []

    def counted(*given: Any) -> Seen:
        reads.append(threading.get_ident())
        return see(*given)

    monkeypatch.setattr(cache, "see", counted)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: warm(finder, repo), range(8)))
    assert len(reads) == 1
    assert all(one == cold(repo, home) for one in answers)


def test_a_read_that_fails_is_tried_again(
    repo: Repo, home: Path, finder: Finder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing half read is kept."""
    with monkeypatch.context() as broken, pytest.raises(ValueError, match="broken"):
        broken.setattr(cache, "see", lambda *_: (_ for _ in ()).throw(ValueError("broken")))
        finder.find(QUESTIONS[0], repo.path, NOW)
    assert finder.holdings() == ()
    assert warm(finder, repo) == cold(repo, home)


def test_what_is_kept_is_told(repo: Repo, home: Path, finder: Finder) -> None:
    """Place, hunks in reach, bytes and the time since the last question; nothing after closing."""
    assert finder.holdings() == ()
    warm(finder, repo)
    (held,) = finder.holdings()
    assert (held.place, held.hunks) == (place(repo, home), 12)
    assert 0 < held.bytes < 10_000_000
    assert 0 <= held.idle_seconds < 60
    finder.close()
    assert finder.holdings() == ()
    assert warm(finder, repo) == cold(repo, home)


def test_what_was_not_asked_for_longest_goes(tmp_path: Path, repo: Repo, home: Path) -> None:
    """Over its budget a finder keeps the index asked last, and answers about the other from a new reading."""
    other = made(tmp_path / "other")
    other.commit_file("more.py", "timeout\n", "One more")
    index(other, home)
    with closing(Finder(home, encoder=WordEncoder, most_bytes=1)) as finder:
        warm(finder, repo)
        warm(finder, other)
        assert [held.place for held in finder.holdings()] == [place(other, home)]
        assert warm(finder, repo) == cold(repo, home)
    with closing(Finder(home, encoder=WordEncoder)) as finder:
        for one in (repo, other, repo):
            warm(finder, one)
        assert [held.place for held in finder.holdings()] == [place(other, home), place(repo, home)]


def test_an_index_that_is_gone_is_forgotten(repo: Repo, home: Path, finder: Finder) -> None:
    """Once a question finds the index deleted, nothing of it stays in memory."""
    warm(finder, repo)
    delete(repo, home)
    warm(finder, repo)
    assert finder.holdings() == ()


def test_the_encoder_is_its_owners(repo: Repo, home: Path) -> None:
    """Each question asks for the encoder, so that whoever owns it may unload it in between."""
    asked: list[Encoding] = []

    def encoder(encoding: Encoding) -> WordEncoder:
        asked.append(encoding)
        return WordEncoder()

    with closing(Finder(home, encoder=encoder)) as finder:
        warm(finder, repo)
    assert asked == [Encoding.MINILM] * len(QUESTIONS)


def test_long_diffs_are_shown_too(tmp_path: Path, home: Path, finder: Finder) -> None:
    """What is too long to be kept is read for each answer, and is the same."""
    repo = Repo.create(tmp_path / "long")
    repo.commit_file("long.py", "timeout = 1\n" + "x" * (hunk_details.LONGEST_KEPT_DIFF + 1), "Long")
    repo.commit_file("short.py", "timeout = 1\n", "Short")
    index(repo, home)
    assert warm(finder, repo) == warm(finder, repo) == cold(repo, home)
    (seen,) = [entry.seen for entry in finder._kept._entries.values()]
    assert seen is not None and seen.diffs is not None
    assert len(seen.diffs.rows) == 1
