"""Questions of agents to the user: asking, waiting, and messages that a later answer carries."""

from __future__ import annotations

import runpy
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client

from mindmap.document import Mindmap
from mindmap.map_store import MapStore
from mindmap.questions import add_comment, answer_question
from pipeline.interrupts import RequestCancelled, use_cancellation_flag
from serve.mcp import mindmap_server as server_module
from serve.mcp import relay
from serve.mcp.mindmap_server import MindmapServer, create_mindmap_server
from serve.mcp.mindmap_types import MapListing
from serve.mcp.user_messages import FIRST_PAGE_SECONDS, PAGE_CHECK_SECONDS, UserMessages
from serve.viewer import discovery
from stores.mindmap_files import FolderUnusable
from tests.mindmap.sample_maps import NOON, create_map, find_id
from tests.serve.mcp.clients import extract_text, run_client
from tests.serve.mcp.mindmap.mindmap_clients import call_tool, call_tools, expect_tool_error
from tests.serve.viewer.helpers import start_viewer, wait_until, write_page_files


@pytest.fixture
def document(store: MapStore) -> Mindmap:
    document = create_map({"label": "Store"}, {"label": "Cache"})
    store.create(document)
    return document


@pytest.fixture
def other_server(store: MapStore) -> Iterator[MindmapServer]:
    """Server of another session for the same maps."""
    server = create_mindmap_server(store.path)
    yield server
    server.close()


@pytest.fixture
def open_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that the user looks at."""
    monkeypatch.setattr(discovery, "is_page_open", lambda _: True)


class Clock:
    """Clock that a wait for an answer advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Clock in place of the system's, so that no time passes while a call waits."""
    clock = Clock()
    monkeypatch.setattr("serve.mcp.user_messages.time", clock)
    monkeypatch.setattr("serve.mcp.user_messages.sleep", clock.sleep)
    return clock


def ask(server: MindmapServer, document: Mindmap) -> Any:
    """Return the result of a question on the node `Store`."""
    node = find_id(document, "Store")
    return call_tool(server, "ask", mindmapId=document.id, nodeId=node, question="Which?", options=["A", "B"])


def answer(store: MapStore, document: Mindmap, question_id: str, text: str = "B") -> None:
    """Answer as the page does."""
    store.change(document.id, lambda map_: answer_question(map_, question_id, text, NOON))


def comment(store: MapStore, document: Mindmap, text: str, label: str = "Cache") -> None:
    """Comment as the page does."""
    node = find_id(document, label)
    store.change(document.id, lambda map_: add_comment(map_, node, text, NOON))


def read_messages(server: MindmapServer, document: Mindmap) -> list[str]:
    """Return the messages that the answer of a tool carries."""
    messages: list[str] = call_tool(server, "get_mindmap", mindmapId=document.id).get("fromUser", [])
    return messages


def test_question_without_a_page(
    mindmap_server: MindmapServer, store: MapStore, document: Mindmap, clock: Clock
) -> None:
    """Without an open page the agent learns soon that nobody sees the question, which is stored anyway."""
    result = ask(mindmap_server, document)
    assert result["hint"].startswith("No page is open") and "mindmap viewer --open" in result["hint"]
    (question,) = store.read(document.id).nodes[find_id(document, "Store")].questions
    assert (question.id, question.options) == (result["questionId"], ("A", "B"))
    wait = {"mindmapId": document.id, "questionId": result["questionId"], "seconds": 300}
    assert call_tool(mindmap_server, "wait_for_answer", **wait)["hint"].startswith("No page is open")
    assert clock.now == FIRST_PAGE_SECONDS


@pytest.mark.usefixtures("open_page")
def test_wait_ends_with_the_answer(mindmap_server: MindmapServer, store: MapStore, document: Mindmap) -> None:
    """A call that waits returns the answer when the user gives it, and no later call carries it again."""
    result = ask(mindmap_server, document)
    assert result["hint"] == ""

    async def wait_meanwhile(client: Client) -> Any:
        timer = threading.Timer(0.3, answer, (store, document, result["questionId"]))
        timer.start()
        arguments = {"mindmapId": document.id, "questionId": result["questionId"], "seconds": 300}
        answered = await client.call_tool("wait_for_answer", arguments)
        timer.join()
        return answered.structured_content

    waited = run_client(mindmap_server.server, wait_meanwhile)
    assert (waited["answer"], waited["hint"], waited.get("fromUser")) == ("B", "", None)
    assert read_messages(mindmap_server, document) == []


@pytest.mark.usefixtures("open_page")
def test_wait_ends_without_an_answer(
    mindmap_server: MindmapServer, store: MapStore, document: Mindmap
) -> None:
    """A wait ends after its time, with a comment, and when the program ends; a question can be withdrawn."""
    question = {"mindmapId": document.id, "questionId": ask(mindmap_server, document)["questionId"]}
    waited = call_tool(mindmap_server, "wait_for_answer", **question, seconds=0)
    assert (waited["answer"], waited["hint"]) == ("", "The user has not answered. Wait again, or go on.")
    comment(store, document, "Later")
    waited = call_tool(mindmap_server, "wait_for_answer", **question, seconds=300)
    assert waited["answer"] == "" and waited["fromUser"][0].endswith("Later")
    stopping_server = create_mindmap_server(store.path, is_stopping=lambda: True)
    assert call_tool(stopping_server, "wait_for_answer", **question, seconds=300)["answer"] == ""
    call_tool(mindmap_server, "wait_for_answer", **question, withdraw=True)
    assert store.read(document.id).nodes[find_id(document, "Store")].questions == ()
    assert "There is no question" in expect_tool_error(mindmap_server, "wait_for_answer", **question)


def test_withdrawn_question_with_an_answer(
    mindmap_server: MindmapServer, store: MapStore, document: Mindmap
) -> None:
    """A question that the user answered meanwhile is not withdrawn; the agent gets the answer."""
    question = {"mindmapId": document.id, "questionId": ask(mindmap_server, document)["questionId"]}
    answer(store, document, question["questionId"])
    withdrawn = call_tool(mindmap_server, "wait_for_answer", **question, withdraw=True)
    assert (withdrawn["answer"], withdrawn["hint"]) == ("B", "")
    assert len(store.read(document.id).nodes[find_id(document, "Store")].questions) == 1


def test_answer_after_the_last_read(
    mindmap_server: MindmapServer, store: MapStore, document: Mindmap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer given between the last read and the marking as delivered is in the result."""
    question_id = ask(mindmap_server, document)["questionId"]

    def answer_now(_: Path) -> bool:
        answer(store, document, question_id)
        return False

    monkeypatch.setattr(discovery, "is_page_open", answer_now)
    wait = {"mindmapId": document.id, "questionId": question_id}
    waited = call_tool(mindmap_server, "wait_for_answer", **wait, seconds=0)
    assert (waited["answer"], waited["hint"], waited.get("fromUser")) == ("B", "", None)


def test_wait_ends_when_the_page_is_closed(
    mindmap_server: MindmapServer,
    store: MapStore,
    document: Mindmap,
    tmp_path: Path,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The user opens the page a little later, loads it again, and closes it while a call waits."""
    is_page_open, times = discovery.is_page_open, list[float]()
    states = [False, True, False, True, False, False]

    def use_page_and_check(directory: Path) -> bool:
        is_open = states[len(times)]
        times.append(clock.now)
        page.close()
        if is_open:
            page.enter_context(viewer.listen())
        wait_until(lambda: is_page_open(directory) == is_open)
        return is_open

    with (
        start_viewer(store.path, write_page_files(tmp_path / "page")) as viewer,
        discovery.publish_address(store.path, viewer.port),
        ExitStack() as page,
    ):
        wait = {"mindmapId": document.id, "questionId": ask(mindmap_server, document)["questionId"]}
        monkeypatch.setattr(discovery, "is_page_open", use_page_and_check)
        waited = call_tool(mindmap_server, "wait_for_answer", **wait, seconds=60)
    assert f"open http://127.0.0.1:{viewer.port}/" in waited["hint"]
    assert [second - first for first, second in pairwise(times)] == [
        FIRST_PAGE_SECONDS,
        *[PAGE_CHECK_SECONDS] * 4,
    ]


@pytest.mark.usefixtures("open_page")
def test_cancelled_wait_ends(
    mindmap_server: MindmapServer, document: Mindmap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wait that the client gives up does not go on in the server."""
    polls: list[float] = []

    async def sleep(seconds: float) -> None:
        polls.append(seconds)
        await anyio.sleep(0.01)

    monkeypatch.setattr("serve.mcp.user_messages.sleep", sleep)
    question_id = ask(mindmap_server, document)["questionId"]

    async def give_up(client: Client) -> Any:
        arguments = {"mindmapId": document.id, "questionId": question_id, "seconds": 300}
        with anyio.move_on_after(0.5):
            await client.call_tool("wait_for_answer", arguments)
        await client.list_tools()
        count = len(polls)
        await anyio.sleep(0.2)
        return count, len(polls)

    before, after = run_client(mindmap_server.server, give_up)
    assert 0 < before == after


def test_answer_is_carried_to_the_session_that_asked(
    mindmap_server: MindmapServer, other_server: MindmapServer, store: MapStore, document: Mindmap
) -> None:
    """The next answer of a tool in the session that asked carries the answer once; other sessions do not get it."""
    question_id = ask(mindmap_server, document)["questionId"]
    answer(store, document, question_id)
    assert read_messages(other_server, document) == []
    node = find_id(document, "Store")
    assert read_messages(mindmap_server, document) == [f"Answer to 'Which?' on 'Store' {{{node}}}: B"]
    assert read_messages(mindmap_server, document) == []
    wait = {"mindmapId": document.id, "questionId": question_id}
    assert call_tool(other_server, "wait_for_answer", **wait)["answer"] == "B"


def test_answer_is_carried_after_the_daemon_has_ended(
    store: MapStore, document: Mindmap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that the relay starts in place of the daemon has the id of the client, whose answers it carries."""
    first_server = create_mindmap_server(store.path, "client-1")
    answer(store, document, ask(first_server, document)["questionId"])
    commands: list[list[str]] = []
    monkeypatch.setattr("subprocess.Popen", lambda command, **_: commands.append(command))
    relay.start_server(relay.MINDMAP, ".", "client-1", [document.id]).close()
    ((*_, module, client_id, map_id),) = commands
    assert (module, map_id) == ("serve.mcp.mindmap_server", document.id)
    servers: list[Any] = []
    monkeypatch.setenv("MINDMAP_DATA_DIR", str(store.path))
    monkeypatch.setattr("serve.mcp.stdio.serve_stdio", lambda server, *_, **__: servers.append(server))
    monkeypatch.setattr(sys, "argv", [module, client_id, map_id])
    runpy.run_path(server_module.__file__, run_name="__main__")
    monkeypatch.setattr(sys, "argv", [module])  # a server that a user starts has no client
    runpy.run_path(server_module.__file__, run_name="__main__")
    (result,) = call_tools(servers[0], ("get_mindmap", {"mindmapId": document.id}))
    assert result["fromUser"][0].endswith("B")
    assert len(servers) == 2


def test_comment_is_carried_once(
    mindmap_server: MindmapServer, other_server: MindmapServer, store: MapStore, document: Mindmap
) -> None:
    """The next answer of a tool about the map carries a comment, in one of the sessions."""
    comment(store, document, "Keep it small")
    assert call_tool(other_server, "list_mindmaps").get("fromUser") is None
    result = call_tool(mindmap_server, "add_nodes", mindmapId=document.id, nodes=[{"label": "Step"}])
    assert [text.rpartition(": ")[2] for text in result["fromUser"]] == ["Keep it small"]
    assert read_messages(other_server, document) == read_messages(mindmap_server, document) == []


def test_failed_call_carries_nothing(
    mindmap_server: MindmapServer, store: MapStore, document: Mindmap
) -> None:
    """A call with an error does not use up a comment."""
    comment(store, document, "Keep it")
    expect_tool_error(mindmap_server, "remove_nodes", mindmapId=document.id, nodeIds=["n_none"])
    assert len(read_messages(mindmap_server, document)) == 1


def test_cancelled_call_carries_nothing(
    mindmap_server: MindmapServer, store: MapStore, document: Mindmap
) -> None:
    """A call that the client cancels while it runs does not use up a comment."""
    comment(store, document, "Keep it")
    cancelled = threading.Event()

    def cancel_and_return(mindmapId: str) -> MapListing:  # noqa: ARG001, N803
        cancelled.set()
        return MapListing(maps=[], total=0, problems=[])

    call = UserMessages(store, "", lambda: False).add_pending_messages(cancel_and_return)
    with use_cancellation_flag(cancelled), pytest.raises(RequestCancelled):
        call(mindmapId=document.id)
    assert len(read_messages(mindmap_server, document)) == 1


def test_change_is_reported_when_marking_fails(
    mindmap_server: MindmapServer, store: MapStore, document: Mindmap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a change that was made, a failed delivery is no error of the call; the comment stays pending."""
    comment(store, document, "Keep it")
    change = MapStore.change

    def fail_to_mark(store: MapStore, mindmap_id: str, edit: Callable[..., Any]) -> Any:
        if edit.__name__ == "mark":
            raise FolderUnusable("The disk is full.")
        return change(store, mindmap_id, edit)

    with monkeypatch.context() as patch:
        patch.setattr(MapStore, "change", fail_to_mark)
        result = call_tool(mindmap_server, "add_nodes", mindmapId=document.id, nodes=[{"label": "Step"}])
    assert result["ids"] and "fromUser" not in result
    assert len(read_messages(mindmap_server, document)) == 1


@pytest.mark.parametrize("is_map_deleted", [True, False])
def test_comment_on_a_removed_node_is_carried(
    mindmap_server: MindmapServer, store: MapStore, document: Mindmap, is_map_deleted: bool
) -> None:
    """The answer of the call that removes a node, or the map, carries the comments on it."""
    comment(store, document, "Do not remove this")
    comment(store, document, "Nor this", "Store")
    result = (
        call_tool(mindmap_server, "delete_mindmap", mindmapId=document.id, confirm=True)
        if is_map_deleted
        else call_tool(
            mindmap_server, "remove_nodes", mindmapId=document.id, nodeIds=[find_id(document, "Cache")]
        )
    )
    assert {text.rpartition(": ")[2] for text in result["fromUser"]} == {"Do not remove this", "Nor this"}


def test_comments_of_two_sessions_at_once(
    mindmap_server: MindmapServer, other_server: MindmapServer, store: MapStore, document: Mindmap
) -> None:
    """While two sessions write, every comment reaches exactly one of them, and no edit is lost."""
    received: list[str] = []

    def add_steps(server: MindmapServer, name: str) -> None:
        calls = [
            ("add_nodes", {"mindmapId": document.id, "nodes": [{"label": f"{name} {number}"}]})
            for number in range(8)
        ]
        for result in call_tools(server.server, *calls):
            received.extend(result.get("fromUser", []))

    threads = [
        threading.Thread(target=add_steps, args=(server, name))
        for server, name in ((mindmap_server, "a"), (other_server, "b"))
    ]
    for thread in threads:
        thread.start()
    for number in range(8):
        comment(store, document, f"Comment {number}")
    for thread in threads:
        thread.join()
    received += read_messages(mindmap_server, document)
    assert sorted(text[-1] for text in received) == list("01234567")
    assert len(store.read(document.id).nodes) == 3 + 16


def test_open_page_is_found(store: MapStore, tmp_path: Path) -> None:
    """A page counts as open while a browser listens to the events of the running viewer."""
    store.path.mkdir()
    assert not discovery.is_page_open(store.path)
    with (
        start_viewer(store.path, write_page_files(tmp_path / "page")) as viewer,
        discovery.publish_address(store.path, viewer.port),
    ):
        assert not discovery.is_page_open(store.path)
        with viewer.listen() as listener:
            listener.receive_event()
            assert discovery.is_page_open(store.path)


def test_messages_in_the_text_of_an_answer(
    mindmap_server: MindmapServer, store: MapStore, document: Mindmap
) -> None:
    """The text that a model reads has the messages too."""
    comment(store, document, "Keep it small")

    async def call(client: Client) -> Any:
        return await client.call_tool("note_activity", {"mindmapId": document.id, "message": "Noted"})

    assert '"fromUser":["Comment on' in extract_text(run_client(mindmap_server.server, call))
