"""The lanes: the encoder is at work while the full-text lanes are asked, and while an index is seen first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.encoder import Encoder
from pipeline.text import words
from serve.find.query import Query
from serve.find.seen import Seen
from stores import filters, lexical, vectors
from stores.filters import Chosen
from stores.lexical import Asked
from stores.ranking import Ranked
from stores.showing import Connection

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True, eq=False)
class Rankings:
    """Each lane's best hunks, the query's vector and words they were compared by, and what they were chosen from."""

    nearest: tuple[Ranked, ...]
    text: tuple[Ranked, ...]
    symbols: tuple[Ranked, ...]
    vector: npt.NDArray[np.float32]
    asked: Asked
    seen: Seen

    @property
    def lanes(self) -> Sequence[tuple[Ranked, ...]]:
        """The rankings to fuse."""
        return self.nearest, self.text, self.symbols


def rank(connection: Connection, see: Callable[[], Seen], query: Query, encoder: Encoder) -> Rankings:
    """Ask every lane the profile allows."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="encoder") as pool:
        encoded = pool.submit(encoder.encode, [query.text])
        seen = see()
        snapshot = seen.snapshot
        chosen = filters.chosen(connection, snapshot, query.where)
        asked = lexical.look_up(connection, snapshot, query.terms)
        text = lexical.hunk_text(snapshot, asked, chosen)
        symbols = _symbol_names(connection, seen, query, asked, chosen)
        vector = encoded.result()[0]
    nearest = vectors.ask(connection, snapshot, seen.texts, vector, chosen)
    return Rankings(nearest, text, symbols, vector, asked, seen)


def _symbol_names(
    connection: Connection, seen: Seen, query: Query, asked: Asked, chosen: Chosen
) -> tuple[Ranked, ...]:
    if not query.profile.symbols:
        return ()
    if query.symbols:
        # Who quotes names has said which of the words are symbols.
        asked = lexical.look_up(connection, seen.snapshot, words(" ".join(query.symbols)))
    return lexical.symbol_names(connection, seen.snapshot, asked, chosen, quoted=query.symbols)
