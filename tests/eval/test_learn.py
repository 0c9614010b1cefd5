"""Learning: what answers comes first, probabilities are honest, and the whole command on a small history."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from serve.search.features import FEATURES
from serve.search.rerank import FIT
from tests.eval import handwritten, learn
from tests.eval.learn import Candidates
from tests.eval.question import PRECEDENT
from tests.repos import Repo

TELLING = 3
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


def drawn(seed: int, lists: int, *, strength: float) -> list[Candidates]:
    """Questions of ten candidates: the answer's chance grows with one feature, the others are noise."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(lists):
        rows = random.random((10, len(FEATURES)))
        likely = 1 / (1 + np.exp(-(strength * rows[:, TELLING] - strength)))
        made.append(Candidates(rows, PRECEDENT * (random.random(10) < likely).astype(np.float64)))
    return made


def test_the_telling_feature_is_found() -> None:
    """The weight goes to what tells answers apart, whatever its unit."""
    lists = drawn(1, 300, strength=6)
    weights = learn.weighed(lists)
    assert int(np.argmax(weights)) == TELLING
    assert weights[TELLING] > 5 * np.abs(np.delete(weights, TELLING)).max()

    def wider(one: Candidates) -> Candidates:
        scales = np.ones(len(FEATURES))
        scales[TELLING] = 100
        return Candidates(one.rows * scales, one.grades)

    assert learn.weighed([wider(one) for one in lists])[TELLING] == pytest.approx(weights[TELLING] / 100)


def test_probabilities_are_honest() -> None:
    """On questions that were not learnt from, what is said to be likely is as often true."""
    lists = drawn(2, 500, strength=6)
    learnt = learn.calibrated(learn.weighed(lists), lists)
    table = learn.honesty(learnt, drawn(3, 500, strength=6))
    large = table.filter(table["hits"] > 200)
    assert len(large) >= 4
    assert max((large["said, mean"] - large["answer, share"]).abs().to_list()) < 0.06


def test_written_questions() -> None:
    """Every question is for a commit of its own, and none for a history that measures."""
    files = list(learn.WRITTEN.glob("*.toml"))
    written = learn.written()
    assert len(written) > 500
    assert all(len(sha) == 40 and 3 <= len(text.split()) <= 25 for sha, text in written.items())
    measured = set(handwritten.sheets()) | {
        "pytest",
        "pip",
        "aiohttp",
        "twisted",
        "attrs",
        "trio",
    }
    assert not measured & {file.stem for file in files}


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two histories are asked, with their messages and without; each feature has a weight, with reading and without,
    and each history's questions are foreign to the other."""
    clones = [str(made(tmp_path / name, changes).path) for name, changes in HISTORIES.items()]
    untold = [f"--untold={clone}" for clone in clones]
    monkeypatch.setattr(sys, "argv", ["learn", *clones, *untold, "--folder", str(tmp_path / "folder")])
    learn.main()
    said = capsys.readouterr().out
    assert re.findall(r'^ {4}"(.+)": -?[\d.]+,$', said, re.MULTILINE) == [*FEATURES, *FEATURES, FIT]
    assert len(re.findall(r"^bias -?[\d.]+$", said, re.MULTILINE)) == 2
    assert len(list((tmp_path / "folder" / "home").iterdir())) == 4
    assert "answer, share" in said


def test_nothing_to_learn_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A history that nothing can be asked of ends with a sentence, not with an error of numpy's."""
    clone = made(tmp_path / "clone", next(iter(HISTORIES.values()))).path
    monkeypatch.setattr(sys, "argv", ["learn", str(clone), "--folder", str(tmp_path / "folder")])
    with pytest.raises(SystemExit) as ended:
        learn.main()
    assert ended.value.code == 2
    assert "nothing these histories are asked has an answer" in capsys.readouterr().err


def made(path: Path, changes: dict[str, str]) -> Repo:
    repo = Repo.create(path)
    for number, (subject, source) in enumerate(changes.items()):
        repo.commit_file(f"part{number}.py", source, subject)
    return repo
