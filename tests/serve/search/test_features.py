"""Features of candidates are absolute and do not depend on other candidates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from pipeline.encoders.base import STATIC_MODEL
from pipeline.git.repository import open_repository
from serve.find_types import FindRequest
from serve.repositories import locate_index
from serve.search import features, retrieval
from serve.search.cache import load_snapshot_with_vectors
from serve.search.features import FEATURES, CandidateFeatures
from serve.search.query import Query, parse_query
from serve.search.query_hints import EMPTY_CONTEXT
from serve.search.retrieval import Candidate, RetrieverResults, fuse_rankings
from stores import database
from stores.history import ReachabilityDelta
from stores.hunk_details import Connection
from tests.repos import FIRST_DATE, Repo
from tests.serve.sample_index import WordEncoder, build_index


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """Three commits: one has "retry" in its message, one in its path and symbols, one nowhere."""
    repo = Repo.create(tmp_path / "repo")
    repo.write("net.py", "def connect():\n    return open_socket()\n")
    repo.commit("Retry failed calls\n\nThe server drops idle sockets.")
    repo.write("retry/backoff.py", "def retry_later():\n    return sleep()\n")
    repo.commit("Wait before the next attempt")
    repo.write("README.md", "A guide\n")
    repo.commit("Describe it")
    return repo


@contextmanager
def run_query(
    repo: Repo, home: Path, text: str
) -> Iterator[tuple[Connection, Query, RetrieverResults, tuple[Candidate, ...]]]:
    """Yield an open index, a parsed query, the results of its lanes and the fused candidates."""
    repository = open_repository(repo.path)
    with database.open_for_reading(locate_index(home, repository)) as connection:
        query = parse_query(FindRequest(text), FIRST_DATE, EMPTY_CONTEXT)
        results = retrieval.run_retrievers(
            connection,
            lambda: load_snapshot_with_vectors(connection, ReachabilityDelta()),
            query,
            WordEncoder(),
        )
        yield connection, query, results, fuse_rankings(results.lanes, 50)


def compute_by_subject(repo: Repo, home: Path, text: str) -> dict[str, dict[str, float]]:
    """Return the features of each commit by subject, then by feature name."""
    with run_query(repo, home, text) as (connection, query, results, candidates):
        computed = features.compute_features(connection, query, results, candidates)
        subjects = [repo.git("log", "-1", "--format=%s", candidate.commit_sha) for candidate in candidates]
    rows = (dict(zip(FEATURES, row, strict=True)) for row in computed.matrix.tolist())
    return dict(zip(subjects, rows, strict=True))


def test_similarity_by_static_vectors(repo: Repo, tmp_path: Path) -> None:
    """In an index of the encoder `static`, the similarity of hunks is scaled; nothing else differs."""
    build_index(repo, tmp_path / "home")
    build_index(repo, tmp_path / "static", embedding_model=STATIC_MODEL)
    by_subject = compute_by_subject(repo, tmp_path / "home", "retry failed calls")
    by_static = compute_by_subject(repo, tmp_path / "static", "retry failed calls")
    for subject, values in by_subject.items():
        scaled = features.STATIC_SIMILARITY_SCALE * (1 + values["hunk similarity"])
        assert by_static[subject] == values | {"hunk similarity": pytest.approx(scaled)}


def test_similarity_without_static_vectors(repo: Repo, tmp_path: Path) -> None:
    """In an index of the encoder `static` without vectors, the similarity is 0."""
    build_index(repo, tmp_path / "static", embedding_model=STATIC_MODEL)
    with database.open_for_writing(
        locate_index(tmp_path / "static", open_repository(repo.path))
    ) as connection:
        connection.execute("DELETE FROM vectors")
    by_subject = compute_by_subject(repo, tmp_path / "static", "retry failed calls")
    assert {values["hunk similarity"] for values in by_subject.values()} == {0.0}


def test_words_count_by_field(repo: Repo, home: Path) -> None:
    """Words count by field: subject, path, word pairs of the message, compound identifiers."""
    build_index(repo, home)
    by_subject = compute_by_subject(repo, home, "retry failed calls with retry_later")
    assert (
        by_subject["Retry failed calls"]["matched words in subject"]
        > by_subject["Wait before the next attempt"]["matched words in subject"]
    )
    assert by_subject["Retry failed calls"]["matched word pairs in message"] == pytest.approx(2 / 3)
    assert (
        by_subject["Retry failed calls"]["matched identifiers"]
        == 0
        < by_subject["Wait before the next attempt"]["matched identifiers"]
    )
    assert (
        by_subject["Retry failed calls"]["matched words in path"]
        == 0
        < by_subject["Wait before the next attempt"]["matched words in path"]
    )
    assert set(by_subject["Describe it"].values()) >= {0.0}


def test_unknown_words_lower_the_share(repo: Repo, home: Path) -> None:
    """A query whose words are all matched has a share of 1; words unknown to the index lower it."""
    build_index(repo, home)
    assert compute_by_subject(repo, home, "retry failed calls")["Retry failed calls"][
        "matched words"
    ] == pytest.approx(1)
    less = compute_by_subject(repo, home, "retry failed calls zanzibar")["Retry failed calls"][
        "matched words"
    ]
    assert 0 < less < 1


def test_function_words_are_ignored(repo: Repo, home: Path) -> None:
    """Function words of a question change no share."""
    build_index(repo, home)
    plain = compute_by_subject(repo, home, "retry failed calls")["Retry failed calls"]
    with_function_words = compute_by_subject(repo, home, "how did we retry failed calls before")[
        "Retry failed calls"
    ]
    for feature in ("matched words", "matched words in subject", "matched word pairs in message"):
        assert with_function_words[feature] == pytest.approx(plain[feature])


def test_features_do_not_depend_on_other_candidates(repo: Repo, home: Path) -> None:
    """A candidate's features are the same alone and among others."""
    build_index(repo, home)
    with run_query(repo, home, "retry failed calls") as (connection, query, results, candidates):
        together = features.compute_features(connection, query, results, candidates)
        alone = [
            features.compute_features(connection, query, results, [candidate]) for candidate in candidates
        ]
    assert np.array_equal(together.matrix, np.concatenate([single.matrix for single in alone]))
    assert format_matches(together) == [match for single in alone for match in format_matches(single)]


def test_cached_messages_give_the_same_features(repo: Repo, home: Path) -> None:
    """Cached messages give the same features as messages read from the index, without using the connection."""
    build_index(repo, home)
    with run_query(repo, home, "retry failed calls") as (connection, query, results, candidates):
        expected = features.compute_features(connection, query, results, candidates)
        loaded_snapshot = results.loaded_snapshot.with_all_texts(connection)
        second_results = retrieval.run_retrievers(connection, lambda: loaded_snapshot, query, WordEncoder())
    assert second_results.lanes == results.lanes
    assert loaded_snapshot.messages is second_results.messages is not results.messages
    # The connection is closed.
    assert_same(expected, features.compute_features(connection, query, second_results, candidates))


@pytest.mark.parametrize("text", ["???", "how was it done before", "zanzibar", "的"])
def test_queries_without_known_words(repo: Repo, home: Path, text: str) -> None:
    """Queries without a known word have finite features of at most 1."""
    build_index(repo, home)
    with run_query(repo, home, text) as (connection, query, results, candidates):
        computed = features.compute_features(connection, query, results, candidates)
    assert np.isfinite(computed.matrix).all()
    words = slice(FEATURES.index("matched words"), FEATURES.index("similarity of other files"))
    assert (computed.matrix[:, words] == 0).all()
    assert (computed.matrix <= 1).all()
    assert {str(matched) for matched in computed.matched_terms} == {
        "near in meaning; none of the question's words"
    }


def test_matched_words_are_shown_as_typed(repo: Repo, home: Path) -> None:
    """Matched words are listed by field as the user typed them, not as stems."""
    build_index(repo, home)
    with run_query(repo, home, "retrying calls in retry_later") as (connection, query, results, candidates):
        computed = features.compute_features(connection, query, results, candidates)
    texts = {str(matched) for matched in computed.matched_terms}
    assert "message: calls, retrying" in texts
    assert any("symbols: " in text and "retry_later" in text for text in texts)


def assert_same(first: CandidateFeatures, second: CandidateFeatures) -> None:
    assert np.array_equal(first.matrix, second.matrix)
    assert format_matches(first) == format_matches(second)


def format_matches(computed: CandidateFeatures) -> list[str]:
    return list(map(str, computed.matched_terms))


def test_other_files_of_the_commit_count(tmp_path: Path, home: Path) -> None:
    """The second and third best hunk of a commit count half and a quarter, for all of its candidates; more do not."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("one.py", "def retry(): pass\n", "One file")
    for number in range(4):
        repo.write(f"part{number}.py", "def retry(): pass\n")
    repo.commit("Four files")
    build_index(repo, home)
    with run_query(repo, home, "retry") as (connection, query, results, candidates):
        matrix = features.compute_features(connection, query, results, candidates).matrix
    similarities = matrix[:, FEATURES.index("hunk similarity, whitened")]
    others = matrix[:, FEATURES.index("similarity of other files")]
    is_single = np.array([candidate.file_path == "one.py" for candidate in candidates])
    assert others[is_single].tolist() == [0]
    # The codes of stored vectors are multiplied in two ways, which differ by rounding.
    assert others[~is_single] == pytest.approx((0.5 + 0.25) * similarities[~is_single], rel=1e-3)
    assert others.max() > 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("how do we retry", {"Code": 1, "Test": 0, "Changelog": 0}),
        ("test of retry", {"Code": 1, "Test": 1, "Changelog": 0}),
        ("changelog entry about retry", {"Code": 1, "Test": 0, "Changelog": 1}),
    ],
)
def test_files_asked_for(tmp_path: Path, home: Path, text: str, expected: dict[str, int]) -> None:
    """A commit without source code counts less, unless the query asks for a role that one of its files has."""
    repo = Repo.create(tmp_path / "repo")
    repo.write("src/net.py", "def retry(): pass\n")
    repo.write("docs/net.md", "retry\n")
    repo.commit("Code")
    repo.commit_file("tests/test_net.py", "def test_retry(): pass\n", "Test")
    repo.commit_file("CHANGELOG.md", "retry\n", "Changelog")
    build_index(repo, home)
    with run_query(repo, home, text) as (connection, query, results, candidates):
        computed = features.compute_features(connection, query, results, candidates)
        subjects = [repo.git("log", "-1", "--format=%s", sha) for sha in computed.commits]
    column = computed.matrix[:, FEATURES.index("file of requested role")]
    assert dict(zip(subjects, column, strict=True)) == expected


@pytest.mark.parametrize(
    ("text", "subject_as_asked", "removed_lines"),
    [
        ("when was retry introduced?", (1, 0, 0), (0, 0, 0)),
        ("when was retry removed?", (0, 0, 1), (0, 1 / 5, 3 / 7)),
        ("how do we retry?", (0, 0, 0), (0, 0, 0)),
    ],
)
def test_origins_and_removals(
    tmp_path: Path, home: Path, text: str, subject_as_asked: tuple[int, ...], removed_lines: tuple[float, ...]
) -> None:
    """Subjects that add or remove count for questions about an origin or a removal; removed code for the latter."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("net.py", "def retry():\n    retry_one()\n    retry_two()\n", "feat(net): add retry")
    repo.write("README.md", "retry\n" * 9)
    repo.commit_file("net.py", "def retry():\n    retry_one()\n    retry_2()\n", "Use less retry")
    repo.git("rm", "README.md")
    repo.commit_file("net.py", "\n", "Remove retry")
    build_index(repo, home)
    with run_query(repo, home, text) as (connection, query, results, candidates):
        computed = features.compute_features(connection, query, results, candidates)
        subjects = [repo.git("log", "-1", "--format=%s", sha) for sha in computed.commits]
    rows = computed.matrix[
        [subjects.index(subject) for subject in ("feat(net): add retry", "Use less retry", "Remove retry")]
    ]
    assert tuple(rows[:, FEATURES.index("subject as asked")]) == subject_as_asked
    assert tuple(rows[:, FEATURES.index("removed lines")]) == pytest.approx(removed_lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "when was retry introduced?",
            {
                "Address retry comments": 0,
                "fix: address retry": 0,
                "Initialize retry": 0,
                "Makefile: retry": 0,
                "Adds retry": 1,
                "feat: introduction of retry": 1,
                "Add-ons for retry": 1,
            },
        ),
        (
            "when was retry removed?",
            {
                "Test striped retry": 0,
                "Fix the dropdown of retry": 0,
                "Catch DeprecationWarning of retry": 0,
                "Merge pull request #1 from a/remove_retry": 1,
                "Finally dropped retry": 1,
                "Simplifies retry": 1,
            },
        ),
    ],
)
def test_subjects_match_by_inflections(
    tmp_path: Path, home: Path, text: str, expected: dict[str, int]
) -> None:
    """Only inflections of the words that mark an origin or a removal count, not other words with the same beginning."""
    repo = Repo.create(tmp_path / "repo")
    for number, subject in enumerate(expected):
        repo.commit_file("net.py", f"retry({number})\n", subject)
    build_index(repo, home)
    with run_query(repo, home, text) as (connection, query, results, candidates):
        computed = features.compute_features(connection, query, results, candidates)
        subjects = [repo.git("log", "-1", "--format=%s", sha) for sha in computed.commits]
    column = computed.matrix[:, FEATURES.index("subject as asked")]
    assert dict(zip(subjects, column, strict=True)) == expected
