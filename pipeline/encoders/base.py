"""Encoder protocol, the bundled int8 MiniLM encoder on ONNX Runtime, and the bundled encoders by name.

The model runs once for each text, without padding and on one thread; callers encode in several threads at once. Dynamic
quantization scales the activations of a whole run, so in a batch the vector of a text would depend on the other texts.

The bundled model files are checked against their SHA-256 sums.
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

from pipeline.options import EncoderName
from stores.compatibility import EMBEDDING_DIMENSION

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer


MODELS_DIR: Final = Path(__file__).parent / "models"

# Version of each encoder's vector space, with the encoder's name before the first slash. Raise the last number whenever
# the bundled file or the preparation of its input changes.
EMBEDDING_MODEL: Final = "all-MiniLM-L6-v2/int8/3"
STATIC_MODEL: Final = "static/2"

# Longer texts are cut before the tokenizer, which reads its whole input (a commit message can have a megabyte) and then
# keeps 256 tokens: about 1,000 characters of code.
MAX_TEXT_CHARACTERS: Final = 4_096

# File with the checksums, as `sha256sum --check` reads it, so that users can check the files without this program.
CHECKSUM_FILE: Final = "SHA256SUMS"


class Encoder(Protocol):
    """Model that turns texts into unit vectors.

    `name`: version of the vector space; vectors of different versions cannot be compared. `dimension`: number of
    components of a vector.
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


class OnnxEncoder:
    """Bundled int8 all-MiniLM-L6-v2, loaded at the first text. Several threads may encode at once.

    In another process a pickled encoder becomes the one that all tasks of that process share.
    """

    name: Final = EMBEDDING_MODEL
    dimension: Final = EMBEDDING_DIMENSION

    def __init__(self) -> None:
        self._loading = Lock()
        self._model: _Model | None = None

    def __reduce__(self) -> tuple[Callable[[], OnnxEncoder], tuple[()]]:
        """Pickle only the reference to the bundled model."""
        return get_shared_encoder, ()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit vector per text, in order."""
        import numpy as np

        if not texts:
            return np.empty((0, self.dimension), np.float32)
        model = self._get_model()
        return np.stack([model.embed(text) for text in texts])

    def unload(self) -> None:
        """Free the model's memory. The next text loads the model again."""
        with self._loading:
            self._model = None

    def _get_model(self) -> _Model:
        with self._loading:
            if self._model is None:
                self._model = load_model()
            return self._model


@dataclass(frozen=True, slots=True)
class _Model:
    tokenizer: Tokenizer
    session: InferenceSession

    def embed(self, text: str) -> NDArray[np.float32]:
        import numpy as np

        tokens = np.array([self.tokenizer.encode(sanitize_text(text)).ids], np.int64)
        (vectors,) = self.session.run(None, {"input_ids": tokens, "attention_mask": np.ones_like(tokens)})
        row: NDArray[np.float32] = vectors[0]
        return row


def load_model() -> _Model:
    """Load the bundled model and its tokenizer."""
    return _Model(load_tokenizer(), create_session(MODELS_DIR / "minilm.onnx"))


@cache
def get_shared_encoder() -> OnnxEncoder:
    """Return the encoder that all tasks of this process share."""
    return OnnxEncoder()


def sanitize_text(text: str) -> str:
    """Truncate a text and replace lone surrogates (from input in another encoding), which the tokenizer rejects."""
    return text[:MAX_TEXT_CHARACTERS].encode("utf-8", "replace").decode()


def load_tokenizer() -> Tokenizer:
    """Load the bundled MiniLM tokenizer, which truncates at the model's 256 tokens."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(MODELS_DIR / "tokenizer.json"))


def load_runtime() -> ModuleType:
    """Import ONNX Runtime with its telemetry off.

    The telemetry sends data about this machine, and stores on disk what it cannot send.
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
    # The bundled graph is optimized already; the runtime's fusions slow it down (see `pipeline.training.export`).
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    # Otherwise the runtime stores a memory pattern for every length of text.
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    session: InferenceSession = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session


def read_checksums() -> dict[str, str]:
    """Read the SHA-256 of each bundled file, by file name."""
    lines = (MODELS_DIR / CHECKSUM_FILE).read_text(encoding="ascii").splitlines()
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def find_corrupt_files() -> dict[str, str]:
    """Return a description of the fault of each bundled file that is missing or changed, by file name."""
    faults = {name: _describe_fault(MODELS_DIR / name, digest) for name, digest in read_checksums().items()}
    return {name: fault for name, fault in faults.items() if fault}


def _describe_fault(file: Path, digest: str) -> str:
    """Return the fault of a file; empty if its content has the digest."""
    try:
        with file.open("rb") as stream:
            is_intact = hashlib.file_digest(stream, "sha256").hexdigest() == digest
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return "" if is_intact else "its content is not what was shipped"


def create_bundled_encoder(name: EncoderName) -> Encoder:
    """Create the bundled encoder of that name, on the CPU. It loads its model at the first text."""
    from pipeline.encoders.static import StaticEncoder  # it imports this module

    return StaticEncoder() if name is EncoderName.STATIC else OnnxEncoder()
