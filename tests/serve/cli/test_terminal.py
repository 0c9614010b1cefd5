"""What comes from a repository and is printed for people: shown, and never obeyed by the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from serve.cli import app
from tests.repos import Repo

# Ends a title, moves the cursor, turns the text around.
HOSTILE = "x\x1b[2J\u202ey\u2066z"
SHOWN = "x␛[2J\\u202ey\\u2066z"


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Repo:
    """A repository whose own path, branch and directories are hostile."""
    assert not home.exists()
    made = Repo.create(tmp_path / HOSTILE)
    made.commit_file(f"{HOSTILE}/a.py", "a = 1\n", f"Add {HOSTILE}")
    made.git("switch", "--quiet", "--create", "\u202eniam")
    return made


@pytest.mark.parametrize(
    "arguments",
    [
        ["index"],
        ["status"],
        ["plan"],
        ["plan", "--write"],
        ["init"],
        ["doctor"],
        ["explain", f"{HOSTILE}/nowhere.py"],
        ["query", "--query", "x", "--path", f"{HOSTILE}["],
        ["query", "--query", "x", "--language", HOSTILE],
        [HOSTILE],
    ],
    ids=lambda arguments: " ".join(arguments[:2]).replace(HOSTILE, "hostile"),
)
def test_commands(repo: Repo, capfd: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """Whatever a command says, its errors and events too, holds no control character and no turning mark."""
    where = [] if arguments == [HOSTILE] else [str(repo.path)]
    app.main([*arguments, *where])
    said = capfd.readouterr()
    assert said.out + said.err
    for text in (said.err, *([] if said.out.startswith("{") else [said.out])):
        assert not {"\x1b", "\u202e", "\u2066"} & set(text)


def test_they_are_shown(repo: Repo, capfd: pytest.CaptureFixture[str]) -> None:
    """They are there to be seen, as escapes."""
    assert app.main(["status", str(repo.path)]) == 0
    assert SHOWN in capfd.readouterr().out
    assert app.main(["index", str(repo.path.with_name(f"{HOSTILE}, gone"))]) == 1
    assert SHOWN in capfd.readouterr().err


def test_programs_get_them_as_they_are(repo: Repo, capfd: pytest.CaptureFixture[str]) -> None:
    """JSON keeps what the repository has."""
    assert app.main(["explain", f"{HOSTILE}/a.py", str(repo.path), "--no-related"]) == 0
    assert "\u202ey\u2066z" in capfd.readouterr().out
