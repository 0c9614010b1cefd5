"""The parts by themselves: the debounce with a clock of the test's, news, statuses, ports."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from mindmap.document import DamagedMindmap
from mindmap.git import GitFailed
from pipeline.git.errors import NotARepository
from serve.errors import BadRequest
from serve.viewer import responses, server
from serve.viewer import state as reporting
from serve.viewer.responses import Refusal
from serve.viewer.state import News
from serve.viewer.watcher import Debounce
from stores.errors import LineageError
from stores.mindmap_files import MindmapBusy, NoSuchMindmap


@dataclass
class Call:
    when: float
    callback: Callable[..., object]
    arguments: tuple[object, ...]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


@dataclass
class HandClock:
    """A clock that is moved by hand."""

    now: float = 0.0
    calls: list[Call] = field(default_factory=list)

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[..., object], *arguments: object) -> Call:
        self.calls.append(Call(when, callback, arguments))
        return self.calls[-1]

    def go_to(self, moment: float) -> None:
        self.now = moment
        due = [call for call in self.calls if call.when <= moment + 1e-9]
        self.calls = [call for call in self.calls if call not in due]
        for call in due:
            if not call.is_cancelled:
                call.callback(*call.arguments)


def told(touches: dict[float, str]) -> list[tuple[float, str]]:
    """What is passed on when, in milliseconds, of touches at these milliseconds."""
    clock = HandClock()
    found: list[tuple[float, str]] = []
    debounce = Debounce(clock, lambda name: found.append((round(clock.now * 1000), name)))
    for moment in range(3_000):
        clock.go_to(moment / 1000)
        for name in touches.get(moment, ""):
            debounce.touch(name)
    return found


def test_debounce() -> None:
    """100 ms of quiet, at most 500 ms without; each name by itself; nothing is lost at the end."""
    assert told({0: "a"}) == [(100, "a")]
    assert told({0: "a", 99: "a"}) == [(199, "a")]
    assert told({0: "a", 101: "a"}) == [(100, "a"), (201, "a")]
    steady = told(dict.fromkeys(range(0, 1_000, 50), "a"))
    assert steady == [(500, "a"), (1_000, "a")]
    assert told({**dict.fromkeys(range(0, 400, 50), "a"), 200: "ab"}) == [(300, "b"), (450, "a")]


def test_news() -> None:
    """Each map is kept with its last change; who missed more than is kept is told that."""

    async def run() -> None:
        news = News()
        for name in "abcab":
            news.tell(name)
        assert [(one.number, one.mindmap_id) for one in news.since(0) or ()] == [(3, "c"), (4, "a"), (5, "b")]
        assert [one.mindmap_id for one in news.since(4) or ()] == ["b"]
        assert news.since(5) == []
        assert news.heard(news.event_id(3)) == 3
        assert [news.heard(said) for said in ("", "nobody-3", news.event_id(-1), news.event_id(6))] == [5] * 4
        for number in range(reporting.MOST_KEPT):
            news.tell(str(number))
        assert news.since(4) is None
        assert len(news.since(5) or ()) == reporting.MOST_KEPT

    asyncio.run(run())


def test_statuses() -> None:
    """An error's status says whose turn it is; one that is not listed is git's or the workspace's."""
    said = {
        error: Refusal.of(error, 500)
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
    assert [(one.status, one.code) for one in said.values()] == [
        (400, "bad_request"),
        (404, "no_such_mindmap"),
        (409, "mindmap_busy"),
        (500, "damaged_mindmap"),
        (422, "git_failed"),
        (422, "not_a_repository"),
        (500, "internal_error"),
    ]
    assert all(b"secret" not in one.content for one in said.values())
    names = [responses.code_of(kind("x")) for kind in responses.STATUSES]
    assert len(names) == len(set(names)) and all(
        issubclass(kind, LineageError) for kind in responses.STATUSES
    )


def test_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no port of those that are tried is free, that is said."""
    monkeypatch.setattr(server, "TRIES", 1)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(server.NoPort, match="all taken"):
        server.bound(taken.getsockname()[1])
