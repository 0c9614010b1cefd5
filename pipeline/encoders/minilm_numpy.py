"""NumPy reference implementation of all-MiniLM-L6-v2, to find outlier channels and to test the ONNX graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Weights = dict[str, Floats]

LAYER_COUNT: Final = 6
HEAD_COUNT: Final = 12
HIDDEN_SIZE: Final = 384
MAX_TOKENS: Final = 256
# Added to the variance in layer normalizations.
EPSILON: Final = 1e-12

# Channels up to three times the median are not divided: of 1.5, 2, 3 and 4 this came closest to fp32.
OUTLIER_RATIO: Final = 3.0
# Enough random texts for stable maxima; they show the same outlier channels as real hunks.
PROBE_COUNT: Final = 40
PROBE_TOKENS: Final = 128
# Lower ids are the vocabulary's unused and single-character entries.
FIRST_PROBE_TOKEN: Final = 1_000


@dataclass(frozen=True, slots=True)
class NumpyMiniLM:
    """MiniLM on one text at a time.

    `peaks`: for each matrix product the largest absolute value of each input channel, over all texts so far.
    """

    weights: Weights
    peaks: Weights = field(default_factory=dict)

    def embed(self, tokens: Sequence[int]) -> Floats:
        """Return the unit vector of one text's token ids."""
        x = self._apply_layer_norm(
            get_position_embeddings(self.weights)[: len(tokens)] + self._look_up_words(tokens),
            "embeddings.LayerNorm",
        )
        for layer in range(LAYER_COUNT):
            x = self._apply_layer(x, f"encoder.layer.{layer}")
        mean = x.mean(0)
        unit: Floats = mean / np.linalg.norm(mean)
        return unit

    def _look_up_words(self, tokens: Sequence[int]) -> Floats:
        return self.weights["embeddings.word_embeddings.weight"][list(tokens)]

    def _apply_layer(self, x: Floats, name: str) -> Floats:
        attended = self._apply_linear(
            self._apply_attention(x, f"{name}.attention.self"), f"{name}.attention.output.dense"
        )
        x = self._apply_layer_norm(attended + x, f"{name}.attention.output.LayerNorm")
        inner = gelu(self._apply_linear(x, f"{name}.intermediate.dense"))
        return self._apply_layer_norm(
            self._apply_linear(inner, f"{name}.output.dense") + x, f"{name}.output.LayerNorm"
        )

    def _apply_attention(self, x: Floats, name: str) -> Floats:
        query, key, value = (
            self._apply_linear(x, f"{name}.{part}").reshape(len(x), HEAD_COUNT, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        scores = query @ key.swapaxes(1, 2) / np.sqrt(HIDDEN_SIZE / HEAD_COUNT)
        exponentials = np.exp(scores - scores.max(-1, keepdims=True))
        weighted: Floats = (exponentials / exponentials.sum(-1, keepdims=True)) @ value
        return weighted.swapaxes(0, 1).reshape(len(x), HIDDEN_SIZE)

    def _apply_linear(self, x: Floats, name: str) -> Floats:
        peak = np.abs(x).max(0)
        self.peaks[name] = np.maximum(self.peaks.get(name, peak), peak)
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _apply_layer_norm(self, x: Floats, name: str) -> Floats:
        centered = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt((centered**2).mean(-1, keepdims=True) + EPSILON)
        scaled: Floats = centered / deviation * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]
        return scaled


def gelu(x: Floats) -> Floats:
    """Return x times the standard normal CDF at x; erf is Abramowitz and Stegun's 7.1.26."""
    t = 1 / (1 + 0.3275911 * np.abs(x) / np.sqrt(2))
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(x) * (1 - series * np.exp(-(x**2) / 2))
    result: Floats = (0.5 * x * (1 + erf)).astype(np.float32)
    return result


def get_position_embeddings(weights: Weights) -> Floats:
    """Return the position embeddings plus the token-type embedding of a single text."""
    table = (
        weights["embeddings.position_embeddings.weight"]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    positions: Floats = table[:MAX_TOKENS]
    return positions


def compute_outlier_divisors(weights: Weights) -> Weights:
    """Return a divisor for each input channel of each matrix product, from their peaks for random tokens.

    The divisor is 1 except for outlier channels, whose peak is more than OUTLIER_RATIO times the median peak. It is
    rounded, because the last bits of a matrix product differ between machines and the bundled file must not.
    """
    model = NumpyMiniLM(weights)
    random = np.random.default_rng(0)
    vocabulary_size = len(weights["embeddings.word_embeddings.weight"])
    for _ in range(PROBE_COUNT):
        model.embed(random.integers(FIRST_PROBE_TOKEN, vocabulary_size, PROBE_TOKENS).tolist())
    return {
        name: np.maximum(1, np.round(peak / (OUTLIER_RATIO * np.median(peak)), 2))
        for name, peak in model.peaks.items()
    }
