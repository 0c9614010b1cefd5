"""Bundled cross-encoder, which scores how well a commit message and the change of one file answer a question.

The model runs once for each pair of a question and a change, so a score does not depend on the other pairs. Each run
has one thread, and several runs go in parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from pipeline import interrupts
from pipeline.encoders import base
from pipeline.encoders.base import (
    MODEL_READ_ERRORS,
    DamagedModel,
    create_session,
    load_tokenizer,
    sanitize_text,
)
from pipeline.options import Precision
from pipeline.workers import count_usable_cpus

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

    from pipeline.encoders.onnx_graph import TokenEmbeddings


Item = TypeVar("Item")
Result = TypeVar("Result")

# Name and version of the model. Raise the version whenever the bundled file or the preparation of its input changes.
CROSS_ENCODER: Final = "cross/3"

# Maximum number of tokens of a pair, special tokens included. Training used at most 112, to save time.
MAX_PAIR_TOKENS: Final = 128
# Maximum number of tokens of the question.
MAX_QUESTION_TOKENS: Final = 32
# Maximum number of tokens of the commit message. The change of the file gets the tokens that are left.
MAX_MESSAGE_TOKENS: Final = 56
SPECIAL_TOKEN_COUNT: Final = 4  # [CLS] and [SEP] of the question and of the text
# Ids of BERT's tokens [CLS] (start) and [SEP] (end).
CLS_TOKEN: Final = 101
SEP_TOKEN: Final = 102

CROSS_ENCODER_FILE: Final = "cross.npz"
# The two inputs of the model's ONNX graph. The text is the commit message followed by the change.
SEGMENTS: Final = ("question", "text")
# The dense layer gets the product of the mean vectors of question and text, multiplied by this factor, and their sum.
MEANS_PRODUCT_SCALE: Final = 10.0


class ChangeText(NamedTuple):
    """Text to score: a commit message, and the commit's change of one file.

    `hunk`: path, language, symbols and changed lines of the change.
    """

    message: str
    hunk: str


class CrossEncoder:
    """Bundled cross-encoder, loaded at the first question.

    `threads`: number of parallel runs; 0 for one per CPU that this process may use.
    """

    def __init__(self, precision: Precision = Precision.FULL, threads: int = 0) -> None:
        self.precision: Final = precision
        self.threads = threads or count_usable_cpus()
        self._load_lock = Lock()
        self._model: _Model | None = None

    @property
    def name(self) -> str:
        """Name, version and precision of the model."""
        return f"{CROSS_ENCODER}/{self.precision}"

    def score_changes(self, question: str, changes: Sequence[ChangeText]) -> NDArray[np.float32]:
        """Return a score per change, in order: how well it answers the question. Unbounded; higher is better.

        Raises DamagedModel if the bundled file cannot be read, and RequestCancelled if the request is cancelled.
        """
        import numpy as np

        encoded_question = self._get_model().encode_question(question)
        flag = interrupts.get_cancellation_flag()  # read here, because the other threads have no flag

        def score(change: ChangeText) -> float:
            interrupts.check_cancelled(flag)
            return encoded_question.score(change)

        return np.array(_map_in_threads(score, changes, self.threads), np.float32)

    def _get_model(self) -> _Model:
        with self._load_lock:
            if self._model is None:
                self._model = load_model(self.precision)
            return self._model


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """Loaded cross-encoder."""

    tokenizer: Tokenizer
    embeddings: TokenEmbeddings
    session: InferenceSession

    def encode_question(self, question: str) -> _EncodedQuestion:
        tokens = self.tokenize(question)[:MAX_QUESTION_TOKENS]
        return _EncodedQuestion(
            self, self.embed_tokens(tokens), MAX_PAIR_TOKENS - SPECIAL_TOKEN_COUNT - len(tokens)
        )

    def tokenize(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(sanitize_text(text), add_special_tokens=False).ids
        return ids

    def embed_tokens(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        import numpy as np

        return self.embeddings.look_up(np.array([[CLS_TOKEN, *tokens, SEP_TOKEN]], np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class _EncodedQuestion:
    """Encoded question, to score changes with.

    `embeddings`: embeddings of the question's tokens, an array of shape (1, tokens, components).
    `token_budget`: number of tokens that the question leaves for message and change.
    """

    model: _Model
    embeddings: NDArray[np.float32]
    token_budget: int

    def score(self, change: ChangeText) -> float:
        message = self.model.tokenize(change.message)[:MAX_MESSAGE_TOKENS]
        tokens = (message + self.model.tokenize(change.hunk))[: self.token_budget]
        inputs = {"question": self.embeddings, "text": self.model.embed_tokens(tokens)}
        (score,) = self.model.session.run(None, inputs)
        return float(score[0, 0])


def load_model(precision: Precision) -> _Model:
    """Load the bundled model and its tokenizer. Raises DamagedModel if the file of the model cannot be read."""
    from pipeline.encoders.onnx_graph import (
        TokenEmbeddings,
        build_cross_encoder,
        load_weights,
    )

    file = base.MODELS_DIR / CROSS_ENCODER_FILE
    try:
        graph = build_cross_encoder(load_weights(file), precision)
    except MODEL_READ_ERRORS as error:
        hint = "Install lineage again. Until then use `lineage query --no-rerank`."
        raise DamagedModel("cross-encoder", file, hint) from error
    return _Model(load_tokenizer(), TokenEmbeddings.load_bundled(), create_session(graph))


def _map_in_threads(function: Callable[[Item], Result], items: Sequence[Item], threads: int) -> list[Result]:
    """Call a function with each item, at most `threads` calls at a time; return the results in order."""
    workers = min(threads, len(items))
    if workers <= 1:
        return [function(item) for item in items]
    pool = ThreadPoolExecutor(workers, "encoder")
    try:
        return list(pool.map(function, items))
    finally:
        # After an error or Ctrl-C, wait only for the calls in progress.
        pool.shutdown(cancel_futures=True)
