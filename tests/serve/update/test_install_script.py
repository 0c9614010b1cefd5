"""install.sh and `lineage update` with each installer, from local wheels to the next version and back."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.serve.update.install_helpers import BIN_DIRECTORY, INSTALL_SCRIPT, InstallUser, add_venv_module
from tests.serve.update.wheels import build_library_wheel, build_wheel, copy_project

pytestmark = pytest.mark.timeout(600)  # installers take minutes on a busy machine


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels of 1.0, 1.1 and 1.2rc1 with two versions of their dependency, and of a 3.0 whose dependency is missing."""
    folder = tmp_path_factory.mktemp("releases")
    for version in ("1.0", "9.0"):
        build_library_wheel(folder / "wheels", version=version)
    for version in ("1.0", "1.1", "1.2rc1"):
        build_wheel(copy_project(folder / version, version), folder / "wheels")
    build_wheel(copy_project(folder / "3.0", "3.0", "lineage_nowhere"), folder / "later")
    return folder


@pytest.fixture
def user(tmp_path: Path) -> InstallUser:
    return InstallUser(tmp_path / "some home")


def copy_wheels(releases: Path, folder: Path, *versions: str) -> Path:
    """Copy the wheels of these versions and their dependencies into a new directory."""
    folder.mkdir()
    for file in (releases / "wheels").iterdir():
        if file.name.split("-")[1] in versions or not file.name.startswith("history"):
            shutil.copy(file, folder)
    return folder


@pytest.mark.parametrize(("tool", "shell"), [("pip", "sh"), ("pipx", "bash"), ("uv", "sh")])
def test_update_and_downgrade(
    user: InstallUser, releases: Path, tmp_path: Path, tool: str, shell: str, request: pytest.FixtureRequest
) -> None:
    """An installation from a directory of wheels updates to a newer one, and goes back with --force.

    Each time it gets the version of the dependency that it was tested with, and not the newest.
    """
    wheels = copy_wheels(releases, tmp_path / "ada's wheels", "1.0", "1.2rc1")
    output = user.run(shell, INSTALL_SCRIPT, "--from", wheels, "--with", tool)
    assert f"Installed lineage 1.0 in {user.commands_dir} with {tool}." in output
    assert (user.read_receipt()["installer"], user.read_library_version()) == (tool, "1.0")
    assert user.read_receipt()["source"] == {"kind": "wheels", "location": str(wheels), "ref": ""}
    for command in ("lineage-mcp", "mindmap"):
        assert "usage: " in user.run(user.commands_dir / command, "--help").lower()
    assert "lineage 1.0 is up to date" in user.run_lineage("update", "--check")
    assert "lineage 1.2rc1 is available" in user.run_lineage("update", "--check", "--prerelease", code=2)

    shutil.copy(next((releases / "wheels").glob("*-1.1-*")), wheels)
    assert "lineage 1.1 is available" in user.run_lineage("update", "--check", code=2)
    assert user.read_installed_version() == "1.0"
    assert "Updated: lineage 1.0 -> 1.1" in user.run_lineage("update")
    assert (user.read_installed_version(), user.read_receipt()["version"]) == ("1.1", "1.1")
    assert user.read_library_version() == "1.0"
    assert "is up to date" in user.run_lineage("update")

    if tool == "pip":  # the installation and the first update have created real environments
        add_venv_module(
            Path(str(user.read_receipt()["environment"])) / "current", request.getfixturevalue("venv_module")
        )
    broken_wheel = wheels / "history_lineage-2.0-py3-none-any.whl"
    for content in (next(wheels.glob("*-1.1-*")).read_bytes(), b"no wheel"):
        broken_wheel.write_bytes(content)
        output = user.run_lineage("update", code=1)
        error = "error: lineage 2.0 was not installed; 1.1 still works."
        assert any(line.startswith(error) for line in output.splitlines())
        assert (user.read_installed_version(), user.read_receipt()["version"]) == ("1.1", "1.1")
    broken_wheel.unlink()

    next(wheels.glob("*-1.1-*")).unlink()
    assert "1.1 is newer than 1.0" in user.run_lineage("update")
    assert user.read_installed_version() == "1.1"
    assert "Downgraded: lineage 1.1 -> 1.0" in user.run_lineage("update", "--force")
    assert (user.read_installed_version(), user.read_receipt()["version"]) == ("1.0", "1.0")


def interrupt_update(user: InstallUser, number: int) -> tuple[int, str]:
    """Send a signal to an update that waits for an index which never answers; return its exit code and stderr."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(120)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/"
        environment = user.environment | {"PIP_INDEX_URL": address, "UV_DEFAULT_INDEX": address}
        del environment["PIP_NO_INDEX"], environment["UV_OFFLINE"]
        process = subprocess.Popen(
            [str(user.commands_dir / "lineage"), "update"],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        connection, _ = server.accept()
        os.killpg(process.pid, number)
        with connection:
            _, output = process.communicate(timeout=60)
    return process.returncode, output


def test_interrupted_update_leaves_the_old_version(
    user: InstallUser, releases: Path, tmp_path: Path, venv_module: Path
) -> None:
    """After Ctrl-C, kill and kill -9 the old version and its receipt are unchanged, and the next update succeeds."""
    user.use_venv_module(venv_module)
    wheels, prefix = copy_wheels(releases, tmp_path / "wheels", "1.0"), tmp_path / "prefix"
    user.commands_dir = tmp_path / "bin"
    user.run("sh", INSTALL_SCRIPT, "--from", wheels, "--prefix", prefix, "--bin-dir", user.commands_dir)
    later_wheel = shutil.copy(next((releases / "later").glob("*.whl")), wheels)
    message = "Interrupted. lineage 1.0 still works.\n"
    assert interrupt_update(user, signal.SIGINT) == (130, message)
    assert interrupt_update(user, signal.SIGTERM) == (143, message)
    versions, old = prefix / "versions", (prefix / "current").resolve()
    assert len(list(versions.iterdir())) == 1
    assert interrupt_update(user, signal.SIGKILL)[0] == -signal.SIGKILL
    assert (user.read_installed_version(), user.read_receipt()["version"]) == ("1.0", "1.0")
    Path(later_wheel).unlink()
    shutil.copy(next((releases / "wheels").glob("*-1.1-*")), wheels)
    assert "Updated" in user.run_lineage("update")
    assert user.read_installed_version() == "1.1"
    environments = [path for path in versions.iterdir() if not path.is_symlink()]
    assert [path.name.startswith("1.1-") for path in environments] == [True]
    # Programs of the old version that are still running use the files of the new one.
    assert user.run(old / "bin" / "lineage", "--version") == "lineage 1.1\n"


@pytest.mark.parametrize("tool", ["pipx", "uv"])
def test_killed_update_in_place(user: InstallUser, releases: Path, tmp_path: Path, tool: str) -> None:
    """After a kill the reported command restores the old version, and the next update succeeds."""
    wheels = copy_wheels(releases, tmp_path / "wheels", "1.0")
    user.run("sh", INSTALL_SCRIPT, "--from", wheels, "--with", tool)
    later_wheel = shutil.copy(next((releases / "later").glob("*.whl")), wheels)
    code, output = interrupt_update(user, signal.SIGKILL)
    assert code == -signal.SIGKILL
    note, command = output.splitlines()
    assert note == "If this update is killed and lineage no longer runs, this command restores 1.0:"
    environment = Path(str(user.read_receipt()["environment"]))
    shutil.rmtree(environment / "bin")  # as if the tool had been killed after deleting it
    user.run("sh", "-c", command)
    assert (user.read_installed_version(), user.read_receipt()["version"]) == ("1.0", "1.0")
    Path(later_wheel).unlink()
    shutil.copy(next((releases / "wheels").glob("*-1.1-*")), wheels)
    assert "Updated" in user.run_lineage("update")
    assert user.read_installed_version() == "1.1"


@pytest.mark.parametrize(("tool", "code"), [("pipx", 1), ("uv", 2)])
def test_failed_installation_over_an_older_version(
    user: InstallUser, releases: Path, tmp_path: Path, tool: str, code: int
) -> None:
    """The older version still works, although uv deletes it before it notices the error."""
    wheels = copy_wheels(releases, tmp_path / "wheels", "1.0")
    install = ("sh", INSTALL_SCRIPT, "--from", wheels, "--with", tool)
    user.run(*install)
    # pipx cannot find a dependency of 3.0. For uv, the name of a wheel does not fit its content.
    wheel = next((wheels if tool == "uv" else releases / "later").glob("history*.whl"))
    shutil.copy(wheel, wheels / "history_lineage-3.0-py3-none-any.whl")
    assert "Nothing was installed." in user.run(*install, code=code)
    assert user.read_installed_version() == "1.0"
    assert not list(Path(str(user.read_receipt()["environment"])).parent.glob("*.before-install"))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--nonsense"], 2, "Unknown option --nonsense."),
        (["--with", "conda"], 2, "--with takes pip, pipx or uv, not conda."),
        (["--version"], 2, "--version needs a value."),
        (["--from", "nowhere"], 2, "nowhere is not a directory. A git address begins with git+."),
        (["--from", "git+example"], 2, "example is not a git address"),
        (["--from", "."], 1, "has no wheel of history-lineage and no project."),
        (["--from", ".", "--ref", "main"], 1, "has no wheel"),
        (["--from", "index", "--ref", "main"], 2, "--ref is only for git sources."),
        (["--python", "/bin/true2"], 1, "/bin/true2 is not Python 3.11 or newer."),
    ],
)
def test_invalid_options(user: InstallUser, arguments: list[str], code: int, message: str) -> None:
    """Invalid options are refused with an explanation, and nothing is created."""
    output = user.run("sh", INSTALL_SCRIPT, *arguments, code=code)
    assert output.startswith("error: ") and message in output
    assert list(user.home.iterdir()) == []


def test_failed_installation_leaves_nothing(user: InstallUser, tmp_path: Path, venv_module: Path) -> None:
    """If the installer fails, the script says that nothing was installed and leaves no files."""
    user.use_venv_module(venv_module)
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (wheels / "history_lineage-1.0-py3-none-any.whl").write_bytes(b"no wheel")
    assert "Nothing was installed." in user.run("sh", INSTALL_SCRIPT, "--from", wheels, code=1)
    assert not user.commands_dir.exists()
    assert not list((user.home / ".local/share/lineage/versions").iterdir())


def test_help(user: InstallUser) -> None:
    """--help prints the same text in every shell."""
    shells = [shell for shell in ("sh", "dash", "bash", "ksh", "zsh") if shutil.which(shell)]
    texts = {user.run(shell, INSTALL_SCRIPT, "--help") for shell in shells}
    assert len(texts) == 1 and "--from SOURCE" in texts.pop()


def test_shellcheck() -> None:
    """shellcheck finds nothing in install.sh for POSIX sh."""
    result = subprocess.run(
        [BIN_DIRECTORY / "shellcheck", "--shell=sh", INSTALL_SCRIPT],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
