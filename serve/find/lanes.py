"""The lanes, side by side: loading the encoder takes longer than the full-text lanes, so it starts first."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.encoder import Encoder
from pipeline.text import words
from serve.find.query import Query
from stores import lexical, vectors
from stores.lexical import Lane, Ranked
from stores.showing import Connection, beside

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True, eq=False)
class Rankings:
    """Each lane's best hunks, and the query's vector they were compared by."""

    nearest: tuple[Ranked, ...]
    text: tuple[Ranked, ...]
    symbols: tuple[Ranked, ...]
    vector: npt.NDArray[np.float32]

    @property
    def lanes(self) -> Sequence[tuple[Ranked, ...]]:
        """The rankings to fuse."""
        return self.nearest, self.text, self.symbols


def rank(connection: Connection, query: Query, encoder: Encoder) -> Rankings:
    """Ask every lane the profile allows."""
    where = query.where
    with beside(connection) as second, beside(connection) as third, _pool() as pool:
        encoded = pool.submit(encoder.encode, [query.text])
        text = pool.submit(lexical.ask, second, Lane.HUNK_TEXT, query.terms, where)
        symbols = pool.submit(_symbol_names, third, query)
        space = vectors.learn(connection, where)
        vector = encoded.result()[0]
        nearest = vectors.ask(connection, vector, where, space=space)
        return Rankings(nearest, text.result(), symbols.result(), vector)


def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=3, thread_name_prefix="lane")


def _symbol_names(connection: Connection, query: Query) -> tuple[Ranked, ...]:
    if not query.profile.symbols:
        return ()
    # Who quotes names has said which of the words are symbols.
    terms = words(" ".join(query.symbols)) if query.symbols else query.terms
    return lexical.ask(connection, Lane.SYMBOL_NAMES, terms, query.where, quoted=query.symbols)
