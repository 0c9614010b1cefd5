"""Kinds of commits, by Conventional Commits and by the rules that the help of `lineage log` states."""

from __future__ import annotations

import pytest

from serve.analysis.commit_kinds import CommitKind, classify_commit, count_kinds

SOURCE = ("src/app.py",)


def classify(subject: str, *paths: str, body: str = "", closes_issue: bool = False) -> CommitKind:
    return classify_commit(subject, body, paths or SOURCE, closes_issue=closes_issue)


@pytest.mark.parametrize(
    ("subject", "kind", "title"),
    [
        ("feat: add a parser", "feature", "add a parser"),
        ("FIX(parser): off by one", "fix", "parser: off by one"),
        ("perf: cache it", "performance", "cache it"),
        ("docs: add a guide", "documentation", "add a guide"),
        ("chore(deps): fix versions", "build", "deps: fix versions"),
        ("revert: feat: add a parser", "revert", "feat: add a parser"),
    ],
)
def test_type_decides(subject: str, kind: str, title: str) -> None:
    """A type of Conventional Commits, in any case, decides before words and files."""
    assert (classify(subject, "docs/a.md").name, classify(subject).title) == (kind, title)


@pytest.mark.parametrize(
    ("subject", "kind"),
    [
        *(("Add a parser", "feature"), ("allow lists", "feature"), ("New option --all", "feature")),
        *(("Fixed a crash", "fix"), ("Don't crash", "fix"), ("[core] Prevent a leak", "fix")),
        *(("regex: fix the parser", "fix"), ("a: add tests", "tests"), ("Fixture", "other")),
        *(
            ("Remove Python 2", "removal"),
            ("remove unused imports", "refactoring"),
            ("deprecate x", "removal"),
        ),
        *(("Bump version", "build"), ("Update dependencies", "build"), ("Fix typos", "documentation")),
        *(
            ("Speed up the walk", "performance"),
            ("Rename a class", "refactoring"),
            ('Revert "Add x"', "revert"),
        ),
        *(
            ("Fix crash: parser returned None", "fix"),
            ("Added: x", "feature"),
            ("Fixed: removal of x", "fix"),
        ),
        *(("Remove [a] from b", "removal"), ("sort: fix the order", "fix"), ("format.c: handle x", "fix")),
        *(
            ("core!: drop Python 3.8", "removal"),
            ("a parser: it adds x", "other"),
            ("sort: x", "refactoring"),
        ),
        *(("Whatever", "other"), ("Addendum", "other"), ("", "other")),
    ],
)
def test_first_words_decide(subject: str, kind: str) -> None:
    """Without a type the first words decide, also after a prefix such as `core:`; parts of words do not count."""
    assert classify(subject).name == kind


@pytest.mark.parametrize(
    ("paths", "kind"),
    [
        (("tests/test_a.py",), "tests"),
        (("docs/a.rst", "README.md"), "documentation"),
        ((".github/workflows/ci.yml", "setup.cfg"), "build"),
        (("tests/test_a.py", "src/a.py"), "feature"),
        (("tests/test_a.py", "docs/a.rst"), "feature"),
    ],
)
def test_files_of_one_role_decide(paths: tuple[str, ...], kind: str) -> None:
    """A commit that changes only tests, documentation or build files is of that kind, unless it is a revert."""
    assert classify("Add x", *paths).name == kind
    assert classify('Revert "Add x"', *paths).name == "revert"


def test_closing_an_issue_is_a_fix() -> None:
    """A commit that closes an issue is a fix if its subject says nothing else."""
    assert classify("Whatever", closes_issue=True).name == "fix"
    assert classify("Add x", closes_issue=True).name == "feature"


@pytest.mark.parametrize(
    ("subject", "paths", "is_user_facing"),
    [
        ("Add a parser", SOURCE, True),
        ("Add a parser", (), True),
        ("fix: a test", ("tests/test_a.py",), False),
        ("fix(ci): the build", SOURCE, False),
        ("Fix mypy findings", SOURCE, False),
        ("refactor: rename", SOURCE, False),
        ("refactor!: rename", SOURCE, True),
        ("Whatever", SOURCE, False),
    ],
)
def test_user_facing_changes(subject: str, paths: tuple[str, ...], is_user_facing: bool) -> None:
    """Users notice features, fixes and the like in program files, and every breaking change."""
    assert classify_commit(subject, "", paths, closes_issue=False).is_user_facing == is_user_facing


def test_breaking_changes() -> None:
    """An exclamation mark or a footer marks a breaking change, with or without a type."""
    assert classify("fix!: x").is_breaking and classify("feat(a)!: x").is_breaking
    assert classify("core!: drop Python 3.8").is_breaking and classify("net/http(a)!: x").is_user_facing
    assert classify("Whatever", body="text\n\nBREAKING CHANGE: no more x").is_breaking
    assert not classify("fix: x!", body="no BREAKING CHANGE: here").is_breaking


def test_counts_are_in_the_order_of_output() -> None:
    """Kinds are counted in a fixed order, without those that do not occur."""
    counts = count_kinds(["other", "fix", "feature", "fix"])
    assert list(counts.items()) == [("feature", 1), ("fix", 2), ("other", 1)]
