"""Queries of an index whose texts have no vectors yet, or only some."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from serve.find_types import FindAnswer, FindRequest
from serve.index_status import load_status_at_path
from serve.search.find_pattern import NO_CONTENT_WORDS, find_pattern
from stores import database, vector_search, writer
from tests.pipeline.histories import create_interleaved_repo, get_location, run_index
from tests.repos import Repo
from tests.serve.sample_index import WordEncoder

QUESTION = "greet and part by name"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return create_interleaved_repo(tmp_path / "repo", rounds=2)


class QuestionEncoder(WordEncoder):
    """Encoder that encodes queries in another way than texts."""

    def encode_queries(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return self.encode([f"{text} asked" for text in texts])


def find(
    repo: Repo, home: Path, text: str = QUESTION, *, rerank: bool = True, path: str | None = None
) -> FindAnswer:
    request = FindRequest(text, k=3, rerank=rerank, path=path)
    return find_pattern(request, repo.path, home, load_encoder=lambda _: QuestionEncoder())


def test_words_answer_before_any_vector(repo: Repo, tmp_path: Path) -> None:
    """Without vectors words find the first hit, with the similarity of the complete index; a hint says so."""
    home = tmp_path / "home"
    run_index(repo, home, skip_vectors=True)
    answer = find(repo, home)
    assert answer.hits[0].commit_message == "Greet and part"
    assert "vectors for 0 % of the changes" in (answer.meta.hint or "")
    run_index(repo, home)
    complete_answer = find(repo, home)
    assert complete_answer.hits[0].commit_message == "Greet and part"
    assert answer.hits[0].similarity == pytest.approx(complete_answer.hits[0].similarity, abs=1e-5)
    assert "vectors" not in (complete_answer.meta.hint or "")


@pytest.mark.parametrize("text", ["```", "?!"])
def test_query_without_words_before_any_vector(repo: Repo, tmp_path: Path, text: str) -> None:
    """Without words only vectors can find a commit. Before there are any, the hint is to use words."""
    run_index(repo, tmp_path / "home", skip_vectors=True)
    for path in (None, "*.py"):
        answer = find(repo, tmp_path / "home", text, path=path)
        assert answer.hits == ()
        assert NO_CONTENT_WORDS in (answer.meta.hint or "")


@pytest.mark.parametrize(
    ("path", "filters"), [(None, ""), ("*.py", " that passes the filters (path '*.py')")]
)
def test_unknown_word_before_any_vector(repo: Repo, tmp_path: Path, path: str | None, filters: str) -> None:
    """Without vectors a word that no change has finds nothing, and the hint does not blame history or filters."""
    run_index(repo, tmp_path / "home", skip_vectors=True)
    answer = find(repo, tmp_path / "home", "zebra", path=path)
    assert answer.hits == ()
    assert f"No indexed change{filters} has a word of the query." in (answer.meta.hint or "")


def test_vector_lane_has_only_texts_with_vectors(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hunks without a vector are in no place of the vector lane, however few others there are."""
    home = tmp_path / "home"
    monkeypatch.setattr("pipeline.run.TEXTS_PER_TRANSACTION", 4)
    write_vectors, search = writer.write_vectors, vector_search.search
    calls: list[object] = []

    def write_once(*arguments: Any, **options: Any) -> None:
        if calls:
            raise KeyboardInterrupt
        calls.append(arguments)
        write_vectors(*arguments, **options)

    monkeypatch.setattr(writer, "write_vectors", write_once)
    with pytest.raises(KeyboardInterrupt):
        run_index(repo, home)
    rankings: list[tuple[int, ...]] = []

    def record_search(*arguments: Any, **options: Any) -> object:
        result = search(*arguments, **options)
        rankings.append(tuple(hunk.hunk_id for hunk in result))
        return result

    monkeypatch.setattr(vector_search, "search", record_search)
    assert find(repo, home, rerank=False).hits
    with database.open_for_reading(get_location(repo, home)) as connection:
        rows = connection.execute(
            "SELECT hunk_id FROM hunks SEMI JOIN vectors USING (text_digest)"
        ).fetchall()
    assert set(rankings[0]) == {hunk for (hunk,) in rows}
    assert 0 < load_status_at_path(repo.path, home)[1].vector_share < 1
