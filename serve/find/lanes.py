"""The lanes: the encoder is at work while the full-text lanes are asked, and while an index is seen first.

The hundred hunks nearest to a question in meaning stand in the order of how near they and their messages are together:
a commit that says so outright comes before one whose change only looks like it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from pipeline.encoder import Encoder
from pipeline.text import words
from serve.find.query import Query
from serve.find.seen import Seen
from stores import filters, lexical, messages, vectors
from stores.filters import Chosen
from stores.lexical import Asked
from stores.messages import Messages
from stores.ranking import Ranked
from stores.showing import Connection, Shelf

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# How much the message counts beside the hunk. As a lane of their own messages lowered fusion; a quarter here raised
# nDCG@10 of this lane by 0.02 to 0.04 for written questions and sentences of bodies, by 0.01 and nothing for news
# fragments, for which two fifths lowered it by 0.01 and 0.02.
MESSAGE_SHARE: Final = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Rankings:
    """Each lane's best hunks, the query's vector and words they were compared by, and what they were chosen from.

    `chosen` is what the question's filters and paths mean here, `messages` has those of every commit that is in a lane,
    `shelf` what is read of hunks.
    """

    nearest: tuple[Ranked, ...]
    text: tuple[Ranked, ...]
    symbols: tuple[Ranked, ...]
    vector: npt.NDArray[np.float32]
    asked: Asked
    seen: Seen
    chosen: Chosen
    messages: Messages
    shelf: Shelf

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
    shas = dict.fromkeys(hunk.commit_sha for hunk in chain(nearest, text, symbols))
    told = seen.messages or messages.some(connection, tuple(shas))
    shelf = Shelf(connection, seen.diffs)
    with_told = with_messages(nearest, told, vector)
    return Rankings(with_told, text, symbols, vector, asked, seen, chosen, told, shelf)


def with_messages(
    nearest: Sequence[Ranked], told: Messages, vector: npt.NDArray[np.float32]
) -> tuple[Ranked, ...]:
    """The hunks in the order of how near they and their commits' messages are together; of equals the first leads."""
    if not nearest:
        return ()
    rows = told.vectors_of([hunk.commit_sha for hunk in nearest])
    near = zip(nearest, vectors.cosines(rows, vector).tolist(), strict=True)
    both = (
        replace(hunk, score=(1 - MESSAGE_SHARE) * hunk.score + MESSAGE_SHARE * message)
        for hunk, message in near
    )
    return tuple(sorted(both, key=lambda hunk: -hunk.score))


def _symbol_names(
    connection: Connection, seen: Seen, query: Query, asked: Asked, chosen: Chosen
) -> tuple[Ranked, ...]:
    if not query.profile.symbols:
        return ()
    if query.symbols:
        # Who quotes names has said which of the words are symbols.
        asked = lexical.look_up(connection, seen.snapshot, words(" ".join(query.symbols)))
    return lexical.symbol_names(connection, seen.snapshot, asked, chosen, quoted=query.symbols)
