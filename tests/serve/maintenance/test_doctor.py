"""`lineage doctor`: output, exit codes, absence of side effects, and the checks of git and the repository."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.git import git_cli
from serve.maintenance import doctor
from serve.maintenance.checks import CheckContext, CheckResult, report_problem
from stores.index_location import IndexLocation
from tests.repos import Repo
from tests.serve.commands import run_captured
from tests.serve.daemon import daemons
from tests.serve.maintenance.helpers import (
    PROBLEM,
    QUICK_CHECKS,
    WARNING,
    find_failed_checks,
    run_checks,
    snapshot_files,
)
from tests.serve.processes import run_lineage


def test_healthy_index_has_no_problems(repo: Repo) -> None:
    """With a fresh index in an intact repository all checks pass and the exit code is 0."""
    assert find_failed_checks(repo.path) == {}
    code, out, err = run_captured("doctor", repo.path)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1].endswith("checks: no problems.")
    assert "✓ index             1 commit, 1 hunk" in out


def test_json_has_verdict_and_results(repo: Repo, location: IndexLocation) -> None:
    """The JSON has the worst verdict and each result; a problem gives exit code 1."""
    code, out, _ = run_captured("doctor", repo.path, "--json")
    document = json.loads(out)
    assert (code, document["verdict"]) == (0, "ok")
    assert {"name", "verdict", "found", "remedy"} == set(document["checks"][0])
    location.database.write_bytes(b"no database")
    code, out, _ = run_captured("doctor", repo.path, "--json")
    assert (code, json.loads(out)["verdict"]) == (1, "problem")


def test_doctor_changes_nothing(repo: Repo, home: Path, tmp_path: Path) -> None:
    """No file, mode or modification time changes, and no daemon is started."""
    before = snapshot_files(tmp_path)
    code, _, _ = run_lineage("doctor", str(repo.path), env=daemons.build_environment(home))
    assert code == 0
    assert snapshot_files(tmp_path) == before


def test_doctor_creates_nothing(tmp_path: Path, home: Path) -> None:
    """Without a repository and an index directory the other checks run and nothing is created."""
    results = run_checks(tmp_path)
    assert results["repository"].verdict is WARNING
    assert "does not exist yet" in results["home"].found
    assert {"git", "disk space", "daemon", "clients"} <= set(results)
    assert not home.exists()


def test_missing_or_old_git(repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A missing git and one that is too old are reported."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run_checks(repo.path)["git"].found == "git is not on PATH"
    fake = tmp_path / "git"
    fake.write_text("#!/bin/sh\necho git version 2.30.9\n", encoding="ascii")
    fake.chmod(0o755)
    assert "2.30.9; 2.31 or newer is needed" in run_checks(repo.path)["git"].found
    assert git_cli.parse_version("2.39.5 (Apple Git-154)") == (2, 39, 5)


@pytest.mark.usefixtures("home")
def test_unreadable_repositories(tmp_path: Path) -> None:
    """A missing object, another object format, unusable settings and a missing commit are reported."""
    repo = Repo.create(tmp_path / "damaged")
    sha = repo.commit_file("a.py", "a = 1\n")
    object_file = repo.path / ".git" / "objects" / sha[:2] / sha[2:]
    object_file.chmod(0o644)
    object_file.write_bytes(b"not zlib data")
    assert run_checks(repo.path)["repository"].verdict is PROBLEM
    other = Repo.create(tmp_path / "other", object_format="sha256")
    assert "SHA-256" in run_checks(other.path)["repository"].found
    configured = Repo.create(tmp_path / "configured")
    configured.commit_file("a.py", "a = 1\n")
    configured.git("config", "include.path", f"%(prefix)/..{configured.path}/.git/config")
    assert "maximum include depth" in run_checks(configured.path)["repository"].found
    os.mkfifo(tmp_path / "pipe")
    for value, reason in (
        ("", "missing value for 'mailmap.file'"),
        (f" = {tmp_path}/pipe", "pipe is no regular file"),
    ):
        (configured.path / ".git" / "config").write_text(f"[mailmap]\n\tfile{value}\n")
        assert reason in run_checks(configured.path)["repository"].found
    empty = Repo.create(tmp_path / "empty")
    assert "no commits yet" in run_checks(empty.path)["repository"].found


def test_remedy_of_a_repository_that_does_not_open(tmp_path: Path) -> None:
    """The suggested command has the path of the repository."""
    repo = Repo.create(tmp_path / "repo")
    (repo.path / ".git" / "config").write_text("[core\n")
    output = run_captured("doctor", repo.path)[1]
    assert f"Run `git -C {repo.path} config --list` to see what is damaged." in output


@pytest.mark.parametrize(
    ("option", "clone_type"), [("--depth=1", "shallow"), ("--filter=blob:none", "partial")]
)
def test_shallow_and_partial_clones(repo: Repo, tmp_path: Path, option: str, clone_type: str) -> None:
    """A shallow or partial clone is a warning that says how to fetch the rest."""
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.commit_file("b.py", "b = 1\n")
    clone = repo.clone(tmp_path / "clone", option)
    result = run_checks(clone.path)["repository"]
    assert result.verdict is WARNING and clone_type in result.found and "git fetch" in result.remedy


def test_unreadable_commits(repo: Repo, tmp_path: Path) -> None:
    """The remedy is a fetch in a shallow clone, and `git fsck` in a damaged repository."""
    repo.commit_file("b.py", "b = 1\n")
    clone = repo.clone(tmp_path / "clone", "--depth=1")
    run_lineage("index", str(clone.path))
    result = run_checks(clone.path)["unreadable"]
    assert result.found == f"1 not indexed: {repo.head[:12]}" and "--unshallow" in result.remedy
    blob = repo.git("rev-parse", "HEAD:b.py")
    (repo.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    run_lineage("index", str(repo.path))
    assert "git fsck" in run_checks(repo.path)["unreadable"].remedy


def test_repository_of_another_user(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository of another user is a problem whose remedy names `safe.directory`."""
    if os.getuid():
        pytest.skip("only root can change the owner of files")
    for path in (repo.path, *repo.path.rglob("*")):
        os.chown(path, 4321, 4321, follow_symlinks=False)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    result = run_checks(repo.path)["repository"]
    assert result.verdict is PROBLEM and "safe.directory" in result.remedy


def test_interrupt_in_a_check_ends_the_command(repo: Repo) -> None:
    """DuckDB reports Ctrl-C and termination signals as a RuntimeError. It is not a result of the check."""

    def check(_: CheckContext) -> Iterator[CheckResult]:
        yield report_problem("interrupted", "", "")
        raise RuntimeError("Query interrupted") from KeyboardInterrupt()

    with pytest.raises(RuntimeError, match="Query interrupted"):
        run_checks(repo.path, {"interrupted": check})


def test_failing_check_does_not_stop_others(repo: Repo) -> None:
    """An unexpected error becomes a result of its check; the other checks run."""

    def fail(_: CheckContext) -> CheckResult:
        raise ZeroDivisionError("division failed")

    def broken(context: CheckContext) -> Iterator[CheckResult]:
        yield fail(context)

    results = run_checks(repo.path, {"broken": broken, **QUICK_CHECKS})
    assert results["broken"] == report_problem(
        "broken", "could not be checked: division failed", "Set LINEAGE_LOG=debug to see the traceback."
    )
    assert set(run_checks(repo.path)) < set(results)


def test_output_is_readable_without_color(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Symbols distinguish the verdicts, and control characters are escaped."""
    result = report_problem("a check", "bad \x1b[31mpath\udcff", "Fix it.")
    assert doctor.has_problem(doctor.print_results([result, replace(result, verdict=WARNING)]))
    output = capfdbinary.readouterr().out.decode()
    assert output.splitlines() == [
        "✗ a check           bad ␛[31mpath\\udcff",
        "                    → Fix it.",
        "! a check           bad ␛[31mpath\\udcff",
        "                    → Fix it.",
        "2 checks: 1 problem, 1 warning.",
    ]
