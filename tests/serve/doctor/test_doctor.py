"""Each check finds what it is for when that is really broken, and none touches anything."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from pipeline import bundled
from pipeline.encoder import OnnxEncoder
from pipeline.git import program
from pipeline.git.repository import open_repository
from serve import settings
from serve.daemon.address import Address
from serve.doctor import disk, examine, index, models, page
from serve.doctor.finding import Finding, Subject, Verdict, problem
from serve.initializing.initialize import Wishes, initialize
from serve.placing import place_of
from stores import database, loadable
from stores.places import Place
from tests.repos import Repo
from tests.serve import indexed
from tests.serve.daemon import daemons
from tests.serve.test_cli import lineage

OK, WARNING, PROBLEM = Verdict.OK, Verdict.WARNING, Verdict.PROBLEM
# Everything but what takes its time and is the same for every repository.
SLOW = ("encoder", "encoder static", "model files", "extensions")
QUICK = {name: check for name, check in examine.CHECKS.items() if name not in SLOW}


@pytest.fixture
def repo(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """An indexed repository, and a person without any client."""
    (tmp_path / "person").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("src/tcp.py", "def connect():\n    timeout()\n", "Add a timeout to connect")
    indexed.index(repo, home)
    return repo


@pytest.fixture
def place(repo: Repo, home: Path) -> Place:
    return place_of(home, open_repository(repo.path))


def found(path: Path, checks: dict[str, examine.Check] = QUICK) -> dict[str, Finding]:
    """What is found, by name."""
    return {one.name: one for one in examine.examine(path, settings.read(), checks)}


def ill(path: Path) -> dict[str, Verdict]:
    """What is not well."""
    return {name: one.verdict for name, one in found(path).items() if one.verdict is not OK}


def test_all_is_well(repo: Repo) -> None:
    """A fresh index in a sound repository gives no reason to do anything, and exit code 0."""
    assert ill(repo.path) == {}
    code, out, err = lineage("doctor", str(repo.path))
    assert (code, err) == (0, "")
    assert out.splitlines()[-1].endswith("checks: all is well.")
    assert "✓ index             1 commits, 1 hunks" in out


def test_json(repo: Repo, place: Place) -> None:
    """For programs: the worst verdict, and each finding by name; problems give exit code 1."""
    code, out, _ = lineage("doctor", str(repo.path), "--json")
    said = json.loads(out)
    assert (code, said["verdict"]) == (0, "ok")
    assert {"name", "verdict", "found", "remedy"} == set(said["checks"][0])
    place.database.write_bytes(b"no database")
    code, out, _ = lineage("doctor", str(repo.path), "--json")
    assert (code, json.loads(out)["verdict"]) == (1, "problem")


def test_nothing_is_touched(repo: Repo, home: Path, tmp_path: Path) -> None:
    """Every file, mode and time is what it was, and no daemon has been started."""
    before = everything(tmp_path)
    code, _, _ = lineage("doctor", str(repo.path), env=daemons.environment(home))
    assert code == 0
    assert everything(tmp_path) == before


def everything(folder: Path) -> dict[Path, tuple[int, int, int]]:
    stats = {path: path.lstat() for path in (folder, *folder.rglob("*"))}
    return {path: (said.st_mode, said.st_size, said.st_mtime_ns) for path, said in stats.items()}


def test_nothing_is_made(tmp_path: Path, home: Path) -> None:
    """Where there is neither a repository nor a home, none is made; what can be checked is."""
    checked = found(tmp_path)
    assert checked["repository"].verdict is WARNING
    assert "not made yet" in checked["home"].found
    assert {"git", "room", "daemon", "clients"} <= set(checked)
    assert not home.exists()


def test_no_git(repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without git on PATH, or with one that is too old, the program is named."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found(repo.path)["git"].found == "no git program on PATH"
    fake = tmp_path / "git"
    fake.write_text("#!/bin/sh\necho git version 2.30.9\n", encoding="ascii")
    fake.chmod(0o755)
    assert "2.30.9; 2.31 is the oldest" in found(repo.path)["git"].found
    assert program.numbered("2.39.5 (Apple Git-154)") == (2, 39, 5)


def test_repositories_that_cannot_be_read(tmp_path: Path, home: Path) -> None:  # noqa: ARG001
    """A damaged history, another object format and a broken HEAD are problems with a way out."""
    repo = Repo.create(tmp_path / "damaged")
    sha = repo.commit_file("a.py", "a = 1\n")
    objects = repo.path / ".git" / "objects" / sha[:2] / sha[2:]
    objects.chmod(0o644)
    objects.write_bytes(b"nothing that zlib knows")
    assert found(repo.path)["repository"].verdict is PROBLEM
    other = Repo.create(tmp_path / "other", object_format="sha256")
    assert "SHA-256" in found(other.path)["repository"].found
    empty = Repo.create(tmp_path / "empty")
    assert "no commits yet" in found(empty.path)["repository"].found


@pytest.mark.parametrize(("option", "said"), [("--depth=1", "shallow"), ("--filter=blob:none", "partial")])
def test_clones_with_less(repo: Repo, tmp_path: Path, option: str, said: str) -> None:
    """A shallow or partial clone works with what is there, and is told how to get the rest."""
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.commit_file("b.py", "b = 1\n")
    clone = repo.clone(tmp_path / "clone", option)
    finding = found(clone.path)["repository"]
    assert finding.verdict is WARNING and said in finding.found and "git fetch" in finding.remedy


def test_another_users_repository(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """git's `safe.directory` protection is met as such."""
    if os.getuid():
        pytest.skip("only root gives files away")
    for path in (repo.path, *repo.path.rglob("*")):
        os.chown(path, 4321, 4321, follow_symlinks=False)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    finding = found(repo.path)["repository"]
    assert finding.verdict is PROBLEM and "safe.directory" in finding.remedy


def test_not_a_database(repo: Repo, place: Place) -> None:
    """A file that is no database is a problem, and every other check is made all the same."""
    place.database.write_bytes(b"no database" * 1000)
    assert ill(repo.path) == {"index": PROBLEM}
    assert "--rebuild" in found(repo.path)["index"].remedy


def test_damage_deep_in_the_file(repo: Repo, place: Place) -> None:
    """A flipped bit in any block that holds rows is found, wherever it lies."""
    with database.writing(place) as connection:
        database.settle(connection, place)
    whole = place.database.read_bytes()
    block = 1 << 18
    hit = 0
    for start in range(3 * 4096, len(whole), block):
        torn = bytearray(whole)
        torn[start + 4096] ^= 1
        place.database.write_bytes(torn)
        hit += found(repo.path)["index"].verdict is PROBLEM
    assert hit == len(range(3 * 4096, len(whole), block))


def test_rows_that_disagree(repo: Repo, place: Place) -> None:
    """Whole blocks with rows that another program took out are told by what is missing."""
    with database.writing(place) as connection:
        connection.execute("DELETE FROM vectors")
        connection.execute("DELETE FROM commits")
    said = found(repo.path)["index"]
    assert said.verdict is PROBLEM
    assert "1 hunks without their commit, 1 hunks without a vector" in said.found


def test_newer_schema(repo: Repo, place: Place) -> None:
    """An index of a newer program is told from a damaged one."""
    with duckdb.connect(str(place.database)) as connection:
        connection.execute("INSERT INTO migrations VALUES (999, now()::TIMESTAMP)")
    assert "schema 999" in found(repo.path)["index"].found


def test_another_model_and_commits_behind(repo: Repo, home: Path) -> None:
    """Vectors of another model, and commits that are not indexed, are told with their commands."""
    indexed.index(repo, home, embedding_model="another")
    repo.commit_file("b.py", "b = 1\n")
    said = found(repo.path)
    assert said["compatibility"].verdict is PROBLEM
    assert "--rebuild --yes" in said["compatibility"].remedy
    assert said["freshness"].found == "1 commits behind HEAD"


def test_missing_lock_files(repo: Repo, place: Place) -> None:
    """An index whose lock files are gone is left alone, since opening would make them."""
    (place.folder / "door.lock").unlink()
    before = everything(place.folder)
    assert ill(repo.path) == {"index": WARNING}
    assert everything(place.folder) == before


def test_somebody_holds_the_index(repo: Repo, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that keeps the index to itself is named, with its number and command."""
    monkeypatch.setattr(index, "PATIENCE_SECONDS", 0.2)
    with database.writing(place):
        said = found(repo.path)
    assert said["index"].verdict is PROBLEM
    assert "in use by another process" in said["index"].found
    if sys.platform == "linux":
        assert f"process {os.getpid()}" in said["index"].found
        assert f"open in process {os.getpid()}" in said["locks"].found


def test_an_index_run_is_named(repo: Repo, place: Place) -> None:
    """A run at work is no fault: it is told apart from others that have the index open."""
    if sys.platform != "linux":
        pytest.skip("only Linux lists who holds a lock")
    with (place.folder / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = found(repo.path)["locks"]
    assert said.verdict is OK and said.found.startswith(f"an index run: process {os.getpid()}")


def test_a_long_log(repo: Repo, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that every opening replays is worth a run; one without an index is worth a rebuild."""
    with database.writing(place) as connection:
        connection.execute("CREATE TABLE filler AS FROM range(9)")
    assert place.wal.exists()
    monkeypatch.setattr(index, "LARGEST_HELD_WAL", 10)
    assert found(repo.path)["write-ahead log"].verdict is WARNING
    place.database.unlink()
    assert "no index beside it" in found(repo.path)["write-ahead log"].found


@pytest.mark.parametrize(
    ("name", "encoder"),
    [("minilm.onnx", "encoder"), ("tokenizer.json", "encoder"), ("static.npz", "encoder static")],
)
def test_models_that_are_not_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, encoder: str
) -> None:
    """A model file that is cut or gone is found by its digest, and its text does not embed."""
    folder = shutil.copytree(
        bundled.FOLDER, tmp_path / "models", ignore=shutil.ignore_patterns("*.py", "__*")
    )
    monkeypatch.setattr(bundled, "FOLDER", folder)
    monkeypatch.setattr("pipeline.encoder.MODELS", folder)
    checks = {name: examine.CHECKS[name] for name in ("model files", encoder)}
    assert {one.verdict for one in found(tmp_path, checks).values()} == {OK, WARNING}
    file = folder / name
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    said = found(tmp_path, checks)
    assert (said["model files"].verdict, said[encoder].verdict) == (PROBLEM, PROBLEM)
    assert str(file) in said["model files"].found
    file.unlink()
    assert "no such file" in found(tmp_path, checks)["model files"].found


def test_an_encoder_that_talks_nonsense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors in which strangers are nearer than kin do not pass."""
    real = OnnxEncoder(threads=1)

    class Mixed:
        name, dimension = real.name, real.dimension

        def encode(self, texts: list[str]) -> object:
            return real.encode(texts)[[0, 2, 1]]

    monkeypatch.setattr(models, "bundled_encoder", lambda _, threads: Mixed() if threads else None)
    said = found(tmp_path, {"encoder": models.check_encoder})
    assert "make no sense" in said["encoder"].found


def test_an_extension_that_does_not_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel whose file is no extension of this database is a problem; one that is not there is none."""
    wheel = tmp_path / "duckdb_extension_vss-1.5.5.dist-info"
    wheel.mkdir()
    (wheel / "METADATA").write_text("Metadata-Version: 2.1\nName: duckdb-extension-vss\nVersion: 1.5.5\n")
    (wheel / "RECORD").write_text("vss.duckdb_extension,,\n")
    (tmp_path / "vss.duckdb_extension").write_bytes(b"no extension")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert loadable.installed("vss").fault
    assert loadable.installed("none of ours") == loadable.Extension("none of ours")


@pytest.fixture
def daemon(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:  # noqa: ARG001
    monkeypatch.delenv("LINEAGE_NO_DAEMON")
    with daemons.running(home) as process:
        yield process


def test_a_daemon_that_answers(repo: Repo, daemon: subprocess.Popen[bytes]) -> None:
    """A daemon at work says which process it is."""
    said = found(repo.path)["daemon"]
    assert said.verdict is OK and f"process {daemon.pid}" in said.found


def test_a_daemon_of_another_build(
    repo: Repo, daemon: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of another program is going to be replaced."""
    monkeypatch.setattr("serve.daemon.address.build", lambda: "another")
    assert daemon.poll() is None
    assert found(repo.path)["daemon"].verdict is WARNING


def test_a_daemon_that_hangs(
    repo: Repo, home: Path, daemon: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that takes connections and never answers is a problem, and its number is told."""
    monkeypatch.setattr("serve.doctor.daemon.PATIENCE_SECONDS", 0.3)
    os.kill(daemon.pid, signal.SIGSTOP)
    said = found(repo.path)["daemon"]
    os.kill(daemon.pid, signal.SIGCONT)
    assert said.verdict is PROBLEM and "within 0.3 s" in said.found
    if sys.platform == "linux":
        assert f"kill -9 {daemon.pid}" in said.remedy
    assert home.exists()


def test_a_socket_nobody_listens_on(repo: Repo, home: Path, daemon: subprocess.Popen[bytes]) -> None:
    """What a killed daemon leaves is told as that."""
    daemon.kill()
    daemon.wait()
    assert Address(home).socket.exists()
    said = found(repo.path)["daemon"]
    assert said.verdict is WARNING and "left behind" in said.found


@pytest.mark.parametrize("what", ["folder", "socket"])
def test_a_daemon_open_to_others(repo: Repo, home: Path, daemon: subprocess.Popen[bytes], what: str) -> None:
    """A folder or socket that others may use is a problem; it is not asked, which would close the folder."""
    address = Address(home)
    path: Path = {"folder": address.folder, "socket": address.socket}[what]
    path.chmod(0o777)
    said = found(repo.path)["daemon"]
    assert daemon.poll() is None
    assert said.verdict is PROBLEM and "open to other users" in said.found
    assert path.stat().st_mode & 0o777 == 0o777


def test_hooks(repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hooks that are current, old, switched off, partly gone, and without a program to start."""
    assert found(repo.path)["hooks"].found == "none installed"
    initialize(repo.path, Wishes())
    hooks = repo.path / ".git" / "hooks"
    assert (
        found(repo.path)["hooks"].found
        == "post-commit, post-merge, post-checkout, post-rewrite in .git/hooks"
    )
    old = (hooks / "post-merge").read_text(encoding="utf-8")
    (hooks / "post-merge").write_text(old.replace("nice -n 19", "nice -n 5"), encoding="utf-8")
    assert found(repo.path)["hooks"].found == "post-merge has an older part of ours"
    (hooks / "post-merge").unlink()
    (hooks / "post-commit").chmod(0o644)
    said = found(repo.path)["hooks"]
    assert said.found == "post-commit may not be executed, so git skips it; post-merge has no part of ours"
    assert said.remedy.startswith("`chmod +x ") and "lineage init" in said.remedy
    (hooks / "post-rewrite").write_text(
        "#!/bin/sh\n# >>> lineage managed (do not edit) >>>\n", encoding="utf-8"
    )
    assert "without an end" in found(repo.path)["hooks"].found
    git = shutil.which("git")
    assert git
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "not on PATH" in found(repo.path)["hooks' program"].found
    (tmp_path / "lineage").write_text("#!/bin/sh\n", encoding="ascii")
    (tmp_path / "lineage").chmod(0o755)
    assert "another installation" in found(repo.path)["hooks' program"].found


def test_hooks_of_many_repositories(repo: Repo, tmp_path: Path) -> None:
    """A folder of hooks outside the repository is named; nothing can be installed there."""
    repo.git("config", "core.hooksPath", str(tmp_path / "shared"))
    assert "outside this repository" in found(repo.path)["hooks"].found


def test_home(repo: Repo, home: Path, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home that others may read, that is no folder, or that may not be written to."""
    home.chmod(0o755)
    assert found(repo.path)["home"].verdict is OK  # its folders are closed
    place.folder.chmod(0o755)
    assert found(repo.path)["home"].found.endswith(f": {place.repo_id}")
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("LINEAGE_HOME", str(file))
    assert "is no folder" in found(tmp_path)["home"].found
    if os.getuid():
        monkeypatch.setenv("LINEAGE_HOME", str(home))
        home.chmod(0o500)
        assert "may not be written to" in found(tmp_path)["home"].found
        home.chmod(0o700)


def test_room(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk without room for a run is a problem, one with little is worth a word."""
    usage = shutil.disk_usage(repo.path)
    for free, verdict in ((10**8, PROBLEM), (10**9, WARNING), (10**10, OK)):
        monkeypatch.setattr(disk.shutil, "disk_usage", lambda _, free=free: usage._replace(free=free))
        assert found(repo.path)["room"].verdict is verdict


def test_clients(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client whose command is gone, or that asks another home, is told how to mend it."""
    server = tmp_path / "lineage-mcp"
    server.write_text("#!/bin/sh\n", encoding="ascii")
    server.chmod(0o755)
    file = tmp_path / "person" / ".cursor" / "mcp.json"
    file.parent.mkdir()
    entry = {"command": str(server), "args": [], "env": {"LINEAGE_HOME": str(settings.read().home)}}
    other = {"command": "something-else"}
    file.write_text(json.dumps({"mcpServers": {"history": entry, "other": other}}), encoding="utf-8")
    assert found(repo.path)["client cursor"] == Finding("client cursor", OK, f"history in {file}")
    monkeypatch.setenv("LINEAGE_HOME", str(tmp_path / "elsewhere"))
    assert "it looks for indexes in" in found(repo.path)["client cursor"].found
    server.unlink()
    said = found(repo.path)["client cursor"]
    assert said.verdict is WARNING and f"{server} is not there" in said.found
    assert "lineage register --client cursor --write" in said.remedy
    file.write_text('{"mcpServers": {"history": {"command": "lineage-mcp"}}, // mine\n}', encoding="utf-8")
    assert "not checked" in found(repo.path)["client cursor"].found


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file that even root cannot read")
def test_a_clients_file_that_cannot_be_read(repo: Repo, tmp_path: Path) -> None:
    """It is a finding of its own, and the other clients are looked at all the same."""
    cursor, gemini = (tmp_path / "person" / name for name in (".cursor/mcp.json", ".gemini/settings.json"))
    for file in (cursor, gemini):
        file.parent.mkdir()
    cursor.symlink_to("/proc/self/mem")
    gemini.write_text('{"mcpServers": {"history": {"command": "lineage-mcp"}}}', encoding="utf-8")
    said = found(repo.path)
    assert said["client cursor"].found == f"{cursor} cannot be read"
    assert said["client gemini"].verdict is WARNING and "clients" not in said


def test_a_check_that_fails_stops_no_other(repo: Repo) -> None:
    """An error that nobody foresaw is a finding like any other."""

    def broken(_: Subject) -> Iterator[Finding]:
        raise ZeroDivisionError("one by none")
        yield

    said = found(repo.path, {"broken": broken, **QUICK})
    assert said["broken"] == problem(
        "broken", "could not be checked: one by none", "LINEAGE_LOG=debug says where."
    )
    assert set(found(repo.path)) < set(said)


def test_the_page_needs_no_colour(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Signs tell what colours tell, and no control character of a path reaches the terminal."""
    one = problem("a check", "bad \x1b[31mpath\udcff", "Mend it.")
    assert page.is_ill(page.told([one, replace(one, verdict=WARNING)]))
    said = capfdbinary.readouterr().out.decode()
    assert said.splitlines() == [
        "✗ a check           bad ␛[31mpath\\udcff",
        "                    → Mend it.",
        "! a check           bad ␛[31mpath\\udcff",
        "                    → Mend it.",
        "2 checks: 1 problem, 1 warning.",
    ]
