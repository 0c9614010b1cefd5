"""Section with instructions for agents in AGENTS.md, CLAUDE.md or GEMINI.md: choice of the file, position, removal."""

from __future__ import annotations

from pathlib import Path

import pytest

from serve.setup.git_hooks import OutsideRepository
from serve.setup.init import AGENT_INSTRUCTIONS, InitOptions, InvalidInstructionsFile, initialize
from tests.repos import Repo

WRITE, REMOVE = InitOptions(write_agent_md=True), InitOptions(remove=True)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "x = 1\n", "First")
    return repo


@pytest.mark.parametrize(
    ("existing", "expected"),
    [
        ({}, "AGENTS.md"),
        ({"CLAUDE.md": "c\n"}, "CLAUDE.md"),
        ({"GEMINI.md": "g\n"}, "GEMINI.md"),
        ({"CLAUDE.md": "c\n", "AGENTS.md": "a\n"}, "AGENTS.md"),
        ({"AGENTS.md": "a\n", "CLAUDE.md": AGENT_INSTRUCTIONS.decode()}, "CLAUDE.md"),
    ],
)
def test_section_goes_to_preferred_file(repo: Repo, existing: dict[str, str], expected: str) -> None:
    """The section is written to the file that already has it, else to the first existing file, else to AGENTS.md."""
    for name, content in existing.items():
        repo.write(name, content)
    initialize(repo.path, WRITE)
    with_section = [file.name for file in repo.path.glob("*.md") if AGENT_INSTRUCTIONS in file.read_bytes()]
    assert with_section == [expected]


def test_other_files_refer_to_the_instructions(repo: Repo) -> None:
    """CLAUDE.md and GEMINI.md get the line `@AGENTS.md` if they lack it. Removal deletes that line."""
    texts = {"AGENTS.md": "# Rules\n", "CLAUDE.md": "# Mine\n", "GEMINI.md": "@AGENTS.md\n"}
    for name, text in texts.items():
        repo.write(name, text)
    for _ in range(2):
        initialize(repo.path, InitOptions(write_agent_md=True))
        assert (repo.path / "CLAUDE.md").read_text() == (
            "# Mine\n\n<!-- lineage:start -->\n@AGENTS.md\n<!-- lineage:end -->\n"
        )
        assert (repo.path / "GEMINI.md").read_text() == texts["GEMINI.md"]
        assert "find_pattern" in (repo.path / "AGENTS.md").read_text()
    initialize(repo.path, InitOptions(remove=True))
    assert {name: (repo.path / name).read_text() for name in texts} == texts
    (repo.path / "CLAUDE.md").unlink()
    (repo.path / "CLAUDE.md").symlink_to("AGENTS.md")
    initialize(repo.path, InitOptions(write_agent_md=True))
    assert (repo.path / "AGENTS.md").read_text().count("lineage:start") == 1


def test_repeated_installation_changes_nothing(repo: Repo) -> None:
    """On the second run, the section stays in GEMINI.md, because CLAUDE.md only refers to it by `@GEMINI.md`."""
    repo.write("GEMINI.md", AGENT_INSTRUCTIONS.decode())
    repo.write("CLAUDE.md", "# Mine\n")
    for _ in range(2):
        initialize(repo.path, WRITE)
        assert AGENT_INSTRUCTIONS in (repo.path / "GEMINI.md").read_bytes()
        assert "@GEMINI.md" in (repo.path / "CLAUDE.md").read_text()


def test_file_with_only_the_section_is_created_and_deleted(repo: Repo) -> None:
    """If there is no file, one with only the section is created. A second run changes nothing; removal deletes it."""
    file = repo.path / "AGENTS.md"
    assert "created      AGENTS.md" in initialize(repo.path, WRITE)
    assert file.read_bytes() == AGENT_INSTRUCTIONS + b"\n"
    assert "unchanged    AGENTS.md" in initialize(repo.path, WRITE)
    assert "deleted      AGENTS.md" in initialize(repo.path, REMOVE)
    assert not file.exists()


@pytest.mark.parametrize(
    "content",
    [
        *(b"# Ours\n", b"# Ours", b"# Ours\r\nmore\r\n", b"a\r\nb", b"a\r"),
        *(b"\xef\xbb\xbf# BOM\n", b"\xff\n\n\n", b"", b"\n", b"\r\n", b" "),
    ],
)
def test_section_is_appended_and_removed(repo: Repo, content: bytes) -> None:
    """The section is appended after a line break, with the file's line endings. Removal restores the file."""
    file = repo.path / "CLAUDE.md"
    file.write_bytes(content)
    initialize(repo.path, WRITE)
    eol = b"\r\n" if b"\r\n" in content else b"\n"
    assert file.read_bytes() == content + eol + AGENT_INSTRUCTIONS.replace(b"\n", eol) + eol
    assert "removed      CLAUDE.md" in initialize(repo.path, REMOVE)
    assert file.read_bytes() == content


def test_text_appended_after_the_section(repo: Repo) -> None:
    """The section ends with a line break, so text that another program appends does not damage its end marker."""
    file = repo.write("AGENTS.md", "# Ours")
    initialize(repo.path, WRITE)
    with file.open("a") as appended:
        appended.write("more\n")
    assert "unchanged    AGENTS.md" in initialize(repo.path, WRITE)
    initialize(repo.path, REMOVE)
    assert file.read_text() == "# Ours\nmore\n"


def test_tracked_file_is_not_deleted(repo: Repo) -> None:
    """Removal does not delete a file that is in HEAD, even if it contains only the section."""
    repo.commit_file("AGENTS.md", AGENT_INSTRUCTIONS + b"\n")
    assert "removed      AGENTS.md" in initialize(repo.path, REMOVE)
    assert (repo.path / "AGENTS.md").read_bytes() == b""


def test_section_is_updated_in_place(repo: Repo) -> None:
    """The text between the markers is replaced; the text around it stays."""
    file = repo.write("AGENTS.md", "a\n<!-- lineage:start -->\nold\n<!-- lineage:end -->\nb\n")
    assert "updated      AGENTS.md" in initialize(repo.path, WRITE)
    assert file.read_bytes() == b"a\n" + AGENT_INSTRUCTIONS + b"\nb\n"


def test_missing_end_marker_is_an_error(repo: Repo) -> None:
    """Without the end marker nothing is written, not even the hooks."""
    repo.write("AGENTS.md", "a\n<!-- lineage:start -->\nold\n")
    with pytest.raises(InvalidInstructionsFile, match="is not followed by"):
        initialize(repo.path, WRITE)
    assert not (repo.path / ".git/hooks/post-commit").exists()


def test_links_inside_repository_are_followed(repo: Repo, tmp_path: Path) -> None:
    """A link to a file of the repository is followed and stays a link. A link to a file outside is an error."""
    repo.write("docs/agents.md", "ours\n")
    repo.symlink("AGENTS.md", "docs/agents.md")
    initialize(repo.path, WRITE)
    assert (repo.path / "AGENTS.md").is_symlink()
    assert AGENT_INSTRUCTIONS in (repo.path / "docs/agents.md").read_bytes()
    initialize(repo.path, REMOVE)
    assert (repo.path / "docs/agents.md").read_text() == "ours\n"
    (repo.path / "AGENTS.md").unlink()
    (tmp_path / "mine.md").write_text("private\n")
    repo.symlink("AGENTS.md", str(tmp_path / "mine.md"))
    with pytest.raises(OutsideRepository, match="outside this repository"):
        initialize(repo.path, WRITE)
    assert (tmp_path / "mine.md").read_text() == "private\n"


@pytest.mark.parametrize("target", [".git/config", ".git/hooks/pre-commit", "sub/.git/config"])
def test_links_into_a_git_directory_are_refused(repo: Repo, target: str) -> None:
    """A link into a git directory is an error, because Markdown would break a config file or a hook.

    A clone can contain such a link.
    """
    file = repo.path / target
    file.parent.mkdir(parents=True, exist_ok=True)
    content = file.read_bytes() if file.exists() else b"# before\n"
    file.write_bytes(content)
    repo.symlink("AGENTS.md", target)
    with pytest.raises(OutsideRepository, match="in a git directory"):
        initialize(repo.path, WRITE)
    assert file.read_bytes() == content


def test_instructions_name_existing_tools_and_commands() -> None:
    """The instructions name the tools and commands that exist."""
    text = AGENT_INSTRUCTIONS.decode()
    tools = ("find_pattern", "explain_change", "search_changes", "show_commit")
    for word in (
        *tools,
        'lineage query "',
        "lineage explain",
        "--lines",
        "lineage grep",
        "lineage show",
    ):
        assert word in text
