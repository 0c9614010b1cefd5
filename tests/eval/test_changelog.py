"""Tests of `tests.eval.changelog`: queries from news fragments."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.git.repository import open_repository
from pipeline.ignore import IgnoreRules
from tests.eval.changelog import append_ignore_rules, clean_text, create_queries, is_fragment
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
def test_clean_text(fragment: str) -> None:
    """Markup, URLs and issue numbers are removed; identifiers stay whole."""
    assert clean_text(fragment) == CLEANED[fragment]


def test_is_fragment() -> None:
    """Fragments are in a changelog folder and named after an issue and a kind; changesets have any name."""
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


def test_front_matter_and_byline() -> None:
    """The front matter of a changeset and the byline of a fragment are removed."""
    assert clean_text('---\n"@urql/core": patch\n---\n\nFix `retry` of queries.\n') == "Fix retry of queries."
    assert clean_text("Paths with spaces work again - by :user:`ada`.\n") == "Paths with spaces work again"


def test_relevant_commits_change_source(tmp_path: Path) -> None:
    """A relevant commit adds a fragment and changes source; lone, renamed and converted fragments give no query."""
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

    (query,) = create_queries(repo.path)

    assert query.text == "Close the socket after an error."
    assert query.relevant == {fixed, again}


def test_root_commit(tmp_path: Path) -> None:
    """Fragments of a root commit give no query, neither in a full nor in a shallow clone."""
    repo = Repo.create(tmp_path / "repo")
    repo.write("newsfragments/1.bugfix.rst", "Close the socket after an error.\n")
    repo.commit_file("socket.py", "closed = True\n")
    for number in (2, 3):
        repo.write(f"newsfragments/{number}.bugfix.rst", f"Wait for the socket {number} seconds longer.\n")
        repo.commit_file("socket.py", f"wait = {number}\n")
    repo.git("clone", "--quiet", "--depth", "2", repo.path.as_uri(), str(tmp_path / "shallow"))

    clones = (repo.path, tmp_path / "shallow")
    assert [[query.text for query in create_queries(path)] for path in clones] == [
        ["Wait for the socket 2 seconds longer.", "Wait for the socket 3 seconds longer."],
        ["Wait for the socket 3 seconds longer."],
    ]


def test_append_ignore_rules(tmp_path: Path) -> None:
    """The working copy ignores fragments and changelogs, and its existing rules still apply."""
    repo = Repo.create(tmp_path)
    repo.write(".lineageignore", "/generated/\n")
    repo.commit_file("a.py", "a = 1\n")
    append_ignore_rules(repo.path)
    rules = IgnoreRules.from_repository(open_repository(repo.path))
    ignored = ["newsfragments/1.bugfix.rst", "changelog.d/1.change.md", "CHANGELOG.md", "docs/changelog.rst"]
    assert all(map(rules.is_ignored, [*ignored, "docs/source/history.rst", "generated/a.py"]))
    assert not any(map(rules.is_ignored, ["a.py", "src/changelogs.py", "docs/index.rst"]))
