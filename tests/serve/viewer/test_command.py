"""`mindmap viewer` as a program: its port, its place, its end."""

from __future__ import annotations

import json
import re
import signal
import socket
from pathlib import Path

import pytest

from mindmap.maps import Maps
from serve import viewing
from stores.mindmaps import Folder
from tests.mindmap.maps import a_map
from tests.serve.viewer.viewers import Asking, program, until


def port_in(line: str) -> int:
    return int(re.findall(r"http://127\.0\.0\.1:(\d+)/ shows the maps of ", line)[0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_begins_and_ends(tmp_path: Path, number: signal.Signals) -> None:
    """It says where it is, is found there, answers, and on Ctrl-C or SIGTERM ends in order, leaving nothing."""
    with program(tmp_path / "maps", "--port", "0") as (process, line):
        port = port_in(line)
        assert line == f"http://127.0.0.1:{port}/ shows the maps of {tmp_path / 'maps'}. Ctrl-C ends it.\n"
        until(lambda: viewing.address(tmp_path / "maps") == f"http://127.0.0.1:{port}/")
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
    with program(tmp_path, "--port", "0") as (first, line), program(tmp_path, "--port", "0") as (_, other):
        for port in (port_in(line), port_in(other)):
            assert Asking(port).ask(f"/api/mindmaps/{document.id}").json["title"] == "A map"
        assert viewing.address(tmp_path) == f"http://127.0.0.1:{port_in(line)}/"
        first.kill()
        until(lambda: viewing.address(tmp_path) == f"http://127.0.0.1:{port_in(other)}/")


def test_folder_is_deleted(tmp_path: Path) -> None:
    """A data directory that is deleted and made again is shown again, and the viewer found in it."""
    folder = tmp_path / "maps"
    with program(folder, "--port", "0") as (_, line):
        asking = Asking(port_in(line))
        (folder / viewing.PLACE).unlink()
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
        until(lambda: viewing.address(folder) == f"http://127.0.0.1:{asking.port}/")
        assert Folder(folder).ids() == [document.id]


def test_place_that_a_killed_viewer_left(tmp_path: Path) -> None:
    """What a killed viewer left names nobody, and the next one takes its place."""
    with program(tmp_path, "--port", "0") as (process, _):
        process.kill()
        process.wait()
    assert json.loads((tmp_path / viewing.PLACE).read_text())["pid"] == process.pid
    assert viewing.address(tmp_path) is None
    with program(tmp_path, "--port", "0") as (_, line):
        until(lambda: viewing.address(tmp_path) == f"http://127.0.0.1:{port_in(line)}/")
