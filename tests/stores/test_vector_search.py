"""Vector search: whitening, filters, order and reachability. Vectors of all or some commit messages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.git.repository import open_repository
from serve.repositories import locate_index
from stores import database, snapshot, vector_search, vectors
from stores.compatibility import EMBEDDING_DIMENSION
from stores.filters import QueryFilter
from stores.history import ReachabilityDelta
from stores.vectors import quantize
from tests.repos import Repo
from tests.serve.sample_index import build_index
from tests.stores.sample_index import (
    SampleHunk,
    create_index,
    insert_vectors,
    make_sha,
    make_unit_vector,
)
from tests.stores.search_helpers import search_vectors


def make_random_hunks(count: int) -> list[SampleHunk]:
    """Return hunks whose vectors have a large common component, as those of one repository have."""
    rows = np.random.default_rng(7).normal(size=(count, EMBEDDING_DIMENSION)) * np.linspace(
        3, 0.3, EMBEDDING_DIMENSION
    )
    rows[:, 0] += 9
    languages = ["python", "rust"]
    return [
        SampleHunk(n % 97, f"{n}.py", language=languages[n % 2], vector=tuple(row.tolist()))
        for n, row in enumerate(rows)
    ]


LARGE = make_random_hunks(vectors.MIN_TEXTS_TO_WHITEN + 1)
QUERY = make_unit_vector(*np.random.default_rng(8).normal(size=EMBEDDING_DIMENSION).tolist())


def stack_vectors(hunks: list[SampleHunk]) -> np.ndarray:
    """Return the vectors of the hunks before they are quantized, a row for each."""
    return np.stack([make_unit_vector(*hunk.vector) for hunk in hunks]).astype(np.float64)


def compute_whitened_cosines(rows: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Return the whitened cosines by their definition.

    The mean is subtracted from the rows, and half the mean from the query. Then each principal axis is scaled by
    variance ** (-3/16).
    """
    mean = rows.mean(axis=0)
    _, deviations, axes = np.linalg.svd(rows - mean, full_matrices=False)
    scale = (deviations**2 / len(rows)) ** -0.1875
    whitened = np.vstack([rows - mean, query - mean / 2]) @ axes.T * scale
    whitened /= np.linalg.norm(whitened, axis=1, keepdims=True)
    cosines: np.ndarray = whitened[:-1] @ whitened[-1]
    return cosines


def test_small_index_is_not_whitened() -> None:
    """With few texts the ranking is by the cosine of the stored vectors."""
    hunks = [
        SampleHunk(1, "far.py", vector=(0, 1)),
        SampleHunk(2, "near.py", vector=(3, 1)),
        SampleHunk(3, "same.py", vector=(1,)),
    ]
    hits = search_vectors(create_index(hunks), make_unit_vector(1))
    assert [hit.file_path for hit in hits] == ["same.py", "near.py", "far.py"]
    assert [hit.score for hit in hits] == pytest.approx([1, 3 / 10**0.5, 0], abs=2e-3)


def test_large_index_is_whitened() -> None:
    """With enough texts the ranking is by the cosine of the whitened stored vectors."""
    hits = search_vectors(create_index(LARGE), QUERY, limit=len(LARGE))
    stored_vectors = quantize(stack_vectors(LARGE).astype(np.float32)).decode()
    expected = compute_whitened_cosines(stored_vectors.astype(np.float64), QUERY)
    assert len(hits) == len(LARGE)
    assert [hit.score for hit in hits] == pytest.approx(
        expected[[hit.hunk_id for hit in hits]].tolist(), abs=3e-4
    )


@pytest.mark.parametrize("seed", range(4))
def test_overlap_with_float_vectors(seed: int) -> None:
    """At least 49 of the 50 best hunks are the same with quantized vectors as with float vectors."""
    query = make_unit_vector(*np.random.default_rng(seed).normal(size=EMBEDDING_DIMENSION).tolist())
    hits = search_vectors(create_index(LARGE), query, limit=50)
    best = np.argsort(-compute_whitened_cosines(stack_vectors(LARGE), query))[:50]
    assert len({hit.hunk_id for hit in hits} & set(best.tolist())) >= 49


def test_hunks_without_a_vector() -> None:
    """Hunks whose text has no vector are not ranked, do not change the whitening, and have similarity 0."""
    connection = create_index([*LARGE, *(SampleHunk(200, f"{n}.rs", vector=(0, n, 1)) for n in range(50))])
    connection.execute(
        "DELETE FROM vectors WHERE text_digest IN (SELECT text_digest FROM hunks WHERE file_path LIKE '%.rs')"
    )
    assert search_vectors(connection, QUERY, limit=2_000) == search_vectors(
        create_index(LARGE), QUERY, limit=2_000
    )
    loaded_snapshot = snapshot.load_snapshot(connection, ReachabilityDelta())
    texts = vector_search.load_text_vectors(connection, loaded_snapshot)
    vectors = vector_search.get_hunk_vectors(loaded_snapshot, texts, [len(LARGE), 0])
    missing, present = vector_search.compute_cosine_similarities(vectors, QUERY)
    assert missing == 0 != present
    connection.execute("DELETE FROM vectors")
    assert search_vectors(connection, QUERY) == ()


@pytest.mark.parametrize("gathered_share", [0.0, 1.0])
def test_filter_applies_before_the_limit(gathered_share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter applies before the limit, and changes no score, whether all vectors are read or only matching ones."""
    monkeypatch.setattr(vector_search, "MAX_GATHERED_SHARE", gathered_share)
    connection = create_index(LARGE)
    unfiltered = search_vectors(connection, QUERY, limit=len(LARGE))
    expected = [hit for hit in unfiltered if LARGE[hit.hunk_id].language == "rust"]
    assert list(search_vectors(connection, QUERY, QueryFilter(language="rust"))) == expected[:100]


def test_unreachable_commits_have_no_effect() -> None:
    """Unreached commits are neither ranked nor included in the whitening."""
    unreachable_hunks = [SampleHunk(200, f"unreachable{n}.py", vector=(0, n + 1, 1)) for n in range(50)]
    with_unreachable = search_vectors(create_index([*LARGE, *unreachable_hunks], unreachable=[200]), QUERY)
    assert with_unreachable == search_vectors(create_index(LARGE), QUERY)


def test_vector_of_a_hunk_outside_the_snapshot() -> None:
    """A hunk that the snapshot lacks has no vector, rather than that of another hunk."""
    connection = create_index(LARGE[:3])
    loaded_snapshot = snapshot.load_snapshot(connection, ReachabilityDelta())
    texts = vector_search.load_text_vectors(connection, loaded_snapshot)
    present, missing = vector_search.get_hunk_vectors(loaded_snapshot, texts, [0, 99])
    assert present.any() and not missing.any()


def test_order_does_not_depend_on_rows() -> None:
    """The order of the rows in the tables does not change the ranking."""
    first, second = (
        [(hit.score, hit.file_path) for hit in search_vectors(create_index(rows), QUERY)]
        for rows in (LARGE, LARGE[::-1])
    )
    assert first == second


def test_hunks_with_equal_text() -> None:
    """Hunks with equal text share a vector and have equal scores, the newer commit first."""
    connection = create_index(
        [SampleHunk(1, "a.py"), SampleHunk(2, "b.py"), SampleHunk(3, "c.py", vector=(0, 1))]
    )
    assert connection.execute("SELECT count(*) FROM vectors").fetchall() == [(2,)]
    hits = search_vectors(connection, make_unit_vector(1))
    assert [hit.file_path for hit in hits] == ["b.py", "a.py", "c.py"]
    assert hits[0].score == hits[1].score == pytest.approx(1) and hits[2].score == 0


def test_preferred_path() -> None:
    """Of two texts with equal vectors the one under a preferred path ranks first."""
    connection = create_index([SampleHunk(1, "net/a.py"), SampleHunk(2, "b.py")])
    assert search_vectors(connection, make_unit_vector(1))[0].commit_sha == make_sha(2)
    assert search_vectors(connection, make_unit_vector(1), QueryFilter(preferred_paths=("net/",)))[
        0
    ].commit_sha == make_sha(1)


def test_similarity_is_not_whitened() -> None:
    """The displayed similarity is the plain cosine, even in a whitened index."""
    expected = [float(make_unit_vector(*LARGE[n].vector) @ QUERY) for n in (0, 5)]
    connection = create_index(LARGE)
    loaded_snapshot = snapshot.load_snapshot(connection, ReachabilityDelta())
    texts = vector_search.load_text_vectors(connection, loaded_snapshot)
    vectors = vector_search.get_hunk_vectors(loaded_snapshot, texts, [0, 5])
    assert vector_search.compute_cosine_similarities(vectors, QUERY) == pytest.approx(expected, abs=2e-3)


def test_empty_ranking() -> None:
    """An index without hunks, and a filter that no hunk passes, give an empty ranking."""
    assert search_vectors(create_index([]), QUERY) == ()
    assert search_vectors(create_index(LARGE[:3]), QUERY, QueryFilter(language="cobol")) == ()


def test_equal_vectors() -> None:
    """If all texts have the same vector, even zero, all scores are equal."""
    connection = create_index(LARGE)
    for vector, scores in ((make_unit_vector(1, 2), None), (np.zeros(EMBEDDING_DIMENSION), {0.0})):
        connection.execute("DELETE FROM vectors")
        insert_vectors(connection, {hunk.digest: vector for hunk in LARGE})
        hits = search_vectors(connection, make_unit_vector(1), limit=len(LARGE))
        assert len(hits) == len(LARGE) and len({hit.score for hit in hits}) == 1
        assert scores is None or {hit.score for hit in hits} == scores


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "a\n", message="Add a file")
    repo.commit_file("b.py", "b\n", message="Add a socket\n\n" + "It is long. " * 1_000)
    repo.git("commit", "--allow-empty", "--allow-empty-message", "-m", "")
    return repo


def test_all_or_some_messages(repo: Repo, home: Path) -> None:
    """Message and vector of a commit are the same either way; a long message is cut, an empty one has no vector."""
    build_index(repo, home)
    shas = repo.git("log", "--format=%H").split()
    with database.open_for_reading(locate_index(home, open_repository(repo.path))) as connection:
        all_messages = vector_search.load_all_messages(connection)
        some_messages = vector_search.load_messages(connection, shas)
    assert all_messages is not None and all_messages.bytes > 3 * 384
    for messages in (all_messages, some_messages):
        texts = messages.get_messages(shas)
        assert [text.split("\n")[0] for text in texts] == ["", "Add a socket", "Add a file"]
        assert len(texts[1]) == vector_search.MAX_MESSAGE_CHARS
        assert [bool(row.any()) for row in messages.get_vectors(shas)] == [False, True, True]
    assert np.array_equal(all_messages.get_vectors(shas), some_messages.get_vectors(shas))


def test_too_many_messages(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The messages of a long history are not all loaded, but those of some commits can be."""
    build_index(repo, home)
    monkeypatch.setattr(vector_search, "MAX_CACHED_MESSAGES", 1)
    with database.open_for_reading(locate_index(home, open_repository(repo.path))) as connection:
        assert vector_search.load_all_messages(connection) is None
        assert vector_search.load_messages(connection, [repo.head]).get_messages([repo.head]) == [""]
        assert vector_search.load_messages(connection, []).row_by_sha == {}
