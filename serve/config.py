"""Which program this is, to people and to clients.

The environment, read once at the door; below it everything is an argument.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.options import Precision

DISTRIBUTION: Final = "history-lineage"


def version() -> str:
    """The installed version."""
    from importlib.metadata import version as installed  # 15 ms that most commands never need

    return installed(DISTRIBUTION)


DEFAULT_HOME: Final = "~/.lineage"
DEFAULT_MAPS: Final = "~/.mindmap/data"
DEFAULT_LOG: Final = "info"
LOG_LEVELS: Final = ("off", "error", "warn", "info", "debug", "trace")
# How people switch a variable off without unsetting it.
OFF: Final = frozenset({"", "0", "false", "no", "off"})

# Where git is on the systems there are.
USUAL_FOLDERS: Final = ("/usr/local/bin", "/opt/homebrew/bin", "/usr/bin", "/bin")

# What CUDA is told to hide every device; anything else names some.
NO_DEVICES: Final = frozenset({"", "-1"})

# What libraries are told, and hear as they are imported. numpy's own threads wait for each other by spinning: beside
# the database's threads a product took ten times as long as on one thread, so lanes run side by side instead. Arrow's
# own allocator keeps what was freed: with the system's an index of 5,000 commits took 38 MB less, for no instructions.
# Workers begin with `python -c`, which looks for modules in the folder it stands in first: in a repository that has a
# `pipeline` or a `signal.py` of its own these would run.
TOLD: Final = {
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "PYTHONSAFEPATH": "1",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment says.

    `home` holds the indexes; `log` is a level of `LOG_LEVELS`; `daemon` whether a shared daemon may answer;
    `reranker` is the form of the reranker, the full one for any value but `int8`; `maps` holds the mindmaps;
    `cuda_devices` whether CUDA_VISIBLE_DEVICES names any.
    """

    home: Path
    log: str
    daemon: bool
    reranker: Precision
    maps: Path
    cuda_devices: bool


def read(environment: Mapping[str, str] | None = None) -> Settings:
    """Settings from the process's environment, or from one that is given."""
    given = os.environ if environment is None else environment
    return Settings(
        home=Path(given.get("LINEAGE_HOME") or DEFAULT_HOME).expanduser().absolute(),
        log=_level(given.get("LINEAGE_LOG") or given.get("RUST_LOG") or ""),
        daemon=given.get("LINEAGE_NO_DAEMON", "").lower() in OFF,
        reranker=Precision.INT8 if given.get("LINEAGE_RERANKER") == Precision.INT8 else Precision.FULL,
        maps=Path(given.get("MINDMAP_DATA_DIR") or DEFAULT_MAPS).expanduser().absolute(),
        cuda_devices=given.get("CUDA_VISIBLE_DEVICES", "").strip() not in NO_DEVICES,
    )


def repository(environment: Mapping[str, str] | None = None) -> Path:
    """The repository that notebooks look at: LINEAGE_REPOSITORY, or the one that is worked in."""
    given = os.environ if environment is None else environment
    return Path(given.get("LINEAGE_REPOSITORY") or ".").expanduser()


def said_home(environment: Mapping[str, str] | None = None) -> str | None:
    """The home of the indexes, where the person has set one: for programs that are started without this environment."""
    given = os.environ if environment is None else environment
    return str(read(given).home) if given.get("LINEAGE_HOME") else None


def said_maps(environment: Mapping[str, str] | None = None) -> str | None:
    """The folder of the maps, where the person has set one, for the same programs."""
    given = os.environ if environment is None else environment
    return str(read(given).maps) if given.get("MINDMAP_DATA_DIR") else None


def folders(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Where programs keep a person's configuration: `home`, `config` (XDG), `apps` (a Mac's), `codex` (Codex's)."""
    given = os.environ if environment is None else environment
    home = Path("~").expanduser()
    return {
        "home": str(home),
        "config": given.get("XDG_CONFIG_HOME") or str(home / ".config"),
        "apps": str(home / "Library" / "Application Support"),
        "codex": given.get("CODEX_HOME") or str(home / ".codex"),
    }


def for_daemon(home: Path) -> dict[str, str]:
    """The environment a daemon of this home starts with: less what git says to a hook, which is of one repository."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # A client with windows may have been started without the folders that git is in; others ask the same daemon.
    path = dict.fromkeys([*kept.get("PATH", "").split(os.pathsep), *USUAL_FOLDERS])
    return kept | {"LINEAGE_HOME": str(home), "PATH": os.pathsep.join(filter(None, path))}


def person() -> str:
    """Whose configuration git goes by: the person's home, and where their configuration is."""
    return "\0".join((str(Path("~").expanduser()), os.environ.get("XDG_CONFIG_HOME", "")))


def calm_libraries(environment: MutableMapping[str, str] | None = None) -> None:
    """Keep numpy to one thread, Arrow to the system's memory and Python to its own modules, unless asked otherwise.

    Acts on what is imported afterwards, and on processes started afterwards.
    """
    for name, value in TOLD.items():
        (os.environ if environment is None else environment).setdefault(name, value)


def _level(directives: str) -> str:
    """The level in `debug` or in `module=debug,other=warn`: of several the first, of none the default."""
    said = [part.rpartition("=")[2].strip().lower() for part in directives.split(",")]
    known = ["warn" if level == "warning" else level for level in said if level in {*LOG_LEVELS, "warning"}]
    return known[0] if known else DEFAULT_LOG
