"""What the index adds to an explanation, and what is said where it cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.git.repository import open_repository
from serve.api_types import ExplainAnswer, ExplainRequest
from serve.explain import file_history
from serve.explain.explain_change import Explainer
from serve.repositories import existing_place, place_of
from stores import database
from stores.index_location import Place
from tests.repos import Repo
from tests.serve.explain.helpers import explain, shas
from tests.serve.sample_index import index


def text(upto: int, changed: int | None = None) -> str:
    return "".join(f"line {n}{' changed' if n == changed else ''}\n" for n in range(1, upto + 1))


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """One file that ten commits touch, one line each, and another file in between."""
    repo = Repo.create(tmp_path / "repo")
    for number in range(1, 11):
        repo.commit_file("a.py", text(number), f"Commit {number}")
        repo.commit_file("b.py", f"{number}\n", f"Aside {number}")
    return repo


def subjects(answer: ExplainAnswer) -> list[str]:
    return [commit.commit_message for commit in answer.meta.explain.related_commits]


def place(repo: Repo, home: Path) -> Place:
    return place_of(home, open_repository(repo.path))


def test_neighbours(repo: Repo, home: Path) -> None:
    """Related commits are the file's two before and two after each anchor, newest first, anchors left out."""
    index(repo, home)
    answer = explain(repo, home, "a.py", 5, 6, include_related=True)
    assert [hit.commit_message for hit in answer.hits] == ["Commit 6", "Commit 5"]
    assert subjects(answer) == ["Commit 8", "Commit 7", "Commit 4", "Commit 3"]
    assert {commit.provenance for commit in answer.meta.explain.related_commits} == {"INFERRED"}
    assert answer.meta.explain.blame_coverage == 1.0
    assert answer.meta.explain.enrichment_limitation is None
    assert answer.meta.hint is None


def test_neighbours_of_several_anchors_are_told_once(repo: Repo, home: Path) -> None:
    """Neighbours that two anchors share appear once, at the ends there are fewer."""
    index(repo, home)
    assert subjects(explain(repo, home, "a.py", 1, 1, include_related=True)) == ["Commit 3", "Commit 2"]
    repo.write("a.py", "line 1\nline 3\nline 5\n")
    answer = explain(repo, home, "a.py", include_related=True)
    assert subjects(answer) == ["Commit 7", "Commit 6", "Commit 4", "Commit 2"]


def test_related_only_when_asked(repo: Repo, home: Path) -> None:
    """Without asking there are none."""
    index(repo, home)
    assert subjects(explain(repo, home, "a.py")) == []


def test_touched_hunks(repo: Repo, home: Path) -> None:
    """touched_hunks is the number of `@@` parts of the commit's change to the file."""
    repo.commit_file("a.py", text(40), "Grow")
    repo.commit_file(
        "a.py", text(40).replace("line 3\n", "@@ 3\n").replace("line 30\n", "@@ 30\n"), "Two places"
    )
    repo.commit_file("a.py", text(40).replace("line 3\n", "@@ 3\n"), "One back")
    index(repo, home)
    answer = explain(repo, home, "a.py", 30, 30, include_related=True)
    assert [hit.commit_message for hit in answer.hits] == ["One back"]
    assert [(c.commit_message, c.touched_hunks) for c in answer.meta.explain.related_commits] == [
        ("Two places", 2),
        ("Grow", 1),
    ]


def test_neighbours_before_a_rename(repo: Repo, home: Path) -> None:
    """A file's history goes on under its former names, and leaves out whoever takes the name afterwards."""
    repo.rename("a.py", "lib/c.py")
    repo.commit("Move")
    repo.commit_file("a.py", "another\n", "Take the name")
    repo.commit_file("lib/c.py", text(10, changed=9), "Change after the move")
    index(repo, home)
    answer = explain(repo, home, "lib/c.py", 10, 10, include_related=True)
    assert [hit.commit_message for hit in answer.hits] == ["Commit 10"]
    assert subjects(answer) == ["Change after the move", "Move", "Commit 9", "Commit 8"]


def test_only_what_head_reaches(repo: Repo, home: Path) -> None:
    """Neighbours on a branch that HEAD does not reach are none."""
    repo.branch("side")
    repo.commit_file("a.py", text(10, changed=1), "Side")
    index(repo, home)
    repo.switch("main")
    assert subjects(explain(repo, home, "a.py", 10, 10, include_related=True)) == ["Commit 9", "Commit 8"]


def test_stale_index(repo: Repo, home: Path) -> None:
    """Lines of commits the index does not have yet count against coverage, and both notes say so."""
    index(repo, home, upto="HEAD~8")
    answer = explain(repo, home, "a.py", 1, 8, k=20, include_related=True)
    explained = answer.meta.explain
    assert explained.blame_coverage == 0.75
    assert (
        explained.enrichment_limitation
        == "The index is 8 commits behind HEAD: related commits may be missing."
    )
    assert answer.meta.hint == "The index is 8 commits behind HEAD: run `lineage index --incremental`."
    assert len(shas(answer)) == 8


def test_uncommitted_lines_are_not_covered(repo: Repo, home: Path) -> None:
    """A line that no commit has counts against coverage, and is nothing an index could add."""
    index(repo, home)
    repo.write("a.py", "new\n" + text(3))
    answer = explain(repo, home, "a.py")
    assert answer.meta.explain.blame_coverage == 0.75
    assert answer.meta.hint is None


def test_without_an_index(repo: Repo, home: Path) -> None:
    """Without an index the answer is git's, the hint says how to have one, and nothing is made."""
    answer = explain(repo, home, "a.py", include_related=True)
    assert len(answer.hits) == 5
    assert answer.meta.index_status.commits_behind_head == 20
    assert (answer.meta.explain.blame_coverage, answer.meta.explain.related_commits) == (0.0, ())
    assert answer.meta.hint == (
        "This repository is not indexed yet; blame needs no index, run `lineage index` to have related commits "
        "and `lineage query` too."
    )
    assert not home.exists()


@pytest.mark.parametrize("verdict", ["another", None])
def test_any_verdict(repo: Repo, home: Path, verdict: str | None) -> None:
    """An index that queries refuse, or that has no record of its versions, adds what it has."""
    index(repo, home, embedding_model=verdict)
    answer = explain(repo, home, "a.py", 5, 6, include_related=True)
    assert len(subjects(answer)) == 4
    assert "lineage index" in (answer.meta.hint or "")


def _not_a_database(place: Place) -> None:
    place.database.write_bytes(b"nonsense" * 1000)


def _cut_short(place: Place) -> None:
    place.database.write_bytes(place.database.read_bytes()[:20_000])


def _overwritten(place: Place) -> None:
    content = bytearray(place.database.read_bytes())
    content[16_000:] = b"\xa5" * (len(content) - 16_000)
    place.database.write_bytes(content)


def _deeply(place: Place) -> None:
    content = bytearray(place.database.read_bytes())
    hunks = content.rfind(b"a.py")
    content[hunks - 2_000 : hunks + 2_000] = b"\xa5" * 4_000
    place.database.write_bytes(content)


def _newer(place: Place) -> None:
    with database.writing(place) as connection:
        connection.execute("INSERT INTO migrations VALUES (99, now()::TIMESTAMP)")


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (_not_a_database, "cannot be opened"),
        (_cut_short, "cannot be opened"),
        (_overwritten, "cannot be opened"),
        (_deeply, "cannot be opened"),
        (_newer, "The index has schema 99"),
    ],
)
def test_harmed_index(repo: Repo, home: Path, harm: Callable[[Place], None], says: str) -> None:
    """An index that is damaged, or of a newer version, takes nothing from blame: a note says what is wrong."""
    index(repo, home)
    with database.writing(place(repo, home)) as connection:
        connection.execute("CHECKPOINT")
    harm(place(repo, home))
    answer = explain(repo, home, "a.py", include_related=True)
    assert len(answer.hits) == 5
    assert says in (answer.meta.explain.enrichment_limitation or "")
    assert "lineage index --rebuild --yes" in (answer.meta.hint or "")


def test_busy_index(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index in a writer's hands is not waited for longer than a moment, and asked again the next time."""
    monkeypatch.setattr(file_history, "PATIENCE_SECONDS", 0.1)
    index(repo, home)
    explainer, asked = Explainer(home), ExplainRequest("a.py", include_related=True)
    with database.writing(place(repo, home)):
        answer = explainer.explain(asked, repo.path)
    assert len(answer.hits) == 5
    assert "in use by another process" in (answer.meta.explain.enrichment_limitation or "")
    assert explainer.explain(asked, repo.path).meta.explain.enrichment_limitation is None


def test_file_the_index_leaves_out(repo: Repo, home: Path) -> None:
    """For a file that is not indexed there is no context, and the note says so."""
    repo.commit_file("package-lock.json", "{}\n", "Lock")
    repo.commit_file("a.py", text(11), "Commit 11")
    index(repo, home)
    answer = explain(repo, home, "package-lock.json", include_related=True)
    assert [hit.commit_message for hit in answer.hits] == ["Lock"]
    assert answer.meta.explain.enrichment_limitation == (
        "The index has no change of package-lock.json, so there are no related commits."
    )


def test_place_without_walking(repo: Repo, home: Path) -> None:
    """An index is found without its first commit, also when its own note is lost, and none is none."""
    repository = open_repository(repo.path)
    assert existing_place(home, repository) is None
    index(repo, home)
    assert existing_place(home, repository) == place(repo, home)
    (place(repo, home).folder / "place.json").write_text("nonsense")
    assert existing_place(home, repository) == place(repo, home)
