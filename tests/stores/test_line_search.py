"""Search for commits whose stored diffs contain given lines."""

from __future__ import annotations

import pytest

from stores import exact_search
from stores.exact_search import DiffLinePattern, find_changed_lines
from tests.stores.sample_index import SampleHunk, create_index, make_sha


@pytest.mark.parametrize("max_contains", [0, 9])
def test_find_changed_lines(max_contains: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pattern has the reachable changes whose diff has its line, oldest first, for few and for many patterns."""
    monkeypatch.setattr(exact_search, "MAX_CONTAINS", max_contains)
    diffs = [
        "@@ -1 +1 @@\n-a(b)\n+c\n",
        "@@ -1 +1 @@\n+a(b)\n",
        "@@ -1 +1 @@\n a(b)\n",
        "@@ -1 +1 @@\n+a(b).c\n",
    ]
    connection = create_index([SampleHunk(number, "a.py") for number in range(4, 0, -1)])
    for number, diff in enumerate(diffs, start=1):
        connection.execute("UPDATE hunks SET diff = ? WHERE commit_sha = ?", [diff, make_sha(number)])
    removed = DiffLinePattern("a(b)", r"(?m)^-a\(b\)$")
    added = DiffLinePattern("a(b)", r"(?m)^\+.*a\(b\)")
    other = DiffLinePattern("nowhere", "nowhere")
    found = find_changed_lines(connection, [removed, added, other], lambda _: True)
    shas = [[change.commit_sha for change in changes] for changes in found]
    assert shas == [[make_sha(1)], [make_sha(2), make_sha(4)], []]
    found = find_changed_lines(connection, [added], lambda sha: sha != make_sha(2))
    assert [(change.commit_sha, change.file_path, change.old_path) for change in found[0]] == [
        (make_sha(4), "a.py", None)
    ]
    assert find_changed_lines(connection, [], lambda _: True) == []
