"""Settings from environment variables."""

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


def test_default_settings() -> None:
    """Without variables: hidden directories in the user's home, level info, daemon allowed, full reranker."""
    home, maps = Path("~/.lineage").expanduser(), Path("~/.mindmap/data").expanduser()
    assert config.load_settings({}) == config.Settings(
        home,
        "info",
        use_daemon=True,
        reranker_precision=Precision.FULL,
        maps_dir=maps,
        has_cuda_devices=False,
    )


@pytest.mark.parametrize(
    ("value", "precision"),
    [("int8", Precision.INT8), ("", Precision.FULL), ("fp32", Precision.FULL), ("INT8", Precision.FULL)],
)
def test_reranker_precision(value: str, precision: Precision) -> None:
    """LINEAGE_RERANKER=int8 selects the int8 weights, any other value the full ones."""
    assert config.load_settings({"LINEAGE_RERANKER": value}).reranker_precision is precision


@pytest.mark.parametrize("value", ["~/indexes", "relative", "/abs"])
def test_directories_are_absolute(value: str) -> None:
    """LINEAGE_HOME and MINDMAP_DATA_DIR may be relative or begin with a tilde."""
    settings = config.load_settings({"LINEAGE_HOME": value, "MINDMAP_DATA_DIR": value})
    assert settings.home == settings.maps_dir == Path(value).expanduser().absolute()


def test_empty_means_unset() -> None:
    """An empty variable counts as unset."""
    assert config.load_settings(
        {"LINEAGE_HOME": "", "LINEAGE_LOG": "", "LINEAGE_NO_DAEMON": "", "MINDMAP_DATA_DIR": ""}
    ) == config.load_settings({})


@pytest.mark.parametrize(("value", "daemon"), [("1", False), ("true", False), ("0", True), ("no", True)])
def test_no_daemon_variable(value: str, daemon: bool) -> None:
    """LINEAGE_NO_DAEMON=1 disables the daemon, 0 does not."""
    assert config.load_settings({"LINEAGE_NO_DAEMON": value}).use_daemon is daemon


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
    """LINEAGE_LOG sets the level, RUST_LOG is its alias, and unknown levels are ignored."""
    assert config.load_settings(environment).log_level == level


def test_only_config_reads_the_environment() -> None:
    """Only `serve.config` reads the environment, and modules that pass it on to other programs or to libgit2."""
    readers = set()
    for package in ("serve", "pipeline", "stores", "mindmap"):
        for path in (ROOT / package).rglob("*.py"):
            if "node_modules" in path.parts:  # tools that build the mindmap page
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [node.attr] if isinstance(node, ast.Attribute) else []
                if isinstance(node, ast.ImportFrom) and node.module == "os":
                    names = [alias.name for alias in node.names]
                if {"environ", "environb", "getenv", "getenvb"}.intersection(names):
                    readers.add(path.relative_to(ROOT).as_posix())
    passing = {"pipeline/git/git_cli.py", "pipeline/git/libgit2.py", "serve/update/sources.py"}
    assert readers == {"serve/config.py", *passing}


def test_library_settings_keep_user_values() -> None:
    """The library settings are made where they are unset; the user's values stay."""
    unset: dict[str, str] = {}
    user_values = {"OPENBLAS_NUM_THREADS": "8", "ARROW_DEFAULT_MEMORY_POOL": "jemalloc"}
    user_environment = dict(user_values)
    config.configure_libraries(unset)
    config.configure_libraries(user_environment)
    assert unset == {
        "OPENBLAS_NUM_THREADS": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "PYTHONSAFEPATH": "1",
        "PYTHONWARNINGS": "ignore:resource_tracker",
    }
    assert user_environment == {**unset, **user_values}


def test_library_settings_precede_imports() -> None:
    """No entry point imports Arrow before its memory pool is set."""
    program = (
        "import sys, serve.cli.app, serve.mcp.lineage_server; from serve import config; config.configure_libraries();"
        "assert 'pyarrow' not in sys.modules; import pyarrow; print(pyarrow.default_memory_pool().backend_name)"
    )
    environment = {
        name: value for name, value in os.environ.items() if name not in config.LIBRARY_ENVIRONMENT
    }
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "system"


def test_tests_have_their_own_directories() -> None:
    """A test that sets no directories writes into no index and no map of the developer."""
    settings, defaults = config.load_settings(), config.load_settings({})
    assert settings.home != defaults.home and settings.maps_dir != defaults.maps_dir
