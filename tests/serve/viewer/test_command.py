"""The program `mindmap viewer`: port, address file, shutdown."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from pathlib import Path

import pytest

from mindmap.document import ROOT
from mindmap.file_touches import TouchInput, attach_files
from mindmap.map_store import MapStore
from serve.viewer import discovery, server
from stores.mindmap_files import MindmapDirectory
from tests.mindmap.sample_maps import NOON, create_map
from tests.processes import wait_for_end
from tests.repos import Repo
from tests.serve.daemon.daemons import create_client
from tests.serve.viewer.helpers import ViewerClient, start_viewer_process, wait_until


def parse_port(line: str) -> int:
    return int(re.findall(r"http://127\.0\.0\.1:(\d+)/ shows the maps in ", line)[0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_start_and_stop(tmp_path: Path, number: signal.Signals) -> None:
    """The viewer prints and publishes its address, answers, and on SIGINT or SIGTERM exits cleanly, leaving no file."""
    with start_viewer_process(tmp_path / "maps", "--port", "0") as (process, line):
        port = parse_port(line)
        assert (
            line == f"http://127.0.0.1:{port}/ shows the maps in {tmp_path / 'maps'}. Press Ctrl-C to stop.\n"
        )
        wait_until(lambda: discovery.read_address(tmp_path / "maps") == f"http://127.0.0.1:{port}/")
        assert ViewerClient(port).request("/api/mindmaps").json == []
        with ViewerClient(port).listen() as listener:
            assert listener.receive_event()["type"] == "connected"
            process.send_signal(number)
            out, err = process.communicate(timeout=20)
            assert (process.returncode, out, err) == (0, "", "")
            listener.thread.join(5)
            assert not listener.thread.is_alive()
    assert list((tmp_path / "maps").iterdir()) == []


def test_port_in_use(tmp_path: Path) -> None:
    """If the port is in use, the viewer takes the next free one and says so."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with start_viewer_process(tmp_path, "--port", str(port)) as (process, line):
            assert process.stdout
            next_port = parse_port(process.stdout.readline())
            assert line == f"Port {port} is in use. The viewer uses the next free port, {next_port}.\n"
            assert port < next_port < port + 50


def test_two_viewers(tmp_path: Path) -> None:
    """Two viewers of one directory both answer. The first is published, the second once the first has ended."""
    maps = MapStore(tmp_path)
    document = create_map()
    maps.create(document)
    with (
        start_viewer_process(tmp_path, "--port", "0") as (first, line),
        start_viewer_process(tmp_path, "--port", "0") as (second, second_line),
    ):
        for port in (parse_port(line), parse_port(second_line)):
            assert ViewerClient(port).request(f"/api/mindmaps/{document.id}").json["title"] == "A map"
        assert discovery.read_address(tmp_path) == f"http://127.0.0.1:{parse_port(line)}/"
        assert second.stdout and second.stdout.readline() == (
            f"Another viewer already shows them: http://127.0.0.1:{parse_port(line)}/\n"
        )
        first.kill()
        wait_until(lambda: discovery.read_address(tmp_path) == f"http://127.0.0.1:{parse_port(second_line)}/")


def test_data_directory_is_recreated(tmp_path: Path) -> None:
    """If the data directory is deleted and created again, the viewer shows it and publishes its address there."""
    folder = tmp_path / "maps"
    with start_viewer_process(folder, "--port", "0") as (_, line):
        client = ViewerClient(parse_port(line))
        (folder / discovery.ADDRESS_FILE).unlink()
        folder.rmdir()
        with client.listen() as listener:
            listener.receive_event()
            document = create_map()
            MapStore(folder).create(document)
            assert listener.receive_event() | {"timestamp": ""} == {
                "type": "mindmap_updated",
                "id": document.id,
                "timestamp": "",
            }
        assert [entry["id"] for entry in client.request("/api/mindmaps").json] == [document.id]
        wait_until(lambda: discovery.read_address(folder) == f"http://127.0.0.1:{client.port}/")
        assert MindmapDirectory(folder).list_ids() == [document.id]


def test_address_file_of_killed_viewer(tmp_path: Path) -> None:
    """The address file of a killed viewer is ignored, and the next viewer replaces it."""
    with start_viewer_process(tmp_path, "--port", "0") as (process, _):
        process.kill()
        process.wait()
    assert json.loads((tmp_path / discovery.ADDRESS_FILE).read_text())["pid"] == process.pid
    assert discovery.read_address(tmp_path) is None
    with start_viewer_process(tmp_path, "--port", "0") as (_, line):
        wait_until(lambda: discovery.read_address(tmp_path) == f"http://127.0.0.1:{parse_port(line)}/")


def test_open_browser(tmp_path: Path) -> None:
    """`--open` opens the page in the user's browser."""
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\necho "$1" > {tmp_path}/opened.part; mv {tmp_path}/opened.part {tmp_path}/opened\n'
    )
    browser.chmod(0o755)
    with start_viewer_process(tmp_path / "maps", "--port", "0", "--open", BROWSER=f"{browser} %s") as (
        _,
        line,
    ):
        wait_until((tmp_path / "opened").exists)
        assert (tmp_path / "opened").read_text() == f"http://127.0.0.1:{parse_port(line)}/\n"


def test_unusable_data_directory(tmp_path: Path) -> None:
    """The viewer reports a data directory that cannot be created instead of showing an empty list."""
    (tmp_path / "file").write_text("")
    with start_viewer_process(tmp_path / "file") as (process, line):
        assert line == ""
        _, err = process.communicate(timeout=20)
        assert process.returncode == 1
        assert err.startswith(
            f"error: Cannot use {tmp_path / 'file'} as data directory: File exists.\n  Set MINDMAP_DATA_DIR"
        )


@pytest.mark.parametrize("port", ["-1", "65536", "x"])
def test_invalid_port(tmp_path: Path, port: str) -> None:
    """An invalid port is a usage error."""
    with start_viewer_process(tmp_path, f"--port={port}") as (process, _):
        _, err = process.communicate(timeout=20)
        assert process.returncode == 2 and "--port" in err


def test_stop_during_slow_task(tmp_path: Path) -> None:
    """A git command that hangs delays the viewer's shutdown by a few seconds only, and ends with it."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "x\n")
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/started\nexec sleep 300\n")
    git.chmod(0o755)
    maps = MapStore(tmp_path / "maps")
    document = create_map(workspace=str(repo.path))
    maps.create(document)
    path = f"{git.parent}{os.pathsep}{os.environ['PATH']}"
    with start_viewer_process(maps.path, "--port", "0", PATH=path) as (process, line):
        head = f"POST /api/sync-git HTTP/1.1\r\nHost: localhost:{parse_port(line)}\r\n"
        body = json.dumps({"mindmapId": document.id})
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        with socket.create_connection(("127.0.0.1", parse_port(line))) as connection:
            connection.sendall(head.encode())
            assert ViewerClient(parse_port(line)).request("/api/mindmaps").status == 200
            wait_until((tmp_path / "started").exists)
            process.terminate()
            _, err = process.communicate(timeout=server.SHUTDOWN_SECONDS + 10)
        assert process.returncode == 0
        assert err == "level=warning event=ended Some tasks were still running and were abandoned.\n"
    assert wait_for_end(int((tmp_path / "started").read_text()))
    assert not (maps.path / discovery.ADDRESS_FILE).exists()


def test_lineage_from_daemon(tmp_path: Path) -> None:
    """The viewer gets lineages from the daemon, as the command does."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "x\n", "Begin")
    document = create_map(workspace=str(repo.path))
    document = attach_files(document, ROOT, [TouchInput("a.py")], "Touched", NOON)
    MapStore(tmp_path / "maps").create(document)
    home = tmp_path / "home"
    settings = {"LINEAGE_NO_DAEMON": "", "LINEAGE_HOME": str(home)}
    try:
        with start_viewer_process(tmp_path / "maps", "--port", "0", **settings) as (_, line):
            answer = ViewerClient(parse_port(line)).request(f"/api/why?mindmap={document.id}&path=a.py")
            assert [hit["commit_message"].strip() for hit in answer.json["hits"]] == ["Begin"]
            report = create_client(home).fetch_status()
            assert report is not None and report.answered == 1
    finally:
        create_client(home).stop()
