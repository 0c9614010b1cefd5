"""Answers are cached exactly as long as nothing they depend on changes."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.git.errors import DamagedRepository
from serve.explain import explain_change
from serve.explain.cache import BoundedCache, ExplainContext
from serve.explain.explain_change import Explainer
from serve.explain_types import ExplainAnswer, ExplainRequest
from tests.repos import Repo
from tests.serve.sample_index import build_index

LINES = "".join(f"{n}\n" for n in range(1, 10))
REQUEST = ExplainRequest("a.py", 2, 4)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", LINES, "Write")
    repo.commit_file("a.py", LINES.replace("3", "three"), "Spell")
    repo.commit_file("b.py", LINES, "Copy")
    return repo


@pytest.fixture
def computed_contexts(monkeypatch: pytest.MonkeyPatch) -> list[ExplainContext]:
    """Return a list of the contexts that answers are computed for."""
    contexts: list[ExplainContext] = []
    compute = explain_change.compute_answer

    def record(context: ExplainContext) -> ExplainAnswer:
        contexts.append(context)
        return compute(context)

    monkeypatch.setattr(explain_change, "compute_answer", record)
    return contexts


OTHER_REQUESTS = [
    replace(REQUEST, line_start=1),
    replace(REQUEST, line_end=5),
    replace(REQUEST, line_end=0),
    replace(REQUEST, file="b.py"),
    replace(REQUEST, k=1),
    replace(REQUEST, include_diff=False),
    replace(REQUEST, include_related=True),
    replace(REQUEST, ignore_whitespace=True),
    replace(REQUEST, follow_moves=True),
    replace(REQUEST, include_evolution=True),
]


def test_repeated_request_is_cached(repo: Repo, home: Path, computed_contexts: list[ExplainContext]) -> None:
    """A repeated request has the same answer, which is not computed again."""
    explainer = Explainer(home)
    first = [explainer.explain(request, repo.path) for request in (REQUEST, *OTHER_REQUESTS)]
    again = [explainer.explain(request, repo.path / ".git" / "..") for request in (REQUEST, *OTHER_REQUESTS)]
    assert first == again
    assert len(computed_contexts) == 1 + len(OTHER_REQUESTS)


def test_every_range_has_its_own_answer(repo: Repo, home: Path) -> None:
    """For every range, a cached answer equals one of a new explainer."""
    explainer = Explainer(home)
    ranges = [ExplainRequest("a.py", start, end) for start in range(1, 10) for end in range(start, 10)]
    cached = [explainer.explain(request, repo.path) for request in ranges]
    assert cached == [Explainer(home).explain(request, repo.path) for request in reversed(ranges)][::-1]
    assert cached == [explainer.explain(request, repo.path) for request in ranges]


def _write(name: str, content: str) -> Callable[[Repo], object]:
    return lambda repo: repo.write(name, content)


def _run_git(*arguments: str) -> Callable[[Repo], object]:
    return lambda repo: repo.git(*arguments)


CHANGES: dict[str, Callable[[Repo], object]] = {
    "the file's content": _write("a.py", LINES.replace("3", "THREE")),
    "HEAD": _run_git("commit", "--quiet", "--allow-empty", "-m", "Nothing"),
    "a commit amended": _run_git("commit", "--quiet", "--amend", "-m", "Other words"),
    "names of authors": _write(".mailmap", "Countess <ada@example.org>\n"),
    "commits to ignore": lambda repo: repo.write(".git-blame-ignore-revs", repo.git("rev-parse", "HEAD~1")),
    "the configuration": _run_git("config", "core.autocrlf", "input"),
    "attributes": _write(".gitattributes", "*.py text eol=crlf\n"),
    "this clone's attributes": _write(".git/info/attributes", "*.py -diff\n"),
    "what is staged": _run_git("rm", "--quiet", "--cached", "b.py"),
    "an index": lambda repo: build_index(repo, repo.path.parent / "lineage-home"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_invalidate_the_cache(
    repo: Repo, home: Path, computed_contexts: list[ExplainContext], change: str
) -> None:
    """If anything that an answer depends on changes, it is computed again and equals one of a new explainer."""
    explainer = Explainer(home)
    explainer.explain(REQUEST, repo.path)
    CHANGES[change](repo)
    answer = explainer.explain(REQUEST, repo.path)
    assert len(computed_contexts) == 2
    assert answer == Explainer(home).explain(REQUEST, repo.path)


ADA_OR_EVE = [f"{name} <ada@example.org>\n" for name in ("Ada", "Eve")]
TEXT_OR_DIFF = ["*.py text\n", "*.py diff\n"]
# Two contents of the same length of each file that an answer depends on.
FILES: dict[str, list[str]] = {
    ".mailmap": ADA_OR_EVE,
    "names": ADA_OR_EVE,  # mailmap.file
    "attributes": TEXT_OR_DIFF,  # core.attributesFile
    ".gitattributes": TEXT_OR_DIFF,
    "src/.gitattributes": TEXT_OR_DIFF,
    "src/deep/.gitattributes": TEXT_OR_DIFF,
    ".git/info/attributes": TEXT_OR_DIFF,
    ".git/MERGE_HEAD": ["HEAD", "HEAD~1"],
    ".git-blame-ignore-revs": ["HEAD", "HEAD~1"],
    "skipped": ["HEAD", "HEAD~1"],  # blame.ignoreRevsFile
    "src/deep/a.py": [LINES, LINES.replace("3", "4")],
}


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_compared_by_its_content(
    repo: Repo, home: Path, computed_contexts: list[ExplainContext], name: str
) -> None:
    """A file counts by its content: two versions can have the same size, inode and time."""
    repo.commit_file("src/deep/a.py", LINES, "Write")
    repo.commit_file("src/deep/a.py", LINES.replace("3", "three"), "Spell")
    settings = {"mailmap.file": "names", "core.attributesFile": f"{repo.path}/attributes"}
    for setting, value in (settings | {"blame.ignoreRevsFile": "skipped"}).items():
        repo.git("config", setting, value)
    repo.write("skipped", "")
    contents = [
        f"{repo.git('rev-parse', content)}\n" if content.startswith("HEAD") else content
        for content in FILES[name]
    ]
    file = repo.write(name, contents[0])
    before = file.stat()
    explainer, request = Explainer(home), replace(REQUEST, file="src/deep/a.py")
    answers = [explainer.explain(request, repo.path) for _ in range(2)]
    assert len(computed_contexts) == 1
    file.write_text(contents[1])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    answers += [explainer.explain(request, repo.path) for _ in range(2)]
    assert len(computed_contexts) == 2
    assert answers[2:] == [Explainer(home).explain(request, repo.path)] * 2


def test_staging_within_one_tick_of_the_clock(
    repo: Repo, home: Path, computed_contexts: list[ExplainContext]
) -> None:
    """git's index counts by the digest at its end: two versions can have the same size, inode and time."""
    repo.write("c.py", LINES)
    contents = [write_index(repo, "a.py", name) for name in ("b.py", "c.py")]
    index_file = repo.path / ".git/index"
    explainer, request = Explainer(home), replace(REQUEST, file="c.py")
    answers = []
    for content in contents:
        with index_file.open("r+b") as file:
            file.write(content)
        os.utime(index_file, ns=(0, 0))
        answers += [explainer.explain(request, repo.path) for _ in range(2)]
    assert len(computed_contexts) == 2
    assert ["git does not track it" in str(answer.meta.explain.limitation) for answer in answers] == [
        True,
        True,
        False,
        False,
    ]


def write_index(repo: Repo, *names: str) -> bytes:
    """Write an index with these files, without times, and return it. They have the content of `a.py`."""
    blob = repo.git("rev-parse", "HEAD:a.py")
    repo.git("read-tree", "--empty")
    lines = "".join(f"100644 {blob}\t{name}\n" for name in names)
    repo.git("update-index", "--index-info", stdin=lines.encode())
    return (repo.path / ".git/index").read_bytes()


def test_index_without_a_digest(repo: Repo, home: Path, computed_contexts: list[ExplainContext]) -> None:
    """With git's setting index.skipHash, which leaves out the digest, the index counts by size, inode and time."""
    contents = [write_index(repo, *names)[:-20] + bytes(20) for names in (["a.py"], ["a.py", "b.py"])]
    explainer = Explainer(home)
    for content in contents:
        (repo.path / ".git/index").write_bytes(content)
        explainer.explain(REQUEST, repo.path)
    assert len(computed_contexts) == 2


@pytest.mark.parametrize(
    "name", [".gitattributes", "src/.gitattributes", ".mailmap", ".git/info/attributes", ".git/MERGE_HEAD"]
)
def test_pipe_in_place_of_a_file_of_git(repo: Repo, home: Path, name: str) -> None:
    """git would wait forever for a pipe in place of a file that it reads, so it is not started."""
    repo.commit_file("src/a.py", LINES)
    os.mkfifo(repo.path / name)
    with pytest.raises(DamagedRepository, match=f"{re.escape(str(repo.path / name))} is no regular file"):
        Explainer(home).explain(replace(REQUEST, file="src/a.py"), repo.path)


@pytest.mark.parametrize("setting", ["blame.ignoreRevsFile", "core.attributesFile", "mailmap.file"])
def test_pipe_in_a_setting(repo: Repo, home: Path, setting: str) -> None:
    """A pipe that a setting names is not opened, neither by git nor by libgit2."""
    pipe = repo.path / ".git" / "pipe"
    os.mkfifo(pipe)
    repo.git("config", setting, str(pipe))
    with pytest.raises(DamagedRepository, match=f"{re.escape(str(pipe))} is no regular file"):
        Explainer(home).explain(REQUEST, repo.path)


def test_pipe_in_place_of_the_excludes_file(repo: Repo, home: Path) -> None:
    """git blame reads the user's ignore patterns, too: a pipe is an error that names it."""
    os.mkfifo(repo.path / ".git/pipe")
    repo.git("config", "core.excludesFile", ".git/pipe")
    with pytest.raises(DamagedRepository, match=r"\.git/pipe is no regular file"):
        Explainer(home).explain(REQUEST, repo.path)


def test_null_device_in_place_of_a_file_of_git(repo: Repo, home: Path) -> None:
    """A setting that names the null device, as some users disable it, does not prevent a blame."""
    repo.git("config", "blame.ignoreRevsFile", os.devnull)
    repo.git("config", "core.attributesFile", os.devnull)
    repo.git("config", "mailmap.file", os.devnull)
    (repo.path / ".gitattributes").symlink_to(os.devnull)
    assert len(Explainer(home).explain(REQUEST, repo.path).hits) == 2


def test_index_run_invalidates_the_cache(
    repo: Repo, home: Path, computed_contexts: list[ExplainContext]
) -> None:
    """The key contains the state of the index."""
    build_index(repo, home, revision="HEAD~1")
    explainer = Explainer(home)
    assert explainer.explain(REQUEST, repo.path).meta.index_status.commits_behind_head == 1
    build_index(repo, home)
    assert explainer.explain(REQUEST, repo.path).meta.index_status.commits_behind_head == 0
    assert len(computed_contexts) == 2


def test_unshallowing_invalidates_the_cache(repo: Repo, home: Path, tmp_path: Path) -> None:
    """The key contains the boundary of a shallow clone."""
    shallow = repo.clone(tmp_path / "shallow", "--depth=1")
    explainer = Explainer(home)
    assert "shallow clone" in (explainer.explain(REQUEST, shallow.path).meta.explain.limitation or "")
    shallow.git("fetch", "--quiet", "--unshallow")
    assert explainer.explain(REQUEST, shallow.path).meta.explain.limitation is None


def test_answers_of_a_changing_file_are_not_cached(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer during which the file changed is returned but not cached."""
    compute = explain_change.compute_answer

    def change_file(context: ExplainContext) -> ExplainAnswer:
        repo.write("a.py", "meanwhile\n" + LINES)
        return compute(context)

    explainer = Explainer(home)
    monkeypatch.setattr(explain_change, "compute_answer", change_file)
    explainer.explain(REQUEST, repo.path)
    monkeypatch.setattr(explain_change, "compute_answer", compute)
    repo.write("a.py", LINES.replace("3", "three"))
    assert explainer.explain(REQUEST, repo.path) == Explainer(home).explain(REQUEST, repo.path)


def test_number_of_entries_is_limited() -> None:
    """Above the limit, the least recently used entry is evicted."""
    cache: BoundedCache[int] = BoundedCache(max_entries=2)
    for number, key in enumerate((b"a", b"b")):
        cache.put(key, number)
    assert cache.get(b"a") == 0
    cache.put(b"c", 2)
    assert [cache.get(key) for key in (b"a", b"b", b"c")] == [0, None, 2]


def test_size_of_entries_is_limited() -> None:
    """Entries above the total size are evicted, and an entry that is too large is not cached."""
    cache: BoundedCache[int] = BoundedCache(max_bytes=10)
    for number, key in enumerate((b"a", b"b", b"c")):
        cache.put(key, number, size_bytes=4)
    assert [cache.get(key) for key in (b"a", b"b", b"c")] == [None, 1, 2]
    cache.put(b"d", 3, size_bytes=11)
    assert cache.get(b"d") is None


def test_cached_answer_starts_no_program(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checking that nothing changed starts no process."""
    explainer = Explainer(home)
    first = explainer.explain(REQUEST, repo.path)
    monkeypatch.setattr(subprocess, "Popen", None)
    assert explainer.explain(REQUEST, repo.path) == first
