"""The house stands as drawn: walls, tables of contents, the README, the linters."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stores import schema, versions

ROOT = Path(__file__).parent.parent
PACKAGES = [
    "pipeline",
    "pipeline/git",
    "pipeline/source",
    "pipeline/survey",
    "stores",
    "stores/steps",
    "serve",
    "serve/collecting",
    "serve/daemon",
    "serve/doctor",
    "serve/find",
    "serve/explain",
    "serve/initializing",
    "serve/maps",
    "serve/mcp",
    "serve/planning",
    "serve/updating",
    "serve/wizard",
    "serve/insight",
    "serve/registering",
    "serve/viewer",
    "mindmap",
    "training",
    "training/cross_encoder",
    "training/encoder",
    "training/lists",
]
CHECKS = {
    "the code is formatted": ["ruff", "format", "--check", "--quiet", "."],
    "the linter finds nothing": ["ruff", "check", "--quiet", "."],
    "the types hold": ["mypy", "--no-error-summary"],
    "the walls stand": ["lint-imports"],
    "the README says what the program prints": ["cog", "-I", ".", "--check", "--diff", "README.md"],
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
    modules = {path.stem for path in folder.glob("*.py")} | {
        path.name for path in folder.iterdir() if (path / "__init__.py").exists()
    }
    assert sorted(named) == sorted(modules - {"__init__"})


def test_schema_digest() -> None:
    """A table does not change without a new schema version."""
    assert SCHEMA_DIGESTS[versions.SCHEMA_VERSION] == schema.schema_digest()
    assert set(SCHEMA_DIGESTS) == set(versions.SCHEMA_HISTORY)


def test_constraints_pin_without_addresses() -> None:
    """The constraints are plain `name==version` lines."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert pins and all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+( ; .+)?", pin) for pin in pins)
