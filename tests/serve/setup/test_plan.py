"""Command `lineage plan`: survey, suggestions, and edits of `.lineageignore`."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.git.repository import open_repository
from serve.cli import app
from serve.repositories import locate_index
from stores import database
from tests.repos import Repo

START = "# >>> lineage plan (generated: write your own lines below the end) >>>\n"
END = "# <<< lineage plan <<<\n"
SECTION = f"{START}# documentation\n/docs/\n{END}"


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Repo:  # noqa: ARG001 - keeps tests away from the user's indexes
    repo = Repo.create(tmp_path / "repo")
    for number in range(6):
        repo.write(f"src/part{number}.py", f"def part{number}():\n    return 0\n")
        repo.write(f"docs/{number}.md", "# A page\n")
        repo.commit("Change")
    repo.commit_file("docs/0.md", "# A better page\n")
    for number in range(12):
        repo.commit_file("src/part0.py", f"def part0():\n    return {number + 1}\n")
    return repo


def run_plan(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert app.main(["plan", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def run_failing_plan(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 1) -> str:
    assert app.main(["plan", *map(str, arguments)]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_plan_without_write_changes_nothing(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --write, the output has shares, suggestions with reason and effect, and the command that writes them."""
    assert run_plan(capsys, repo.path / "src") == (
        f"19 commits up to {repo.head[:12]}, 25 hunks (one for each file that a commit changes)\n"
        "\n"
        "directory    commits  share                          hunks  mostly\n"
        "src/              18  ███████████████████   95%         18  code\n"
        "docs/              7  ███████               37%          7  prose\n"
        "A commit counts in each directory it changes, so the shares add up to more than 100 %.\n"
        "\n"
        "Suggested for .lineageignore:\n"
        "  /docs/  excludes 7 hunks (28% of all) in 7 commits, 1 of these commits entirely\n"
        "          documentation: 100% of its 6 files are prose\n"
        "\n"
        f"Nothing was written. `lineage plan --write {repo.path}/src` puts these lines into lineage's section of "
        ".lineageignore.\n"
    )
    assert repo.git("status", "--short") == ""


def count_rows(repo: Repo, home: Path) -> tuple[int, int]:
    """Return the number of commits and hunks in the index."""
    with database.open_for_reading(locate_index(home, open_repository(repo.path))) as connection:
        tables = ("commits", "hunks")
        [(commits,), (hunks,)] = [
            row for table in tables for row in connection.execute(f"SELECT count(*) FROM {table}").fetchall()
        ]
    return commits, hunks


def test_reported_effect_matches_the_index(
    repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After --write, a rebuilt index lacks exactly the reported hunks and commits."""
    assert app.main(["index", str(repo.path)]) == 0
    assert count_rows(repo, home) == (19, 25)
    rebuild = f"`lineage index --rebuild --yes {repo.path}` applies it to the whole history"
    assert rebuild in run_plan(capsys, repo.path, "--write")
    assert app.main(["index", str(repo.path), "--rebuild", "--yes"]) == 0
    assert count_rows(repo, home) == (18, 18)


def test_write_keeps_surrounding_lines(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines above and below the section stay byte for byte; a second run changes nothing."""
    file = repo.path / ".lineageignore"
    assert "created      .lineageignore" in run_plan(capsys, repo.path, "--write")
    assert file.read_text() == SECTION
    assert run_plan(capsys, repo.path).endswith("\n.lineageignore has these lines already.\n")
    file.write_bytes(b"# above\r\n" + SECTION.replace("\n", "\r\n").encode() + b"*.csv\r\n\xff")
    before, modified_ns = file.read_bytes(), file.stat().st_mtime_ns
    assert "unchanged    .lineageignore" in run_plan(capsys, repo.path, "--write")
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (before, modified_ns)
    file.write_text(f"# above\n{START}/old/\n{END}*.csv\n")
    assert "updated      .lineageignore" in run_plan(capsys, repo.path, "--write")
    assert file.read_text() == f"# above\n{SECTION}*.csv\n"


def test_section_is_written_above_user_lines(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """The section comes first, so that the user's lines take precedence."""
    repo.write(".lineageignore", "*.csv")
    assert "added        .lineageignore" in run_plan(capsys, repo.path, "--write")
    assert (repo.path / ".lineageignore").read_text() == f"{SECTION}*.csv"


def test_user_can_reject_a_suggestion(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """`!docs/` below the section removes the section in the next run."""
    repo.write(".lineageignore", f"{SECTION}!docs/\n")
    pending = "removes lineage's lines, which are no longer suggested, from .lineageignore."
    command = f"`lineage plan --write {repo.path}`"
    assert run_plan(capsys, repo.path).endswith(f"Nothing was written. {command} {pending}\n")
    assert "updated      .lineageignore" in run_plan(capsys, repo.path, "--write")
    assert (repo.path / ".lineageignore").read_text() == "!docs/\n"
    assert "written" not in run_plan(capsys, repo.path)


def test_replace_backs_up_uncommitted_lines(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """--replace leaves only the section in the file. The other lines are backed up if they are not committed."""
    file, backup = repo.path / ".lineageignore", repo.path / ".lineageignore.bak"
    file.write_text("!docs/\n")
    backup.write_text("an earlier one\n")
    output = run_plan(capsys, repo.path, "--write", "--replace")
    assert "backed up    .lineageignore.bak1" in output and "replaced     .lineageignore" in output
    assert file.read_text() == SECTION
    assert (backup.read_text(), (repo.path / ".lineageignore.bak1").read_text()) == (
        "an earlier one\n",
        "!docs/\n",
    )
    file.write_text("*.csv\n")
    repo.commit("Ignore")
    assert "backed up" not in run_plan(capsys, repo.path, "--write", "--replace")
    assert file.read_text() == SECTION


def test_errors_write_nothing(repo: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Invalid options, links to files outside, damaged sections and unsuitable repositories are errors.

    Nothing is written.
    """
    assert "Give `--write --replace`" in run_failing_plan(capsys, repo.path, "--replace", code=2)
    outside = tmp_path / "outside"
    outside.write_text("mine\n")
    repo.symlink(".lineageignore", str(outside))
    assert "outside this repository" in run_failing_plan(capsys, repo.path, "--write")
    assert outside.read_text() == "mine\n"
    (repo.path / ".lineageignore").unlink()
    repo.write(".lineageignore", START + "/docs/\n")
    assert ".lineageignore: The line `# >>> lineage plan" in run_failing_plan(capsys, repo.path, "--write")
    bare = repo.clone(tmp_path / "bare.git", "--bare")
    assert "/docs/" in run_plan(capsys, bare.path)
    assert "is a bare repository" in run_failing_plan(capsys, bare.path, "--write")
    assert "Commit something" in run_failing_plan(capsys, Repo.create(tmp_path / "empty").path)
    assert "not in a git repository" in run_failing_plan(capsys, tmp_path)


def test_link_inside_repository_is_followed(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """A link to another file of the repository stays a link."""
    repo.write("config/ignore", "*.csv\n")
    repo.symlink(".lineageignore", "config/ignore")
    run_plan(capsys, repo.path, "--write")
    assert (repo.path / ".lineageignore").is_symlink()
    assert (repo.path / "config/ignore").read_text() == f"{SECTION}*.csv\n"
