"""The bundled cross-encoder: reads a question beside what a commit says and what one of its files' changes shows.

One pair per run, several runs side by side with one thread each, as the encoder: a pair's score is the same whatever
is read beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple
from zipfile import BadZipFile

from pipeline.encoders import base
from pipeline.encoders.base import readable, session, side_by_side, tokenizer
from pipeline.options import Precision
from pipeline.workers import usable_cpus
from stores.errors import LineageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

    from pipeline.encoders.onnx_graph import Words

# Rises whenever the bundled file, or what it is given, changes.
CROSS_ENCODER: Final = "cross/3"

# A pair has at most so many tokens, an eighth more than in training; question and message have at most these of them.
PAIR_TOKENS: Final = 128
QUESTION_TOKENS: Final = 32
MESSAGE_TOKENS: Final = 56
MARKS: Final = 4  # where either side begins and ends
# What marks it: BERT's [CLS] and [SEP].
FIRST: Final = 101
LAST: Final = 102


class DamagedModel(LineageError):
    """The bundled file is not what was shipped."""


class Change(NamedTuple):
    """What is read of a candidate: its commit's message, and its hunk's semantic text without it."""

    message: str
    hunk: str


class CrossEncoder:
    """The bundled model, loaded at the first question.

    `threads`: runs side by side; 0 means one for each CPU this process may use.
    """

    def __init__(self, precision: Precision = Precision.FULL, threads: int = 0) -> None:
        self.precision: Final = precision
        self.threads = threads or usable_cpus()
        self._loading = Lock()
        self._model: _Model | None = None

    @property
    def name(self) -> str:
        """Which model, in which precision."""
        return f"{CROSS_ENCODER}/{self.precision}"

    def scores(self, question: str, changes: Sequence[Change]) -> NDArray[np.float32]:
        """How well each change answers the question, in order; any number, the higher the better."""
        import numpy as np

        model = self._loaded()
        asked = model.asked(question)
        return np.array(side_by_side(asked.score, changes, self.threads), np.float32)

    def _loaded(self) -> _Model:
        with self._loading:
            if self._model is None:
                self._model = _model(self.precision)
            return self._model


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    tokenizer: Tokenizer
    words: Words
    session: InferenceSession

    def asked(self, question: str) -> _Asked:
        tokens = self.tokens(question)[:QUESTION_TOKENS]
        return _Asked(self, self.placed(tokens), PAIR_TOKENS - MARKS - len(tokens))

    def tokens(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(readable(text), add_special_tokens=False).ids
        return ids

    def placed(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        import numpy as np

        return self.words.placed(np.array([[FIRST, *tokens, LAST]], np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """A question, and how many tokens it leaves for the change."""

    model: _Model
    question: NDArray[np.float32]
    room: int

    def score(self, change: Change) -> float:
        message = self.model.tokens(change.message)[:MESSAGE_TOKENS]
        tokens = (message + self.model.tokens(change.hunk))[: self.room]
        pair = {"question": self.question, "text": self.model.placed(tokens)}
        (score,) = self.model.session.run(None, pair)
        return float(score[0, 0])


def _model(precision: Precision) -> _Model:
    from pipeline.encoders import cross_encoder_graph
    from pipeline.encoders.onnx_graph import Words

    file = base.MODELS / cross_encoder_graph.CROSS_ENCODER_FILE
    try:
        graph = cross_encoder_graph.made(cross_encoder_graph.weights(file), precision)
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise DamagedModel(
            f"The cross-encoder cannot be read: {file} was damaged or left out.",
            hint="Install lineage again; until then `lineage query --no-rerank` answers without it.",
        ) from error
    return _Model(tokenizer(), Words.bundled(), session(graph))
