"""The environment, as the program understands it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.options import Precision
from serve import config

ROOT = Path(config.__file__).parent.parent


def test_defaults() -> None:
    """With nothing set: hidden folders in the person's home, informative logs, a daemon allowed, the full model."""
    home, maps = Path("~/.lineage").expanduser(), Path("~/.mindmap/data").expanduser()
    assert config.read({}) == config.Settings(
        home, "info", daemon=True, reranker=Precision.FULL, maps=maps, cuda_devices=False
    )


@pytest.mark.parametrize(
    ("value", "precision"),
    [("int8", Precision.INT8), ("", Precision.FULL), ("fp32", Precision.FULL), ("INT8", Precision.FULL)],
)
def test_form_of_the_reranker(value: str, precision: Precision) -> None:
    """LINEAGE_RERANKER=int8 picks the smaller form, any other value the full one."""
    assert config.read({"LINEAGE_RERANKER": value}).reranker is precision


@pytest.mark.parametrize("value", ["~/indexes", "relative", "/abs"])
def test_home_is_absolute(value: str) -> None:
    """LINEAGE_HOME and MINDMAP_DATA_DIR may be relative or begin with a tilde."""
    read = config.read({"LINEAGE_HOME": value, "MINDMAP_DATA_DIR": value})
    assert read.home == read.maps == Path(value).expanduser().absolute()


def test_empty_means_unset() -> None:
    """An empty variable counts as unset."""
    assert config.read(
        {"LINEAGE_HOME": "", "LINEAGE_LOG": "", "LINEAGE_NO_DAEMON": "", "MINDMAP_DATA_DIR": ""}
    ) == config.read({})


@pytest.mark.parametrize(("value", "daemon"), [("1", False), ("true", False), ("0", True), ("no", True)])
def test_daemon_can_be_declined(value: str, daemon: bool) -> None:
    """LINEAGE_NO_DAEMON=1 opts out, and 0 does not."""
    assert config.read({"LINEAGE_NO_DAEMON": value}).daemon is daemon


@pytest.mark.parametrize(
    ("environment", "level"),
    [
        ({"LINEAGE_LOG": "debug"}, "debug"),
        ({"RUST_LOG": "WARN"}, "warn"),
        ({"RUST_LOG": "trace", "LINEAGE_LOG": "error"}, "error"),
        ({"RUST_LOG": "lineage=debug,other=warn"}, "debug"),
        ({"LINEAGE_LOG": "warning"}, "warn"),
        ({"LINEAGE_LOG": "loud"}, "info"),
    ],
)
def test_log_level(environment: dict[str, str], level: str) -> None:
    """LINEAGE_LOG sets the verbosity, RUST_LOG is its alias, and a level nobody knows is none."""
    assert config.read(environment).log == level


def test_only_settings_reads_the_environment() -> None:
    """No other module asks for the environment, but for the two that hand it on to other programs."""
    readers = set()
    for package in ("serve", "pipeline", "stores", "mindmap"):
        for path in (ROOT / package).rglob("*.py"):
            if "node_modules" in path.parts:  # the tools that build the page
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                named = [node.attr] if isinstance(node, ast.Attribute) else []
                if isinstance(node, ast.ImportFrom) and node.module == "os":
                    named = [alias.name for alias in node.names]
                if {"environ", "environb", "getenv", "getenvb"}.intersection(named):
                    readers.add(path.relative_to(ROOT).as_posix())
    assert readers == {"serve/config.py", "pipeline/git/git_cli.py", "serve/update/sources.py"}


def test_libraries_are_calm_unless_told_otherwise() -> None:
    """One thread for numpy, the system's memory for Arrow, its own modules for Python; a person's setting stands."""
    unset: dict[str, str] = {}
    theirs = {"OPENBLAS_NUM_THREADS": "8", "ARROW_DEFAULT_MEMORY_POOL": "jemalloc"}
    asked = dict(theirs)
    config.calm_libraries(unset)
    config.calm_libraries(asked)
    assert unset == {
        "OPENBLAS_NUM_THREADS": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "PYTHONSAFEPATH": "1",
    }
    assert asked == {**theirs, "PYTHONSAFEPATH": "1"}


def test_libraries_hear_it_in_time() -> None:
    """No door imports Arrow before it is told where to take memory from."""
    program = (
        "import sys, serve.cli.app, serve.mcp.lineage_server; from serve import config; config.calm_libraries();"
        "assert 'pyarrow' not in sys.modules; import pyarrow; print(pyarrow.default_memory_pool().backend_name)"
    )
    asked = {name: value for name, value in os.environ.items() if name not in config.TOLD}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=asked, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "system"
