"""all-MiniLM-L6-v2 read plainly in numpy: shows the outliers, and says what the graph must agree with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Weights = dict[str, Floats]

LAYERS: Final = 6
HEADS: Final = 12
HIDDEN: Final = 384
TOKENS: Final = 256
EPSILON: Final = 1e-12

# Channels within three times the median are left alone: of 1.5, 2, 3 and 4 this came closest to fp32.
OUTLIER: Final = 3.0
# Enough for the maxima to settle; the channels found are those that real hunks show.
PROBES: Final = 40
PROBE_TOKENS: Final = 128
# Below are the vocabulary's unused and single-character entries.
FIRST_WORD: Final = 1_000


@dataclass(frozen=True, slots=True)
class Bert:
    """The model read plainly. `peaks`: largest input seen, per channel, of each matrix product."""

    weights: Weights
    peaks: Weights = field(default_factory=dict)

    def vector(self, tokens: Sequence[int]) -> Floats:
        """The unit vector of one text."""
        x = self._normalised(
            positions(self.weights)[: len(tokens)] + self._words(tokens), "embeddings.LayerNorm"
        )
        for layer in range(LAYERS):
            x = self._layer(x, f"encoder.layer.{layer}")
        mean = x.mean(0)
        unit: Floats = mean / np.linalg.norm(mean)
        return unit

    def _words(self, tokens: Sequence[int]) -> Floats:
        return self.weights["embeddings.word_embeddings.weight"][list(tokens)]

    def _layer(self, x: Floats, name: str) -> Floats:
        attended = self._product(
            self._attention(x, f"{name}.attention.self"), f"{name}.attention.output.dense"
        )
        x = self._normalised(attended + x, f"{name}.attention.output.LayerNorm")
        inner = gelu(self._product(x, f"{name}.intermediate.dense"))
        return self._normalised(self._product(inner, f"{name}.output.dense") + x, f"{name}.output.LayerNorm")

    def _attention(self, x: Floats, name: str) -> Floats:
        query, key, value = (
            self._product(x, f"{name}.{part}").reshape(len(x), HEADS, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        scores = query @ key.swapaxes(1, 2) / np.sqrt(HIDDEN / HEADS)
        odds = np.exp(scores - scores.max(-1, keepdims=True))
        mixed: Floats = (odds / odds.sum(-1, keepdims=True)) @ value
        return mixed.swapaxes(0, 1).reshape(len(x), HIDDEN)

    def _product(self, x: Floats, name: str) -> Floats:
        peak = np.abs(x).max(0)
        self.peaks[name] = np.maximum(self.peaks.get(name, peak), peak)
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _normalised(self, x: Floats, name: str) -> Floats:
        centred = x - x.mean(-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
        scaled: Floats = centred / spread * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]
        return scaled


def gelu(x: Floats) -> Floats:
    """x times the share of a normal distribution below x; the erf is Abramowitz and Stegun's 7.1.26."""
    t = 1 / (1 + 0.3275911 * np.abs(x) / np.sqrt(2))
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(x) * (1 - series * np.exp(-(x**2) / 2))
    result: Floats = (0.5 * x * (1 + erf)).astype(np.float32)
    return result


def positions(weights: Weights) -> Floats:
    """What is added to each token: its position, and that it belongs to the first of one text."""
    table = (
        weights["embeddings.position_embeddings.weight"]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    used: Floats = table[:TOKENS]
    return used


def outliers(weights: Weights) -> Weights:
    """By how much each product's input channels are divided, from the peaks of random tokens.

    Rounded, because the last bits of a matrix product differ between machines and the file should not.
    """
    model = Bert(weights)
    random = np.random.default_rng(0)
    words = len(weights["embeddings.word_embeddings.weight"])
    for _ in range(PROBES):
        model.vector(random.integers(FIRST_WORD, words, PROBE_TOKENS).tolist())
    return {
        name: np.maximum(1, np.round(peak / (OUTLIER * np.median(peak)), 2))
        for name, peak in model.peaks.items()
    }
