"""Embedding stage: each distinct text once, in the order of the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.embed import EmbeddingStage, collect_distinct_texts, embed_texts
from pipeline.encoders.base import OnnxEncoder
from pipeline.extract import ExtractedBatch, ExtractTask, extract_batch
from pipeline.git.repository import open_repository
from pipeline.ignore import IgnoreRules
from pipeline.profile import Profile
from pipeline.text import compute_digest
from pipeline.write import write_batch
from stores.connections import IndexWriter
from stores.schema import VECTORS
from stores.types import EMBEDDING_DIMENSION
from tests.repos import Repo
from tests.stores.batches import make_location


class RecordingEncoder:
    """Encoder that records its calls. All components of a vector are the length of its text."""

    name = "recording"
    dimension = EMBEDDING_DIMENSION

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls.append(list(texts))
        lengths = np.array([len(text) for text in texts], np.float32)
        return np.repeat(lengths[:, None], self.dimension, axis=1)

    def unload(self) -> None:
        """Do nothing."""


@pytest.fixture
def extracted_batch(tmp_path: Path) -> ExtractedBatch:
    """Return the rows of two commits with one message: one adds a file, the next changes it and adds another."""
    repo = Repo.create(tmp_path)
    repo.write("a.py", "x = 1\n")
    first = repo.commit("Add a module")
    repo.write("a.py", "x = 1\ny = 2\n")
    repo.write("b.py", "z = 3\n" * 20)
    second = repo.commit("Add a module")
    repository = open_repository(tmp_path)
    return extract_batch(
        ExtractTask(repository.root, IgnoreRules.from_repository(repository), (first, second))
    )


@pytest.fixture
def index_writer(tmp_path: Path) -> Iterator[IndexWriter]:
    """Create an empty index and return its writer."""
    with IndexWriter(make_location(tmp_path / "home")) as writer:
        yield writer


def test_distinct_texts_are_embedded_once(extracted_batch: ExtractedBatch, index_writer: IndexWriter) -> None:
    """Messages and hunks are embedded in one call, a repeated text once."""
    encoder = RecordingEncoder()
    vectors = EmbeddingStage(encoder, index_writer, Profile()).embed_batch(extracted_batch)
    [texts_of_call] = encoder.calls
    assert sorted(texts_of_call) == sorted(
        {"Add a module", *extracted_batch.hunks["semantic_text"].to_pylist()}
    )
    assert vectors.schema.equals(VECTORS)
    assert vectors.num_rows == len(texts_of_call) == 4


def test_known_texts_are_not_embedded_again(
    extracted_batch: ExtractedBatch, index_writer: IndexWriter
) -> None:
    """A text that the index has is not embedded again, neither by the same stage nor by another."""
    encoder = RecordingEncoder()
    stage = EmbeddingStage(encoder, index_writer, Profile())
    write_batch(index_writer, extracted_batch, stage.embed_batch(extracted_batch), None, Profile())
    for later_stage in (stage, EmbeddingStage(encoder, index_writer, Profile())):
        assert later_stage.embed_batch(extracted_batch).num_rows == 0
    assert encoder.calls[1:] == [[], []]


def test_rows_are_in_order_of_first_appearance(extracted_batch: ExtractedBatch) -> None:
    """The encoder gets the longest text first, but rows are in the order of the texts."""
    encoder = RecordingEncoder()
    texts = collect_distinct_texts(extracted_batch)
    vectors = embed_texts(texts, encoder)
    [texts_of_call] = encoder.calls
    assert texts_of_call == sorted(texts_of_call, key=len, reverse=True)
    assert vectors["text_digest"].to_pylist() == list(texts)
    assert [row[0] for row in vectors["embedding"].to_pylist()] == [len(text) for text in texts.values()]


def test_vectors_do_not_depend_on_the_batch(extracted_batch: ExtractedBatch) -> None:
    """The vector of a text is the same to the bit in a batch and alone."""
    encoder = OnnxEncoder(threads=2)
    batch_vectors = embed_texts(collect_distinct_texts(extracted_batch), encoder)
    for digest, text in collect_distinct_texts(extracted_batch).items():
        row = batch_vectors["text_digest"].to_pylist().index(digest)
        assert batch_vectors["embedding"][row].equals(
            embed_texts({compute_digest(text): text}, encoder)["embedding"][0]
        )
