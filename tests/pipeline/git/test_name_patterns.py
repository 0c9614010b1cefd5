"""Patterns of names of refs, compared with git."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.git.attributes import NamePattern
from tests.repos import Repo

NAMES = [
    f"refs/{name}"
    for name in (
        "a",
        "b/a",
        "b/b",
        "b/c/a",
        "b/c/c",
        "ab/a-b",
        "ab/b",
        "b-/!",
        "ä/x",
        "c/a/b/c/a",
        "c/ab]",
        "bb/]b",
    )
]


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    repo = Repo.create(tmp_path_factory.mktemp("refs") / "repo")
    repo.commit("First")
    for name in NAMES:
        repo.git("update-ref", name, "HEAD")
    repo.git("update-ref", "-d", "refs/heads/main")
    return repo


@pytest.mark.parametrize(
    "pattern",
    [
        "", "a", "b", "b/", "b/*", "b*", "b/**", "**", "**/a", "b/**/a", "**/b/*", "b/**/**/a", "b/***/a", "b**/a",
        "b**", "**a", "?", "b/?", "?/x", "??/x", "[a-c]", "b/[!a]", "b/[^a]", "b[/]a", "b[!x]a", "b/[a", "b/[]a]",
        "c/ab[]]", "[[:alpha:]]", "[[:none:]]", "b/\\a", "b\\/a", "b/a\\", "**\\/a", "[a-]", "[c-a]", "ab/a[,-.]b",
        "b-/[!]", "*/*", "[ä]/x", "/a", "a/", "*", "***",
    ],
)  # fmt: skip
def test_pattern_matches_as_in_git(repo: Repo, pattern: str) -> None:
    """Each form of pattern matches the names that git lists for it."""
    assert list_matches(pattern) == list_with_git(repo, pattern)


@given(
    pattern=st.lists(
        st.sampled_from(["a", "b", "/", "*", "**", "**/", "?", "[", "]", "!", "-", "\\"]), max_size=8
    )
)
@settings(max_examples=150, deadline=None)
def test_any_pattern_matches_as_in_git(repo: Repo, pattern: list[str]) -> None:
    """Any pattern matches the names that git lists for it."""
    assert list_matches("".join(pattern)) == list_with_git(repo, "".join(pattern))


def list_matches(pattern: str) -> list[str]:
    name_pattern = NamePattern(f"refs/{pattern}".encode())
    return [name for name in sorted(NAMES) if name_pattern.matches(name.encode())]


def list_with_git(repo: Repo, pattern: str) -> list[str]:
    return repo.git("for-each-ref", "--format=%(refname)", f"refs/{pattern}").split()
