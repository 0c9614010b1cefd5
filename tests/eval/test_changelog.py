"""Fragments become questions whose answers are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.git.repository import open_repository
from pipeline.ignore import IgnoreRules
from tests.eval.changelog import is_fragment, leave_out, question_of, questions
from tests.repos import Repo

CLEANED = {
    "Fixed :func:`trio.run` (`#123 <https://example.org/issues/123>`__).": "Fixed trio.run.",
    "The dunder methods of `attrs.evolve()` aren't _mangled_ anymore.\n[#240](https://example.org/240)": (
        "The dunder methods of attrs.evolve() aren't mangled anymore."
    ),
    ":issue:`86`: Fix **slow** ``__init__`` on `PyPy <https://example.org>`_": ": Fix slow __init__ on PyPy",
    "See https://example.org/x for more, GH-12 and issue #13.": "See for more, and .",
    "Use it::\n\n.. code-block:: python3\n\n    a_b = run(c_d)\n": "Use it:: a_b = run(c_d)",
    "- Added `PluginManager.unblock`.\n\n```python\npm.unblock()\n```\n": "Added PluginManager.unblock. pm.unblock()",
}


@pytest.mark.parametrize("fragment", CLEANED)
def test_markup_and_numbers_go(fragment: str) -> None:
    """A question is the fragment's words: no markup, no addresses, no issue numbers; names stay whole."""
    assert question_of(fragment) == CLEANED[fragment]


def test_what_is_a_fragment() -> None:
    """Fragments lie in a folder of that name and are named for an issue and a kind; changesets have any name."""
    paths = [
        "changelog.d/1606.change.md",
        "newsfragments/3041.bugfix.rst",
        "newsfragments/README.rst",
        "changelog/_template.rst",
        "changelog/120.removal.1.rst",
        "docs/newsfragments/1.bugfix.rst",
        "changelog.d/towncrier_template.md.jinja",
        "docs/changelog/3999.bugfix.rst",
        "docs/changelog/template.jinja2",
        "src/twisted/newsfragments/12325.bugfix",
        ".changeset/quiet-pens-shout.md",
        ".changeset/README.md",
        ".changeset/config.json",
    ]
    fragments = [paths[0], paths[1], paths[4], paths[7], paths[9], paths[10]]
    assert [path for path in paths if is_fragment(path)] == fragments


def test_a_changeset_says_packages_first() -> None:
    """What a changeset says to the tool is no part of the question, nor is who wrote a fragment."""
    assert (
        question_of('---\n"@urql/core": patch\n---\n\nFix `retry` of queries.\n') == "Fix retry of queries."
    )
    assert question_of("Paths with spaces work again - by :user:`ada`.\n") == "Paths with spaces work again"


def test_answers_touch_source(tmp_path: Path) -> None:
    """The answer adds a fragment and touches source; fragments alone, moved or translated ask nothing."""
    repo = Repo.create(tmp_path)
    repo.commit_file("README", "Sockets\n", "Begin")
    repo.write("newsfragments/1.bugfix.rst", "Close the socket after an error.\n")
    fixed = repo.commit_file("socket.py", "closed = True\n")
    repo.commit_file("newsfragments/2.misc.rst", "Say more about closing sockets.\n")
    repo.rename("newsfragments/1.bugfix.rst", "newsfragments/9.bugfix.rst")
    repo.commit_file("socket.py", "closed = False\n")
    repo.remove("newsfragments/9.bugfix.rst")
    repo.write("newsfragments/9.bugfix.md", "# Close the *socket* after an error, always.\n")
    repo.commit_file("socket.py", "closed = None\n")
    repo.remove("newsfragments")
    repo.commit("Release")
    repo.write("newsfragments/1.bugfix.rst", "Close the socket after an error.\n")
    again = repo.commit_file("socket.py", "closed = True\n")

    (question,) = questions(repo.path)

    assert question.text == "Close the socket after an error."
    assert question.answers == {fixed, again}


def test_what_was_there_when_a_history_begins(tmp_path: Path) -> None:
    """What the first commit brings along asks nothing, nor what the first one of a clone that is cut seems to."""
    repo = Repo.create(tmp_path / "repo")
    repo.write("newsfragments/1.bugfix.rst", "Close the socket after an error.\n")
    repo.commit_file("socket.py", "closed = True\n")
    for number in (2, 3):
        repo.write(f"newsfragments/{number}.bugfix.rst", f"Wait for the socket {number} seconds longer.\n")
        repo.commit_file("socket.py", f"wait = {number}\n")
    repo.git("clone", "--quiet", "--depth", "2", repo.path.as_uri(), str(tmp_path / "cut"))

    asked = [[one.text for one in questions(path)] for path in (repo.path, tmp_path / "cut")]

    assert asked == [
        ["Wait for the socket 2 seconds longer.", "Wait for the socket 3 seconds longer."],
        ["Wait for the socket 3 seconds longer."],
    ]


def test_fragments_are_left_out(tmp_path: Path) -> None:
    """The working copy's index knows neither fragments nor changelogs, and its own rules stay."""
    repo = Repo.create(tmp_path)
    repo.write(".lineageignore", "/generated/\n")
    repo.commit_file("a.py", "a = 1\n")
    leave_out(repo.path)
    rules = IgnoreRules.of(open_repository(repo.path))
    hidden = ["newsfragments/1.bugfix.rst", "changelog.d/1.change.md", "CHANGELOG.md", "docs/changelog.rst"]
    assert all(map(rules.ignored, [*hidden, "docs/source/history.rst", "generated/a.py"]))
    assert not any(map(rules.ignored, ["a.py", "src/changelogs.py", "docs/index.rst"]))
