"""Vector search: whitening, filters, order and reachability."""

from __future__ import annotations

import numpy as np
import pytest

from stores import history, snapshot, vector_search, whitening
from stores.filters import QueryFilter, apply_filter
from stores.types import EMBEDDING_DIMENSION, ReachabilityDelta
from tests.stores.sample_index import SampleHunk, create_index, make_sha, make_unit_vector
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


LARGE = make_random_hunks(whitening.MIN_TEXTS_TO_WHITEN + 1)
QUERY = make_unit_vector(*np.random.default_rng(8).normal(size=EMBEDDING_DIMENSION).tolist())


def compute_whitened_cosines(hunks: list[SampleHunk], query: np.ndarray) -> np.ndarray:
    """Return the whitened cosines by their definition.

    Each principal axis is scaled by variance ** -3/16, after subtracting the mean of the rows, and half of it from the
    query.
    """
    rows = np.stack([make_unit_vector(*hunk.vector) for hunk in hunks]).astype(np.float64)
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
    assert [hit.score for hit in hits] == pytest.approx([1, 3 / 10**0.5, 0])


def test_large_index_is_whitened() -> None:
    """With enough texts the ranking is by the exact cosine of the whitened vectors."""
    hits = search_vectors(create_index(LARGE), QUERY)
    expected = compute_whitened_cosines(LARGE, QUERY)
    assert [hit.hunk_id for hit in hits] == np.argsort(-expected)[:100].tolist()
    assert [hit.score for hit in hits] == pytest.approx(np.sort(expected)[::-1][:100].tolist(), abs=1e-6)


def test_filter_applies_before_the_limit() -> None:
    """A filter removes rows before the ranking is cut to its limit, and changes no score."""
    connection = create_index(LARGE)
    unfiltered = search_vectors(connection, QUERY, limit=len(LARGE))
    expected = [hit for hit in unfiltered if LARGE[hit.hunk_id].language == "rust"]
    assert list(search_vectors(connection, QUERY, QueryFilter(language="rust"))) == expected[:100]


def test_unreached_commits_have_no_effect() -> None:
    """Unreached commits are neither ranked nor included in the whitening."""
    unreached_hunks = [SampleHunk(200, f"unreached{n}.py", vector=(0, n + 1, 1)) for n in range(50)]
    with_unreached = search_vectors(create_index([*LARGE, *unreached_hunks], unreached=[200]), QUERY)
    assert with_unreached == search_vectors(create_index(LARGE), QUERY)


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
    assert [(hit.file_path, hit.score) for hit in hits] == [("b.py", 1.0), ("a.py", 1.0), ("c.py", 0.0)]


def test_preferred_path() -> None:
    """Of two texts with equal vectors the one under a preferred path ranks first."""
    connection = create_index([SampleHunk(1, "net/a.py"), SampleHunk(2, "b.py")])
    assert search_vectors(connection, make_unit_vector(1))[0].commit_sha == make_sha(2)
    assert search_vectors(connection, make_unit_vector(1), QueryFilter(preferred_paths=("net/",)))[
        0
    ].commit_sha == make_sha(1)


def test_similarity_is_not_whitened() -> None:
    """The displayed similarity is the cosine of the stored vectors, even in a whitened index."""
    expected = {n: float(make_unit_vector(*LARGE[n].vector) @ QUERY) for n in (0, 5)}
    connection = create_index(LARGE)
    loaded_snapshot = snapshot.load_snapshot(connection, ReachabilityDelta())
    texts = vector_search.load_text_vectors(connection, loaded_snapshot)
    assert vector_search.compute_hunk_similarities(
        connection, loaded_snapshot, texts, QUERY, [0, 5]
    ) == pytest.approx(expected, abs=1e-6)


def test_empty_ranking() -> None:
    """An index without hunks, and a filter that no hunk passes, give an empty ranking."""
    assert search_vectors(create_index([]), QUERY) == ()
    assert search_vectors(create_index(LARGE[:3]), QUERY, QueryFilter(language="cobol")) == ()


@pytest.mark.parametrize(
    "query_filter", [QueryFilter(), QueryFilter(language="rust", preferred_paths=("7*",))]
)
def test_vectors_read_for_each_query(monkeypatch: pytest.MonkeyPatch, query_filter: QueryFilter) -> None:
    """Vectors that are not in memory but read for each query give the same ranking and similarities."""
    connection = create_index(LARGE)
    loaded_snapshot = snapshot.load_snapshot(connection, ReachabilityDelta())
    in_memory = vector_search.load_text_vectors(connection, loaded_snapshot)
    monkeypatch.setattr(history, "MAX_ROWS_IN_MEMORY", len(LARGE) - 1)
    streamed = vector_search.load_text_vectors(connection, loaded_snapshot)
    assert in_memory.vectors is not None and streamed.vectors is None
    assert in_memory.bytes - streamed.bytes == in_memory.vectors.nbytes
    results = [
        (
            vector_search.search(
                connection,
                loaded_snapshot,
                texts,
                QUERY,
                apply_filter(connection, loaded_snapshot, query_filter),
            ),
            vector_search.compute_hunk_similarities(connection, loaded_snapshot, texts, QUERY, [3, 1, 999]),
        )
        for texts in (in_memory, streamed)
    ]
    assert results[0] == results[1]


def test_equal_vectors() -> None:
    """If all texts have the same vector, even zero, all scores are equal."""
    connection = create_index(LARGE)
    connection.execute("UPDATE vectors SET embedding = (SELECT embedding FROM vectors LIMIT 1)")
    assert {hit.score for hit in search_vectors(connection, make_unit_vector(1))} == {
        search_vectors(connection, make_unit_vector(1))[0].score
    }
    connection.execute("UPDATE vectors SET embedding = list_resize([]::FLOAT[], 384, 0)::FLOAT[384]")
    assert {hit.score for hit in search_vectors(connection, make_unit_vector(1))} == {0.0}
