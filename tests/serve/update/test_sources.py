"""install.sh and `lineage update` from each kind of source, by each installer: to the next version and back."""

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
from tests.serve.update.install_helpers import INSTALL, Person
from tests.serve.update.wheels import lend_libraries, project, wheel

TOOLS = pytest.mark.parametrize("tool", ["pip", "pipx", "uv"])


@pytest.fixture(scope="module")
def lent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of wheels that lend what the program runs with, and what it is built with."""
    folder = tmp_path_factory.mktemp("lent")
    lend_libraries(folder)
    lend_libraries(folder, "hatchling", "1.99")
    return folder


@pytest.fixture
def person(tmp_path: Path, lent: Path) -> Person:
    """Somebody whose installers find what is lent, and nothing else."""
    made = Person(tmp_path / "home")
    made.environment |= {"PIP_FIND_LINKS": str(lent), "UV_FIND_LINKS": str(lent)}
    return made


def there_and_back(
    person: Person,
    source: dict[str, str],
    next_version: Callable[[], object],
    first_version: Callable[[], object],
) -> None:
    """From 1.0, which is installed, to 1.1, once the source has it, and back when it has 1.0 alone again."""
    assert (person.version(), person.receipt()["source"]) == ("1.0", source)
    assert "lineage 1.0 is up to date" in person.lineage("update", "--check")
    next_version()
    assert "lineage 1.1 is available" in person.lineage("update", "--check", code=2)
    assert "Updated: lineage 1.0 -> 1.1" in person.lineage("update")
    assert (person.version(), person.receipt()["version"]) == ("1.1", "1.1")
    first_version()
    assert "1.1 is newer than 1.0" in person.lineage("update")
    assert "Went back: lineage 1.1 -> 1.0" in person.lineage("update", "--force")
    assert (person.version(), person.receipt()["version"]) == ("1.0", "1.0")


def become(folder: Path, version: str) -> None:
    """Make the folder the project as of this version."""
    shutil.rmtree(folder, ignore_errors=True)
    project(folder, version)


@TOOLS
def test_directory(person: Person, tmp_path: Path, tool: str) -> None:
    """A folder with the project: its version is what it declares at the moment."""
    folder = tmp_path / "a project"
    become(folder, "1.0")
    said = person.run("sh", folder / "install.sh", "--with", tool)
    assert f"Installed lineage 1.0 in {person.commands}, by {tool}." in said
    source = {"kind": "directory", "location": str(folder), "ref": ""}
    there_and_back(person, source, lambda: become(folder, "1.1"), lambda: become(folder, "1.0"))


@TOOLS
def test_git_address(person: Person, tmp_path: Path, tool: str) -> None:
    """A git repository: its tags are the versions, whatever the branch has since."""
    person.environment |= {"UV_OFFLINE": "0", "UV_NO_INDEX": "1"}  # offline, uv fetches from no repository
    work = Repo.create(tmp_path / "work")
    for version in ("1.0", "1.1", "1.2.dev0"):
        shutil.copytree(project(tmp_path / version, version), work.path, dirs_exist_ok=True)
        work.git("add", "--all")
        work.git("commit", "--quiet", f"--message={version}")
        work.git("tag", f"v{version}")
    bare = tmp_path / "bare.git"
    work.git("clone", "--quiet", "--bare", str(work.path), str(bare))
    served = Repo(bare)
    served.git("tag", "--delete", "v1.1", "v1.2.dev0")
    address = bare.as_uri()
    person.run("sh", INSTALL, "--from", f"git+{address}", "--version", "1.0", "--with", tool)
    there_and_back(
        person,
        {"kind": "git", "location": address, "ref": ""},
        lambda: served.git("tag", "v1.1", work.git("rev-parse", "v1.1")),
        lambda: served.git("tag", "--delete", "v1.1"),
    )


@dataclass
class Index:
    """A package index on this machine: `folder` has a page for each project, `asked` the paths it was asked for."""

    folder: Path
    address: str = ""
    asked: list[str] = field(default_factory=list)

    def offer(self, *wheels: Path) -> None:
        for file in wheels:
            page = self.folder / file.name.split("-")[0].replace("_", "-")
            page.mkdir(exist_ok=True)
            shutil.copy(file, page)
            self.renew(page)

    def withdraw(self, file: str) -> None:
        for there in self.folder.glob(f"*/{file}"):
            there.unlink()
            self.renew(there.parent)

    def renew(self, page: Path) -> None:
        names = sorted(file.name for file in page.glob("*.whl"))
        (page / "index.html").write_text("".join(f'<a href="{name}">{name}</a>\n' for name in names))


class Quiet(SimpleHTTPRequestHandler):
    def __init__(self, index: Index, *arguments: Any) -> None:
        self.index = index
        super().__init__(*arguments, directory=str(index.folder.parent))

    def log_message(self, *_: object) -> None:
        self.index.asked.append(self.path)

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    made = Index(tmp_path / "served" / "simple")
    made.folder.mkdir(parents=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, made)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        made.address = f"http://127.0.0.1:{server.server_port}/simple/"
        yield made
        server.shutdown()
        thread.join()


@TOOLS
def test_package_index(person: Person, tmp_path: Path, index: Index, lent: Path, tool: str) -> None:
    """A package index: nothing is asked of it but this distribution and what that needs, and never `lineage`."""
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS", "UV_FIND_LINKS", "UV_OFFLINE"):
        del person.environment[name]
    person.environment["PIP_INDEX_URL"] = index.address  # for what pipx asks of its own accord
    wheels = {version: wheel(project(tmp_path / version, version), tmp_path) for version in ("1.0", "1.1")}
    index.offer(wheels["1.0"], *lent.iterdir())
    person.run("sh", INSTALL, "--from", f"index={index.address}", "--with", tool)
    there_and_back(
        person,
        {"kind": "index", "location": index.address, "ref": ""},
        lambda: index.offer(wheels["1.1"]),
        lambda: index.withdraw(wheels["1.1"].name),
    )
    projects = {path.split("/")[2] for path in index.asked if path.startswith("/simple/") and len(path) > 8}
    assert projects - {"pip", "setuptools", "wheel"} == {"history-lineage", "lineage-test-libraries"}
