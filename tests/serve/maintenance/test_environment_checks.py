"""Checks of model files, DuckDB extensions, the daemon, hooks, the index directory, disk space and clients."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.encoders import base
from pipeline.encoders.base import OnnxEncoder
from pipeline.encoders.cross_encoder import CROSS_ENCODER, CrossEncoder
from serve import config
from serve.daemon.process import DaemonPaths
from serve.maintenance import doctor, environment_checks
from serve.maintenance.checks import Check, CheckResult, check_extensions
from serve.setup.init import InitOptions, initialize
from stores import duckdb_engine
from stores.index_location import IndexLocation
from tests.repos import Repo
from tests.serve.daemon import daemons
from tests.serve.maintenance.helpers import OK, PROBLEM, WARNING, run_checks


@pytest.mark.parametrize(
    ("name", "encoder"),
    [
        ("minilm.onnx", "encoder"),
        ("query.npz", "encoder"),
        ("tokenizer.json", "encoder"),
        ("static.npz", "encoder static"),
        ("cross.npz", "cross-encoder"),
    ],
)
def test_damaged_model_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, encoder: str
) -> None:
    """A truncated or missing model file is a problem, and its encoder is one too."""
    directory = shutil.copytree(
        base.MODELS_DIR, tmp_path / "models", ignore=shutil.ignore_patterns("*.py", "__*")
    )
    monkeypatch.setattr(base, "MODELS_DIR", directory)
    checks = {name: doctor.CHECKS[name] for name in ("model files", encoder)}
    assert {result.verdict for result in run_checks(tmp_path, checks).values()} == {OK, WARNING}
    file = directory / name
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    results = run_checks(tmp_path, checks)
    assert (results["model files"].verdict, results[encoder].verdict) == (PROBLEM, PROBLEM)
    assert str(file) in results["model files"].found
    file.unlink()
    assert "no such file" in run_checks(tmp_path, checks)["model files"].found


def test_encoder_with_wrong_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors that place unrelated texts closer together are a problem."""
    real = OnnxEncoder()

    class SwappedEncoder:
        name, dimension = real.name, real.dimension

        def encode(self, texts: list[str]) -> object:
            return real.encode(texts)[::-1]

        def encode_queries(self, texts: list[str]) -> object:
            return real.encode_queries(texts)

    monkeypatch.setattr(environment_checks, "create_bundled_encoder", lambda _: SwappedEncoder())
    results = run_checks(tmp_path, {"encoder": environment_checks.check_encoder})
    assert "are wrong" in results["encoder"].found


def test_configured_cross_encoder_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configured precision is checked; scores in the wrong order are a problem."""
    checks: dict[str, Check] = {"cross-encoder": environment_checks.check_cross_encoder}
    monkeypatch.setenv("LINEAGE_RERANKER", "int8")
    assert f"{CROSS_ENCODER}/int8" in run_checks(tmp_path, checks)["cross-encoder"].found
    real = CrossEncoder.score_changes
    monkeypatch.setattr(CrossEncoder, "score_changes", lambda *arguments: -real(*arguments))
    result = run_checks(tmp_path, checks)["cross-encoder"]
    assert result.verdict is PROBLEM and "are wrong" in result.found


def test_extensions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel whose file is no DuckDB extension, and a missing extension, are problems; others have a version."""
    checks: dict[str, Check] = {"extensions": check_extensions}
    found = run_checks(tmp_path, checks)
    assert found["extension fts"].verdict is found["extension vss"].verdict is OK
    assert found["extension vss"].found == "version 1.5.5"
    wheel = tmp_path / "duckdb_extension_vss-1.5.5.dist-info"
    wheel.mkdir()
    (wheel / "METADATA").write_text("Metadata-Version: 2.1\nName: duckdb-extension-vss\nVersion: 1.5.5\n")
    (wheel / "RECORD").write_text("vss.duckdb_extension,,\n")
    (tmp_path / "vss.duckdb_extension").write_bytes(b"no extension")
    monkeypatch.syspath_prepend(str(tmp_path))
    damaged = run_checks(tmp_path, checks)["extension vss"]
    assert damaged.verdict is PROBLEM and "is not a DuckDB extension" in damaged.found
    monkeypatch.setattr(duckdb_engine, "EXTENSIONS", ("unknown",))
    missing = run_checks(tmp_path, checks)["extension unknown"]
    assert missing.verdict is PROBLEM and "it is not installed" in missing.found
    assert "`pip install --force-reinstall duckdb-extension-unknown==" in missing.remedy


@pytest.fixture
def daemon(
    repo: Repo,  # noqa: ARG001 - creates the index in `home`
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[subprocess.Popen[bytes]]:
    monkeypatch.delenv("LINEAGE_NO_DAEMON")
    with daemons.run_daemon(home) as process:
        yield process


def test_running_daemon(repo: Repo, daemon: subprocess.Popen[bytes]) -> None:
    """The result of a running daemon has its process id."""
    result = run_checks(repo.path)["daemon"]
    assert result.verdict is OK and f"process {daemon.pid}" in result.found


def test_daemon_of_another_build(
    repo: Repo, daemon: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon of another build is a warning."""
    monkeypatch.setattr("serve.daemon.process.compute_build_id", lambda: "another")
    assert daemon.poll() is None
    assert run_checks(repo.path)["daemon"].verdict is WARNING


def test_suspended_daemon(
    repo: Repo, home: Path, daemon: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A suspended daemon, which never responds, is a problem; the remedy has its process id."""
    monkeypatch.setattr("serve.maintenance.environment_checks.DAEMON_TIMEOUT_SECONDS", 0.3)
    os.kill(daemon.pid, signal.SIGSTOP)
    result = run_checks(repo.path)["daemon"]
    os.kill(daemon.pid, signal.SIGCONT)
    assert result.verdict is PROBLEM
    if sys.platform == "linux":
        assert "is suspended" in result.found
        assert f"kill -9 {daemon.pid}" in result.remedy
    assert home.exists()


def test_socket_of_a_killed_daemon(repo: Repo, home: Path, daemon: subprocess.Popen[bytes]) -> None:
    """The socket that a killed daemon left is a warning."""
    daemon.kill()
    daemon.wait()
    assert DaemonPaths(home).socket.exists()
    result = run_checks(repo.path)["daemon"]
    assert result.verdict is WARNING and "left from a daemon that was killed" in result.found


@pytest.mark.parametrize("create", [Path.touch, Path.mkdir])
def test_another_file_at_the_path_of_the_socket(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, create: Callable[[Path], None]
) -> None:
    """A file or folder at the socket's path is a problem, and the remedy is to move it."""
    monkeypatch.delenv("LINEAGE_NO_DAEMON")
    paths = DaemonPaths(home)
    paths.create_directories()
    create(paths.socket)
    result = run_checks(repo.path)["daemon"]
    assert (result.verdict, result.found) == (PROBLEM, f"{paths.socket} is not a socket.")
    assert result.remedy.startswith("Move or delete it")


@pytest.mark.parametrize("name", ["directory", "socket"])
def test_daemon_accessible_to_other_users(
    repo: Repo, home: Path, daemon: subprocess.Popen[bytes], name: str
) -> None:
    """A directory or socket that others may use is a problem, and the check does not correct its mode."""
    paths = DaemonPaths(home)
    path: Path = {"directory": paths.directory, "socket": paths.socket}[name]
    path.chmod(0o777)
    result = run_checks(repo.path)["daemon"]
    assert daemon.poll() is None
    assert result.verdict is PROBLEM and "accessible to other users" in result.found
    assert path.stat().st_mode & 0o777 == 0o777


def test_the_path_of_a_hook_that_is_not_executable_is_quoted(repo: Repo, tmp_path: Path) -> None:
    """The suggested command works in a repository whose path has a space."""
    path = repo.path.rename(tmp_path / "my project")
    initialize(path, InitOptions())
    hook = path / ".git" / "hooks" / "post-commit"
    hook.chmod(0o644)
    assert run_checks(path)["hooks"].remedy == f"Run `chmod +x '{hook}'`, then `lineage init`."


def test_hooks(repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Current, outdated, missing and non-executable hooks are distinguished, and `lineage` must be on PATH."""
    assert run_checks(repo.path)["hooks"].found == "none installed"
    initialize(repo.path, InitOptions())
    hooks = repo.path / ".git" / "hooks"
    assert (
        run_checks(repo.path)["hooks"].found
        == "post-commit, post-merge, post-checkout, post-rewrite in .git/hooks"
    )
    old = (hooks / "post-merge").read_text(encoding="utf-8")
    (hooks / "post-merge").write_text(old.replace("nice -n 19", "nice -n 5"), encoding="utf-8")
    assert run_checks(repo.path)["hooks"].found == "post-merge has an older version of lineage's section"
    (hooks / "post-merge").unlink()
    (hooks / "post-commit").chmod(0o644)
    result = run_checks(repo.path)["hooks"]
    assert result.found == (
        "post-commit is not executable, so git skips it; post-merge does not have lineage's section"
    )
    assert result.remedy.startswith("Run `chmod +x ") and "lineage init" in result.remedy
    (hooks / "post-rewrite").write_text(
        "#!/bin/sh\n# >>> lineage managed (do not edit) >>>\n", encoding="utf-8"
    )
    assert "without its end marker" in run_checks(repo.path)["hooks"].found
    git = shutil.which("git")
    assert git
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "not on PATH" in run_checks(repo.path)["hook program"].found
    (tmp_path / "lineage").write_text("#!/bin/sh\n", encoding="ascii")
    (tmp_path / "lineage").chmod(0o755)
    assert "another installation" in run_checks(repo.path)["hook program"].found


def test_shared_hooks_directory(repo: Repo, tmp_path: Path) -> None:
    """A hooks directory outside the repository is reported."""
    repo.git("config", "core.hooksPath", str(tmp_path / "shared"))
    assert "outside this repository" in run_checks(repo.path)["hooks"].found


def test_home(
    repo: Repo, home: Path, location: IndexLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index directory that others may read or write, that is a file, or that is not writable is reported."""
    home.chmod(0o755)
    result = run_checks(repo.path)["home"]
    assert (result.verdict, result.found) == (OK, f"{home}; its indexes are closed to other users")
    home.chmod(0o777)
    result = run_checks(repo.path)["home"]
    assert (result.verdict, result.remedy) == (WARNING, f"Run `chmod go-w {home}`.")
    assert result.found == f"other users may write to {home} (mode 0777)"
    home.chmod(0o775)
    group_may_write = f"the group may write to {home} (mode 0775)"
    assert run_checks(repo.path)["home"].found == group_may_write
    location.folder.chmod(0o755)
    others_may_read = f"other users may read indexes in {home}: {location.repo_id}"
    result = run_checks(repo.path)["home"]
    assert result.found == f"{group_may_write}; {others_may_read}"
    assert result.remedy == f"Run `chmod -R go-rwx {home}`: diffs may contain secrets."
    home.chmod(0o755)
    assert run_checks(repo.path)["home"].found == others_may_read
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("LINEAGE_HOME", str(file))
    assert "is not a directory" in run_checks(tmp_path)["home"].found
    monkeypatch.setenv("LINEAGE_HOME", str(tmp_path / "\udcff"))
    assert "LINEAGE_HOME is not UTF-8" in run_checks(tmp_path)["home"].found
    if os.getuid():
        monkeypatch.setenv("LINEAGE_HOME", str(home))
        home.chmod(0o500)
        assert "is not writable" in run_checks(tmp_path)["home"].found
        home.chmod(0o700)


def test_home_on_a_system_directory(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can create a directory in `/proc`, not even the superuser, who may write to it."""
    monkeypatch.setenv("LINEAGE_HOME", "/proc/lineage")
    result = run_checks(repo.path)["home"]
    assert result.verdict is PROBLEM and "cannot be created" in result.found


def test_disk_space(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too little disk space for an index run is a problem, little space is a warning."""
    usage = shutil.disk_usage(repo.path)
    for free, verdict in ((10**8, PROBLEM), (10**9, WARNING), (10**10, OK)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: usage._replace(free=free))
        assert run_checks(repo.path)["disk space"].verdict is verdict


def test_clients(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client entry with a missing command or another index directory is a warning with a remedy."""
    server = tmp_path / "lineage-mcp"
    server.write_text(f"#!/bin/sh\nexec {sys.executable} -m serve.mcp.lineage_server\n", encoding="utf-8")
    server.chmod(0o755)
    file = tmp_path / "user" / ".cursor" / "mcp.json"
    file.parent.mkdir()
    entry = {"command": str(server), "args": [], "env": {"LINEAGE_HOME": str(config.load_settings().home)}}
    other = {"command": "something-else"}
    file.write_text(json.dumps({"mcpServers": {"history": entry, "other": other}}), encoding="utf-8")
    assert run_checks(repo.path)["client cursor"] == CheckResult(
        "client cursor", OK, f"history in {file}: 4 tools"
    )
    server.write_text("#!/bin/sh\necho broken\n", encoding="utf-8")
    result = run_checks(repo.path)["client cursor"]
    assert result.verdict is WARNING and "the server does not answer" in result.found
    monkeypatch.setenv("LINEAGE_HOME", str(tmp_path / "elsewhere"))
    assert "its indexes are in" in run_checks(repo.path)["client cursor"].found
    server.unlink()
    result = run_checks(repo.path)["client cursor"]
    assert result.verdict is WARNING and f"{server} does not exist" in result.found
    assert "lineage register --client cursor --server-name history --write" in result.remedy


def test_entry_that_starts_no_server(repo: Repo, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A program that prints other lines and exits is a warning, and its lines are not logged."""
    program = tmp_path / "mindmap"
    program.write_text("#!/bin/sh\necho No maps.\n", encoding="utf-8")
    program.chmod(0o755)
    entry = {"command": str(program), "args": ["list"]}
    file = tmp_path / "user" / ".claude.json"
    file.write_text(json.dumps({"mcpServers": {"mindmap": entry}}), encoding="utf-8")
    result = run_checks(repo.path)["client claude-code"]
    assert result.verdict is WARNING and "the server does not answer" in result.found
    assert result.remedy == "Run `mindmap register --client claude-code --write`."
    assert not caplog.records


def test_servers_of_a_project_are_not_started(repo: Repo, tmp_path: Path) -> None:
    """A command in a file of the repository is not run, because the repository's author chose it."""
    server, trace = tmp_path / "mindmap", tmp_path / "was run"
    server.write_text(f"#!/bin/sh\ntouch '{trace}'\n", encoding="utf-8")
    server.chmod(0o755)
    repo.write(".mcp.json", json.dumps({"mcpServers": {"map": {"command": str(server), "args": ["mcp"]}}}))
    assert run_checks(repo.path)["client claude-code"].found == f"map in {repo.path}/.mcp.json"
    assert not trace.exists()


def test_odd_entries_of_clients(repo: Repo, tmp_path: Path) -> None:
    """An entry with arguments of the wrong type is read without them, and the failure of a server is named."""
    server = tmp_path / "lineage-mcp"
    server.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    server.chmod(0o755)
    file = tmp_path / "user" / ".cursor" / "mcp.json"
    file.parent.mkdir()
    entry = {"command": str(server), "args": 5, "env": {"LINEAGE_HOME": str(config.load_settings().home)}}
    file.write_text(json.dumps({"mcpServers": {"lineage": entry}}), encoding="utf-8")
    found = run_checks(repo.path)["client cursor"].found
    assert "the server does not answer" in found and "TaskGroup" not in found


def test_client_file_that_is_cut_off(repo: Repo, tmp_path: Path) -> None:
    """A file that mentions lineage and is not valid is a warning, because the client may not read it."""
    file = tmp_path / "user" / ".cursor" / "mcp.json"
    file.parent.mkdir()
    entry = '{"mcpServers": {"lineage": {"command": "/opt/bin/lineage-mcp"'
    for text in (entry, f"{entry}}}}}}}, /* mine\n}}"):
        file.write_text(text, encoding="utf-8")
        result = run_checks(repo.path)["client cursor"]
        assert result.verdict is WARNING and result.found.endswith("mentions lineage, but is not valid JSON")


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file that even root cannot read")
def test_unreadable_client_file(repo: Repo, tmp_path: Path) -> None:
    """An unreadable client file is a warning, and the files of other clients are checked."""
    cursor, gemini = (tmp_path / "user" / name for name in (".cursor/mcp.json", ".gemini/settings.json"))
    for file in (cursor, gemini):
        file.parent.mkdir()
    cursor.symlink_to("/proc/self/mem")
    gemini.write_text('{"mcpServers": {"history": {"command": "lineage-mcp"}}}', encoding="utf-8")
    results = run_checks(repo.path)
    assert results["client cursor"].found == f"{cursor} cannot be read"
    assert results["client gemini"].verdict is WARNING and "clients" not in results
