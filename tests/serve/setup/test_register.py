"""Telling clients of a server: which file, what it says afterwards, what is kept, what is refused."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from serve.errors import BadRequest
from serve.setup.file_edit import FileRefused
from serve.setup.mcp_clients import (
    CLIENTS,
    SHAPES,
    NotText,
    OutsideProject,
    Server,
    ServerMissing,
    installed,
    project_file,
    user_file,
)
from serve.setup.register import ByHand, Done, NameTaken, Target, Wishes, register

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SERVER = Server("lineage", Path("/opt/bin/lineage-mcp"), environment={"LINEAGE_HOME": None})
AT_HOME = Server("lineage", Path("/opt/bin/lineage-mcp"), environment={"LINEAGE_HOME": "/indexes"})
MINDMAP = Server("mindmap", Path("/opt/bin/mindmap"), ("mcp",))
FOLDERS = {"home": "/home/ada", "config": "/home/ada/.config", "apps": "/apps", "codex": "/home/ada/.codex"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "settings"


def target(file: Path, shape: str = "mcpServers") -> Target:
    return Target(file, SHAPES[shape])


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (
            "mcpServers",
            {"mcpServers": {"mindmap": {"command": "/opt/bin/mindmap", "args": ["mcp"], "env": {}}}},
        ),
        (
            "mcp",
            {"mcp": {"mindmap": {"type": "local", "command": ["/opt/bin/mindmap", "mcp"], "enabled": True}}},
        ),
        ("toml", {"mcp_servers": {"mindmap": {"command": "/opt/bin/mindmap", "args": ["mcp"]}}}),
        (
            "servers",
            {
                "servers": {
                    "mindmap": {"type": "stdio", "command": "/opt/bin/mindmap", "args": ["mcp"], "env": {}}
                }
            },
        ),
        (
            "context_servers",
            {"context_servers": {"mindmap": {"command": "/opt/bin/mindmap", "args": ["mcp"], "env": {}}}},
        ),
    ],
)
def test_shapes(file: Path, shape: str, said: object) -> None:
    """What each shape says of a server; what is shown is what is written into a file that was not there."""
    read = tomllib.loads if shape == "toml" else json.loads
    snippet = target(file, shape).snippet(MINDMAP)
    assert read(snippet) == said
    outcome = target(file, shape).write(MINDMAP, NOW)
    assert (outcome.done, outcome.backup) == (Done.CREATED, None)
    assert file.read_text() == snippet


@pytest.mark.parametrize("shape", SHAPES)
def test_written_twice_and_removed(file: Path, shape: str) -> None:
    """A second time changes nothing and keeps no copy; taken out, the file is gone as it came, a copy beside it."""
    target(file, shape).write(AT_HOME, NOW)
    before = file.stat()
    assert target(file, shape).write(AT_HOME, NOW).done is Done.UNCHANGED
    assert (file.stat(), len(list(file.parent.iterdir()))) == (before, 1)
    assert target(file, shape).remove(SERVER, NOW).done is Done.DELETED
    assert [left.name for left in file.parent.iterdir()] == ["settings.20260102T030405.bak"]
    assert target(file, shape).remove(SERVER, NOW).done is Done.UNCHANGED


def test_the_home_of_the_indexes(file: Path) -> None:
    """LINEAGE_HOME is there while the person sets it, and other variables stay."""
    file.parent.mkdir()
    theirs = {"command": "/old/lineage-mcp", "args": ["-v"], "env": {"MINE": "1"}, "disabled": True}
    file.write_text(json.dumps({"mcpServers": {"lineage": theirs}}))
    target(file).write(AT_HOME, NOW)
    said = {"command": "/opt/bin/lineage-mcp", "args": [], "disabled": True}
    assert _servers(file) == {"lineage": said | {"env": {"MINE": "1", "LINEAGE_HOME": "/indexes"}}}
    target(file).write(SERVER, NOW)
    assert _servers(file) == {"lineage": said | {"env": {"MINE": "1"}}}


def test_a_backup_each_time(file: Path) -> None:
    """Each change keeps what was before under a name of its own, as closed to others as the file."""
    file.parent.mkdir()
    file.write_text('{"token": "secret"}\n')
    file.chmod(0o600)
    first = target(file).write(SERVER, NOW)
    second = target(file).remove(SERVER, NOW)
    assert first.backup is not None and second.backup is not None
    assert first.backup.read_text() == '{"token": "secret"}\n' == file.read_text()
    assert second.backup != first.backup and "lineage" in second.backup.read_text()
    assert {stat.S_IMODE(kept.stat().st_mode) for kept in (file, first.backup, second.backup)} == {0o600}


def test_dotfiles_are_written_through(file: Path, tmp_path: Path) -> None:
    """A file that is a link stays one, also when nothing else is left in it."""
    (tmp_path / "dotfiles").write_text("{}")
    file.parent.mkdir()
    file.symlink_to("../dotfiles")
    target(file).write(SERVER, NOW)
    assert file.is_symlink() and "lineage" in (tmp_path / "dotfiles").read_text()
    target(file).remove(SERVER, NOW)
    assert file.is_symlink() and (tmp_path / "dotfiles").read_text() == "{}"


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ("mcpServers", '{\n  // mine\n  "a": 1\n}'),
        ("mcpServers", "[]"),
        ("mcpServers", '{"mcpServers": []}'),
        ("toml", "a = \n"),
        ("toml", "mcp_servers = 1\n"),
    ],
)
def test_what_cannot_be_changed_safely(file: Path, shape: str, text: str) -> None:
    """Nothing is written, no copy made, and the error prints what to add by hand."""
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(ByHand, match="cannot be changed safely") as refused:
        target(file, shape).write(SERVER, NOW)
    assert target(file, shape).snippet(SERVER) in refused.value.hint
    with pytest.raises(ByHand, match="cannot be changed safely"):
        target(file, shape).remove(SERVER, NOW)
    assert [(left, left.read_text()) for left in file.parent.iterdir()] == [(file, text)]


def test_another_server_of_that_name(file: Path) -> None:
    """An entry that starts something else is not ours to change, and not ours to take out."""
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"lineage": {"command": "npx", "args": ["family-tree"]}}}')
    with pytest.raises(NameTaken, match="another server") as refused:
        target(file).write(SERVER, NOW)
    assert "--server-name" in refused.value.hint
    assert target(file).remove(SERVER, NOW).done is Done.UNCHANGED
    file.write_text('{"mcpServers": {"lineage": {"command": "uvx", "args": ["lineage-mcp"]}}}')
    assert target(file).write(SERVER, NOW).done is Done.CHANGED


def test_a_folder_in_the_way(file: Path) -> None:
    """What the system refuses is told with the file it concerns."""
    file.mkdir(parents=True)
    with pytest.raises(FileRefused, match="is a directory"):
        target(file).write(SERVER, NOW)


@pytest.mark.parametrize(
    ("client", "mac", "place"),
    [
        ("claude-code", False, "/home/ada/.claude.json"),
        ("claude-desktop", True, "/apps/Claude/claude_desktop_config.json"),
        ("cursor", True, "/home/ada/.cursor/mcp.json"),
        ("windsurf", False, "/home/ada/.codeium/windsurf/mcp_config.json"),
        ("gemini", False, "/home/ada/.gemini/settings.json"),
        ("opencode", False, "/home/ada/.config/opencode/opencode.json"),
        ("codex", False, "/home/ada/.codex/config.toml"),
        ("vscode", False, "/home/ada/.config/Code/User/mcp.json"),
        ("vscode", True, "/apps/Code/User/mcp.json"),
        ("zed", False, "/home/ada/.config/zed/settings.json"),
    ],
)
def test_places(client: str, mac: bool, place: str) -> None:
    """Where each client keeps a person's own configuration."""
    assert user_file(CLIENTS[client], FOLDERS, mac=mac) == Path(place)


def test_places_in_projects(tmp_path: Path) -> None:
    """A project's file, where a client has one; of two forms the one that is there."""
    assert project_file(CLIENTS["cursor"], tmp_path) == tmp_path / ".cursor/mcp.json"
    (tmp_path / "opencode.jsonc").touch()
    assert project_file(CLIENTS["opencode"], tmp_path) == tmp_path / "opencode.jsonc"
    with pytest.raises(BadRequest, match="no configuration in projects"):
        project_file(CLIENTS["windsurf"], tmp_path)
    with pytest.raises(BadRequest, match="no file of your own"):
        user_file(CLIENTS["claude-desktop"], FOLDERS, mac=False)


@pytest.mark.parametrize(
    ("wishes", "says"),
    [
        (Wishes(client="emacs"), "'emacs' is not a client we know"),
        (Wishes(write=True), "Whose configuration"),
        (Wishes(client="cursor", write=True, remove=True), "undo each other"),
        (Wishes(client="cursor", file=Path("x"), shape="mcp"), "knows its file"),
        (Wishes(file=Path("x")), "go together"),
        (Wishes(file=Path("x"), shape="yaml"), "'yaml' is no shape"),
        (Wishes(project=Path()), "Name the client"),
    ],
)
def test_misuse(wishes: Wishes, says: str) -> None:
    """What contradicts itself or leaves out half is refused with what to say instead."""
    with pytest.raises(BadRequest, match=says):
        register(wishes, SERVER, NOW)


def test_everything_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a client, each shape is shown with the clients it is for."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "/xdg")
    shown = register(Wishes(), SERVER, NOW).text
    assert all(f"\n{shape}:\n" in f"\n{shown}" for shape in SHAPES)
    assert all(f"--client {client} " in shown for client in CLIENTS if client != "claude-desktop")
    assert "/xdg/zed/settings.json" in shown


def test_the_program_beside_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's program is looked for beside this one first, then on PATH; without it, what to install is said."""
    for folder in ("mine", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "some-mcp").write_text("#!/bin/sh\n")
        (tmp_path / folder / "some-mcp").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/other{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("sys.argv", [str(tmp_path / "mine" / "lineage")])
    assert installed("some-mcp", "it", needed=True) == tmp_path / "mine" / "some-mcp"
    monkeypatch.setattr("sys.argv", ["lineage"])
    assert installed("some-mcp", "it", needed=True) == tmp_path / "other" / "some-mcp"
    with pytest.raises(ServerMissing, match="is not installed") as missing:
        installed("absent-mcp", "history-lineage", needed=True)
    assert "pip install history-lineage" in missing.value.hint
    assert installed("absent-mcp", "it", needed=False) == Path("absent-mcp")


@pytest.mark.parametrize("link", [".cursor/mcp.json", ".cursor"])
@pytest.mark.parametrize("wish", ["write", "remove"])
def test_a_link_out_of_the_project(tmp_path: Path, link: str, wish: str) -> None:
    """A project's own link, to a file or a folder, never has a file outside it changed; one inside it is followed."""
    project, outside = tmp_path / "project", tmp_path / "project-of-mine"
    outside.mkdir()
    theirs = outside / "mcp.json"
    target(theirs).write(SERVER, NOW)
    before = theirs.read_bytes()
    (project / link).parent.mkdir(parents=True)
    (project / link).symlink_to(theirs if link.endswith(".json") else outside)
    wishes = Wishes("cursor", project=project, write=wish == "write", remove=wish == "remove")
    with pytest.raises(OutsideProject, match=f"leads to {theirs}, outside the project"):
        register(wishes, AT_HOME, NOW)
    assert theirs.read_bytes() == before and list(outside.iterdir()) == [theirs]
    (project / link).unlink()
    (project / link).symlink_to(project / "own" if link == ".cursor" else project / "own.json")
    register(Wishes("cursor", project=project, write=True), SERVER, NOW)
    assert (project / link).is_symlink() and _servers(project / ".cursor/mcp.json")


def test_a_backup_is_not_written_through_a_link(tmp_path: Path) -> None:
    """A link to nothing under the backup's name is not where the backup goes."""
    file = tmp_path / "mcp.json"
    file.write_text("{}")
    (tmp_path / "mcp.json.20260102T030405.bak").symlink_to(tmp_path / "elsewhere")
    outcome = target(file).write(SERVER, NOW)
    assert outcome.backup == tmp_path / "mcp.json.20260102T030405-1.bak"
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("server", "says"),
    [
        (Server("lineage", Path("/opt/\udcff/lineage-mcp")), "The program's path is not UTF-8"),
        (Server("\udcff", Path("/opt/lineage-mcp")), "The server's name is not UTF-8"),
        (
            Server("lineage", Path("/opt/lineage-mcp"), environment={"LINEAGE_HOME": "/\udcff"}),
            "The LINEAGE_HOME is not UTF-8",
        ),
    ],
)
def test_bytes_that_are_no_text(file: Path, server: Server, says: str) -> None:
    """What cannot be written into a client's file is refused before anything is."""
    for wishes in (
        Wishes(file=file, shape="mcpServers", write=True),
        Wishes(file=file, shape="toml"),
        Wishes(),
    ):
        with pytest.raises(NotText, match=says):
            register(wishes, server, NOW)
    assert not file.parent.exists()


def _servers(file: Path) -> object:
    return json.loads(file.read_text())["mcpServers"]
