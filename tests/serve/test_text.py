"""Commands that a person is told of, given a PATH."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from serve import text
from tests.pipeline.histories import place
from tests.repos import Repo
from tests.serve.commands import lineage, timeouts
from tests.serve.sample_index import index


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A repository whose path a shell would take apart, seen from another one that one stands in."""
    monkeypatch.chdir(Repo.create(tmp_path / "here").path)
    return timeouts(tmp_path / "it's there")


def there(repo: Repo) -> Path:
    return Path(os.path.relpath(repo.path))


def commands(text: str) -> list[list[str]]:
    """The words of each command of ours that a text has in backquotes."""
    return [shlex.split(found) for found in re.findall(r"`(lineage (?:index|status)[^`]*)`", text)]


def test_errors_name_the_repository(repo: Repo, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A rebuild that is pasted deletes the index that was meant, and not that of where one stands."""
    index(repo, home, embedding_model="another")
    asked: list[list[str | Path]] = [
        ["index", there(repo), "--rebuild"],
        ["query", there(repo), "-q", "timeout"],
    ]
    for command in asked:
        assert lineage(*command) in {1, 2}
        assert commands(capfd.readouterr().err) == [
            ["lineage", "index", "--rebuild", "--yes", str(there(repo))]
        ]
    assert lineage("index", there(repo), "--rebuild", "--yes") == 0


def test_hints_name_the_repository(repo: Repo, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """In JSON, on a page and in the doctor's list; hits say what the history says."""
    repo.commit_file("docs/how.md", "Run `lineage index`.\n", "Say `lineage index` of the timeout")
    index(repo, home, upto="HEAD")
    repo.commit_file("new.py", "a = 1\n")
    meant = ["lineage", "index", "--incremental", str(there(repo))]
    asked: list[list[str | Path]] = [
        ["query", there(repo), "-q", "timeout"],
        ["explain", "docs/how.md", there(repo)],
    ]
    for command in asked:
        assert lineage(*command, "--no-daemon") == 0
        said = json.loads(capfd.readouterr().out)
        assert commands(said["meta"]["hint"]) == [meant]
        told = [hit for hit in said["hits"] if hit["file_path"] == "docs/how.md"]
        assert (
            commands(told[0]["commit_message"]) == commands(told[0]["diff_excerpt"]) == [["lineage", "index"]]
        )
    lineage("doctor", there(repo))
    assert meant in commands(capfd.readouterr().out)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"words_version": None}, "remedy: lineage index --force {path}"),
        ({"parser_python": "0"}, "; run `lineage index --rebuild --yes {path}`)"),
    ],
)
def test_status_names_the_repository(
    repo: Repo, home: Path, capfd: pytest.CaptureFixture[str], changed: dict[str, Any], says: str
) -> None:
    """The remedy can be pasted too, also where the verdict itself has it."""
    index(repo, home, **changed)
    assert lineage("status", there(repo)) == 0
    last = capfd.readouterr().out.splitlines()[-1]
    assert last.endswith(says.format(path=shlex.quote(str(there(repo)))))


def test_a_broken_index_names_the_repository_in_all_it_says(
    repo: Repo, home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """An explanation goes on without its index, and says twice what makes it anew."""
    index(repo, home)
    place(repo, home).database.write_bytes(b"no database" * 1000)
    assert lineage("explain", "src/tcp.py", there(repo), "--no-daemon") == 0
    meta = json.loads(capfd.readouterr().out)["meta"]
    meant = [["lineage", "index", "--rebuild", "--yes", str(there(repo))]]
    assert commands(meta["hint"]) == commands(meta["explain"]["enrichment_limitation"]) == meant


def test_where_one_stands_goes_without_saying(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without a PATH commands have none; nor has the next one in the same process that of the one before."""
    lineage("query", there(repo), "-q", "timeout")
    capfd.readouterr()
    monkeypatch.chdir(repo.path)
    assert lineage("query", "-q", "timeout") == 0
    assert commands(json.loads(capfd.readouterr().out)["meta"]["hint"]) == [["lineage", "index"]]
    assert not home.exists()


def test_git_stands_in_a_folder(tmp_path: Path) -> None:
    """A PATH may name a file."""
    (tmp_path / "a.py").touch()
    text.given(tmp_path / "a.py")
    try:
        assert text.pasted("`git fsck` names it") == f"`git -C {tmp_path} fsck` names it"
    finally:
        text.given(Path())


@pytest.mark.parametrize(
    ("path", "template", "told"),
    [
        ("../x", "Run `lineage index` again.", "Run `lineage index ../x` again."),
        ("-x", "`lineage index --force`", "`lineage index --force ./-x`"),
        ("a b", "`lineage status` says it", "`lineage status 'a b'` says it"),
        (".", "`lineage index`", "`lineage index`"),
        ("../x", "`lineage index --help` lists them", "`lineage index --help` lists them"),
        ("../x", "`lineage gc`, `lineage indexed`", "`lineage gc`, `lineage indexed`"),
        ("a b", "`git fetch --unshallow`", "`git -C 'a b' fetch --unshallow`"),
        (".", "`git fsck` names it", "`git fsck` names it"),
        ("../x", 'put "lineage index" into the hook', 'put "lineage index" into the hook'),
    ],
)
def test_what_is_pasted(path: str, template: str, told: str) -> None:
    """Commands in backquotes that are about one repository."""
    text.given(Path(path))
    try:
        assert text.pasted(template) == told
    finally:
        text.given(Path())
