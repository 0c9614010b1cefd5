"""Mindmap sessions in the daemon: separate settings and watchers, lost calls, disconnected clients."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tornado.iostream import IOStream
from tornado.testing import AsyncTestCase

from mindmap.map_store import MapStore
from mindmap.questions import answer_question
from serve.daemon import mcp_sessions
from stores import locks
from tests.mindmap.sample_maps import NOON
from tests.repos import Repo
from tests.serve.daemon.daemons import build_environment, create_client, read_daemon_pid, wait_until
from tests.serve.mcp.clients import INITIALIZE_REQUEST


class Program:
    """`mindmap mcp` as a process, with its requests."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.last_id = 1
        self.send(INITIALIZE_REQUEST)
        assert self.read()["result"]["serverInfo"]["name"] == "mindmap"
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def start_call(self, name: str, **arguments: Any) -> None:
        self.last_id += 1
        parameters = {"name": name, "arguments": arguments}
        self.send({"jsonrpc": "2.0", "id": self.last_id, "method": "tools/call", "params": parameters})

    def call(self, name: str, **arguments: Any) -> Any:
        self.start_call(name, **arguments)
        answer = self.read()
        assert answer["id"] == self.last_id and not answer["result"].get("isError"), answer
        return answer["result"]["structuredContent"]


@contextmanager
def run_program(home: Path, directory: Path) -> Iterator[Program]:
    """Run `mindmap mcp` in a directory, with the data directory `maps` in it."""
    directory.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, history_lineage; sys.argv[1:] = ['mcp']; history_lineage.mindmap()",
        ],
        cwd=directory,
        env=build_environment(home, MINDMAP_DATA_DIR="maps"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        yield Program(process)
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def stopped_home(home: Path) -> Iterator[Path]:
    """LINEAGE_HOME whose daemon is stopped after the test."""
    yield home
    create_client(home).stop()


def list_touched_paths(store: MapStore, mindmap_id: str) -> set[str]:
    return {touch.path for node in store.read(mindmap_id).nodes.values() for touch in node.files}


def count_running_calls(home: Path) -> int:
    report = create_client(home).fetch_status()
    return report.running if report else 0


def count_sessions(home: Path) -> int:
    report = create_client(home).fetch_status()
    return report.sessions if report else 0


def test_sessions_have_their_own_settings_and_watchers(
    stopped_home: Path, repo: Repo, tmp_path: Path
) -> None:
    """Two sessions of one daemon write to the data directories of their clients, and watch for their maps only."""
    stores = [MapStore(tmp_path / name / "maps") for name in ("one", "two")]
    with (
        run_program(stopped_home, tmp_path / "one") as one,
        run_program(stopped_home, tmp_path / "two") as two,
    ):
        maps = [
            program.call("create_mindmap", title=title, workspacePath=str(repo.path))["mindmapId"]
            for program, title in ((one, "First"), (two, "Second"))
        ]
        assert [[summary.id for summary in store.list_maps().summaries] for store in stores] == [
            [maps[0]],
            [maps[1]],
        ]
        assert count_sessions(stopped_home) == 2
        assert one.process.stdin is not None
        repo.write("last.py", "1\n")
        one.process.stdin.close()
        # The watcher of the first session records the last change although its client has ended.
        wait_until(lambda: list_touched_paths(stores[0], maps[0]) == {"last.py"})
        assert one.process.wait(timeout=20) == 0
        wait_until(lambda: count_sessions(stopped_home) == 1)
        repo.write("later.py", "1\n")
        wait_until(lambda: list_touched_paths(stores[1], maps[1]) == {"last.py", "later.py"})
    assert list_touched_paths(stores[0], maps[0]) == {"last.py"}


def test_killed_daemon(stopped_home: Path, repo: Repo, tmp_path: Path) -> None:
    """A call that is lost with the daemon is an error and not made again. Later calls, watching and answers work."""
    store = MapStore(tmp_path / "one" / "maps")
    with run_program(stopped_home, tmp_path / "one") as program:
        mindmap_id = program.call("create_mindmap", title="Work", workspacePath=str(repo.path))["mindmapId"]
        question_id = program.call("ask", mindmapId=mindmap_id, nodeId="root", question="Why?")["questionId"]
        pid = read_daemon_pid(stopped_home)
        with store.directory.lock(mindmap_id):
            program.start_call("add_nodes", mindmapId=mindmap_id, nodes=[{"label": "Once"}])
            wait_until(
                lambda: (
                    (report := create_client(stopped_home).fetch_status()) is not None and report.running == 1
                )
            )
            os.kill(pid, signal.SIGKILL)
            error = program.read()["error"]
        assert "may or may not have been made" in error["message"]
        store.change(mindmap_id, lambda document: answer_question(document, question_id, "Because", NOON))
        view = program.call("get_mindmap", mindmapId=mindmap_id)
        # The next session is of the same client, so it gets the answer.
        assert view["nodeCount"] == 1 and view["fromUser"][0].endswith("Because")
        assert read_daemon_pid(stopped_home) != pid
        program.call("add_nodes", mindmapId=mindmap_id, nodes=[{"label": "Once"}])
        assert [node.label for node in store.read(mindmap_id).nodes.values()] == ["Work", "Once"]
        repo.write("new.py", "1\n")
        wait_until(lambda: list_touched_paths(store, mindmap_id) == {"new.py"})


def test_call_to_a_suspended_daemon(stopped_home: Path, tmp_path: Path) -> None:
    """A call that the relay has answered with an error is not begun when the suspended daemon goes on."""
    store = MapStore(tmp_path / "one" / "maps")
    with run_program(stopped_home, tmp_path / "one") as program:
        mindmap_id = program.call("create_mindmap", title="Work")["mindmapId"]
        pid = read_daemon_pid(stopped_home)
        os.kill(pid, signal.SIGSTOP)
        try:
            wait_until(lambda: locks.is_process_suspended(pid))
            program.start_call("add_nodes", mindmapId=mindmap_id, nodes=[{"label": "Late"}])
            assert "may or may not have been made" in program.read()["error"]["message"]
        finally:
            os.kill(pid, signal.SIGCONT)
        wait_until(lambda: count_sessions(stopped_home) == 0)
    assert len(store.read(mindmap_id).nodes) == 1


class TestDisconnectedClient(AsyncTestCase):
    """Clients that have closed their connection while their lines wait to be read."""

    def test_unread_lines(self) -> None:
        """A client is disconnected as soon as it has closed its end, also with unread lines."""
        client, server_end = socket.socketpair()
        stream = IOStream(server_end)
        client.sendall(b"line\n")
        assert not mcp_sessions._is_disconnected(stream)  # noqa: SLF001
        client.shutdown(socket.SHUT_RDWR)
        assert mcp_sessions._is_disconnected(stream)  # noqa: SLF001
        client.close()
        stream.close()
        assert mcp_sessions._is_disconnected(stream)  # noqa: SLF001
