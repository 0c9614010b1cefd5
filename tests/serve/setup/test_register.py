"""`register`: client files, their content after an edit, backups, errors."""

from __future__ import annotations

import errno
import json
import os
import stat
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from serve.errors import BadRequest
from serve.setup.file_edit import FileAccessError
from serve.setup.mcp_clients import (
    CLIENTS,
    SHAPES,
    NotUtf8,
    OutsideProject,
    Server,
    ServerNotInstalled,
    find_program,
    find_project_config_file,
    find_user_config_file,
    list_command_words,
)
from serve.setup.register import (
    LOCK_FILE,
    ConfigFile,
    EditAction,
    ManualEditRequired,
    RegisterOptions,
    ServerNameTaken,
    format_snippet,
    register,
)
from tests.readonly_fs import make_read_only
from tests.repos import Repo

SERVER = Server("lineage", Path("/opt/bin/lineage-mcp"), environment={"LINEAGE_HOME": None})
SERVER_WITH_HOME = Server("lineage", Path("/opt/bin/lineage-mcp"), environment={"LINEAGE_HOME": "/indexes"})
MINDMAP = Server("mindmap", Path("/opt/bin/mindmap"), ("mcp",))
DIRECTORIES = {
    "home": "/home/ada",
    "config": "/home/ada/.config",
    "apps": "/apps",
    "codex": "/home/ada/.codex",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "settings"


def get_config_file(file: Path, shape: str = "mcpServers") -> ConfigFile:
    """Return the client's file as `ConfigFile`. Its backups are in a directory beside the directory of the file."""
    return ConfigFile(file, SHAPES[shape], file.parent.parent / "backups")


@pytest.mark.parametrize(
    ("shape", "expected"),
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
def test_entry_of_each_shape(file: Path, shape: str, expected: object) -> None:
    """Each shape has its own entry; the shown snippet is what is written into a new file."""
    read = tomllib.loads if shape == "toml" else json.loads
    snippet = format_snippet(MINDMAP, SHAPES[shape])
    assert read(snippet) == expected
    result = get_config_file(file, shape).write(MINDMAP)
    assert (result.action, result.backup) == (EditAction.CREATED, None)
    assert file.read_text() == snippet


@pytest.mark.parametrize("shape", SHAPES)
def test_write_is_idempotent_and_remove_deletes(file: Path, shape: str) -> None:
    """A second write changes nothing and makes no backup; removal deletes the file and keeps a backup."""
    get_config_file(file, shape).write(SERVER_WITH_HOME)
    before = file.stat()
    assert get_config_file(file, shape).write(SERVER_WITH_HOME).action is EditAction.UNCHANGED
    after = file.stat()  # without the time of the last read
    assert (after.st_ino, after.st_mtime_ns, after.st_size) == (
        before.st_ino,
        before.st_mtime_ns,
        before.st_size,
    )
    assert len(list(file.parent.iterdir())) == 1
    assert get_config_file(file, shape).remove(SERVER).action is EditAction.DELETED
    assert not list(file.parent.iterdir()) and len(list((file.parent.parent / "backups").glob("*.bak"))) == 1
    assert get_config_file(file, shape).remove(SERVER).action is EditAction.UNCHANGED


@pytest.mark.parametrize("text", ["{}", "{}\n", "{ }\n", '{"mcpServers": {}}\n', ""])
def test_file_that_existed_is_kept(file: Path, text: str) -> None:
    """Removal keeps a file that existed before the entry was added, also if it was empty, and also the second time."""
    file.parent.mkdir()
    file.write_text(text)
    for _ in range(2):
        get_config_file(file).write(SERVER)
        assert get_config_file(file).remove(SERVER).action is EditAction.CHANGED
        assert json.loads(file.read_text()) == json.loads(text or "{}")


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ("mcpServers", '{\n  "mcpServers": {},\n  "theme": "dark"\n}\n'),
        ("servers", '{"servers": {}}'),
        ("toml", 'mcp_servers = {}\nmodel = "o"\n'),
        ("toml", "[mcp_servers]\n\n[tools]\nweb = true\n"),
    ],
)
def test_empty_key_is_kept(file: Path, shape: str, text: str) -> None:
    """Removal keeps the key of servers if the file had it before the entry was added, even without any server."""
    file.parent.mkdir()
    file.write_text(text)
    get_config_file(file, shape).write(SERVER)
    get_config_file(file, shape).write(SERVER_WITH_HOME)
    assert get_config_file(file, shape).remove(SERVER).action is EditAction.CHANGED
    assert file.read_text() == text


def test_file_in_another_layout_is_kept(file: Path) -> None:
    """Removal keeps a file that had only the entry, if lineage would have written the file with another layout."""
    file.parent.mkdir()
    file.write_text(json.dumps({"mcpServers": {"lineage": {"command": "lineage-mcp"}}}))
    assert get_config_file(file).remove(SERVER).action is EditAction.CHANGED
    assert json.loads(file.read_text()) == {}


@pytest.mark.parametrize("is_committed", [True, False])
def test_tracked_file_is_kept(tmp_path: Path, is_committed: bool) -> None:
    """Removal empties, but does not delete, a file that git tracks, even if lineage created it."""
    repo = Repo.create(tmp_path / "project")
    file = repo.path / ".mcp.json"
    get_config_file(file).write(SERVER)
    repo.git("add", ".mcp.json")
    if is_committed:
        repo.commit("Register lineage")
    assert get_config_file(file).remove(SERVER).action is EditAction.CHANGED
    assert file.read_text() == "{}\n"
    repo.git("rm", "--quiet", "--force", ".mcp.json")
    get_config_file(file).write(SERVER)
    assert get_config_file(file).remove(SERVER).action is EditAction.DELETED


def test_only_managed_variables_change(file: Path) -> None:
    """LINEAGE_HOME is written to the entry if it is set, and else removed. Other variables and fields stay."""
    file.parent.mkdir()
    existing = {"command": "/old/lineage-mcp", "args": ["-v"], "env": {"MINE": "1"}, "disabled": True}
    file.write_text(json.dumps({"mcpServers": {"lineage": existing}}))
    get_config_file(file).write(SERVER_WITH_HOME)
    expected = {"command": "/opt/bin/lineage-mcp", "args": ["-v"], "disabled": True}
    assert _read_servers(file) == {"lineage": expected | {"env": {"MINE": "1", "LINEAGE_HOME": "/indexes"}}}
    get_config_file(file).write(SERVER)
    assert _read_servers(file) == {"lineage": expected | {"env": {"MINE": "1"}}}


@pytest.mark.parametrize(
    ("shape", "server", "existing", "expected"),
    [
        (
            "mcpServers",
            SERVER,
            ["uvx", "--from", "x", "lineage-mcp", "/repo"],
            ["/opt/bin/lineage-mcp", "/repo"],
        ),
        (
            "mcpServers",
            SERVER,
            ["uv", "run", "--directory", "/src/lineage-mcp", "lineage-mcp"],
            ["/opt/bin/lineage-mcp"],
        ),
        ("mcp", SERVER, ["lineage-mcp", "/src/lineage-mcp"], ["/opt/bin/lineage-mcp", "/src/lineage-mcp"]),
        ("mcp", MINDMAP, ["/my/mindmap", "mcp", "--x"], ["/opt/bin/mindmap", "mcp", "--x"]),
        ("mcp", MINDMAP, ["/my/mindmap", "serve"], ["/opt/bin/mindmap", "mcp"]),
        ("mcp", replace(SERVER, arguments=("/b",)), ["lineage-mcp", "/a"], ["/opt/bin/lineage-mcp", "/b"]),
    ],
)
def test_arguments_of_a_hand_edited_entry_stay(
    file: Path, shape: str, server: Server, existing: list[str], expected: list[str]
) -> None:
    """An update keeps an entry's arguments if they begin with those that lineage writes. Else it replaces them."""
    entry = {"command": existing[0], "args": existing[1:]} if shape == "mcpServers" else {"command": existing}
    file.parent.mkdir()
    file.write_text(json.dumps({shape: {server.name: entry | {"enabled": False}}}))
    get_config_file(file, shape).write(server)
    written = json.loads(file.read_text())[shape][server.name]
    assert (list_command_words(written), written["enabled"]) == (expected, False)


def test_hand_edited_entry_stays_in_a_backup(file: Path) -> None:
    """If an entry that the user wrote is updated and then removed, a private backup has the original file."""
    file.parent.mkdir()
    text = '{"mcpServers": {"lineage": {"command": "/my/lineage-mcp", "args": ["/repo"]}}}'
    file.write_text(text)
    file.chmod(0o644)
    get_config_file(file).write(SERVER)
    backup = get_config_file(file).remove(SERVER).backup
    assert backup is not None and "/opt/bin/lineage-mcp" in backup.read_text()
    old_backup = backup.with_suffix(".old")
    assert (old_backup.read_text(), stat.S_IMODE(old_backup.stat().st_mode)) == (text, 0o600)


def test_change_is_backed_up(file: Path) -> None:
    """A change copies the file to a backup that only the user can read. A later update does not replace the backup."""
    file.parent.mkdir()
    file.write_text('{"token": "secret"}\n')
    file.chmod(0o644)
    backup = get_config_file(file).write(SERVER).backup
    assert backup is not None and backup.read_text() == '{"token": "secret"}\n'
    assert [stat.S_IMODE(path.stat().st_mode) for path in (backup.parent, backup, file)] == [
        0o700,
        0o600,
        0o644,
    ]
    result = get_config_file(file).write(SERVER_WITH_HOME)
    assert (result.action, result.backup) == (EditAction.CHANGED, backup)
    assert backup.read_text() == '{"token": "secret"}\n'
    assert get_config_file(file).remove(SERVER).backup == backup and "lineage" in backup.read_text()
    assert file.read_text() == '{"token": "secret"}\n' and list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("directory", ["/home/ada/mindmap", "/home/ada/lineage-mcp"])
def test_server_with_a_directory_named_like_a_program(file: Path, directory: str) -> None:
    """An argument that is a directory named like a program of lineage does not make a server an entry of lineage.

    So the server stays, and it is in the backup.
    """
    file.parent.mkdir()
    get_config_file(file).write(SERVER)
    get_config_file(file).remove(SERVER)
    text = json.dumps({"mcpServers": {"files": {"command": "npx", "args": ["server-filesystem", directory]}}})
    file.write_text(text)
    backup = get_config_file(file).write(SERVER).backup
    assert backup is not None and backup.read_text() == text
    with pytest.raises(ServerNameTaken):
        get_config_file(file).write(replace(SERVER, name="files", command=Path(directory)))


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        ("missing", "read-only"),
        ("existing", "read-only"),
        ("a file", "file exists"),
        ("a lock that is a directory", "no regular file"),
    ],
)
def test_home_that_cannot_be_written(
    file: Path, monkeypatch: pytest.MonkeyPatch, state: str, cause: str
) -> None:
    """If no backup can be written, the file stays, and the error says so and names LINEAGE_HOME."""
    backups = get_config_file(file).backup_directory
    if state == "a file":
        backups.write_text("")
    elif state != "missing":
        (backups / LOCK_FILE if "lock" in state else backups).mkdir(parents=True)
    make_read_only(backups, monkeypatch)
    with pytest.raises(FileAccessError, match=f"{file} was not changed, (?=.*{backups}).*{cause}") as raised:
        get_config_file(file).write(SERVER)
    assert "set LINEAGE_HOME" in raised.value.hint
    assert not file.exists()


def test_full_disk(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk, the hint is to free space, for the client's file and for its backup."""

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(
        FileAccessError, match=f"^{file} could not be read or changed: no space left"
    ) as raised:
        get_config_file(file).write(SERVER)
    assert raised.value.hint == "Free some space on the disk, then try again."
    file.write_text("{}")
    with pytest.raises(FileAccessError, match=f"{file} was not changed, because .* no space left") as raised:
        get_config_file(file).write(SERVER)
    assert raised.value.hint.startswith("Free some space on the disk, then try again. ")
    assert file.read_text() == "{}" and not [*file.parent.glob(".*")]


@pytest.mark.parametrize("original", [None, "{}\n", '{\n  "mcpServers": {}\n}\n', '{\n  "x": 1\n}\n'])
@pytest.mark.parametrize("order", [(SERVER, MINDMAP), (MINDMAP, SERVER)])
def test_backup_of_a_file_with_both_programs(
    file: Path, original: str | None, order: tuple[Server, Server]
) -> None:
    """Adding a second program does not overwrite the backup of the first, so removing both restores the file."""
    file.parent.mkdir()
    if original is not None:
        file.write_text(original)
    config_file = get_config_file(file)
    backup = config_file.write(SERVER).backup
    config_file.write(MINDMAP)
    assert backup is None or backup.read_text() == original
    for server in order:
        config_file.remove(server)
    content = file.read_text() if file.exists() else None
    assert content == original


@pytest.mark.parametrize(
    ("client", "project_text", "user_text"),
    [
        ("claude-code", "approve the server", "Restart the client"),
        ("codex", "trust the folder", "Restart the client"),
        ("gemini", "trust the folder", "only in folders that you trust"),
    ],
)
def test_next_step_of_a_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: str, project_text: str, user_text: str
) -> None:
    """After a change, the output says what to do before the client starts the server."""
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    (tmp_path / "project").mkdir()
    for project, text in ((tmp_path / "project", project_text), (None, user_text)):
        options = RegisterOptions(client, project=project, write=True)
        assert text in register(options, SERVER, tmp_path / "backups").text


def test_linked_file_stays_a_link(file: Path, tmp_path: Path) -> None:
    """A linked file stays a link, also when nothing else is left in it."""
    (tmp_path / "dotfiles").write_text("{}")
    file.parent.mkdir()
    file.symlink_to("../dotfiles")
    get_config_file(file).write(SERVER)
    assert file.is_symlink() and "lineage" in (tmp_path / "dotfiles").read_text()
    get_config_file(file).remove(SERVER)
    assert file.is_symlink() and (tmp_path / "dotfiles").read_text() == "{}"


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ("mcpServers", '{\n  /* mine\n  "a": 1\n}'),
        ("mcpServers", "[]"),
        ("mcpServers", '{"mcpServers": []}'),
        ("toml", "a = \n"),
        ("toml", "mcp_servers = 1\n"),
    ],
)
def test_invalid_file_is_not_changed(file: Path, shape: str, text: str) -> None:
    """For an invalid file nothing is written or backed up, and the error shows what to add by hand."""
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(ManualEditRequired, match="cannot be changed safely") as error:
        get_config_file(file, shape).write(SERVER)
    assert format_snippet(SERVER, SHAPES[shape]) in error.value.hint
    with pytest.raises(ManualEditRequired, match="cannot be changed safely"):
        get_config_file(file, shape).remove(SERVER)
    assert [(path, path.read_text()) for path in file.parent.iterdir()] == [(file, text)]


@pytest.mark.parametrize("text", ['{"a": ' + "[" * 20_000 + "]" * 20_000 + "}"])
def test_deep_nesting_is_an_error(file: Path, text: str) -> None:
    """A file that is nested too deeply to be parsed is not changed."""
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(ManualEditRequired, match="cannot be changed safely"):
        get_config_file(file).write(SERVER)
    assert file.read_text() == text


def test_pipe_is_an_error(file: Path) -> None:
    """A pipe in place of a client's file is not opened, which would block."""
    file.parent.mkdir()
    os.mkfifo(file)
    for change in (get_config_file(file).write, get_config_file(file).remove):
        with pytest.raises(FileAccessError, match="is no regular file"):
            change(SERVER)


def test_device_is_not_replaced(file: Path) -> None:
    """A device in place of a client's file, which a link may name, is not replaced by a regular file."""
    file.parent.mkdir()
    file.symlink_to(os.devnull)
    with pytest.raises(FileAccessError, match="is no regular file"):
        get_config_file(file).write(SERVER)
    assert Path(os.devnull).is_char_device()


def test_simultaneous_edits(file: Path) -> None:
    """Of several edits at the same time, each is in the file, or is reported as failed."""
    file.parent.mkdir()
    file.write_text("{}")

    def write(number: int) -> str | None:
        name = f"lineage-{number}"
        try:
            get_config_file(file).write(replace(SERVER, name=name))
        except ManualEditRequired as error:
            assert "at the same time" in str(error)
            return None
        return name

    with ThreadPoolExecutor(8) as pool:
        written = [name for name in pool.map(write, range(40)) if name]
    assert written and set(written) == set(json.loads(file.read_text())["mcpServers"])


def test_comments_in_the_servers_stay(file: Path) -> None:
    """Removal of the only entry keeps the key if its object has comments, because then the user wrote it."""
    file.parent.mkdir()
    file.write_text('{"mcpServers": { /* mine */ } // t\n}\n')
    get_config_file(file).write(SERVER)
    get_config_file(file).remove(SERVER)
    assert "".join(file.read_text().split()) == '{"mcpServers":{/*mine*/}//t}'
    file.write_text("// mine\n{}\n")
    get_config_file(file).write(SERVER)
    assert get_config_file(file).remove(SERVER).action is EditAction.CHANGED
    assert file.read_text().startswith("// mine\n")


def test_entry_of_another_server_is_not_changed(file: Path) -> None:
    """An entry that starts another program is neither changed nor removed, but reported."""
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"lineage": {"command": "npx", "args": ["family-tree"]}}}')
    with pytest.raises(ServerNameTaken, match="another server") as error:
        get_config_file(file).write(SERVER)
    assert "--server-name" in error.value.hint
    before = file.read_text()
    with pytest.raises(ServerNameTaken, match=r"another server .* It was not removed"):
        get_config_file(file).remove(SERVER)
    assert file.read_text() == before
    file.write_text('{"mcpServers": {"lineage": {"command": "uvx", "args": ["lineage-mcp"]}}}')
    assert get_config_file(file).write(SERVER).action is EditAction.CHANGED


@pytest.mark.parametrize(
    ("create", "reason"),
    [
        (lambda file: file.mkdir(parents=True), "is a directory"),
        (lambda file: (file.parent.mkdir(), file.symlink_to(file.name)), "too many levels"),
        (lambda file: file.parent.write_text(""), "not a directory"),
    ],
)
def test_unusable_path_is_reported(file: Path, create: Callable[[Path], object], reason: str) -> None:
    """A directory, a loop of links, or a file in place of the directory is an error with the system's reason."""
    create(file)
    for change in (get_config_file(file).write, get_config_file(file).remove):
        with pytest.raises(FileAccessError, match=reason) as error:
            change(SERVER)
        assert error.value.hint == "Move it away, or name another file."


def test_unchanged_file_is_reported(file: Path) -> None:
    """If there is nothing to remove or to update, the output says so."""
    options = RegisterOptions(file=file, shape="mcp", remove=True)
    text = register(options, SERVER, file.parent / "backups").text
    assert text == f"{file} was not changed: it has no entry 'lineage'."
    get_config_file(file, "mcp").write(SERVER)
    text = register(replace(options, write=True, remove=False), SERVER, file.parent / "backups").text
    assert text == f"{file} was not changed: its entry 'lineage' is up to date."


@pytest.mark.parametrize("name", ["", " "])
def test_empty_server_name_is_an_error(file: Path, name: str) -> None:
    """A client could not show a server without a name."""
    with pytest.raises(BadRequest, match="The server name is empty"):
        register(RegisterOptions(file=file, shape="mcp", write=True), replace(SERVER, name=name), file.parent)
    assert not file.exists()


@pytest.mark.parametrize(
    ("client", "is_mac", "expected"),
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
def test_user_config_files(client: str, is_mac: bool, expected: str) -> None:
    """Each client has its documented user configuration file."""
    assert find_user_config_file(CLIENTS[client], DIRECTORIES, is_mac=is_mac) == Path(expected)


def test_project_config_files(tmp_path: Path) -> None:
    """A client's project file is the first existing one; clients without one are an error."""
    assert find_project_config_file(CLIENTS["cursor"], tmp_path) == tmp_path / ".cursor/mcp.json"
    (tmp_path / "opencode.jsonc").touch()
    assert find_project_config_file(CLIENTS["opencode"], tmp_path) == tmp_path / "opencode.jsonc"
    with pytest.raises(BadRequest, match="no known configuration file in projects"):
        find_project_config_file(CLIENTS["windsurf"], tmp_path)
    with pytest.raises(BadRequest, match="no known user configuration file"):
        find_user_config_file(CLIENTS["claude-desktop"], DIRECTORIES, is_mac=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (RegisterOptions(client="emacs"), "'emacs' is not a known client"),
        (RegisterOptions(write=True), "No client is named"),
        (RegisterOptions(client="cursor", write=True, remove=True), "exclude each other"),
        (RegisterOptions(client="cursor", file=Path("x"), shape="mcp"), "already determines file and shape"),
        (RegisterOptions(file=Path("x")), "must be used together"),
        (RegisterOptions(file=Path("x"), shape="yaml"), "'yaml' is not a known shape"),
        (RegisterOptions(project=Path()), "--project needs --client"),
    ],
)
def test_invalid_options_are_an_error(options: RegisterOptions, message: str) -> None:
    """Contradictory and incomplete options are errors."""
    with pytest.raises(BadRequest, match=message):
        register(options, SERVER, Path("backups"))


def test_overview_has_all_shapes_and_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a client, each shape is shown with the clients that use it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "/xdg")
    overview = register(RegisterOptions(), SERVER, Path("backups")).text
    assert all(f"\n{shape}:\n" in f"\n{overview}" for shape in SHAPES)
    assert all(f"--client {client} " in overview for client in CLIENTS if client != "claude-desktop")
    assert "/xdg/zed/settings.json" in overview


def test_server_program_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server program is searched next to the running program, then on PATH; otherwise it is an error."""
    for directory in ("mine", "other"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "some-mcp").write_text("#!/bin/sh\n")
        (tmp_path / directory / "some-mcp").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/other{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("sys.argv", [str(tmp_path / "mine" / "lineage")])
    assert find_program("some-mcp", "it", is_required=True) == tmp_path / "mine" / "some-mcp"
    monkeypatch.setattr("sys.argv", ["lineage"])
    assert find_program("some-mcp", "it", is_required=True) == tmp_path / "other" / "some-mcp"
    with pytest.raises(ServerNotInstalled, match="is not installed") as error:
        find_program("absent-mcp", "history-lineage", is_required=True)
    assert "pip install history-lineage" in error.value.hint
    assert find_program("absent-mcp", "it", is_required=False) == Path("absent-mcp")


@pytest.mark.parametrize("link", [".cursor/mcp.json", ".cursor"])
@pytest.mark.parametrize("action", ["write", "remove"])
def test_link_out_of_project_is_an_error(tmp_path: Path, link: str, action: str) -> None:
    """A link out of the project is an error and its target is not changed; one inside is followed."""
    project, outside = tmp_path / "project", tmp_path / "project-of-mine"
    outside.mkdir()
    outside_file = outside / "mcp.json"
    get_config_file(outside_file).write(SERVER)
    before = outside_file.read_bytes()
    (project / link).parent.mkdir(parents=True)
    (project / link).symlink_to(outside_file if link.endswith(".json") else outside)
    options = RegisterOptions("cursor", project=project, write=action == "write", remove=action == "remove")
    with pytest.raises(OutsideProject, match=f"leads to {outside_file}, outside the project"):
        register(options, SERVER_WITH_HOME, tmp_path / "backups")
    assert outside_file.read_bytes() == before and list(outside.iterdir()) == [outside_file]
    (project / link).unlink()
    (project / link).symlink_to(project / "own" if link == ".cursor" else project / "own.json")
    register(RegisterOptions("cursor", project=project, write=True), SERVER, tmp_path / "backups")
    assert (project / link).is_symlink() and _read_servers(project / ".cursor/mcp.json")


@pytest.mark.parametrize(
    ("server", "message"),
    [
        (Server("lineage", Path("/opt/\udcff/lineage-mcp")), "The program path is not UTF-8"),
        (Server("\udcff", Path("/opt/lineage-mcp")), "The server name is not UTF-8"),
        (
            Server("lineage", Path("/opt/lineage-mcp"), environment={"LINEAGE_HOME": "/\udcff"}),
            "The value of LINEAGE_HOME is not UTF-8",
        ),
    ],
)
def test_invalid_utf8_is_an_error(file: Path, server: Server, message: str) -> None:
    """Text that cannot be written to a client's file is an error before anything is written."""
    for options in (
        RegisterOptions(file=file, shape="mcpServers", write=True),
        RegisterOptions(file=file, shape="toml"),
        RegisterOptions(),
    ):
        with pytest.raises(NotUtf8, match=message):
            register(options, server, file.parent / "backups")
    assert not file.parent.exists()


def _read_servers(file: Path) -> object:
    return json.loads(file.read_text())["mcpServers"]
