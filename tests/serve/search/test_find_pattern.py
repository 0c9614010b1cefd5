"""`find_pattern` over real repositories: hits, filters and hints."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, timedelta
from functools import partial
from pathlib import Path

import pytest

from pipeline.git.repository import open_repository
from serve.api_types import format_rfc3339
from serve.errors import BadRequest
from serve.excerpts import EXCERPT_COLUMNS, EXCERPT_LINES
from serve.find_types import ChangedFile, FindAnswer, FindRequest, PatternHit
from serve.repositories import locate_index
from serve.search import query, retrieval
from serve.search.cache import load_snapshot_with_vectors
from serve.search.find_pattern import MAX_SHOWN_FILES
from serve.search.rerank import WEAK_PROBABILITY
from stores import database
from stores.filters import to_naive_utc
from stores.history import ReachabilityDelta
from tests.repos import FIRST_DATE, Repo
from tests.serve.sample_index import WordEncoder, build_index
from tests.serve.search.helpers import ANY_CONTEXT, NOW, FindArguments, FindOptions, find


def list_paths(answer: FindAnswer) -> list[str]:
    return [hit.file_path for hit in answer.hits]


def test_hit_fields(repo: Repo, home: Path) -> None:
    """A hit has every field of the specification, in its order."""
    build_index(repo, home)
    hit = asdict(find(repo, home, "how did we add a timeout to connect", k=1, rerank=False).hits[0])
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
        "repository": None,
        "author_date": None,
        "files": ({"path": "src/net/tcp.py", "added": 2, "removed": 0},),
        "file_count": 1,
        "references": (),
        "release": None,
        "also": (),
        "reverted_by": None,
        "changelog": (),
        "provenance": "INFERRED",
    }
    assert list(PatternHit.__dataclass_fields__) == [
        "commit_sha", "commit_message", "commit_author", "commit_date", "file_path", "change_kind", "diff_excerpt",
        "diff_truncated", "related_head_symbols", "similarity", "recency_weight", "combined_score", "matched", "weak",
        "repository", "author_date", "files", "file_count", "references", "release", "also", "reverted_by",
        "changelog",
        "provenance",
    ]  # fmt: skip


def test_changelog(tmp_path: Path, home: Path) -> None:
    """A hit has the entries that its commit adds to changelogs, without those that repeat the message."""
    repo = Repo.create(tmp_path / "changelog")
    repo.commit_file(
        "CHANGELOG.md", "# 1.0\n\n- Refuse port zero\n- Accept port one\n", "Accept: refuse port Zero"
    )
    repo.commit_file("CHANGELOG.md", "- Accept a port\n" * 21, "Accept the old lines")
    build_index(repo, home)
    hits = find(repo, home, "accept", rerank=False).hits
    assert {hit.commit_message: hit.changelog for hit in hits} == {
        "Accept: refuse port Zero": ("- Accept port one",),
        "Accept the old lines": (),
    }


def test_files_and_author_date_of_a_hit(tmp_path: Path, home: Path) -> None:
    """A hit lists the files of its commit, its own first, and the author's date if it is another day."""
    repo = Repo.create(tmp_path / "repo")
    for number in range(MAX_SHOWN_FILES + 2):
        repo.write(f"data/{number:02}.txt", "one\ntwo\n")
    repo.write("src/retry.py", "def retry(): pass\n")
    repo.commit("Retry the call", date=FIRST_DATE)
    author_date = (FIRST_DATE - timedelta(days=3)).isoformat()
    repo.git("commit", "--amend", "--no-edit", "--date", author_date, date=FIRST_DATE)
    build_index(repo, home)
    (hit,) = find(repo, home, "how do we retry").hits
    assert hit.file_path == "src/retry.py" and hit.files[0] == ChangedFile("src/retry.py", 1, 0)
    assert hit.files[1] == ChangedFile("data/00.txt", 2, 0)
    assert (len(hit.files), hit.file_count) == (MAX_SHOWN_FILES, MAX_SHOWN_FILES + 3)
    assert hit.author_date == format_rfc3339(to_naive_utc(FIRST_DATE - timedelta(days=3)))


def test_reranked_hit_fields(repo: Repo, home: Path) -> None:
    """The score of a reranked hit is a probability raised by recency, and `matched` lists the words by field."""
    build_index(repo, home)
    hit = find(repo, home, "how did we add a timeout to connect", k=1).hits[0]
    assert hit.commit_message == "Add a timeout to connect"
    assert WEAK_PROBABILITY < hit.combined_score / (1 + hit.recency_weight) < 1
    assert hit.matched == "message: connect, add, timeout; symbols: connect; change: connect, timeout"
    assert hit.weak is False


def test_recency_decides_between_equals(tmp_path: Path, home: Path) -> None:
    """Of two equal commits the newer one leads, by its recency weight only."""
    repo = Repo.create(tmp_path / "repo")
    repo.write("old/retry.py", "def retry(): pass\n")
    repo.commit("Retry the call", date=FIRST_DATE)
    repo.write("new/retry.py", "def retry(): pass\n")
    repo.commit("Retry the call", date=FIRST_DATE + timedelta(days=90))
    build_index(repo, home)
    newer, older = find(repo, home, "retry the call", now=FIRST_DATE + timedelta(days=90)).hits
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
    build_index(repo, home)
    assert len(find(repo, home, k=5).hits) == 2


def test_commit_is_shown_by_its_code(tmp_path: Path, home: Path) -> None:
    """A commit is shown by its hunk of code, with all fields of that hunk, unless the query asks for other files."""
    repo = Repo.create(tmp_path / "repo")
    repo.write("src/net.py", "def connect(host):\n    return open(host, port, timeout=3)\n")
    repo.write("tests/test_net.py", "def test_connect_timeout():\n    assert connect(host).timeout\n")
    repo.commit("Wait for the host")
    build_index(repo, home)

    def find_first(text: str, **options: object) -> PatternHit:
        return find(repo, home, text, **options).hits[0]  # type: ignore[arg-type]

    test, code = find_first("connect timeout", path="tests/"), find_first("connect timeout", path="src/")
    hit = find_first("connect timeout")
    assert test.similarity != code.similarity
    # A filtered search does not count the commit's other files.
    assert hit.combined_score > code.combined_score
    assert hit == replace(code, combined_score=hit.combined_score)
    assert hit.matched == "symbols: connect; change: connect, timeout"
    assert find_first("connect timeout", rerank=False).file_path == "tests/test_net.py"
    assert find_first("tests of connect timeout").file_path == "tests/test_net.py"
    assert find_first("connect timeout in tests/").file_path == "tests/test_net.py"


@pytest.mark.parametrize(("k", "hits"), [(-3, 1), (0, 1), (3, 3), (99, 20)])
def test_k_is_clamped(tmp_path: Path, home: Path, k: int, hits: int) -> None:
    """k is clamped to 1 to 20."""
    repo = Repo.create(tmp_path / "repo")
    for number in range(22):
        repo.commit_file(f"{number}.py", "timeout\n")
    build_index(repo, home)
    assert len(find(repo, home, k=k).hits) == hits


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
def test_options_filter(repo: Repo, home: Path, options: FindOptions, expected: set[str]) -> None:
    """Hits are exactly the hunks that match all filters."""
    build_index(repo, home)
    assert set(list_paths(find(repo, home, **options))) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("timeout in rust", {"src/app.rs"}),
        ("timeout in the last 75 days", {"src/pool.py", "tests/test_tcp.py"}),
        ("timeout since 2020-01-31", {"src/pool.py", "tests/test_tcp.py"}),
    ],
)
def test_query_text_filters(repo: Repo, home: Path, text: str, expected: set[str]) -> None:
    """A language or time range in the query text filters, and the profile says so."""
    build_index(repo, home)
    answer = find(repo, home, text)
    assert set(list_paths(answer)) == expected
    assert "read from the query" in answer.meta.query_profile.explanation


@pytest.fixture
def twin_commits(tmp_path: Path) -> Repo:
    """Two commits with the same words in text and path; only the older one touches the symbol `send`."""
    repo = Repo.create(tmp_path / "twins")
    repo.write("net/tcp/a.py", "def send():\n    sends()\n")
    repo.commit("Wait for a timeout", date=FIRST_DATE)
    repo.write("tcp/net/a.py", "def sends():\n    send()\n")
    repo.commit("Wait for a timeout", date=FIRST_DATE + timedelta(days=10))
    return repo


@pytest.mark.parametrize("rerank", [True, False])
@pytest.mark.parametrize("path", ["net/tcp/", "net/tcp/a.py"])
def test_query_text_prefers_paths(twin_commits: Repo, home: Path, path: str, rerank: bool) -> None:
    """A path in the query text puts its hunks before equal ones, with or without reranking, and filters nothing."""
    build_index(twin_commits, home)
    words = path.replace("/", " ").replace(".", " ")
    plain = find(twin_commits, home, f"timeout in {words}", rerank=rerank)
    hinted = find(twin_commits, home, f"timeout in {path}", rerank=rerank)
    assert list_paths(plain) == ["tcp/net/a.py", "net/tcp/a.py"]
    assert list_paths(hinted) == ["net/tcp/a.py", "tcp/net/a.py"]


def test_quoted_name_boosts_its_change(twin_commits: Repo, home: Path) -> None:
    """A quoted name puts the change that touched it before one with the same words."""
    build_index(twin_commits, home)
    assert list_paths(find(twin_commits, home, "timeout of send")) == ["tcp/net/a.py", "net/tcp/a.py"]
    assert list_paths(find(twin_commits, home, "timeout of `send`")) == ["net/tcp/a.py", "tcp/net/a.py"]


@pytest.mark.parametrize(
    ("suffix", "class_source"),
    [
        ("py", "class {name}:\n    def {method}(self):\n        pass\n"),
        ("rs", "impl {name} {{\n    fn {method}(&self) {{}}\n}}\n"),
        ("rs", "impl Grow for {name} {{\n    fn {method}(&self) {{}}\n}}\n"),
        ("java", "class {name} {{\n  void {method}() {{}}\n}}\n"),
        ("kt", "class {name} {{\n  fun {method}() {{\n  }}\n}}\n"),
        ("ts", "class {name} {{\n  {method}() {{}}\n}}\n"),
        ("js", "class {name} {{\n  {method}() {{}}\n}}\n"),
    ],
)
def test_qualified_name_prefers_its_class(tmp_path: Path, home: Path, suffix: str, class_source: str) -> None:
    """Of two changes with the same words, the one of the method in the quoted class comes first."""
    repo = Repo.create(tmp_path / "repo")
    methods = {"net/tcp/a": ("extend", "shrink"), "tcp/net/a": ("shrink", "extend")}
    for path, (first, second) in methods.items():
        event = class_source.format(name="Event", method=first)
        repo.write(f"{path}.{suffix}", event + class_source.format(name="Listing", method=second))
        repo.commit("Resize")
    build_index(repo, home)
    for name, expected in zip(("Event", "Listing"), methods, strict=True):
        answer = find(repo, home, f"why does `{name}.extend` resize")
        assert list_paths(answer)[0] == f"{expected}.{suffix}"
        assert f"names meant literally: {name}.extend" in answer.meta.query_profile.explanation


def test_only_paths_of_the_history_are_hints(repo: Repo, home: Path) -> None:
    """A path in the query text is a hint only if the history has it, as complete components."""
    build_index(repo, home)

    def has_preferred_path(text: str) -> bool:
        return "paths preferred" in find(repo, home, text).meta.query_profile.explanation

    assert (
        has_preferred_path("timeout in src/net/tcp.py")
        and has_preferred_path("timeout in net/")
        and has_preferred_path("src/net")
    )
    assert (
        not has_preferred_path("HTTP/2 timeout")
        and not has_preferred_path("rc/net/ timeout")
        and not has_preferred_path("net/tcp")
    )


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("./src/net/", {"src/net/tcp.py"}),
        ("{root}/src/net/tcp.py", {"src/net/tcp.py"}),
        ("{root}/docs/", {"docs/guide.md"}),
        ("{link}/src/*.rs", {"src/app.rs"}),
    ],
)
def test_shell_completed_paths(repo: Repo, home: Path, tmp_path: Path, path: str, expected: set[str]) -> None:
    """A path with a leading `./` and an absolute path into the work tree filter relative to the root."""
    build_index(repo, home)
    (tmp_path / "link").symlink_to(repo.path)
    pattern = path.format(root=repo.path, link=tmp_path / "link")
    assert set(list_paths(find(repo, home, path=pattern))) == expected


def test_paths_outside_are_rejected(repo: Repo, home: Path) -> None:
    """A path outside the work tree is an error, with or without an index."""
    for _ in range(2):
        with pytest.raises(BadRequest, match="names nothing inside the repository"):
            find(repo, home, path=str(home.parent))
        build_index(repo, home)


@pytest.mark.parametrize(
    ("subject", "is_found"),
    [("Prevent an open redirect", True), ("Open redirects fixed", True), ("Prevent redirects", False)],
)
def test_subject_with_all_words(tmp_path: Path, home: Path, subject: str, is_found: bool) -> None:
    """A commit whose subject has all words of the query, apart from verbs of change, is found despite a long diff."""
    repo = Repo.create(tmp_path / "repo")
    for number in range(120):
        repo.write(f"{number}.py", "prevent = open(redirect)\n" * (number % 5 + 1))
    repo.commit("Many files")
    lines = "".join(f"value{number} = {number}\n" for number in range(300))
    target = repo.commit_file("long.py", lines, f"{subject}\n\nOpen it later.")
    build_index(repo, home)
    for rerank in (True, False):
        hits = find(repo, home, "how did we prevent open redirects?", rerank=rerank).hits
        assert (target in [hit.commit_sha for hit in hits]) == is_found
    assert [hit.file_path for hit in find(repo, home, "prevent open redirects", path="0.py").hits] == ["0.py"]


def test_subject_with_verbs_only(tmp_path: Path, home: Path) -> None:
    """All words of a query that has only verbs of change count, as some are nouns: "update support"."""
    repo = Repo.create(tmp_path / "repo")
    for number in range(120):
        repo.write(f"{number}.py", "update = support\n" * (number % 5 + 1))
    repo.commit("Many files")
    lines = "".join(f"value{number} = {number}\n" for number in range(300))
    target = repo.commit_file("long.py", lines, "Support the update")
    build_index(repo, home)
    assert target in [hit.commit_sha for hit in find(repo, home, "update support").hits]


def test_symbol_lane_prefers_quoted_names(tmp_path: Path, home: Path) -> None:
    """The symbol lane puts the hunk that touched a quoted symbol first."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("exact.py", "def send():\n    pass\n\ndef unrelated_thing():\n    pass\n", "One")
    repo.commit_file("near.py", "def send_send_send():\n    pass\n", "Two")
    build_index(repo, home)

    def list_symbol_lane(text: str) -> list[str]:
        with database.open_for_reading(locate_index(home, open_repository(repo.path))) as connection:
            parsed = query.parse_query(FindRequest(text), NOW, ANY_CONTEXT)
            return [
                hunk.file_path
                for hunk in retrieval.run_retrievers(
                    connection,
                    partial(load_snapshot_with_vectors, connection, ReachabilityDelta()),
                    parsed,
                    WordEncoder(),
                ).symbol_lane
            ]

    assert list_symbol_lane("send") == ["near.py", "exact.py"]
    assert list_symbol_lane("`send`") == ["exact.py", "near.py"]


def test_configuration_has_no_symbol_lane(repo: Repo, home: Path) -> None:
    """A configuration question runs without the symbol-name lane."""
    build_index(repo, home)
    with database.open_for_reading(locate_index(home, open_repository(repo.path))) as connection:
        queries = [
            query.parse_query(FindRequest(text), NOW, ANY_CONTEXT) for text in ("connect", "connect settings")
        ]
        results = [
            retrieval.run_retrievers(
                connection,
                partial(load_snapshot_with_vectors, connection, ReachabilityDelta()),
                parsed,
                WordEncoder(),
            )
            for parsed in queries
        ]
    assert [bool(result.symbol_lane) for result in results] == [True, False]
    assert all(result.hunk_text_lane and result.vector_lane for result in results)


def test_bug_fixes_weigh_recency_more(repo: Repo, home: Path) -> None:
    """Bug-fix intent raises the recency weight by half; without reranking the order stays."""
    build_index(repo, home)

    def list_recency_weights(text: str) -> dict[str, float]:
        return {hit.commit_sha: hit.recency_weight for hit in find(repo, home, text, rerank=False).hits}

    plain, fix = list_recency_weights("timeout connect"), list_recency_weights("timeout connect fix")
    assert list(plain) == list(fix) and len(plain) == 5
    assert list(fix.values()) == pytest.approx([1.5 * weight for weight in plain.values()], abs=1e-5)


@pytest.mark.parametrize(
    "text", ["???", "'; DROP TABLE hunks; --", 'tim"eout (*) [', "\\", "NEAR/3 timeout", "x" * 20_000]
)
def test_any_text_is_a_query(repo: Repo, home: Path, text: str) -> None:
    """Punctuation never causes a syntax error: without words only the vector lane answers."""
    build_index(repo, home)
    assert len(find(repo, home, text).hits) == 5


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
def test_invalid_requests_are_rejected(repo: Repo, home: Path, options: FindArguments) -> None:
    """An empty query and invalid filters are errors."""
    with pytest.raises(BadRequest, match=r"\n  "):
        find(repo, home, **options)


def test_long_excerpt_is_truncated(tmp_path: Path, home: Path) -> None:
    """The excerpt of a long diff has its first lines and columns, and is marked as truncated."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("long.py", "\n".join(f"timeout = {n}" + "x" * 500 for n in range(200)))
    build_index(repo, home)
    (hit,) = find(repo, home).hits
    lines = (hit.diff_excerpt or "").split("\n")
    assert (len(lines), max(map(len, lines)), hit.diff_truncated) == (
        EXCERPT_LINES,
        EXCERPT_COLUMNS + 1,
        True,
    )


def test_excerpt_shows_the_matching_lines(tmp_path: Path, home: Path) -> None:
    """The excerpt of a long diff has the lines with the query's words, below a mark; a short diff is complete."""
    repo = Repo.create(tmp_path / "repo")
    lines = [f"value_{n} = {n}\n" for n in range(200)]
    repo.commit_file("long.py", "".join([*lines[:150], "timeout = 3\n", *lines[150:]]))
    repo.commit_file("short.py", "".join(lines[: EXCERPT_LINES - 1]))
    build_index(repo, home)
    hits = {hit.file_path: hit for hit in find(repo, home, "the timeout", rerank=False).hits}
    lines = (hits["long.py"].diff_excerpt or "").split("\n")
    assert lines[:2] == ["…", "@@ -0,0 +148,38 @@"] and "+timeout = 3" in lines
    assert (len(lines), hits["long.py"].diff_truncated) == (EXCERPT_LINES, True)
    assert (hits["short.py"].diff_excerpt or "").count("\n") == EXCERPT_LINES
    assert not hits["short.py"].diff_truncated


def test_filters_without_matches(repo: Repo, home: Path) -> None:
    """If nothing passes the filters, the hint lists them."""
    build_index(repo, home)
    answer = find(repo, home, path="nowhere/", author="nobody")
    assert answer.hits == ()
    assert answer.meta.hint == "No indexed change passes the filters: path 'nowhere/', author 'nobody'."


@pytest.mark.parametrize(
    ("language", "suggestion"),
    [
        ("Kotlin", ""),
        ("pyhton", " This language is unknown: did you mean 'python'?"),
        ("%", " This language is unknown: languages are written like `python` or `py`."),
    ],
)
def test_unknown_language(repo: Repo, home: Path, language: str, suggestion: str) -> None:
    """The hint says if a language is unknown, and suggests a similar one."""
    build_index(repo, home)
    expected = f"No indexed change passes the filters: language {language.lower()!r}.{suggestion}"
    assert find(repo, home, language=language).meta.hint == expected


def test_answers_repeat(repo: Repo, home: Path) -> None:
    """The same request at the same time has the same answer."""
    build_index(repo, home)
    assert find(repo, home, "add timeout") == find(repo, home, "add timeout")


def test_recency_weight_of_new_commits(repo: Repo, home: Path) -> None:
    """A commit dated now or later has the full recency weight."""
    build_index(repo, home)
    youngest = FIRST_DATE + timedelta(days=40)
    for now in (youngest, youngest - timedelta(days=3)):
        weights = {
            hit.file_path: hit.recency_weight for hit in find(repo, home, now=now.astimezone(UTC)).hits
        }
        assert weights["tests/test_tcp.py"] == 0.05
