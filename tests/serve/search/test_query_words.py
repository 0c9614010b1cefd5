"""Removal of question phrases."""

from __future__ import annotations

import pytest

from serve.search.query_hints import strip_question_phrases


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("how did we connect", "connect"),
        ("How was it that the `retry_after` header is read?", "`retry_after` header is read?"),
        ("Why is it not retried?", "not retried?"),
        ("did we ever drop a Python version", "ever drop a Python version"),
        ("¿where is the pool closed", "pool closed"),
    ],
)
def test_question_phrases_are_removed(text: str, rest: str) -> None:
    """Function words at the start of a question are removed, up to the first content word."""
    assert strip_question_phrases(text) == rest


@pytest.mark.parametrize(
    "text",
    [
        "do not retry",
        "so, how do I cancel a task?",
        "Why is it not?",
        "no longer wait for peers",
        "did: resolver for documents",
        "however",
        "how did we do this before?",
        "what?",
        "",
        "как это было",
    ],
)
def test_other_texts_stay(text: str) -> None:
    """Statements, and questions of function words only, stay unchanged."""
    assert strip_question_phrases(text) == text
