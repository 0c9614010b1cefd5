"""Which symbols a change touched, read from real commits."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.git.repository import open_repository
from pipeline.hunks import Hunk, hunks
from pipeline.parse import Parses, Touched
from pipeline.syntax.symbols import heading_name
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


# What the whole is for.
def main():
    store = Store()
    return store
"""


def ignored(path: str) -> bool:
    del path
    return False


def hunk_of(repo: Repo, sha: str = "HEAD") -> Hunk:
    [hunk] = hunks(open_repository(repo.path), repo.git("rev-parse", sha), ignored).hunks
    return hunk


def touched(repo: Repo, sha: str = "HEAD") -> tuple[Touched, ...]:
    return Parses().touched(hunk_of(repo, sha), open_repository(repo.path))


def names(found: tuple[Touched, ...]) -> list[str]:
    """Each symbol as `kind parent.name`, a heading's with its mark."""
    marks = {"ExactSpan": "", "HunkHeader": " (heading)"}
    return [f"{t.kind} {t.parent}.{t.name}{marks[t.confidence]}".replace(" .", " ") for t in found]


def change(tmp_path: Path, old: str, new: str, name: str = "a.py") -> list[str]:
    """What the change of one file touched."""
    repo = Repo.create(tmp_path)
    repo.commit_file(name, old)
    repo.commit_file(name, new)
    return names(touched(repo))


def test_a_changed_line_touches_its_innermost_symbol(tmp_path: Path) -> None:
    """A changed method does not touch its class, which it names as parent."""
    assert change(tmp_path, PYTHON, PYTHON.replace("first = 1", "first = 2")) == ["method Store.read"]


def test_a_line_of_the_class_itself_touches_the_class(tmp_path: Path) -> None:
    """An attribute belongs to no method."""
    assert change(tmp_path, PYTHON, PYTHON.replace("small", "large")) == ["class Store"]


def test_a_line_outside_of_symbols_touches_none(tmp_path: Path) -> None:
    """An import belongs to the file."""
    assert change(tmp_path, PYTHON, PYTHON.replace("import os", "import sys")) == []


def test_a_decorator_and_the_comment_directly_above_belong_to_the_symbol(tmp_path: Path) -> None:
    """Neither line lies in the body; both are about it."""
    new = PYTHON.replace("@property", "@cached").replace("the whole", "all this")
    assert change(tmp_path, PYTHON, new) == ["method Store.path", "function main"]


def test_a_comment_apart_from_it_does_not_touch_a_function(tmp_path: Path) -> None:
    """A blank line between a comment and a function separates them."""
    old = "x = 1  # one\ndef f(): ...\n\n# section\n\ndef g(): ...\n"
    assert change(tmp_path, old, old.replace("one", "two").replace("section", "part")) == []


def test_a_new_method_does_not_touch_its_class(tmp_path: Path) -> None:
    """The blank line before it is part of neither."""
    new = PYTHON.replace("    @property", "    def write(self):\n        pass\n\n    @property")
    assert change(tmp_path, PYTHON, new) == ["method Store.write"]


def test_blank_lines_alone_touch_where_they_are(tmp_path: Path) -> None:
    """A change of white space between statements still is a change of the function."""
    assert change(tmp_path, PYTHON, PYTHON.replace("first = 1\n", "first = 1\n\n")) == ["method Store.read"]


def test_a_deleted_line_touches_what_it_was_in(tmp_path: Path) -> None:
    """The old version says which symbol lost it, exactly."""
    assert change(tmp_path, PYTHON, PYTHON.replace("        first = 1\n", "")) == ["method Store.read"]


def test_a_deleted_symbol_is_touched(tmp_path: Path) -> None:
    """It is found in the old version, where it still is."""
    new = PYTHON[: PYTHON.index("# What")]
    assert change(tmp_path, PYTHON, new) == ["function main"]


def test_a_renamed_symbol_is_touched_under_both_names(tmp_path: Path) -> None:
    """The new name first."""
    new = PYTHON.replace("def main", "def start")
    assert change(tmp_path, PYTHON, new) == ["function start", "function main"]


def test_an_added_and_a_deleted_file_touch_all_their_symbols(tmp_path: Path) -> None:
    """Class, methods and functions, in source order."""
    repo = Repo.create(tmp_path)
    repo.commit_file("a.py", PYTHON)
    every = ["class Store", "method Store.read", "method Store.path", "function main"]
    assert names(touched(repo)) == every
    repo.remove("a.py")
    repo.commit("Remove it")
    assert names(touched(repo)) == every


def test_a_renamed_file_touches_what_changed_in_it(tmp_path: Path) -> None:
    """The old version is read under the old path, also where that has another grammar."""
    repo = Repo.create(tmp_path)
    repo.commit_file(
        "a.js", "export function one() {\n  return 1\n}\n\nexport function two() {\n  return 2\n}\n"
    )
    repo.rename("a.js", "a.ts")
    repo.write(
        "a.ts", "export function one() {\n  return 1\n}\n\nexport function two(): number {\n  return 2\n}\n"
    )
    repo.commit("Type it")
    assert hunk_of(repo).old_path == "a.js"
    assert names(touched(repo)) == ["function two"]


def test_symbols_on_one_line_are_all_touched(tmp_path: Path) -> None:
    """The line is in each of them."""
    assert change(tmp_path, "type A = 1; type B = 2\n", "type A = 3; type B = 4\n", "a.ts") == [
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


def test_a_symbol_that_parses_is_exact_in_a_file_that_does_not(tmp_path: Path) -> None:
    """An error elsewhere says nothing about a function that is whole."""
    assert change(tmp_path, BROKEN, BROKEN.replace("a = 1", "a = 2")) == ["function fine"]


def test_where_the_symbol_does_not_parse_gits_heading_names_it(tmp_path: Path) -> None:
    """The heading is a guess by the line above, and is marked as one."""
    assert change(tmp_path, BROKEN, BROKEN.replace("return x", "return y")) == ["unknown broken (heading)"]


def test_a_language_without_grammar_has_headings(tmp_path: Path) -> None:
    """Go is not parsed; git's heading still names the function."""
    old = "package a\n\nfunc (s *Store) Read(n int) int {\n\ta := 1\n\tb := 2\n\tc := 3\n\td := 4\n\treturn a\n}\n"
    assert change(tmp_path, old, old.replace("return a", "return b"), "a.go") == ["unknown Read (heading)"]


@pytest.mark.parametrize("name", ["a.md", "a.txt", "a.json", "a.d.ts", "a.unheard-of"])
def test_prose_data_and_declaration_files_touch_no_symbols(tmp_path: Path, name: str) -> None:
    """A line of prose above a change, or a mere declaration, is no symbol."""
    old = "function above(x)\n one\n two\n three\n four\n five\n"
    assert change(tmp_path, old, old.replace("five", "six"), name) == []


def test_what_is_not_text_touches_no_symbols(tmp_path: Path) -> None:
    """A binary file under a source file's name has no lines."""
    assert change(tmp_path, "def f(): ...\n", "\0\1\2", "a.py") == []


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("def read(self, path):", "read"),
        ("class Store(Base):", "Store"),
        ("pub async fn spawn<F>(future: F) -> JoinHandle<F>", "spawn"),
        ("impl<T: Debug> Store<T> {", "Store"),
        ("impl<T> fmt::Display for Store<T> {", "Store"),
        ("fun <T> List<T>.second(): T", "second"),
        ("function M.read(path)", "read"),
        ("func (s *Store) Read(n int) int {", "Read"),
        ("func Read(n int) int {", "Read"),
        ("export const read = async (path) => {", "read"),
        ("static int read_file(const char *path)", "read_file"),
        ("public static void main(String[] args) {", "main"),
        ("sub read {", "read"),
        ("if (x) {", None),
        ("return read(x)", None),
        ("import os", None),
        ("", None),
    ],
)
def test_a_heading_names_what_it_defines(header: str, name: str | None) -> None:
    """A definition by keyword, a constant, or something called with parameters; nothing else."""
    assert heading_name(header) == name
