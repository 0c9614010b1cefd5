"""The vector lane: exact, whitened, filtered before it is cut."""

from __future__ import annotations

import numpy as np
import pytest

from stores import history, snapshot, vector_search, whitening
from stores.filters import Where, chosen
from stores.types import EMBEDDING_DIMENSION, Reach
from tests.stores.sample_index import Doc, sha, small_index, unit
from tests.stores.search_helpers import nearest


def random_docs(count: int) -> list[Doc]:
    """Hunks whose vectors share a large common component, as those of one repository do."""
    rows = np.random.default_rng(7).normal(size=(count, EMBEDDING_DIMENSION)) * np.linspace(
        3, 0.3, EMBEDDING_DIMENSION
    )
    rows[:, 0] += 9
    languages = ["python", "rust"]
    return [
        Doc(n % 97, f"{n}.py", language=languages[n % 2], vector=tuple(row.tolist()))
        for n, row in enumerate(rows)
    ]


LARGE = random_docs(whitening.FEWEST_TO_WHITEN + 1)
QUERY = unit(*np.random.default_rng(8).normal(size=EMBEDDING_DIMENSION).tolist())


def whitened_by_definition(docs: list[Doc], query: np.ndarray) -> np.ndarray:
    """Cosines after scaling each principal axis by variance ** -3/16: rows without the mean, the query without half."""
    rows = np.stack([unit(*doc.vector) for doc in docs]).astype(np.float64)
    mean = rows.mean(axis=0)
    _, deviations, axes = np.linalg.svd(rows - mean, full_matrices=False)
    scale = (deviations**2 / len(rows)) ** -0.1875
    placed = np.vstack([rows - mean, query - mean / 2]) @ axes.T * scale
    placed /= np.linalg.norm(placed, axis=1, keepdims=True)
    cosines: np.ndarray = placed[:-1] @ placed[-1]
    return cosines


def test_small_index_is_compared_by_plain_cosine() -> None:
    """Below the named minimum of texts the lane ranks by the raw vectors."""
    docs = [Doc(1, "far.py", vector=(0, 1)), Doc(2, "near.py", vector=(3, 1)), Doc(3, "same.py", vector=(1,))]
    hits = nearest(small_index(docs), unit(1))
    assert [hit.file_path for hit in hits] == ["same.py", "near.py", "far.py"]
    assert [hit.score for hit in hits] == pytest.approx([1, 3 / 10**0.5, 0])


def test_large_index_is_whitened() -> None:
    """With enough texts the ranking is that of the whitened vectors, exact and complete."""
    hits = nearest(small_index(LARGE), QUERY)
    expected = whitened_by_definition(LARGE, QUERY)
    assert [hit.hunk_id for hit in hits] == np.argsort(-expected)[:100].tolist()
    assert [hit.score for hit in hits] == pytest.approx(np.sort(expected)[::-1][:100].tolist(), abs=1e-6)


def test_filtered_lane_is_the_filtered_ranking() -> None:
    """A filter drops rows of the whole ranking before the lane is cut, and changes no score."""
    connection = small_index(LARGE)
    everything = nearest(connection, QUERY, limit=len(LARGE))
    kept = [hit for hit in everything if LARGE[hit.hunk_id].language == "rust"]
    assert list(nearest(connection, QUERY, Where(language="rust"))) == kept[:100]


def test_unreached_commits_leave_no_trace() -> None:
    """What HEAD does not reach is neither ranked nor part of the space the rest is compared in."""
    stray = [Doc(200, f"stray{n}.py", vector=(0, n + 1, 1)) for n in range(50)]
    with_stray = nearest(small_index([*LARGE, *stray], unreached=[200]), QUERY)
    assert with_stray == nearest(small_index(LARGE), QUERY)


def test_order_is_of_content() -> None:
    """The ranking is the same whatever the order in which the rows came."""
    first, second = (
        [(hit.score, hit.file_path) for hit in nearest(small_index(rows), QUERY)]
        for rows in (LARGE, LARGE[::-1])
    )
    assert first == second


def test_shared_text_ranks_each_of_its_hunks() -> None:
    """Hunks of equal text have one vector between them and equal scores, the newer commit first."""
    connection = small_index([Doc(1, "a.py"), Doc(2, "b.py"), Doc(3, "c.py", vector=(0, 1))])
    assert connection.execute("SELECT count(*) FROM vectors").fetchall() == [(2,)]
    hits = nearest(connection, unit(1))
    assert [(hit.file_path, hit.score) for hit in hits] == [("b.py", 1.0), ("a.py", 1.0), ("c.py", 0.0)]


def test_named_path_is_preferred() -> None:
    """Of two equally near texts the one under a path the query names comes first."""
    connection = small_index([Doc(1, "net/a.py"), Doc(2, "b.py")])
    assert nearest(connection, unit(1))[0].commit_sha == sha(2)
    assert nearest(connection, unit(1), Where(near=("net/",)))[0].commit_sha == sha(1)


def test_similarity_is_plain_cosine() -> None:
    """The similarity shown to people is the cosine of the raw vectors, on a whitened index too."""
    expected = {n: float(unit(*LARGE[n].vector) @ QUERY) for n in (0, 5)}
    connection = small_index(LARGE)
    seen = snapshot.load(connection, Reach())
    texts = vector_search.load(connection, seen)
    assert vector_search.similarities(connection, seen, texts, QUERY, [0, 5]) == pytest.approx(
        expected, abs=1e-6
    )


def test_nothing_to_compare() -> None:
    """An index without hunks, and a filter that keeps none, give an empty ranking."""
    assert nearest(small_index([]), QUERY) == ()
    assert nearest(small_index(LARGE[:3]), QUERY, Where(language="cobol")) == ()


@pytest.mark.parametrize("where", [Where(), Where(language="rust", near=("7*",))])
def test_too_many_to_keep(monkeypatch: pytest.MonkeyPatch, where: Where) -> None:
    """Vectors that are not kept but read again for each question give the same ranking and the same cosines."""
    connection = small_index(LARGE)
    seen = snapshot.load(connection, Reach())
    kept = vector_search.load(connection, seen)
    monkeypatch.setattr(history, "MOST_KEPT_ROWS", len(LARGE) - 1)
    streamed = vector_search.load(connection, seen)
    assert kept.rows is not None and streamed.rows is None
    assert kept.bytes - streamed.bytes == kept.rows.nbytes
    answers = [
        (
            vector_search.ask(connection, seen, texts, QUERY, chosen(connection, seen, where)),
            vector_search.similarities(connection, seen, texts, QUERY, [3, 1, 999]),
        )
        for texts in (kept, streamed)
    ]
    assert answers[0] == answers[1]


def test_texts_in_one_point() -> None:
    """Where all texts have the same vector there is nothing to whiten, and content decides the order."""
    connection = small_index(LARGE)
    connection.execute("UPDATE vectors SET embedding = (SELECT embedding FROM vectors LIMIT 1)")
    assert {hit.score for hit in nearest(connection, unit(1))} == {nearest(connection, unit(1))[0].score}
    connection.execute("UPDATE vectors SET embedding = list_resize([]::FLOAT[], 384, 0)::FLOAT[384]")
    assert {hit.score for hit in nearest(connection, unit(1))} == {0.0}
