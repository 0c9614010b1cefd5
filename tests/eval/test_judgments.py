"""Tests of `tests.eval.judgments`, and checks of the query sheets."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec
import pytest

from tests.eval import judgments, learn
from tests.eval.judgments import HIGHLY_RELEVANT, SHA_PREFIX_LENGTH, HandwrittenQuery, load_sheets
from tests.repos import Repo

HOLDOUT = [query for sheet in load_sheets().values() for query in sheet.questions]
DEVELOPMENT = [
    query for sheet in load_sheets(judgments.DEVELOPMENT_FOLDER).values() for query in sheet.questions
]
TRAINING = [query for sheet in load_sheets(learn.SHEETS_FOLDER).values() for query in sheet.questions]


def test_holdout_size() -> None:
    """There are at least 120 queries about four histories in four languages, with every kind for each history."""
    assert len(HOLDOUT) >= 120
    assert len({sheet.root for sheet in load_sheets().values()}) == 4
    assert len({sheet.language for sheet in load_sheets().values()}) == 4
    for sheet in load_sheets().values():
        kinds = {query.kind for query in sheet.questions}
        assert kinds == {"implementation", "bug fix", "api", "configuration", "none"}


def test_development_size() -> None:
    """For development there are 150 queries with an answer about six histories in five languages, of every kind."""
    sheets = load_sheets(judgments.DEVELOPMENT_FOLDER).values()
    assert len([query for query in DEVELOPMENT if query.answers]) >= 150
    assert len(sheets) == 6
    assert len({sheet.language for sheet in sheets}) >= 5
    for sheet in sheets:
        assert {query.kind for query in sheet.questions} == set(get_args(judgments.Kind)) - {"bug fix"}


def test_distinct_texts() -> None:
    """No query occurs twice."""
    texts = [query.text.casefold() for query in (*HOLDOUT, *TRAINING, *DEVELOPMENT)]
    assert len(set(texts)) == len(texts)


def test_histories_are_disjoint() -> None:
    """Each history has queries for one purpose: training, development or holdout."""
    assert len(TRAINING) >= 100
    folders = (judgments.SHEETS_FOLDER, learn.SHEETS_FOLDER, judgments.DEVELOPMENT_FOLDER)
    roots = [sheet.root for folder in folders for sheet in load_sheets(folder).values()]
    assert len(set(roots)) == len(roots)


@pytest.mark.parametrize("query", [*HOLDOUT, *TRAINING, *DEVELOPMENT], ids=lambda query: query.text)
def test_answers(query: HandwrittenQuery) -> None:
    """Each query has a highly relevant commit unless it has none; no commit is judged twice; reasons are short."""
    shas = [answer.sha for answer in query.answers]
    assert (query.kind == "none") == (not shas)
    assert not shas or max(answer.grade for answer in query.answers) == HIGHLY_RELEVANT
    assert len(set(shas)) == len(shas)
    judged = [*(sha[:SHA_PREFIX_LENGTH] for sha in shas), *query.dismissed]
    assert len(set(judged)) == len(judged)
    assert all("\n" not in answer.why and len(answer.why) < 120 for answer in query.answers)


def test_invalid_sheets(tmp_path: Path) -> None:
    """A short sha, an unknown kind and an unknown key raise an error."""
    start = f'history = "a/b"\nlanguage = "python"\nroot = "{"a" * 40}"\nhead = "{"a" * 40}"\n'
    for invalid in (
        '[[questions]]\ntext = "how?"\nkind = "api"\nanswers = [{ sha = "abc", grade = 3, why = "it does" }]',
        '[[questions]]\ntext = "how?"\nkind = "riddle"',
        '[[questions]]\ntext = "how?"\nkind = "none"\nanswer = []',
    ):
        path = tmp_path / "sheet.toml"
        path.write_text(start + invalid)
        with pytest.raises(msgspec.ValidationError):
            judgments.load_sheet(path)


def test_history_without_sheet(tmp_path: Path) -> None:
    """`find_sheet` returns None for a history without a sheet."""
    repo = Repo.create(tmp_path)
    repo.commit_file("a.py", "a = 1\n")
    assert judgments.find_sheet(repo.path) is None
