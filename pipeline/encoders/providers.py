"""Encoding on GPUs and NPUs: choice of an execution provider of ONNX Runtime, and the FP32 encoder that runs on it.

- `choose_provider`, `check_built_in`: provider for the requested hardware; check that ONNX Runtime was built with it.
- `AcceleratedEncoder`: unquantized MiniLM, run in padded batches. The mean cosine between its vectors and those of the
  CPU encoder is 0.998, so one index may have vectors of both encoders.
- `ensure_fp32_model`: FP32 model file, written when it is missing or was changed.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from math import ceil
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from pipeline.encoders.base import (
    EMBEDDING_MODEL,
    MAX_TOKENS,
    Encoder,
    OnnxEncoder,
    load_runtime,
    load_tokenizer,
    sanitize_text,
)
from stores import locks
from stores.compatibility import EMBEDDING_DIMENSION
from stores.errors import LineageError
from stores.locks import Deadline

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession

logger = logging.getLogger(__name__)

AUTO: Final = "auto"
CPU: Final = "cpu"
COREML: Final = "coreml"
CUDA: Final = "cuda"

# ONNX Runtime's name of each provider, by the name on the command line.
RUNTIME_NAMES: Final = {
    CPU: "CPUExecutionProvider",
    COREML: "CoreMLExecutionProvider",
    CUDA: "CUDAExecutionProvider",
}

_PROVIDER_OPTIONS: Final[dict[str, dict[str, str]]] = {
    COREML: {"ModelFormat": "MLProgram", "RequireStaticInputShapes": "1", "MLComputeUnits": "ALL"}
}
_CPU_ALTERNATIVE: Final = "or embed with `--embed-provider cpu`."
# onnxruntime and onnxruntime-gpu install into one directory, and the last one installed overwrites the other.
_HINTS: Final = {
    COREML: "CoreML comes with ONNX Runtime for macOS. On a Mac run "
    f"`pip install --force-reinstall --no-deps onnxruntime`, {_CPU_ALTERNATIVE}",
    CUDA: "Run `pip install 'history-lineage[cuda]'`, then `pip uninstall --yes onnxruntime` and "
    "`pip install --force-reinstall --no-deps onnxruntime-gpu` (the two packages share one directory), "
    f"{_CPU_ALTERNATIVE}",
}


class ProviderUnavailable(LineageError):
    """The requested execution provider does not run in this build or on this machine."""


def choose_provider(requested: str, *, has_cuda_devices: bool = False) -> str:
    """Return the provider to embed with, without checking that it runs.

    `requested`: name of a provider, or `auto`: cuda if `has_cuda_devices`, else coreml on a Mac if ONNX Runtime was
    built with it, else cpu. `has_cuda_devices`: whether CUDA_VISIBLE_DEVICES names devices.
    """
    if requested != AUTO:
        return requested
    if has_cuda_devices:
        logger.info("CUDA_VISIBLE_DEVICES is set: embedding with cuda.")
        return CUDA
    return COREML if sys.platform == "darwin" and COREML in list_built_in_providers() else CPU


def list_built_in_providers() -> frozenset[str]:
    """Return the providers that the installed ONNX Runtime was built with."""
    available = load_runtime().get_available_providers()
    return frozenset(name for name, runtime_name in RUNTIME_NAMES.items() if runtime_name in available)


def check_built_in(provider: str) -> None:
    """Raise ProviderUnavailable unless ONNX Runtime was built with the provider. This machine may lack the hardware."""
    if provider not in list_built_in_providers():
        raise ProviderUnavailable(
            f"The installed ONNX Runtime was built without {provider}.", hint=_HINTS[provider]
        )


def create_provider_session(provider: str, model: Path, *, dimensions: Mapping[str, int]) -> InferenceSession:
    """Create a session that runs every node on this provider. Raises ProviderUnavailable if the provider cannot.

    `dimensions`: sizes to fix for dynamic dimensions of the model, by name.
    """
    check_built_in(provider)
    ort = load_runtime()
    options = ort.SessionOptions()
    options.log_severity_level = 4  # only fatal errors, because the others are raised
    for name, size in dimensions.items():
        options.add_free_dimension_override_by_name(name, size)
    if provider != CPU:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    if provider == CUDA:
        _preload_cuda_libraries(ort)
    runtime_name = RUNTIME_NAMES[provider]
    try:
        session: InferenceSession = ort.InferenceSession(
            model,
            options,
            providers=[(runtime_name, _PROVIDER_OPTIONS.get(provider, {}))],
            enable_fallback=False,
        )
    except Exception as error:  # the runtime's errors have no common base class
        raise _build_unavailable_error(provider, str(error)) from error
    # The session may use another provider without raising an error.
    if (chosen_name := session.get_providers()[0]) != runtime_name:
        raise _build_unavailable_error(provider, f"it chose {chosen_name}")
    return session


def _preload_cuda_libraries(ort: ModuleType) -> None:
    """Load CUDA's libraries from the packages of the extra `cuda`. Log what the runtime prints meanwhile."""
    with redirect_stdout(StringIO()) as output:
        ort.preload_dlls()
    if output.getvalue():
        logger.debug("%s", output.getvalue().rstrip())


def _build_unavailable_error(provider: str, reason: str) -> ProviderUnavailable:
    """Return the error for a provider that does not run. `reason`: text whose first line is shown."""
    first_line = (reason.splitlines() or ["no reason given"])[0]
    return ProviderUnavailable(
        f"ONNX Runtime cannot run the encoder on {provider}: {first_line:.300}", hint=_HINTS.get(provider, "")
    )


# Directory of the FP32 model file and of its lock, below the directory of all indexes.
FP32_DIRECTORY: Final = "models"
FP32_FILE: Final = "minilm-fp32.onnx"
BUILD_LOCK: Final = "build.lock"
# Longest wait for another process that builds the file. Building takes one or two seconds, more on a busy machine.
BUILD_TIMEOUT_SECONDS: Final = 60.0
# SHA-256 of the file that `_write_fp32_model` writes. Update it whenever the bundled encoder changes.
FP32_SHA256: Final = "4a48c80d8299a7da71543a70c750213d8c3102d07488b0fda4f3b23e3b01f603"


def ensure_fp32_model(home: Path) -> Path:
    """Return the path of the FP32 model file. Write the file if it is missing or was changed.

    `home`: directory of all indexes.
    Raises IndexBusy if another process builds the file for more than BUILD_TIMEOUT_SECONDS.
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
    """Write the FP32 model file atomically. A killed process leaves a draft file, which the next one overwrites."""
    from pipeline.encoders import onnx_graph

    draft = file.with_name(f"{FP32_FILE}.draft")
    with open(draft, "wb", opener=_open_private) as stream:
        stream.write(onnx_graph.build_fp32_model(onnx_graph.read_encoder_weights()))
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)


def _open_private(path: str, flags: int) -> int:
    """Open a file that only its owner can read, from its creation on."""
    return os.open(path, flags, 0o600)


@dataclass(frozen=True, slots=True)
class BatchShape:
    """Shape of a batch, with a text per row.

    `texts`: maximum number of rows of a batch. `token_multiple`: rows are padded to a multiple of this many tokens.
    `is_fixed`: every batch has exactly `texts` rows of `token_multiple` tokens, because compiling a shape takes the
    provider half a minute.
    """

    texts: int
    token_multiple: int
    is_fixed: bool = False

    @property
    def fixed_dimensions(self) -> dict[str, int]:
        """Sizes of the model's dimensions, by name, if all batches have the same shape; else empty."""
        return {"texts": self.texts, "tokens": self.token_multiple} if self.is_fixed else {}


# 64 texts of 192 tokens keep a GPU busy. Texts are padded to multiples of 32 tokens, because the runtime tunes itself
# for each length. The shape of a batch changes vectors only by rounding.
BATCH_SHAPES: Final = {
    CPU: BatchShape(8, 32),
    CUDA: BatchShape(64, 32),
    COREML: BatchShape(8, MAX_TOKENS, is_fixed=True),
}


class AcceleratedEncoder:
    """Bundled all-MiniLM-L6-v2 in FP32 on one execution provider.

    The constructor loads the model, and raises ProviderUnavailable if the provider cannot run it.
    `home`: directory of all indexes, below which the model file is stored.
    """

    name: Final = EMBEDDING_MODEL
    dimension: Final = EMBEDDING_DIMENSION

    def __init__(self, provider: str, home: Path) -> None:
        from pipeline.encoders.onnx_graph import TokenEmbeddings

        check_built_in(provider)
        self.provider = provider
        self._shape = BATCH_SHAPES[provider]
        self._session = create_provider_session(
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
        """Return the sum of the token vectors of each text. `tokens`: token ids of each text of one batch."""
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
    """Create the MiniLM encoder for an execution provider. `home`: directory of all indexes."""
    return OnnxEncoder() if provider == CPU else AcceleratedEncoder(provider, home)


def _group_by_length(tokens: Sequence[Sequence[int]], batch_size: int) -> Iterator[list[int]]:
    """Yield batches as indices of texts, longest texts first, so that a batch has little padding.

    `tokens`: token ids of each text.
    """
    order = sorted(range(len(tokens)), key=lambda index: len(tokens[index]), reverse=True)
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]


def _pad(tokens: Sequence[Sequence[int]], shape: BatchShape) -> NDArray[np.int64]:
    """Return the token ids of a batch as rows of equal length, padded with -1. A fixed shape adds rows of padding."""
    import numpy as np

    row_count = shape.texts if shape.is_fixed else len(tokens)
    max_length = max(map(len, tokens))
    row_length = ceil(max_length / shape.token_multiple) * shape.token_multiple
    rows = np.full((row_count, row_length), -1, np.int64)
    for row, ids in zip(rows, tokens, strict=False):
        row[: len(ids)] = ids
    return rows
