"""Embedding stage: every text without a vector gets one, newest commits first, whatever interrupts it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline import embed
from pipeline.embed import EmbeddingStage
from pipeline.encoders.base import Encoder, OnnxEncoder
from pipeline.options import EmbedCacheMode
from pipeline.profile import Profile
from stores import database, history
from stores.compatibility import EMBEDDING_DIMENSION
from stores.connections import IndexWriter
from stores.index_location import IndexLocation
from stores.vectors import list_pending_texts, load_pending_texts, quantize
from tests.bench.indexes import compute_fingerprint
from tests.pipeline.histories import create_interleaved_repo, get_location, run_index
from tests.repos import Repo

ROOT = Path(__file__).parents[2]
# Program that indexes a repository one text per transaction and is killed inside the transaction of the given number:
# after its vectors were inserted, before its commit. Arguments: repository, data directory, number.
KILLED_RUN = """
import os, signal, sys
from contextlib import contextmanager
from pathlib import Path
from pipeline import run
from stores import writer
from tests.pipeline.histories import run_index
from tests.repos import Repo
calls = []
run_transaction = writer.run_transaction
@contextmanager
def run_transaction_or_die(connection, **tables):
    with run_transaction(connection, **tables):
        yield
        calls.extend([None] * (tables.keys() == {"vectors_in"}))
        if len(calls) == int(sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)
writer.run_transaction = run_transaction_or_die
run.TEXTS_PER_TRANSACTION = 1
run_index(Repo(Path(sys.argv[1])), Path(sys.argv[2]))
"""


class RecordingEncoder:
    """Encoder that records its calls. The first component of a vector is the length of its text."""

    name = "recording"
    dimension = EMBEDDING_DIMENSION

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls.append(list(texts))
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        vectors[:, 0] = [len(text) for text in texts]
        return vectors

    def unload(self) -> None:
        """Do nothing."""


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """Repository of three commits, of which the first two have the same message."""
    repo = Repo.create(tmp_path / "repo")
    repo.write("a.py", "x = 1\n")
    repo.commit("Add a module")
    repo.write("a.py", "x = 1\ny = 2\n")
    repo.write("b.py", "z = 3\n" * 20)
    repo.commit("Add a module")
    repo.commit_file("c.py", "last = True\n", "Finish")
    return repo


@pytest.fixture
def location(repo: Repo, tmp_path: Path) -> IndexLocation:
    """Index of the repository without vectors."""
    run_index(repo, tmp_path / "home", skip_vectors=True)
    return get_location(repo, tmp_path / "home")


@pytest.fixture
def index_writer(location: IndexLocation) -> Iterator[IndexWriter]:
    with IndexWriter(location) as writer:
        yield writer


def embed_all(index_writer: IndexWriter, encoder: Encoder, **options: Any) -> list[int]:
    """Embed the pending texts; return the number of texts done after each transaction."""
    with index_writer.open_batch() as connection:
        pending = list_pending_texts(connection)
    return list(EmbeddingStage(encoder, index_writer, Profile(), **options).embed(pending))


def load_vectors(location: IndexLocation) -> dict[bytes, Any]:
    with database.open_for_reading(location) as connection:
        rows = connection.execute("SELECT text_digest, codes, scale FROM vectors").fetchall()
    return {digest: (codes, scale) for digest, codes, scale in rows}


def test_distinct_texts_are_embedded_once(index_writer: IndexWriter, location: IndexLocation) -> None:
    """Messages and hunks are embedded, equal texts only once. Afterwards no text is pending."""
    encoder = RecordingEncoder()
    assert embed_all(index_writer, encoder) == [6]
    [texts] = encoder.calls
    assert len(texts) == len(set(texts)) == 6
    assert {"Add a module", "Finish"} <= set(texts)
    assert embed_all(index_writer, encoder) == []
    index_writer.release()
    assert len(load_vectors(location)) == 6


def test_newest_commits_come_first(index_writer: IndexWriter) -> None:
    """Texts are embedded in transactions, those of the newest commits first."""
    encoder = RecordingEncoder()
    assert embed_all(index_writer, encoder, texts_per_transaction=2) == [2, 4, 6]
    newest, middle, oldest = ("\n".join(texts) for texts in encoder.calls)
    assert "Finish" in newest and "c.py" in newest
    assert "b.py" in middle and "x = 1" in oldest


def test_long_texts_are_encoded_first(index_writer: IndexWriter) -> None:
    """The encoder gets the longest texts first, in calls of limited size."""
    encoder = RecordingEncoder()
    embed_all(index_writer, encoder, texts_per_task=4)
    assert [len(call) for call in encoder.calls] == [4, 2]
    lengths = [len(text) for call in encoder.calls for text in call]
    assert lengths == sorted(lengths, reverse=True)


def test_times_of_the_phases(index_writer: IndexWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time to read texts counts as `storage`, not as `embed`, although they are read between encoder results."""
    now = 0.0

    def advance(function: Callable[..., Any], seconds: float) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            nonlocal now
            now += seconds
            return function(*arguments)

        return call

    monkeypatch.setattr("pipeline.profile.time.perf_counter", lambda: now)
    monkeypatch.setattr(embed, "load_pending_texts", advance(load_pending_texts, 100))
    monkeypatch.setattr(embed, "encode_texts", advance(embed.encode_texts, 1))
    with index_writer.open_batch() as connection:
        pending = list_pending_texts(connection)
    profile = Profile()
    list(EmbeddingStage(RecordingEncoder(), index_writer, profile, texts_per_transaction=2).embed(pending))
    assert profile.seconds == {"storage": 300, "embed": 3}


def test_texts_that_a_damaged_index_lacks(index_writer: IndexWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pending text that the index cannot return is skipped, and the run ends normally."""
    monkeypatch.setattr(embed, "load_pending_texts", lambda *arguments: load_pending_texts(*arguments)[1:])
    with index_writer.open_batch() as connection:
        pending = list_pending_texts(connection)
    stage = EmbeddingStage(RecordingEncoder(), index_writer, Profile(), texts_per_transaction=2)
    assert [*stage.embed(pending)][-1] == pending.num_rows


@pytest.mark.parametrize("backend", ["threading", "loky"])
@pytest.mark.parametrize("jobs", [1, 4])
def test_vectors_do_not_depend_on_workers(
    index_writer: IndexWriter, location: IndexLocation, backend: str, jobs: int
) -> None:
    """The vectors are the same to the bit with any backend of joblib and any number of workers."""
    with joblib.parallel_config(backend=backend):
        embed_all(index_writer, OnnxEncoder(), jobs=jobs, texts_per_task=1)
    index_writer.release()
    with database.open_for_reading(location) as connection:
        texts = dict(connection.execute("SELECT text_digest, semantic_text FROM hunks").fetchall())
    vectors = load_vectors(location)
    for digest, text in texts.items():
        expected = quantize(OnnxEncoder().encode([text]))
        assert vectors[digest] == (tuple(expected.codes[0].tolist()), float(expected.scales[0]))


def test_skipped_vectors_are_added_by_the_next_run(
    repo: Repo, location: IndexLocation, tmp_path: Path
) -> None:
    """With `skip_vectors`, everything but vectors is written, and HEAD is incomplete. The next run adds the vectors."""
    with database.open_for_reading(location) as connection:
        summary = history.load_index_summary(connection)
        assert history.compute_vector_share(connection) == 0
    assert summary and (summary.last_indexed_commit, summary.completed_commit) == (repo.head, None)
    assert summary.hunks == 4
    run_index(repo, tmp_path / "full")
    run_summary = run_index(repo, tmp_path / "home")
    assert (run_summary.commits, run_summary.pending_texts) == (0, 0)
    assert compute_fingerprint(repo.path, tmp_path / "home") == compute_fingerprint(
        repo.path, tmp_path / "full"
    )
    with database.open_for_reading(location) as connection:
        summary = history.load_index_summary(connection)
    assert summary and summary.completed_commit == repo.head


@pytest.mark.parametrize("mode", EmbedCacheMode)
def test_cache_saves_the_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: EmbedCacheMode
) -> None:
    """With a cache, a rebuild takes the vectors from the cache. The vectors are the same with and without it."""
    repo = create_interleaved_repo(tmp_path / "repo", rounds=1)
    run_index(repo, tmp_path / "home", embed_cache=mode)
    vectors = compute_fingerprint(repo.path, tmp_path / "home")["vectors"]
    text_count = 0
    encode_texts = embed.encode_texts

    def count_and_encode(task: embed.EncodeTask) -> NDArray[np.float32]:
        nonlocal text_count
        text_count += len(task.texts)
        return encode_texts(task)

    monkeypatch.setattr(embed, "encode_texts", count_and_encode)
    run_index(repo, tmp_path / "home", rebuild=True)
    assert (text_count == 0) is (mode is not EmbedCacheMode.OFF)
    assert compute_fingerprint(repo.path, tmp_path / "home")["vectors"] == vectors


@pytest.mark.parametrize("transaction", [1, 4, 6])
def test_kill_loses_one_transaction(repo: Repo, tmp_path: Path, transaction: int) -> None:
    """After `kill -9` inside a transaction, all earlier transactions are complete. The next run does the rest."""
    command = [sys.executable, "-c", KILLED_RUN, str(repo.path), str(tmp_path / "home"), str(transaction)]
    assert subprocess.run(command, cwd=ROOT).returncode == -signal.SIGKILL
    location = get_location(repo, tmp_path / "home")
    assert len(load_vectors(location)) == transaction - 1
    with database.open_for_reading(location) as connection:
        summary = history.load_index_summary(connection)
    assert summary and (summary.last_indexed_commit, summary.completed_commit) == (repo.head, None)
    run_index(repo, tmp_path / "home")
    run_index(repo, tmp_path / "full")
    assert compute_fingerprint(repo.path, tmp_path / "home") == compute_fingerprint(
        repo.path, tmp_path / "full"
    )
