"""References in commit messages: a table of forms, and trailers compared with git's own."""

from __future__ import annotations

from pathlib import Path
from time import process_time
from typing import Final

import pytest

from serve.references import (
    MAX_REFERENCES,
    MAX_TRAILER_CHARS,
    Reference,
    describe_evidence,
    find_numbers,
    parse_references,
    parse_trailers,
)
from tests.repos import Repo

# Quadratic time would be several times as much.
MAX_SECONDS: Final = 0.5
OWN_NAMES = {"pallets/flask"}
# Message, and the kind and text of each reference.
FORMS = {
    "a number": ("Fix a bug, see #12", ["issue #12"]),
    "several numbers, each once": ("See #12 and #13, like #12", ["issue #12", "issue #13"]),
    "GH-": ("gh-12: Fix a bug (see GH-13)", ["issue #12", "issue #13"]),
    "another repository": ("Work around psf/requests#12", ["issue psf/requests#12"]),
    "the own repository by name": ("Fix pallets/flask#12", ["closes #12"]),
    "closing words": (
        "Closes #1, fixed: #2, Resolve GH-3, see #4",
        ["closes #1", "closes #2", "closes #3", "issue #4"],
    ),
    "a list after a closing word": (
        "Fixes #1, #2 and #3; #4",
        ["closes #1", "closes #2", "closes #3", "issue #4"],
    ),
    "a squashed pull request": (
        "Mend #12 (#13)\n\nLike (#14)\n",
        ["issue #12", "pull_request #13", "issue #14"],
    ),
    "a backport of one": ("Fix it (#12) (#13)", ["pull_request #12", "pull_request #13"]),
    "GitHub's merge": ("Merge pull request #12 from ada/fix\n\nFix #3\n", ["pull_request #12", "closes #3"]),
    "GitLab's merge": (
        "Merge branch 'fix' into 'main'\n\nFix it\n\nSee merge request group/sub/project!12",
        ["pull_request group/sub/project!12"],
    ),
    "URLs of the own repository": (
        "See https://github.com/pallets/flask/issues/12#issuecomment-3 and http://github.com/pallets/flask/pull/13/files",
        ["issue #12", "pull_request #13"],
    ),
    "URLs of other repositories": (
        "Fixes https://github.com/psf/black/issues/12.\nhttps://gitlab.com/a/b/c/-/merge_requests/3",
        ["closes psf/black#12", "pull_request a/b/c!3"],
    ),
    "a URL of another host": ("https://git.example.org/a/b/-/issues/3", ["issue git.example.org/a/b#3"]),
    "a Markdown link": ("[#12](https://github.com/psf/black/issues/12)", ["issue psf/black#12"]),
    "tickets": ("ABC-12: Fix LIB2-3, ABC-12", ["ticket ABC-12", "ticket LIB2-3"]),
    "no tickets": (
        "UTF-8, SHA-256, ISO-8859-1, ISO-8601, RFC-2822, PEP-8, AB-12-x, X-1.5, docs/ABC-12, ABC-0",
        [],
    ),
    "advisories": (
        "Fix CVE-2024-12345 (GHSA-2g4f-3pqr-5vwx)",
        ["advisory CVE-2024-12345", "advisory GHSA-2g4f-3pqr-5vwx"],
    ),
    "no numbers": (
        "Colors #000000 #112233ff &#12; C#12 a#b #12px #1.5 page.html#12 https://x.org/a#12 !12",
        [],
    ),
    "a revert": ("Revert it\n\nThis reverts commit 1f2e3d4c5b6a.", ["reverts 1f2e3d4c5b6a"]),
    "a cherry-pick": (
        "Fix it\n\n(cherry picked from commit 1f2e3d4c5b6a)\nSigned-off-by: Ada <a@x>",
        ["cherry_picked_from 1f2e3d4c5b6a"],
    ),
    "trailers": (
        'Fix it\n\nBody.\n\nFixes: 1f2e3d4c ("Break #9")\nReviewed-by: Ada <a@x>\nTested-by: Ada <a@x>\n'
        "Signed-off-by: Bob <b@x>\nChange-Id: I12",
        [
            "issue #9",
            'trailer Fixes: 1f2e3d4c ("Break #9")',
            "trailer Reviewed-by: Ada <a@x>",
            "trailer Tested-by: Ada <a@x>",
            "trailer Change-Id: I12",
        ],
    ),
    "trailers that are references": (
        "Fix it\n\nCloses: #12\nRefs: ABC-3, #13\n",
        ["closes #12", "ticket ABC-3", "issue #13"],
    ),
    "CRLF": ("Fix it (#12)\r\n\r\nReviewed-by: Ada\r\n", ["pull_request #12", "trailer Reviewed-by: Ada"]),
    "trailers named like kinds": (
        "Fix it\n\nIssue: Note: run it\nTicket: now\nReverts: all",
        ["trailer Issue: Note: run it", "trailer Ticket: now", "trailer Reverts: all"],
    ),
    "an issue that is closed later": ("See #12\n\nCloses #12", ["closes #12"]),
    "nothing": ("", []),
}


@pytest.mark.parametrize("form", FORMS)
def test_form(form: str) -> None:
    """Each form of a reference is found once, with its kind, and nothing else is."""
    message, expected = FORMS[form]
    references = parse_references(message, OWN_NAMES)
    assert [f"{reference.kind} {reference.text}" for reference in references] == expected


def test_many_references() -> None:
    """Of a message that quotes a changelog, an answer gets the first references; a search sees all numbers."""
    message = " ".join(f"#{number}" for number in range(1, 1000))
    assert len(parse_references(message)) == MAX_REFERENCES
    assert len(list(find_numbers(message))) == 999


def test_commits_and_trailers_after_many_numbers() -> None:
    """Many numbers do not push out the commits and the trailers of a message."""
    numbers = " ".join(f"#{number}" for number in range(1, 50))
    message = f"{numbers}\n\nThis reverts commit 1f2e3d4c5b6a.\n\nReviewed-by: Ada"
    assert parse_references(message)[MAX_REFERENCES:] == (
        Reference("reverts", "1f2e3d4c5b6a"),
        Reference("trailer", "Reviewed-by: Ada"),
    )


def test_long_trailer() -> None:
    """A trailer of many lines is cut, and reading it takes linear time."""
    message = "Subject\n\nKey: value\n" + " more\n" * 300_000
    started_at = process_time()
    [reference] = parse_references(message)
    assert process_time() - started_at < MAX_SECONDS
    assert reference.text.startswith("Key: value more more")
    assert len(reference.text) == MAX_TRAILER_CHARS


@pytest.mark.parametrize(
    "message",
    [
        f"Fix{' ' * 19_000}it",
        f"Closes #1{' ' * 8_000}x{' #2' * 3_000}",
        f"Fix it{' (#1)' * 3_900} now",
    ],
    ids=["spaces", "spaces after a closed issue", "numbers"],
)
def test_hostile_subject(message: str) -> None:
    """Long runs of spaces and numbers take linear time."""
    started_at = process_time()
    parse_references(message)
    assert process_time() - started_at < MAX_SECONDS


def test_hostile_message() -> None:
    """Long messages without a reference take linear time."""
    for message in ("a/" * 20_000, "http://" * 20_000, "A1-" * 20_000, "#" * 60_000, "Closes " * 20_000):
        assert parse_references(message) == ()


TRAILER_MESSAGES = (
    "Subject\n\nReviewed-by: Ada\nTested-by: Bob\n",
    "Subject\nReviewed-by: Ada\n",
    "Reviewed-by: Ada\n",
    "Subject\n\nBody.\nReviewed-by: Ada\n",
    "Subject\n\nBody.\n\nReviewed-by: Ada\n continued\nTested-by: Bob\n",
    "Subject\n\nReviewed-by: Ada\n\nBody.\n",
    "Subject\n\none\ntwo\nSigned-off-by: Ada\n",
    "Subject\n\none\ntwo\nthree\nfour\nSigned-off-by: Ada\n",
    "Subject\n\ntext\n(cherry picked from commit 0123456789)\nReviewed-by : Ada\n",
    "Subject\n\n continued\nReviewed-by: Ada\n",
    "Subject\n\nSee: this\nand that\n",
    "Subject\n\nReviewed-by: Ada\n# a comment\nTested-by: Bob\n",
    "Subject\n\nReviewed-by: Ada\n   \n",
    "\n\nSubject\n\nKey: value\n",
    "Subject\n\nKey with space: value\n",
    "Subject\n\nhttps://example.org\nReviewed-by: Ada\n",
)


def test_trailers_equal_git(tmp_path: Path) -> None:
    """Trailers are those that git finds in the message of a commit."""
    repo = Repo.create(tmp_path)
    tree = repo.git("write-tree")
    for message in TRAILER_MESSAGES:
        sha = repo.git("commit-tree", tree, stdin=message.encode())
        printed = repo.git("show", "-s", "--format=%(trailers:only,unfold)", sha).strip().splitlines()
        assert [f"{key}: {value}" for key, value in parse_trailers(message)] == printed, message


def test_description() -> None:
    """A hit's line has the references that its message does not show, the release and the copies, without controls."""
    references = (
        Reference("issue", "#12"),
        Reference("ticket", "ABC-3"),
        Reference("trailer", "Issue: run this"),
    )
    assert (
        describe_evidence(references, "2.3.0", ["a" * 40], "b" * 40, "Fix #12")
        == f"ABC-3 · first tag 2.3.0 · also {'a' * 10} · reverted by {'b' * 10}"
    )
    assert describe_evidence(references[:1], None, (), None, "Fix #123") == "#12"
    assert (
        describe_evidence((), "v1\u202e\x9b", (), None, "") == "first tag v1\\u202e\N{REPLACEMENT CHARACTER}"
    )
    assert not describe_evidence((), None, (), None, "")
    revert = (Reference("reverts", "c" * 40),)
    assert describe_evidence(revert, None, (), None, 'Revert "Add it"') == f"reverts {'c' * 10}"
    assert not describe_evidence(revert, None, (), None, f"This reverts commit {'c' * 40}.")
    closed = [
        Reference("closes", "#1"),
        Reference("issue", "#2"),
        Reference("closes", "#3"),
        Reference("issue", "#4"),
    ]
    assert describe_evidence(closed, None, (), None, "") == "#2, closes #1, #3"
