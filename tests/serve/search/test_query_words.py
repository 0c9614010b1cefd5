"""The words that only ask."""

from __future__ import annotations

import pytest

from serve.search.query_hints import asked_for


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
def test_the_opening_of_a_question(text: str, rest: str) -> None:
    """What a question only begins with is left out; a word that says something ends that."""
    assert asked_for(text) == rest


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
def test_whole(text: str) -> None:
    """A statement stays as it is, and a question of nothing else, so that there is something to look up."""
    assert asked_for(text) == text
