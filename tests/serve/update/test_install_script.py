"""install.sh and `lineage update`, from one local wheel to the next and back, by each installer."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.serve.update.install_helpers import INSTALL, PROGRAMS, Person
from tests.serve.update.wheels import lend_libraries, project, wheel


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels of 1.0, 1.1 and 1.2rc1, of a 3.0 that needs what nobody has, and what they need."""
    folder = tmp_path_factory.mktemp("releases")
    lend_libraries(folder / "wheels")
    for version in ("1.0", "1.1", "1.2rc1"):
        wheel(project(folder / version, version), folder / "wheels")
    wheel(project(folder / "3.0", "3.0", "lineage_nowhere"), folder / "later")
    return folder


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path / "some home")


def wheels_of(releases: Path, folder: Path, *versions: str) -> Path:
    """A folder with the wheels of these versions, and what they need."""
    folder.mkdir()
    for file in (releases / "wheels").iterdir():
        if file.name.split("-")[1] in versions or not file.name.startswith("history"):
            shutil.copy(file, folder)
    return folder


@pytest.mark.parametrize(("tool", "shell"), [("pip", "sh"), ("pipx", "bash"), ("uv", "sh")])
def test_to_the_next_version_and_back(
    person: Person, releases: Path, tmp_path: Path, tool: str, shell: str
) -> None:
    """Installed from a folder of wheels, updated to a newer one that appears there, and back by force."""
    wheels = wheels_of(releases, tmp_path / "ada's wheels", "1.0", "1.2rc1")
    said = person.run(shell, INSTALL, "--from", wheels, "--with", tool)
    assert f"Installed lineage 1.0 in {person.commands}, by {tool}." in said
    assert person.receipt()["installer"] == tool
    assert person.receipt()["source"] == {"kind": "wheels", "location": str(wheels), "ref": ""}
    for command in ("lineage-mcp", "mindmap"):
        assert "usage: " in person.run(person.commands / command, "--help").lower()
    assert "lineage 1.0 is up to date" in person.lineage("update", "--check")
    assert "lineage 1.2rc1 is available" in person.lineage("update", "--check", "--prerelease", code=2)

    shutil.copy(next((releases / "wheels").glob("*-1.1-*")), wheels)
    assert "lineage 1.1 is available" in person.lineage("update", "--check", code=2)
    assert person.version() == "1.0"
    assert "Updated: lineage 1.0 -> 1.1" in person.lineage("update")
    assert (person.version(), person.receipt()["version"]) == ("1.1", "1.1")
    assert "is up to date" in person.lineage("update")

    broken = wheels / "history_lineage-2.0-py3-none-any.whl"
    broken.write_bytes(b"no wheel")
    said = person.lineage("update", code=1)
    error = "error: lineage 2.0 was not installed; 1.1 goes on working."
    assert any(line.startswith(error) for line in said.splitlines())
    assert (person.version(), person.receipt()["version"]) == ("1.1", "1.1")
    broken.unlink()

    next(wheels.glob("*-1.1-*")).unlink()
    assert "1.1 is newer than 1.0" in person.lineage("update")
    assert person.version() == "1.1"
    assert "Went back: lineage 1.1 -> 1.0" in person.lineage("update", "--force")
    assert (person.version(), person.receipt()["version"]) == ("1.0", "1.0")


def interrupted(person: Person, number: int) -> tuple[int, str]:
    """An update that waits for an index which never answers, ended by a signal; its exit code and stderr."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(120)
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        environment = person.environment | {"PIP_INDEX_URL": address, "UV_DEFAULT_INDEX": address}
        del environment["PIP_NO_INDEX"], environment["UV_OFFLINE"]
        process = subprocess.Popen(
            [str(person.commands / "lineage"), "update"],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        connection, _ = silent.accept()
        os.killpg(process.pid, number)
        with connection:
            _, said = process.communicate(timeout=60)
    return process.returncode, said


def test_an_interrupted_update_leaves_the_old_version(person: Person, releases: Path, tmp_path: Path) -> None:
    """Ctrl-C, kill, kill -9 in the middle: the old version works, its receipt stands, the next update succeeds."""
    wheels, place = wheels_of(releases, tmp_path / "wheels", "1.0"), tmp_path / "place"
    person.commands = tmp_path / "bin"
    person.run("sh", INSTALL, "--from", wheels, "--prefix", place, "--bin-dir", person.commands)
    later = shutil.copy(next((releases / "later").glob("*.whl")), wheels)
    said = "Interrupted: lineage 1.0 goes on working.\n"
    assert interrupted(person, signal.SIGINT) == (130, said)
    assert interrupted(person, signal.SIGTERM) == (143, said)
    versions, old = place / "versions", (place / "current").resolve()
    assert len(list(versions.iterdir())) == 1
    assert interrupted(person, signal.SIGKILL)[0] == -signal.SIGKILL
    assert (person.version(), person.receipt()["version"]) == ("1.0", "1.0")
    Path(later).unlink()
    shutil.copy(next((releases / "wheels").glob("*-1.1-*")), wheels)
    assert "Updated" in person.lineage("update")
    assert person.version() == "1.1"
    real = [path for path in versions.iterdir() if not path.is_symlink()]
    assert [path.name.startswith("1.1-") for path in real] == [True]
    # What still runs of the old version finds its files after an update: those of the new one.
    assert person.run(old / "bin" / "lineage", "--version") == "lineage 1.1\n"


@pytest.mark.parametrize("tool", ["pipx", "uv"])
def test_a_killed_update_in_place(person: Person, releases: Path, tmp_path: Path, tool: str) -> None:
    """Killed where the tool changes the environment in place: it works, or what was told before brings it back."""
    wheels = wheels_of(releases, tmp_path / "wheels", "1.0")
    person.run("sh", INSTALL, "--from", wheels, "--with", tool)
    later = shutil.copy(next((releases / "later").glob("*.whl")), wheels)
    code, said = interrupted(person, signal.SIGKILL)
    assert code == -signal.SIGKILL
    note, command = said.splitlines()
    assert note == "Should this be killed and lineage no longer run, this brings back 1.0:"
    environment = Path(str(person.receipt()["environment"]))
    shutil.rmtree(environment / "bin")  # whatever the tool had come to
    person.run("sh", "-c", command)
    assert (person.version(), person.receipt()["version"]) == ("1.0", "1.0")
    Path(later).unlink()
    shutil.copy(next((releases / "wheels").glob("*-1.1-*")), wheels)
    assert "Updated" in person.lineage("update")
    assert person.version() == "1.1"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--nonsense"], 2, "--nonsense is no option."),
        (["--with", "conda"], 2, "--with takes pip, pipx or uv, not conda."),
        (["--version"], 2, "--version needs a value."),
        (["--from", "nowhere"], 2, "nowhere is no folder; a git address begins with git+."),
        (["--from", "git+example"], 2, "example is no address"),
        (["--from", "."], 1, "has no wheel of history-lineage, and no project."),
        (["--from", ".", "--ref", "main"], 1, "has no wheel"),
        (["--from", "index", "--ref", "main"], 2, "--ref is for git."),
        (["--python", "/bin/true2"], 1, "/bin/true2 is no Python from 3.11 on."),
    ],
)
def test_misuse(person: Person, arguments: list[str], code: int, says: str) -> None:
    """What cannot be meant is refused with what to do, and nothing is made."""
    said = person.run("sh", INSTALL, *arguments, code=code)
    assert said.startswith("error: ") and says in said
    assert list(person.home.iterdir()) == []


def test_a_failed_installation_leaves_nothing(person: Person, tmp_path: Path) -> None:
    """Where the tool fails, it is said that nothing was installed, and nothing is left."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (wheels / "history_lineage-1.0-py3-none-any.whl").write_bytes(b"no wheel")
    assert "Nothing was installed." in person.run("sh", INSTALL, "--from", wheels, code=1)
    assert not person.commands.exists()
    assert not list((person.home / ".local/share/lineage/versions").iterdir())


def test_help(person: Person) -> None:
    """--help tells all of it, in any shell there is."""
    shells = [shell for shell in ("sh", "dash", "bash", "ksh", "zsh") if shutil.which(shell)]
    texts = {person.run(shell, INSTALL, "--help") for shell in shells}
    assert len(texts) == 1 and "--from SOURCE" in texts.pop()


def test_shellcheck() -> None:
    """The installer is without a finding, as a script for any POSIX shell."""
    done = subprocess.run(
        [PROGRAMS / "shellcheck", "--shell=sh", INSTALL], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
