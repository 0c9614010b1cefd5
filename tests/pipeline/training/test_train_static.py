"""Training of the static table: extraction, training set and training."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline.encoders.static import Lexicon
from pipeline.git.objects import Commit
from pipeline.git.repository import open_repository
from pipeline.training import train_static
from pipeline.training.commit_sampling import is_informative, split_message
from pipeline.training.static_dataset import NO_BAG, StaticTrainingSet, select_vocabulary
from pipeline.training.train_static import compute_mean_reciprocal_rank
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


def make_task(repo: Repo, folder: Path, commits: int = 100) -> ExtractionTask:
    return ExtractionTask(repo.path, "small", commits, 1, folder)


def read_commit(repo: Repo, revision: str) -> Commit:
    return open_repository(repo.path).read_commit(repo.git("rev-parse", revision))


def test_split_message() -> None:
    """Subject and sentences have no issue numbers, URLs, code and trailers."""
    message_parts = split_message(MESSAGE)
    assert message_parts.subject == "Retry requests that time out"
    assert message_parts.sentences == (
        "Servers under load drop the first connection now and then.",
        "Waiting grows with each attempt, up to a minute at most.",
    )
    assert "Signed-off" not in message_parts.body and "retry(3)" not in message_parts.body


def test_is_informative(repo: Repo) -> None:
    """A described change is informative; a version bump is not."""
    assert is_informative(read_commit(repo, "HEAD~2"))
    assert not is_informative(read_commit(repo, "HEAD~1"))


def test_extract_bags(repo: Repo, tmp_path: Path) -> None:
    """The informative commit gives all kinds of bags; mass edits and version bumps give none."""
    bags = list(extract_bags(make_task(repo, tmp_path)))
    by_kind = {bag.kind: bag.words for bag in bags if {"attempt", "retri"} & bag.words}
    assert set(by_kind) >= {BagKind.SUBJECT, BagKind.SENTENCE, BagKind.BODY, BagKind.CHANGE, BagKind.COMMENT}
    assert by_kind[BagKind.SUBJECT] >= {"retri", "request", "time"}
    assert {"min", "python", "client"} <= by_kind[BagKind.CHANGE] and "between" not in by_kind[BagKind.CHANGE]
    assert {"between", "second"} <= by_kind[BagKind.COMMENT]
    assert [bag.words >= {"server", "answer", "again"} for bag in bags if bag.kind is BagKind.CHANGELOG] == [
        True
    ]
    assert not any({"bump", "modul"} & bag.words for bag in bags)
    assert list(extract_bags(make_task(repo, tmp_path))) == bags


def test_bags_round_trip(repo: Repo, tmp_path: Path) -> None:
    """Bags are read back as written, and an existing file is not written again."""
    task = make_task(repo, tmp_path)
    assert extract_repository(task) == "small"
    bags = BagDataset.read(tmp_path / "small.npz")
    starts = np.concatenate([[0], bags.ends[:-1]])
    bags_from_disk = [
        WordBag(
            int(commit),
            BagKind(kind),
            frozenset(bags.words[number] for number in bags.word_numbers[start:end]),
        )
        for commit, kind, start, end in zip(bags.commits, bags.kinds, starts, bags.ends, strict=True)
    ]
    assert bags_from_disk == list(extract_bags(task))
    modified_ns = (tmp_path / "small.npz").stat().st_mtime_ns
    extract_repository(task)
    assert (tmp_path / "small.npz").stat().st_mtime_ns == modified_ns


def test_select_vocabulary(tmp_path: Path) -> None:
    """A word used in one repository only is not in the vocabulary."""
    for name in ("one", "two", "three"):
        bags = [WordBag(number, BagKind.SUBJECT, frozenset({"shared", name})) for number in range(5)]
        write_bags(tmp_path / f"{name}.npz", bags)
    assert select_vocabulary(tmp_path.glob("*.npz"), 10) == ["shared"]


def write_synthetic_bags(folder: Path, topics: int = 16, each: int = 40, name: str = "synthetic") -> Path:
    """Write bags in which queries and changes of a topic share no words."""
    generator = np.random.default_rng(1)
    bags = []
    for commit in range(topics * each):
        topic = commit % topics
        query = {f"ask{topic}x{number}" for number in generator.integers(0, 4, 3)}
        change = {f"do{topic}x{number}" for number in generator.integers(0, 4, 6)}
        own = {f"id{commit}"}
        bags += [
            WordBag(commit, BagKind.SUBJECT, frozenset(query)),
            WordBag(commit, BagKind.CHANGE, frozenset(change | own)),
        ]
    write_bags(folder / f"{name}.npz", bags)
    return folder / f"{name}.npz"


def read_training_set(*files: Path) -> tuple[StaticTrainingSet, Lexicon]:
    words = {word for file in files for word in BagDataset.read(file).words}
    vocabulary = sorted(word for word in words if not word.startswith("id"))
    lexicon = Lexicon({word: row for row, word in enumerate(vocabulary)}, 16)
    return StaticTrainingSet.read(files, lexicon), lexicon


def test_batches_and_examples(tmp_path: Path) -> None:
    """An epoch has every change once, in blocks of one repository, with a query of its commit."""
    dataset, _ = read_training_set(
        write_synthetic_bags(tmp_path), write_synthetic_bags(tmp_path, each=32, name="other")
    )
    generator = np.random.default_rng(1)
    blocks = list(dataset.iter_batches(1, generator))
    changes = np.concatenate(blocks)
    assert len(set(changes.tolist())) == len(changes) == (640 // 256 + 512 // 256) * 256
    assert sorted(set(dataset.repository[block].tolist()).pop() for block in blocks) == [0, 0, 1, 1]
    assert all(len(set(dataset.repository[block].tolist())) == 1 for block in blocks)
    queries, texts = dataset.draw_examples(changes[:50], generator)
    assert (queries[:, 0] == dataset.subject[dataset.commit[changes[:50]]]).all()
    assert (texts[:, 0] == dataset.change[changes[:50]]).all()
    assert (texts[:, 1:] == NO_BAG).all()


def test_training_improves_ranking(tmp_path: Path) -> None:
    """Training relates words that never share a text; the same seed gives the same table."""
    dataset, lexicon = read_training_set(write_synthetic_bags(tmp_path))
    rows = len(lexicon.word_rows) + lexicon.bucket_count

    def train_table() -> np.ndarray:
        model = train_static.StaticTable.from_vectors(
            train_static.generate_unit_vectors(rows, 384, 1),
            train_static.compute_initial_weights(dataset, rows),
        )
        before = compute_mean_reciprocal_rank(dataset, 0, model.apply_weights())
        train_static.train(dataset, model, train_static.Plan(passes=20, seed=1, blocks=1))
        assert compute_mean_reciprocal_rank(dataset, 0, model.apply_weights()) > 2 * before
        return model.apply_weights()

    assert (train_table() == train_table()).all()


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
    for out, held_out in (("a", ()), ("b", ()), ("c", ("--held-out", "four", "--dimension", "400"))):
        result = run_command(tmp_path, tmp_path / out, *held_out)
        assert result.returncode == 0, result.stderr
        assert ("held out: 0." in result.stderr) == bool(held_out)
    assert (tmp_path / "a" / "table.npz").read_bytes() == (tmp_path / "b" / "table.npz").read_bytes()
    assert (tmp_path / "a" / "table.npz").read_bytes() != (tmp_path / "c" / "table.npz").read_bytes()


def test_not_enough_data(tmp_path: Path) -> None:
    """Too few bags for one step exit with a hint."""
    for name in ("one", "two", "three"):
        write_synthetic_bags(tmp_path, each=8, name=name)
    result = run_command(tmp_path, tmp_path / "out")
    assert result.returncode == 1
    assert result.stderr.endswith(
        "Extract bags of more or longer repositories with `python -m pipeline.training.word_bags`.\n"
    )
    assert not list((tmp_path / "out").iterdir())


def test_training_and_evaluation_are_disjoint() -> None:
    """No evaluation repository is a training repository."""
    lines = (Path(train_static.__file__).parent / "histories.txt").read_text(encoding="ascii").splitlines()
    training_names = {line.split()[0].partition("/")[2] for line in lines if not line.startswith("#")}
    evaluated_names = {name for line in pl.read_csv(results.FILE)["history"] for name in line.split(" + ")}
    assert len(training_names) == 103
    assert not training_names & (
        evaluated_names
        | set(judgments.load_sheets())
        | set(judgments.load_sheets(judgments.DEVELOPMENT_FOLDER))
    )


def test_loss_gradients() -> None:
    """The gradients agree with finite differences of the loss, with excluded pairs."""
    sums = np.random.default_rng(3).standard_normal((2, 5, 4))
    excluded = np.zeros((5, 5), np.bool_)
    excluded[0, 3] = excluded[3, 0] = True
    query_sums, text_sums = sums
    loss, gradients = train_static.compute_contrastive_loss(query_sums, text_sums, excluded)
    assert loss > 0 and gradients.shape == (10, 4)
    for matrix, row, column in ((0, 0, 1), (0, 3, 2), (1, 0, 0), (1, 4, 3)):
        step = np.zeros_like(sums)
        step[matrix, row, column] = 1e-6
        query_sums, text_sums = sums + step
        loss_after_step, _ = train_static.compute_contrastive_loss(query_sums, text_sums, excluded)
        assert (loss_after_step - loss) / 1e-6 == pytest.approx(gradients[5 * matrix + row, column], abs=1e-4)
