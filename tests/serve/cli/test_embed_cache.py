"""`lineage index --embed-cache`: what it saves, what it changes, what becomes of it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from pipeline.encoders.base import OnnxEncoder
from pipeline.options import EmbedCache
from serve.index_status import of_path
from stores import database
from stores.embedding_cache import opened
from tests.bench.indexes import fingerprint
from tests.pipeline.histories import index as pass_over
from tests.pipeline.histories import interleaved, place
from tests.repos import Repo
from tests.serve.commands import indexed, lineage
from tests.serve.sample_index import WordEncoder

ROOT = Path(__file__).parents[3]
SLOWLY = """
import sys, time
from pathlib import Path
from pipeline.options import EmbedCache
from tests.pipeline.histories import index
from tests.repos import Repo
from tests.serve.sample_index import WordEncoder
encode = WordEncoder.encode
def slowly(self, texts):
    time.sleep(0.2)
    return encode(self, texts)
WordEncoder.encode = slowly
index(Repo(Path(sys.argv[1])), Path(sys.argv[2]), commit_batch=2, embed_cache=EmbedCache.SEMANTIC)
"""


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return interleaved(tmp_path / "repo", rounds=2)


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every text that the encoder is given, by an encoder that can be computed by hand."""
    given: list[str] = []

    def encode(_: OnnxEncoder, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        given.extend(texts)
        return WordEncoder().encode(texts)

    monkeypatch.setattr(OnnxEncoder, "encode", encode)
    yield given


def rows(repo: Repo, home: Path) -> dict[str, tuple[int, str]]:
    """The index without what it says of its making."""
    found = fingerprint(repo.path, home)
    return {
        table: content
        for table, content in found.items()
        if table not in {"metadata", "made_by", "embed_cache"}
    }


def status(repo: Repo, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    capsys.readouterr()
    assert lineage("status", repo.path) == 0
    return dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())


def test_semantic_changes_no_row(repo: Repo, home: Path) -> None:
    """With the bundled encoder, `off`, a filling `semantic` and a full one leave the same rows, bit for bit."""
    indexed(repo)
    off = rows(repo, home)
    for _ in range(2):
        assert indexed(repo, "--rebuild", "--yes", "--embed-cache", "semantic") == 0
        assert rows(repo, home) == off


@pytest.mark.parametrize("mode", ["semantic", "diff"])
def test_a_rebuild_embeds_nothing(
    repo: Repo, home: Path, embedded: list[str], capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    """The cache outlives the index it was filled by; without the flag a rebuild keeps its mode."""
    indexed(repo, "--embed-cache", mode)
    before, first = rows(repo, home), len(embedded)
    assert first == len(set(embedded)) > 20
    said = status(repo, capsys)["embed_cache"]
    assert said.startswith(f"{mode}, {first} entries, ") and said.endswith(
        f"0% of {first} texts found in the last run"
    )
    assert indexed(repo, "--rebuild", "--yes") == 0
    assert embedded[first:] == []
    assert rows(repo, home) == before
    said = status(repo, capsys)["embed_cache"]
    assert said.startswith(f"{mode}, {first} entries, ") and said.endswith(
        f"100% of {first} texts found in the last run"
    )


def test_new_commits_are_embedded_and_kept(
    repo: Repo, home: Path, embedded: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A later run, without the flag, goes on filling the cache."""
    indexed(repo, "--embed-cache", "semantic")
    before = len(embedded)
    repo.commit_file("more.py", "def more():\n    return 1\n", "More of it")
    assert indexed(repo, "--incremental") == 0
    assert len(embedded) == before + 2
    assert status(repo, capsys)["embed_cache"].startswith(f"semantic, {before + 2} entries, ")
    assert home.exists()


def test_no_cache_no_line(repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Off is the default: no file, no line in the status, before and after an index is there."""
    assert "embed_cache" not in status(repo, capsys)
    indexed(repo)
    assert "embed_cache" not in status(repo, capsys)
    assert not place(repo, home).embeddings.exists()


def test_diff_embeds_diffs_alone(repo: Repo, home: Path, embedded: list[str]) -> None:
    """No hunk's text names the commit; the same change under another message is embedded once; a bare mode by path."""
    repo.branch("other", "main~2")
    repo.commit_file("twin.py", "def twin():\n    return 2\n", "Add a twin to the family")
    repo.switch("main")
    repo.commit_file("twin.py", "def twin():\n    return 2\n", "Another message altogether")
    repo.merge("other", message="Bring both together")
    repo.write("greeter.py", (repo.path / "greeter.py").read_bytes(), executable=True)
    repo.commit("Let it run")
    assert indexed(repo, "--embed-cache", "diff") == 0
    twins = [text for text in embedded if "def twin" in text]
    assert twins == ["@@ -0,0 +1,2 @@\n+def twin():\n+    return 2\n"]
    assert "file: greeter.py\nchange: mode_changed" in embedded
    with database.reading(place(repo, home)) as connection:
        [(texts, hunks)] = connection.execute(
            "SELECT count(DISTINCT text_digest), count(*) FROM hunks JOIN vectors USING (text_digest)"
            " WHERE file_path = 'twin.py'"
        ).fetchall()
        meant = connection.execute("SELECT semantic_text FROM hunks WHERE file_path = 'twin.py'").fetchall()
    assert (texts, hunks) == (1, 2)
    assert {text.splitlines()[0] for (text,) in meant} == {
        "Add a twin to the family",
        "Another message altogether",
    }


@pytest.mark.parametrize(
    ("before", "now"), [("off", "diff"), ("semantic", "diff"), ("diff", "off"), ("diff", "semantic")]
)
def test_switching_into_or_out_of_diff(
    repo: Repo, home: Path, embedded: list[str], capsys: pytest.CaptureFixture[str], before: str, now: str
) -> None:
    """It would mix two kinds of vectors: refused, naming the rebuild that does it; the index stays and answers."""
    indexed(repo, "--embed-cache", before)
    kept = rows(repo, home)
    capsys.readouterr()
    assert indexed(repo, "--embed-cache", now) == 1
    said = capsys.readouterr().err
    assert f"needs rebuild (embed_cache {before}, now {now})" in said
    assert f"lineage index --rebuild --yes --embed-cache {now}" in said
    assert rows(repo, home) == kept
    assert indexed(repo) == 0  # as the hooks do it
    assert lineage("query", repo.path, "-q", "greet") == 0
    assert status(repo, capsys)["compatibility"] == "compatible"
    assert indexed(repo, "--rebuild", "--yes", "--embed-cache", now) == 0
    assert status(repo, capsys)["compatibility"] == "compatible"
    assert embedded


@pytest.mark.parametrize(("before", "now"), [("off", "semantic"), ("semantic", "off")])
def test_switching_among_equals(
    repo: Repo, home: Path, embedded: list[str], capsys: pytest.CaptureFixture[str], before: str, now: str
) -> None:
    """`off` and `semantic` share their vectors: either goes on where the other was."""
    indexed(repo, "--embed-cache", before)
    assert indexed(repo, "--embed-cache", now) == 0
    said = status(repo, capsys)
    assert said["compatibility"] == "compatible"
    assert ("embed_cache" in said) == (now == "semantic")
    assert embedded and home.exists()


def test_a_damaged_cache_fails_no_run(
    repo: Repo, home: Path, embedded: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """It is told and begun anew, and the index is what it would be without."""
    indexed(repo, "--embed-cache", "semantic")
    before, count = rows(repo, home), len(embedded)
    place(repo, home).embeddings.write_bytes(b"garbage" * 4_000)
    assert indexed(repo, "--rebuild", "--yes") == 0
    assert "begun anew" in capfd.readouterr().err
    assert rows(repo, home) == before
    assert len(embedded) == 2 * count


def test_a_full_disk_ends_the_keeping(
    repo: Repo,
    home: Path,
    embedded: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A cache that cannot be written to is told once and left; the run goes on."""
    monkeypatch.setattr("stores.embedding_cache._KEPT", "SELECT error('no room') FROM entries_in, (SELECT ?)")
    assert indexed(repo, "--embed-cache", "semantic", "--commit-batch", "5") == 0
    assert capfd.readouterr().err.count("not written to any further") == 1
    assert str(of_path(repo.path, home)[1].verdict) == "compatible"
    assert embedded


def test_a_killed_run_keeps_its_vectors(repo: Repo, home: Path) -> None:
    """After `kill -9` the next run finds in the cache whatever the index has, and ends as a clean one does."""
    process = subprocess.Popen([sys.executable, "-c", SLOWLY, str(repo.path), str(home)], cwd=ROOT)
    until = time.monotonic() + 60
    while not recorded(repo, home) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    there = recorded(repo, home)
    assert there > 0
    with opened(place(repo, home), WordEncoder().name) as cache:
        assert cache is not None and cache.count() >= there
    pass_over(repo, home)
    clean = home.parent / "clean"
    pass_over(repo, clean, embed_cache=EmbedCache.OFF)
    assert rows(repo, home) == rows(repo, clean)


def recorded(repo: Repo, home: Path) -> int:
    """Vectors in the index."""
    try:
        with database.reading(place(repo, home)) as connection:
            return int(connection.execute("SELECT count(*) FROM vectors").fetchall()[0][0])
    except database.NotIndexed:
        return 0
