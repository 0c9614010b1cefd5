"""Questions of agents to the user, and comments of the user, on the nodes of a mindmap (short: map).

The web page writes answers and comments into the document. An agent receives each answer and comment once, in the
result of its next call on the map: the session that asked receives the answer, and the first session that calls
receives the comment. An answer or comment that no agent has received yet is a pending message.

Answers and comments do not change the `updated_at` of their node, since they must not change the active task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from mindmap import tree, validation
from mindmap.document import (
    Comment,
    EditResult,
    Mindmap,
    Node,
    Question,
    compute_edit_timestamp,
    get_client,
    with_log_entry,
)
from mindmap.nodes import generate_id
from stores.errors import LineageError

# Maximum length of a question, number of its options, and length of an option. The page shows the question on a card
# and each option as a button.
MAX_QUESTION_LENGTH: Final = 2_000
MAX_OPTIONS: Final = 10
MAX_OPTION_LENGTH: Final = 200
# Maximum number of questions, and of comments, of one node. Every change of the map reads and writes all of them.
MAX_MESSAGES: Final = 100
# Characters of a label, question or answer that a log entry or message quotes.
MAX_QUOTE_LENGTH: Final = 100


class UnknownQuestion(LineageError):
    """Error for a question id that the map does not have."""


class AlreadyAnswered(LineageError):
    """Error for a second answer to a question."""


def ask_question(
    document: Mindmap, node_id: str, text: str, options: Sequence[str], now: str, session: str | None = None
) -> EditResult:
    """Add a question to a node. `ids` of the result is the question's id. `session` is the id of the asking session."""
    node = tree.get_node(document, node_id)
    _check_count(node.questions, "questions")
    if len(options) > MAX_OPTIONS:
        raise validation.OverLimit(
            f"A question has at most {MAX_OPTIONS} options; this one has {len(options):,}.",
            hint="Leave out options; the user can also write an answer.",
        )
    timestamp = compute_edit_timestamp(document, now)
    question = Question(
        id=generate_id("q_", {question.id for _, question in list_questions(document)}),
        text=validation.validate_text(text, "question", max_length=MAX_QUESTION_LENGTH),
        options=tuple(
            dict.fromkeys(
                validation.validate_text(option, "option", max_length=MAX_OPTION_LENGTH) for option in options
            )
        ),
        asked_at=timestamp,
        client=get_client(),
        session=session,
    )
    message = f"Asked the user: {_shorten(question.text)}"
    node = replace(node, questions=(*node.questions, question))
    return EditResult(_log_change(document, node, message, timestamp), message, (question.id,), node_count=1)


def answer_question(document: Mindmap, question_id: str, answer: str, now: str) -> EditResult:
    """Record the user's answer. Raises UnknownQuestion and AlreadyAnswered."""
    node, question = find_question(document, question_id)
    if question.answer is not None:
        raise AlreadyAnswered(
            f"The question has the answer {_shorten(question.answer)!r}.", hint="Comment on it."
        )
    timestamp = compute_edit_timestamp(document, now)
    answered_question = replace(
        question, answer=validation.validate_text(answer, "answer"), answered_at=timestamp
    )
    message = f"User answered {_shorten(question.text)!r}: {_shorten(answered_question.answer or '')}"
    new_document = _log_change(document, _replace_question(node, answered_question), message, timestamp)
    return EditResult(new_document, message, (question_id,), node_count=1)


def withdraw_question(document: Mindmap, question_id: str, now: str) -> EditResult | None:
    """Remove a question that has no answer; return None if it has one. Raises UnknownQuestion."""
    node, question = find_question(document, question_id)
    if question.answer is not None:
        return None
    message = f"Withdrew the question {_shorten(question.text)!r}"
    node = replace(node, questions=tuple(other for other in node.questions if other.id != question_id))
    new_document = _log_change(document, node, message, compute_edit_timestamp(document, now))
    return EditResult(new_document, message, (question_id,), node_count=1)


def add_comment(document: Mindmap, node_id: str, text: str, now: str) -> EditResult:
    """Add a comment of the user to a node. `ids` of the result is the comment's id."""
    node = tree.get_node(document, node_id)
    _check_count(node.comments, "comments")
    timestamp = compute_edit_timestamp(document, now)
    comment = Comment(
        id=generate_id("c_", {other.id for owner in document.nodes.values() for other in owner.comments}),
        text=validation.validate_text(text, "comment"),
        timestamp=timestamp,
    )
    message = f"User commented on {_shorten(node.label)!r}: {_shorten(comment.text)}"
    node = replace(node, comments=(*node.comments, comment))
    return EditResult(_log_change(document, node, message, timestamp), message, (comment.id,), node_count=1)


def list_questions(document: Mindmap) -> Iterator[tuple[Node, Question]]:
    """Yield every question with its node."""
    for node in document.nodes.values():
        for question in node.questions:
            yield node, question


def find_question(document: Mindmap, question_id: str) -> tuple[Node, Question]:
    """Return the question with this id, and its node. Raises UnknownQuestion."""
    for node, question in list_questions(document):
        if question.id == question_id:
            return node, question
    raise UnknownQuestion(
        f"There is no question {_shorten(question_id)!r} in {document.id}.",
        hint="It was withdrawn, or its node was removed. Read the map for its open questions.",
    )


def list_messages(document: Mindmap, session: str | None) -> dict[str, str]:
    """Return the texts of the pending messages to a session, by the id of their question or comment."""
    messages = {}
    for node in document.nodes.values():
        place = f"{_shorten(node.label)!r} {{{node.id}}}"
        for question in node.questions:
            if _is_pending(question, session):
                messages[question.id] = f"Answer to {_shorten(question.text)!r} on {place}: {question.answer}"
        for comment in node.comments:
            if comment.delivered_at is None:
                messages[comment.id] = f"Comment on {place}: {comment.text}"
    return messages


def has_message(document: Mindmap, message_id: str) -> bool:
    """Return True if the map has a question or comment with this id."""
    return any(
        message_id in {question.id for question in node.questions} | {comment.id for comment in node.comments}
        for node in document.nodes.values()
    )


def mark_delivered(document: Mindmap, session: str | None, now: str) -> Mindmap:
    """Return the map with the session's pending messages marked as delivered. Adds no log entry."""
    nodes = {}
    for node in document.nodes.values():
        questions = tuple(
            replace(question, delivered_at=now) if _is_pending(question, session) else question
            for question in node.questions
        )
        comments = tuple(
            comment if comment.delivered_at else replace(comment, delivered_at=now)
            for comment in node.comments
        )
        is_changed = (questions, comments) != (node.questions, node.comments)
        nodes[node.id] = replace(node, questions=questions, comments=comments) if is_changed else node
    return replace(document, nodes=nodes)


def _is_pending(question: Question, session: str | None) -> bool:
    return question.session == session and question.answer is not None and question.delivered_at is None


def _replace_question(node: Node, question: Question) -> Node:
    questions = tuple(question if other.id == question.id else other for other in node.questions)
    return replace(node, questions=questions)


def _log_change(document: Mindmap, node: Node, message: str, timestamp: str) -> Mindmap:
    """Return the map with a changed node and a log entry."""
    new_document = replace(document, nodes={**document.nodes, node.id: node})
    return with_log_entry(new_document, timestamp, message, node_id=node.id)


def _check_count(messages: Sequence[Question | Comment], name: str) -> None:
    if len(messages) >= MAX_MESSAGES:
        raise validation.OverLimit(
            f"A node has at most {MAX_MESSAGES} {name}.", hint="Choose another node, such as a new note."
        )


def _shorten(text: str) -> str:
    return tree.shorten_label(text, MAX_QUOTE_LENGTH)
