"""Releases of this project, made from a copy of it: without the model, and with a version of our choosing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
PACKAGES: Final = ("pipeline", "stores", "serve", "mindmap")
LEFT_OUT: Final = shutil.ignore_patterns("*.onnx", "tokenizer.json", "__pycache__", "*.pyc")
# Stands for all dependencies, so that nothing is fetched: it lends the libraries that these tests run with.
LENT: Final = "lineage_test_libraries"
BUILD: Final = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"


def project(folder: Path, version: str, needs: str = LENT) -> Path:
    """A copy of the project as of some version, with one dependency."""
    folder.mkdir(parents=True)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=LEFT_OUT)
    for name in ("README.md", "LICENSE", "install.sh"):
        shutil.copy(ROOT / name, folder)
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    declared = re.sub(r'^version = "[^"]+"', f'version = "{version}"', declared, flags=re.MULTILINE)
    declared = re.sub(r"^dependencies = \[.*?^\]", f'dependencies = ["{needs}"]', declared, flags=re.M | re.S)
    (folder / "pyproject.toml").write_text(declared, encoding="utf-8")
    return folder


def wheel(copy: Path, folder: Path) -> Path:
    """The wheel of a copy, in the folder."""
    folder.mkdir(exist_ok=True)
    before = set(folder.iterdir())
    subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=copy, check=True, capture_output=True)
    [made] = set(folder.iterdir()) - before
    return made


def lend_libraries(folder: Path, name: str = LENT, version: str = "1.0") -> None:
    """Put the wheel that stands for all dependencies, or for the one of this name, into the folder."""
    folder.mkdir(exist_ok=True)
    about = f"{name}-{version}.dist-info"
    files = {
        f"{name}.pth": sysconfig.get_path("purelib") + "\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{about}/RECORD"))
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, content in {**files, f"{about}/RECORD": record}.items():
            archive.writestr(path, content)
