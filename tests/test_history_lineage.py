"""The console scripts in a hostile Python environment of the user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import history_lineage
from tests.repos import Repo
from tests.serve.mcp.clients import INITIALIZE_REQUEST

# Packages of this program and of its dependencies, by the names that a user's own packages may have.
NAMES = ("serve", "pipeline", "stores", "mindmap", "numpy", "duckdb", "joblib", "typer", "mcp")


@pytest.fixture
def user_packages(tmp_path: Path) -> Path:
    """A directory with packages that fail when they are imported."""
    folder = tmp_path / "packages"
    for name in NAMES:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(
            f"raise SystemExit('the package {name} of the user was imported')"
        )
    return folder


def run_script(
    user_packages: Path, home: Path, *command: str | Path, stdin: str = "", python_path: str | None = None
) -> str:
    """Run an installed console script in the directory of the packages, by default with it on PYTHONPATH."""
    program, *arguments = map(str, command)
    result = subprocess.run(
        [str(Path(sys.executable).with_name(program)), *arguments],
        cwd=user_packages,
        env=os.environ
        | {
            "PYTHONPATH": python_path or f"{user_packages}{os.pathsep}{os.pathsep}.",
            "LINEAGE_HOME": str(home),
            "MINDMAP_DATA_DIR": str(home / "maps"),
        },
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_packages_of_the_user_are_not_imported(user_packages: Path, home: Path, tmp_path: Path) -> None:
    """Every program works, with its workers and the daemon, whatever packages PYTHONPATH has."""
    repo = Repo.create(tmp_path / "repo")
    for number in range(3):
        repo.commit_file("a.py", f"timeout = {number}\n", f"Set the timeout to {number}")
    run_script(user_packages, home, "lineage", "index", repo.path, "--encoder", "static", "--workers", "2")
    try:
        found = json.loads(run_script(user_packages, home, "lineage", "query", repo.path, "-q", "timeout"))
        assert len(found["hits"]) == 3
        assert '"running"' in run_script(user_packages, home, "lineage", "daemon", "status", "--json")
    finally:
        run_script(user_packages, home, "lineage", "daemon", "stop")
    run_script(user_packages, home, "lineage", "explain", "a.py", repo.path, "--no-daemon")
    run_script(user_packages, home, "lineage", "status", repo.path)
    run_script(user_packages, home, "lineage", "index", repo.path, "--incremental")
    run_script(user_packages, home, "mindmap", "list")
    for program in (("lineage-mcp",), ("mindmap", "mcp")):
        answer = run_script(user_packages, home, *program, stdin=json.dumps(INITIALIZE_REQUEST) + "\n")
        assert json.loads(answer)["result"]["serverInfo"]


@pytest.mark.parametrize("path", [".:{}", ":{}", "{}:", "bin:{}"])
def test_git_of_the_repository_is_not_run(
    home: Path, tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty or relative entry of PATH runs no program of the repository."""
    repo = Repo.create(tmp_path / "repo")
    for name in ("git", "bin/git"):
        repo.write(name, f"#!/bin/sh\ntouch '{tmp_path}/was run'\n")
        (repo.path / name).chmod(0o755)
    repo.commit_file("a.py", "x = 1\n")
    monkeypatch.setenv("PATH", path.format(os.environ["PATH"]))
    run_script(repo.path, home, "lineage", "explain", "a.py", "--no-daemon")
    run_script(tmp_path, home, "lineage", "explain", "a.py", repo.path, "--no-daemon")
    assert not (tmp_path / "was run").exists()


@pytest.mark.parametrize("path", ["", ".", None])
def test_path_without_absolute_entries(monkeypatch: pytest.MonkeyPatch, path: str | None) -> None:
    """Without an absolute entry, PATH is the default of the system."""
    monkeypatch.setenv("PATH", path or "")
    if path is None:
        monkeypatch.delenv("PATH")
    history_lineage.remove_relative_path_entries()
    assert os.environ["PATH"] == os.defpath


@pytest.mark.parametrize(
    "python_path", [f"{os.pathsep}/opt/x", f"/opt/x{os.pathsep}", os.pathsep, ".", "../packages"]
)
def test_working_directory_is_not_imported(user_packages: Path, home: Path, python_path: str) -> None:
    """An empty or relative entry of PYTHONPATH imports nothing from the working directory."""
    run_script(user_packages, home, "lineage", "status", "--all", python_path=python_path)
    run_script(user_packages, home, "mindmap", "list", python_path=python_path)


def test_working_directory_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Relative entries are removed and absolute ones moved to the end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), "", str(tmp_path / "lib"), "/user", "/library"])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "lib", "/user/"]))
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    history_lineage.demote_user_paths()
    assert sys.path == ["/library", "/user"]
    assert "PYTHONPATH" not in os.environ


def test_installation_on_pythonpath_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation that PYTHONPATH itself names stays importable for child processes; other entries do not."""
    installation = str(Path(history_lineage.__file__).parent)
    monkeypatch.setattr(sys, "path", ["/user", installation, "/library"])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/user", installation]))
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    history_lineage.demote_user_paths()
    assert sys.path == ["/library", "/user", installation]
    assert os.environ["PYTHONPATH"] == installation
