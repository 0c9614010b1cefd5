"""Data that the index adds to an explanation, and the text that says what is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.git.git_cli import GitOutput, GitProgram
from pipeline.git.repository import UnreadableObject, open_repository
from pipeline.walk import HISTORY_ARGUMENTS
from serve.explain import file_history
from serve.explain.explain_change import Explainer
from serve.explain_types import ExplainAnswer, ExplainRequest
from serve.mcp.answer_text import format_explain_answer
from serve.repositories import find_index, locate_index
from stores import database, index_copy, locks
from stores.index_location import IndexLocation
from stores.locks import Deadline
from tests.repos import Repo
from tests.serve.explain.helpers import explain, list_hit_commits
from tests.serve.sample_index import build_index


def make_text(line_count: int, changed_line: int | None = None) -> str:
    return "".join(f"line {n}{' changed' if n == changed_line else ''}\n" for n in range(1, line_count + 1))


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A file that ten commits change, one line each, with commits to another file in between."""
    repo = Repo.create(tmp_path / "repo")
    for number in range(1, 11):
        repo.commit_file("a.py", make_text(number), f"Commit {number}")
        repo.commit_file("b.py", f"{number}\n", f"Aside {number}")
    return repo


def list_related_subjects(answer: ExplainAnswer) -> list[str]:
    return [commit.commit_message for commit in answer.meta.explain.related_commits]


def locate(repo: Repo, home: Path) -> IndexLocation:
    return locate_index(home, open_repository(repo.path))


def test_related_commits(repo: Repo, home: Path) -> None:
    """Related commits are the two before and two after each hit in the file's history, newest first."""
    build_index(repo, home)
    answer = explain(repo, home, "a.py", 5, 6, include_related=True)
    assert [hit.commit_message for hit in answer.hits] == ["Commit 6", "Commit 5"]
    assert list_related_subjects(answer) == ["Commit 8", "Commit 7", "Commit 4", "Commit 3"]
    assert {commit.provenance for commit in answer.meta.explain.related_commits} == {"INFERRED"}
    assert answer.meta.explain.blame_coverage == 1.0
    assert answer.meta.explain.enrichment_limitation is None
    assert answer.meta.hint is None


def test_shared_related_commits_appear_once(repo: Repo, home: Path) -> None:
    """Related commits that two hits share appear once; at the ends of the history there are fewer."""
    build_index(repo, home)
    assert list_related_subjects(explain(repo, home, "a.py", 1, 1, include_related=True)) == [
        "Commit 3",
        "Commit 2",
    ]
    repo.write("a.py", "line 1\nline 3\nline 5\n")
    answer = explain(repo, home, "a.py", include_related=True)
    assert list_related_subjects(answer) == ["Commit 7", "Commit 6", "Commit 4", "Commit 2"]


def test_related_commits_are_optional(repo: Repo, home: Path) -> None:
    """Without `include_related` there are no related commits."""
    build_index(repo, home)
    assert list_related_subjects(explain(repo, home, "a.py")) == []


def test_touched_hunks(repo: Repo, home: Path) -> None:
    """`touched_hunks` is the number of `@@` sections of the commit's change to the file."""
    repo.commit_file("a.py", make_text(40), "Grow")
    repo.commit_file(
        "a.py", make_text(40).replace("line 3\n", "@@ 3\n").replace("line 30\n", "@@ 30\n"), "Two places"
    )
    repo.commit_file("a.py", make_text(40).replace("line 3\n", "@@ 3\n"), "One back")
    build_index(repo, home)
    answer = explain(repo, home, "a.py", 30, 30, include_related=True)
    assert [hit.commit_message for hit in answer.hits] == ["One back"]
    assert [(c.commit_message, c.touched_hunks) for c in answer.meta.explain.related_commits] == [
        ("Two places", 2),
        ("Grow", 1),
    ]


def test_touched_hunks_of_a_rename_and_a_merge(repo: Repo, home: Path) -> None:
    """A renamed file is compared with its old path. Of a merge, only the sections count that it changed itself."""

    def make_version(**texts: str) -> str:
        return "".join(f"{texts.get(f'line_{number}', number)}\n" for number in range(60))

    repo.commit_file("a.py", make_version(), "Grow")
    repo.rename("a.py", "c.py")
    repo.commit_file("c.py", make_version(line_20="new"), "Rename")
    repo.branch("side")
    repo.commit_file("c.py", make_version(line_20="new", line_30="theirs", line_3="theirs"), "Theirs")
    repo.switch("main")
    repo.commit_file("c.py", make_version(line_20="new", line_30="ours", line_50="ours"), "Ours")
    resolution = make_version(line_20="new", line_30="both", line_3="theirs", line_50="ours")
    repo.merge("side", resolution={"c.py": resolution})
    build_index(repo, home)
    answer = explain(repo, home, "c.py", 21, 21, include_related=True)
    assert [hit.commit_message for hit in answer.hits] == ["Rename"]
    touched_hunks = {c.commit_message: c.touched_hunks for c in answer.meta.explain.related_commits}
    assert touched_hunks == {"Ours": 2, "Theirs": 2, "Grow": 1, "Commit 10": 1}
    answer = explain(repo, home, "c.py", 51, 51, include_related=True)
    assert [(c.commit_message, c.touched_hunks) for c in answer.meta.explain.related_commits] == [
        ("Merge", 1),
        ("Theirs", 2),
        ("Rename", 1),
    ]


def test_touched_hunks_without_objects(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If git has no content of the file, the sections of the stored diff count."""
    build_index(repo, home)
    answer = explain(repo, home, "a.py", 10, 10, include_related=True)

    def fail(*_: object) -> None:
        raise UnreadableObject("", "missing")

    monkeypatch.setattr(file_history, "diff_versions", fail)
    assert explain(repo, home, "a.py", 10, 10, include_related=True).meta == answer.meta


def test_related_commits_before_a_rename(repo: Repo, home: Path) -> None:
    """The history of a renamed file includes its former names, but not another file that later took one of them."""
    repo.rename("a.py", "lib/c.py")
    repo.commit("Move")
    repo.commit_file("a.py", "another\n", "Take the name")
    repo.commit_file("lib/c.py", make_text(10, changed_line=9), "Change after the move")
    build_index(repo, home)
    answer = explain(repo, home, "lib/c.py", 10, 10, include_related=True)
    assert [hit.commit_message for hit in answer.hits] == ["Commit 10"]
    assert list_related_subjects(answer) == ["Change after the move", "Move", "Commit 9", "Commit 8"]


def test_unreachable_commits_are_not_related(repo: Repo, home: Path) -> None:
    """Commits that HEAD does not reach are not related."""
    repo.branch("side")
    repo.commit_file("a.py", make_text(10, changed_line=1), "Side")
    build_index(repo, home)
    repo.switch("main")
    assert list_related_subjects(explain(repo, home, "a.py", 10, 10, include_related=True)) == [
        "Commit 9",
        "Commit 8",
    ]


def test_stale_index(repo: Repo, home: Path) -> None:
    """Lines of commits that are not indexed lower the coverage; limitation and hint say so, the text only once."""
    build_index(repo, home, revision="HEAD~8")
    answer = explain(repo, home, "a.py", 1, 8, k=20, include_related=True)
    explained = answer.meta.explain
    assert explained.blame_coverage == 0.75
    assert explained.enrichment_limitation == "The index is behind HEAD: related commits may be missing."
    assert answer.meta.hint == "The index is 8 commits behind HEAD: run `lineage index --incremental`."
    notes = [line for line in format_explain_answer(answer).splitlines() if line.startswith("Note: ")]
    assert notes == [f"Note: {answer.meta.hint}"]
    assert len(list_hit_commits(answer)) == 8


def test_uncommitted_lines_are_not_covered(repo: Repo, home: Path) -> None:
    """An uncommitted line lowers the coverage, but gives no hint to index."""
    build_index(repo, home)
    repo.write("a.py", "new\n" + make_text(3))
    answer = explain(repo, home, "a.py")
    assert answer.meta.explain.blame_coverage == 0.75
    assert answer.meta.hint is None


def test_without_an_index(repo: Repo, home: Path) -> None:
    """Without an index the answer has git's blame and a hint, and nothing is created."""
    answer = explain(repo, home, "a.py", include_related=True)
    assert len(answer.hits) == 5
    assert answer.meta.index_status.commits_behind_head == 20
    assert (answer.meta.explain.blame_coverage, answer.meta.explain.related_commits) == (0.0, ())
    assert answer.meta.hint == (
        "This repository is not indexed yet. Blame needs no index. "
        "Run `lineage index` to see related commits and to use `lineage query`."
    )
    assert not home.exists()


def test_failed_walk_is_repeated(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk of the history that fails, for example for lack of time, is not kept as an empty history."""
    run, walks = GitProgram.run, []

    def run_or_fail(git: GitProgram, *arguments: str, **options: Any) -> GitOutput:
        if arguments[:-1] != HISTORY_ARGUMENTS:
            return run(git, *arguments, **options)
        walks.append(run(git, *arguments, **options))
        return GitOutput(b"", "killed", 1) if len(walks) == 1 else walks[-1]

    monkeypatch.setattr(GitProgram, "run", run_or_fail)
    explainer = Explainer(home)
    for line in (1, 2, 3):
        status = explainer.explain(ExplainRequest("a.py", line, line), repo.path).meta.index_status
        assert status.commits_behind_head == 20
    assert len(walks) == 2


@pytest.mark.parametrize("model", ["another", None])
def test_incompatible_index(repo: Repo, home: Path, model: str | None) -> None:
    """An index that `find_pattern` rejects, or one without recorded versions, still adds related commits."""
    build_index(repo, home, embedding_model=model)
    answer = explain(repo, home, "a.py", 5, 6, include_related=True)
    assert len(list_related_subjects(answer)) == 4
    assert "lineage index" in (answer.meta.hint or "")


def _replace_with_nonsense(location: IndexLocation) -> None:
    location.database.write_bytes(b"nonsense" * 1000)


def _truncate(location: IndexLocation) -> None:
    location.database.write_bytes(location.database.read_bytes()[:20_000])


def _overwrite(location: IndexLocation) -> None:
    content = bytearray(location.database.read_bytes())
    content[16_000:] = b"\xa5" * (len(content) - 16_000)
    location.database.write_bytes(content)


def _overwrite_rows(location: IndexLocation) -> None:
    content = bytearray(location.database.read_bytes())
    hunks = content.rfind(b"a.py")
    content[hunks - 2_000 : hunks + 2_000] = b"\xa5" * 4_000
    location.database.write_bytes(content)


def _set_newer_schema(location: IndexLocation) -> None:
    with database.open_for_writing(location) as connection:
        connection.execute("INSERT INTO migrations VALUES (99, now()::TIMESTAMP)")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_replace_with_nonsense, "cannot be read"),
        (_truncate, "cannot be read"),
        (_overwrite, "cannot be read"),
        (_overwrite_rows, "cannot be read"),
        (_set_newer_schema, "The index has schema 99"),
    ],
)
def test_damaged_index(repo: Repo, home: Path, damage: Callable[[IndexLocation], None], message: str) -> None:
    """A damaged index, or one of a newer version, does not affect blame; a limitation says what is wrong."""
    build_index(repo, home)
    with database.open_for_writing(locate(repo, home)) as connection:
        connection.execute("CHECKPOINT")
    damage(locate(repo, home))
    answer = explain(repo, home, "a.py", include_related=True)
    assert len(answer.hits) == 5
    assert message in (answer.meta.explain.enrichment_limitation or "")
    assert "lineage index --rebuild --yes" in (answer.meta.hint or "")


def test_busy_index(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An explanation waits only briefly for an index in use by a writer; the next request tries it again."""
    monkeypatch.setattr(file_history, "LOCK_WAIT_SECONDS", 0.1)
    build_index(repo, home)
    explainer, request = Explainer(home), ExplainRequest("a.py", include_related=True)
    with database.open_for_writing(locate(repo, home)):
        answer = explainer.explain(request, repo.path)
    assert len(answer.hits) == 5
    assert "The index is still in use by" in (answer.meta.explain.enrichment_limitation or "")
    assert explainer.explain(request, repo.path).meta.explain.enrichment_limitation is None


def test_explanation_from_a_copy_is_not_cached(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a process holds the index, the answer is from a copy and says so; it is not cached, because it is old."""
    monkeypatch.setattr(index_copy, "COPY_AFTER_SECONDS", 0.1)
    build_index(repo, home)
    explainer, request = Explainer(home), ExplainRequest("a.py", include_related=True)
    with locks.acquire_index(locate(repo, home).folder, exclusive=True, deadline=Deadline.after(1)):
        answer = explainer.explain(request, repo.path)
    assert len(answer.meta.explain.related_commits) == 2
    assert answer.meta.explain.enrichment_limitation is None
    assert (answer.meta.hint or "").startswith("This answer is from the last committed state of ")
    assert (answer.meta.hint or "").endswith("holds the index.")
    assert explainer.explain(request, repo.path).meta.hint is None


def test_file_that_is_not_indexed(repo: Repo, home: Path) -> None:
    """A file that is not indexed has no related commits, and the limitation says so."""
    repo.commit_file("package-lock.json", "{}\n", "Lock")
    repo.commit_file("a.py", make_text(11), "Commit 11")
    build_index(repo, home)
    answer = explain(repo, home, "package-lock.json", include_related=True)
    assert [hit.commit_message for hit in answer.hits] == ["Lock"]
    assert answer.meta.explain.enrichment_limitation == (
        "The index has no change of package-lock.json, so there are no related commits."
    )


def test_find_index_without_a_walk(repo: Repo, home: Path) -> None:
    """`find_index` finds an existing index, even if its location.json is damaged; else it returns None."""
    repository = open_repository(repo.path)
    assert find_index(home, repository) is None
    build_index(repo, home)
    assert find_index(home, repository) == locate(repo, home)
    (locate(repo, home).folder / "location.json").write_text("nonsense")
    assert find_index(home, repository) == locate(repo, home)
