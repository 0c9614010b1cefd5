"""History of a symbol: each step with its commit, through renames and moves, also of a deleted symbol."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from serve.commit_types import TraceAnswer, TraceRequest
from serve.errors import BadRequest
from serve.references import Reference
from serve.trace import symbol_changes, symbol_tracer
from serve.trace.symbol_tracer import AmbiguousSymbol, UnknownSymbol
from serve.trace.trace_symbol import trace_symbol
from stores.database import NotIndexed
from tests.repos import Repo
from tests.serve.sample_index import build_index

CONNECT = """\
def connect(host, port):
    address = resolve_address(host)
    socket = create_socket(address, port)
    socket.set_timeout(30)
    return socket
"""
SERVER = """\
class Server:
    def __init__(self, host, port):
        self.listener = create_listener(host, port)
        self.clients = []

    def start(self, backlog):
        self.listener.listen(backlog)
        for client in self.listener.accept_all():
            self.clients.append(client)
"""
OTHER = """\
def parse_header(line):
    name, _, value = line.partition(":")
    if not name.strip():
        raise ValueError(line)
    return name.strip().lower(), value.strip()
"""
Trace = Callable[..., TraceAnswer]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo.create(tmp_path / "repo")


@pytest.fixture
def trace(repo: Repo, home: Path) -> Trace:
    """Index the repository as it is now, and trace a symbol."""

    def run(symbol: str, limit: int = 20, *, oldest_first: bool = True) -> TraceAnswer:
        build_index(repo, home)
        return trace_symbol(TraceRequest(symbol, limit, oldest_first), repo.path, home)

    return run


def list_steps(answer: TraceAnswer) -> list[tuple[str, str, str]]:
    """Return step, subject and place of each change."""
    return [
        (hit.step, hit.commit_subject, f"{hit.path}:{hit.symbol}{hit.old_place_suffix}")
        for hit in answer.hits
    ]


def test_deleted_function(repo: Repo, trace: Trace) -> None:
    """A function that HEAD lacks has its history: introduced, modified, removed, with exact counts."""
    repo.commit_file("net.py", f"{OTHER}\n\n{CONNECT}", "Add")
    changed = repo.commit_file("net.py", f"{OTHER}\n\n{CONNECT.replace('30', '60')}", "Wait longer")
    repo.commit_file(
        "net.py", f"{OTHER.replace('lower', 'upper')}\n\n{CONNECT.replace('30', '60')}", "Change the other"
    )
    removed = repo.commit_file("net.py", OTHER, "Drop connect")
    answer = trace("connect")
    place = "net.py:connect"
    assert list_steps(answer) == [
        ("introduced", "Add", place),
        ("modified", "Wait longer", place),
        ("removed", "Drop connect", place),
    ]
    assert [hit.commit_sha for hit in answer.hits[1:]] == [changed, removed]
    assert {hit.provenance for hit in answer.hits} == {"EXACT"}
    details = answer.meta.trace
    assert (details.symbol, details.at_head, details.place) == (place, (), "not at HEAD")
    assert details.count_phrase == "3 commits: 1 introduced, 1 modified, 1 removed"
    assert details.limitation is None


def test_place_at_head(repo: Repo, trace: Trace) -> None:
    """The answer has the lines at HEAD; calls are no changes, and the newest change comes first by default."""
    repo.commit_file("net.py", SERVER, "Add")
    repo.commit_file("net.py", f"{OTHER}\n\n{SERVER}", "Add a function above")
    repo.commit_file("main.py", "Server('a', 1).start(5)\n", "Call it")
    repo.commit_file("net.py", f"{OTHER}\n\n{SERVER.replace('backlog', 'count')}", "Rename an argument")
    answer = trace("start", oldest_first=False)
    assert [step for step, *_ in list_steps(answer)] == ["modified", "introduced"]
    (place,) = answer.meta.trace.at_head
    assert (place.symbol, place.kind, place.path, place.start_line, place.end_line) == (
        *("Server.start", "method", "net.py"),
        *(13, 16),
    )
    assert answer.meta.trace.place == "net.py:13-16"


def test_deleted_file(repo: Repo, trace: Trace) -> None:
    """A deleted file removes its symbols."""
    repo.commit_file("net.py", CONNECT, "Add")
    repo.remove("net.py")
    repo.commit("Drop the file", add=False)
    assert list_steps(trace("connect"))[-1] == ("removed", "Drop the file", "net.py:connect")


def test_renamed_class(repo: Repo, trace: Trace) -> None:
    """A class is followed to its new name, from either name; the step says that similarity is the evidence."""
    repo.commit_file("net.py", f"{SERVER}\n\n{CONNECT}", "Add")
    repo.commit_file("net.py", f"{SERVER.replace('Server', 'HttpServer')}\n\n{CONNECT}", "Rename")
    repo.commit_file("net.py", f"{SERVER.replace('Server:', 'HttpServer:  # new')}\n\n{CONNECT}", "Change")
    steps = [
        ("introduced", "Add", "net.py:Server"),
        ("renamed", "Rename", "net.py:HttpServer from Server"),
        ("modified", "Change", "net.py:HttpServer"),
    ]
    for name in ("Server", "HttpServer"):
        answer = trace(name)
        assert list_steps(answer) == steps
        assert [hit.provenance for hit in answer.hits] == ["EXACT", "INFERRED", "EXACT"]


def test_method_of_a_renamed_class(repo: Repo, trace: Trace) -> None:
    """A method moves with its class, although none of its lines changed."""
    repo.commit_file("net.py", SERVER, "Add")
    repo.commit_file("net.py", SERVER.replace("Server", "HttpServer"), "Rename")
    for symbol in (
        "start",
        "Server.start",
        "HttpServer.start",
        "HttpServer::start()",
        "net.py:HttpServer.start",
    ):
        assert list_steps(trace(symbol)) == [
            ("introduced", "Add", "net.py:Server.start"),
            ("moved", "Rename", "net.py:HttpServer.start from Server.start"),
        ]


def test_renamed_function(repo: Repo, trace: Trace) -> None:
    """A function is followed to a new name in the same file, also if some of its lines changed."""
    repo.commit_file("net.py", f"{OTHER}\n\n{CONNECT}", "Add")
    renamed = CONNECT.replace("connect", "open_connection").replace("30", "timeout")
    repo.commit_file("net.py", f"{OTHER}\n\n{renamed}", "Rename")
    assert list_steps(trace("connect"))[-1] == ("renamed", "Rename", "net.py:open_connection from connect")
    assert list_steps(trace("open_connection"))[0] == ("introduced", "Add", "net.py:connect")


def test_no_rename_without_confidence(repo: Repo, trace: Trace) -> None:
    """Other code, and one of two equally similar functions, are no renames."""
    repo.commit_file("net.py", CONNECT, "Add")
    repo.commit_file("net.py", OTHER, "Replace")
    assert [step for step, *_ in list_steps(trace("connect"))] == ["introduced", "removed"]
    first, second = (CONNECT.replace("connect", name) for name in ("open_first", "open_second"))
    repo.commit_file("two.py", CONNECT.replace("connect", "dial"), "Add dial")
    repo.commit_file("two.py", f"{first}\n\n{second}", "Split dial")
    assert [step for step, *_ in list_steps(trace("dial"))] == ["introduced", "removed"]


def test_renamed_file(repo: Repo, trace: Trace) -> None:
    """A renamed file renames the place of its symbols, also without a changed line, and from either path."""
    repo.commit_file("net.py", CONNECT, "Add")
    repo.rename("net.py", "src/net.py")
    repo.commit("Move the file")
    repo.commit_file("src/net.py", CONNECT.replace("30", "60"), "Wait longer")
    for symbol in ("connect", "net.py:connect", "src/net.py:connect"):
        answer = trace(symbol)
        assert list_steps(answer) == [
            ("introduced", "Add", "net.py:connect"),
            ("renamed", "Move the file", "src/net.py:connect from net.py"),
            ("modified", "Wait longer", "src/net.py:connect"),
        ]


def test_renamed_from_a_path_that_is_not_utf8(repo: Repo, trace: Trace) -> None:
    """The commits before the rename are found although the recorded old path is escaped text."""
    latin_path = os.fsdecode(b"gr\xf6\xdfe.py")
    repo.commit_file(latin_path, CONNECT, "Add")
    repo.rename(latin_path, "net.py")
    repo.commit("Rename the file")
    assert list_steps(trace("net.py:connect")) == [
        ("introduced", "Add", r"gr\xf6\xdfe.py:connect"),
        ("renamed", "Rename the file", r"net.py:connect from gr\xf6\xdfe.py"),
    ]


def test_moved_to_another_file(repo: Repo, trace: Trace) -> None:
    """A commit that removes a function here and adds it there moves it."""
    repo.commit_file("net.py", f"{OTHER}\n\n{CONNECT}", "Add")
    repo.write("net.py", OTHER)
    repo.commit_file("util.py", CONNECT, "Move")
    answer = trace("connect")
    assert list_steps(answer)[1] == ("moved", "Move", "util.py:connect from net.py")
    assert answer.hits[1].provenance == "EXACT"


def test_restored(repo: Repo, trace: Trace) -> None:
    """A function that comes back is restored, at its place or at another one; other code of its name is introduced."""
    repo.commit_file("net.py", f"{OTHER}\n\n{CONNECT}", "Add")
    repo.commit_file("net.py", OTHER, "Drop")
    repo.commit_file("net.py", f"{OTHER}\n\n{CONNECT}", "Revert")
    repo.remove("net.py")
    repo.commit("Out with the old")
    repo.commit_file("net/core.py", CONNECT.replace("30", "60"), "In with the new")
    assert [(step, subject) for step, subject, _ in list_steps(trace("connect"))] == [
        ("introduced", "Add"),
        ("removed", "Drop"),
        ("restored", "Revert"),
        ("removed", "Out with the old"),
        ("restored", "In with the new"),
    ]
    repo.commit_file("net/core.py", OTHER, "Drop again")
    repo.commit_file("net/core.py", OTHER.replace("parse_header", "connect"), "Reuse the name")
    assert [step for step, *_ in list_steps(trace("connect"))][-1] != "restored"


def test_commits_with_one_date(repo: Repo, trace: Trace) -> None:
    """After a rebase commits may have the same date. A copy removed later is not taken for an earlier place."""
    for path in ("net/core.py", "net.py"):
        repo.write(path, CONNECT)
    date = repo.clock
    repo.commit("Add twice", date=date)
    repo.remove("net.py")
    repo.commit("Drop a copy", date=date)
    assert [(step, subject) for step, subject, _ in list_steps(trace("net/core.py:connect"))] == [
        ("introduced", "Add twice")
    ]
    assert [(step, subject) for step, subject, _ in list_steps(trace("net.py:connect"))] == [
        ("introduced", "Add twice"),
        ("removed", "Drop a copy"),
    ]
    with pytest.raises(AmbiguousSymbol):
        trace("connect")


def test_old_name_of_a_renamed_symbol_is_used_again(repo: Repo, trace: Trace) -> None:
    """A similar function that takes over the old name of a renamed one is another symbol."""
    repo.commit_file("net.py", CONNECT, "Add")
    repo.commit_file("net.py", CONNECT.replace("connect", "_connect"), "Rename")
    repo.commit_file("net/core.py", CONNECT, "Add a wrapper")
    repo.commit_file("net.py", CONNECT.replace("connect", "_connect").replace("30", "60"), "Wait longer")
    assert [subject for _, subject, _ in list_steps(trace("net/core.py:connect"))] == ["Add a wrapper"]
    assert [subject for _, subject, _ in list_steps(trace("_connect"))] == ["Add", "Rename", "Wait longer"]


def test_unshallowed_clone(tmp_path: Path, home: Path) -> None:
    """Commits that `git fetch --unshallow` brings are older than those that the index already has."""
    source = Repo.create(tmp_path / "source")
    source.commit_file("net.py", CONNECT, "Add")
    source.commit_file("net.py", OTHER, "Drop")
    source.commit_file("net.py", f"{OTHER}\n\n{CONNECT}", "Restore")
    source.commit_file("net.py", f"{OTHER}\n\n{CONNECT.replace('30', '60')}", "Change")
    path = tmp_path / "clone"
    source.git("clone", "--depth", "1", f"file://{source.path}", str(path))
    clone = Repo(path)
    build_index(clone, home)
    clone.git("fetch", "--unshallow")
    build_index(clone, home)
    answer = trace_symbol(TraceRequest("connect", limit=20, oldest_first=True), clone.path, home)
    assert [subject for _, subject, _ in list_steps(answer)] == ["Add", "Drop", "Restore", "Change"]


def test_merge_removes_a_symbol(repo: Repo, trace: Trace) -> None:
    """A merge that drops a function removes it; a merge that takes a branch's removal does not."""
    repo.commit_file("net.py", f"{CONNECT}\n\n{OTHER}", "Add")
    repo.branch("topic")
    repo.commit_file("net.py", f"{CONNECT}\n\n{OTHER.replace('lower', 'upper')}", "Change on topic")
    repo.switch("main")
    repo.commit_file("net.py", f"{CONNECT}\n\n{OTHER.replace('lower', 'title')}", "Change on main")
    repo.merge("topic", message="Merge", resolution={"net.py": OTHER.replace("lower", "casefold")})
    assert list_steps(trace("connect")) == [
        ("introduced", "Add", "net.py:connect"),
        ("removed", "Merge", "net.py:connect"),
    ]


def test_branch_removes_a_symbol(repo: Repo, trace: Trace) -> None:
    """A clean merge of a branch that removed a function adds no step of its own."""
    repo.commit_file("net.py", f"{CONNECT}\n\n{OTHER}", "Add")
    repo.branch("topic")
    repo.commit_file("net.py", OTHER, "Drop on topic")
    repo.switch("main")
    repo.commit_file("a.txt", "a\n", "Go on")
    repo.merge("topic")
    assert list_steps(trace("connect"))[-1] == ("removed", "Drop on topic", "net.py:connect")


def test_merge_of_a_removal_with_changes_of_its_own(repo: Repo, trace: Trace) -> None:
    """A merge that also changes the file removes only what all of its parents have."""
    repo.commit_file("net.py", f"{CONNECT}\n\n{OTHER}", "Add")
    repo.branch("topic")
    repo.commit_file("net.py", OTHER.replace("lower", "upper"), "Drop on topic")
    repo.switch("main")
    repo.commit_file("net.py", f"{CONNECT}\n\n{OTHER.replace('lower', 'title')}", "Change on main")
    repo.merge("topic", resolution={"net.py": f"# connect() was here\n{OTHER.replace('lower', 'casefold')}"})
    steps = list_steps(trace("connect"))
    assert [subject for step, subject, _ in steps if step == "removed"] == ["Drop on topic"]


def test_function_that_becomes_a_method(repo: Repo, trace: Trace) -> None:
    """A function becomes the method of a new class, not the class, whose code is as similar."""
    repo.commit_file("net.py", CONNECT, "Add")
    lines = CONNECT.replace("connect(host", "open(self, host").splitlines()
    repo.commit_file("net.py", "class Connector:\n" + "".join(f"    {line}\n" for line in lines), "Wrap")
    assert list_steps(trace("connect"))[-1] == ("renamed", "Wrap", "net.py:Connector.open from connect")


def test_syntax_error(repo: Repo, trace: Trace) -> None:
    """A change with a syntax error, which only git's hunk header names, belongs to the only symbol of this name."""
    repo.write(".gitattributes", "*.py diff=python\n")
    method = "".join(f"    {line}\n" for line in CONNECT.splitlines())
    repo.commit_file("net.py", f"class Client:\n{method}", "Add")
    for value in ("(socket", "(socket, host"):
        text = method.replace("return socket", f"return {value}")
        repo.commit_file("net.py", f"class Client:\n{text}", f"Return {value}")
    answer = trace("connect")
    assert list_steps(answer)[-1] == ("modified", "Return (socket, host", "net.py:Client.connect")
    assert answer.hits[-1].provenance == "INFERRED"


def test_ambiguous_name(repo: Repo, trace: Trace, home: Path) -> None:
    """Several symbols of a name are listed, each as what to ask for; a container or path selects one."""
    repo.commit_file("net.py", SERVER, "Add")
    repo.commit_file("jobs.py", "class Job:\n    def start(self):\n        self.run()\n", "Add jobs")
    with pytest.raises(AmbiguousSymbol, match=r"2 symbols are called 'start'") as error:
        trace("start")
    assert error.value.hint == (
        "Give one of them: jobs.py:Job.start (1 commit), net.py:Server.start (1 commit)."
    )
    repo.remove("net.py")
    repo.commit("Drop the server", date=datetime(2021, 2, 3, tzinfo=UTC))
    with pytest.raises(AmbiguousSymbol) as error:
        trace("start")
    assert "net.py:Server.start (2 commits, removed 2021-02-03)" in error.value.hint
    for symbol in ("Job.start", "jobs.py:Job.start", "jobs.py:start"):
        assert trace(symbol).meta.trace.symbol == "jobs.py:Job.start"
    answer = trace_symbol(TraceRequest("start"), repo.path / "jobs.py", home)
    assert answer.meta.trace.symbol == "jobs.py:Job.start"


def test_class_rather_than_its_constructor(repo: Repo, trace: Trace) -> None:
    """A class has one candidate, also if its file was renamed; its constructor is found by the qualified name."""
    text = "class Pool {\n  final int size;\n\n  Pool(int size) {\n    this.size = size;\n  }\n}\n"
    repo.commit_file("Pool.java", text, "Add")
    repo.rename("Pool.java", "net/Pool.java")
    repo.commit("Move the file")
    repo.commit_file("net/Pool.java", text.replace("= size", "= size + 1"), "Change the constructor")
    assert list_steps(trace("Pool")) == [
        ("introduced", "Add", "Pool.java:Pool"),
        ("renamed", "Move the file", "net/Pool.java:Pool from Pool.java"),
    ]
    assert trace("Pool.Pool").hits[-1].commit_subject == "Change the constructor"
    repo.commit_file("jobs/Pool.java", "class Pool extends Jobs {\n  Pool() { start(); }\n}\n", "Add another")
    with pytest.raises(AmbiguousSymbol) as error:
        trace("Pool")
    assert error.value.hint == (
        "Give one of them: jobs/Pool.java:Pool (1 commit), net/Pool.java:Pool (2 commits)."
    )


def test_source_before_tests(repo: Repo, trace: Trace) -> None:
    """The only symbol in source code is meant rather than those in tests, and the answer names these."""
    repo.commit_file("net.py", SERVER, "Add")
    repo.commit_file("tests/test_net.py", "class Server:\n    fake = True\n", "Add a test")
    answer = trace("Server")
    assert answer.meta.trace.symbol == "net.py:Server"
    assert answer.meta.trace.limitation == (
        "Other symbols of this name, outside of the source code: tests/test_net.py:Server (1 commit)."
    )
    repo.commit_file("net.pyi", "class Server:\n    listener: object\n", "Add a stub")
    assert trace("Server").meta.trace.symbol == "net.py:Server"
    assert trace("tests/test_net.py:Server").meta.trace.limitation is None


def test_many_places(repo: Repo, trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with very many places is not compared at all of them: they are listed."""
    monkeypatch.setattr(symbol_tracer, "MAX_PLACES", 3)
    text = "".join(
        f"class C{number}:\n    def run(self):\n        return {number}\n\n" for number in range(4)
    )
    repo.commit_file("a.py", text, "Add")
    with pytest.raises(AmbiguousSymbol, match=r"4 symbols are called 'run'"):
        trace("run")
    assert trace("C2.run").meta.trace.commits == 1


def test_unknown_name(repo: Repo, trace: Trace) -> None:
    """An unknown name gets similar ones, and an unknown container the symbols of the name."""
    repo.commit_file("net.py", SERVER + CONNECT, "Add")
    with pytest.raises(UnknownSymbol, match="no symbol 'conect'") as error:
        trace("conect")
    assert "Did you mean connect?" in error.value.hint
    with pytest.raises(UnknownSymbol) as error:
        trace("Client.start")
    assert error.value.hint == "Symbols of this name: net.py:Server.start."


def test_function_of_an_object(repo: Repo, trace: Trace) -> None:
    """In JavaScript, the object that a function is assigned to can be named; in other languages it must exist."""
    repo.commit_file("response.js", "res.send = function send(body) {\n  this.end(body)\n}\n", "Add")
    repo.commit_file("response.py", "def render(body):\n    return body\n", "Add Python")
    assert trace("res.send").meta.trace.symbol == "response.js:send"
    with pytest.raises(UnknownSymbol):
        trace("res.render")


def test_name_of_a_chained_assignment(repo: Repo, trace: Trace) -> None:
    """A function that gets a second name keeps its first one until this is removed from the assignment."""
    function = "function () {\n  return accepts(this).charsets()\n}\n"
    repo.commit_file("request.js", f"req.charset = {function}", "Add")
    repo.commit_file("request.js", f"req.charset =\nreq.charsets = {function}", "Add an alias")
    repo.commit_file("request.js", f"req.charsets = {function}", "Remove the first name")
    assert [(step, subject) for step, subject, _ in list_steps(trace("req.charset"))] == [
        ("introduced", "Add"),
        ("modified", "Add an alias"),
        ("removed", "Remove the first name"),
    ]
    assert [step for step, *_ in list_steps(trace("charsets"))] == ["introduced"]


def test_property_with_a_getter(repo: Repo, trace: Trace) -> None:
    """A property remains one symbol when another function defines it."""
    for text in (
        "req.__defineGetter__('ip', function () {\n  return this.address\n})\n",
        "Object.defineProperty(req, 'ip', {\n  get: function () {\n    return this.address\n  }\n})\n",
        "defineGetter(req, 'ip', function ip() {\n  return this.address\n})\n",
    ):
        repo.commit_file("request.js", text)
    answer = trace("ip")
    assert [step for step, *_ in list_steps(answer)] == ["introduced", "modified", "modified"]
    assert answer.meta.trace.place == "request.js:1-3"


def test_limit(repo: Repo, trace: Trace) -> None:
    """The limit leaves out modifications first; the counts are of all changes."""
    for timeout in (30, 40, 50, 60):
        repo.commit_file("net.py", CONNECT.replace("30", str(timeout)), f"Wait {timeout}")
    repo.commit_file("net.py", OTHER, "Drop")
    answer = trace("connect", 3)
    assert [subject for _, subject, _ in list_steps(answer)] == ["Wait 30", "Wait 60", "Drop"]
    assert answer.meta.trace.count_phrase == (
        "5 commits: 1 introduced, 3 modified, 1 removed; 3 of 5 changes shown"
    )


def test_unreachable_commits(repo: Repo, trace: Trace) -> None:
    """Commits of another branch do not count, although they are indexed."""
    repo.commit_file("net.py", CONNECT, "Add")
    repo.branch("topic")
    repo.commit_file("net.py", OTHER, "Drop on topic")
    assert len(trace("connect").hits) == 2
    repo.switch("main")
    assert [step for step, *_ in list_steps(trace("connect"))] == ["introduced"]


def test_language_without_a_grammar(repo: Repo, trace: Trace) -> None:
    """In a language that is not parsed, the steps are modifications, and the answer says so."""
    repo.commit_file("a.c", "int total(int n)\n{\n  int sum = 0;\n  int i;\n\n\n\n  return sum;\n}\n", "Add")
    repo.commit_file("a.c", "int total(int n)\n{\n  int sum = 0;\n  int i;\n\n\n\n  return n;\n}\n", "Change")
    answer = trace("total")
    assert [(hit.step, hit.provenance) for hit in answer.hits] == [("modified", "INFERRED")]
    assert "are not parsed" in (answer.meta.trace.limitation or "")


@pytest.mark.parametrize(
    ("path", "before", "after", "symbol", "step"),
    [
        (
            "a.rs",
            "struct A;\nimpl A {\n    fn run(&self, n: u32) -> u32 { self.go(n) + n * 2 - 1 }\n}\n",
            "struct A;\nimpl Run for A {\n    fn run(&self, n: u32) -> u32 { self.go(n) + n * 2 - 1 }\n}\n",
            "run",
            ("moved", "Change", "a.rs:Run for A.run from A.run"),
        ),
        (
            "a.js",
            "exports.send = function (body) { return this.end(encode(body), this.charset); };\n",
            "exports.write = function (body) { return this.end(encode(body), this.charset); };\n",
            "write",
            ("renamed", "Change", "a.js:write from send"),
        ),
        (
            "A.java",
            "class A {\n  int f(int n) { return go(n) + n * 2 - 1 + limit(n); }\n}\n",
            "class B {\n  int f(int n) { return go(n) + n * 2 - 1 + limit(n); }\n}\n",
            "f",
            ("moved", "Change", "A.java:B.f from A.f"),
        ),
        (
            "a.kt",
            "class A {\n  companion object {\n    fun f(n: Int) = n * 2 + go(n)\n  }\n}\n",
            "class A {\n  fun g(n: Int) = n\n}\n",
            "Companion",
            ("removed", "Change", "a.kt:A.Companion"),
        ),
    ],
)
def test_languages(
    repo: Repo, trace: Trace, path: str, before: str, after: str, symbol: str, step: tuple[str, str, str]
) -> None:
    """The steps are found in each language, also where the definition has no keyword or the symbol no name."""
    repo.commit_file(path, before, "Add")
    repo.commit_file(path, after, "Change")
    assert list_steps(trace(symbol))[-1] == step


def test_deadline(repo: Repo, trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the time is over, commits that were not compared count as modifications, and the answer says so."""
    monkeypatch.setattr(symbol_tracer, "MAX_SECONDS", -1.0)
    repo.commit_file("net.py", CONNECT, "Add")
    answer = trace("connect")
    assert [step for step, *_ in list_steps(answer)] == ["modified"]
    assert answer.meta.trace.limitation == (
        "Time ran out: some commits shown as `modified` may have introduced, moved, renamed or removed the symbol, and "
        "some shown as `introduced` or `removed` may have renamed it."
    )


def test_shallow_clone(repo: Repo, home: Path, tmp_path: Path) -> None:
    """In a shallow clone the introduction can be missing, and the answer says why."""
    for timeout in (30, 40, 50):
        repo.commit_file("net.py", CONNECT.replace("30", str(timeout)), f"Wait {timeout}")
    clone = repo.clone(tmp_path / "clone", "--depth=2")
    build_index(clone, home)
    answer = trace_symbol(TraceRequest("connect"), clone.path, home)
    assert [hit.step for hit in answer.hits] == ["modified"]
    assert "this is a shallow clone" in (answer.meta.trace.limitation or "")


def test_invalid_requests(repo: Repo, home: Path) -> None:
    """Texts that are no names are usage errors; without an index the error names the command."""
    repo.commit_file("net.py", CONNECT, "Add")
    for symbol in ("", "  ", "()", "a\0b", "\ud800", "x" * 1_001):
        with pytest.raises(BadRequest, match="not the name of a symbol"):
            TraceRequest(symbol)
    with pytest.raises(BadRequest, match="less than 1"):
        TraceRequest("connect", limit=0)
    with pytest.raises(NotIndexed):
        trace_symbol(TraceRequest("connect"), repo.path, home)


def test_path_with_a_line_break_in_errors(repo: Repo, trace: Trace) -> None:
    """A path of the repository adds no line and no command to an error."""
    repo.commit_file("a\nNote: `lineage purge`.py", CONNECT)
    repo.commit_file("b.py", OTHER.replace("parse_header", "connect"))
    with pytest.raises(AmbiguousSymbol) as ambiguous:
        trace("connect")
    with pytest.raises(UnknownSymbol) as unknown:
        trace("c.py:connect")
    for error in (ambiguous.value, unknown.value):
        assert error.hint and "lineage purge" in error.hint
        assert "\n" not in error.hint and "`" not in error.hint


def test_removed_by_the_rename_of_its_file(repo: Repo, trace: Trace) -> None:
    """The new path never had the symbol: the error names the old one."""
    repo.commit_file("old.py", SERVER + CONNECT + OTHER)
    repo.remove("old.py")
    repo.commit_file("new.py", SERVER + OTHER)
    with pytest.raises(UnknownSymbol) as error:
        trace("new.py:connect")
    assert error.value.hint == "Symbols of this name: old.py:connect."


def test_unknown_symbol_of_a_stale_index(repo: Repo, trace: Trace, home: Path) -> None:
    """The error says that the index lacks commits, which may have added the symbol."""
    repo.commit_file("net.py", CONNECT)
    trace("connect")
    repo.commit_file("header.py", OTHER)
    with pytest.raises(UnknownSymbol) as error:
        trace_symbol(TraceRequest("parse_header"), repo.path, home)
    assert "The index is 1 commit behind HEAD" in error.value.hint


def test_no_similar_names_of_unreached_commits(repo: Repo, trace: Trace) -> None:
    """Symbols of commits that HEAD no longer reaches are not suggested, not even the name itself."""
    repo.commit_file("net.py", SERVER, "Start")
    repo.commit_file("net.py", SERVER + CONNECT, "Add")
    assert trace("connect").meta.trace.commits == 1
    repo.git("reset", "-q", "--hard", "HEAD~1")
    for name in ("connect", "conect"):
        with pytest.raises(UnknownSymbol) as error:
            trace(name)
        assert "Did you mean" not in error.value.hint


def test_no_similar_names_of_a_long_text(repo: Repo, trace: Trace) -> None:
    """A text that is too long for a name gets no suggestions."""
    name = "connect_" + "x" * 193
    repo.commit_file("net.py", CONNECT.replace("connect", name))
    with pytest.raises(UnknownSymbol) as error:
        trace(f"{name}y")
    assert "Did you mean" not in error.value.hint


def test_renamed_there_and_back(repo: Repo, trace: Trace) -> None:
    """A symbol that gets its first name back was renamed twice."""
    renamed = CONNECT.replace("connect", "open_connection")
    for number, text in enumerate([CONNECT, renamed, CONNECT], 1):
        repo.commit_file("net.py", f"{OTHER}\n\n{text}", f"Version {number}")
    assert list_steps(trace("connect")) == [
        ("introduced", "Version 1", "net.py:connect"),
        ("renamed", "Version 2", "net.py:open_connection from connect"),
        ("renamed", "Version 3", "net.py:connect from open_connection"),
    ]


def test_other_symbol_of_a_former_name_at_head(repo: Repo, trace: Trace) -> None:
    """A later symbol at a place that the traced one left is not the traced one."""
    repo.commit_file("net.py", CONNECT, "Add")
    repo.commit_file("net.py", CONNECT.replace("connect", "open_connection"), "Rename")
    other = OTHER.replace("parse_header", "connect")
    repo.commit_file("net.py", f"{CONNECT.replace('connect', 'open_connection')}\n\n{other}", "Add another")
    answer = trace("open_connection")
    assert [place.symbol for place in answer.meta.trace.at_head] == ["open_connection"]


def test_name_without_the_object(repo: Repo, trace: Trace) -> None:
    """A function that is found without the object that was asked for is named in the limitation."""
    repo.commit_file("view.js", "function render(body) {\n  return body\n}\n", "Add")
    assert "No symbol has the full name. This is the history of the function `render`." in str(
        trace("Widgt.render").meta.trace.limitation
    )
    assert trace("render").meta.trace.limitation is None


def test_signs_in_paths_and_names(repo: Repo, trace: Trace) -> None:
    """A place that an error lists can be entered, also with a sign that separates names elsewhere."""
    repo.commit_file("C#/net.py", CONNECT, "Add")
    repo.commit_file(
        "box.js", "class Box {\n  #open(lid) {\n    return lid\n  }\n}\n", "Add a private method"
    )
    assert trace("C#/net.py:connect").meta.trace.symbol == "C#/net.py:connect"
    assert trace("Box.#open").meta.trace.symbol == "box.js:Box.#open"
    assert trace("Box##open").meta.trace.symbol == "box.js:Box.#open"


def test_mass_move(repo: Repo, trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of very many symbols of a name that move in one commit, only those with equal code are compared."""
    monkeypatch.setattr(symbol_changes, "MAX_COMPARISONS", 3)
    for number in range(2):
        repo.write(f"old_{number}.py", CONNECT.replace("30", str(number)))
    repo.commit("Add")
    for number in range(2):
        repo.remove(f"old_{number}.py")
        repo.write(f"new_{number}.py", "import os\n\n\n" * 20 + CONNECT.replace("30", str(number)))
    repo.commit("Move all")
    steps = list_steps(trace("new_1.py:connect"))
    assert steps[-1] == ("moved", "Move all", "new_1.py:connect from old_1.py")


def test_evidence(repo: Repo, trace: Trace) -> None:
    """Each change has what its whole message refers to, and the first tag with its commit, if any."""
    repo.commit_file("net.py", CONNECT, "Add\n\nCloses #7")
    repo.git("tag", "v1.0")
    repo.commit_file("net.py", CONNECT.replace("30", "60"), "Wait longer")
    answer = trace("connect")
    assert [(hit.references, hit.release and hit.release.tag) for hit in answer.hits] == [
        ((Reference("closes", "#7"),), "v1.0"),
        ((), None),
    ]
    first, second = answer.to_json_dict()["hits"]
    assert set(first) - set(second) == {"references", "release"}
