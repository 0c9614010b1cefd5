"""Unit tests of the debouncer, the change log, the error statuses and the port selection."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tornado.web import HTTPError

from mindmap.document import DamagedMindmap
from mindmap.git import GitFailed
from pipeline.git.errors import NotARepository
from serve.errors import BadRequest
from serve.viewer import responses, server, state
from serve.viewer.responses import ErrorResponse
from serve.viewer.state import ChangeLog
from serve.viewer.watcher import Debouncer
from stores.errors import LineageError
from stores.mindmap_files import MindmapBusy, NoSuchMindmap


@dataclass
class ScheduledCall:
    when: float
    callback: Callable[..., object]
    arguments: tuple[object, ...]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


@dataclass
class ManualClock:
    """Clock that the test advances."""

    now: float = 0.0
    calls: list[ScheduledCall] = field(default_factory=list)

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[..., object], *arguments: object) -> ScheduledCall:
        self.calls.append(ScheduledCall(when, callback, arguments))
        return self.calls[-1]

    def advance_to(self, time: float) -> None:
        self.now = time
        due = [call for call in self.calls if call.when <= time + 1e-9]
        self.calls = [call for call in self.calls if call not in due]
        for call in due:
            if not call.is_cancelled:
                call.callback(*call.arguments)


def collect_debounced_calls(names_by_millisecond: dict[float, str]) -> list[tuple[float, str]]:
    """Trigger each name, a letter, at its millisecond, and return the debouncer's calls as (millisecond, name)."""
    clock = ManualClock()
    calls: list[tuple[float, str]] = []
    debouncer = Debouncer(clock, lambda name: calls.append((round(clock.now * 1000), name)))
    for millisecond in range(3_000):
        clock.advance_to(millisecond / 1000)
        for name in names_by_millisecond.get(millisecond, ""):
            debouncer.trigger(name)
    return calls


def test_debounce() -> None:
    """A call follows 100 ms of quiet, or 500 ms of constant triggers, separately for each name."""
    assert collect_debounced_calls({0: "a"}) == [(100, "a")]
    assert collect_debounced_calls({0: "a", 99: "a"}) == [(199, "a")]
    assert collect_debounced_calls({0: "a", 101: "a"}) == [(100, "a"), (201, "a")]
    steady_calls = collect_debounced_calls(dict.fromkeys(range(0, 1_000, 50), "a"))
    assert steady_calls == [(500, "a"), (1_000, "a")]
    assert collect_debounced_calls({**dict.fromkeys(range(0, 400, 50), "a"), 200: "ab"}) == [
        (300, "b"),
        (450, "a"),
    ]


def test_debounce_of_two_maps() -> None:
    """Maps that change within 100 ms of each other are each reported 100 ms after their own change."""
    assert collect_debounced_calls({0: "a", 50: "b"}) == [(100, "a"), (150, "b")]


def test_change_log() -> None:
    """Each map is stored with its latest change; a position before the stored changes gives None."""

    async def run() -> None:
        log = ChangeLog()
        for name in "abcab":
            log.record(name)
        assert [(change.number, change.mindmap_id) for change in log.list_changes_after(0) or ()] == [
            (3, "c"),
            (4, "a"),
            (5, "b"),
        ]
        assert [change.mindmap_id for change in log.list_changes_after(4) or ()] == ["b"]
        assert log.list_changes_after(5) == []
        assert log.parse_resume_position(log.format_event_id(3)) == 3
        assert [
            log.parse_resume_position(event_id)
            for event_id in ("", "nobody-3", log.format_event_id(-1), log.format_event_id(6))
        ] == [5] * 4
        for number in range(state.MAX_CHANGES):
            log.record(str(number))
        assert log.list_changes_after(4) is None
        assert len(log.list_changes_after(5) or ()) == state.MAX_CHANGES
        assert log.parse_resume_position(log.format_event_id(4)) == log.last_number
        assert log.parse_resume_position(log.format_event_id(5)) == 5

    asyncio.run(run())


def test_error_with_a_path_that_is_not_utf8() -> None:
    """Bytes of a path that are not UTF-8 are escaped in the message and in the hint."""
    content = ErrorResponse.from_error(BadRequest("caf\udce9", hint="x\udcff"), 500).content
    assert json.loads(content)["error"]["message"] == "caf\\udce9"


def test_statuses() -> None:
    """Errors have the listed HTTP statuses, and 422 if not listed; internal errors reveal nothing."""
    responses_by_error = {
        error: ErrorResponse.from_error(error, 500)
        for error in (
            BadRequest("x"),
            NoSuchMindmap("x"),
            MindmapBusy("x"),
            DamagedMindmap("x"),
            GitFailed("x", hint="y"),
            NotARepository("x"),
            ZeroDivisionError("secret"),
        )
    }
    assert [(response.status, response.code) for response in responses_by_error.values()] == [
        (400, "bad_request"),
        (404, "no_such_mindmap"),
        (409, "mindmap_busy"),
        (500, "damaged_mindmap"),
        (422, "git_failed"),
        (422, "not_a_repository"),
        (500, "internal_error"),
    ]
    assert all(b"secret" not in response.content for response in responses_by_error.values())
    names = [responses.format_error_code(error_type("x")) for error_type in responses.STATUSES]
    assert len(names) == len(set(names)) and all(
        issubclass(error_type, LineageError) for error_type in responses.STATUSES
    )


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (404, "not_found", "Not Found."),
        (405, "method_not_allowed", "Method Not Allowed."),
        (503, "service_unavailable", "Service Unavailable."),
    ],
)
def test_error_of_the_web_server(status: int, code: str, message: str) -> None:
    """An error of Tornado has the code of its status."""
    response = ErrorResponse.from_error(HTTPError(status), status)
    assert (response.status, response.code, response.message) == (status, code, message)


def test_message_keeps_its_dots() -> None:
    """Only the full stop at the end is added, and not twice."""
    messages = [HTTPError(400, "No ../x"), HTTPError(400, "No ../x.")]
    assert [ErrorResponse.from_error(error, 400).message for error in messages] == ["No ../x."] * 2


def test_unreadable_page_file(tmp_path: Path) -> None:
    """An error on reading a file of the page says why."""
    (tmp_path / "app.js").mkdir()
    with pytest.raises(responses.NotBuilt, match=r"Cannot read .*app\.js: Is a directory\."):
        responses.read_page_file(tmp_path, "/app.js")


def test_no_free_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no tried port is free, PortUnavailable is raised."""
    monkeypatch.setattr(server, "PORT_ATTEMPTS", 1)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(server.PortUnavailable, match="all in use"),
    ):
        server.bind_port(listener.getsockname()[1])
