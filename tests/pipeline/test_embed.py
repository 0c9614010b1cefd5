"""Each distinct text is embedded once, and where it lands depends on nothing but the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.embed import Embedding, distinct, embed
from pipeline.encoders.base import OnnxEncoder
from pipeline.extract import Extracted, Task, extract
from pipeline.git.repository import open_repository
from pipeline.ignore import IgnoreRules
from pipeline.profile import Profile
from pipeline.text import digest
from pipeline.write import write_batch
from stores.connections import Held
from stores.schema import VECTORS
from stores.types import EMBEDDING_DIMENSION
from tests.repos import Repo
from tests.stores.batches import place_in


class Recording:
    """An encoder that notes what it was given; a text's row holds its length everywhere."""

    name = "recording"
    dimension = EMBEDDING_DIMENSION

    def __init__(self) -> None:
        self.given: list[list[str]] = []

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.given.append(list(texts))
        lengths = np.array([len(text) for text in texts], np.float32)
        return np.repeat(lengths[:, None], self.dimension, axis=1)

    def unload(self) -> None:
        """Nothing was loaded."""


@pytest.fixture
def extracted(tmp_path: Path) -> Extracted:
    """Two commits with the same message; the second adds a file like the first one's, and another."""
    repo = Repo.create(tmp_path)
    repo.write("a.py", "x = 1\n")
    first = repo.commit("Add a module")
    repo.write("a.py", "x = 1\ny = 2\n")
    repo.write("b.py", "z = 3\n" * 20)
    second = repo.commit("Add a module")
    repository = open_repository(tmp_path)
    return extract(Task(repository.root, IgnoreRules.of(repository), (first, second)))


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Held]:
    """An index that has nothing yet."""
    with Held(place_in(tmp_path / "home")) as held:
        yield held


def test_each_distinct_text_once(extracted: Extracted, index: Held) -> None:
    """Messages and hunks are embedded together, a repeated text once."""
    encoder = Recording()
    vectors = Embedding(encoder, index, Profile()).vectors(extracted)
    (given,) = encoder.given
    assert sorted(given) == sorted({"Add a module", *extracted.hunks["semantic_text"].to_pylist()})
    assert vectors.schema.equals(VECTORS)
    assert vectors.num_rows == len(given) == 4


def test_a_later_batch_embeds_what_is_new(extracted: Extracted, index: Held) -> None:
    """What one batch embedded the next does not, nor another pass."""
    encoder = Recording()
    stage = Embedding(encoder, index, Profile())
    write_batch(index, extracted, stage.vectors(extracted), None, Profile())
    for later in (stage, Embedding(encoder, index, Profile())):
        assert later.vectors(extracted).num_rows == 0
    assert encoder.given[1:] == [[], []]


def test_rows_come_in_order_of_first_appearance(extracted: Extracted) -> None:
    """The encoder gets the longest text first; the rows keep the order of the texts, each with its own."""
    encoder = Recording()
    texts = distinct(extracted)
    vectors = embed(texts, encoder)
    (given,) = encoder.given
    assert given == sorted(given, key=len, reverse=True)
    assert vectors["text_digest"].to_pylist() == list(texts)
    assert [row[0] for row in vectors["embedding"].to_pylist()] == [len(text) for text in texts.values()]


def test_vectors_do_not_depend_on_the_batch(extracted: Extracted) -> None:
    """A text's vector is bit for bit the same in a batch and alone."""
    encoder = OnnxEncoder(threads=2)
    together = embed(distinct(extracted), encoder)
    for key, text in distinct(extracted).items():
        row = together["text_digest"].to_pylist().index(key)
        assert together["embedding"][row].equals(embed({digest(text): text}, encoder)["embedding"][0])
