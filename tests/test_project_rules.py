"""Rules of the project: linters, import contracts, package docstrings, pages, pinned versions."""

from __future__ import annotations

import ast
import hashlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Set
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from stores import migrations, schema

ROOT = Path(__file__).parent.parent
SOURCES = ("pipeline", "stores", "serve", "mindmap")
PACKAGES = sorted(
    init.parent.relative_to(ROOT).as_posix()
    for folder in (*SOURCES, "tests/bench", "tests/eval")
    for init in (ROOT / folder).rglob("__init__.py")
)
# Installed wherever packages can be installed.
INSTALLERS = {"pip", "setuptools"}


def markdown_pages() -> list[Path]:
    """Return all Markdown pages of the project."""
    inner = (path for folder in (*SOURCES, "tests", "notebooks") for path in (ROOT / folder).rglob("*.md"))
    return sorted([*ROOT.glob("*.md"), *(path for path in inner if "node_modules" not in path.parts)])


CHECKS = {
    "the code is formatted": ["ruff", "format", "--check", "--quiet", "."],
    "the linter finds nothing": ["ruff", "check", "--quiet", "."],
    "the types hold": ["mypy", "--no-error-summary"],
    "the import contracts hold": ["lint-imports"],
    "generated parts of the pages are current": [
        "cog",
        "-I",
        ".",
        "--check",
        "--diff",
        *map(str, markdown_pages()),
    ],
}
# Digest of all table columns for each schema version. A change needs a new version and a migration.
SCHEMA_DIGESTS = {
    1: "5d437e94f5c069f2",
    2: "8c7c8a53bd56bb5b",
    3: "8c7c8a53bd56bb5b",
    4: "357c52a23844360a",
    5: "357c52a23844360a",
    6: "f8bb9b2bdf6f0ca6",
}


@pytest.mark.timeout(600)  # without a cache, mypy takes minutes on a busy machine
@pytest.mark.parametrize("rule", CHECKS)
def test_check(rule: str) -> None:
    """Each linter passes on the whole tree."""
    program, *arguments = CHECKS[rule]
    command = [str(Path(sys.executable).with_name(program)), *arguments]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_package_docstring(package: str) -> None:
    """A package docstring lists each of its modules once, with its purpose."""
    folder = ROOT / package
    source = (folder / "__init__.py").read_text(encoding="utf-8")
    listed = re.findall(r"^- `(\w+)`: \S", ast.get_docstring(ast.parse(source)) or "", re.MULTILINE)
    modules = {path.stem for path in folder.glob("*.py") if not path.name.startswith(("__", "test_"))}
    packages = {path.name for path in folder.iterdir() if (path / "__init__.py").exists()}
    assert sorted(listed) == sorted(modules | packages)


def test_schema_digest() -> None:
    """The tables do not change without a new schema version."""
    assert SCHEMA_DIGESTS[migrations.SCHEMA_VERSION] == schema.compute_schema_digest()
    assert set(SCHEMA_DIGESTS) == set(migrations.SCHEMA_HISTORY)


def test_full_text_digest() -> None:
    """The views and macros of full-text indexes do not change without a new schema version and a migration."""
    statements = re.sub(r"^\s*--.*\n", "", migrations.load_full_text_sql(), flags=re.MULTILINE)
    digest = hashlib.blake2b(statements.encode(), digest_size=8).hexdigest()
    assert {migrations.SCHEMA_VERSION: digest} == {6: "04acbde9cf092845"}


def test_constraints_pin_without_addresses() -> None:
    """Constraints are plain `name==version` lines, without download addresses."""
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+( ; .+)?", pin) for pin in read_pins())


def test_constraints_pin_everything() -> None:
    """Every direct or indirect dependency of the program and its tests is pinned."""
    pinned = {canonicalize_name(Requirement(pin).name) for pin in read_pins()}
    assert installed_by("history-lineage", {"test"}) - INSTALLERS - {"history-lineage"} <= pinned


def test_pinned_extra_and_build() -> None:
    """The extra `pinned` has the constraints of all that runs, and the build those of all that it needs."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pins = {str(canonicalize_name(Requirement(pin).name)): pin for pin in read_pins()}
    extra, build = (
        pyproject["project"]["optional-dependencies"]["pinned"],
        pyproject["build-system"]["requires"],
    )
    installed = installed_by("history-lineage", set()) - {"history-lineage"}
    # On other systems markers may leave out some.
    assert {pins[name] for name in installed} <= set(extra) <= set(pins.values())
    assert {pins[name] for name in installed_by("hatchling", set())} <= set(build) <= set(pins.values())


def read_pins() -> list[str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def installed_by(name: str, extras: Set[str]) -> set[str]:
    """Return the distributions that installing one with these extras installs, itself included."""
    seen: set[tuple[str, frozenset[str]]] = set()
    pending = [(canonicalize_name(name), frozenset(extras))]
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        for text in requires(current[0]) or ():
            requirement = Requirement(text)
            if requirement.marker is None or any(
                requirement.marker.evaluate({"extra": e}) for e in {"", *current[1]}
            ):
                pending.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return {str(name) for name, _ in seen}


COMMANDS = re.compile(r"(cd|chmod|git|lineage|mindmap|pip|rm|sh|sudo)( |$)")
QUOTING = {"quote", "join", "_format_git_directory_option"}
# Values of the program itself, without shell syntax.
UNQUOTED = {
    "match[1]",
    "client.name",
    "distribution",
    "offer.version",
    "current",
    "command",
}


def test_suggested_commands_are_quoted() -> None:
    """Every value in a command that a message suggests is quoted for the shell."""
    unquoted = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(value)}"
        for source in SOURCES
        for path in (ROOT / source).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.JoinedStr)
        for value in list_command_values(node)
        if not is_quoted(value)
    ]
    assert not unquoted


def list_command_values(text: ast.JoinedStr) -> list[ast.expr]:
    """Return the values that an f-string inserts into commands in backquotes."""
    values: list[ast.expr] = []
    span: str | None = None  # text of the open code span
    for part in text.values:
        if isinstance(part, ast.FormattedValue):
            if span is not None and COMMANDS.match(span) and not part.format_spec:
                values.append(part.value)
            continue
        outside, *changes = str(ast.literal_eval(part)).split("`")
        span = None if span is None else span + outside
        for piece in changes:
            span = piece if span is None else None
    return values


def is_quoted(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).rpartition(".")[2] in QUOTING
    return ast.unparse(value) in UNQUOTED or ast.unparse(value).isupper()


def test_ci_runs_the_readme_command() -> None:
    """`.ci/run` runs the test command of the README."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (extraction,) = re.findall(r"^command=\$\((.+)\)$", script, re.MULTILINE)
    extracted = subprocess.run(["sh", "-c", extraction], cwd=ROOT, capture_output=True, text=True, check=True)
    (command,) = extracted.stdout.splitlines()
    assert command.endswith(".venv/bin/python -m pytest -n logical --dist worksteal")


def test_every_test_has_a_docstring() -> None:
    """Every test has a docstring that states what holds."""
    undocumented = [
        f"{path.relative_to(ROOT)}::{node.name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert not undocumented


@pytest.mark.parametrize("page", sorted(path.relative_to(ROOT).as_posix() for path in markdown_pages()))
def test_links_are_valid(page: str) -> None:
    """Links of a page to files and headings of the project are valid."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, heading = target.partition("#")
        if ":" in path:
            continue
        linked = (ROOT / page).parent / path if path else ROOT / page
        assert linked.exists(), target
        assert not heading or heading in heading_anchors(linked.read_text(encoding="utf-8")), target


def heading_anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub derives them."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in titles}
