"""Queries for the history of a symbol: which changes can define it, and similar names."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.git.repository import open_repository
from serve.repositories import locate_index
from stores import database
from stores.history import find_similar_names, load_symbol_touches
from tests.repos import Repo
from tests.serve.sample_index import build_index


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
    assert [touch.may_define for touch in touches] == [bool(flag) for flag in expected]


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
