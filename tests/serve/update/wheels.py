"""Builders of wheels: a copy of this project with any version and without models, and a substitute for dependencies."""

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
# The models and installed packages: most of the files' bytes, which no test of an installation reads.
EXCLUDED_FILES: Final = shutil.ignore_patterns(
    "*.onnx", "*.npz", "tokenizer.json", "node_modules", "__pycache__", "*.pyc"
)
# Name of the only dependency of a project copy, so that nothing is downloaded. `build_library_wheel` builds it.
LIBRARY_NAME: Final = "lineage_test_libraries"
BUILD_SCRIPT: Final = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"


def copy_project(folder: Path, version: str, dependency: str = LIBRARY_NAME, pin: str = "1.0") -> Path:
    """Copy the project, with this version and one dependency, whose version `pin` the extra `pinned` names."""
    folder.mkdir(parents=True)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=EXCLUDED_FILES)
    for name in ("history_lineage.py", "README.md", "LICENSE", "install.sh"):
        shutil.copy(ROOT / name, folder)
    pyproject_text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for pattern, line in {
        r'^version = "[^"]+"': f'version = "{version}"',
        r"^requires = \[.*?^\]": 'requires = ["hatchling"]',
        r"^dependencies = \[.*?^\]": f'dependencies = ["{dependency}"]',
        r"^pinned = \[.*?^\]": f'pinned = ["{dependency}=={pin}"]',
    }.items():
        pyproject_text, count = re.subn(pattern, line, pyproject_text, flags=re.MULTILINE | re.DOTALL)
        assert count == 1
    (folder / "pyproject.toml").write_text(pyproject_text, encoding="utf-8")
    return folder


def build_wheel(project: Path, folder: Path) -> Path:
    """Build the wheel of a copy of the project into a directory."""
    folder.mkdir(exist_ok=True)
    before = set(folder.iterdir())
    subprocess.run(
        [sys.executable, "-c", BUILD_SCRIPT, str(folder)], cwd=project, check=True, capture_output=True
    )
    [wheel] = set(folder.iterdir()) - before
    return wheel


def build_library_wheel(folder: Path, name: str = LIBRARY_NAME, version: str = "1.0") -> None:
    """Write the wheel of a dependency that makes the libraries of the test environment importable.

    It has no code, only a `.pth` file. `folder`: where to write it. `name`, `version`: dependency that it satisfies.
    """
    folder.mkdir(exist_ok=True)
    dist_info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.pth": sysconfig.get_path("purelib") + "\n",
        f"{dist_info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{dist_info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{dist_info}/RECORD"))
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, content in {**files, f"{dist_info}/RECORD": record}.items():
            archive.writestr(path, content)
