"""Built files of the page, and the type check and unit tests of its source."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.browser.conftest import Site
from tests.serve.viewer.helpers import ViewerClient

pytestmark = pytest.mark.timeout(600)  # a build takes minutes on a busy machine
WEB = Path(__file__).parents[2] / "mindmap" / "web"
STATIC = WEB.parent / "static"
FILES = ("index.html", "app.js", "logo.png", "favicon.png", "NOTICE")


@pytest.fixture(scope="module")
def node() -> str:
    executable = shutil.which("node")
    if executable is None:
        pytest.skip("node is not installed (apt-get install nodejs npm)")
    if not (WEB / "node_modules").is_dir():
        pytest.skip("the page's tools are not installed (npm ci --prefix mindmap/web)")
    return executable


def run_command(*command: str) -> None:
    result = subprocess.run(command, cwd=WEB, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr


def test_built_files_match_source(node: str, tmp_path: Path) -> None:
    """A new build gives identical files. Otherwise run `npm run build --prefix mindmap/web` and commit the result."""
    run_command(node, "build.mjs", "--out", str(tmp_path))
    assert sorted(path.name for path in STATIC.iterdir()) == sorted(FILES)
    for name in FILES:
        assert (STATIC / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_typescript_checks_and_unit_tests(node: str) -> None:
    """The type check and the unit tests of the page pass."""
    run_command(node, "node_modules/typescript/bin/tsc", "--noEmit")
    run_command(node, "build.mjs", "--tests")
    run_command(node, "--test", *(str(path) for path in sorted((WEB / ".tests").glob("*.test.mjs"))))


def test_script_size(site: Site) -> None:
    """The script that the viewer sends loads within half a second through a tunnel of 1.2 Mbit/s to another machine."""
    max_script_bytes = 70_000
    viewer = ViewerClient(urlsplit(site.address).port or 0)
    content = viewer.request("/app.js", Accept_Encoding="gzip").content
    assert gzip.decompress(content) == (STATIC / "app.js").read_bytes()
    assert len(content) <= max_script_bytes


def test_page_has_no_inline_code() -> None:
    """The HTML page has no inline styles, handlers or scripts, and no external resources."""
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script[^>]*>([^<]*)</script>", page) == [""]
    assert not re.search(r"<style|\sstyle=|\son\w+=|//", page)


def test_lock_file_has_digests_and_no_urls() -> None:
    """Every package in the lock file is pinned by a digest, and none by a URL."""
    packages = json.loads((WEB / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    pinned = [package for name, package in packages.items() if name]
    assert pinned and all("integrity" in package and "resolved" not in package for package in pinned)
