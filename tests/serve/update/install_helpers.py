"""A user who installs and updates the program with pip, pipx or uv, without a network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

from tests.serve.update.wheels import LIBRARY_NAME, ROOT

INSTALL_SCRIPT: Final = str(ROOT / "install.sh")
BIN_DIRECTORY: Final = Path(sys.executable).parent
# Keeps the installers from the network and from this machine's configuration.
OFFLINE_ENVIRONMENT: Final = {
    "PIP_NO_INDEX": "1",
    "PIP_NO_COMPILE": "1",
    "PIP_CONFIG_FILE": os.devnull,
    "UV_OFFLINE": "1",
    "UV_NO_CONFIG": "1",
    "UV_PYTHON_DOWNLOADS": "never",
}

# Module `venv` that copies a finished environment with hard links.
VENV_MODULE: Final = """
import os, shutil, sys
shutil.copytree({template!r}, sys.argv[1], symlinks=True, copy_function=os.link)
"""


def create_venv_module(folder: Path) -> Path:
    """Write a module `venv` that copies an environment in place of creating one, and return its directory.

    Creating an environment takes five seconds of processor time, nearly all of it for pip. Here pip is a copy of the
    one in the test environment. The copies use the module too: `lineage update` ignores PYTHONPATH and creates the
    next environment with the Python of the installed one.
    """
    template, directory = folder / "template", folder / "modules"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", template], check=True, capture_output=True)
    [packages] = template.glob("lib/python*/site-packages")
    pip = distribution("pip")
    for name in ("pip", f"pip-{pip.version}.dist-info"):
        shutil.copytree(str(pip.locate_file(name)), packages / name)
    directory.mkdir()
    (directory / "venv.py").write_text(VENV_MODULE.format(template=str(template)), encoding="utf-8")
    add_venv_module(template, directory)
    return directory


def add_venv_module(environment: Path, directory: Path) -> None:
    """Let the Python of an environment import the module `venv` in a directory; see `create_venv_module`."""
    [packages] = environment.glob("lib/python*/site-packages")
    line = f"import sys; sys.path.insert(0, {str(directory)!r})\n"
    (packages / "venv_module.pth").write_text(line, encoding="utf-8")


class InstallUser:
    """A user with a separate home directory, who installs without a network."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True)
        self.home = home
        self.commands_dir = home / ".local" / "bin"
        inherited = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("PIP", "UV_", "XDG_", "PYTHON"))
        }
        self.environment = inherited | {
            "HOME": str(home),
            "PATH": os.pathsep.join([str(BIN_DIRECTORY), "/usr/bin", "/bin"]),
            "LINEAGE_HOME": str(home / "indexes"),
            **OFFLINE_ENVIRONMENT,
        }

    def use_venv_module(self, directory: Path) -> None:
        """Use the module `venv` in a directory in place of the standard one; see `create_venv_module`."""
        self.environment["PYTHONPATH"] = str(directory)

    def run(self, *command: str | Path, code: int = 0) -> str:
        """Run a command, check its exit code, and return its stdout and stderr."""
        process = subprocess.run(
            command,
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert process.returncode == code, process.stdout + process.stderr
        return process.stdout + process.stderr

    def run_lineage(self, *arguments: str, code: int = 0) -> str:
        return self.run(self.commands_dir / "lineage", *arguments, code=code)

    def read_installed_version(self) -> str:
        return self.run_lineage("--version").removeprefix("lineage ").strip()

    def read_library_version(self) -> str:
        """Return the version of the dependency that is installed with the program."""
        receipt = self.read_receipt()
        environment = Path(str(receipt["environment"]))
        if receipt["installer"] == "pip":
            environment /= "current"
        [metadata] = environment.glob(f"lib/python*/site-packages/{LIBRARY_NAME}-*.dist-info")
        return metadata.name.removeprefix(f"{LIBRARY_NAME}-").removesuffix(".dist-info")

    def read_receipt(self) -> dict[str, object]:
        receipt: dict[str, object] = json.loads((self.commands_dir / "lineage-receipt.json").read_text())
        return receipt
