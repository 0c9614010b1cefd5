"""Recorded commits, histories of files, changes that can define a symbol, and similar names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline.git.repository import open_repository
from serve.repositories import locate_index
from stores import database, history
from stores.history import ReachabilityDelta, find_similar_names, load_symbol_touches
from tests.repos import Repo
from tests.serve.sample_index import build_index
from tests.stores.sample_index import SampleHunk, create_index, make_sha


def test_recorded_commits() -> None:
    """Only commits with rows are found."""
    connection = create_index([SampleHunk(1, "a"), SampleHunk(2, "a")])
    assert history.find_recorded_commits(connection, [make_sha(n) for n in (2, 3, 2, 1)]) == {
        make_sha(1),
        make_sha(2),
    }
    assert history.find_recorded_commits(connection, []) == set()


def test_file_history() -> None:
    """A file's commits are newest first, follow renames, and exclude other files and unreachable commits."""
    paths = ["old", "middle", "other", "new", "new", "new", "old", "new"]
    hunks = [SampleHunk(number, path) for number, path in enumerate(paths, 1)]
    connection = create_index(hunks, unreachable=[6])
    for number, old_path in ((2, "old"), (4, "middle"), (8, "new")):
        connection.execute("UPDATE hunks SET old_path = ? WHERE commit_sha = ?", [old_path, make_sha(number)])

    def list_numbers(path: str, delta: ReachabilityDelta) -> list[int]:
        number_by_sha = {hunk.sha: hunk.commit for hunk in hunks}
        changes = history.load_file_history(connection, path, delta, sort_by_date)
        return [number_by_sha[sha] for sha, _ in changes]

    assert list_numbers("new", ReachabilityDelta()) == [8, 5, 4, 2, 1]
    assert list_numbers("old", ReachabilityDelta()) == [7, 1]
    complete_delta = ReachabilityDelta(added_commits=(make_sha(1), make_sha(6)), lists_all_commits=True)
    assert list_numbers("new", complete_delta) == [6]
    assert list_numbers("nowhere", ReachabilityDelta()) == []


@pytest.mark.parametrize(
    ("paths", "old_paths"),
    [("abaabb", {2: "a", 3: "b", 5: "a"}), ("abaacb", {2: "a", 3: "b", 5: "a", 6: "c"})],
)
def test_former_name_counts_up_to_its_last_rename(paths: str, old_paths: dict[int, str]) -> None:
    """A file that was renamed twice from the same name has the commits under this name up to the second rename."""
    connection = create_index([SampleHunk(number, path) for number, path in enumerate(paths, 1)])
    for number, old_path in old_paths.items():
        connection.execute("UPDATE hunks SET old_path = ? WHERE commit_sha = ?", [old_path, make_sha(number)])
    changes = history.load_file_history(connection, "b", ReachabilityDelta(), sort_by_date)
    assert [sha for sha, _ in changes] == [make_sha(number) for number in (6, 5, 4, 3, 2, 1)]


def sort_by_date(dates: Mapping[str, int]) -> list[str]:
    return sorted(dates, key=dates.__getitem__, reverse=True)


def test_file_commits() -> None:
    """Commits are in the order of the hunks, with the paths of the file after and before the change."""
    connection = create_index([SampleHunk(1, "a"), SampleHunk(2, "b"), SampleHunk(3, "b")])
    connection.execute("UPDATE hunks SET old_path = 'a' WHERE commit_sha = ?", [make_sha(2)])
    commits = history.load_file_commits(connection, [1, 0])
    assert [(commit.commit_sha, commit.path, commit.old_path) for commit in commits] == [
        (make_sha(2), b"b", b"a"),
        (make_sha(1), b"a", b"a"),
    ]


@pytest.mark.parametrize(
    ("path", "name", "texts", "expected"),
    [
        (
            "a.py",
            "f",
            ["def f(n):\n    return n\n", "def f(n):\n    return f(n)\n", "def f():\n    return f(n)\n"],
            [1, 0, 1],
        ),
        (
            "a.rs",
            "f",
            ["fn f() { g(1) }\n", "fn f() {\n    f()\n}\n", "fn f() {\n    f();\n    go()\n}\n"],
            [1, 1, 0],
        ),
        (
            "a.js",
            "$f",
            [
                "const $f = () => {\n  go(1)\n}\n",
                "const $f = () => {\n  $f(1)\n}\n",
                "const $f = () => {\n  go(2)\n}\n",
            ],
            [1, 1, 1],
        ),
        (
            "a.js",
            "f",
            [
                "const f = () => {\n  go(1)\n}\n",
                "const f = () => {\n  off(1)\n}\n",
                "const f = () => {\n  f(2)\n}\n",
            ],
            [1, 0, 1],
        ),
        ("a.py", "größe", ["def größe():\n    return 1\n", "def größe():\n    return 2\n"], [1, 0]),
    ],
)
def test_changes_that_can_define_a_symbol(
    tmp_path: Path, path: str, name: str, texts: list[str], expected: list[int]
) -> None:
    """Only changes of a line that can define the name are compared, by the language's keywords if it has them."""
    repo = Repo.create(tmp_path / "repo")
    for text in texts:
        repo.commit_file(path, text)
    build_index(repo, tmp_path / "home")
    location = locate_index(tmp_path / "home", open_repository(repo.path))
    with database.open_for_reading(location) as connection:
        touches = load_symbol_touches(connection, name, lambda _: True)
        assert load_symbol_touches(connection, name, lambda _: False) == []
    assert [touch.may_introduce_or_remove for touch in touches] == [bool(flag) for flag in expected]


def test_similar_names(tmp_path: Path) -> None:
    """Misspelled names and names with other endings are found, the most similar first, in any case."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file(
        "a.py", "".join(f"def {name}(): pass\n" for name in ("get_user", "get_users", "run", "Connect"))
    )
    build_index(repo, tmp_path / "home")
    location = locate_index(tmp_path / "home", open_repository(repo.path))
    with database.open_for_reading(location) as connection:
        assert find_similar_names(connection, "get_usr", 3) == ["get_user", "get_users"]
        assert find_similar_names(connection, "conect", 3) == ["Connect"]
        assert find_similar_names(connection, "walk", 3) == []
