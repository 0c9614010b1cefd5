"""Reference timings: `git log -p` of a history, and ONNX Runtime alone on the same texts."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import onnxruntime
from tokenizers import Tokenizer

from pipeline.encoders.base import MODELS_DIR, load_tokenizer, sanitize_text
from tests.repos import build_environment

# Fixed, so that ratios are comparable between machines.
THREADS: Final = 2


def time_git_log(repository: Path) -> float:
    """Return the wall time of `git log -p --no-merges` with its output discarded."""
    command = ["git", "-C", str(repository), "log", "-p", "--no-merges", "HEAD"]
    start_time = time.perf_counter()
    subprocess.run(command, env=build_environment(), stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start_time


def time_runtime(texts: Sequence[str]) -> float:
    """Return the wall time of ONNX Runtime alone: model loaded and texts tokenized before, one text per run."""
    tokenizer = load_tokenizer()
    inputs = [_tokenize(tokenizer, text) for text in texts]
    session = _create_session()
    with ThreadPoolExecutor(THREADS) as pool:
        start_time = time.perf_counter()
        for _ in pool.map(lambda tokens: _run_session(session, tokens), inputs):
            pass
        return time.perf_counter() - start_time


def _tokenize(tokenizer: Tokenizer, text: str) -> npt.NDArray[np.int64]:
    return np.array([tokenizer.encode(sanitize_text(text)).ids], np.int64)


def _run_session(session: onnxruntime.InferenceSession, tokens: npt.NDArray[np.int64]) -> None:
    session.run(None, {"input_ids": tokens, "attention_mask": np.ones_like(tokens)})


def _create_session() -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # Same setting as the encoder, which is the faster one: a slow reference would make the ratio too good.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(
        MODELS_DIR / "minilm.onnx", options, providers=["CPUExecutionProvider"]
    )
