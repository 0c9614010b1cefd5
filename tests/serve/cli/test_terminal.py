"""Hostile texts of a repository are escaped in all output for users."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from serve.cli import app
from tests.repos import Repo

# An escape sequence that clears the screen, and two bidirectional controls.
HOSTILE = "x\x1b[2J\u202ey\u2066z"
ESCAPED = "x␛[2J\\u202ey\\u2066z"


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Repo:
    """A repository whose own path, branch and directories are hostile."""
    assert not home.exists()
    repo = Repo.create(tmp_path / HOSTILE)
    repo.commit_file(f"{HOSTILE}/a.py", "a = 1\n", f"Add {HOSTILE}")
    repo.git("switch", "--quiet", "--create", "\u202eniam")
    return repo


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
def test_output_has_no_control_characters(
    repo: Repo, capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """No command prints a control character or bidirectional control, in errors and events neither."""
    path_arguments = [] if arguments == [HOSTILE] else [str(repo.path)]
    app.main([*arguments, *path_arguments])
    output = capfd.readouterr()
    assert output.out + output.err
    assert not {"\x1b", "\x9b", "\u202e", "\u2066"} & set(output.out + output.err)


def test_control_characters_are_shown_as_escapes(repo: Repo, capfd: pytest.CaptureFixture[str]) -> None:
    """Control characters are printed as visible escapes."""
    assert app.main(["status", str(repo.path)]) == 0
    assert ESCAPED in capfd.readouterr().out
    assert app.main(["index", str(repo.path.with_name(f"{HOSTILE}, gone"))]) == 1
    assert ESCAPED in capfd.readouterr().err


def test_json_keeps_original_text(repo: Repo, capfd: pytest.CaptureFixture[str]) -> None:
    """JSON contains the repository's text unchanged, with control characters as JSON escapes."""
    assert app.main(["explain", f"{HOSTILE}/a.py", str(repo.path), "--no-related"]) == 0
    output = capfd.readouterr().out
    assert HOSTILE in json.loads(output)["hits"][0]["file_path"]
    assert "\\u202ey\\u2066z" in output
