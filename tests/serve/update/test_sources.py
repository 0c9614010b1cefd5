"""install.sh and `lineage update` from each kind of source, with each installer: to the next version and back."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.repos import Repo
from tests.serve.update.install_helpers import INSTALL_SCRIPT, InstallUser
from tests.serve.update.wheels import build_library_wheel, build_wheel, copy_project

pytestmark = pytest.mark.timeout(600)  # installers take minutes on a busy machine


@pytest.fixture(scope="session")
def dependencies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of wheels that replace the runtime and build dependencies."""
    folder = tmp_path_factory.mktemp("dependencies")
    for version in ("1.0", "1.1", "9.0"):
        build_library_wheel(folder, version=version)
    build_library_wheel(folder, "hatchling", "1.99")
    return folder


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Wheels of 1.0 and 1.1."""
    folder = tmp_path_factory.mktemp("releases")
    return {
        version: build_wheel(copy_project(folder / version, version, pin=version), folder / "wheels")
        for version in ("1.0", "1.1")
    }


@pytest.fixture
def user(tmp_path: Path, dependencies: Path, tool: str, venv_module: Path) -> InstallUser:
    """A user whose installers find only these wheels. With pip, environments are copies."""
    user = InstallUser(tmp_path / "home")
    if tool == "pip":
        user.use_venv_module(venv_module)
    user.environment |= {"PIP_FIND_LINKS": str(dependencies), "UV_FIND_LINKS": str(dependencies)}
    return user


def update_and_downgrade(
    user: InstallUser,
    source: dict[str, str],
    offer_next_version: Callable[[], object],
    offer_first_version: Callable[[], object],
) -> None:
    """Update the installed 1.0 to 1.1 once the source has it, and downgrade when the source has only 1.0 again.

    Each release was tested with the version of its dependency that has the same number; there is a newer one.
    """
    assert user.read_library_version() == "1.0"
    assert (user.read_installed_version(), user.read_receipt()["source"]) == ("1.0", source)
    assert "lineage 1.0 is up to date" in user.run_lineage("update", "--check")
    offer_next_version()
    assert "lineage 1.1 is available" in user.run_lineage("update", "--check", code=2)
    assert "Updated: lineage 1.0 -> 1.1" in user.run_lineage("update")
    assert (user.read_installed_version(), user.read_receipt()["version"]) == ("1.1", "1.1")
    assert user.read_library_version() == "1.1"
    offer_first_version()
    assert "1.1 is newer than 1.0" in user.run_lineage("update")
    assert "Downgraded: lineage 1.1 -> 1.0" in user.run_lineage("update", "--force")
    assert (user.read_installed_version(), user.read_receipt()["version"]) == ("1.0", "1.0")
    assert user.read_library_version() == "1.0"


def replace_project(folder: Path, version: str) -> None:
    """Replace a directory by a copy of the project with this version."""
    shutil.rmtree(folder, ignore_errors=True)
    copy_project(folder, version, pin=version)


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_directory(user: InstallUser, tmp_path: Path, tool: str) -> None:
    """A project directory offers the version that it declares at the moment."""
    folder = tmp_path / "a project"
    replace_project(folder, "1.0")
    output = user.run("sh", folder / "install.sh", "--with", tool)
    assert f"Installed lineage 1.0 in {user.commands_dir} with {tool}." in output
    source = {"kind": "directory", "location": str(folder), "ref": ""}
    update_and_downgrade(
        user, source, lambda: replace_project(folder, "1.1"), lambda: replace_project(folder, "1.0")
    )


@pytest.mark.parametrize("tool", ["pipx", "uv"])
def test_git_address(user: InstallUser, tmp_path: Path, tool: str) -> None:
    """A git repository offers its tags, whatever its branch has since."""
    user.environment |= {"UV_OFFLINE": "0", "UV_NO_INDEX": "1"}  # offline, uv fetches from no repository
    work = Repo.create(tmp_path / "work")
    for version in ("1.0", "1.1", "1.2.dev0"):
        shutil.copytree(copy_project(tmp_path / version, version, pin=version), work.path, dirs_exist_ok=True)
        work.git("add", "--all")
        work.git("commit", "--quiet", f"--message={version}")
        work.git("tag", f"v{version}")
    bare = tmp_path / "bare.git"
    work.git("clone", "--quiet", "--bare", str(work.path), str(bare))
    bare_repo = Repo(bare)
    bare_repo.git("tag", "--delete", "v1.1", "v1.2.dev0")
    address = bare.as_uri()
    user.run("sh", INSTALL_SCRIPT, "--from", f"git+{address}", "--version", "1.0", "--with", tool)
    update_and_downgrade(
        user,
        {"kind": "git", "location": address, "ref": ""},
        lambda: bare_repo.git("tag", "v1.1", work.git("rev-parse", "v1.1")),
        lambda: bare_repo.git("tag", "--delete", "v1.1"),
    )


@dataclass
class PackageIndex:
    """A local package index: `folder` has a page for each project, `requested_paths` the paths of all requests."""

    folder: Path
    address: str = ""
    requested_paths: list[str] = field(default_factory=list)

    def add(self, *wheels: Path) -> None:
        for file in wheels:
            page = self.folder / file.name.split("-")[0].replace("_", "-")
            page.mkdir(exist_ok=True)
            shutil.copy(file, page)
            self.write_page(page)

    def remove(self, file: str) -> None:
        for wheel in self.folder.glob(f"*/{file}"):
            wheel.unlink()
            self.write_page(wheel.parent)

    def write_page(self, page: Path) -> None:
        names = sorted(file.name for file in page.glob("*.whl"))
        (page / "index.html").write_text("".join(f'<a href="{name}">{name}</a>\n' for name in names))


class IndexRequestHandler(SimpleHTTPRequestHandler):
    def __init__(self, index: PackageIndex, *arguments: Any) -> None:
        self.index = index
        super().__init__(*arguments, directory=str(index.folder.parent))

    def log_message(self, *_: object) -> None:
        self.index.requested_paths.append(self.path)

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()


@pytest.fixture
def index(tmp_path: Path) -> Iterator[PackageIndex]:
    package_index = PackageIndex(tmp_path / "served" / "simple")
    package_index.folder.mkdir(parents=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(IndexRequestHandler, package_index)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        package_index.address = f"http://127.0.0.1:{server.server_port}/simple/"
        yield package_index
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("tool", ["pip", "pipx", "uv"])  # each lists versions in its own way
def test_package_index(
    user: InstallUser, releases: dict[str, Path], index: PackageIndex, dependencies: Path, tool: str
) -> None:
    """A package index is asked only for this distribution and its dependencies, and never for `lineage`."""
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS", "UV_FIND_LINKS", "UV_OFFLINE"):
        del user.environment[name]
    user.environment["PIP_INDEX_URL"] = index.address  # for requests that pipx makes itself
    index.add(releases["1.0"], *dependencies.iterdir())
    user.run("sh", INSTALL_SCRIPT, "--from", f"index={index.address}", "--with", tool)
    update_and_downgrade(
        user,
        {"kind": "index", "location": index.address, "ref": ""},
        lambda: index.add(releases["1.1"]),
        lambda: index.remove(releases["1.1"].name),
    )
    projects = {
        path.split("/")[2] for path in index.requested_paths if path.startswith("/simple/") and len(path) > 8
    }
    assert projects - {"pip", "setuptools", "wheel"} == {"history-lineage", "lineage-test-libraries"}
