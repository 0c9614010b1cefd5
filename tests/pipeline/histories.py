"""Repositories for tests of index runs, and index runs with a simple encoder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pipeline.git.repository import open_repository
from pipeline.run import IndexRun, Progress, RunOptions, RunSummary
from serve.repositories import locate_index
from stores import database, locks
from stores.index_location import IndexLocation
from tests.repos import Repo, create_once
from tests.serve.sample_index import WordEncoder

GREETER = """\
class Greeter:
    def greet(self, name):
        return "hello " + name

    def part(self, name):
        return "bye " + name
"""

# Statements that turn an index into one of schema 2, which had no rows for the messages of commits without hunks.
_SCHEMA_2: Final = (
    "DROP TABLE branch_patterns",
    "DROP TABLE branch_tips",
    "CREATE TEMP TABLE messages AS SELECT hunk_id FROM hunks WHERE file_path = ''",
    "DELETE FROM hunk_postings WHERE hunk_id IN (FROM messages)",
    "DELETE FROM hunks WHERE hunk_id IN (FROM messages)",
    "DELETE FROM vectors WHERE text_digest NOT IN"
    " (SELECT text_digest FROM hunks UNION SELECT message_digest FROM commits)",
    "DELETE FROM terms WHERE term_id NOT IN (SELECT term_id FROM hunk_postings UNION SELECT term_id"
    " FROM symbol_postings UNION SELECT term_id FROM head_postings)",
    "DROP SCHEMA fts_main_hunks CASCADE",
    "DROP SCHEMA fts_main_head_symbols CASCADE",
    "ALTER TABLE vectors RENAME TO quantized",
    "CREATE TABLE vectors (text_digest BLOB NOT NULL, embedding FLOAT[384] NOT NULL)",
    "INSERT INTO vectors SELECT text_digest, list_transform(codes::FLOAT[], lambda code: code * scale)"
    " FROM quantized",
    "DROP TABLE quantized",
    "DELETE FROM migrations",
    "INSERT INTO migrations VALUES (2, now()::TIMESTAMP)",
    "UPDATE metadata SET version = '2' WHERE component = 'schema'",
)


@create_once
def create_interleaved_repo(path: Path, rounds: int = 6) -> Repo:
    """Create a repository whose branches get commits in turns and are merged, `rounds` times.

    The last two commits change only an ignored file, and nothing.
    """
    repo = Repo.create(path)
    repo.commit_file("greeter.py", GREETER, "Greet and part")
    for number in range(rounds):
        repo.branch(f"topic{number}")
        for step in range(3):
            repo.commit_file(
                f"topic{number}.py", f"def step{step}():\n    return {number}\n", f"Step {step} of {number}"
            )
            repo.switch("main")
            repo.commit_file(
                "main.py", f"def turn():\n    return {number * 10 + step}\n", f"Turn {number}.{step}"
            )
            repo.switch(f"topic{number}")
        repo.switch("main")
        repo.merge(f"topic{number}", message=f"Bring in topic {number}")
    repo.commit_file("package-lock.json", "{}", "Only what is ignored")
    repo.commit("Nothing at all")
    return repo


def get_location(repo: Repo, home: Path) -> IndexLocation:
    """Return the location of the repository's index below the data directory `home`."""
    return locate_index(home, open_repository(repo.path))


def run_index(
    repo: Repo, home: Path, reports: list[Progress] | None = None, *, jobs: int = 1, **options: Any
) -> RunSummary:
    """Index the repository with a simple encoder.

    `reports`: list to which the progress is appended. `jobs`: number of worker processes, and of threads that embed.
    `options`: further arguments of RunOptions.
    """
    report = (lambda _: None) if reports is None else reports.append
    repository = open_repository(repo.path)
    location = get_location(repo, home)
    with locks.acquire_run_lock(location):
        run_options = RunOptions(**options)
        return IndexRun(repository, location, run_options, WordEncoder(), jobs, jobs, report).run()


def turn_into_schema_2(repo: Repo, home: Path) -> None:
    """Turn the repository's index into one of schema 2, in which commits without hunks have no row in `hunks`."""
    with database.open_for_writing(get_location(repo, home)) as connection:
        for statement in _SCHEMA_2:
            connection.execute(statement)


@contextmanager
def hide_object(repo: Repo, name: str) -> Iterator[None]:
    """Remove an object during the `with` statement's body."""
    sha = repo.git("rev-parse", name)
    object_file = repo.path / ".git" / "objects" / sha[:2] / sha[2:]
    content = object_file.read_bytes()
    object_file.unlink()
    yield
    object_file.write_bytes(content)
