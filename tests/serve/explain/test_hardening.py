"""No program that a repository configures runs when lines are explained."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.git.git_cli import GitTimeout
from serve.explain import blame
from tests.repos import Repo
from tests.serve.explain.helpers import explain, get_limitation, list_blamed_commits, list_line_commits
from tests.serve.sample_index import build_index

ATTRIBUTES = "*.py filter=mine diff=mine\n"


@pytest.fixture
def markers(tmp_path: Path) -> Path:
    """A directory where every program that runs leaves a file."""
    folder = tmp_path / "markers"
    folder.mkdir()
    return folder


@pytest.fixture
def armed_repo(tmp_path: Path, markers: Path) -> Repo:
    """A repository that configures a program wherever git can run one."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "one\ntwo\n", "One")
    repo.commit_file("a.py", "one\nTWO\n", "Two")
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\ntouch "{markers}/$$"\ncat\n')
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


def test_no_program_runs(
    armed_repo: Repo, markers: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No filter, text conversion, external diff, monitor, hook, pager or prompt runs."""
    for name in ("GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_ASKPASS", "GIT_SSH_COMMAND", "PAGER", "SSH_ASKPASS"):
        monkeypatch.setenv(name, str(armed_repo.path.parent / "program"))
    answer = explain(armed_repo, home, "a.py", follow_moves=True, include_related=True)
    explain(armed_repo, home, "gone.py")
    assert list(markers.iterdir()) == []
    assert None not in list_line_commits(answer)
    assert len(answer.hits) == 2
    assert get_limitation(answer) == (
        "git's filter 'mine' was not run on this file, so lines that it changes count as not committed."
    )


INCLUDES = {
    "include.path": "{hidden}",
    "include.Path": "hidden",
    "include.path ": "%(prefix)/..{hidden}",
    "include.path  ": "~root/..{hidden}",
    "include.path   ": "~/../..{hidden}",
    "includeIf.gitdir:{work_tree}/.path": "{hidden}",
    "includeIf.gitdir:**/repo/.git.path": "hidden",
    "includeIf.gitdir/i:**/REPO/.git.path": "{hidden}",
    "includeIf.onbranch:mai*.path": "{hidden}",
    "includeIf.hasconfig:remote.*.url:https://example.org/**.path": "{hidden}",
}


@pytest.mark.parametrize("setting", INCLUDES)
def test_no_filter_of_an_included_file_runs(
    armed_repo: Repo, markers: Path, home: Path, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter that git reads through any form of include does not run, also where libgit2 does not follow it."""
    user_home = armed_repo.path.parent / "user" / "home"
    user_home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(user_home))
    hidden = armed_repo.path / ".git" / "hidden"
    hidden.write_text(f'[filter "other"]\n\tclean = {armed_repo.path.parent / "program"}\n')
    armed_repo.git("config", "remote.here.url", "https://example.org/x")
    value = INCLUDES[setting].format(hidden=hidden)
    if value.startswith("~/"):
        value = f"~/{os.path.relpath(hidden, user_home)}"
    armed_repo.git("config", setting.strip().format(work_tree=armed_repo.path), value)
    (armed_repo.path / ".git/info/attributes").write_text("*.py filter=other\n")
    explain(armed_repo, home, "a.py")
    assert list(markers.iterdir()) == []
    list_blamed_commits(armed_repo, "a.py")
    assert list(markers.iterdir()) or (
        "hasconfig" in setting and armed_repo.git("--version") < "git version 2.36"
    )


def test_filter_with_a_longer_name(tmp_path: Path, home: Path) -> None:
    """A filter whose name begins with the name of the file's filter and a dot is another filter."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "one\n")
    repo.write(".gitattributes", "*.py filter=mine\n")
    repo.git("config", "filter.mine.other.clean", "cat")
    assert get_limitation(explain(repo, home, "a.py")) == ""
    repo.git("config", "filter.mine.clean", "cat")
    assert "filter 'mine' was not run" in get_limitation(explain(repo, home, "a.py"))


def test_exponential_attributes_pattern_ends(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A blame for which git would match a pattern for hours is stopped with an error."""
    monkeypatch.setattr(blame, "RUN_TIMEOUT_SECONDS", 1.0)
    repo = Repo.create(tmp_path / "repo")
    file = "aaaa/" * 60 + "c"
    repo.commit_file(file, "one\n")
    repo.write(".gitattributes", "**/a*a/" * 12 + "b text\n")
    with pytest.raises(GitTimeout, match="git did not finish within 1 seconds"):
        explain(repo, home, file)


def test_armed_repo_runs_programs_otherwise(armed_repo: Repo, markers: Path) -> None:
    """Plain `git blame` does run programs in this repository, so the other tests can fail."""
    list_blamed_commits(armed_repo, "a.py")
    assert list(markers.iterdir())


def test_git_environment_variables_are_ignored(
    armed_repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inherited git variables, as inside a hook, do not redirect to another repository."""
    other = Repo.create(armed_repo.path.parent / "other")
    other.commit_file("a.py", "another\n")
    expected = list_line_commits(explain(armed_repo, home, "a.py"))
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.path / ".git/index"))
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'blame.ignoreRevsFile=nowhere'")
    assert list_line_commits(explain(armed_repo, home, "a.py")) == expected


def test_repository_is_not_modified(armed_repo: Repo, home: Path) -> None:
    """No file of the repository changes, including git's index file."""
    build_index(armed_repo, home)
    before = _read_file_states(armed_repo)
    os.utime(armed_repo.path / "a.py")  # makes git refresh its index
    explain(armed_repo, home, "a.py", include_related=True)
    assert _read_file_states(armed_repo) == before


def _read_file_states(repo: Repo) -> dict[str, tuple[int, int]]:
    files = [path for path in (repo.path / ".git").rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}
