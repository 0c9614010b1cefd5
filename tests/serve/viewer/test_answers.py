"""Answers and comments of the user, sent by the page."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from mindmap.document import Mindmap, decode
from mindmap.map_store import MapStore
from mindmap.questions import ask_question
from mindmap.validation import MAX_TEXT_LENGTH
from tests.mindmap.sample_maps import NOON, assert_consistent, find_id
from tests.serve.viewer.helpers import ViewerClient


@pytest.fixture
def question_id(maps: MapStore, document: Mindmap) -> str:
    """Question on the node `Lexer` of the map."""
    lexer = find_id(document, "Lexer")
    return maps.change(document.id, lambda map_: ask_question(map_, lexer, "Why?", [], NOON))[1].ids[0]


def test_answer(client: ViewerClient, maps: MapStore, document: Mindmap, question_id: str) -> None:
    """An answer is stored, the response has the map, and the pages get an event; a second answer is a conflict."""
    request = {"mindmapId": document.id, "questionId": question_id, "answer": "Because"}
    with client.listen() as listener:
        listener.receive_event()
        answer = client.post("/api/answer", request)
        assert listener.receive_event()["id"] == document.id
    (question,) = maps.read(document.id).nodes[find_id(document, "Lexer")].questions
    assert (answer.status, question.answer) == (200, "Because")
    assert answer.json == {"mindmap": client.request(f"/api/mindmaps/{document.id}").json}
    assert client.post("/api/answer", request).error == (409, "already_answered")


def test_longest_answer(client: ViewerClient, document: Mindmap, question_id: str) -> None:
    """The longest possible answer is stored, also if JSON escapes each of its characters."""
    answer = "😀" * MAX_TEXT_LENGTH
    request = {"mindmapId": document.id, "questionId": question_id, "answer": answer}
    assert client.post("/api/answer", json.dumps(request).encode()).status == 200


def test_comments_at_once(client: ViewerClient, maps: MapStore, document: Mindmap) -> None:
    """Comments that several pages send at the same time are all stored."""
    lexer = find_id(document, "Lexer")

    def comment(number: int) -> int:
        request = {"mindmapId": document.id, "nodeId": lexer, "text": f"Comment {number}"}
        return client.post("/api/comment", request).status

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(comment, range(12))) == {200}
    stored = maps.read(document.id)
    assert {comment.text for comment in stored.nodes[lexer].comments} == {
        f"Comment {number}" for number in range(12)
    }
    assert_consistent(stored)


@pytest.mark.parametrize(
    ("target", "fields", "error"),
    [
        ("/api/answer", {"questionId": "q_none", "answer": "x"}, (404, "unknown_question")),
        ("/api/answer", {"questionId": "{question}", "answer": " "}, (400, "bad_text")),
        ("/api/answer", {"questionId": "{question}", "answer": None}, (400, "bad_request")),
        ("/api/answer", {"questionId": "{question}"}, (400, "bad_request")),
        ("/api/answer", {"questionId": "{question}", "answer": "x", "other": 1}, (400, "bad_request")),
        ("/api/answer", {"mindmapId": "../x", "questionId": "q", "answer": "x"}, (400, "bad_mindmap_id")),
        ("/api/answer", {"mindmapId": "mm_none", "questionId": "q", "answer": "x"}, (404, "no_such_mindmap")),
        ("/api/comment", {"nodeId": "n_none", "text": "x"}, (404, "unknown_node")),
        ("/api/comment", {"nodeId": "root", "text": ""}, (400, "bad_text")),
        ("/api/comment", {"nodeId": "root", "text": "a\0b"}, (400, "bad_text")),
        ("/api/comment", {"nodeId": "root", "text": "x" * 20_001}, (413, "over_limit")),
        ("/api/comment", {"mindmapId": ".viewer", "nodeId": "root", "text": "x"}, (400, "bad_mindmap_id")),
        ("/api/comment", [], (400, "bad_request")),
    ],
)
def test_invalid_requests(
    client: ViewerClient,
    maps: MapStore,
    document: Mindmap,
    question_id: str,
    target: str,
    fields: object,
    error: tuple[int, str],
) -> None:
    """An invalid request is an error, and changes no map."""
    before = maps.directory.read(document.id)
    if isinstance(fields, dict):
        fields = {"mindmapId": document.id} | fields
        if fields.get("questionId") == "{question}":
            fields["questionId"] = question_id
    assert client.post(target, fields).error == error
    assert maps.directory.read(document.id) == before
    assert decode(before, document.id).nodes


@pytest.mark.parametrize("target", ["/api/answer", "/api/comment"])
def test_other_sites_are_rejected(
    client: ViewerClient, maps: MapStore, document: Mindmap, target: str
) -> None:
    """Requests of other sites, for other hosts, and of forms are rejected, as for a git sync."""
    before = maps.directory.read(document.id)
    request = {"mindmapId": document.id, "nodeId": "root", "text": "x"}
    assert client.post(target, request, Origin="http://evil.example").error == (403, "foreign_origin")
    assert client.post(target, request, Sec_Fetch_Site="cross-site").error == (403, "foreign_origin")
    assert client.post(target, request, Host="evil.example").error == (403, "foreign_host")
    assert client.post(target, request, Content_Type="text/plain").error == (415, "not_json")
    assert client.request(target).error == (405, "method_not_allowed")
    assert maps.directory.read(document.id) == before
