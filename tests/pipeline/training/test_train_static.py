"""Training of the static table: extraction, training set, training and export."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline.encoders.static import Lexicon, StaticEncoder
from pipeline.git.objects import Commit
from pipeline.git.repository import open_repository
from pipeline.training import export, train_static
from pipeline.training.commit_sampling import is_informative, split_message
from pipeline.training.static_dataset import NONE, StaticTrainingSet
from pipeline.training.train_static import mean_reciprocal_rank
from pipeline.training.word_bags import (
    BagDataset,
    BagKind,
    ExtractionTask,
    WordBag,
    extract_bags,
    extract_repository,
    write_bags,
)
from tests.eval import judgments, results
from tests.repos import Repo

MESSAGE = """Retry requests that time out (#12)

Servers under load drop the first connection now and then. See
https://example.org for more.

- Waiting grows with each attempt, up to a minute at most.

    retry(3)

Signed-off-by: Ada Lovelace <ada@example.org>
"""
SOURCE = '''# how long to wait between two attempts
def wait(attempt):
    """Seconds before the next attempt."""
    return min(2 ** attempt, 60)
'''


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("README", "A client\n", "Begin with a readme file")
    repo.write("client/retry.py", SOURCE)
    repo.write("CHANGES.md", "- requests are tried again when a server does not answer\n")
    repo.commit(MESSAGE)
    repo.commit_file("client/retry.py", SOURCE.replace("60", "90"), "Bump the limit to 90 seconds")
    for number in range(30):
        repo.write(f"many/{number}.py", f"value = {number}\n")
    repo.commit("Give every module a value of its own")
    return repo


def extraction_task(repo: Repo, folder: Path, commits: int = 100) -> ExtractionTask:
    return ExtractionTask(repo.path, "small", commits, 1, folder)


def read_commit(repo: Repo, revision: str) -> Commit:
    return open_repository(repo.path).read_commit(repo.git("rev-parse", revision))


def test_split_message() -> None:
    """Subject and sentences have no issue numbers, URLs, code and trailers."""
    said = split_message(MESSAGE)
    assert said.subject == "Retry requests that time out"
    assert said.sentences == (
        "Servers under load drop the first connection now and then.",
        "Waiting grows with each attempt, up to a minute at most.",
    )
    assert "Signed-off" not in said.body and "retry(3)" not in said.body


def test_is_informative(repo: Repo) -> None:
    """A described change is informative; a version bump is not."""
    assert is_informative(read_commit(repo, "HEAD~2"))
    assert not is_informative(read_commit(repo, "HEAD~1"))


def test_extract_bags(repo: Repo, tmp_path: Path) -> None:
    """The informative commit gives all kinds of bags; mass edits and version bumps give none."""
    found = list(extract_bags(extraction_task(repo, tmp_path)))
    by_kind = {bag.kind: bag.words for bag in found if {"attempt", "retri"} & bag.words}
    assert set(by_kind) >= {BagKind.SUBJECT, BagKind.SENTENCE, BagKind.BODY, BagKind.CHANGE, BagKind.COMMENT}
    assert by_kind[BagKind.SUBJECT] >= {"retri", "request", "time"}
    assert {"min", "python", "client"} <= by_kind[BagKind.CHANGE] and "between" not in by_kind[BagKind.CHANGE]
    assert {"between", "second"} <= by_kind[BagKind.COMMENT]
    assert [bag.words >= {"server", "answer", "again"} for bag in found if bag.kind is BagKind.CHANGELOG] == [
        True
    ]
    assert not any({"bump", "modul"} & bag.words for bag in found)
    assert list(extract_bags(extraction_task(repo, tmp_path))) == found


def test_bags_round_trip(repo: Repo, tmp_path: Path) -> None:
    """Bags are read back as written, and an existing file is not written again."""
    given = extraction_task(repo, tmp_path)
    assert extract_repository(given) == "small"
    bags = BagDataset.read(tmp_path / "small.npz")
    begins = np.concatenate([[0], bags.ends[:-1]])
    read = [
        WordBag(int(commit), BagKind(kind), frozenset(bags.words[number] for number in bags.flat[begin:end]))
        for commit, kind, begin, end in zip(bags.commits, bags.kinds, begins, bags.ends, strict=True)
    ]
    assert read == list(extract_bags(given))
    made = (tmp_path / "small.npz").stat().st_mtime_ns
    extract_repository(given)
    assert (tmp_path / "small.npz").stat().st_mtime_ns == made


def test_select_vocabulary(tmp_path: Path) -> None:
    """A word used in one repository only is not in the vocabulary."""
    for name in ("one", "two", "three"):
        said = [WordBag(number, BagKind.SUBJECT, frozenset({"shared", name})) for number in range(5)]
        write_bags(tmp_path / f"{name}.npz", said)
    assert train_static.select_vocabulary(tmp_path.glob("*.npz"), 10) == ["shared"]


def write_synthetic_bags(folder: Path, topics: int = 16, each: int = 40, name: str = "synthetic") -> Path:
    """Write bags in which queries and changes of a topic share no words."""
    chance = np.random.default_rng(1)
    found = []
    for commit in range(topics * each):
        topic = commit % topics
        asked = {f"ask{topic}x{number}" for number in chance.integers(0, 4, 3)}
        change = {f"do{topic}x{number}" for number in chance.integers(0, 4, 6)}
        own = {f"id{commit}"}
        found += [
            WordBag(commit, BagKind.SUBJECT, frozenset(asked)),
            WordBag(commit, BagKind.CHANGE, frozenset(change | own)),
        ]
    write_bags(folder / f"{name}.npz", found)
    return folder / f"{name}.npz"


def read_training_set(*files: Path) -> tuple[StaticTrainingSet, Lexicon]:
    said = {word for file in files for word in BagDataset.read(file).words}
    known = sorted(word for word in said if not word.startswith("id"))
    lexicon = Lexicon({word: row for row, word in enumerate(known)}, 16)
    return StaticTrainingSet.read(files, lexicon), lexicon


def test_batches_and_examples(tmp_path: Path) -> None:
    """An epoch has every change once, in blocks of one repository, with a query of its commit."""
    material, _ = read_training_set(
        write_synthetic_bags(tmp_path), write_synthetic_bags(tmp_path, each=32, name="other")
    )
    chance = np.random.default_rng(1)
    blocks = list(material.batches(1, chance))
    drawn = np.concatenate(blocks)
    assert len(set(drawn.tolist())) == len(drawn) == (640 // 256 + 512 // 256) * 256
    assert sorted(set(material.history[block].tolist()).pop() for block in blocks) == [0, 0, 1, 1]
    assert all(len(set(material.history[block].tolist())) == 1 for block in blocks)
    asked, texts = material.examples(drawn[:50], chance)
    assert (asked[:, 0] == material.subject[material.commit[drawn[:50]]]).all()
    assert (texts[:, 0] == material.change[drawn[:50]]).all()
    assert (texts[:, 1:] == NONE).all()


def test_training_improves_ranking(tmp_path: Path) -> None:
    """Training relates words that never share a text; the same seed gives the same table."""
    material, lexicon = read_training_set(write_synthetic_bags(tmp_path))
    rows = len(lexicon.word_rows) + lexicon.bucket_count

    def train_table() -> np.ndarray:
        model = train_static.StaticTable.from_vectors(
            train_static.random_unit_vectors(rows, 384, 1), train_static.initial_weights(material, rows)
        )
        before = mean_reciprocal_rank(material, 0, model.final_rows())
        train_static.train(material, model, train_static.Plan(passes=20, seed=1, blocks=1))
        assert mean_reciprocal_rank(material, 0, model.final_rows()) > 2 * before
        return model.final_rows()

    first = train_table()
    assert (first == train_table()).all()


def run_command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pipeline.training.train_static", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=Path(__file__).parents[3],
    )


def test_command_is_deterministic(tmp_path: Path) -> None:
    """The command writes the same table for the same bags, with or without held-out repositories."""
    for name in ("one", "two", "three", "four"):
        write_synthetic_bags(tmp_path, name=name)
    for out, held in (("a", ()), ("b", ()), ("c", ("--held-out", "four", "--dimension", "400"))):
        done = run_command(tmp_path, tmp_path / out, *held)
        assert done.returncode == 0, done.stderr
        assert ("held out: 0." in done.stderr) == bool(held)
    assert (tmp_path / "a" / "table.npz").read_bytes() == (tmp_path / "b" / "table.npz").read_bytes()
    assert (tmp_path / "a" / "table.npz").read_bytes() != (tmp_path / "c" / "table.npz").read_bytes()


def test_not_enough_data(tmp_path: Path) -> None:
    """Too few bags for one step exit with a hint."""
    for name in ("one", "two", "three"):
        write_synthetic_bags(tmp_path, each=8, name=name)
    done = run_command(tmp_path, tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.endswith(
        "Extract bags of more or longer repositories with `python -m pipeline.training.word_bags`.\n"
    )
    assert not list((tmp_path / "out").iterdir())


def test_training_and_evaluation_are_disjoint() -> None:
    """No evaluation repository is a training repository."""
    lines = (Path(train_static.__file__).parent / "histories.txt").read_text(encoding="ascii").splitlines()
    named = {line.split()[0].partition("/")[2] for line in lines if not line.startswith("#")}
    evaluated = {name for line in pl.read_csv(results.FILE)["history"] for name in line.split(" + ")}
    assert len(named) == 103
    assert not named & (evaluated | set(judgments.load_sheets()))


def test_loss_gradients() -> None:
    """Gradients agree with finite differences; excluded pairs do not count."""
    drawn = np.random.default_rng(3).standard_normal((2, 5, 4))
    apart = np.zeros((5, 5), np.bool_)
    apart[0, 3] = apart[3, 0] = True
    questions, texts = drawn
    loss, slopes = train_static.contrastive_loss(questions, texts, apart)
    assert loss > 0 and slopes.shape == (10, 4)
    for side, row, place in ((0, 0, 1), (0, 3, 2), (1, 0, 0), (1, 4, 3)):
        little = np.zeros_like(drawn)
        little[side, row, place] = 1e-6
        questions, texts = drawn + little
        further, _ = train_static.contrastive_loss(questions, texts, apart)
        assert (further - loss) / 1e-6 == pytest.approx(slopes[5 * side + row, place], abs=1e-4)


def test_write_static_model(tmp_path: Path) -> None:
    """Quantization keeps the direction of a text; extra dimensions are projected away."""
    drawn = np.random.default_rng(1).standard_normal((40, 384)).astype(np.float32)
    words = np.frombuffer("\n".join(["retri", "request", *"abcdef"]).encode(), np.uint8)
    np.savez(tmp_path / "table.npz", words=words, rows=drawn)
    (tmp_path / "SHA256SUMS").write_text("0  other\n1  static.npz\n", encoding="ascii")
    digest = export.write_static_model(tmp_path / "table.npz", tmp_path)
    export.record_checksum(tmp_path, "static.npz", digest)
    assert (tmp_path / "SHA256SUMS").read_text(encoding="ascii") == f"0  other\n{digest}  static.npz\n"
    [vector] = StaticEncoder(tmp_path / "static.npz").encode(["retry request"])
    exact = drawn[0] + drawn[1]
    assert vector @ exact / np.linalg.norm(exact) > 0.999
    wide = np.random.default_rng(1).standard_normal((900, 500)).astype(np.float32)
    wide[:, 384:] *= 1e-3
    kept = train_static.reduce_dimension(wide)
    assert kept.shape == (900, 384)
    assert kept @ kept.T == pytest.approx(wide @ wide.T, abs=0.05)
