"""The sheets of questions are well-formed, and there are enough of them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.eval import handwritten, learn
from tests.eval.handwritten import BEGINNING, Written, sheets
from tests.eval.question import PRECEDENT
from tests.repos import Repo

EVERY = [written for sheet in sheets().values() for written in sheet.questions]
LEARNT = [written for sheet in sheets(learn.SHEETS).values() for written in sheet.questions]


def test_enough() -> None:
    """At least 120 questions on four histories in four languages, of every kind on each."""
    assert len(EVERY) >= 120
    assert len({sheet.root for sheet in sheets().values()}) == 4
    assert len({sheet.language for sheet in sheets().values()}) == 4
    for sheet in sheets().values():
        kinds = {written.kind for written in sheet.questions}
        assert kinds == {"implementation", "bug fix", "api", "configuration", "none"}


def test_asked_once() -> None:
    """No question is there twice."""
    texts = [written.text.casefold() for written in (*EVERY, *LEARNT)]
    assert len(set(texts)) == len(texts)


def test_nothing_is_learnt_from_what_measures() -> None:
    """The histories whose questions the ranker learns from are others than those it is measured on."""
    assert len(LEARNT) >= 100
    assert not set(sheets()) & set(sheets(learn.SHEETS))
    roots = [
        {sheet.root for sheet in sheets(folder).values()} for folder in (handwritten.FOLDER, learn.SHEETS)
    ]
    assert not roots[0] & roots[1]


@pytest.mark.parametrize("written", [*EVERY, *LEARNT], ids=lambda written: written.text)
def test_answers(written: Written) -> None:
    """Each has a precedent unless it has none; no commit is judged twice; a reason is a few words on one line."""
    shas = [answer.sha for answer in written.answers]
    assert (written.kind == "none") == (not shas)
    assert not shas or max(answer.grade for answer in written.answers) == PRECEDENT
    assert len(set(shas)) == len(shas)
    judged = [*(sha[:BEGINNING] for sha in shas), *written.dismissed]
    assert len(set(judged)) == len(judged)
    assert all("\n" not in answer.why and len(answer.why) < 120 for answer in written.answers)


def test_refused(tmp_path: Path) -> None:
    """A short sha, an unknown kind and a misspelt key are refused by name."""
    begin = f'history = "a/b"\nlanguage = "python"\nroot = "{"a" * 40}"\nhead = "{"a" * 40}"\n'
    for wrong in (
        '[[questions]]\ntext = "how?"\nkind = "api"\nanswers = [{ sha = "abc", grade = 3, why = "it does" }]',
        '[[questions]]\ntext = "how?"\nkind = "riddle"',
        '[[questions]]\ntext = "how?"\nkind = "none"\nanswer = []',
    ):
        path = tmp_path / "sheet.toml"
        path.write_text(begin + wrong)
        with pytest.raises(msgspec.ValidationError):
            handwritten.sheet(path)


def test_only_its_own_history(tmp_path: Path) -> None:
    """A history nobody wrote a sheet for has none."""
    repo = Repo.create(tmp_path)
    repo.commit_file("a.py", "a = 1\n")
    assert handwritten.sheet_of(repo.path) is None
