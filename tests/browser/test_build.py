"""The page that ships is the page whose source is here."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

WEB = Path(__file__).parents[2] / "mindmap" / "web"
STATIC = WEB.parent / "static"
FILES = ("index.html", "app.js", "logo.png", "favicon.png", "NOTICE")
# What a page may cost that opens at once, from a tunnel too.
LARGEST_SCRIPT = 60_000


@pytest.fixture(scope="module")
def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is not installed (apt-get install nodejs npm)")
    if not (WEB / "node_modules").is_dir():
        pytest.skip("the page's tools are not installed (npm ci --prefix mindmap/web)")
    return found


def run(*command: str) -> None:
    done = subprocess.run(command, cwd=WEB, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_built_is_what_the_source_makes(node: str, tmp_path: Path) -> None:
    """Built again, every file is the same to the byte. Else: `npm run build --prefix mindmap/web`, and commit it."""
    run(node, "build.mjs", "--out", str(tmp_path))
    assert sorted(path.name for path in STATIC.iterdir()) == sorted(FILES)
    for name in FILES:
        assert (STATIC / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_source_passes_its_checks(node: str) -> None:
    """The types hold, and the parts that need no browser do what their tests say."""
    run(node, "node_modules/typescript/bin/tsc", "--noEmit")
    run(node, "build.mjs", "--tests")
    run(node, "--test", *(str(path) for path in sorted((WEB / ".tests").glob("*.test.mjs"))))


def test_script_is_small() -> None:
    """The one script, packed, stays within what was promised."""
    assert len(gzip.compress((STATIC / "app.js").read_bytes(), 9)) <= LARGEST_SCRIPT


def test_page_has_nothing_inline() -> None:
    """No style, no handler and no script stands in the document itself, and nothing comes from elsewhere."""
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script[^>]*>([^<]*)</script>", page) == [""]
    assert not re.search(r"<style|\sstyle=|\son\w+=|//", page)


def test_lock_names_no_host() -> None:
    """Every package is pinned with its digest, and none with an address."""
    packages = json.loads((WEB / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    tied = [package for name, package in packages.items() if name]
    assert tied and all("integrity" in package and "resolved" not in package for package in tied)
