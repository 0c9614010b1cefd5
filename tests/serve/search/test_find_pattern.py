"""`find_pattern` over real repositories: hits, filters and hints."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, timedelta
from functools import partial
from pathlib import Path

import pytest

from pipeline.git.repository import open_repository
from serve.api_types import FindAnswer, FindRequest, PatternHit
from serve.errors import BadRequest
from serve.index_status import EXCERPT_COLUMNS, EXCERPT_LINES
from serve.repositories import place_of
from serve.search import query, retrieval
from serve.search.cache import see
from serve.search.rerank import WEAK
from stores import database
from stores.types import Reach
from tests.repos import FIRST_DATE, Repo
from tests.serve.sample_index import WordEncoder, index
from tests.serve.search.helpers import ANYWHERE, NOW, Asked, Options, ask


def paths(answer: FindAnswer) -> list[str]:
    return [hit.file_path for hit in answer.hits]


def test_hit_fields(repo: Repo, home: Path) -> None:
    """A hit has every field of the specification, in its order, for the commit asked for."""
    index(repo, home)
    hit = asdict(ask(repo, home, "how did we add a timeout to connect", k=1, rerank=False).hits[0])
    similarity = hit.pop("similarity")
    assert 0 < similarity < 1
    assert hit == {
        "commit_sha": repo.git("rev-parse", "HEAD~4"),
        "commit_message": "Add a timeout to connect",
        "commit_author": "Ada Lovelace",
        "commit_date": "2020-01-01T12:00:00Z",
        "file_path": "src/net/tcp.py",
        "change_kind": "added",
        "diff_excerpt": "@@ -0,0 +1,2 @@\n+def connect(host):\n+    return retry(host, timeout=3)\n",
        "diff_truncated": False,
        "related_head_symbols": ("connect",),
        "recency_weight": pytest.approx(0.05 * 2.718281828 ** (-100 / 90), abs=1e-6),
        "combined_score": pytest.approx(2 / 61, abs=1e-6),
        "matched": None,
        "weak": None,
        "provenance": "INFERRED",
    }
    assert list(PatternHit.__dataclass_fields__) == [
        "commit_sha", "commit_message", "commit_author", "commit_date", "file_path", "change_kind", "diff_excerpt",
        "diff_truncated", "related_head_symbols", "similarity", "recency_weight", "combined_score", "matched", "weak",
        "provenance",
    ]  # fmt: skip


def test_reranked_hit_fields(repo: Repo, home: Path) -> None:
    """A reranked hit's score is a probability raised by recency, and it says what was found where."""
    index(repo, home)
    hit = ask(repo, home, "how did we add a timeout to connect", k=1).hits[0]
    assert hit.commit_message == "Add a timeout to connect"
    assert WEAK < hit.combined_score / (1 + hit.recency_weight) < 1
    assert hit.matched == "message: connect, add, timeout; symbols: connect; change: connect, timeout"
    assert hit.weak is False


def test_recency_decides_between_equals(tmp_path: Path, home: Path) -> None:
    """Of two commits that answer alike the newer one leads, by no more than its recency."""
    repo = Repo.create(tmp_path / "repo")
    repo.write("old/retry.py", "def retry(): pass\n")
    repo.commit("Retry the call", date=FIRST_DATE)
    repo.write("new/retry.py", "def retry(): pass\n")
    repo.commit("Retry the call", date=FIRST_DATE + timedelta(days=90))
    index(repo, home)
    newer, older = ask(repo, home, "retry the call", now=FIRST_DATE + timedelta(days=90)).hits
    assert (newer.file_path, older.file_path) == ("new/retry.py", "old/retry.py")
    plain = [hit.combined_score / (1 + hit.recency_weight) for hit in (newer, older)]
    assert plain[0] == pytest.approx(plain[1], abs=1e-6)
    assert newer.combined_score > older.combined_score


def test_one_hit_per_commit(tmp_path: Path, home: Path) -> None:
    """A commit that changes many files is one hit, shown by its best hunk, and k counts commits."""
    repo = Repo.create(tmp_path / "repo")
    for number in range(8):
        repo.write(f"{number}.py", "timeout\n" * (number + 1))
    repo.commit("Many files")
    repo.commit_file("other.py", "timeout\n")
    index(repo, home)
    assert len(ask(repo, home, k=5).hits) == 2


def test_the_hunk_that_is_shown(tmp_path: Path, home: Path) -> None:
    """A commit is shown by its code, with all that is said of that, where nothing else is asked for."""
    repo = Repo.create(tmp_path / "repo")
    repo.write("src/net.py", "def connect(host):\n    return open(host, port, timeout=3)\n")
    repo.write("tests/test_net.py", "def test_connect_timeout():\n    assert connect(host).timeout\n")
    repo.commit("Wait for the host")
    index(repo, home)

    def first(text: str, **options: object) -> PatternHit:
        return ask(repo, home, text, **options).hits[0]  # type: ignore[arg-type]

    test, code = first("connect timeout", path="tests/"), first("connect timeout", path="src/")
    shown = first("connect timeout")
    assert test.combined_score > code.combined_score and test.similarity != code.similarity
    assert shown == replace(code, combined_score=test.combined_score)
    assert shown.matched == "symbols: connect; change: connect, timeout"
    assert first("connect timeout", rerank=False).file_path == "tests/test_net.py"
    assert first("tests of connect timeout").file_path == "tests/test_net.py"
    assert first("connect timeout in tests/").file_path == "tests/test_net.py"


@pytest.mark.parametrize(("k", "hits"), [(-3, 1), (0, 1), (3, 3), (99, 20)])
def test_k_is_clamped(tmp_path: Path, home: Path, k: int, hits: int) -> None:
    """k is taken into 1 to 20."""
    repo = Repo.create(tmp_path / "repo")
    for number in range(22):
        repo.commit_file(f"{number}.py", "timeout\n")
    index(repo, home)
    assert len(ask(repo, home, k=k).hits) == hits


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"language": "rust"}, {"src/app.rs"}),
        ({"language": "RS"}, {"src/app.rs"}),
        ({"since": "75d"}, {"src/pool.py", "tests/test_tcp.py"}),
        ({"since": "2020-01-31"}, {"src/pool.py", "tests/test_tcp.py"}),
        ({"path": "src/"}, {"src/net/tcp.py", "src/app.rs", "src/pool.py"}),
        ({"path": "*.md"}, {"docs/guide.md"}),
        ({"author": "HOPPER"}, {"src/app.rs", "tests/test_tcp.py"}),
        ({"author": "navy.example"}, {"src/app.rs"}),
        ({"language": "python", "author": "ada", "since": "2020-01-02"}, {"src/pool.py"}),
    ],
)
def test_options_filter(repo: Repo, home: Path, options: Options, expected: set[str]) -> None:
    """Each filter keeps exactly the hunks it names, and they narrow together."""
    index(repo, home)
    assert set(paths(ask(repo, home, **options))) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("timeout in rust", {"src/app.rs"}),
        ("timeout in the last 75 days", {"src/pool.py", "tests/test_tcp.py"}),
        ("timeout since 2020-01-31", {"src/pool.py", "tests/test_tcp.py"}),
    ],
)
def test_query_text_filters(repo: Repo, home: Path, text: str, expected: set[str]) -> None:
    """A language or timeframe said in the query filters, and the answer says that it did."""
    index(repo, home)
    answer = ask(repo, home, text)
    assert set(paths(answer)) == expected
    assert "read from the query" in answer.meta.query_profile.explanation


@pytest.fixture
def twins(tmp_path: Path) -> Repo:
    """Two commits with the same words everywhere, in the names of folders too; only the older one touches `send`."""
    repo = Repo.create(tmp_path / "twins")
    repo.write("net/tcp/a.py", "def send():\n    sends()\n")
    repo.commit("Wait for a timeout", date=FIRST_DATE)
    repo.write("tcp/net/a.py", "def sends():\n    send()\n")
    repo.commit("Wait for a timeout", date=FIRST_DATE + timedelta(days=10))
    return repo


@pytest.mark.parametrize("rerank", [True, False])
@pytest.mark.parametrize("path", ["net/tcp/", "net/tcp/a.py"])
def test_query_text_prefers_paths(twins: Repo, home: Path, path: str, rerank: bool) -> None:
    """A path said in the query puts what lies there before its equals, reranked or not, and hides nothing."""
    index(twins, home)
    words = path.replace("/", " ").replace(".", " ")
    plain = ask(twins, home, f"timeout in {words}", rerank=rerank)
    hinted = ask(twins, home, f"timeout in {path}", rerank=rerank)
    assert paths(plain) == ["tcp/net/a.py", "net/tcp/a.py"]
    assert paths(hinted) == ["net/tcp/a.py", "tcp/net/a.py"]


def test_reranked_names_are_meant_literally(twins: Repo, home: Path) -> None:
    """A name in quotes puts the change that touched it before one that has the same words."""
    index(twins, home)
    assert paths(ask(twins, home, "timeout of send")) == ["tcp/net/a.py", "net/tcp/a.py"]
    assert paths(ask(twins, home, "timeout of `send`")) == ["net/tcp/a.py", "tcp/net/a.py"]


def test_ordinary_slashes_are_no_paths(repo: Repo, home: Path) -> None:
    """A path is read from a question only where the history has it, in whole parts."""
    index(repo, home)

    def preferred(text: str) -> bool:
        return "paths preferred" in ask(repo, home, text).meta.query_profile.explanation

    assert preferred("timeout in src/net/tcp.py") and preferred("timeout in net/") and preferred("src/net")
    assert not preferred("HTTP/2 timeout") and not preferred("rc/net/ timeout") and not preferred("net/tcp")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("./src/net/", {"src/net/tcp.py"}),
        ("{root}/src/net/tcp.py", {"src/net/tcp.py"}),
        ("{root}/docs/", {"docs/guide.md"}),
        ("{link}/src/*.rs", {"src/app.rs"}),
    ],
)
def test_paths_as_shells_complete_them(
    repo: Repo, home: Path, tmp_path: Path, path: str, expected: set[str]
) -> None:
    """A path with `./` in front, and one of this machine into the work tree, filter as from the repository's root."""
    index(repo, home)
    (tmp_path / "link").symlink_to(repo.path)
    said = path.format(root=repo.path, link=tmp_path / "link")
    assert set(paths(ask(repo, home, path=said))) == expected


def test_paths_outside_are_refused(repo: Repo, home: Path) -> None:
    """A path that lies outside the work tree is an error with or without an index, not an answer of nothing."""
    for _ in range(2):
        with pytest.raises(BadRequest, match="names nothing inside the repository"):
            ask(repo, home, path=str(home.parent))
        index(repo, home)


def test_query_text_means_quoted_names(tmp_path: Path, home: Path) -> None:
    """A symbol named in quotes lifts the hunk that touched exactly that symbol."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("exact.py", "def send():\n    pass\n\ndef unrelated_thing():\n    pass\n", "One")
    repo.commit_file("near.py", "def send_send_send():\n    pass\n", "Two")
    index(repo, home)

    def symbol_lane(text: str) -> list[str]:
        with database.reading(place_of(home, open_repository(repo.path))) as connection:
            asked = query.parse_query(FindRequest(text), NOW, ANYWHERE)
            return [
                hunk.file_path
                for hunk in retrieval.rank(
                    connection, partial(see, connection, Reach()), asked, WordEncoder()
                ).symbols
            ]

    assert symbol_lane("send") == ["near.py", "exact.py"]
    assert symbol_lane("`send`") == ["exact.py", "near.py"]


def test_configuration_has_no_symbol_lane(repo: Repo, home: Path) -> None:
    """A question of configuration is answered without the symbol-name lane."""
    index(repo, home)
    with database.reading(place_of(home, open_repository(repo.path))) as connection:
        asked = [
            query.parse_query(FindRequest(text), NOW, ANYWHERE) for text in ("connect", "connect settings")
        ]
        rankings = [
            retrieval.rank(connection, partial(see, connection, Reach()), one, WordEncoder()) for one in asked
        ]
    assert [bool(ranking.symbols) for ranking in rankings] == [True, False]
    assert all(ranking.text and ranking.nearest for ranking in rankings)


def test_bug_fixes_weigh_recency_more(repo: Repo, home: Path) -> None:
    """Bug-fix intent raises the recency weight by half; the order of fusion stays where nothing is reranked."""
    index(repo, home)

    def asked(text: str) -> dict[str, float]:
        return {hit.commit_sha: hit.recency_weight for hit in ask(repo, home, text, rerank=False).hits}

    plain, fix = asked("timeout connect"), asked("timeout connect fix")
    assert list(plain) == list(fix) and len(plain) == 5
    assert list(fix.values()) == pytest.approx([1.5 * weight for weight in plain.values()], abs=1e-5)


@pytest.mark.parametrize(
    "text", ["???", "'; DROP TABLE hunks; --", 'tim"eout (*) [', "\\", "NEAR/3 timeout", "x" * 20_000]
)
def test_any_text_is_a_query(repo: Repo, home: Path, text: str) -> None:
    """Punctuation never causes a syntax error: without words the vector lane alone answers."""
    index(repo, home)
    assert len(ask(repo, home, text).hits) == 5


@pytest.mark.parametrize(
    "options",
    [
        {"text": "  "},
        {"since": "soon"},
        {"path": "!"},
        {"path": ".."},
        {"path": "./"},
        {"language": ""},
        {"author": " "},
    ],
)
def test_bad_requests_are_refused(repo: Repo, home: Path, options: Asked) -> None:
    """An empty query and filters that mean nothing are errors, with or without an index."""
    with pytest.raises(BadRequest, match=r"\n  "):
        ask(repo, home, **options)


def test_excerpt_is_cut(tmp_path: Path, home: Path) -> None:
    """A long diff is shown by its first lines and columns, and says that it was cut."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("long.py", "\n".join(f"timeout = {n}" + "x" * 500 for n in range(200)))
    index(repo, home)
    (hit,) = ask(repo, home).hits
    lines = hit.diff_excerpt.split("\n")
    assert (len(lines), max(map(len, lines)), hit.diff_truncated) == (
        EXCERPT_LINES,
        EXCERPT_COLUMNS + 1,
        True,
    )


def test_excerpt_begins_where_the_answer_is(tmp_path: Path, home: Path) -> None:
    """Of a long diff the lines that have the question's words are shown, under a mark; a diff that fits is whole."""
    repo = Repo.create(tmp_path / "repo")
    lines = [f"value_{n} = {n}\n" for n in range(200)]
    repo.commit_file("long.py", "".join([*lines[:150], "timeout = 3\n", *lines[150:]]))
    repo.commit_file("short.py", "".join(lines[: EXCERPT_LINES - 1]))
    index(repo, home)
    hits = {hit.file_path: hit for hit in ask(repo, home, "the timeout", rerank=False).hits}
    shown = hits["long.py"].diff_excerpt.split("\n")
    assert shown[:2] == ["…", "@@ -0,0 +148,38 @@"] and "+timeout = 3" in shown
    assert (len(shown), hits["long.py"].diff_truncated) == (EXCERPT_LINES, True)
    assert hits["short.py"].diff_excerpt.count("\n") == EXCERPT_LINES
    assert not hits["short.py"].diff_truncated


def test_nothing_passes_the_filters(repo: Repo, home: Path) -> None:
    """When the filters leave nothing, the hint repeats them."""
    index(repo, home)
    answer = ask(repo, home, path="nowhere/", author="nobody")
    assert answer.hits == ()
    assert answer.meta.hint == "No indexed change passes the filters: path 'nowhere/', author 'nobody'."


@pytest.mark.parametrize(
    ("language", "more"),
    [
        ("Kotlin", ""),
        ("pyhton", " No language is called so: did you mean 'python'?"),
        ("%", " No language is called so: languages are written like `python` or `py`."),
    ],
)
def test_no_such_language(repo: Repo, home: Path, language: str, more: str) -> None:
    """A language that no file can have is told from one that this history does not have."""
    index(repo, home)
    said = f"No indexed change passes the filters: language {language.lower()!r}.{more}"
    assert ask(repo, home, language=language).meta.hint == said


def test_answers_repeat(repo: Repo, home: Path) -> None:
    """The same question at the same moment has the same answer."""
    index(repo, home)
    assert ask(repo, home, "add timeout") == ask(repo, home, "add timeout")


def test_now_is_utc(repo: Repo, home: Path) -> None:
    """A commit of this moment has the full recency weight, a commit of the future no more."""
    index(repo, home)
    youngest = FIRST_DATE + timedelta(days=40)
    for now in (youngest, youngest - timedelta(days=3)):
        weights = {hit.file_path: hit.recency_weight for hit in ask(repo, home, now=now.astimezone(UTC)).hits}
        assert weights["tests/test_tcp.py"] == 0.05
