"""What is known of candidates: by parts, absolute, and the same whoever stands beside them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from pipeline.git.repository import open_repository
from serve.api_types import FindRequest
from serve.repositories import place_of
from serve.search import features, query, retrieval
from serve.search.cache import see
from serve.search.features import FEATURES, Evidence
from serve.search.query import Query
from serve.search.query_hints import NOTHING_HERE
from serve.search.retrieval import Candidate, Rankings, fuse
from stores import database
from stores.hunk_details import Connection
from stores.types import Reach
from tests.repos import FIRST_DATE, Repo
from tests.serve.sample_index import WordEncoder, index


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """Three commits: one says retry in its message, one in its path and symbols, one nowhere."""
    repo = Repo.create(tmp_path / "repo")
    repo.write("net.py", "def connect():\n    return open_socket()\n")
    repo.commit("Retry failed calls\n\nThe server drops idle sockets.")
    repo.write("retry/backoff.py", "def retry_later():\n    return sleep()\n")
    repo.commit("Wait before the next attempt")
    repo.write("README.md", "A guide\n")
    repo.commit("Describe it")
    return repo


@contextmanager
def asked(
    repo: Repo, home: Path, text: str
) -> Iterator[tuple[Connection, Query, Rankings, tuple[Candidate, ...]]]:
    """An index and what its lanes say to a question."""
    repository = open_repository(repo.path)
    with database.reading(place_of(home, repository)) as connection:
        wanted = query.parse_query(FindRequest(text), FIRST_DATE, NOTHING_HERE)
        rankings = retrieval.rank(connection, lambda: see(connection, Reach()), wanted, WordEncoder())
        yield connection, wanted, rankings, fuse(rankings.lanes, 50)


def known(repo: Repo, home: Path, text: str) -> dict[str, dict[str, float]]:
    """Each commit's features by name, by its subject."""
    with asked(repo, home, text) as (connection, wanted, rankings, candidates):
        gathered = features.gather(connection, wanted, rankings, candidates)
        subjects = [repo.git("log", "-1", "--format=%s", one.commit_sha) for one in candidates]
    rows = (dict(zip(FEATURES, row, strict=True)) for row in gathered.rows.tolist())
    return dict(zip(subjects, rows, strict=True))


def test_parts(repo: Repo, home: Path) -> None:
    """Words count where they stand: in the subject, in the path, in the message's order, in names written whole."""
    index(repo, home)
    of = known(repo, home, "retry failed calls with retry_later")
    assert (
        of["Retry failed calls"]["words in the subject"]
        > of["Wait before the next attempt"]["words in the subject"]
    )
    assert of["Retry failed calls"]["words in order"] == pytest.approx(2 / 3)
    assert of["Retry failed calls"]["names found"] == 0 < of["Wait before the next attempt"]["names found"]
    assert (
        of["Retry failed calls"]["words in the path"]
        == 0
        < of["Wait before the next attempt"]["words in the path"]
    )
    assert set(of["Describe it"].values()) >= {0.0}


def test_shares_are_of_the_whole_question(repo: Repo, home: Path) -> None:
    """A question whose every word is found has a share of 1; words that no index knows take from it."""
    index(repo, home)
    assert known(repo, home, "retry failed calls")["Retry failed calls"]["words found"] == pytest.approx(1)
    less = known(repo, home, "retry failed calls zanzibar")["Retry failed calls"]["words found"]
    assert 0 < less < 1


def test_function_words_say_nothing(repo: Repo, home: Path) -> None:
    """What a question is built with changes no share."""
    index(repo, home)
    plain = known(repo, home, "retry failed calls")["Retry failed calls"]
    asked_for = known(repo, home, "how did we retry failed calls before")["Retry failed calls"]
    for feature in ("words found", "words in the subject", "words in order"):
        assert asked_for[feature] == pytest.approx(plain[feature])


def test_same_beside_any_neighbour(repo: Repo, home: Path) -> None:
    """A candidate's row does not depend on who else is judged."""
    index(repo, home)
    with asked(repo, home, "retry failed calls") as (connection, wanted, rankings, candidates):
        together = features.gather(connection, wanted, rankings, candidates)
        alone = [features.gather(connection, wanted, rankings, [one]) for one in candidates]
    assert np.array_equal(together.rows, np.concatenate([one.rows for one in alone]))
    assert told(together) == [told_alone for one in alone for told_alone in told(one)]


def test_messages_at_hand(repo: Repo, home: Path) -> None:
    """Messages kept from question to question say what those read from the index say; with them it is not asked."""
    index(repo, home)
    with asked(repo, home, "retry failed calls") as (connection, wanted, rankings, candidates):
        read = features.gather(connection, wanted, rankings, candidates)
        seen = rankings.seen.ready(connection)
        again = retrieval.rank(connection, lambda: seen, wanted, WordEncoder())
    assert again.lanes == rankings.lanes
    assert seen.messages is again.messages is not rankings.messages
    assert_same(read, features.gather(connection, wanted, again, candidates))  # the connection is closed


@pytest.mark.parametrize("text", ["???", "how was it done before", "zanzibar", "的"])
def test_nothing_to_find(repo: Repo, home: Path, text: str) -> None:
    """Questions without a word that counts have numbers too, none of them above what they can be."""
    index(repo, home)
    with asked(repo, home, text) as (connection, wanted, rankings, candidates):
        gathered = features.gather(connection, wanted, rankings, candidates)
    assert np.isfinite(gathered.rows).all()
    assert (gathered.rows[:, FEATURES.index("words found") :] == 0).all()
    assert (gathered.rows <= 1).all()
    assert {str(found) for found in gathered.found} == {"near in meaning; none of the question's words"}


def test_found_as_it_was_typed(repo: Repo, home: Path) -> None:
    """What was found is told in the question's own words, by part, not as stems."""
    index(repo, home)
    with asked(repo, home, "retrying calls in retry_later") as (connection, wanted, rankings, candidates):
        gathered = features.gather(connection, wanted, rankings, candidates)
    said = {str(found) for found in gathered.found}
    assert "message: calls, retrying" in said
    assert any("symbols: " in one and "retry_later" in one for one in said)


def assert_same(one: Evidence, other: Evidence) -> None:
    assert np.array_equal(one.rows, other.rows)
    assert told(one) == told(other)


def told(gathered: Evidence) -> list[str]:
    return list(map(str, gathered.found))
