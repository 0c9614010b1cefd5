"""Receipts, offers of each kind of source, and restoring an environment after a failed update."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from serve import config
from serve.cli import app
from serve.update import installers, receipt, sources
from serve.update.receipt import COMMANDS, Installer, Receipt, Source, SourceKind, link_commands
from serve.update.sources import SourceFailed
from stores.errors import LineageError
from tests.repos import Repo

ENVIRONMENT = Path(sys.prefix)


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Path of the command that `sys.argv` names."""
    path = tmp_path / "bin" / "lineage"
    path.parent.mkdir()
    path.touch()
    monkeypatch.setattr(sys, "argv", [str(path)])
    return path


def create_receipt(source: Source, installer: Installer = "pip", environment: Path = ENVIRONMENT) -> Receipt:
    return Receipt.create(config.read_version(), installer, source, environment)


def find_offer(source: Source, *, prerelease: bool = False, installer: Installer = "pip") -> tuple[str, str]:
    offer = sources.find_newest(create_receipt(source, installer), prerelease=prerelease)
    return str(offer.version), offer.requirement


def run_update(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, str]:
    code = app.main(["update", *flags])
    return code, capsys.readouterr().err


@pytest.mark.usefixtures("command")
@pytest.mark.parametrize("flags", [[], ["--check"], ["--force"], ["--prerelease"]])
def test_without_a_receipt(capsys: pytest.CaptureFixture[str], flags: list[str]) -> None:
    """Without a receipt every form of the command is an error that says how to install."""
    code, err = run_update(capsys, *flags)
    assert code == 1
    assert "There is no lineage-receipt.json next to" in err and "sh install.sh --help" in err


def test_receipt_is_found_next_to_the_command_or_a_link_to_it(
    command: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receipt is read as written, next to the command, which can be a link, and through a link elsewhere."""
    expected = create_receipt(Source("wheels", "/wheels"))
    receipt.write_receipt(command.parent, expected)
    assert receipt.find_receipt() == (command.parent, expected)
    link = tmp_path / "link"
    link.symlink_to(command)
    monkeypatch.setattr(sys, "argv", [str(link)])
    assert receipt.find_receipt() == (command.parent, expected)
    command.symlink_to(command.rename(tmp_path / "program"))
    other_link = tmp_path / "other link"
    other_link.symlink_to("link")
    monkeypatch.setattr(sys, "argv", [str(other_link)])
    assert receipt.find_receipt() == (command.parent, expected)


def test_receipt_of_another_installation(
    command: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A receipt that belongs to another environment is refused."""
    receipt.write_receipt(command.parent, create_receipt(Source("wheels", "/wheels"), environment=tmp_path))
    code, err = run_update(capsys)
    assert code == 1 and "belongs to another installation" in err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "to a newer version"),
        ({"distribution": "lineage"}, "another program"),
        ({"installer": "conda"}, "cannot be read"),
        ({"source": {}}, "cannot be read"),
    ],
)
def test_invalid_receipt(
    command: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object], message: str
) -> None:
    """A receipt with invalid content is refused."""
    receipt.write_receipt(command.parent, create_receipt(Source("wheels", "/wheels")))
    file = command.parent / receipt.RECEIPT_FILE
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    code, err = run_update(capsys)
    assert code == 1 and message in err
    file.write_bytes(b'{"version": "\xff"}')
    assert "cannot be read" in run_update(capsys)[1]


def test_check_exit_codes(command: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--check` exits with 2 if there is a newer version and with 0 otherwise, and changes nothing."""
    receipt.write_receipt(command.parent, create_receipt(Source("wheels", str(tmp_path))))
    for version, code in ((config.read_version(), 0), ("99.0rc1", 0), ("99.0", 2)):
        (tmp_path / f"history_lineage-{version}-py3-none-any.whl").touch()
        assert app.main(["update", "--check"]) == code
    assert "lineage 99.0 is available in the wheels in" in capsys.readouterr().out
    assert receipt.find_receipt()[1].version == config.read_version()


def test_wheels(tmp_path: Path) -> None:
    """The newest version counts, not the last name; wheels of other projects and invalid names are ignored."""
    for name in ("history_lineage-0.9", "history_lineage-0.10", "history_lineage-1.0rc1", "lineage-7.0"):
        (tmp_path / f"{name}-py3-none-any.whl").touch()
    (tmp_path / "history_lineage-8.whl").touch()
    source = Source("wheels", str(tmp_path))
    assert find_offer(source) == ("0.10", str(tmp_path / "history_lineage-0.10-py3-none-any.whl"))
    assert find_offer(source, prerelease=True)[0] == "1.0rc1"
    with pytest.raises(SourceFailed, match="does not exist"):
        find_offer(Source("wheels", str(tmp_path / "nowhere")))


def write_pyproject(folder: Path, name: str, version: str) -> str:
    folder.mkdir(exist_ok=True)
    text = f'[project]\nname = "{name}"\nversion = "{version}"\n'
    (folder / "pyproject.toml").write_text(text)
    return text


def test_directory(tmp_path: Path) -> None:
    """A directory offers the version its project declares; another project, or none, is refused."""
    write_pyproject(tmp_path, "history-lineage", "2.5")
    assert find_offer(Source("directory", str(tmp_path))) == ("2.5", str(tmp_path))
    write_pyproject(tmp_path, "lineage", "9.0")
    with pytest.raises(SourceFailed, match="contains lineage, not history-lineage"):
        find_offer(Source("directory", str(tmp_path)))
    with pytest.raises(SourceFailed, match="has no pyproject"):
        find_offer(Source("directory", str(tmp_path / "nowhere")))


def test_git(tmp_path: Path) -> None:
    """A repository offers its version tags; with a ref, or without such tags, the version of the branch."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("pyproject.toml", write_pyproject(tmp_path / "draft", "history-lineage", "3.0"))
    address = repo.path.as_uri()
    assert find_offer(Source("git", address)) == ("3.0", f"history-lineage @ git+{address}")
    for tag in ("v1.0", "v1.10", "1.9", "v2.0rc1", "nightly", "v-last"):
        repo.git("tag", "--annotate", "--message=x", tag)
    assert find_offer(Source("git", address)) == ("1.10", f"history-lineage @ git+{address}@v1.10")
    assert find_offer(Source("git", address), prerelease=True)[0] == "2.0rc1"
    assert find_offer(Source("git", address, "main")) == ("3.0", f"history-lineage @ git+{address}@main")
    refs = repo.git("rev-parse", "main") + " refs/tags/"
    (repo.path / ".git" / "packed-refs").write_bytes(f"{refs}v9.0\xff\n".encode("latin-1"))
    assert find_offer(Source("git", address))[0] == "1.10"
    for ref in ("", "main"):
        source = Source("git", (tmp_path / "nowhere").as_uri(), ref)
        with pytest.raises(LineageError, match=r"git (ls-remote|clone) .* failed") as error:
            find_offer(source)
        assert error.value.hint.startswith(f"Check that {source} can be reached. If it has moved, install")


def test_source_that_changes_without_a_new_version(
    command: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For a branch and a directory, but not for version tags, the output says that only versions are compared."""
    repo = Repo.create(tmp_path / "repo")
    pyproject = write_pyproject(tmp_path / "draft", "history-lineage", config.read_version())
    repo.commit_file("pyproject.toml", pyproject)
    outputs = []
    for source in (
        Source("directory", str(repo.path)),
        Source("git", repo.path.as_uri()),
        Source("git", repo.path.as_uri(), "main"),
        Source("git", repo.path.as_uri()),
    ):
        if source.ref:
            repo.git("tag", f"v{config.read_version()}")
        receipt.write_receipt(command.parent, create_receipt(source))
        assert app.main(["update"]) == 0
        outputs.append(capsys.readouterr().out)
    assert all("is up to date with the" in output for output in outputs)
    assert ["Only versions are compared" in output for output in outputs] == [True, True, True, False]


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installer: Installer) -> None:
    """The installer itself looks into the receipt's index, for this distribution only."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for name, versions in (("history-lineage", ("1.0", "1.1", "2.0b1")), ("lineage", ("9.0",))):
        page = tmp_path / "simple" / name
        page.mkdir(parents=True)
        stem = name.replace("-", "_")
        files = [f"{stem}-{version}-py3-none-any.whl" for version in versions]
        for file, version in zip(files, versions, strict=True):
            _write_wheel(page / file, stem, version)
        (page / "index.html").write_text("".join(f'<a href="{file}">{file}</a>\n' for file in files))
    source = Source("index", (tmp_path / "simple").as_uri())
    assert find_offer(source, installer=installer) == ("1.1", "history-lineage==1.1")
    assert find_offer(source, installer=installer, prerelease=True)[0] == "2.0b1"


@pytest.mark.parametrize(
    ("kind", "installer", "program"),
    [("git", "pip", "git"), ("index", "uv", "uv"), ("index", "pipx", "pipx")],
)
def test_missing_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: SourceKind, installer: Installer, program: str
) -> None:
    """If a program is missing, the hint is about the program, not the source."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SourceFailed, match=f"`{program}` could not be run: No such file") as error:
        find_offer(Source(kind, tmp_path.as_uri()), installer=installer)
    assert error.value.hint == "Install it, or add its directory to PATH."


def _write_wheel(file: Path, name: str, version: str) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        dist_info = f"{name}-{version}.dist-info"
        archive.writestr(
            f"{dist_info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(
            f"{dist_info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{dist_info}/RECORD", "")


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_restore_on_failure(tmp_path: Path, error: type[BaseException]) -> None:
    """After a failure or interrupt the environment and the links to it are as they were, and no copy is left."""
    folder, commands_dir = tmp_path / "environment", tmp_path / "commands"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / "small").write_text("old")
    (folder / "large").write_bytes(b"old" * installers.MAX_COPIED_BYTES)
    link_commands(folder, commands_dir)
    with pytest.raises(error), installers.restore_on_failure(folder, commands_dir, lambda _: None):
        (folder / "small").write_text("new")
        (folder / "large").unlink()
        shutil.rmtree(folder / "bin")
        shutil.rmtree(commands_dir)
        raise error
    assert (folder / "small").read_text() == "old"
    assert (folder / "large").stat().st_size == 3 * installers.MAX_COPIED_BYTES
    assert (folder / "bin" / "python").is_symlink()
    assert {file: file.readlink() for file in commands_dir.iterdir()} == {
        commands_dir / command: folder / "bin" / command for command in COMMANDS
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["commands", "environment"]


def test_reported_command_restores_the_directory(tmp_path: Path) -> None:
    """The reported shell command restores the environment and the links to it after a kill."""
    folder, commands_dir = tmp_path / "ada's environment", tmp_path / "ada's commands"
    folder.mkdir()
    (folder / "old").touch()
    link_commands(folder, commands_dir)
    (commands_dir / "mindmap").unlink()
    commands: list[str] = []
    with installers.restore_on_failure(folder, commands_dir, commands.append):
        (folder / "old").rename(folder / "new")
        subprocess.run(["sh", "-c", *commands], check=True)
        assert [path.name for path in folder.iterdir()] == ["old"]
        assert sorted(file.name for file in commands_dir.iterdir()) == sorted(COMMANDS)


def test_successful_change_stays(tmp_path: Path) -> None:
    """After success the changes stay, and no copy is left, nor one of a killed update."""
    folder = tmp_path / "environment"
    folder.mkdir()
    (tmp_path / f"environment{installers.BACKUP_SUFFIX}").mkdir()
    with installers.restore_on_failure(folder, tmp_path, lambda _: None):
        (folder / "new").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["environment", "new"]
