"""SQL connections to the index of a repository, with its tags and its encoder, for `lineage sql` and notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pipeline.component_versions import get_encoder_name
from pipeline.encoders.base import Encoder, create_bundled_encoder
from pipeline.git.repository import open_repository
from pipeline.options import EncoderName
from serve.repositories import locate_index
from stores.compatibility import REBUILD_COMMAND
from stores.database import READ_WAIT_SECONDS
from stores.errors import LineageError
from stores.index_copy import OpenIndex
from stores.sql import open_for_sql


@contextmanager
def open_sql(path: Path, home: Path, *, wait: float = READ_WAIT_SECONDS) -> Iterator[OpenIndex]:
    """Open the index of the repository at `path` for a statement; see `stores.sql.open_for_sql`."""
    repository = open_repository(path)
    location = locate_index(home, repository)
    with open_for_sql(location, _encode, repository.list_tags(), wait=wait) as index:
        yield index


def _encode(model: str | None, text: str) -> list[float]:
    """Return the vector of a text, by the encoder that the index was built with."""
    name = get_encoder_name(model)
    if name is None:
        raise LineageError(
            f"The index was built with the encoder {model}, which this version does not have.",
            hint=f"Run `{REBUILD_COMMAND}` to build the index with one that it has.",
        )
    vector: list[float] = _get_encoder(name).encode([text])[0].tolist()
    return vector


@cache
def _get_encoder(name: EncoderName) -> Encoder:
    return create_bundled_encoder(name)
