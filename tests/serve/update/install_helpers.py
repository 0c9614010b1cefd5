"""Somebody who installs the program and updates it, by the installers there are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.serve.update.wheels import ROOT

INSTALL: Final = str(ROOT / "install.sh")
PROGRAMS: Final = Path(sys.executable).parent
# What keeps the installers from any network, and from what this machine is set up with.
ALONE: Final = {
    "PIP_NO_INDEX": "1",
    "PIP_NO_COMPILE": "1",
    "PIP_CONFIG_FILE": os.devnull,
    "UV_OFFLINE": "1",
    "UV_NO_CONFIG": "1",
    "UV_PYTHON_DOWNLOADS": "never",
}


class Person:
    """Somebody with a home of their own, who installs without a network."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True)
        self.home = home
        self.commands = home / ".local" / "bin"
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("PIP", "UV_", "XDG_", "PYTHON"))
        }
        self.environment = kept | {
            "HOME": str(home),
            "PATH": os.pathsep.join([str(PROGRAMS), "/usr/bin", "/bin"]),
            "LINEAGE_HOME": str(home / "indexes"),
            **ALONE,
        }

    def run(self, *command: str | Path, code: int = 0) -> str:
        """What a command says, on stdout and stderr."""
        done = subprocess.run(
            command,
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def lineage(self, *arguments: str, code: int = 0) -> str:
        return self.run(self.commands / "lineage", *arguments, code=code)

    def version(self) -> str:
        return self.lineage("--version").removeprefix("lineage ").strip()

    def receipt(self) -> dict[str, object]:
        read: dict[str, object] = json.loads((self.commands / "lineage-receipt.json").read_text())
        return read
