"""MCP sessions that fail, or whose client ends, at their start."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from tornado.iostream import IOStream

from pipeline.options import Precision
from serve import config
from serve.daemon import mcp_sessions
from serve.daemon.process import DaemonPaths
from serve.daemon.protocol import McpCall
from serve.daemon.server import DaemonState, Service
from serve.mcp import relay
from tests.serve.daemon.daemons import create_client, run_daemon

# The daemon cannot resume the watchers of a session, and records in a file that the session has ended.
FAIL_TO_RESUME = """
import os
from pathlib import Path
from serve.mcp.mindmap_server import MindmapServer
def fail(*_): raise RuntimeError("cannot resume")
close = MindmapServer.close
def record_close(self):
    close(self)
    Path(os.environ["LINEAGE_HOME"], "closed").touch()
MindmapServer.resume_watching, MindmapServer.close = fail, record_close
"""


def test_session_that_fails_is_closed(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a session fails, its watchers stop, its connection is closed, and the daemon runs on."""
    monkeypatch.setenv("MINDMAP_DATA_DIR", str(tmp_path / "maps"))
    with (
        run_daemon(home, setup_code=FAIL_TO_RESUME),
        relay.open_session(
            config.load_settings(), str(tmp_path), "mindmap", "client", ["mm_a"]
        ) as connection,
    ):
        connection.settimeout(60)
        assert connection.recv(1) == b""
        assert (home / "closed").exists()
        report = create_client(home).fetch_status()
        assert report is not None and report.sessions == 0


def test_client_that_ends_before_its_session_starts(home: Path, tmp_path: Path) -> None:
    """A session whose client has ended meanwhile ends without an error."""
    call = McpCall(str(tmp_path), Precision.FULL, "lineage", str(tmp_path), "client", ())

    async def serve_ended_client() -> bool:
        client, server_end = socket.socketpair()
        stream = IOStream(server_end)
        client.close()
        await mcp_sessions.serve_session(stream, call, Service(DaemonPaths(home), DaemonState()))
        return stream.closed()

    assert asyncio.run(serve_ended_client())
