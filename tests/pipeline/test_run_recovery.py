"""Objects that are lost and come back, and a HEAD that moves: what a pass remembers, forgets and leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline import walk, write
from pipeline.git.repository import open_repository
from pipeline.walk import reach
from serve import index_status
from serve.cli import index as index_command
from stores import database, history
from tests.bench.indexes import fingerprint
from tests.pipeline.histories import index, interleaved, place
from tests.repos import Repo


@contextmanager
def lost(repo: Repo, name: str) -> Iterator[None]:
    """Without one object, which is back afterwards."""
    sha = repo.git("rev-parse", name)
    loose = repo.path / ".git" / "objects" / sha[:2] / sha[2:]
    content = loose.read_bytes()
    loose.unlink()
    yield
    loose.write_bytes(content)


def left_out(repo: Repo, home: Path) -> set[str]:
    """The recorded commits that an answer about HEAD leaves out."""
    with database.reading(place(repo, home)) as connection:
        status = history.status(connection)
        assert status is not None
        opened = open_repository(repo.path)
        change = reach(opened, opened.head(), status.head_commit)
        return (history.unreached(connection) | set(change.gone)) - set(change.back)


def unreached(repo: Repo, home: Path) -> set[str]:
    """The same, as git and the record say it."""
    with database.reading(place(repo, home)) as connection:
        return set(history.all_recorded(connection)) - set(repo.git("rev-list", "HEAD").splitlines())


def waiting(repo: Repo, home: Path) -> list[str]:
    with database.reading(place(repo, home)) as connection:
        return [entry.commit_sha for entry in history.unreadable(connection)]


def symbols(repo: Repo, home: Path) -> set[str]:
    with database.reading(place(repo, home)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM head_symbols").fetchall()}


def is_done(repo: Repo, home: Path) -> bool:
    """Whether `--incremental` would say that the index is at HEAD."""
    return index_command._indexed_head(open_repository(repo.path), place(repo, home)) is not None


@pytest.fixture
def sides(tmp_path: Path) -> Repo:
    """Two branches, each with a commit of its own."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "def base(): pass\n", "Base")
    repo.branch("side")
    repo.commit_file("z.py", "def zebra(): pass\n", "On the side")
    repo.switch("main")
    repo.commit_file("m.py", "def okapi(): pass\n", "On main")
    return repo


def test_head_may_move_while_a_pass_waits(
    sides: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left out is noted for the HEAD that the pass aims at, though somebody switches branches meanwhile."""
    home = tmp_path / "home"
    for branch in ("side", "main"):
        sides.switch(branch)
        index(sides, home)
    begin = write.begin

    def begin_late(*given: object, **named: object) -> object:
        sides.switch("side")
        return begin(*given, **named)  # type: ignore[arg-type]  # handed on as it came

    monkeypatch.setattr(write, "begin", begin_late)
    index(sides, home)
    assert left_out(sides, home) == unreached(sides, home) != set()
    sides.switch("main")
    assert left_out(sides, home) == unreached(sides, home) != set()


def test_questions_are_answered_while_history_is_walked(
    sides: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass does not hold the index while it walks, which takes seconds where history is long."""
    home = tmp_path / "home"
    index(sides, home)
    walked = walk.walked
    asked: list[int] = []

    def walked_beside_a_reader(*given: object) -> list[str]:
        with database.reading(place(sides, home), wait=5) as connection:
            status = history.status(connection)
            asked.append(status.commits if status else 0)
        return walked(*given)  # type: ignore[arg-type]  # handed on as it came

    monkeypatch.setattr(write, "walked", walked_beside_a_reader)
    index(sides, home)
    assert asked == [2]


def test_a_commit_of_another_branch_is_tried_again_there(sides: Repo, tmp_path: Path) -> None:
    """One that could not be read is waited for while HEAD reaches it, and found anew when HEAD reaches it again."""
    home = tmp_path / "home"
    sides.switch("side")
    zebra = sides.head
    sides.commit_file("y.py", "def yak(): pass\n", "Above it")
    for _ in range(2):
        sides.switch("side")
        with lost(sides, f"{zebra}:z.py"):
            assert [entry.commit_sha for entry in index(sides, home).unreadable] == [zebra]
            assert not is_done(sides, home)
            sides.switch("main")
            assert index(sides, home).unreadable == ()
            assert is_done(sides, home) and waiting(sides, home) == []
            assert left_out(sides, home) == unreached(sides, home)
    sides.git("reset", "--quiet", "--hard", "HEAD~1")  # below both
    index(sides, home)
    sides.switch("side")
    assert index(sides, home).commits == 1
    assert (waiting(sides, home), left_out(sides, home)) == ([], unreached(sides, home))


def test_a_killed_pass_forgets_nothing_that_is_waited_for(
    sides: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until a pass ends the watermark may still stand above what could not be read."""
    home = tmp_path / "home"
    sides.switch("side")
    zebra = sides.head
    sides.commit_file("y.py", "def yak(): pass\n", "Above it")
    with lost(sides, f"{zebra}:z.py"):
        index(sides, home)
    sides.git("checkout", "--quiet", "--detach", f"{zebra}~1")

    def killed(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(write, "finish", killed)
        index(sides, home)
    sides.switch("side")
    assert index(sides, home).commits == 1
    assert waiting(sides, home) == []


def test_a_killed_pass_and_the_way_back(sides: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass stopped after HEAD's symbols, then HEAD where it was before: the snapshot is brought back, too."""
    home = tmp_path / "home"
    index(sides, home)
    before = sides.head
    sides.commit_file("m.py", "def walrus(): pass\n", "Turn it into a walrus")

    def killed(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(write, "finish", killed)
        index(sides, home)
    assert "walrus" in symbols(sides, home)
    sides.git("reset", "--quiet", "--hard", before)
    assert not is_done(sides, home)
    index(sides, home)
    assert is_done(sides, home)
    assert symbols(sides, home) == {"base", "okapi"}


@pytest.mark.parametrize("missing", ["HEAD:src", "HEAD:src/a.py"])
def test_a_part_of_head_that_cannot_be_read_is_tried_again(tmp_path: Path, missing: str) -> None:
    """Without a directory or a file of HEAD the snapshot is not taken for done, and it is told; then it is made."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("top.py", "def top(): pass\n")
    repo.commit_file("src/a.py", "def old(): pass\n")
    home = tmp_path / "home"
    index(repo, home)
    repo.commit_file("src/a.py", "def new(): pass\n")
    with lost(repo, missing):
        summary = index(repo, home)
        assert len(summary.head_unread) == 1
        assert not is_done(repo, home)
        assert symbols(repo, home) == {"top", "old"}
    index(repo, home)
    assert is_done(repo, home)
    index(repo, tmp_path / "clean")
    assert symbols(repo, home) == {"top", "new"}
    assert fingerprint(repo.path, home) == fingerprint(repo.path, tmp_path / "clean")


def test_force_takes_nothing_away_that_it_cannot_make_again(tmp_path: Path) -> None:
    """Symbols of a file whose content is lost outlive `--force`, and its parser is not vouched for."""
    repo = interleaved(tmp_path / "repo", rounds=1)
    index(repo, tmp_path / "home")
    before = symbols(repo, tmp_path / "home")
    with lost(repo, "HEAD:greeter.py"):
        assert index(repo, tmp_path / "home", force=True).head_unread == ("greeter.py",)
    assert symbols(repo, tmp_path / "home") == before


def test_a_deepened_clone_is_behind(tmp_path: Path) -> None:
    """The commits that unshallowing brought count as behind HEAD until a pass takes them up."""
    origin = Repo.create(tmp_path / "origin")
    for number in range(5):
        origin.commit_file("a.py", f"a = {number}\n", f"Change {number}")
    clone = origin.clone(tmp_path / "clone", "--depth=2")
    home = tmp_path / "home"
    index(clone, home)
    assert behind(clone, home) == 0
    clone.git("fetch", "--quiet", "--unshallow")
    assert behind(clone, home) == 4
    index(clone, home)
    assert behind(clone, home) == 0


def behind(repo: Repo, home: Path) -> int:
    return index_status.of_path(repo.path, home)[1].behind
