"""Suggested commands for a PATH argument."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from serve import text
from tests.pipeline.histories import get_location
from tests.repos import Repo
from tests.serve.commands import create_timeout_repo, run_lineage
from tests.serve.sample_index import build_index


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """Repository whose path needs quoting, seen from another repository."""
    monkeypatch.chdir(Repo.create(tmp_path / "here").path)
    return create_timeout_repo(tmp_path / "it's there")


def get_relative_path(repo: Repo) -> Path:
    """Return the repository's path relative to the working directory."""
    return Path(os.path.relpath(repo.path))


def find_lineage_commands(text: str) -> list[list[str]]:
    """Return the words of each lineage command in backquotes."""
    return [shlex.split(found) for found in re.findall(r"`(lineage (?:index|status)[^`]*)`", text)]


def test_errors_name_the_repository(repo: Repo, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A rebuild command in an error contains the PATH, so that pasting it rebuilds the right index."""
    build_index(repo, home, embedding_model="another")
    commands: list[list[str | Path]] = [
        ["index", get_relative_path(repo), "--rebuild"],
        ["query", get_relative_path(repo), "-q", "timeout"],
    ]
    for command in commands:
        assert run_lineage(*command) in {1, 2}
        assert find_lineage_commands(capfd.readouterr().err) == [
            ["lineage", "index", "--rebuild", "--yes", str(get_relative_path(repo))]
        ]
    assert run_lineage("index", get_relative_path(repo), "--rebuild", "--yes") == 0


def test_hints_name_the_repository(repo: Repo, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Hints in JSON and in doctor's output contain the PATH; texts of hits are unchanged."""
    repo.commit_file("docs/how.md", "Run `lineage index`.\n", "Say `lineage index` of the timeout")
    build_index(repo, home, revision="HEAD")
    repo.commit_file("new.py", "a = 1\n")
    expected = ["lineage", "index", "--incremental", str(get_relative_path(repo))]
    commands: list[list[str | Path]] = [
        ["query", get_relative_path(repo), "-q", "timeout"],
        ["explain", "docs/how.md", get_relative_path(repo)],
    ]
    for command in commands:
        assert run_lineage(*command, "--no-daemon") == 0
        answer = json.loads(capfd.readouterr().out)
        assert find_lineage_commands(answer["meta"]["hint"]) == [expected]
        hits = [hit for hit in answer["hits"] if hit["file_path"] == "docs/how.md"]
        assert (
            find_lineage_commands(hits[0]["commit_message"])
            == find_lineage_commands(hits[0]["diff_excerpt"])
            == [["lineage", "index"]]
        )
    run_lineage("doctor", get_relative_path(repo))
    assert expected in find_lineage_commands(capfd.readouterr().out)


@pytest.mark.parametrize(
    ("versions", "ending"),
    [
        ({"words_version": None}, "remedy: lineage index --force {path}"),
        ({"parser_python": "0"}, "; run `lineage index --force {path}`)"),
    ],
)
def test_status_names_the_repository(
    repo: Repo, home: Path, capfd: pytest.CaptureFixture[str], versions: dict[str, Any], ending: str
) -> None:
    """The remedy in the status contains the PATH, also inside the verdict."""
    build_index(repo, home, **versions)
    assert run_lineage("status", get_relative_path(repo)) == 0
    last = capfd.readouterr().out.splitlines()[-1]
    assert last.endswith(ending.format(path=shlex.quote(str(get_relative_path(repo)))))


def test_broken_index_hint_names_the_repository(
    repo: Repo, home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """An explanation without its index names the rebuild command with the PATH in both fields."""
    build_index(repo, home)
    get_location(repo, home).database.write_bytes(b"no database" * 1000)
    assert run_lineage("explain", "src/tcp.py", get_relative_path(repo), "--no-daemon") == 0
    meta = json.loads(capfd.readouterr().out)["meta"]
    expected = [["lineage", "index", "--rebuild", "--yes", str(get_relative_path(repo))]]
    assert (
        find_lineage_commands(meta["hint"])
        == find_lineage_commands(meta["explain"]["enrichment_limitation"])
        == expected
    )


def test_no_path_for_the_working_directory(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without a PATH argument commands have none, not even that of the previous command in the process."""
    run_lineage("query", get_relative_path(repo), "-q", "timeout")
    capfd.readouterr()
    monkeypatch.chdir(repo.path)
    assert run_lineage("query", "-q", "timeout") == 0
    assert find_lineage_commands(json.loads(capfd.readouterr().out)["meta"]["hint"]) == [["lineage", "index"]]
    assert not home.exists()


def test_git_option_for_a_file_is_its_directory(tmp_path: Path) -> None:
    """If PATH is a file, git commands use its directory."""
    (tmp_path / "a.py").touch()
    text.set_path_argument(tmp_path / "a.py")
    try:
        assert text.add_path_to_commands("`git fsck` names it") == f"`git -C {tmp_path} fsck` names it"
    finally:
        text.set_path_argument(Path())


@pytest.mark.parametrize(
    ("path", "template", "expected"),
    [
        ("../x", "Run `lineage index` again.", "Run `lineage index ../x` again."),
        ("-x", "`lineage index --force`", "`lineage index --force ./-x`"),
        ("a b", "`lineage status` says it", "`lineage status 'a b'` says it"),
        (".", "`lineage index`", "`lineage index`"),
        (
            "-x y",
            "`lineage show 1f2e:a.py` shows it",
            "`lineage show 1f2e:a.py --repository './-x y'` shows it",
        ),
        (".", "`lineage show 1f2e:a.py` shows it", "`lineage show 1f2e:a.py` shows it"),
        ("../x", "`lineage index --help` lists them", "`lineage index --help` lists them"),
        ("../x", "`lineage init` installs hooks", "`lineage init ../x` installs hooks"),
        ("../x", "`lineage plan --write` adds it", "`lineage plan --write ../x` adds it"),
        ("../x", "`git config --list`", "`git -C ../x config --list`"),
        ("../x", "`lineage gc`, `lineage indexed`", "`lineage gc`, `lineage indexed`"),
        ("a b", "`git fetch --unshallow`", "`git -C 'a b' fetch --unshallow`"),
        (".", "`git fsck` names it", "`git fsck` names it"),
        ("../x", 'put "lineage index" into the hook', 'put "lineage index" into the hook'),
    ],
)
def test_add_path_to_commands(path: str, template: str, expected: str) -> None:
    """The PATH is added to commands in backquotes that are about one repository."""
    text.set_path_argument(Path(path))
    try:
        assert text.add_path_to_commands(template) == expected
    finally:
        text.set_path_argument(Path())
