"""Symbols that the hunks of real commits touch."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.git.repository import open_repository
from pipeline.hunks import Hunk, extract_hunks
from pipeline.syntax.touched_symbols import TouchedSymbol, TouchedSymbolFinder
from tests.repos import Repo

PYTHON = """\
import os


class Store:
    kind = "small"

    def read(self):
        first = 1
        return first

    @property
    def path(self):
        return "p"


# Entry point of the program.
def main():
    store = Store()
    return store
"""


def ignore_nothing(path: str) -> bool:
    del path
    return False


def extract_only_hunk(repo: Repo, sha: str = "HEAD") -> Hunk:
    [hunk] = extract_hunks(open_repository(repo.path), repo.git("rev-parse", sha), ignore_nothing).hunks
    return hunk


def find_symbols(repo: Repo, sha: str = "HEAD") -> tuple[TouchedSymbol, ...]:
    return TouchedSymbolFinder().find(extract_only_hunk(repo, sha), open_repository(repo.path))


def format_symbols(symbols: tuple[TouchedSymbol, ...]) -> list[str]:
    """Return each symbol as `kind parent.name`, followed by `(header)` if it is from a hunk header."""
    suffixes = {"ExactSpan": "", "HunkHeader": " (header)"}
    return [f"{t.kind} {t.parent}.{t.name}{suffixes[t.confidence]}".replace(" .", " ") for t in symbols]


def change_file(tmp_path: Path, old: str, new: str, name: str = "a.py") -> list[str]:
    """Commit two versions of a file. Return the symbols that the change touched."""
    repo = Repo.create(tmp_path)
    repo.commit_file(name, old)
    repo.commit_file(name, new)
    return format_symbols(find_symbols(repo))


def test_line_in_a_method(tmp_path: Path) -> None:
    """A line touches the innermost symbol, so a changed method does not touch its class."""
    assert change_file(tmp_path, PYTHON, PYTHON.replace("first = 1", "first = 2")) == ["method Store.read"]


def test_line_of_a_class(tmp_path: Path) -> None:
    """A class attribute touches the class."""
    assert change_file(tmp_path, PYTHON, PYTHON.replace("small", "large")) == ["class Store"]


def test_line_outside_of_symbols(tmp_path: Path) -> None:
    """An import touches no symbol."""
    assert change_file(tmp_path, PYTHON, PYTHON.replace("import os", "import sys")) == []


def test_decorator_and_comment_above_a_symbol(tmp_path: Path) -> None:
    """A decorator, and a comment directly above, belong to the symbol."""
    new = PYTHON.replace("@property", "@cached").replace("the program", "the example")
    assert change_file(tmp_path, PYTHON, new) == ["method Store.path", "function main"]


def test_comment_separated_by_a_blank_line(tmp_path: Path) -> None:
    """A comment does not belong to the function below if a blank line is between them, or if it follows code."""
    old = "x = 1  # one\ndef f(): ...\n\n# section\n\ndef g(): ...\n"
    assert change_file(tmp_path, old, old.replace("one", "two").replace("section", "part")) == []


def test_new_method(tmp_path: Path) -> None:
    """A new method does not touch its class, although a blank line is added with it."""
    new = PYTHON.replace("    @property", "    def write(self):\n        pass\n\n    @property")
    assert change_file(tmp_path, PYTHON, new) == ["method Store.write"]


def test_blank_lines_only(tmp_path: Path) -> None:
    """If only blank lines changed, they touch the symbol that contains them."""
    assert change_file(tmp_path, PYTHON, PYTHON.replace("first = 1\n", "first = 1\n\n")) == [
        "method Store.read"
    ]


def test_chained_assignment(tmp_path: Path) -> None:
    """A line of the function touches all names of a chained assignment. The line of a name touches only this name."""
    code = "req.one =\nreq.two = function () {\n  return 1\n}\n"
    changed = code.replace("1", "2")
    assert change_file(tmp_path / "code", code, changed, "a.js") == ["function one", "function two"]
    assert change_file(tmp_path / "name", code, code[code.index("req.two") :], "a.js") == ["function one"]


def test_deleted_line(tmp_path: Path) -> None:
    """A deleted line touches the symbol that had it in the old version."""
    assert change_file(tmp_path, PYTHON, PYTHON.replace("        first = 1\n", "")) == ["method Store.read"]


def test_deleted_symbol(tmp_path: Path) -> None:
    """A deleted symbol is touched."""
    new = PYTHON[: PYTHON.index("# Entry")]
    assert change_file(tmp_path, PYTHON, new) == ["function main"]


def test_renamed_symbol(tmp_path: Path) -> None:
    """A renamed symbol is touched under its new name, then its old one."""
    new = PYTHON.replace("def main", "def start")
    assert change_file(tmp_path, PYTHON, new) == ["function start", "function main"]


def test_added_and_deleted_file(tmp_path: Path) -> None:
    """All symbols of an added or deleted file are touched, in source order."""
    repo = Repo.create(tmp_path)
    repo.commit_file("a.py", PYTHON)
    all_symbols = ["class Store", "method Store.read", "method Store.path", "function main"]
    assert format_symbols(find_symbols(repo)) == all_symbols
    repo.remove("a.py")
    repo.commit("Remove it")
    assert format_symbols(find_symbols(repo)) == all_symbols


def test_renamed_file(tmp_path: Path) -> None:
    """After a rename from JavaScript to TypeScript, only the changed function is touched."""
    repo = Repo.create(tmp_path)
    repo.commit_file(
        "a.js", "export function one() {\n  return 1\n}\n\nexport function two() {\n  return 2\n}\n"
    )
    repo.rename("a.js", "a.ts")
    repo.write(
        "a.ts", "export function one() {\n  return 1\n}\n\nexport function two(): number {\n  return 2\n}\n"
    )
    repo.commit("Type it")
    assert extract_only_hunk(repo).old_path == "a.js"
    assert format_symbols(find_symbols(repo)) == ["function two"]


def test_several_symbols_on_one_line(tmp_path: Path) -> None:
    """All symbols on a changed line are touched."""
    assert change_file(tmp_path, "type A = 1; type B = 2\n", "type A = 3; type B = 4\n", "a.ts") == [
        "type_alias A",
        "type_alias B",
    ]


BROKEN = """\
def fine():
    a = 1
    b = 2
    c = 3
    return a


def broken(:
    x = = 1
    y = 1
    z = 1
    w = 1
    return x
"""


def test_valid_symbol_in_a_file_with_errors(tmp_path: Path) -> None:
    """A function without errors is found by its lines, although there is an error elsewhere in the file."""
    assert change_file(tmp_path, BROKEN, BROKEN.replace("a = 1", "a = 2")) == ["function fine"]


def test_symbol_with_a_syntax_error(tmp_path: Path) -> None:
    """If a symbol has a syntax error, git's hunk header names it instead."""
    assert change_file(tmp_path, BROKEN, BROKEN.replace("return x", "return y")) == [
        "unknown broken (header)"
    ]


def test_language_without_a_grammar(tmp_path: Path) -> None:
    """In a language without a grammar, git's hunk header names the function."""
    old = "package a\n\nfunc (s *Store) Read(n int) int {\n\ta := 1\n\tb := 2\n\tc := 3\n\td := 4\n\treturn a\n}\n"
    assert change_file(tmp_path, old, old.replace("return a", "return b"), "a.go") == [
        "unknown Read (header)"
    ]


@pytest.mark.parametrize("name", ["a.md", "a.txt", "a.json", "a.d.ts", "a.unheard-of"])
def test_files_without_symbols(tmp_path: Path, name: str) -> None:
    """Hunk headers of prose, data and declaration files name no symbol."""
    old = "function above(x)\n one\n two\n three\n four\n five\n"
    assert change_file(tmp_path, old, old.replace("five", "six"), name) == []


def test_binary_file(tmp_path: Path) -> None:
    """A binary file touches no symbols, whatever its name is."""
    assert change_file(tmp_path, "def f(): ...\n", "\0\1\2", "a.py") == []
