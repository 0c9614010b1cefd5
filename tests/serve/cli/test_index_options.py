"""Options of `lineage index`: each is passed to the command, and the resulting index run is checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.encoders.base import OnnxEncoder
from pipeline.options import EmbedCacheMode
from pipeline.run import IndexRun, Progress, RunSummary
from serve.cli import app
from tests.pipeline.histories import create_interleaved_repo
from tests.repos import Repo
from tests.serve.sample_index import WordEncoder

CPUS = 8


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """Index run as it was started, and the commit count after each of its batches."""

    threads: int | None
    workers: int | None
    commit_batch: int
    embed_cache: EmbedCacheMode | None
    batches: list[int]


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """Repository with 17 commits on two interleaved branches."""
    return create_interleaved_repo(tmp_path_factory.mktemp("interleaved") / "repo", rounds=2)


@pytest.fixture
def recorded_runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[RecordedRun]]:
    """The index runs of a machine with eight CPUs."""
    runs: list[RecordedRun] = []
    run = IndexRun.run

    def record_run(self: IndexRun) -> RunSummary:
        batches: list[int] = []
        assert isinstance(self.encoder, OnnxEncoder)  # the CPU encoder
        runs.append(
            RecordedRun(
                self.threads,
                self.workers,
                self.options.commit_batch,
                self.options.embed_cache,
                batches,
            )
        )
        options = (self.repository, self.location, self.options, self.encoder)

        def record_commits(progress: Progress) -> None:
            if not progress.total_texts:
                batches.append(progress.processed_commits)

        return run(IndexRun(*options, report=record_commits))

    monkeypatch.setattr("serve.cli.index.count_usable_cpus", lambda: CPUS)
    monkeypatch.setattr(OnnxEncoder, "encode", lambda _, texts: WordEncoder().encode(texts))
    monkeypatch.setattr(IndexRun, "run", record_run)
    yield runs


def run_index(repo: Repo, *flags: str) -> int:
    """Run `lineage index` with these options."""
    return app.main(["index", str(repo.path), *flags])


@pytest.mark.parametrize(
    ("flags", "threads", "batch"),
    [
        ("", 8, 100),
        ("--resources auto", 8, 100),
        ("--resources conservative", 4, 50),
        ("--resources aggressive", 16, 100),
        ("--resources conservative --threads 7", 7, 50),
        ("--resources aggressive --threads 1", 1, 100),
        ("--resources conservative --commit-batch 512", 4, 512),
        ("--resources aggressive --commit-batch 20 --threads 3", 3, 20),
        ("--threads 0", 8, 100),
        ("--resources conservative --threads 0", 8, 50),
    ],
)
def test_resources_set_threads_and_batch(
    repo: Repo, home: Path, recorded_runs: list[RecordedRun], flags: str, threads: int, batch: int
) -> None:
    """`--resources` sets half, all or double threads and at most 100 commits per batch; single options win."""
    assert run_index(repo, *flags.split()) == 0
    [run] = recorded_runs
    assert (run.threads, run.commit_batch, run.workers) == (threads, batch, CPUS)
    assert home.exists()


def test_half_of_one_cpu_is_one_thread(
    repo: Repo, home: Path, recorded_runs: list[RecordedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of one CPU is one thread."""
    monkeypatch.setattr("serve.cli.index.count_usable_cpus", lambda: 1)
    assert run_index(repo, "--resources", "conservative") == 0
    assert (recorded_runs[0].threads, recorded_runs[0].workers) == (1, 1)
    assert home.exists()


def test_commit_batch_sets_transaction_size(repo: Repo, home: Path, recorded_runs: list[RecordedRun]) -> None:
    """Each transaction has the requested number of commits."""
    assert run_index(repo, "--commit-batch", "7") == 0
    total = len(repo.git("rev-list", "HEAD").splitlines())
    assert recorded_runs[0].batches == [0, *range(7, total, 7), total]
    assert home.exists()


def test_workers_and_provider(repo: Repo, home: Path, recorded_runs: list[RecordedRun]) -> None:
    """`--workers` sets the number of processes, `--embed-provider` the encoder's provider."""
    assert run_index(repo, "--workers", "3", "--embed-provider", "cpu") == 0
    assert recorded_runs[0].workers == 3
    assert home.exists()


@pytest.mark.parametrize("mode", EmbedCacheMode)
def test_embed_cache_mode(
    repo: Repo, home: Path, recorded_runs: list[RecordedRun], mode: EmbedCacheMode
) -> None:
    """Every cache mode is accepted by its name; without the option the index decides."""
    assert run_index(repo, "--embed-cache", mode.value) == 0
    assert run_index(repo) == 0
    assert [run.embed_cache for run in recorded_runs] == [mode, None]
    assert len(list(home.glob("*/embeddings.duckdb"))) == (mode is not EmbedCacheMode.OFF)


def test_force_overrides_incremental(
    repo: Repo, home: Path, recorded_runs: list[RecordedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    """With both options, HEAD symbols are extracted again where `--incremental` alone does nothing."""
    run_index(repo)
    capsys.readouterr()
    assert run_index(repo, "--incremental", "--force") == 0
    assert " - 0 commits, 0 hunks, 6 HEAD symbols" in capsys.readouterr().out
    assert run_index(repo, "--incremental") == 0
    assert capsys.readouterr().out.startswith("index up-to-date at ")
    assert len(recorded_runs) == 2 and home.exists()
