"""Path filters as typed by users and completed by shells."""

from __future__ import annotations

from pathlib import Path

import pytest

from serve.errors import BadRequest
from serve.search.query import normalize_path_filter


def has_no_path(_: str) -> bool:
    """Return False, as for a history without the path."""
    return False


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A work tree that contains a directory of its own name."""
    root = tmp_path / "app"
    (root / "app").mkdir(parents=True)
    (root / "app/models.py").touch()
    (root / "main.py").touch()
    return root


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("src/", "src/"),
        ("*.py", "*.py"),
        ("/docs", "/docs"),
        ("!docs/", "!docs/"),
        (".github/", ".github/"),
        ("a..b", "a..b"),
        ("./src/a.py", "src/a.py"),
        (".//./src/", "src/"),
        ("./*.py", "*.py"),
    ],
)
def test_patterns(root: Path, pattern: str, expected: str) -> None:
    """A pattern stays unchanged except for a leading `./`, with or without a work tree."""
    assert (
        normalize_path_filter(pattern, root, has_no_path)
        == normalize_path_filter(pattern, None, has_no_path)
        == expected
    )


def test_absolute_paths_into_the_work_tree(root: Path, tmp_path: Path) -> None:
    """An absolute path into the work tree, existing or not, becomes relative to the root and keeps a final slash."""
    (tmp_path / "link").symlink_to(root)
    assert normalize_path_filter(f"{root}/main.py", root, has_no_path) == "/main.py"
    assert normalize_path_filter(f"{root}/app/", root, has_no_path) == "/app/"
    assert normalize_path_filter(f"{root}/gone/*.py", root, has_no_path) == "/gone/*.py"
    assert normalize_path_filter(f"{tmp_path}/link/main.py", root, has_no_path) == "/main.py"
    assert normalize_path_filter(f"{root}/main.py", None, has_no_path) == f"{root}/main.py"


def test_special_characters_of_existing_paths_are_escaped(root: Path) -> None:
    """Special characters are literal in an existing path and a pattern otherwise."""
    (root / "[id]").mkdir()
    assert normalize_path_filter(f"{root}/[id]/", root, has_no_path) == r"/\[id\]/"
    assert normalize_path_filter(f"{root}/[ab]/", root, has_no_path) == "/[ab]/"


def test_escaped_bytes_of_answers_are_literal(root: Path) -> None:
    """A path with undecodable bytes, escaped as answers show it, matches literally."""
    path = r"caf\xe9/latin.py"
    assert normalize_path_filter(path, root, {path}.__contains__) == r"caf\\xe9/latin.py"
    assert normalize_path_filter(path, root, has_no_path) == path


def test_rooted_patterns(root: Path) -> None:
    """A pattern with a leading slash that is no path of the file system is relative to the root."""
    inside = root / str(root).lstrip("/") / "deep.py"
    inside.parent.mkdir(parents=True)
    inside.touch()
    assert normalize_path_filter(f"{root}/deep.py", root, has_no_path) == f"{root}/deep.py"
    assert normalize_path_filter("/lib", root, has_no_path) == "/lib"
    assert normalize_path_filter("/nul\0", root, has_no_path) == "/nul\0"


@pytest.mark.parametrize("pattern", [".", "./", "././", "..", "../x", "a/../b", "./../", "{root}", "{root}/"])
def test_paths_outside_the_work_tree_are_rejected(root: Path, pattern: str) -> None:
    """The root, its parents and its siblings are errors whose hint shows valid patterns."""
    with pytest.raises(BadRequest, match="relative to the repository's root"):
        normalize_path_filter(pattern.format(root=root), root, has_no_path)


def test_existing_paths_elsewhere_are_rejected(root: Path, tmp_path: Path) -> None:
    """An existing path outside the work tree is an error; one that does not exist is a pattern."""
    (tmp_path / "other").mkdir()
    with pytest.raises(BadRequest, match="names nothing inside the repository"):
        normalize_path_filter(f"{tmp_path}/other", root, has_no_path)
    assert normalize_path_filter(f"{tmp_path}/nowhere", root, has_no_path) == f"{tmp_path}/nowhere"
    assert (
        normalize_path_filter(f"{tmp_path}/other", root, {f"{tmp_path}/other".strip("/")}.__contains__)
        == f"{tmp_path}/other"
    )
