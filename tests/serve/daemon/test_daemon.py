"""The shared daemon, with real processes: one for all, the same answers, and no way to lose one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.encoders.cross_encoder import CROSS_ENCODER
from pipeline.options import Precision
from serve.api_types import FindRequest
from serve.daemon import process
from serve.daemon.process import LONGEST_SOCKET, Address, NoDaemon, UnsafeFolder
from tests.repos import Repo
from tests.serve.commands import HEAVY, timeouts
from tests.serve.daemon.daemons import ROOT, environment, lineage, pid, remote, running, until
from tests.serve.sample_index import index

QUESTION = FindRequest("timeout", rerank=False)


@pytest.fixture
def place(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home whose daemon ends with the test."""
    monkeypatch.delenv("LINEAGE_NO_DAEMON")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    yield home
    remote(home).stop()


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return timeouts(tmp_path / "repo")


QUESTIONS = [
    ["query", "-q", "timeout"],
    ["query", "-q", "timeout in docs", "-k", "1", "--path", "docs/"],
    ["query", "-q", ""],
    ["query", "-q", "x", "--since", "soon"],
    ["explain", "src/tcp.py", "--lines", "1:1"],
    ["explain", "tcp.py"],
    ["explain", "docs/ü.md", "--no-diff"],
    ["explain", "missing.py"],
    ["explain", "src/tcp.py", "--lines", "9:3"],
    ["explain", b"no\xfftext.py"],
]


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_the_same_answers(repo: Repo, place: Path, question: list[str]) -> None:
    """With and without the daemon: the same bytes, the same errors, the same exit code."""
    index(repo, place)
    arguments = [os.fsdecode(part) for part in question]
    shared = lineage(place, *arguments, cwd=repo.path / "src")
    assert remote(place).report() is not None
    assert shared == lineage(place, *arguments, "--no-daemon", cwd=repo.path / "src")
    assert shared == lineage(place, *arguments, cwd=repo.path / "src", LINEAGE_NO_DAEMON="1")


@pytest.mark.parametrize("question", [["query", "..", "-q", "timeout"], ["explain", "tcp.py", ".."]], ids=str)
def test_the_same_hints(repo: Repo, place: Path, question: list[str]) -> None:
    """A command in a hint has the PATH that was given, which the daemon never hears: the asker puts it there."""
    index(repo, place, upto="HEAD~1")
    shared = lineage(place, *question, cwd=repo.path / "src")
    assert "`lineage index --incremental ..`" in shared[1] and remote(place).report() is not None
    assert shared == lineage(place, *question, "--no-daemon", cwd=repo.path / "src")


def test_every_asker_has_its_own_precision(repo: Repo, place: Path) -> None:
    """Whoever started the daemon: candidates are read in the precision that the asker's environment says."""
    index(repo, place)
    question = ("query", str(repo.path), "-q", "how was the timeout of a connection chosen?")
    alone = [
        lineage(place, *question, "--no-daemon", cwd=repo.path, LINEAGE_RERANKER=said)
        for said in ("", "int8")
    ]
    shared = [lineage(place, *question, cwd=repo.path, LINEAGE_RERANKER=said) for said in ("", "int8")]
    assert shared == alone
    assert shared[0] != shared[1]
    report = remote(place).report()
    assert report is not None
    assert {f"{CROSS_ENCODER}/{precision}" for precision in Precision} <= set(report.models)


def test_the_variable_and_the_flag_keep_it_away(repo: Repo, place: Path) -> None:
    """Without a daemon none is started, and nothing is made for one."""
    lineage(place, "query", str(repo.path), "-q", "x", "--no-daemon")
    lineage(place, "explain", "src/tcp.py", str(repo.path), LINEAGE_NO_DAEMON="1")
    assert not place.exists()


def test_one_daemon_for_ten(repo: Repo, place: Path) -> None:
    """Ten clients at the same instant: one daemon, ten right answers."""
    index(repo, place)
    command = [sys.executable, "-m", "serve.cli.app", "query", str(repo.path), "-q", "timeout", "--no-rerank"]
    clients = [
        subprocess.Popen(command, env=environment(place), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(10)
    ]
    said = [client.communicate(timeout=60) for client in clients]
    assert {client.returncode for client in clients} == {0}, said
    assert len({out for out, _ in said}) == 1
    assert len(json.loads(said[0][0])["hits"]) == 2
    assert Address(place).log.read_text().count("event=listening") == 1
    report = remote(place).report()
    assert report is not None
    assert report.answered == 10


def test_light_client(repo: Repo, place: Path) -> None:
    """A question through the daemon loads no database, model, parser or web server."""
    index(repo, place)
    for arguments in (["query", str(repo.path), "-q", "x"], ["explain", "src/tcp.py", str(repo.path)]):
        script = (
            f"import sys, serve.cli.app as a; a.main({arguments!r}); print(*sys.modules, file=sys.stderr)"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment(place), capture_output=True, text=True, check=True
        )
        loaded = {name.partition(".")[0] for name in done.stderr.split()}
        assert not loaded & set(HEAVY.split())


def test_killed_while_it_answers(repo: Repo, place: Path) -> None:
    """A daemon killed in the middle of a question: the asker starts another and has its answer."""
    index(repo, place)
    remote(place).find(QUESTION, repo.path)
    first = pid(place)
    os.kill(first, signal.SIGSTOP)
    command = [sys.executable, "-m", "serve.cli.app", "query", str(repo.path), "-q", "timeout"]
    asking = subprocess.Popen(command, env=environment(place), stdout=subprocess.PIPE)
    time.sleep(0.7)
    assert asking.poll() is None
    os.kill(first, signal.SIGKILL)
    out, _ = asking.communicate(timeout=60)
    assert asking.returncode == 0
    assert len(json.loads(out)["hits"]) == 2
    assert pid(place) != first


def test_another_program_is_replaced(repo: Repo, place: Path) -> None:
    """A daemon of another version ends, and one of this version answers."""
    index(repo, place)
    with running(place, before="import serve.daemon.process as a\na.build = lambda: 'another'") as other:
        assert len(remote(place).find(QUESTION, repo.path).hits) == 2
        assert pid(place) != other.pid
        assert other.wait(timeout=10) == 0


def test_unforeseen_error(repo: Repo, place: Path) -> None:
    """What nobody foresaw is told with where to read more, and the daemon lives on."""
    index(repo, place)
    before = (
        "import serve.engine\ndef broken(*_): raise RuntimeError('boom')\nserve.engine.Engine.find = broken"
    )
    with running(place, before=before) as daemon:
        code, out, err = lineage(place, "query", str(repo.path), "-q", "timeout")
        assert (code, out) == (1, "")
        assert str(Address(place).log) in err
        assert "--no-daemon" in err
        assert "Traceback" not in err
        assert lineage(place, "explain", "src/tcp.py", str(repo.path))[0] == 0
        assert pid(place) == daemon.pid


def test_a_client_that_dies(repo: Repo, place: Path) -> None:
    """A client that leaves in the middle of its question, or talks nonsense, harms nobody."""
    index(repo, place)
    remote(place).find(QUESTION, repo.path)
    body = b"POST /find HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{"
    for said in (
        b"",
        b"\0" * 100,
        body,
        b"POST /find HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
    ):
        connection = process.connected(Address(place))
        connection.sendall(said)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()
    assert len(remote(place).find(QUESTION, repo.path).hits) == 2


def test_index_deleted_rebuilt_and_repository_moved(repo: Repo, place: Path) -> None:
    """The daemon answers from what is there now."""
    index(repo, place, upto="HEAD~1")
    asked = remote(place)
    assert len(asked.find(QUESTION, repo.path).hits) == 1
    index(repo, place)
    assert len(asked.find(QUESTION, repo.path).hits) == 2
    for folder in place.glob("repo-*"):
        shutil.rmtree(folder)
    assert asked.find(QUESTION, repo.path).hits == ()
    index(repo, place)
    assert len(asked.find(QUESTION, repo.path).hits) == 2
    moved = repo.path.rename(repo.path.with_name("elsewhere"))
    with pytest.raises(Exception, match="does not exist"):
        asked.find(QUESTION, repo.path)
    assert "not indexed yet" in (asked.find(QUESTION, moved).meta.hint or "")


def test_many_repositories(tmp_path: Path, place: Path) -> None:
    """One daemon serves any number of repositories."""
    for number in range(6):
        repo = Repo.create(tmp_path / f"repo{number}")
        repo.commit_file(f"file{number}.py", "timeout = 1\n", f"Set timeout {number}")
        index(repo, place)
    for number in range(6):
        (hit,) = remote(place).find(QUESTION, tmp_path / f"repo{number}").hits
        assert hit.file_path == f"file{number}.py"


def test_full_disk(repo: Repo, place: Path) -> None:
    """Where nothing can be written any more, questions are still answered."""
    index(repo, place)
    before = (
        "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "import serve.daemon.server as service\n"
        "listening = service.bind_unix_socket\n"
        "def full(*arguments):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "    return listening(*arguments)\n"
        "service.bind_unix_socket = full"
    )
    with running(place, before=before) as daemon:
        assert len(remote(place).find(QUESTION, repo.path).hits) == 2
        assert lineage(place, "explain", "src/tcp.py", str(repo.path))[0] == 0
        assert pid(place) == daemon.pid


def test_leaves_when_unused(repo: Repo, place: Path) -> None:
    """It lets its models go, then ends, and leaves no socket behind; the next question starts another."""
    index(repo, place)
    with running(place, "--unload-after", "0.2", "--leave-after", "2") as daemon:
        remote(place).find(QUESTION, repo.path)
        until(lambda: (report := remote(place).report()) is not None and not report.models)
        assert daemon.wait(timeout=10) == 0
        assert not Address(place).socket.exists()
        assert len(remote(place).find(QUESTION, repo.path).hits) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ends_when_told(place: Path, number: int) -> None:
    """A signal ends it in good order."""
    with running(place) as daemon:
        daemon.send_signal(number)
        assert daemon.wait(timeout=5) == 0
        assert not Address(place).socket.exists()


def test_ends_with_its_home(place: Path) -> None:
    """A daemon whose home was deleted is met by nobody, and ends."""
    with running(place) as daemon:
        shutil.rmtree(place)
        assert daemon.wait(timeout=5) == 0


def test_second_daemon(place: Path) -> None:
    """A second one is refused, and names the first."""
    with running(place) as first:
        code, _, err = lineage(place, "serve")
        assert code == 1
        assert f"process {first.pid}" in err


def test_commands(repo: Repo, place: Path) -> None:
    """`lineage daemon` says how the daemon is, what it holds, and ends it."""
    assert lineage(place, "daemon", "status")[1].startswith("No daemon is running")
    assert json.loads(lineage(place, "daemon", "status", "--json")[1]) == {"running": False}
    assert lineage(place, "daemon", "stop")[:2] == (0, "No daemon is running.\n")
    index(repo, place)
    remote(place).find(QUESTION, repo.path)
    assert f"running: process {pid(place)}" in lineage(place, "daemon", "status")[1]
    said = json.loads(lineage(place, "daemon", "status", "--json")[1])
    assert (said["answered"], said["running"]) == (1, 0)
    assert lineage(place, "daemon", "list")[0] == 0
    assert lineage(place, "daemon", "stop")[:2] == (0, "The daemon has ended.\n")
    assert remote(place).report() is None


def test_closed_to_others(place: Path) -> None:
    """Folder and socket belong to the person alone, also where the folder was made by somebody careless."""
    address = Address(place)
    place.mkdir()
    address.folder.mkdir(mode=0o777)
    address.folder.chmod(0o777)
    remote(place).stop()
    with running(place):
        assert address.folder.stat().st_mode & 0o777 == 0o700
        assert address.socket.stat().st_mode & 0o777 == 0o600


def test_folder_of_somebody_else(place: Path, tmp_path: Path, repo: Repo) -> None:
    """A folder that is a link, as somebody else might leave one, is not trusted; the answer comes without it."""
    place.mkdir()
    (tmp_path / "trap").mkdir()
    Address(place).folder.symlink_to(tmp_path / "trap")
    with pytest.raises(UnsafeFolder):
        remote(place).find(QUESTION, repo.path)
    Address(place).folder.unlink()


def test_long_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repo: Repo) -> None:
    """A home whose path is too long for a socket has its socket elsewhere, in a folder of the person's own."""
    home = tmp_path / ("deep" * 30)
    address = Address(home)
    assert len(os.fsencode(address.socket)) <= LONGEST_SOCKET
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("LINEAGE_NO_DAEMON", raising=False)
    index(repo, home)
    try:
        assert len(remote(home).find(QUESTION, repo.path).hits) == 2
        assert address.socket.parent.stat().st_mode & 0o777 == 0o700
    finally:
        remote(home).stop()
        shutil.rmtree(address.socket.parent)


def test_no_daemon_to_be_had(tmp_path: Path, repo: Repo) -> None:
    """Where no daemon can be started the question is answered all the same, and the reason is said."""
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    code, out, err = lineage(blocked / "home", "explain", "src/tcp.py", str(repo.path))
    assert code == 0, err
    assert json.loads(out)["hits"]
    assert "Answered without the daemon" in err
    with pytest.raises(NoDaemon):
        process.start(Address(blocked / "home"))


def test_an_index_at_hand(repo: Repo, place: Path) -> None:
    """What was read for one question is listed, serves the next, and is read again once the index has changed."""
    index(repo, place)
    asked = ("query", str(repo.path), "-q", "timeout", "--no-rerank")
    lineage(place, *asked)
    (held,) = json.loads(lineage(place, "daemon", "list", "--json")[1])
    assert (held["path"], held["hunks"]) == (str(repo.path), 2)
    repo.commit_file("new.py", "timeout\n", "One more timeout")
    index(repo, place)
    assert lineage(place, *asked) == lineage(place, *asked, "--no-daemon")
    (held,) = json.loads(lineage(place, "daemon", "list", "--json")[1])
    assert held["hunks"] == 3


def test_a_late_stop(place: Path) -> None:
    """Who means to replace a daemon of another program does not end its successor."""
    with running(place) as daemon:
        assert remote(place).stop("another")
        time.sleep(1)
        assert pid(place) == daemon.pid


def test_another_home(repo: Repo, place: Path, tmp_path: Path) -> None:
    """Where the asker's git configuration is not the daemon's, the answer is the asker's own."""
    repo.commit_file("src/tcp.py", "def connect():\n    timeout(1)\n", "Wait for a second")
    (tmp_path / "ignored").write_text(repo.git("rev-parse", "HEAD") + "\n")
    (tmp_path / ".gitconfig").write_text(f"[blame]\n\tignoreRevsFile = {tmp_path / 'ignored'}\n")
    arguments = ("explain", "src/tcp.py", str(repo.path))
    _, usual, _ = lineage(place, *arguments)
    _, shared, said = lineage(place, *arguments, HOME=str(tmp_path))
    assert shared == lineage(place, *arguments, "--no-daemon", HOME=str(tmp_path))[1] != usual
    assert "another HOME" in said


def test_started_where_git_is_not_found(repo: Repo, place: Path) -> None:
    """A daemon that a program without git on its PATH started finds git for everybody."""
    if shutil.which("git", path="/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin") is None:
        pytest.skip("git is in none of the usual folders")
    code, out, err = lineage(place, "explain", "src/tcp.py", str(repo.path), PATH="/nowhere")
    assert code == 0, err
    assert json.loads(out)["hits"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_log(repo: Repo, place: Path) -> None:
    """A log that cannot be written keeps nobody from an answer."""
    index(repo, place)
    before = "import sys\nsys.stderr = open('/dev/full', 'w')"
    with running(place, before=before) as daemon:
        assert len(remote(place).find(QUESTION, repo.path).hits) == 2
        assert pid(place) == daemon.pid


def test_ended_daemons_are_buried(place: Path) -> None:
    """A process that starts daemons for years does not keep the ended ones in the system's table."""
    for _ in range(3):
        process.start(Address(place))
        assert remote(place).stop()
    process.start(Address(place))
    assert len(process._children) <= 2  # the one before may still be on its way out
