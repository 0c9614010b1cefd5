"""What speed is compared with: git's own reading of a history, and the bare runtime on the same texts."""

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

from pipeline.encoders.base import CHARACTERS_READ, MODELS
from tests.repos import environment

# The rows of the table compare with two runs side by side, whatever the machine has.
THREADS: Final = 2


def git_log_seconds(repository: Path) -> float:
    """Wall time of `git log -p --no-merges` into nothing."""
    command = ["git", "-C", str(repository), "log", "-p", "--no-merges", "HEAD"]
    started = time.perf_counter()
    subprocess.run(command, env=environment(), stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def raw_runtime_seconds(texts: Sequence[str]) -> float:
    """Wall time of ONNX Runtime alone: model loaded and texts tokenized before, one text per run."""
    tokenizer = Tokenizer.from_file(str(MODELS / "tokenizer.json"))
    inputs = [_tokens(tokenizer, text) for text in texts]
    session = _session()
    with ThreadPoolExecutor(THREADS) as pool:
        started = time.perf_counter()
        for _ in pool.map(lambda tokens: _run(session, tokens), inputs):
            pass
        return time.perf_counter() - started


def _tokens(tokenizer: Tokenizer, text: str) -> npt.NDArray[np.int64]:
    readable = text[:CHARACTERS_READ].encode("utf-8", "replace").decode()
    return np.array([tokenizer.encode(readable).ids], np.int64)


def _run(session: onnxruntime.InferenceSession, tokens: npt.NDArray[np.int64]) -> None:
    session.run(None, {"input_ids": tokens, "attention_mask": np.ones_like(tokens)})


def _session() -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # As the encoder has it, because it is the faster way: a slow reference would flatter.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(MODELS / "minilm.onnx", options, providers=["CPUExecutionProvider"])
