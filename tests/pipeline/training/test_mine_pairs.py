"""What the transformers learn from, over a small real history: what is read and asked, and what stands beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline.encoders.base import tokenizer
from pipeline.training import mine_pairs
from pipeline.training.candidates import Lanes, told
from pipeline.training.commit_sampling import Merged, merges, title
from pipeline.training.mine_pairs import Kind, questions
from pipeline.training.pair_dataset import History, files
from tests.eval import handwritten, learn, results
from tests.pipeline.training.sample_history import COMMITS, MERGES
from tests.repos import Repo


def test_what_is_told(repo: Repo) -> None:
    """A commit's message in parts, its line in the changelog without markup, and its change without either."""
    commits = told(repo.path, 100, 1)
    assert len(commits) == COMMITS + 2 * MERGES
    one = next(commit for commit in commits if "locks end after 9 " in commit.subject)
    assert one.subject == "Let waiting for locks end after 9 seconds"
    assert one.sentences[0] == "A peer that never answers kept locks and its caller forever."
    assert one.news == "locks number 9 no longer wait for peers that never answer"
    (change,) = one.changes
    assert "return waited(limit, locks)" in change
    assert "peer" not in change
    assert told(repo.path, 5, 1) == commits[:5] != told(repo.path, 5, 2)


def test_what_is_asked(repo: Repo) -> None:
    """Of news, sentences and titles their share, of subjects the rest.

    A sentence is not in what is left of its message; a title is answered by every commit of its branch.
    """
    commits = told(repo.path, 100, 1)
    asked = questions(commits, merges(repo.path, 1, 100), 80)
    assert {kind: sum(one.kind is kind for one in asked) for kind in Kind} == {
        Kind.SUBJECT: 36,
        Kind.SENTENCE: 24,
        Kind.NEWS: 16,
        Kind.TITLE: 4,
    }
    for one in asked:
        assert (one.text in one.rest) is False
        assert bool(one.rest) is (one.kind in (Kind.SENTENCE, Kind.NEWS))
    for one in (one for one in asked if one.kind is Kind.TITLE):
        number = one.text.removeprefix("Look at how slow port ").removesuffix(" is")
        said = {commits[answer].subject for answer in one.commits}
        assert said == {f"Measure reading {number} too", f"Measure writing {number} too"}


def test_titles_of_merges(repo: Repo) -> None:
    """A merge that a forge wrote says what it brings; what its commit says already asks nothing."""
    found = {merge.title: merge.commits for merge in merges(repo.path, 1, 100)}
    assert {title: len(commits) for title, commits in found.items()} == {
        f"Look at how slow port {number} is": 2 for number in range(MERGES)
    }
    assert found == {merge.title: merge.commits for merge in merges(repo.path, 2, 100)}
    alone = [Merged(commit.subject, (commit.sha,)) for commit in told(repo.path, 100, 1)]
    assert not [one for one in questions(told(repo.path, 100, 1), alone, 80) if one.kind is Kind.TITLE]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            "Merge pull request #3 from ada/part\n\nfix: Wait no longer than asked (#3)",
            "Wait no longer than asked",
        ),
        ("Auto merge of #3 - ada:part, r=bob\n\nWait no longer than asked\n", "Wait no longer than asked"),
        ("Merge #3\n\n3: Wait no longer than asked r=bob a=ada", "Wait no longer than asked"),
        ("Merge branch 'main' into part\n\n# Conflicts:\n#\tsrc/a.py", ""),
        ("Merge branch 'part'", ""),
        ("Merge pull request #3 from ada/part\n\nRelease 3.1 of it", ""),
        ("Wait no longer\n\nThan asked by anybody", ""),
    ],
)
def test_what_a_merge_says(message: str, said: str) -> None:
    """The line below the forge's own, without numbers and reviewers; conflicts and releases say nothing."""
    assert title(message) == said


def test_the_answer_is_found(repo: Repo) -> None:
    """Both lanes put the change that a name leads to before the others."""
    commits = told(repo.path, 100, 1)
    lanes = Lanes.of(commits)
    for shown in (False, True):
        for scores in lanes.ask(["what is replies_6 for?"], shown=shown):
            best = commits[lanes.commit[int(np.argmax(scores[0]))]]
            assert "replies end after 6 " in best.message


def test_candidates(repo: Repo, lists: Path) -> None:
    """First a change of the commit that answers, then one of each other commit, and what the lanes know of each."""
    commits = told(repo.path, 100, 1)
    asked = questions(commits, merges(repo.path, 1, 100), 80)
    with np.load(lists) as kept:
        commit, found, numbers, known = (kept[name] for name in ("commit", "lists", "asked", "known"))
    assert len(found) > 50
    for number, line in zip(numbers, found, strict=True):
        answering = commit[line]
        assert answering[0] in asked[number].commits
        assert not set(answering[1:].tolist()) & set(asked[number].commits)
        assert len(set(answering.tolist())) == mine_pairs.OTHERS + 1
    assert known.shape == (*found.shape, 2)
    assert 0 <= known[..., 0].min() < known[..., 0].max() <= 1


def test_lists_are_read(repo: Repo, lists: Path) -> None:
    """A list's parts by its place: of subjects no message is shown, of a sentence's answer what is left of it."""
    del repo
    history = History.read(lists)
    decode = tokenizer().decode
    for place in range(len(history)):
        kind, (answer, *others) = history.kind(place), history.candidates(place)
        assert len(others) == mine_pairs.OTHERS
        assert history.shown(place, None) is (kind is not Kind.SUBJECT)
        asked, left = decode(history.question(place, None)), decode(history.message(place, answer))
        assert ("let waiting" in left) is (kind is not Kind.TITLE and "measure" not in left)
        assert (asked in left) is (kind is Kind.SUBJECT)
    subjects = [place for place in range(len(history)) if history.kind(place) is Kind.SUBJECT]
    chance = np.random.default_rng(1)
    opened = [decode(history.question(place, chance)).startswith(("how", "where")) for place in subjects]
    assert 0 < sum(opened) < len(opened) / 2


def test_held_out_lists(lists: Path) -> None:
    """A history that is held out is not learnt from, and one without lists is told of."""
    assert files(lists.parent, []) == ([lists], [])
    assert files(lists.parent, ["repo"]) == ([], [lists])
    with pytest.raises(KeyError, match="gone"):
        files(lists.parent, ["repo", "gone"])


def test_named_histories_are_not_measured_on() -> None:
    """No history that rankings are measured on had a part in the network, nor one with graded questions.

    Of those whose bodies and written questions the evidence alone was weighed by, two had.
    """
    lines = (Path(mine_pairs.__file__).parent / "pair_histories.txt").read_text(encoding="ascii").splitlines()
    named = {line.split()[0].partition("/")[2] for line in lines if not line.startswith("#")}
    # A clone's folder may be called by its owner too.
    measured = {
        name.rpartition("+")[2] for line in pl.read_csv(results.FILE)["history"] for name in line.split(" + ")
    }
    assert len(named) == 69
    assert {"attrs", "trio", "ripgrep"} < measured
    assert not named & (
        measured | set(handwritten.sheets()) | {file.stem for file in learn.SHEETS.glob("*.toml")}
    )
    assert named & {file.stem for file in learn.WRITTEN.glob("*.toml")} == {"moshi", "kit"}
