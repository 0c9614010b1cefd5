"""Package name and version, and settings from environment variables.

In `serve`, only this module reads settings from the environment. Other modules take them as arguments.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.options import Precision

DISTRIBUTION: Final = "history-lineage"
DEFAULT_HOME: Final = "~/.lineage"
DEFAULT_MAPS_DIR: Final = "~/.mindmap/data"
DEFAULT_LOG_LEVEL: Final = "info"
LOG_LEVELS: Final = ("off", "error", "warn", "info", "debug", "trace")
# Values that switch a boolean variable off.
FALSE_VALUES: Final = frozenset({"", "0", "false", "no", "off"})
# Directories in which Linux and macOS install git.
GIT_DIRECTORIES: Final = ("/usr/local/bin", "/opt/homebrew/bin", "/usr/bin", "/bin")
# Values of CUDA_VISIBLE_DEVICES that name no device.
NO_CUDA_DEVICES: Final = frozenset({"", "-1"})
# Libraries read these variables when they are imported, and Python when it starts. serve/README.md, "Library settings",
# has the reasons and measurements.
LIBRARY_ENVIRONMENT: Final = {
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "PYTHONSAFEPATH": "1",
    "PYTHONWARNINGS": "ignore:resource_tracker",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings from environment variables.

    - `home`: directory of the indexes. `maps_dir`: directory of the mindmaps.
    - `log_level`: one of `LOG_LEVELS`.
    - `use_daemon`: True if the shared daemon may answer queries.
    - `reranker_precision`: precision of the cross-encoder.
    - `has_cuda_devices`: True if CUDA_VISIBLE_DEVICES names a device; False if it is unset.
    """

    home: Path
    log_level: str
    use_daemon: bool
    reranker_precision: Precision
    maps_dir: Path
    has_cuda_devices: bool


def read_version() -> str:
    """Return the installed version of this package."""
    from importlib.metadata import version  # an import of 15 ms, which few commands need

    return version(DISTRIBUTION)


def load_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Return the settings from `environment`, by default the environment variables of this process."""
    variables = os.environ if environment is None else environment
    return Settings(
        home=Path(variables.get("LINEAGE_HOME") or DEFAULT_HOME).expanduser().absolute(),
        log_level=_parse_log_level(variables.get("LINEAGE_LOG") or variables.get("RUST_LOG") or ""),
        use_daemon=variables.get("LINEAGE_NO_DAEMON", "").lower() in FALSE_VALUES,
        reranker_precision=(
            Precision.INT8 if variables.get("LINEAGE_RERANKER") == Precision.INT8 else Precision.FULL
        ),
        maps_dir=Path(variables.get("MINDMAP_DATA_DIR") or DEFAULT_MAPS_DIR).expanduser().absolute(),
        has_cuda_devices=variables.get("CUDA_VISIBLE_DEVICES", "").strip() not in NO_CUDA_DEVICES,
    )


def get_home_variable() -> str | None:
    """Return LINEAGE_HOME as an absolute path, for the configuration of other programs; None if it is unset."""
    return str(load_settings().home) if os.environ.get("LINEAGE_HOME") else None


def make_home_absolute() -> None:
    """Make LINEAGE_HOME absolute in this process's environment, before the working directory changes."""
    if home := get_home_variable():
        os.environ["LINEAGE_HOME"] = home


def get_maps_dir_variable() -> str | None:
    """Return MINDMAP_DATA_DIR as an absolute path, like `get_home_variable`; None if unset."""
    return str(load_settings().maps_dir) if os.environ.get("MINDMAP_DATA_DIR") else None


def list_config_directories() -> dict[str, str]:
    """Return the user's configuration directories, by `home`, `config` (XDG), `apps` (macOS) and `codex` (Codex)."""
    home = Path("~").expanduser()
    return {
        "home": str(home),
        "config": os.environ.get("XDG_CONFIG_HOME") or str(home / ".config"),
        "apps": str(home / "Library" / "Application Support"),
        "codex": os.environ.get("CODEX_HOME") or str(home / ".codex"),
    }


def build_daemon_environment(home: Path) -> dict[str, str]:
    """Return the environment for the daemon of `home`: the environment of this process without GIT_ variables.

    git sets these variables for a hook of one repository, but the daemon serves all repositories.
    """
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # A desktop client may lack git's directory in its PATH, but the daemon it starts also serves other clients.
    path = dict.fromkeys([*variables.get("PATH", "").split(os.pathsep), *GIT_DIRECTORIES])
    return variables | {"LINEAGE_HOME": str(home), "PATH": os.pathsep.join(filter(None, path))}


def get_notebook_repository() -> Path:
    """Return the repository that notebooks analyze: LINEAGE_REPOSITORY, or the working directory."""
    return Path(os.environ.get("LINEAGE_REPOSITORY") or ".").expanduser()


def build_git_config_key() -> str:
    """Return a cache key for the user's git configuration: the directories in which git looks for it."""
    return "\0".join((str(Path("~").expanduser()), os.environ.get("XDG_CONFIG_HOME", "")))


def configure_libraries(environment: MutableMapping[str, str] | None = None) -> None:
    """Set the unset variables of `LIBRARY_ENVIRONMENT` in `environment`, by default the environment of this process.

    Affects modules imported, and processes started, after the call.
    """
    variables = os.environ if environment is None else environment
    for name, value in LIBRARY_ENVIRONMENT.items():
        variables.setdefault(name, value)


def _parse_log_level(directives: str) -> str:
    """Return the first log level in a text such as `debug` or `module=debug,other=warn`; the default if it has none."""
    words = [directive.rpartition("=")[2].strip().lower() for directive in directives.split(",")]
    levels = ["warn" if word == "warning" else word for word in words if word in {*LOG_LEVELS, "warning"}]
    return levels[0] if levels else DEFAULT_LOG_LEVEL
