"""`lineage plan`, as a person runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.git.repository import open_repository
from serve.cli import app
from serve.repositories import place_of
from stores import database
from tests.repos import Repo

START = "# >>> lineage plan (generated: write your own lines below the end) >>>\n"
END = "# <<< lineage plan <<<\n"
SECTION = f"{START}# documentation\n/docs/\n{END}"


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Repo:  # noqa: ARG001 - no test may meet the person's own indexes
    made = Repo.create(tmp_path / "repo")
    for number in range(6):
        made.write(f"src/part{number}.py", f"def part{number}():\n    return 0\n")
        made.write(f"docs/{number}.md", "# A page\n")
        made.commit("Change")
    made.commit_file("docs/0.md", "# A better page\n")
    for number in range(12):
        made.commit_file("src/part0.py", f"def part0():\n    return {number + 1}\n")
    return made


def planned(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert app.main(["plan", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 1) -> str:
    assert app.main(["plan", *map(str, arguments)]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_prints_only(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --write: shares, suggestions with their reason and effect, and how to write them; no file."""
    assert planned(capsys, repo.path / "src") == (
        f"19 commits up to {repo.head[:12]}, 25 hunks (files changed, commit by commit)\n"
        "\n"
        "directory    commits  share                          hunks  mostly\n"
        "src/              18  ███████████████████   95%         18  code\n"
        "docs/              7  ███████               37%          7  prose\n"
        "A commit counts in each directory it changes, so the shares add up to more than 100 %.\n"
        "\n"
        "Suggested for .lineageignore:\n"
        "  /docs/  leaves out 7 hunks (28%) of 7 commits, 1 of them wholly\n"
        "          documentation: 100% of its 6 files are prose\n"
        "\n"
        "Nothing was written. `lineage plan --write` puts these lines into .lineageignore.\n"
    )
    assert repo.git("status", "--short") == ""


def counts(repo: Repo, home: Path) -> tuple[int, int]:
    """Commits and hunks in the index."""
    with database.reading(place_of(home, open_repository(repo.path))) as connection:
        tables = ("commits", "hunks")
        [(commits,), (hunks,)] = [
            row for table in tables for row in connection.execute(f"SELECT count(*) FROM {table}").fetchall()
        ]
    return commits, hunks


def test_the_effect_is_what_the_index_leaves_out(
    repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After --write, a rebuilt index lacks exactly the hunks and commits that were said."""
    assert app.main(["index", str(repo.path)]) == 0
    assert counts(repo, home) == (19, 25)
    rebuild = f"`lineage index --rebuild --yes {repo.path}` applies it to everything"
    assert rebuild in planned(capsys, repo.path, "--write")
    assert app.main(["index", str(repo.path), "--rebuild", "--yes"]) == 0
    assert counts(repo, home) == (18, 18)


def test_write_keeps_what_is_around(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """A new file, then lines above and below: they stay, byte for byte; a second run changes nothing."""
    file = repo.path / ".lineageignore"
    assert "created      .lineageignore" in planned(capsys, repo.path, "--write")
    assert file.read_text() == SECTION
    file.write_bytes(b"# above\r\n" + SECTION.replace("\n", "\r\n").encode() + b"*.csv\r\n\xff")
    before, stamp = file.read_bytes(), file.stat().st_mtime_ns
    assert "unchanged    .lineageignore" in planned(capsys, repo.path, "--write")
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (before, stamp)
    file.write_text(f"# above\n{START}/old/\n{END}*.csv\n")
    assert "renewed      .lineageignore" in planned(capsys, repo.path, "--write")
    assert file.read_text() == f"# above\n{SECTION}*.csv\n"


def test_write_goes_above_lines_that_are_there(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """The person's lines come last, so that they have the last word."""
    repo.write(".lineageignore", "*.csv")
    assert "added        .lineageignore" in planned(capsys, repo.path, "--write")
    assert (repo.path / ".lineageignore").read_text() == f"{SECTION}*.csv"


def test_a_person_takes_a_suggestion_back(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """`!docs/` below the section empties it at the next run, and its own lines alone remain."""
    repo.write(".lineageignore", f"{SECTION}!docs/\n")
    assert "taken out    .lineageignore" in planned(capsys, repo.path, "--write")
    assert (repo.path / ".lineageignore").read_text() == "!docs/\n"


def test_replace(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """--replace leaves our part alone in the file; lines that git does not have are kept beside it."""
    file, kept = repo.path / ".lineageignore", repo.path / ".lineageignore.bak"
    file.write_text("!docs/\n")
    kept.write_text("an earlier one\n")
    said = planned(capsys, repo.path, "--write", "--replace")
    assert "kept         .lineageignore.bak1" in said and "replaced     .lineageignore" in said
    assert file.read_text() == SECTION
    assert (kept.read_text(), (repo.path / ".lineageignore.bak1").read_text()) == (
        "an earlier one\n",
        "!docs/\n",
    )
    file.write_text("*.csv\n")
    repo.commit("Ignore")
    assert "kept" not in planned(capsys, repo.path, "--write", "--replace")
    assert file.read_text() == SECTION


def test_refusals(repo: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--replace alone, a link out of the repository, a broken mark, a bare repository: refused, nothing written."""
    assert "Give `--write --replace`" in refused(capsys, repo.path, "--replace", code=2)
    outside = tmp_path / "outside"
    outside.write_text("mine\n")
    repo.symlink(".lineageignore", str(outside))
    assert "outside this repository" in refused(capsys, repo.path, "--write")
    assert outside.read_text() == "mine\n"
    (repo.path / ".lineageignore").unlink()
    repo.write(".lineageignore", START + "/docs/\n")
    assert ".lineageignore: a `# >>> lineage plan" in refused(capsys, repo.path, "--write")
    bare = repo.clone(tmp_path / "bare.git", "--bare")
    assert "/docs/" in planned(capsys, bare.path)
    assert "is a bare repository" in refused(capsys, bare.path, "--write")
    assert "Commit something" in refused(capsys, Repo.create(tmp_path / "empty").path)
    assert "not in a git repository" in refused(capsys, tmp_path)


def test_a_link_within_the_repository_is_followed(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """A link to another file of the repository stays a link."""
    repo.write("config/ignore", "*.csv\n")
    repo.symlink(".lineageignore", "config/ignore")
    planned(capsys, repo.path, "--write")
    assert (repo.path / ".lineageignore").is_symlink()
    assert (repo.path / "config/ignore").read_text() == f"{SECTION}*.csv\n"
