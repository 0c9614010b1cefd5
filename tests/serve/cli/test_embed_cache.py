"""`lineage index --embed-cache`: saved work, unchanged rows, mode changes and damaged caches."""

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
from pipeline.options import EmbedCacheMode
from serve.index_status import load_status_at_path
from stores import database
from stores.embedding_cache import open_cache
from tests.bench.indexes import compute_fingerprint
from tests.pipeline.histories import create_interleaved_repo, get_location
from tests.pipeline.histories import run_index as run_pipeline
from tests.repos import Repo
from tests.serve.commands import run_index, run_lineage
from tests.serve.sample_index import WordEncoder

ROOT = Path(__file__).parents[3]
SLOW_RUN = """
import sys, time
from pathlib import Path
from pipeline.options import EmbedCacheMode
from tests.pipeline.histories import run_index
from tests.repos import Repo
from tests.serve.sample_index import WordEncoder
encode = WordEncoder.encode
def encode_slowly(self, texts):
    time.sleep(0.2)
    return encode(self, texts)
WordEncoder.encode = encode_slowly
run_index(Repo(Path(sys.argv[1])), Path(sys.argv[2]), commit_batch=2, embed_cache=EmbedCacheMode.SEMANTIC)
"""


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """Repository with 17 commits on two interleaved branches."""
    return create_interleaved_repo(tmp_path / "repo", rounds=2)


@pytest.fixture
def embedded_texts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every text passed to the encoder, which is replaced by a simple computation."""
    recorded_texts: list[str] = []

    def encode(_: OnnxEncoder, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        recorded_texts.extend(texts)
        return WordEncoder().encode(texts)

    monkeypatch.setattr(OnnxEncoder, "encode", encode)
    yield recorded_texts


def load_rows(repo: Repo, home: Path) -> dict[str, tuple[int, str]]:
    """Return the rows of the index, without metadata about its runs."""
    rows_by_table = compute_fingerprint(repo.path, home)
    return {
        table: content
        for table, content in rows_by_table.items()
        if table not in {"metadata", "made_by", "embed_cache"}
    }


def read_status(repo: Repo, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return the lines of `lineage status` by name."""
    capsys.readouterr()
    assert run_lineage("status", repo.path) == 0
    return dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())


def test_semantic_changes_no_row(repo: Repo, home: Path) -> None:
    """The rows are the same, bit for bit, with `off`, with an empty `semantic` cache and with a full one."""
    run_index(repo)
    uncached_rows = load_rows(repo, home)
    for _ in range(2):
        assert run_index(repo, "--rebuild", "--yes", "--embed-cache", "semantic") == 0
        assert load_rows(repo, home) == uncached_rows


def test_mode_is_compared_at_head(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """At HEAD, `--incremental` does nothing for the same mode, and turns the cache on or refuses other texts."""
    run_index(repo)
    for mode, is_up_to_date in (("off", True), ("semantic", False), ("semantic", True)):
        capsys.readouterr()
        assert run_index(repo, "--incremental", "--embed-cache", mode) == 0
        assert ("up-to-date" in capsys.readouterr().out) is is_up_to_date
    assert run_index(repo, "--incremental", "--embed-cache", "diff") == 1


@pytest.mark.parametrize("mode", ["semantic", "diff"])
def test_rebuild_embeds_nothing(
    repo: Repo, home: Path, embedded_texts: list[str], capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    """The cache survives a rebuild, which embeds nothing and keeps the mode without the option."""
    run_index(repo, "--embed-cache", mode)
    before, first = load_rows(repo, home), len(embedded_texts)
    assert first == len(set(embedded_texts)) > 20
    lines = read_status(repo, capsys)["embed_cache"]
    assert lines.startswith(f"{mode}, {first} entries, ") and lines.endswith(
        f"the last run found 0% of {first} texts"
    )
    assert run_index(repo, "--rebuild", "--yes") == 0
    assert embedded_texts[first:] == []
    assert load_rows(repo, home) == before
    lines = read_status(repo, capsys)["embed_cache"]
    assert lines.startswith(f"{mode}, {first} entries, ") and lines.endswith(
        f"the last run found 100% of {first} texts"
    )


def test_new_commits_are_embedded_and_cached(
    repo: Repo, home: Path, embedded_texts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A later run without the option continues to fill the cache."""
    run_index(repo, "--embed-cache", "semantic")
    before = len(embedded_texts)
    repo.commit_file("more.py", "def more():\n    return 1\n", "More of it")
    assert run_index(repo, "--incremental") == 0
    assert len(embedded_texts) == before + 2
    assert read_status(repo, capsys)["embed_cache"].startswith(f"semantic, {before + 2} entries, ")
    assert home.exists()


def test_no_cache_by_default(repo: Repo, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By default there is no cache file and no line in the status, before and after indexing."""
    assert "embed_cache" not in read_status(repo, capsys)
    run_index(repo)
    assert "embed_cache" not in read_status(repo, capsys)
    assert not get_location(repo, home).embeddings.exists()


def test_diff_mode_embeds_only_diffs(repo: Repo, home: Path, embedded_texts: list[str]) -> None:
    """Texts without commit messages are embedded, so equal changes only once. The text of a mode change is its path."""
    repo.branch("other", "main~2")
    repo.commit_file("twin.py", "def twin():\n    return 2\n", "Add a twin to the family")
    repo.switch("main")
    repo.commit_file("twin.py", "def twin():\n    return 2\n", "Another message altogether")
    repo.merge("other", message="Bring both together")
    repo.write("greeter.py", (repo.path / "greeter.py").read_bytes(), executable=True)
    repo.commit("Let it run")
    assert run_index(repo, "--embed-cache", "diff") == 0
    equal_changes = [text for text in embedded_texts if "def twin" in text]
    assert equal_changes == ["@@ -0,0 +1,2 @@\n+def twin():\n+    return 2\n"]
    assert "file: greeter.py\nchange: mode_changed" in embedded_texts
    with database.open_for_reading(get_location(repo, home)) as connection:
        [(texts, hunks)] = connection.execute(
            "SELECT count(DISTINCT text_digest), count(*) FROM hunks JOIN vectors USING (text_digest)"
            " WHERE file_path = 'twin.py'"
        ).fetchall()
        expected = connection.execute(
            "SELECT semantic_text FROM hunks WHERE file_path = 'twin.py'"
        ).fetchall()
    assert (texts, hunks) == (1, 2)
    assert {text.splitlines()[0] for (text,) in expected} == {
        "Add a twin to the family",
        "Another message altogether",
    }


@pytest.mark.parametrize(
    ("before", "now"), [("off", "diff"), ("semantic", "diff"), ("diff", "off"), ("diff", "semantic")]
)
def test_switching_to_or_from_diff_is_refused(
    repo: Repo,
    home: Path,
    embedded_texts: list[str],
    capsys: pytest.CaptureFixture[str],
    before: str,
    now: str,
) -> None:
    """Switching is refused, because it would mix vectors. The error names the rebuild; the index still answers."""
    run_index(repo, "--embed-cache", before)
    unchanged = load_rows(repo, home)
    capsys.readouterr()
    assert run_index(repo, "--embed-cache", now) == 1
    error = capsys.readouterr().err
    assert f"needs rebuild (embed_cache {before}, now {now})" in error
    assert f"lineage index --rebuild --yes --embed-cache {now}" in error
    assert load_rows(repo, home) == unchanged
    assert run_index(repo) == 0  # as in the hooks, without the option
    assert run_lineage("query", repo.path, "-q", "greet") == 0
    assert read_status(repo, capsys)["compatibility"] == "compatible"
    assert run_index(repo, "--rebuild", "--yes", "--embed-cache", now) == 0
    assert read_status(repo, capsys)["compatibility"] == "compatible"
    assert embedded_texts


@pytest.mark.parametrize(("before", "now"), [("off", "semantic"), ("semantic", "off")])
def test_switching_between_off_and_semantic(
    repo: Repo,
    home: Path,
    embedded_texts: list[str],
    capsys: pytest.CaptureFixture[str],
    before: str,
    now: str,
) -> None:
    """`off` and `semantic` have the same vectors, so a run may switch between them."""
    run_index(repo, "--embed-cache", before)
    assert run_index(repo, "--embed-cache", now) == 0
    lines = read_status(repo, capsys)
    assert lines["compatibility"] == "compatible"
    assert ("embed_cache" in lines) == (now == "semantic")
    assert embedded_texts and home.exists()


def test_damaged_cache_is_replaced(
    repo: Repo, home: Path, embedded_texts: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """A damaged cache is reported and replaced, and the rows are the same as without it."""
    run_index(repo, "--embed-cache", "semantic")
    before, count = load_rows(repo, home), len(embedded_texts)
    get_location(repo, home).embeddings.write_bytes(b"garbage" * 4_000)
    assert run_index(repo, "--rebuild", "--yes") == 0
    assert "and replaces it" in capfd.readouterr().err
    assert load_rows(repo, home) == before
    assert len(embedded_texts) == 2 * count


def test_unwritable_cache_is_skipped(
    repo: Repo,
    home: Path,
    embedded_texts: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A cache that cannot be written is reported once and skipped; the run continues."""
    monkeypatch.setattr(
        "stores.embedding_cache._INSERT", "SELECT error('no room') FROM new_entries, (SELECT ?)"
    )
    assert run_index(repo, "--embed-cache", "semantic", "--commit-batch", "5") == 0
    assert capfd.readouterr().err.count("Writing to the embedding cache failed") == 1
    assert str(load_status_at_path(repo.path, home)[1].verdict) == "compatible"
    assert embedded_texts


def test_killed_run_keeps_its_vectors(repo: Repo, home: Path) -> None:
    """After `kill -9` the next run finds all indexed vectors in the cache and produces the same rows."""
    process = subprocess.Popen([sys.executable, "-c", SLOW_RUN, str(repo.path), str(home)], cwd=ROOT)
    deadline = time.monotonic() + 60
    while not count_vectors(repo, home) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    vector_count = count_vectors(repo, home)
    assert vector_count > 0
    with open_cache(get_location(repo, home), WordEncoder().name) as cache:
        assert cache is not None and cache.count() >= vector_count
    run_pipeline(repo, home)
    clean = home.parent / "clean"
    run_pipeline(repo, clean, embed_cache=EmbedCacheMode.OFF)
    assert load_rows(repo, home) == load_rows(repo, clean)


def count_vectors(repo: Repo, home: Path) -> int:
    """Return the number of vectors in the index."""
    try:
        with database.open_for_reading(get_location(repo, home)) as connection:
            return int(connection.execute("SELECT count(*) FROM vectors").fetchall()[0][0])
    except database.NotIndexed:
        return 0
