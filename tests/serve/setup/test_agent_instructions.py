"""The stanza for agents: which file gets it, where in it, and how it goes again."""

from __future__ import annotations

from pathlib import Path

import pytest

from serve.setup.agent_instructions import STANZA, StanzaRefused
from serve.setup.git_hooks import OutsideRepository
from serve.setup.init import Wishes, initialize
from tests.repos import Repo

WRITE, REMOVE = Wishes(write_agent_md=True), Wishes(remove=True)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "x = 1\n", "First")
    return repo


@pytest.mark.parametrize(
    ("there", "taken"),
    [
        ({}, "AGENTS.md"),
        ({"CLAUDE.md": "c\n"}, "CLAUDE.md"),
        ({"GEMINI.md": "g\n"}, "GEMINI.md"),
        ({"CLAUDE.md": "c\n", "AGENTS.md": "a\n"}, "AGENTS.md"),
        ({"AGENTS.md": "a\n", "CLAUDE.md": STANZA.decode()}, "CLAUDE.md"),
    ],
)
def test_which_file(repo: Repo, there: dict[str, str], taken: str) -> None:
    """The one that has the stanza, else the first of those that are there, else AGENTS.md."""
    for name, content in there.items():
        repo.write(name, content)
    initialize(repo.path, WRITE)
    having = [file.name for file in repo.path.glob("*.md") if STANZA in file.read_bytes()]
    assert having == [taken]


def test_made_and_deleted(repo: Repo) -> None:
    """A file that is the stanza alone comes and goes; again changes nothing."""
    file = repo.path / "AGENTS.md"
    assert "created      AGENTS.md" in initialize(repo.path, WRITE)
    assert file.read_bytes() == STANZA + b"\n"
    assert "unchanged    AGENTS.md" in initialize(repo.path, WRITE)
    assert "deleted      AGENTS.md" in initialize(repo.path, REMOVE)
    assert not file.exists()


@pytest.mark.parametrize(
    "content", [b"# Ours\n", b"# Ours", b"# Ours\r\nmore\r\n", b"\xef\xbb\xbf# BOM\n", b"\xff\n\n\n"]
)
def test_appended_and_taken_out(repo: Repo, content: bytes) -> None:
    """It follows a blank line in the line ends of the file, whose own bytes come back as they were."""
    file = repo.path / "CLAUDE.md"
    file.write_bytes(content)
    initialize(repo.path, WRITE)
    eol = b"\r\n" if b"\r\n" in content else b"\n"
    ends = content if content.endswith(b"\n") else content + eol
    assert file.read_bytes().startswith(ends + eol + STANZA.replace(b"\n", eol))
    assert "taken out    CLAUDE.md" in initialize(repo.path, REMOVE)
    assert file.read_bytes() == content


def test_renewed_in_place(repo: Repo) -> None:
    """Between the marks it is replaced; what stands around stays."""
    file = repo.write("AGENTS.md", "a\n<!-- lineage:start -->\nold\n<!-- lineage:end -->\nb\n")
    assert "renewed      AGENTS.md" in initialize(repo.path, WRITE)
    assert file.read_bytes() == b"a\n" + STANZA + b"\nb\n"


def test_half_a_stanza_is_refused(repo: Repo) -> None:
    """Without the second mark nothing is written, the hooks neither."""
    repo.write("AGENTS.md", "a\n<!-- lineage:start -->\nold\n")
    with pytest.raises(StanzaRefused, match="has no"):
        initialize(repo.path, WRITE)
    assert not (repo.path / ".git/hooks/post-commit").exists()


def test_links(repo: Repo, tmp_path: Path) -> None:
    """A link inside the repository is written through and stays; one that leads out is refused."""
    repo.write("docs/agents.md", "ours\n")
    repo.symlink("AGENTS.md", "docs/agents.md")
    initialize(repo.path, WRITE)
    assert (repo.path / "AGENTS.md").is_symlink()
    assert STANZA in (repo.path / "docs/agents.md").read_bytes()
    initialize(repo.path, REMOVE)
    assert (repo.path / "docs/agents.md").read_text() == "ours\n"
    (repo.path / "AGENTS.md").unlink()
    (tmp_path / "mine.md").write_text("private\n")
    repo.symlink("AGENTS.md", str(tmp_path / "mine.md"))
    with pytest.raises(OutsideRepository, match="outside this repository"):
        initialize(repo.path, WRITE)
    assert (tmp_path / "mine.md").read_text() == "private\n"


def test_it_names_what_there_is() -> None:
    """The tools and commands it sends a model to are those that there are."""
    text = STANZA.decode()
    for word in ("find_pattern", "explain_change", "lineage query --query", "lineage explain", "--lines"):
        assert word in text
