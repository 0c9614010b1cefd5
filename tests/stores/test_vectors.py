"""Vectors as 8-bit codes, and exact products with them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from stores import schema
from stores.compatibility import EMBEDDING_DIMENSION
from stores.vectors import QuantizedVectors, _round_weights, quantize, quantize_table

ROWS = 1_000


@pytest.fixture
def vectors() -> np.ndarray:
    rows = np.random.default_rng(1).normal(size=(ROWS, EMBEDDING_DIMENSION))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


@pytest.fixture
def weights() -> np.ndarray:
    return np.random.default_rng(2).normal(size=EMBEDDING_DIMENSION)


def test_codes_use_the_full_range(vectors: np.ndarray) -> None:
    """The largest number of a vector has the code 127 or -127, and each other one differs by at most half a scale."""
    quantized = quantize(vectors)
    assert (np.abs(quantized.codes).max(axis=1) == 127).all() and quantized.codes.min() == -127
    assert (np.abs(quantized.decode() - vectors) <= 0.5001 * quantized.scales[:, None]).all()


def test_zeros() -> None:
    """A vector of zeros stays one."""
    zeros = quantize(np.zeros((2, EMBEDDING_DIMENSION), np.float32))
    assert not zeros.codes.any() and not zeros.decode().any()


def test_products(vectors: np.ndarray, weights: np.ndarray) -> None:
    """A product differs from that of the decoded vector by the rounding of the weights only."""
    quantized = quantize(vectors)
    exact = quantized.decode().astype(np.float64) @ weights
    assert np.abs(quantized.multiply(weights) - exact).max() < 1e-3 * np.linalg.norm(weights)


@pytest.mark.parametrize("code", [-127, 127])
def test_largest_sums_are_exact(weights: np.ndarray, code: int) -> None:
    """The sums of the largest codes times weights of equal sign are exact."""
    quantized = QuantizedVectors(
        (code * np.sign(weights) * np.ones((300, 1))).astype(np.int8), np.ones(300, np.float32)
    )
    integers, factor = _round_weights(weights)
    exact = int(code * np.abs(integers.astype(np.int64)).sum())
    assert 0.99 * 2**24 < abs(exact) <= 2**24
    assert (quantized.multiply(weights) * factor).tolist() == pytest.approx([exact] * 300, rel=1e-12)


@pytest.mark.parametrize("count", [0, 1, 255, 257, ROWS])
@pytest.mark.parametrize("processors", [1, 3])
def test_blocks_do_not_change_products(
    vectors: np.ndarray, weights: np.ndarray, monkeypatch: pytest.MonkeyPatch, count: int, processors: int
) -> None:
    """Products and norms of a vector do not depend on its place, on the number of vectors, or on threads."""
    monkeypatch.setattr("os.cpu_count", lambda: processors)
    quantized, reversed_rows = quantize(vectors[:count]), quantize(vectors[:count][::-1])
    products, reversed_products = quantized.multiply(weights), reversed_rows.multiply(weights)
    assert products.tolist() == reversed_products[::-1].tolist()
    assert (
        products.tolist()
        == [row.multiply(weights)[0] for row in map(quantize, vectors[:count, None])][:count]
    )
    axes, mean = np.diag(weights) + 0.01, weights / 100
    norms, reversed_norms = (rows.compute_norms(mean, axes) for rows in (quantized, reversed_rows))
    assert norms.tolist() == reversed_norms[::-1].tolist()
    assert norms == pytest.approx(np.linalg.norm((quantized.decode() - mean) @ axes, axis=1), rel=1e-3)


def test_zero_weights(vectors: np.ndarray) -> None:
    """Products with zeros are zeros."""
    assert not quantize(vectors).multiply(np.zeros(EMBEDDING_DIMENSION)).any()


def test_columns(vectors: np.ndarray) -> None:
    """Vectors are the same after a conversion to columns of the table; a null gives a vector of zeros."""
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), type=schema.VECTOR)
    digests = pa.array([bytes(16)] * ROWS, schema.DIGEST)
    table = quantize_table(pa.table([digests, column], schema=schema.EMBEDDINGS))
    assert table.schema.equals(schema.VECTORS)
    codes, scales = (table.column(name).combine_chunks() for name in ("codes", "scale"))
    stored = QuantizedVectors.from_columns(codes, scales)
    assert (stored.decode() == quantize(vectors).decode()).all()
    rows = pa.array([3, None, 0])
    some = QuantizedVectors.from_columns(codes.take(rows), scales.take(rows)).decode()
    assert (some == stored.take(np.array([3, 0, 0])).decode() * np.array([[1], [0], [1]])).all()
