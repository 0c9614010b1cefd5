"""`mindmap viewer` as a program: its port, its place, its end."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
from pathlib import Path

import pytest

from mindmap.file_touches import Touch, attach_to
from mindmap.map_store import Maps
from serve.viewer import discovery, server
from stores.mindmap_files import Folder
from tests.mindmap.sample_maps import NOON, a_map
from tests.repos import Repo
from tests.serve.daemon.daemons import remote
from tests.serve.viewer.helpers import Asking, program, until


def port_in(line: str) -> int:
    return int(re.findall(r"http://127\.0\.0\.1:(\d+)/ shows the maps of ", line)[0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_begins_and_ends(tmp_path: Path, number: signal.Signals) -> None:
    """It says where it is, is found there, answers, and on Ctrl-C or SIGTERM ends in order, leaving nothing."""
    with program(tmp_path / "maps", "--port", "0") as (process, line):
        port = port_in(line)
        assert line == f"http://127.0.0.1:{port}/ shows the maps of {tmp_path / 'maps'}. Ctrl-C ends it.\n"
        until(lambda: discovery.address(tmp_path / "maps") == f"http://127.0.0.1:{port}/")
        assert Asking(port).ask("/api/mindmaps").json == []
        with Asking(port).listening() as listener:
            assert listener.next()["type"] == "connected"
            process.send_signal(number)
            out, err = process.communicate(timeout=20)
            assert (process.returncode, out, err) == (0, "", "")
            listener.thread.join(5)
            assert not listener.thread.is_alive()
    assert list((tmp_path / "maps").iterdir()) == []


def test_taken_port(tmp_path: Path) -> None:
    """A port that is taken gives way to the next that is free, and that is said."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        wanted = taken.getsockname()[1]
        with program(tmp_path, "--port", str(wanted)) as (process, line):
            assert line == f"Port {wanted} is taken; this is the next that is free.\n"
            assert process.stdout
            assert wanted < port_in(process.stdout.readline()) < wanted + 50


def test_two_viewers(tmp_path: Path) -> None:
    """Two viewers of one directory both answer; the first is found, and the second once the first has ended."""
    maps = Maps(tmp_path)
    document = a_map()
    maps.create(document)
    with (
        program(tmp_path, "--port", "0") as (first, line),
        program(tmp_path, "--port", "0") as (second, other),
    ):
        for port in (port_in(line), port_in(other)):
            assert Asking(port).ask(f"/api/mindmaps/{document.id}").json["title"] == "A map"
        assert discovery.address(tmp_path) == f"http://127.0.0.1:{port_in(line)}/"
        assert second.stdout and second.stdout.readline() == (
            f"So does another viewer: http://127.0.0.1:{port_in(line)}/\n"
        )
        first.kill()
        until(lambda: discovery.address(tmp_path) == f"http://127.0.0.1:{port_in(other)}/")


def test_folder_is_deleted(tmp_path: Path) -> None:
    """A data directory that is deleted and made again is shown again, and the viewer found in it."""
    folder = tmp_path / "maps"
    with program(folder, "--port", "0") as (_, line):
        asking = Asking(port_in(line))
        (folder / discovery.PLACE).unlink()
        folder.rmdir()
        with asking.listening() as listener:
            listener.next()
            document = a_map()
            Maps(folder).create(document)
            assert listener.next() | {"timestamp": ""} == {
                "type": "mindmap_updated",
                "id": document.id,
                "timestamp": "",
            }
        assert [one["id"] for one in asking.ask("/api/mindmaps").json] == [document.id]
        until(lambda: discovery.address(folder) == f"http://127.0.0.1:{asking.port}/")
        assert Folder(folder).ids() == [document.id]


def test_place_that_a_killed_viewer_left(tmp_path: Path) -> None:
    """What a killed viewer left names nobody, and the next one takes its place."""
    with program(tmp_path, "--port", "0") as (process, _):
        process.kill()
        process.wait()
    assert json.loads((tmp_path / discovery.PLACE).read_text())["pid"] == process.pid
    assert discovery.address(tmp_path) is None
    with program(tmp_path, "--port", "0") as (_, line):
        until(lambda: discovery.address(tmp_path) == f"http://127.0.0.1:{port_in(line)}/")


def test_open(tmp_path: Path) -> None:
    """`--open` has the person's browser open it."""
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\necho "$1" > {tmp_path}/opened.part; mv {tmp_path}/opened.part {tmp_path}/opened\n'
    )
    browser.chmod(0o755)
    with program(tmp_path / "maps", "--port", "0", "--open", BROWSER=f"{browser} %s") as (_, line):
        until((tmp_path / "opened").exists)
        assert (tmp_path / "opened").read_text() == f"http://127.0.0.1:{port_in(line)}/\n"


def test_no_folder(tmp_path: Path) -> None:
    """Where there can be no data directory, that is said instead of an empty list."""
    (tmp_path / "file").write_text("")
    with program(tmp_path / "file") as (process, line):
        assert line == ""
        _, err = process.communicate(timeout=20)
        assert process.returncode == 1
        assert err.startswith(
            f"error: {tmp_path / 'file'} cannot be a data directory: File exists.\n  Name another"
        )


@pytest.mark.parametrize("port", ["-1", "65536", "x"])
def test_no_such_port(tmp_path: Path, port: str) -> None:
    """A port that is none is refused."""
    with program(tmp_path, f"--port={port}") as (process, _):
        _, err = process.communicate(timeout=20)
        assert process.returncode == 2 and "--port" in err


def test_end_with_work_undone(tmp_path: Path) -> None:
    """A git that does not answer keeps the viewer from ending for a few seconds only."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "x\n")
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.write_text("#!/bin/sh\nexec sleep 20\n")
    git.chmod(0o755)
    maps = Maps(tmp_path / "maps")
    document = a_map(workspace=str(repo.path))
    maps.create(document)
    path = f"{git.parent}{os.pathsep}{os.environ['PATH']}"
    with program(maps.path, "--port", "0", PATH=path) as (process, line):
        head = f"POST /api/sync-git HTTP/1.1\r\nHost: localhost:{port_in(line)}\r\n"
        body = json.dumps({"mindmapId": document.id})
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        with socket.create_connection(("127.0.0.1", port_in(line))) as connection:
            connection.sendall(head.encode())
            assert Asking(port_in(line)).ask("/api/mindmaps").status == 200
            time.sleep(0.5)
            process.terminate()
            _, err = process.communicate(timeout=server.FAREWELL_SECONDS + 10)
        assert process.returncode == 0
        assert err == "level=warning event=ended what was running is left\n"
    assert not (maps.path / discovery.PLACE).exists()


def test_lineage_by_the_daemon(tmp_path: Path) -> None:
    """The viewer has the shared daemon answer, as the command does."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "x\n", "Begin")
    document = attach_to(a_map(workspace=str(repo.path)), None, [Touch("a.py")], "Touched", NOON).document
    Maps(tmp_path / "maps").create(document)
    home = tmp_path / "home"
    settings = {"LINEAGE_NO_DAEMON": "", "LINEAGE_HOME": str(home)}
    try:
        with program(tmp_path / "maps", "--port", "0", **settings) as (_, line):
            answer = Asking(port_in(line)).ask(f"/api/why?mindmap={document.id}&path=a.py")
            assert [hit["commit_message"].strip() for hit in answer.json["hits"]] == ["Begin"]
            report = remote(home).report()
            assert report is not None and report.answered == 1
    finally:
        remote(home).stop()
