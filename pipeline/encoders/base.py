"""The Encoder protocol, and the bundled encoder that ONNX Runtime runs.

One text per run, unpadded, several runs side by side with one thread each. Dynamic quantization scales
activations over a whole run, so in a batch a text's vector would depend on its neighbours; alone it is the
same vector every time, whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from pipeline.encoders import providers
from pipeline.workers import usable_cpus
from stores.types import EMBEDDING_DIMENSION

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

Text = TypeVar("Text")
Made = TypeVar("Made")

MODELS: Final = Path(__file__).parent / "models"

# Name the vectors; before the first stroke, the encoder. The last number rises whenever the bundled file, or what it
# is given, changes.
EMBEDDING_MODEL: Final = "all-MiniLM-L6-v2/int8/3"
STATIC_MODEL: Final = "static/2"

# 256 tokens of code are about 1,000 characters. The tokenizer reads all it is given before it cuts, and a
# commit message can be a megabyte.
CHARACTERS_READ: Final = 4_096


class Encoder(Protocol):
    """Texts in, unit vectors out.

    `name`: identity of the vector space. `dimension`: length of a vector.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - a field of the protocol

    @property
    def dimension(self) -> int: ...  # noqa: D102 - a field of the protocol

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text, in order; rows have length 1."""
        ...

    def unload(self) -> None:
        """Give back the memory of what the next text would load again."""
        ...


class OnnxEncoder:
    """The bundled all-MiniLM-L6-v2, loaded at the first text.

    `threads`: runs side by side; 0 means one for each CPU this process may use.
    """

    name: Final = EMBEDDING_MODEL
    dimension: Final = EMBEDDING_DIMENSION

    def __init__(self, threads: int = 0) -> None:
        self.threads = threads or usable_cpus()
        self._loading = Lock()
        self._model: _Model | None = None

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text, in order; rows have length 1."""
        import numpy as np

        if not texts:
            return np.empty((0, self.dimension), np.float32)
        return np.stack(side_by_side(self._loaded().vector, texts, self.threads))

    def unload(self) -> None:
        """Give back the memory of the model, which the next text loads again."""
        with self._loading:
            self._model = None

    def _loaded(self) -> _Model:
        with self._loading:
            if self._model is None:
                self._model = _Model(tokenizer(), session(MODELS / "minilm.onnx"))
            return self._model


@dataclass(frozen=True, slots=True)
class _Model:
    tokenizer: Tokenizer
    session: InferenceSession

    def vector(self, text: str) -> NDArray[np.float32]:
        import numpy as np

        tokens = np.array([self.tokenizer.encode(readable(text)).ids], np.int64)
        (vectors,) = self.session.run(None, {"input_ids": tokens, "attention_mask": np.ones_like(tokens)})
        row: NDArray[np.float32] = vectors[0]
        return row


def side_by_side(run: Callable[[Text], Made], texts: Sequence[Text], threads: int) -> list[Made]:
    """What comes of each text, in order; so many runs at a time."""
    at_once = min(threads, len(texts))
    if at_once <= 1:
        return [run(text) for text in texts]
    pool = ThreadPoolExecutor(at_once, "encoder")
    try:
        return list(pool.map(run, texts))
    finally:
        # Ctrl-C waits for the texts in hand only.
        pool.shutdown(cancel_futures=True)


def readable(text: str) -> str:
    """As much of a text as is read, in a form the tokenizer takes: typed in another encoding it has lone surrogates."""
    return text[:CHARACTERS_READ].encode("utf-8", "replace").decode()


def tokenizer() -> Tokenizer:
    """The model's own, which cuts at its 256 tokens."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(MODELS / "tokenizer.json"))


def session(model: Path | bytes) -> InferenceSession:
    """A model, a file or its content, as it runs here: as it is written, one thread a run."""
    ort = providers.runtime()
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # The file is as it should run; the runtime's own fusions made it slower (see models/make.py).
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    # A pattern is kept for every length of text there is; the arena alone stays small.
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    names = [providers.RUNTIME_NAMES[providers.CPU]]
    opened: InferenceSession = ort.InferenceSession(model, options, providers=names)
    return opened
