"""How the static table is made, over small real histories: what is read, what it becomes, and that it learns."""

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
from pipeline.training.commit_sampling import telling, tells
from pipeline.training.static_dataset import NONE, Material
from pipeline.training.train_static import ranked
from pipeline.training.word_bags import Bag, Course, Kind, Lessons, bags, taught, write
from tests.eval import handwritten, results
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


def course(repo: Repo, folder: Path, commits: int = 100) -> Course:
    return Course(repo.path, "small", commits, 1, folder)


def commit_of(repo: Repo, revision: str) -> Commit:
    return open_repository(repo.path).commit(repo.git("rev-parse", revision))


def test_what_a_message_says() -> None:
    """Subject and sentences without numbers of issues, addresses, code and trailers."""
    said = telling(MESSAGE)
    assert said.subject == "Retry requests that time out"
    assert said.sentences == (
        "Servers under load drop the first connection now and then.",
        "Waiting grows with each attempt, up to a minute at most.",
    )
    assert "Signed-off" not in said.body and "retry(3)" not in said.body


def test_what_teaches(repo: Repo) -> None:
    """A change told in words does; a bump does not."""
    assert tells(commit_of(repo, "HEAD~2"))
    assert not tells(commit_of(repo, "HEAD~1"))


def test_lessons_of_a_history(repo: Repo, tmp_path: Path) -> None:
    """All kinds of bags, of the one commit that tells; sweeps and bumps are left out."""
    found = list(bags(course(repo, tmp_path)))
    by_kind = {bag.kind: bag.words for bag in found if {"attempt", "retri"} & bag.words}
    assert set(by_kind) >= {Kind.SUBJECT, Kind.SENTENCE, Kind.BODY, Kind.CHANGE, Kind.COMMENT}
    assert by_kind[Kind.SUBJECT] >= {"retri", "request", "time"}
    assert {"min", "python", "client"} <= by_kind[Kind.CHANGE] and "between" not in by_kind[Kind.CHANGE]
    assert {"between", "second"} <= by_kind[Kind.COMMENT]
    assert [bag.words >= {"server", "answer", "again"} for bag in found if bag.kind is Kind.NEWS] == [True]
    assert not any({"bump", "modul"} & bag.words for bag in found)
    assert list(bags(course(repo, tmp_path))) == found


def test_lessons_are_kept(repo: Repo, tmp_path: Path) -> None:
    """What is read back is what was found, and what is there is not made again."""
    given = course(repo, tmp_path)
    assert taught(given) == "small"
    lessons = Lessons.read(tmp_path / "small.npz")
    begins = np.concatenate([[0], lessons.ends[:-1]])
    read = [
        Bag(int(commit), Kind(kind), frozenset(lessons.words[number] for number in lessons.flat[begin:end]))
        for commit, kind, begin, end in zip(lessons.commits, lessons.kinds, begins, lessons.ends, strict=True)
    ]
    assert read == list(bags(given))
    made = (tmp_path / "small.npz").stat().st_mtime_ns
    taught(given)
    assert (tmp_path / "small.npz").stat().st_mtime_ns == made


def test_words_of_several_histories(tmp_path: Path) -> None:
    """A word of one history has no row of its own, however often it is said there."""
    for name in ("one", "two", "three"):
        said = [Bag(number, Kind.SUBJECT, frozenset({"shared", name})) for number in range(5)]
        write(tmp_path / f"{name}.npz", said)
    assert train_static.chosen(tmp_path.glob("*.npz"), 10) == ["shared"]


def synthetic(folder: Path, topics: int = 16, each: int = 40, name: str = "synthetic") -> Path:
    """A history in which questions and changes of a topic use different words."""
    chance = np.random.default_rng(1)
    found = []
    for commit in range(topics * each):
        topic = commit % topics
        asked = {f"ask{topic}x{number}" for number in chance.integers(0, 4, 3)}
        change = {f"do{topic}x{number}" for number in chance.integers(0, 4, 6)}
        own = {f"id{commit}"}
        found += [
            Bag(commit, Kind.SUBJECT, frozenset(asked)),
            Bag(commit, Kind.CHANGE, frozenset(change | own)),
        ]
    write(folder / f"{name}.npz", found)
    return folder / f"{name}.npz"


def material_of(*files: Path) -> tuple[Material, Lexicon]:
    said = {word for file in files for word in Lessons.read(file).words}
    known = sorted(word for word in said if not word.startswith("id"))
    lexicon = Lexicon({word: row for row, word in enumerate(known)}, 16)
    return Material.read(files, lexicon), lexicon


def test_material(tmp_path: Path) -> None:
    """Every change comes once a pass, among others of its history, with a question of its own commit."""
    material, _ = material_of(synthetic(tmp_path), synthetic(tmp_path, each=32, name="other"))
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


def test_training_teaches(tmp_path: Path) -> None:
    """Words that never stand in one text come to answer each other; the same seed gives the same table."""
    material, lexicon = material_of(synthetic(tmp_path))
    rows = len(lexicon.numbers) + lexicon.buckets

    def made() -> np.ndarray:
        model = train_static.Rows.of(train_static.started(rows, 384, 1), train_static.weights(material, rows))
        before = ranked(material, 0, model.table())
        train_static.trained(material, model, train_static.Plan(passes=20, seed=1, blocks=1))
        assert ranked(material, 0, model.table()) > 2 * before
        return model.table()

    first = made()
    assert (first == made()).all()


def trained(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pipeline.training.train_static", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=Path(__file__).parents[3],
    )


def test_the_command(tmp_path: Path) -> None:
    """Twice over the same lessons it keeps the same table, with histories held out or none."""
    for name in ("one", "two", "three", "four"):
        synthetic(tmp_path, name=name)
    for out, held in (("a", ()), ("b", ()), ("c", ("--held-out", "four", "--dimension", "400"))):
        done = trained(tmp_path, tmp_path / out, *held)
        assert done.returncode == 0, done.stderr
        assert ("held out: 0." in done.stderr) == bool(held)
    assert (tmp_path / "a" / "table.npz").read_bytes() == (tmp_path / "b" / "table.npz").read_bytes()
    assert (tmp_path / "a" / "table.npz").read_bytes() != (tmp_path / "c" / "table.npz").read_bytes()


def test_too_little_to_learn_from(tmp_path: Path) -> None:
    """Histories that do not fill a step end the run at once, with what would help."""
    for name in ("one", "two", "three"):
        synthetic(tmp_path, each=8, name=name)
    done = trained(tmp_path, tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.endswith("Extract lessons of more, or of longer, histories.\n")
    assert not list((tmp_path / "out").iterdir())


def test_named_histories_are_not_measured_on() -> None:
    """No history that rankings are measured on had a part in the table, or was chosen by."""
    lines = (Path(train_static.__file__).parent / "histories.txt").read_text(encoding="ascii").splitlines()
    named = {line.split()[0].partition("/")[2] for line in lines if not line.startswith("#")}
    kept = {name for line in pl.read_csv(results.FILE)["history"] for name in line.split(" + ")}
    assert len(named) == 103
    assert not named & (kept | set(handwritten.sheets()))


def test_slopes() -> None:
    """Slopes say how the loss changes, as taking each number a little further shows; those apart have no part in it."""
    drawn = np.random.default_rng(3).standard_normal((2, 5, 4))
    apart = np.zeros((5, 5), np.bool_)
    apart[0, 3] = apart[3, 0] = True
    questions, texts = drawn
    loss, slopes = train_static.contrasted(questions, texts, apart)
    assert loss > 0 and slopes.shape == (10, 4)
    for side, row, place in ((0, 0, 1), (0, 3, 2), (1, 0, 0), (1, 4, 3)):
        little = np.zeros_like(drawn)
        little[side, row, place] = 1e-6
        questions, texts = drawn + little
        further, _ = train_static.contrasted(questions, texts, apart)
        assert (further - loss) / 1e-6 == pytest.approx(slopes[5 * side + row, place], abs=1e-4)


def test_the_bundled_form(tmp_path: Path) -> None:
    """Eight bits a number keep a text's direction; more dimensions than are kept are cut along the widest."""
    drawn = np.random.default_rng(1).standard_normal((40, 384)).astype(np.float32)
    words = np.frombuffer("\n".join(["retri", "request", *"abcdef"]).encode(), np.uint8)
    np.savez(tmp_path / "table.npz", words=words, rows=drawn)
    (tmp_path / "SHA256SUMS").write_text("0  other\n1  static.npz\n", encoding="ascii")
    digest = export.bundle(tmp_path / "table.npz", tmp_path)
    export.summed(tmp_path, "static.npz", digest)
    assert (tmp_path / "SHA256SUMS").read_text(encoding="ascii") == f"0  other\n{digest}  static.npz\n"
    [vector] = StaticEncoder(tmp_path / "static.npz").encode(["retry request"])
    exact = drawn[0] + drawn[1]
    assert vector @ exact / np.linalg.norm(exact) > 0.999
    wide = np.random.default_rng(1).standard_normal((900, 500)).astype(np.float32)
    wide[:, 384:] *= 1e-3
    kept = train_static.cut(wide)
    assert kept.shape == (900, 384)
    assert kept @ kept.T == pytest.approx(wide @ wide.T, abs=0.05)
