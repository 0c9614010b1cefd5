"""The static encoder: words to rows, the same vector whatever stands beside a text, a light door."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pipeline.encoders.base import CHARACTERS_READ, MODELS, STATIC_MODEL
from pipeline.encoders.static import STATIC_FILE, Lexicon, StaticEncoder

# Raise the number in STATIC_MODEL when the file changes, and say here which file it now means.
FILES = {"static/2": "73d7ee9132ef4c8f7d0514b0573b233c0ce40b131e7ef7be12b930fa245b17a4"}
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


def test_a_known_word_has_a_row_of_its_own() -> None:
    """Its number; and once, however often it is said."""
    assert LEXICON.rows(["request", "retri", "request"]) == [0, 1]


def test_an_unknown_word_shares_two_rows() -> None:
    """Of the buckets after the words' rows, the same ones each time; a number nobody shares has none."""
    rows = LEXICON.rows(["frobnicate"])
    assert rows == LEXICON.rows(["frobnicate"]) and 1 <= len(rows) <= 2
    assert all(3 <= row < 3 + 8 for row in rows)
    assert LEXICON.rows(["4711"]) == []


def test_words_seldom_share_both_rows() -> None:
    """Among ten thousand identifiers hardly two have the same pair of a thousand buckets."""
    lexicon = Lexicon({}, 1024)
    pairs = {tuple(lexicon.rows([f"name_{number}"])) for number in range(10_000)}
    assert len(pairs) > 9_800


def test_a_text_is_embedded_alone(encoder: StaticEncoder) -> None:
    """Bit for bit the same vector alone, among others, and in another order."""
    together = encoder.encode(TEXTS)
    backwards = encoder.encode(TEXTS[::-1])[::-1]
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    assert together.tobytes() == backwards.tobytes() == alone.tobytes()
    assert together.tobytes() == StaticEncoder().encode(TEXTS).tobytes()


def test_an_unloaded_table_is_gone_until_the_next_text() -> None:
    """Nothing keeps it in memory; read again, it makes the same vectors."""
    encoder = StaticEncoder()
    before = encoder.encode(TEXTS)
    encoder.unload()
    assert encoder._table is None
    assert encoder.encode(TEXTS).tobytes() == before.tobytes()


def test_rows_have_length_1(encoder: StaticEncoder) -> None:
    """Of any text, also of one without a word; and no texts give no rows."""
    rows = encoder.encode(TEXTS)
    assert rows.shape == (len(TEXTS), encoder.dimension) and rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)
    assert encoder.encode([]).shape == (0, encoder.dimension)


def test_an_identifier_answers_to_its_parts(encoder: StaticEncoder) -> None:
    """What is asked in words finds what is written together."""
    asked, written, other = encoder.encode(["parse http header", "parseHTTPHeader", "drawButtonBorder"])
    assert asked @ written > 0.2 + asked @ other


def test_what_is_meant_counts(encoder: StaticEncoder) -> None:
    """Texts of one meaning are nearer than texts of two, though they share no word."""
    rows = encoder.encode(["database query", "sql select", "button color"])
    assert rows[0] @ rows[1] > rows[0] @ rows[2]


def test_reads_no_more_than_the_other(encoder: StaticEncoder) -> None:
    """What follows the characters that are read changes nothing."""
    full = "x" * CHARACTERS_READ
    first, longer = encoder.encode([full, f"{full} parser"])
    assert first.tobytes() == longer.tobytes()


def test_the_name_stands_for_the_file() -> None:
    """A changed table does not keep its name."""
    assert FILES[STATIC_MODEL] == hashlib.sha256((MODELS / STATIC_FILE).read_bytes()).hexdigest()


def test_the_door_is_light() -> None:
    """Importing and making the encoder loads neither numpy nor the table."""
    program = (
        "import sys; from pipeline.encoders.static import StaticEncoder; StaticEncoder()\n"
        "print(sorted({'numpy', 'onnxruntime', 'tokenizers'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert done.stdout == "[]\n"
