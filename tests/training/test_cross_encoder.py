"""How the cross-encoder is made, over a small real history: what is read, what is asked, what stands beside answers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import pytest

from pipeline.cross_encoder import MARKS, QUESTION_TOKENS
from pipeline.encoder import MODELS, tokenizer
from pipeline.models import cross
from tests.eval import handwritten, learn, results
from tests.repos import Repo
from training.cross_encoder import mine
from training.cross_encoder.batches import OTHERS, TRAINED_TOKENS, Lists
from training.cross_encoder.lanes import Lanes
from training.cross_encoder.mine import Kind, Source, mined, questions
from training.cross_encoder.naming import named, state
from training.cross_encoder.told import told

COMMITS: Final = 40
MESSAGE: Final = """Let waiting for {thing} end after {number} seconds (#{number})

A peer that never answers kept {thing} and its caller forever. The limit can be given by whoever asks.
"""
THINGS: Final = ("sockets", "locks", "queues", "pipes", "timers", "frames", "replies", "handles")


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    repo = Repo.create(tmp_path_factory.mktemp("repo") / "repo")
    repo.commit_file("README", "A client\n", "Begin with a readme file")
    for number in range(COMMITS):
        thing = THINGS[number % len(THINGS)]
        repo.write(
            f"src/{thing}_{number}.py",
            f"def {thing}_{number}(limit={number}):\n    return waited(limit, {thing})\n",
        )
        repo.write("CHANGES.md", f"- `{thing}` number {number} no longer wait for peers that never answer\n")
        repo.commit(MESSAGE.format(thing=thing, number=number))
    repo.commit_file("src/limits.py", "limit = 3\n", "Bump version to 3")
    return repo


@pytest.fixture
def lists(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(mine, "FEWEST_COMMITS", 10)
    source = Source(repo.path, tmp_path / "repo.npz", 100, 60, 1)
    assert mined(source).startswith(f"repo: {COMMITS} commits, ")
    assert mined(source) == "repo: there"
    return source.file


def test_what_is_told(repo: Repo) -> None:
    """A commit's message in parts, its line in the changelog without markup, and its change without either."""
    commits = told(repo.path, 100, 1)
    assert len(commits) == COMMITS
    one = next(commit for commit in commits if "locks end after 9 " in commit.subject)
    assert one.subject == "Let waiting for locks end after 9 seconds"
    assert one.sentences[0] == "A peer that never answers kept locks and its caller forever."
    assert one.news == "locks number 9 no longer wait for peers that never answer"
    (change,) = one.changes
    assert "return waited(limit, locks)" in change
    assert "peer" not in change
    assert told(repo.path, 5, 1) == commits[:5] != told(repo.path, 5, 2)


def test_what_is_asked(repo: Repo) -> None:
    """Of news and sentences their share, of subjects the rest; a sentence is not in what is left of its message."""
    asked = questions(told(repo.path, 100, 1), 60)
    assert [sum(one.kind is kind for one in asked) for kind in Kind] == [30, 18, 12]
    for one in asked:
        assert (one.text in one.rest) is False
        assert bool(one.rest) is (one.kind is not Kind.SUBJECT)


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
    asked = questions(commits, 60)
    with np.load(lists) as kept:
        commit, found, numbers, known = (kept[name] for name in ("commit", "lists", "asked", "known"))
    assert len(found) > 50
    for number, line in zip(numbers, found, strict=True):
        answering = commit[line]
        assert answering[0] == asked[number].commit
        assert len(set(answering.tolist())) == mine.OTHERS + 1
    assert known.shape == (*found.shape, 2)
    assert 0 <= known[..., 0].min() < known[..., 0].max() <= 1


def test_pairs(repo: Repo, lists: Path) -> None:
    """Question and change, each between its marks; a message is shown but for subjects, and never its sentence."""
    del repo
    read = Lists([lists])
    decode = tokenizer().decode
    kinds = {read.kind(number): number for number in read.numbers}
    for kind, number in kinds.items():
        pairs = read.pairs(number[None], None)
        assert len(pairs.tokens) == mine.OTHERS + 1
        assert pairs.tokens.shape == pairs.sides.shape
        assert pairs.lengths.max() == pairs.tokens.shape[1] <= TRAINED_TOKENS
        for line, side, length in zip(pairs.tokens, pairs.sides, pairs.lengths, strict=True):
            begins = int(np.argmax(side))
            assert line[0] == line[begins] == 101
            assert line[begins - 1] == line[length - 1] == 102
            assert begins <= QUESTION_TOKENS + MARKS // 2
            assert not line[length:].any()
            assert ("let waiting for" in decode(line[begins:length].tolist())) is (kind is not Kind.SUBJECT)
        answer = decode(pairs.tokens[0][pairs.sides[0] == 1].tolist())
        assert kind is not Kind.SENTENCE or "a peer that never answers" not in answer


def test_named_histories_are_not_measured_on() -> None:
    """No history that rankings are measured on had a part in the network, nor one with graded questions.

    Of those whose bodies and written questions the evidence alone was weighed by, two had.
    """
    lines = (Path(mine.__file__).parent / "histories.txt").read_text(encoding="ascii").splitlines()
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


def test_what_ships_can_be_learnt_on_from() -> None:
    """The file's tensors under the network's names, and back: the same file."""
    file = cross.weights(MODELS / cross.NAME)
    again = named(state(file), int(file["apart"]))
    assert set(again) == set(file)
    for name, value in again.items():
        assert value.dtype == np.float16
        assert np.array_equal(value, file[name])


def test_pairs_are_varied(repo: Repo, lists: Path) -> None:
    """By chance: other candidates each time, the same for the same seed; and easy ones, of which nothing is known."""
    del repo
    read = Lists([lists])
    some = read.numbers[:6]
    one, same, other = (read.pairs(some, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert one.tokens.tolist() == same.tokens.tolist() != other.tokens.tolist()
    assert one.known.shape == (6, OTHERS + 1, 2)
    assert not read.pairs(some, np.random.default_rng(1), hard=0.0).known.any()
