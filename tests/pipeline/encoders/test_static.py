"""The static encoder: rows of words, determinism, and its light import."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pipeline.encoders.base import MAX_TEXT_CHARACTERS, MODELS_DIR, STATIC_MODEL
from pipeline.encoders.static import STATIC_FILE, Lexicon, StaticEncoder

# Raise the number in STATIC_MODEL when the file changes, and record the new digest here.
FILE_DIGESTS = {"static/2": "73d7ee9132ef4c8f7d0514b0573b233c0ce40b131e7ef7be12b930fa245b17a4"}
LEXICON = Lexicon({"retri": 0, "request": 1, "max_retri": 2}, 8)
TEXTS = [
    "retry the request after a timeout",
    "",
    "42 1.5 ->",
    "def parseHTTPHeader(line):\n    return line.split(':')",
    "größer als \ud800 nichts",
]


@pytest.fixture(scope="module")
def encoder() -> StaticEncoder:
    return StaticEncoder()


def test_a_known_word_has_its_own_row() -> None:
    """Each word's row is listed once, however often the word occurs."""
    assert LEXICON.find_rows(["request", "retri", "request"]) == [0, 1]


def test_an_unknown_word_has_two_bucket_rows() -> None:
    """An unknown word has the same one or two buckets each time; an unknown number has none."""
    rows = LEXICON.find_rows(["frobnicate"])
    assert rows == LEXICON.find_rows(["frobnicate"]) and 1 <= len(rows) <= 2
    assert all(3 <= row < 3 + 8 for row in rows)
    assert LEXICON.find_rows(["4711"]) == []


def test_words_seldom_share_both_rows() -> None:
    """Ten thousand identifiers have more than 9,800 distinct pairs of 1,024 buckets."""
    lexicon = Lexicon({}, 1024)
    pairs = {tuple(lexicon.find_rows([f"name_{number}"])) for number in range(10_000)}
    assert len(pairs) > 9_800


def test_vectors_are_deterministic(encoder: StaticEncoder) -> None:
    """A vector is the same to the bit alone, among others and in another order."""
    together = encoder.encode(TEXTS)
    backwards = encoder.encode(TEXTS[::-1])[::-1]
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    assert together.tobytes() == backwards.tobytes() == alone.tobytes()
    assert together.tobytes() == StaticEncoder().encode(TEXTS).tobytes()


def test_unload_frees_the_table() -> None:
    """The table is freed; the next call loads it again and gives the same vectors."""
    encoder = StaticEncoder()
    before = encoder.encode(TEXTS)
    encoder.unload()
    assert encoder._model is None
    assert encoder.encode(TEXTS).tobytes() == before.tobytes()


def test_rows_are_unit_vectors(encoder: StaticEncoder) -> None:
    """Every text has a unit vector, also without words; without texts the array is empty."""
    rows = encoder.encode(TEXTS)
    assert rows.shape == (len(TEXTS), encoder.dimension) and rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)
    assert encoder.encode([]).shape == (0, encoder.dimension)


def test_an_identifier_is_near_its_parts(encoder: StaticEncoder) -> None:
    """Separate words are near the identifier that joins them."""
    words, identifier, other = encoder.encode(["parse http header", "parseHTTPHeader", "drawButtonBorder"])
    assert words @ identifier > 0.2 + words @ other


def test_related_words_are_near(encoder: StaticEncoder) -> None:
    """Texts with related words are nearer than others, though they share no word."""
    rows = encoder.encode(["database query", "sql select", "button color"])
    assert rows[0] @ rows[1] > rows[0] @ rows[2]


def test_long_texts_are_truncated(encoder: StaticEncoder) -> None:
    """Text after the character limit changes nothing."""
    full = "x" * MAX_TEXT_CHARACTERS
    first, longer = encoder.encode([full, f"{full} parser"])
    assert first.tobytes() == longer.tobytes()


def test_the_model_name_belongs_to_its_file() -> None:
    """A changed table needs a new name."""
    assert FILE_DIGESTS[STATIC_MODEL] == hashlib.sha256((MODELS_DIR / STATIC_FILE).read_bytes()).hexdigest()


def test_importing_loads_no_heavy_library() -> None:
    """Importing and creating the encoder loads neither numpy nor the table."""
    program = (
        "import sys; from pipeline.encoders.static import StaticEncoder; StaticEncoder()\n"
        "print(sorted({'numpy', 'onnxruntime', 'tokenizers'} & sys.modules.keys()))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert result.stdout == "[]\n"
