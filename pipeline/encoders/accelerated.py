"""FP32 encoder for GPUs and NPUs.

- `AcceleratedEncoder`: runs MiniLM unquantized in padded batches. The mean cosine between its vectors and those of the
  CPU encoder is 0.998, so both can be mixed in an index.
- `ensure_fp32_model`: writes the FP32 model file on first use, and again if it was changed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pipeline.encoders import providers
from pipeline.encoders.base import EMBEDDING_MODEL, Encoder, OnnxEncoder, load_tokenizer, sanitize_text
from pipeline.encoders.providers import COREML, CPU, CUDA
from stores import locks
from stores.compatibility import EMBEDDING_DIMENSION
from stores.locks import Deadline

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FP32_DIRECTORY: Final = "models"
FP32_FILE: Final = "minilm-fp32.onnx"
BUILD_LOCK: Final = "making.lock"
# Building the file takes one or two seconds, more on a busy machine.
BUILD_TIMEOUT_SECONDS: Final = 60.0
# Digest of the result of `onnx_graph.build_fp32_model`. Update it whenever the bundled model changes.
FP32_SHA256: Final = "4a48c80d8299a7da71543a70c750213d8c3102d07488b0fda4f3b23e3b01f603"


def ensure_fp32_model(home: Path) -> Path:
    """Return the path of the FP32 model file below `home`, the directory of all indexes; write it unless it is intact.

    Raise IndexBusy if another process builds the file for more than BUILD_TIMEOUT_SECONDS.
    """
    file = home / FP32_DIRECTORY / FP32_FILE
    if not _is_intact(file):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locks.acquire_exclusive_lock(file.parent / BUILD_LOCK, Deadline.after(BUILD_TIMEOUT_SECONDS)):
            if not _is_intact(file):  # another process may have written it meanwhile
                _write_fp32_model(file)
    return file


def _is_intact(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == FP32_SHA256
    except OSError:
        return False


def _write_fp32_model(file: Path) -> None:
    """Write the file atomically. A killed process leaves a draft, which the next one overwrites."""
    from pipeline.encoders import onnx_graph

    draft = file.with_name(f"{FP32_FILE}.draft")
    with open(draft, "wb", opener=_open_private) as stream:
        stream.write(onnx_graph.build_fp32_model())
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)


def _open_private(path: str, flags: int) -> int:
    """Open a file that only its owner can read, from its creation on."""
    return os.open(path, flags, 0o600)


MAX_TOKENS: Final = 256


@dataclass(frozen=True, slots=True)
class BatchShape:
    """Shape of a batch: at most `texts` rows, each padded to a multiple of `token_multiple` tokens.

    `is_fixed`: every batch has exactly this shape, because the provider needs half a minute to compile each shape.
    """

    texts: int
    token_multiple: int
    is_fixed: bool = False

    @property
    def fixed_dimensions(self) -> dict[str, int]:
        """Sizes of the fixed dimensions of the model, by name."""
        return {"texts": self.texts, "tokens": self.token_multiple} if self.is_fixed else {}


# 16,000 tokens keep a GPU busy, and eight row lengths are few enough for the runtime to tune. The shape changes vectors
# only by rounding.
BATCH_SHAPES: Final = {
    CPU: BatchShape(8, 32),
    CUDA: BatchShape(64, 32),
    COREML: BatchShape(8, MAX_TOKENS, is_fixed=True),
}


class AcceleratedEncoder:
    """Bundled all-MiniLM-L6-v2 in FP32 on one execution provider.

    The constructor loads the model, and raises ProviderUnavailable if the provider does not run. `home`: directory of
    all indexes, which also stores the model file.
    """

    name: Final = EMBEDDING_MODEL
    dimension: Final = EMBEDDING_DIMENSION

    def __init__(self, provider: str, home: Path) -> None:
        from pipeline.encoders.onnx_graph import TokenEmbeddings

        providers.check_built_in(provider)
        self.provider = provider
        self._shape = BATCH_SHAPES[provider]
        self._session = providers.create_session(
            provider, ensure_fp32_model(home), dimensions=self._shape.fixed_dimensions
        )
        self._embeddings = TokenEmbeddings.load_bundled()
        self._tokenizer = load_tokenizer()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit vector per text, in order."""
        import numpy as np

        encodings = self._tokenizer.encode_batch([sanitize_text(text) for text in texts])
        tokens = [encoding.ids for encoding in encodings]
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for indices in _group_by_length(tokens, self._shape.texts):
            vectors[indices] = self._sum_token_vectors([tokens[index] for index in indices])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def unload(self) -> None:
        """Do nothing: the model is in the device's memory, and loading it again can take half a minute."""

    def _sum_token_vectors(self, tokens: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        import numpy as np

        from pipeline.encoders.onnx_graph import PADDING_BIAS

        padded = _pad(tokens, self._shape)
        is_token = padded >= 0
        inputs = {
            "token_embeddings": self._embeddings.look_up(np.maximum(padded, 0)),
            "padding_bias": np.where(is_token, np.float32(0), PADDING_BIAS)[:, None, None, :],
            "token_mask": is_token[:, None, :].astype(np.float32),
        }
        (output,) = self._session.run(None, inputs)
        sums: NDArray[np.float32] = output[: len(tokens), 0]
        return sums


def create_encoder(provider: str, home: Path) -> Encoder:
    """Create the encoder for an execution provider."""
    return OnnxEncoder() if provider == CPU else AcceleratedEncoder(provider, home)


def _group_by_length(tokens: Sequence[Sequence[int]], batch_size: int) -> Iterator[list[int]]:
    """Yield the indices of texts with about the same length, so that a batch has little padding."""
    order = sorted(range(len(tokens)), key=lambda index: len(tokens[index]), reverse=True)
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]


def _pad(tokens: Sequence[Sequence[int]], shape: BatchShape) -> NDArray[np.int64]:
    """Return token ids as rows of the same length, padded with -1."""
    import numpy as np

    row_count = shape.texts if shape.is_fixed else len(tokens)
    max_length = max(map(len, tokens))
    row_length = -(-max_length // shape.token_multiple) * shape.token_multiple
    rows = np.full((row_count, row_length), -1, np.int64)
    for row, ids in zip(rows, tokens, strict=False):
        row[: len(ids)] = ids
    return rows
