"""`--force` after a new parser or term splitting: rows of the history are extracted again, vectors stay."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tree_sitter import Query

from pipeline import component_versions, extract, head_symbols, history_refresh, write
from pipeline.history_refresh import RecordedPaths, RefreshResult
from pipeline.syntax import grammars
from pipeline.syntax.grammars import Grammar
from pipeline.text import count_terms
from serve.index_status import load_status_at_path
from stores import database, writer
from stores.compatibility import CompatibilityStatus
from stores.writer import RefreshedRows
from tests.bench.indexes import compute_fingerprint
from tests.pipeline.histories import create_interleaved_repo, get_location, hide_object, run_index
from tests.repos import Repo

ROOT = Path(__file__).parents[2]
SCRIPT_FILE = "function start() {\n  return 1\n}\n"
# Tables whose fingerprints depend on the semantic texts, which a refresh does not change.
SEMANTIC_TABLES = ("hunks", "hunk_symbols", "vectors")
# The rows of two of these tables without the semantic texts.
HUNKS = "SELECT * EXCLUDE (hunk_id, semantic_text, text_digest) FROM hunks ORDER BY ALL"
HUNK_SYMBOLS = """
SELECT commit_sha, file_path, name, parent, kind, confidence
FROM hunk_symbols JOIN hunks USING (hunk_id) ORDER BY ALL"""
# Program that is killed before the second batch of a refresh. Arguments: repository, data directory.
KILLED_REFRESH = """
import os, signal, sys
from pathlib import Path
import pytest
from pipeline import write
from tests.pipeline.histories import run_index
from tests.pipeline.test_history_refresh import install_new_parser
from tests.repos import Repo
install_new_parser(pytest.MonkeyPatch())
write_rows, batches = write.write_refreshed_rows, []
def write_first_batch(*arguments):
    if batches:
        os.kill(os.getpid(), signal.SIGKILL)
    batches.append(arguments)
    write_rows(*arguments)
write.write_refreshed_rows = write_first_batch
run_index(Repo(Path(sys.argv[1])), Path(sys.argv[2]), force=True, commit_batch=5)
"""

Install = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """Repository with Python, JavaScript and text files, a rename between them, a deletion and merges."""
    repo = create_interleaved_repo(tmp_path_factory.mktemp("repository") / "repo", rounds=2)
    repo.commit_file("web/start.js", SCRIPT_FILE, "Start in the browser")
    repo.commit_file("notes.txt", "class Greeter\n", "Take notes")
    repo.rename("greeter.py", "greeter.txt")
    repo.write("greeter.txt", (repo.path / "greeter.txt").read_text().replace("hello", "good morning"))
    repo.commit("Greet in a text")
    repo.remove("topic0.py")
    repo.commit("Remove a topic")
    return repo


def install_new_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a Python parser of another version that finds no functions."""
    load_grammar = grammars.load_grammar

    @cache
    def load_other_grammar(name: str) -> Grammar:
        grammar = load_grammar(name)
        if name != "python":
            return grammar
        return replace(
            grammar, query=Query(grammar.language, "(class_definition name: (identifier) @name) @class")
        )

    monkeypatch.setattr(grammars, "load_grammar", load_other_grammar)
    monkeypatch.setattr(component_versions, "PARSER_VERSION", "9")


def install_new_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a term splitting of another version, which reverses the terms."""

    def count_reversed_terms(text: str) -> Counter[str]:
        return Counter({term[::-1]: frequency for term, frequency in count_terms(text).items()})

    for module in (extract, head_symbols):
        monkeypatch.setattr(module, "count_terms", count_reversed_terms)
    monkeypatch.setattr(component_versions, "WORDS_VERSION", "9")


def load_rows(repo: Repo, home: Path, sql: str) -> list[Any]:
    with database.open_for_reading(get_location(repo, home)) as connection:
        return connection.execute(sql).fetchall()


def load_embedded_rows(repo: Repo, home: Path) -> list[Any]:
    """Return the rows on which vectors depend."""
    return load_rows(
        repo, home, "SELECT commit_sha, file_path, semantic_text, text_digest FROM hunks ORDER BY ALL"
    )


def load_verdict(repo: Repo, home: Path) -> str:
    return str(load_status_at_path(repo.path, home)[1].verdict)


def assert_equals_new_index(repo: Repo, home: Path, new_home: Path) -> None:
    """Check that every row equals that of a new index, except semantic texts and vectors."""
    run_index(repo, new_home)
    expected, actual = (compute_fingerprint(repo.path, folder) for folder in (new_home, home))
    for table in SEMANTIC_TABLES:
        del expected[table], actual[table]
    assert actual == expected
    for sql in (HUNKS, HUNK_SYMBOLS):
        assert load_rows(repo, home, sql) == load_rows(repo, new_home, sql)


@pytest.mark.parametrize(
    ("install", "component", "batch"),
    [(install_new_parser, "parser_python", 3), (install_new_words, "words_version", 100)],
)
def test_forced_run_equals_a_new_index(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: Install, component: str, batch: int
) -> None:
    """After a refresh, the rows equal those of a new index, except for the vectors, and the verdict is compatible."""
    home = tmp_path / "home"
    run_index(repo, home)
    before, embedded_before = compute_fingerprint(repo.path, home), load_embedded_rows(repo, home)
    install(monkeypatch)
    expected_verdict = f"refresh recommended ({component} 1, now 9; run `lineage index --force`)"
    assert expected_verdict in load_verdict(repo, home)
    assert run_index(repo, home).refresh == RefreshResult()
    summary = run_index(repo, home, force=True, commit_batch=batch)
    assert summary.verdict.status is CompatibilityStatus.COMPATIBLE
    assert load_verdict(repo, home) == "compatible"
    assert summary.refresh.hunks > 0 and summary.refresh.failed_commits == ()
    after = compute_fingerprint(repo.path, home)
    assert after["symbol_postings"] != before["symbol_postings"]
    assert (after["vectors"], load_embedded_rows(repo, home)) == (before["vectors"], embedded_before)
    assert_equals_new_index(repo, home, tmp_path / "new")
    assert run_index(repo, home, force=True).refresh == RefreshResult()


def test_refresh_does_not_depend_on_workers(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers that extract every hunk again with the same parser and terms write the same rows."""
    run_index(repo, tmp_path)
    before = compute_fingerprint(repo.path, tmp_path)
    monkeypatch.setattr(component_versions, "WORDS_VERSION", "9")
    assert run_index(repo, tmp_path, force=True, commit_batch=2, jobs=2).refresh.hunks == before["hunks"][0]
    after = compute_fingerprint(repo.path, tmp_path)
    for table in ("metadata", "made_by"):
        assert after.pop(table) != before.pop(table)
    assert after == before


def test_killed_refresh_starts_again(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After `kill -9` between two batches the verdict still recommends `--force`, which completes the refresh."""
    home = tmp_path / "home"
    run_index(repo, home)
    before = compute_fingerprint(repo.path, home)
    command = [sys.executable, "-c", KILLED_REFRESH, str(repo.path), str(home)]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    assert compute_fingerprint(repo.path, home)["hunk_symbols"] != before["hunk_symbols"]
    install_new_parser(monkeypatch)
    assert "refresh recommended (parser_python 1, now 9" in load_verdict(repo, home)
    run_index(repo, home)
    assert "refresh recommended (parser_python 1, now 9" in load_verdict(repo, home)
    assert run_index(repo, home, force=True).verdict.status is CompatibilityStatus.COMPATIBLE
    assert_equals_new_index(repo, home, tmp_path / "new")


def test_refresh_extracts_only_affected_languages(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new JavaScript parser causes only hunks of JavaScript files to be extracted again."""
    run_index(repo, tmp_path)
    batches: list[RefreshedRows] = []
    write_rows = write.write_refreshed_rows

    def record_rows(index_writer: Any, rows: RefreshedRows, profile: Any) -> None:
        batches.append(rows)
        write_rows(index_writer, rows, profile)

    monkeypatch.setattr(write, "write_refreshed_rows", record_rows)
    monkeypatch.setattr(component_versions, "JAVASCRIPT_PARSER_VERSION", "9")
    assert run_index(repo, tmp_path, force=True).verdict.status is CompatibilityStatus.COMPATIBLE
    paths = [path for rows in batches for path in rows.hunks["file_path"].to_pylist()]
    assert paths == ["web/start.js", "greeter.txt"]  # the second has a new suffix


def test_new_ignore_rules_do_not_stop_a_refresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refresh follows the recorded hunks, not new ignore rules.

    Hunks of a path that is now ignored are refreshed too. No hunk is added for a path that is no longer ignored.
    """
    repo = create_interleaved_repo(tmp_path / "repo", rounds=1)
    repo.write(".lineageignore", "topic0.py\n")
    run_index(repo, tmp_path)
    repo.write(".lineageignore", "main.py\n")
    install_new_parser(monkeypatch)
    hunks_before = load_embedded_rows(repo, tmp_path)
    assert run_index(repo, tmp_path, force=True).verdict.status is CompatibilityStatus.COMPATIBLE
    assert load_embedded_rows(repo, tmp_path) == hunks_before
    names = load_rows(repo, tmp_path, "SELECT DISTINCT name FROM hunk_symbols WHERE confidence = 'ExactSpan'")
    assert names == [("Greeter",)]


def test_recorded_paths_are_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old paths of files that were not renamed are null, and not among the recorded paths."""
    recorded_paths: list[frozenset[str]] = []

    def create_filter(paths: frozenset[str]) -> RecordedPaths:
        recorded_paths.append(paths)
        return RecordedPaths(paths)

    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "def f(): pass\n")
    run_index(repo, tmp_path)
    install_new_parser(monkeypatch)
    monkeypatch.setattr(history_refresh, "RecordedPaths", create_filter)
    run_index(repo, tmp_path, force=True)
    assert recorded_paths == [{"a.py"}]


def test_new_commits_are_not_extracted_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that indexes new commits refreshes only the older ones."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "def old(): pass\n")
    run_index(repo, tmp_path)
    repo.commit_file("a.py", "def new(): pass\n")
    install_new_parser(monkeypatch)
    summary = run_index(repo, tmp_path, force=True)
    assert (summary.hunks, summary.refresh.hunks) == (1, 1)
    assert summary.verdict.status is CompatibilityStatus.COMPATIBLE


@pytest.mark.parametrize("missing", ["HEAD~1", "HEAD~1:a.py"])
def test_unreadable_commit_keeps_its_rows_and_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """If a commit is unreadable, the others are refreshed. When the object is back, `--force` refreshes the commit."""
    repo = Repo.create(tmp_path / "repo")
    home = tmp_path / "home"
    for number in range(4):
        repo.commit_file("a.py", f"class A:\n    def f{number}(self): pass\n", f"Change {number}")
    run_index(repo, home)
    install_new_parser(monkeypatch)
    with hide_object(repo, missing):
        summary = run_index(repo, home, force=True, commit_batch=2)
        failed = [entry.commit_sha for entry in summary.refresh.failed_commits]
        assert "refresh recommended (parser_python 1, now 9" in load_verdict(repo, home)
    assert repo.git("rev-parse", "HEAD~1") in failed
    sql = "SELECT DISTINCT commit_sha FROM hunk_symbols JOIN hunks USING (hunk_id) WHERE name LIKE 'f%'"
    assert {sha for (sha,) in load_rows(repo, home, sql)} == set(failed)
    assert summary.verdict.status is CompatibilityStatus.NEEDS_REFRESH
    assert run_index(repo, home, force=True).verdict.status is CompatibilityStatus.COMPATIBLE
    assert_equals_new_index(repo, home, tmp_path / "new")


def test_commits_that_git_deleted_keep_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the index has rows of commits that git deleted, a refresh is incomplete. `lineage gc` deletes the rows."""
    repo = Repo.create(tmp_path / "repo")
    home = tmp_path / "home"
    repo.commit_file("a.py", "def base(): pass\n", "Base")
    repo.branch("side")
    side = repo.commit_file("b.py", "def side(): pass\n", "On the side")
    run_index(repo, home)
    repo.switch("main")
    repo.git("branch", "-D", "side")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "--quiet", "--prune=now")
    install_new_parser(monkeypatch)
    summary = run_index(repo, home, force=True)
    assert [entry.commit_sha for entry in summary.refresh.failed_commits] == [side]
    assert summary.verdict.status is CompatibilityStatus.NEEDS_REFRESH
    with database.open_for_writing(get_location(repo, home)) as connection:
        writer.delete_commits(connection, [side])
    assert run_index(repo, home, force=True).verdict.status is CompatibilityStatus.COMPATIBLE
