"""Tests of `tests.eval.learn`: weights, calibration, and the command on small histories."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from serve.search.features import FEATURES
from tests.eval import judgments, learn
from tests.eval.judgments import HIGHLY_RELEVANT
from tests.eval.learn import CandidateList
from tests.repos import Repo

INFORMATIVE = 3
HISTORIES = {
    "sockets": {
        "Close the socket when the peer goes away": "def on_eof(socket):\n    socket.close()\n",
        "Tell how long a request took": "def elapsed(request):\n    return clock() - request.started\n",
    },
    "pages": {
        "Number the pages of a printed report": "def footer(page):\n    return str(page.number)\n",
        "Break lines between words of a paragraph": "def broken(words, width):\n    yield words\n",
    },
}


def draw_lists(seed: int, count: int, *, strength: float) -> list[CandidateList]:
    """Return lists of ten candidates. One feature determines the probability of relevance, the others are noise."""
    random = np.random.default_rng(seed)
    lists = []
    for _ in range(count):
        rows = random.random((10, len(FEATURES)))
        probabilities = 1 / (1 + np.exp(-(strength * rows[:, INFORMATIVE] - strength)))
        is_relevant = random.random(10) < probabilities
        lists.append(CandidateList(rows, HIGHLY_RELEVANT * is_relevant.astype(np.float64)))
    return lists


def test_informative_feature_gets_the_weight() -> None:
    """The informative feature gets the largest weight, and the weight scales with its unit."""
    lists = draw_lists(1, 300, strength=6)
    weights = learn.fit_weights(lists)
    assert int(np.argmax(weights)) == INFORMATIVE
    assert weights[INFORMATIVE] > 5 * np.abs(np.delete(weights, INFORMATIVE)).max()

    scales = np.ones(len(FEATURES))
    scales[INFORMATIVE] = 100
    scaled_lists = [CandidateList(candidates.features * scales, candidates.grades) for candidates in lists]

    assert learn.fit_weights(scaled_lists)[INFORMATIVE] == pytest.approx(weights[INFORMATIVE] / 100)


def test_calibration() -> None:
    """Probabilities of held-out queries agree with the share of relevant candidates."""
    lists = draw_lists(2, 500, strength=6)
    model = learn.calibrate(learn.fit_weights(lists), lists)
    table = learn.measure_calibration(model, draw_lists(3, 500, strength=6))
    large_bins = table.filter(table["hits"] > 200)
    assert len(large_bins) >= 4
    assert max((large_bins["mean probability"] - large_bins["share relevant"]).abs().to_list()) < 0.06


def test_commit_queries() -> None:
    """There are more than 500 queries of 3 to 25 words, and none about a holdout history."""
    files = list(learn.COMMIT_QUERIES_FOLDER.glob("*.toml"))
    queries = learn.load_commit_queries()
    assert len(queries) > 500
    assert all(len(sha) == 40 and 3 <= len(text.split()) <= 25 for sha, text in queries.items())
    holdout = {*judgments.load_sheets(), "pytest", "pip", "aiohttp", "twisted", "attrs", "trio"}
    assert not holdout & {file.stem for file in files}


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command fits on two histories, with and without messages, and prints each weight."""
    clones = [str(create_repo(tmp_path / name, changes).path) for name, changes in HISTORIES.items()]
    without_messages = [f"--without-messages={clone}" for clone in clones]
    arguments = [*clones, *without_messages, "--folder", str(tmp_path / "folder")]
    monkeypatch.setattr(sys, "argv", ["learn", *arguments])
    learn.main()
    output = capsys.readouterr().out
    assert re.findall(r'^ {4}"(.+)": -?[\d.]+,$', output, re.MULTILINE) == [*FEATURES]
    assert len(re.findall(r"^bias -?[\d.]+$", output, re.MULTILINE)) == 1
    assert re.search(r"^cross-encoder: weight [\d.]+, mean [\d.]+$", output, re.MULTILINE)
    assert len(list((tmp_path / "folder" / "home").iterdir())) == 4
    assert "share relevant" in output


def test_no_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A history without queries ends with a message and exit code 2."""
    clone = create_repo(tmp_path / "clone", next(iter(HISTORIES.values()))).path
    monkeypatch.setattr(sys, "argv", ["learn", str(clone), "--folder", str(tmp_path / "folder")])
    with pytest.raises(SystemExit) as error:
        learn.main()
    assert error.value.code == 2
    assert "No query of these histories has a relevant candidate" in capsys.readouterr().err


def create_repo(path: Path, changes: dict[str, str]) -> Repo:
    """Create a repository with a commit for each subject and source."""
    repo = Repo.create(path)
    for number, (subject, source) in enumerate(changes.items()):
        repo.commit_file(f"part{number}.py", source, subject)
    return repo
