"""The house stands as drawn: walls, tables of contents, pages, the linters."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Set
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from stores import schema, types

ROOT = Path(__file__).parent.parent
SOURCES = ("pipeline", "stores", "serve", "mindmap")
PACKAGES = sorted(
    init.parent.relative_to(ROOT).as_posix()
    for folder in (*SOURCES, "tests/bench", "tests/eval")
    for init in (ROOT / folder).rglob("__init__.py")
)
# What everybody has who can install a package.
INSTALLERS = {"pip", "setuptools"}


def pages() -> list[Path]:
    """What people read of the project."""
    inner = (path for folder in (*SOURCES, "tests", "notebooks") for path in (ROOT / folder).rglob("*.md"))
    return sorted([*ROOT.glob("*.md"), *(path for path in inner if "node_modules" not in path.parts)])


CHECKS = {
    "the code is formatted": ["ruff", "format", "--check", "--quiet", "."],
    "the linter finds nothing": ["ruff", "check", "--quiet", "."],
    "the types hold": ["mypy", "--no-error-summary"],
    "the walls stand": ["lint-imports"],
    "the pages say what the program prints": ["cog", "-I", ".", "--check", "--diff", *map(str, pages())],
}
# The digest of every table's columns, and the schema version it was taken at. A change here is a new version
# and a migration.
SCHEMA_DIGESTS = {1: "5d437e94f5c069f2", 2: "8c7c8a53bd56bb5b"}


@pytest.mark.parametrize("sentence", CHECKS)
def test_check(sentence: str) -> None:
    """Each checker passes over the whole tree."""
    program, *arguments = CHECKS[sentence]
    command = [str(Path(sys.executable).with_name(program)), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_table_of_contents(package: str) -> None:
    """A package's docstring names each of its modules once, with a line of meaning."""
    folder = ROOT / package
    source = (folder / "__init__.py").read_text(encoding="utf-8")
    named = re.findall(r"^- `(\w+)`: \S", ast.get_docstring(ast.parse(source)) or "", re.MULTILINE)
    modules = {path.stem for path in folder.glob("*.py") if not path.name.startswith(("__", "test_"))}
    packages = {path.name for path in folder.iterdir() if (path / "__init__.py").exists()}
    assert sorted(named) == sorted(modules | packages)


def test_schema_digest() -> None:
    """A table does not change without a new schema version."""
    assert SCHEMA_DIGESTS[types.SCHEMA_VERSION] == schema.schema_digest()
    assert set(SCHEMA_DIGESTS) == set(types.SCHEMA_HISTORY)


def test_constraints_pin_without_addresses() -> None:
    """The constraints are plain `name==version` lines."""
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+( ; .+)?", pin) for pin in pins())


def test_constraints_pin_everything() -> None:
    """Whatever the program or its tests bring along, directly or not, has its version in the constraints."""
    pinned = {canonicalize_name(Requirement(pin).name) for pin in pins()}
    assert brought("history-lineage", {"test"}) - INSTALLERS - {"history-lineage"} <= pinned


def pins() -> list[str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def brought(name: str, extras: Set[str]) -> set[str]:
    """What is installed because somebody asks for these extras of a distribution, itself included."""
    seen: set[tuple[str, frozenset[str]]] = set()
    asked = [(canonicalize_name(name), frozenset(extras))]
    while asked:
        one = asked.pop()
        if one in seen:
            continue
        seen.add(one)
        for text in requires(one[0]) or ():
            needed = Requirement(text)
            if needed.marker is None or any(needed.marker.evaluate({"extra": e}) for e in {"", *one[1]}):
                asked.append((canonicalize_name(needed.name), frozenset(needed.extras)))
    return {str(name) for name, _ in seen}


def test_the_command_of_the_readme_is_run() -> None:
    """What `.ci/run` takes from the README is the command that runs the tests."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (taking,) = re.findall(r"^command=\$\((.+)\)$", script, re.MULTILINE)
    taken = subprocess.run(["sh", "-c", taking], cwd=ROOT, capture_output=True, text=True, check=True)
    (command,) = taken.stdout.splitlines()
    assert command.endswith(".venv/bin/python -m pytest -n logical --dist worksteal")


def test_every_test_says_its_sentence() -> None:
    """Every test has a docstring: what it claims, in a sentence."""
    silent = [
        f"{path.relative_to(ROOT)}::{node.name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert not silent


@pytest.mark.parametrize("page", sorted(path.relative_to(ROOT).as_posix() for path in pages()))
def test_links_lead_somewhere(page: str) -> None:
    """A page's links to files of the project and to headings, its own or another page's, are not broken."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, heading = target.partition("#")
        if ":" in path:
            continue
        there = (ROOT / page).parent / path if path else ROOT / page
        assert there.exists(), target
        assert not heading or heading in headings(there.read_text(encoding="utf-8")), target


def headings(text: str) -> set[str]:
    """The anchors of a page's headings, as they are made of their words."""
    said = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in said}
