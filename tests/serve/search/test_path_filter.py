"""Path filters as people type them, and as shells complete them."""

from __future__ import annotations

from pathlib import Path

import pytest

from serve.errors import BadRequest
from serve.search.query import rooted


def nowhere(_: str) -> bool:
    """A history that has no such path."""
    return False


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A work tree with a folder that is called as it is itself."""
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
    """A pattern stays as it is but for `./` in front, also where nothing is known of the work tree."""
    assert rooted(pattern, root, nowhere) == rooted(pattern, None, nowhere) == expected


def test_paths_of_this_machine(root: Path, tmp_path: Path) -> None:
    """An absolute path into the work tree, there or not, is a pattern of what lies there; slashes at the end stay."""
    (tmp_path / "link").symlink_to(root)
    assert rooted(f"{root}/main.py", root, nowhere) == "/main.py"
    assert rooted(f"{root}/app/", root, nowhere) == "/app/"
    assert rooted(f"{root}/gone/*.py", root, nowhere) == "/gone/*.py"
    assert rooted(f"{tmp_path}/link/main.py", root, nowhere) == "/main.py"
    assert rooted(f"{root}/main.py", None, nowhere) == f"{root}/main.py"


def test_signs_of_a_path_of_this_machine(root: Path) -> None:
    """What a shell completes is that path and no other; what is not there may be a pattern."""
    (root / "[id]").mkdir()
    assert rooted(f"{root}/[id]/", root, nowhere) == r"/\[id\]/"
    assert rooted(f"{root}/[ab]/", root, nowhere) == "/[ab]/"


def test_a_path_that_an_answer_showed(root: Path) -> None:
    """Bytes that are no text are shown escaped, and can be asked for so."""
    shown = r"caf\xe9/latin.py"
    assert rooted(shown, root, {shown}.__contains__) == r"caf\\xe9/latin.py"
    assert rooted(shown, root, nowhere) == shown


def test_a_pattern_may_look_like_a_path(root: Path) -> None:
    """What begins with a slash and is there in the work tree, but not on the machine, counts from the root."""
    inside = root / str(root).lstrip("/") / "deep.py"
    inside.parent.mkdir(parents=True)
    inside.touch()
    assert rooted(f"{root}/deep.py", root, nowhere) == f"{root}/deep.py"
    assert rooted("/lib", root, nowhere) == "/lib"
    assert rooted("/nul\0", root, nowhere) == "/nul\0"


@pytest.mark.parametrize("pattern", [".", "./", "././", "..", "../x", "a/../b", "./../", "{root}", "{root}/"])
def test_what_is_not_inside(root: Path, pattern: str) -> None:
    """The whole tree, what lies above it and what lies beside it are no patterns, and the error says what one is."""
    with pytest.raises(BadRequest, match="count from the repository's root"):
        rooted(pattern.format(root=root), root, nowhere)


def test_what_lies_beside(root: Path, tmp_path: Path) -> None:
    """A path of the machine that is elsewhere is refused; one that is nowhere is a pattern."""
    (tmp_path / "other").mkdir()
    with pytest.raises(BadRequest, match="names nothing inside the repository"):
        rooted(f"{tmp_path}/other", root, nowhere)
    assert rooted(f"{tmp_path}/nowhere", root, nowhere) == f"{tmp_path}/nowhere"
    assert (
        rooted(f"{tmp_path}/other", root, {f"{tmp_path}/other".strip("/")}.__contains__)
        == f"{tmp_path}/other"
    )
