"""Each check of what lineage stands on finds what it is for: models, the daemon, hooks, the home, room, clients."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.encoders import registry
from pipeline.encoders.base import OnnxEncoder
from pipeline.encoders.cross_encoder import CROSS_ENCODER, CrossEncoder
from serve import config
from serve.daemon.process import Address
from serve.maintenance import doctor, environment_checks
from serve.maintenance.findings import Finding
from serve.setup.init import Wishes, initialize
from stores import duckdb_engine
from stores.index_location import Place
from tests.repos import Repo
from tests.serve.daemon import daemons
from tests.serve.maintenance.helpers import OK, PROBLEM, WARNING, found


@pytest.mark.parametrize(
    ("name", "encoder"),
    [
        ("minilm.onnx", "encoder"),
        ("tokenizer.json", "encoder"),
        ("static.npz", "encoder static"),
        ("cross.npz", "cross-encoder"),
    ],
)
def test_models_that_are_not_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, encoder: str
) -> None:
    """A model file that is cut or gone is found by its digest, and its text does not embed."""
    folder = shutil.copytree(
        registry.FOLDER, tmp_path / "models", ignore=shutil.ignore_patterns("*.py", "__*")
    )
    monkeypatch.setattr(registry, "FOLDER", folder)
    monkeypatch.setattr("pipeline.encoders.base.MODELS", folder)
    checks = {name: doctor.CHECKS[name] for name in ("model files", encoder)}
    assert {one.verdict for one in found(tmp_path, checks).values()} == {OK, WARNING}
    file = folder / name
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    said = found(tmp_path, checks)
    assert (said["model files"].verdict, said[encoder].verdict) == (PROBLEM, PROBLEM)
    assert str(file) in said["model files"].found
    file.unlink()
    assert "no such file" in found(tmp_path, checks)["model files"].found


def test_an_encoder_that_talks_nonsense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors in which strangers are nearer than kin do not pass."""
    real = OnnxEncoder(threads=1)

    class Mixed:
        name, dimension = real.name, real.dimension

        def encode(self, texts: list[str]) -> object:
            return real.encode(texts)[[0, 2, 1]]

    monkeypatch.setattr(
        environment_checks, "bundled_encoder", lambda _, threads: Mixed() if threads else None
    )
    said = found(tmp_path, {"encoder": environment_checks.check_encoder})
    assert "make no sense" in said["encoder"].found


def test_the_cross_encoder_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The form the environment names is tried; scores that prefer something else do not pass."""
    checks: dict[str, doctor.Check] = {"cross-encoder": environment_checks.check_cross_encoder}
    monkeypatch.setenv("LINEAGE_RERANKER", "int8")
    assert f"{CROSS_ENCODER}/int8" in found(tmp_path, checks)["cross-encoder"].found
    real = CrossEncoder.scores
    monkeypatch.setattr(CrossEncoder, "scores", lambda *asked: -real(*asked))
    said = found(tmp_path, checks)["cross-encoder"]
    assert said.verdict is PROBLEM and "make no sense" in said.found


def test_an_extension_that_does_not_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel whose file is no extension of this database is a problem; one that is not there is none."""
    wheel = tmp_path / "duckdb_extension_vss-1.5.5.dist-info"
    wheel.mkdir()
    (wheel / "METADATA").write_text("Metadata-Version: 2.1\nName: duckdb-extension-vss\nVersion: 1.5.5\n")
    (wheel / "RECORD").write_text("vss.duckdb_extension,,\n")
    (tmp_path / "vss.duckdb_extension").write_bytes(b"no extension")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert duckdb_engine.installed("vss").fault
    assert duckdb_engine.installed("none of ours") == duckdb_engine.Extension("none of ours")


@pytest.fixture
def daemon(
    repo: Repo,  # noqa: ARG001 - of whose index a daemon is asked
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[subprocess.Popen[bytes]]:
    monkeypatch.delenv("LINEAGE_NO_DAEMON")
    with daemons.running(home) as process:
        yield process


def test_a_daemon_that_answers(repo: Repo, daemon: subprocess.Popen[bytes]) -> None:
    """A daemon at work says which process it is."""
    said = found(repo.path)["daemon"]
    assert said.verdict is OK and f"process {daemon.pid}" in said.found


def test_a_daemon_of_another_build(
    repo: Repo, daemon: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of another program is going to be replaced."""
    monkeypatch.setattr("serve.daemon.process.build", lambda: "another")
    assert daemon.poll() is None
    assert found(repo.path)["daemon"].verdict is WARNING


def test_a_daemon_that_hangs(
    repo: Repo, home: Path, daemon: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that takes connections and never answers is a problem, and its number is told."""
    monkeypatch.setattr("serve.maintenance.environment_checks.PATIENCE_SECONDS", 0.3)
    os.kill(daemon.pid, signal.SIGSTOP)
    said = found(repo.path)["daemon"]
    os.kill(daemon.pid, signal.SIGCONT)
    assert said.verdict is PROBLEM and "within 0.3 s" in said.found
    if sys.platform == "linux":
        assert f"kill -9 {daemon.pid}" in said.remedy
    assert home.exists()


def test_a_socket_nobody_listens_on(repo: Repo, home: Path, daemon: subprocess.Popen[bytes]) -> None:
    """What a killed daemon leaves is told as that."""
    daemon.kill()
    daemon.wait()
    assert Address(home).socket.exists()
    said = found(repo.path)["daemon"]
    assert said.verdict is WARNING and "left behind" in said.found


@pytest.mark.parametrize("what", ["folder", "socket"])
def test_a_daemon_open_to_others(repo: Repo, home: Path, daemon: subprocess.Popen[bytes], what: str) -> None:
    """A folder or socket that others may use is a problem; it is not asked, which would close the folder."""
    address = Address(home)
    path: Path = {"folder": address.folder, "socket": address.socket}[what]
    path.chmod(0o777)
    said = found(repo.path)["daemon"]
    assert daemon.poll() is None
    assert said.verdict is PROBLEM and "open to other users" in said.found
    assert path.stat().st_mode & 0o777 == 0o777


def test_hooks(repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hooks that are current, old, switched off, partly gone, and without a program to start."""
    assert found(repo.path)["hooks"].found == "none installed"
    initialize(repo.path, Wishes())
    hooks = repo.path / ".git" / "hooks"
    assert (
        found(repo.path)["hooks"].found
        == "post-commit, post-merge, post-checkout, post-rewrite in .git/hooks"
    )
    old = (hooks / "post-merge").read_text(encoding="utf-8")
    (hooks / "post-merge").write_text(old.replace("nice -n 19", "nice -n 5"), encoding="utf-8")
    assert found(repo.path)["hooks"].found == "post-merge has an older part of ours"
    (hooks / "post-merge").unlink()
    (hooks / "post-commit").chmod(0o644)
    said = found(repo.path)["hooks"]
    assert said.found == "post-commit may not be executed, so git skips it; post-merge has no part of ours"
    assert said.remedy.startswith("`chmod +x ") and "lineage init" in said.remedy
    (hooks / "post-rewrite").write_text(
        "#!/bin/sh\n# >>> lineage managed (do not edit) >>>\n", encoding="utf-8"
    )
    assert "without an end" in found(repo.path)["hooks"].found
    git = shutil.which("git")
    assert git
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "not on PATH" in found(repo.path)["hooks' program"].found
    (tmp_path / "lineage").write_text("#!/bin/sh\n", encoding="ascii")
    (tmp_path / "lineage").chmod(0o755)
    assert "another installation" in found(repo.path)["hooks' program"].found


def test_hooks_of_many_repositories(repo: Repo, tmp_path: Path) -> None:
    """A folder of hooks outside the repository is named; nothing can be installed there."""
    repo.git("config", "core.hooksPath", str(tmp_path / "shared"))
    assert "outside this repository" in found(repo.path)["hooks"].found


def test_home(repo: Repo, home: Path, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home that others may read, that is no folder, or that may not be written to."""
    home.chmod(0o755)
    assert found(repo.path)["home"].verdict is OK  # its folders are closed
    place.folder.chmod(0o755)
    assert found(repo.path)["home"].found.endswith(f": {place.repo_id}")
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("LINEAGE_HOME", str(file))
    assert "is no folder" in found(tmp_path)["home"].found
    if os.getuid():
        monkeypatch.setenv("LINEAGE_HOME", str(home))
        home.chmod(0o500)
        assert "may not be written to" in found(tmp_path)["home"].found
        home.chmod(0o700)


def test_room(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk without room for a run is a problem, one with little is worth a word."""
    usage = shutil.disk_usage(repo.path)
    for free, verdict in ((10**8, PROBLEM), (10**9, WARNING), (10**10, OK)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: usage._replace(free=free))
        assert found(repo.path)["room"].verdict is verdict


def test_clients(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client whose command is gone, or that asks another home, is told how to mend it."""
    server = tmp_path / "lineage-mcp"
    server.write_text("#!/bin/sh\n", encoding="ascii")
    server.chmod(0o755)
    file = tmp_path / "person" / ".cursor" / "mcp.json"
    file.parent.mkdir()
    entry = {"command": str(server), "args": [], "env": {"LINEAGE_HOME": str(config.read().home)}}
    other = {"command": "something-else"}
    file.write_text(json.dumps({"mcpServers": {"history": entry, "other": other}}), encoding="utf-8")
    assert found(repo.path)["client cursor"] == Finding("client cursor", OK, f"history in {file}")
    monkeypatch.setenv("LINEAGE_HOME", str(tmp_path / "elsewhere"))
    assert "it looks for indexes in" in found(repo.path)["client cursor"].found
    server.unlink()
    said = found(repo.path)["client cursor"]
    assert said.verdict is WARNING and f"{server} is not there" in said.found
    assert "lineage register --client cursor --write" in said.remedy
    file.write_text('{"mcpServers": {"history": {"command": "lineage-mcp"}}, // mine\n}', encoding="utf-8")
    assert "not checked" in found(repo.path)["client cursor"].found


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file that even root cannot read")
def test_a_clients_file_that_cannot_be_read(repo: Repo, tmp_path: Path) -> None:
    """It is a finding of its own, and the other clients are looked at all the same."""
    cursor, gemini = (tmp_path / "person" / name for name in (".cursor/mcp.json", ".gemini/settings.json"))
    for file in (cursor, gemini):
        file.parent.mkdir()
    cursor.symlink_to("/proc/self/mem")
    gemini.write_text('{"mcpServers": {"history": {"command": "lineage-mcp"}}}', encoding="utf-8")
    said = found(repo.path)
    assert said["client cursor"].found == f"{cursor} cannot be read"
    assert said["client gemini"].verdict is WARNING and "clients" not in said
