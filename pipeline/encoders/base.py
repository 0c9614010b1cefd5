"""Encoder protocol, bundled MiniLM encoders on ONNX Runtime, and functions to load and check bundled models.

Two MiniLM encoders have one vector space: one encodes the texts of an index in int8, the other encodes queries.

The model runs once for each text, without padding and on one thread; callers encode in several threads at once. Dynamic
quantization scales the activations of a whole run, so in a batch the vector of a text would depend on the other texts.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Final, Protocol
from zipfile import BadZipFile

from pipeline.options import EncoderName
from stores.compatibility import EMBEDDING_DIMENSION
from stores.errors import LineageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

    from pipeline.encoders.onnx_graph import TokenEmbeddings


MODELS_DIR: Final = Path(__file__).parent / "models"

# Name of each encoder's vector space: model, and version after the last slash. Raise the version whenever the bundled
# file or the preparation of the texts changes. `component_versions` reads the part before the first slash.
EMBEDDING_MODEL: Final = "all-MiniLM-L6-v2/int8/4"
STATIC_MODEL: Final = "static/2"

# Maximum number of tokens of a text, about 750 characters of code. The model has positions for 256, but with 192 search
# ranks as well, and embedding is faster. See "Cost of embedding" in tests/eval/README.md.
MAX_TOKENS: Final = 192
# Length to which texts are cut before they are tokenized. The tokenizer would read the whole text, and a commit message
# can have a megabyte.
MAX_TEXT_CHARACTERS: Final = 4_096

# Files of the two MiniLM encoders. The second encodes queries, whose vectors are not stored, so a new file needs no new
# version of the vector space. A new ENCODER_FILE needs a new QUERY_ENCODER_FILE.
ENCODER_FILE: Final = "minilm.onnx"
QUERY_ENCODER_FILE: Final = "query.npz"

# Checksums of the bundled files, in the format of `sha256sum --check`, so that users can check the files with it.
CHECKSUM_FILE: Final = "SHA256SUMS"

# Errors of reading a damaged `.npz` file.
MODEL_READ_ERRORS: Final = (OSError, ValueError, KeyError, EOFError, BadZipFile)


class DamagedModel(LineageError):
    """A bundled model file is damaged or missing."""

    def __init__(self, name: str, file: Path, hint: str) -> None:
        super().__init__(f"The {name} cannot be read: {file} is damaged or missing.", hint=hint)


class Encoder(Protocol):
    """Model that turns texts into unit vectors.

    `name`: name and version of the vector space. Vectors are comparable only if their encoders have the same name.
    `dimension`: number of components of a vector.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - a field of the protocol

    @property
    def dimension(self) -> int: ...  # noqa: D102 - a field of the protocol

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit vector per text, in order: an array of shape (texts, dimension)."""
        ...

    def unload(self) -> None:
        """Free the model's memory. The next text loads the model again."""
        ...


class SearchEncoder(Encoder, Protocol):
    """Encoder that also encodes queries, in the same vector space."""

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit vector per query, near the vectors of the texts that answer it."""
        ...


class TextModel(Protocol):
    """Loaded model of a LazyEncoder."""

    def embed(self, text: str) -> NDArray[np.float32]:
        """Return the unit vector of a text."""
        ...


class LazyEncoder:
    """Encoder that loads its model at the first text, and encodes each text alone. Several threads may encode at once.

    `load`: loads the model.
    """

    dimension: Final = EMBEDDING_DIMENSION

    def __init__(self, load: Callable[[], TextModel]) -> None:
        self._load = load
        self._load_lock = Lock()
        self._model: TextModel | None = None

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit vector per text, in order."""
        import numpy as np

        if not texts:
            return np.empty((0, self.dimension), np.float32)
        with self._load_lock:
            model = self._model = self._model or self._load()
        return np.stack([model.embed(text) for text in texts])

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit vector per query: here, queries are encoded like other texts."""
        return self.encode(texts)

    def unload(self) -> None:
        """Free the model's memory. The next text loads the model again."""
        with self._load_lock:
            self._model = None


class OnnxEncoder(LazyEncoder):
    """Bundled int8 all-MiniLM-L6-v2 for texts, and a copy of it for queries, which was trained on questions.

    The copy computes in FP32, because with int8 weights the mean cosine to FP32 is 0.95: a short query has few tokens
    to average rounding errors over. Unpickling returns the encoder that all tasks of the process share.
    """

    name: Final = EMBEDDING_MODEL

    def __init__(self) -> None:
        # Lambdas, because tests replace these functions.
        super().__init__(lambda: load_model())
        self._query_encoder = LazyEncoder(lambda: load_query_model())

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit vector per query, in order. Raises DamagedModel if the bundled file cannot be read."""
        return self._query_encoder.encode(texts)

    def unload(self) -> None:
        """Free the memory of both models. The next text or query loads its model again."""
        super().unload()
        self._query_encoder.unload()

    def __reduce__(self) -> tuple[Callable[[], OnnxEncoder], tuple[()]]:
        """Pickle a call of `get_shared_encoder` instead of the model."""
        return get_shared_encoder, ()


@dataclass(frozen=True, slots=True)
class _Model:
    """Loaded MiniLM model."""

    tokenizer: Tokenizer
    session: InferenceSession

    def embed(self, text: str) -> NDArray[np.float32]:
        import numpy as np

        tokens = np.array([self.tokenizer.encode(sanitize_text(text)).ids], np.int64)
        (vectors,) = self.session.run(None, {"input_ids": tokens, "attention_mask": np.ones_like(tokens)})
        vector: NDArray[np.float32] = vectors[0]
        return vector


def load_model() -> _Model:
    """Load the bundled model and its tokenizer."""
    return _Model(load_tokenizer(), create_session(MODELS_DIR / ENCODER_FILE))


@dataclass(frozen=True, slots=True)
class _QueryModel:
    """Loaded query encoder."""

    tokenizer: Tokenizer
    embeddings: TokenEmbeddings
    session: InferenceSession

    def embed(self, text: str) -> NDArray[np.float32]:
        import numpy as np

        tokens = np.array([self.tokenizer.encode(sanitize_text(text)).ids], np.int64)
        count = tokens.shape[1]
        inputs = {
            "token_embeddings": self.embeddings.look_up(tokens),
            "padding_bias": np.zeros((1, 1, 1, count), np.float32),
            "token_mask": np.ones((1, 1, count), np.float32),
        }
        (sums,) = self.session.run(None, inputs)
        vector: NDArray[np.float32] = sums[0, 0] / np.linalg.norm(sums[0, 0])
        return vector


def load_query_model() -> _QueryModel:
    """Load the bundled query encoder and its tokenizer. Raises DamagedModel if its file cannot be read."""
    from pipeline.encoders.onnx_graph import TokenEmbeddings, build_fp32_model, load_weights

    file = MODELS_DIR / QUERY_ENCODER_FILE
    try:
        graph = build_fp32_model(load_weights(file))
    except MODEL_READ_ERRORS as error:
        raise DamagedModel("query encoder", file, "Install lineage again.") from error
    return _QueryModel(load_tokenizer(), TokenEmbeddings.load_bundled(), create_session(graph))


@cache
def get_shared_encoder() -> OnnxEncoder:
    """Return the encoder that all tasks of this process share."""
    return OnnxEncoder()


def sanitize_text(text: str) -> str:
    """Truncate a text to MAX_TEXT_CHARACTERS, and replace lone surrogates, which the tokenizer rejects, by `?`."""
    return text[:MAX_TEXT_CHARACTERS].encode("utf-8", "replace").decode()


def load_tokenizer() -> Tokenizer:
    """Load the bundled MiniLM tokenizer. It truncates a text to MAX_TOKENS."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(MODELS_DIR / "tokenizer.json"))
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


def load_runtime() -> ModuleType:
    """Import ONNX Runtime with its telemetry turned off, and return the module.

    The telemetry would send data about this machine, or store it on disk if it cannot be sent.
    """
    os.putenv("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    module: ModuleType = onnxruntime
    return module


def create_session(model: Path | bytes) -> InferenceSession:
    """Create a single-threaded CPU session without graph optimization. `model`: path or content of an ONNX file."""
    ort = load_runtime()
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # The bundled graph is already optimized, and the runtime's optimizations slow it down: see the docstring of
    # `pipeline.training.export`.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    # The runtime would store a memory pattern for every length of text.
    options.enable_mem_pattern = False
    options.log_severity_level = 3  # errors only
    session: InferenceSession = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session


def read_checksums() -> dict[str, str]:
    """Read the SHA-256 digest (hexadecimal) of each bundled file, by file name."""
    lines = (MODELS_DIR / CHECKSUM_FILE).read_text(encoding="ascii").splitlines()
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def find_corrupt_files() -> dict[str, str]:
    """Return the bundled files that are missing or changed: file name -> description of the fault."""
    faults = {name: _describe_fault(MODELS_DIR / name, digest) for name, digest in read_checksums().items()}
    return {name: fault for name, fault in faults.items() if fault}


def _describe_fault(file: Path, digest: str) -> str:
    """Return the fault of a file; empty if its content has this SHA-256 digest."""
    try:
        with file.open("rb") as stream:
            is_intact = hashlib.file_digest(stream, "sha256").hexdigest() == digest
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return "" if is_intact else "its content is not what was shipped"


def create_bundled_encoder(name: EncoderName) -> SearchEncoder:
    """Create a bundled encoder, which runs on the CPU and loads its model at the first text."""
    from pipeline.encoders.static import StaticEncoder  # here, because it imports this module

    return StaticEncoder() if name is EncoderName.STATIC else OnnxEncoder()
