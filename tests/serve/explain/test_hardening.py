"""Nothing that a repository has configured for a person at a terminal runs when lines are explained."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.repos import Repo
from tests.serve.explain.helpers import blamed, commits, explain, limitation
from tests.serve.sample_index import index

ATTRIBUTES = "*.py filter=mine diff=mine\n"


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """A folder where every program that runs leaves a mark."""
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


@pytest.fixture
def armed(tmp_path: Path, marks: Path) -> Repo:
    """A repository that names a program wherever git would run one."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "one\ntwo\n", "One")
    repo.commit_file("a.py", "one\nTWO\n", "Two")
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\ntouch "{marks}/$$"\ncat\n')
    program.chmod(0o755)
    settings = [
        *(f"filter.mine.{part}" for part in ("clean", "smudge")),
        *(f"diff.{part}" for part in ("external", "mine.command", "mine.textconv")),
        *("core.fsmonitor", "core.pager", "pager.blame", "gpg.program", "core.sshCommand", "core.askPass"),
    ]
    for setting in settings:
        repo.git("config", setting, str(program))
    for setting in ("log.showSignature", "filter.mine.required", "diff.mine.cachetextconv"):
        repo.git("config", setting, "true")
    hooks = repo.path / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "fsmonitor-watchman", "query-watchman", "reference-transaction"):
        (hooks / name).symlink_to(program)
    (repo.path / ".git/info/attributes").write_text(ATTRIBUTES)
    return repo


def test_no_program_runs(armed: Repo, marks: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No filter, text conversion, external diff, monitor, hook, pager, or prompt acts on a request."""
    for name in ("GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_ASKPASS", "GIT_SSH_COMMAND", "PAGER", "SSH_ASKPASS"):
        monkeypatch.setenv(name, str(armed.path.parent / "program"))
    answer = explain(armed, home, "a.py", follow_moves=True, include_related=True)
    explain(armed, home, "gone.py")
    assert list(marks.iterdir()) == []
    assert None not in commits(answer)
    assert len(answer.hits) == 2
    assert limitation(answer) == (
        "The filter 'mine' that this file passes through on its way into git was not run: "
        "lines it changes count as not committed."
    )


def test_no_filter_of_a_hidden_include_runs(armed: Repo, marks: Path, home: Path) -> None:
    """A filter named where git looks for configuration and libgit2 does not is not run either."""
    hidden = armed.path / ".git/hidden"
    hidden.write_text(f'[filter "other"]\n\tclean = {armed.path.parent / "program"}\n')
    armed.git("config", "remote.here.url", "https://example.org/x")
    armed.git("config", "includeIf.hasconfig:remote.*.url:https://example.org/**.path", str(hidden))
    (armed.path / ".git/info/attributes").write_text("*.py filter=other\n")
    explain(armed, home, "a.py")
    assert list(marks.iterdir()) == []
    blamed(armed, "a.py")
    assert list(marks.iterdir()) or armed.git("--version") < "git version 2.36"


def test_the_trap_works(armed: Repo, marks: Path) -> None:
    """The same repository does run programs for somebody at a terminal: the test above is worth something."""
    blamed(armed, "a.py")
    assert list(marks.iterdir())


def test_the_environment_does_not_steer_git(armed: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inherited variables of git's, as inside a hook, do not lead to another repository."""
    other = Repo.create(armed.path.parent / "other")
    other.commit_file("a.py", "another\n")
    expected = commits(explain(armed, home, "a.py"))
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.path / ".git/index"))
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'blame.ignoreRevsFile=nowhere'")
    assert commits(explain(armed, home, "a.py")) == expected


def test_nothing_is_written(armed: Repo, home: Path) -> None:
    """The repository is as it was, its index file included."""
    index(armed, home)
    before = _state(armed)
    os.utime(armed.path / "a.py")  # git would refresh its index at this
    explain(armed, home, "a.py", include_related=True)
    assert _state(armed) == before


def _state(repo: Repo) -> dict[str, tuple[int, int]]:
    files = [path for path in (repo.path / ".git").rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}
