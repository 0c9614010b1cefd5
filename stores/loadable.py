"""DuckDB's extensions as they are installed beside it: files inside wheels, loaded by path, never fetched."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

import duckdb

# Full text is compared with `fts` in tests only; `vss` serves indexes that are too large for memory.
EXTENSIONS: Final = ("fts", "vss")


@dataclass(frozen=True, slots=True)
class Extension:
    """An extension's wheel; `version` is None where none is installed, `fault` says why it cannot be loaded."""

    name: str
    version: str | None = None
    fault: str = ""

    @property
    def distribution(self) -> str:
        """The package it comes in, at the version this database takes."""
        return f"duckdb-extension-{self.name}=={duckdb.__version__}"


def installed(name: str) -> Extension:
    """The extension, loaded once into a database of its own to see whether it can be."""
    try:
        wheel = metadata.distribution(f"duckdb-extension-{name}")
    except metadata.PackageNotFoundError:
        return Extension(name)
    files = [Path(str(file.locate())) for file in wheel.files or () if file.suffix == ".duckdb_extension"]
    return Extension(name, wheel.version, _fault(files))


def _fault(files: list[Path]) -> str:
    if not files:
        return "its wheel holds no extension"
    quoted = str(files[0]).replace("'", "''")
    try:
        with duckdb.connect(":memory:", config={"autoinstall_known_extensions": "false"}) as connection:
            connection.execute(f"LOAD '{quoted}'")
    except duckdb.Error as error:
        return str(error).splitlines()[0]
    return ""
