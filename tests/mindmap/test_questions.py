"""Questions of agents, answers and comments of the user."""

from __future__ import annotations

import pytest

from mindmap.document import Mindmap, decode, encode, use_client
from mindmap.export import build_outline, format_outline, to_markdown
from mindmap.nodes import remove_nodes
from mindmap.questions import (
    AlreadyAnswered,
    UnknownQuestion,
    add_comment,
    answer_question,
    ask_question,
    find_question,
    has_message,
    list_messages,
    mark_delivered,
    withdraw_question,
)
from mindmap.tree import UnknownNode, find_active_task
from mindmap.validation import BadText, OverLimit
from tests.mindmap.sample_maps import NOON, assert_consistent, create_map, create_timestamp, find_id

ME, OTHER = "session-1", "session-2"


@pytest.fixture
def document() -> Mindmap:
    return create_map(
        {"label": "Store", "status": "in_progress"}, {"label": "Cache", "status": "in_progress"}
    )


def ask(document: Mindmap, text: str = "Which database?", *options: str) -> tuple[Mindmap, str]:
    """Return the map with a question of the session ME on the node `Store`, and the id of the question."""
    with use_client("claude-code"):
        result = ask_question(document, find_id(document, "Store"), text, options, create_timestamp(1), ME)
    assert_consistent(result.document)
    return result.document, result.ids[0]


def test_question_and_answer(document: Mindmap) -> None:
    """A question has its options, the client and its session; the answer is recorded once."""
    asked, question_id = ask(document, " Which database? ", "DuckDB", " SQLite", "DuckDB")
    node, question = find_question(asked, question_id)
    assert (node.label, question.text, question.options) == ("Store", "Which database?", ("DuckDB", "SQLite"))
    assert (question.client, question.session, question.answer) == ("claude-code", ME, None)
    assert asked.activity_log[0].message == "Asked the user: Which database?"
    answered = answer_question(asked, question_id, "SQLite", create_timestamp(2)).document
    assert_consistent(answered)
    assert find_question(answered, question_id)[1].answer == "SQLite"
    assert answered.activity_log[0].message == "User answered 'Which database?': SQLite"
    assert (answered.activity_log[0].node_id, answered.activity_log[0].client) == (node.id, None)
    assert decode(encode(answered), answered.id) == answered
    with pytest.raises(AlreadyAnswered):
        answer_question(answered, question_id, "DuckDB", create_timestamp(3))


def test_messages_do_not_change_the_active_task(document: Mindmap) -> None:
    """A question and a comment on an older task in progress leave the newer one the active task."""
    asked, question_id = ask(document)
    commented = add_comment(asked, find_id(asked, "Store"), "Small", create_timestamp(2)).document
    answered = answer_question(commented, question_id, "SQLite", create_timestamp(3)).document
    assert find_active_task(answered) == find_active_task(document)


def test_answer_goes_to_the_session_that_asked(document: Mindmap) -> None:
    """An answer is pending for the session that asked, until it is marked as delivered to it."""
    asked, question_id = ask(document)
    assert list_messages(asked, ME) == {}
    answered = answer_question(asked, question_id, "SQLite", NOON).document
    store = find_id(document, "Store")
    assert list_messages(answered, ME) == {
        question_id: f"Answer to 'Which database?' on 'Store' {{{store}}}: SQLite"
    }
    assert list_messages(answered, OTHER) == {}
    assert list_messages(mark_delivered(answered, OTHER, NOON), ME)
    delivered = mark_delivered(answered, ME, NOON)
    assert list_messages(delivered, ME) == {}
    assert find_question(delivered, question_id)[1].answer == "SQLite"


def test_comment_goes_to_the_first_session(document: Mindmap) -> None:
    """A comment is pending for every session until it is marked as delivered to one."""
    result = add_comment(document, find_id(document, "Cache"), " Keep it small ", NOON)
    (text,) = list_messages(result.document, ME).values()
    assert text.startswith("Comment on 'Cache'") and text.endswith("Keep it small")
    assert list_messages(result.document, OTHER) == list_messages(result.document, ME)
    delivered = mark_delivered(result.document, OTHER, NOON)
    assert list_messages(delivered, ME) == {}
    assert has_message(delivered, result.ids[0])
    assert_consistent(delivered)


def test_messages_leave_the_map_with_their_node(document: Mindmap) -> None:
    """A withdrawn question, and those of a removed node, are no longer in the map."""
    asked, question_id = ask(document)
    withdrawal = withdraw_question(asked, question_id, NOON)
    assert withdrawal is not None
    withdrawn = withdrawal.document
    assert not has_message(withdrawn, question_id)
    removed = remove_nodes(asked, [find_id(asked, "Store")], NOON).document
    for changed in (withdrawn, removed):
        with pytest.raises(UnknownQuestion):
            answer_question(changed, question_id, "SQLite", NOON)


def test_limits(document: Mindmap) -> None:
    """Empty and too long texts, too many options or messages, and unknown nodes are rejected."""
    store = find_id(document, "Store")
    for text, options in (
        ("", []),
        ("x" * 2_001, []),
        ("x", [""]),
        ("x", ["y" * 201]),
        ("x", list("abcdefghijk")),
    ):
        with pytest.raises((BadText, OverLimit)):
            ask_question(document, store, text, options, NOON)
    with pytest.raises(UnknownNode):
        ask_question(document, "n_none", "Why?", [], NOON)
    with pytest.raises(UnknownNode):
        add_comment(document, "n_none", "Why?", NOON)
    for text in ("", "  ", "a\0b", "x" * 20_001):
        with pytest.raises((BadText, OverLimit)):
            add_comment(document, store, text, NOON)
    for _ in range(100):
        document = add_comment(document, store, "Again", NOON).document
    with pytest.raises(OverLimit):
        add_comment(document, store, "Again", NOON)


def test_exports(document: Mindmap) -> None:
    """The outline counts open questions and comments; Markdown shows questions, answers and comments."""
    asked, _ = ask(document, "Which *database*?", "DuckDB", "SQLite")
    asked, question_id = ask(asked, "How large?")
    changed = answer_question(asked, question_id, "Small", NOON).document
    store = find_id(changed, "Store")
    changed = add_comment(changed, store, "Keep it", NOON).document
    assert f"Store {{{store}}} - 1 open question, 1 comment\n" in format_outline(build_outline(changed))
    assert (
        "- [ ] Store _(in progress)_\n"
        "  - _question:_ Which \\*database\\*? (DuckDB, SQLite) → not answered\n"
        "  - _question:_ How large? → Small\n"
        "  - _comment:_ Keep it\n"
    ) in to_markdown(changed)
    on_root = add_comment(changed, "root", "All good", NOON).document
    assert "## Questions and comments\n\n- _comment:_ All good\n" in to_markdown(on_root)
