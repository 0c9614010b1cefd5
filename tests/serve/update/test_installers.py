"""Receipts, what sources offer, and an environment that is kept while an installer works on it."""

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
from serve.update.receipt import Installer, Receipt, Source
from serve.update.sources import SourceFailed
from stores.errors import LineageError
from tests.repos import Repo

INSIDE = Path(sys.prefix)


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command that is thought to run."""
    path = tmp_path / "bin" / "lineage"
    path.parent.mkdir()
    path.touch()
    monkeypatch.setattr(sys, "argv", [str(path)])
    return path


def given(source: Source, installer: Installer = "pip", environment: Path = INSIDE) -> Receipt:
    return Receipt.now(config.version(), installer, source, environment)


def offered(source: Source, *, prerelease: bool = False, installer: Installer = "pip") -> tuple[str, str]:
    offer = sources.newest(given(source, installer), prerelease=prerelease)
    return str(offer.version), offer.requirement


def update(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, str]:
    code = app.main(["update", *flags])
    return code, capsys.readouterr().err


@pytest.mark.usefixtures("command")
@pytest.mark.parametrize("flags", [[], ["--check"], ["--force"], ["--prerelease"]])
def test_without_a_receipt(capsys: pytest.CaptureFixture[str], flags: list[str]) -> None:
    """Not installed by install.sh, it is an error that says how to install, whatever the flags."""
    code, err = update(capsys, *flags)
    assert code == 1
    assert "There is no lineage-receipt.json beside" in err and "sh install.sh --help" in err


def test_a_receipt_is_found_beside_the_command_or_a_link_to_it(
    command: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receipt comes back as it was written, from beside the command and through a link elsewhere."""
    written = given(Source("wheels", "/wheels"))
    receipt.write(command.parent, written)
    assert receipt.found() == (command.parent, written)
    link = tmp_path / "link"
    link.symlink_to(command)
    monkeypatch.setattr(sys, "argv", [str(link)])
    assert receipt.found() == (command.parent, written)


def test_a_receipt_of_another_installation(
    command: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A receipt that another installation has left beside this command does not count."""
    receipt.write(command.parent, given(Source("wheels", "/wheels"), environment=tmp_path))
    code, err = update(capsys)
    assert code == 1 and "is of another installation" in err


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": 2}, "of a newer version"),
        ({"distribution": "lineage"}, "of another program"),
        ({"installer": "conda"}, "cannot be read"),
        ({"source": {}}, "cannot be read"),
    ],
)
def test_a_receipt_that_cannot_be_understood(
    command: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object], says: str
) -> None:
    """A receipt with odd content is refused, and nothing is asked anywhere."""
    receipt.write(command.parent, given(Source("wheels", "/wheels")))
    file = command.parent / receipt.NAME
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    code, err = update(capsys)
    assert code == 1 and says in err
    file.write_bytes(b'{"version": "\xff"}')
    assert "cannot be read" in update(capsys)[1]


def test_check_says_what_a_source_offers(
    command: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--check` exits with 2 when there is a newer version and with 0 when there is none, and changes nothing."""
    receipt.write(command.parent, given(Source("wheels", str(tmp_path))))
    for version, code in ((config.version(), 0), ("99.0rc1", 0), ("99.0", 2)):
        (tmp_path / f"history_lineage-{version}-py3-none-any.whl").touch()
        assert app.main(["update", "--check"]) == code
    assert "lineage 99.0 is available in the wheels in" in capsys.readouterr().out
    assert receipt.found()[1].version == config.version()


def test_wheels(tmp_path: Path) -> None:
    """The newest wheel by version, not by name; other projects' wheels and what is no wheel do not count."""
    for name in ("history_lineage-0.9", "history_lineage-0.10", "history_lineage-1.0rc1", "lineage-7.0"):
        (tmp_path / f"{name}-py3-none-any.whl").touch()
    (tmp_path / "history_lineage-8.whl").touch()
    source = Source("wheels", str(tmp_path))
    assert offered(source) == ("0.10", str(tmp_path / "history_lineage-0.10-py3-none-any.whl"))
    assert offered(source, prerelease=True)[0] == "1.0rc1"
    with pytest.raises(SourceFailed, match="is gone"):
        offered(Source("wheels", str(tmp_path / "nowhere")))


def declare(folder: Path, name: str, version: str) -> str:
    folder.mkdir(exist_ok=True)
    text = f'[project]\nname = "{name}"\nversion = "{version}"\n'
    (folder / "pyproject.toml").write_text(text)
    return text


def test_directory(tmp_path: Path) -> None:
    """A folder offers what its project declares; another project, or none, is refused."""
    declare(tmp_path, "history-lineage", "2.5")
    assert offered(Source("directory", str(tmp_path))) == ("2.5", str(tmp_path))
    declare(tmp_path, "lineage", "9.0")
    with pytest.raises(SourceFailed, match="holds lineage, not history-lineage"):
        offered(Source("directory", str(tmp_path)))
    with pytest.raises(SourceFailed, match="has no pyproject"):
        offered(Source("directory", str(tmp_path / "nowhere")))


def test_git(tmp_path: Path) -> None:
    """Tags that are versions are what a repository offers; a branch where one was asked for or none are."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("pyproject.toml", declare(tmp_path / "draft", "history-lineage", "3.0"))
    address = repo.path.as_uri()
    assert offered(Source("git", address)) == ("3.0", f"history-lineage @ git+{address}")
    for tag in ("v1.0", "v1.10", "1.9", "v2.0rc1", "nightly", "v-last"):
        repo.git("tag", "--annotate", "--message=x", tag)
    assert offered(Source("git", address)) == ("1.10", f"history-lineage @ git+{address}@v1.10")
    assert offered(Source("git", address), prerelease=True)[0] == "2.0rc1"
    assert offered(Source("git", address, "main")) == ("3.0", f"history-lineage @ git+{address}@main")
    refs = repo.git("rev-parse", "main") + " refs/tags/"
    (repo.path / ".git" / "packed-refs").write_bytes(f"{refs}v9.0\xff\n".encode("latin-1"))
    assert offered(Source("git", address))[0] == "1.10"
    with pytest.raises(LineageError, match=r"git ls-remote .* failed"):
        offered(Source("git", (tmp_path / "nowhere").as_uri()))


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installer: Installer) -> None:
    """The installer itself looks into the index that the receipt names, for this distribution and no other."""
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
            _wheel(page / file, stem, version)
        (page / "index.html").write_text("".join(f'<a href="{file}">{file}</a>\n' for file in files))
    source = Source("index", (tmp_path / "simple").as_uri())
    assert offered(source, installer=installer) == ("1.1", "history-lineage==1.1")
    assert offered(source, installer=installer, prerelease=True)[0] == "2.0b1"


def _wheel(file: Path, name: str, version: str) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        about = f"{name}-{version}.dist-info"
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_environment_is_put_back(tmp_path: Path, error: type[BaseException]) -> None:
    """Whatever an installer had done when it failed or was interrupted, the folder is what it was."""
    folder = tmp_path / "environment"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / "small").write_text("old")
    (folder / "large").write_bytes(b"old" * installers.SMALL_BYTES)
    with pytest.raises(error), installers.kept(folder, lambda _: None):
        (folder / "small").write_text("new")
        (folder / "large").unlink()
        shutil.rmtree(folder / "bin")
        raise error
    assert (folder / "small").read_text() == "old"
    assert (folder / "large").stat().st_size == 3 * installers.SMALL_BYTES
    assert (folder / "bin" / "python").is_symlink()
    assert [path.name for path in tmp_path.iterdir()] == ["environment"]


def test_a_person_can_put_it_back(tmp_path: Path) -> None:
    """Where nobody lived to put an environment back, the command that was told before does."""
    folder = tmp_path / "ada's environment"
    folder.mkdir()
    (folder / "old").touch()
    told: list[str] = []
    with installers.kept(folder, told.append):
        (folder / "old").rename(folder / "new")
        subprocess.run(["sh", "-c", *told], check=True)
        assert [path.name for path in folder.iterdir()] == ["old"]


def test_an_environment_is_changed(tmp_path: Path) -> None:
    """Where the installer does its work, its work stays and no copy is left, nor one of an update that was killed."""
    folder = tmp_path / "environment"
    folder.mkdir()
    (tmp_path / f"environment{installers.ENDING}").mkdir()
    with installers.kept(folder, lambda _: None):
        (folder / "new").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["environment", "new"]
