"""What a flag of `lineage index` makes of the run: each is given to the command, and the run is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.encoders.base import OnnxEncoder
from pipeline.options import EmbedCache
from pipeline.run import Pass, Summary
from serve.cli import app
from tests.pipeline.histories import interleaved
from tests.repos import Repo
from tests.serve.sample_index import WordEncoder

CPUS = 8


@dataclass(frozen=True, slots=True)
class Ran:
    """A run as it was started, and how many commits each of its batches brought it to."""

    threads: int
    workers: int
    commit_batch: int
    embed_cache: EmbedCache | None
    batches: list[int]


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    return interleaved(tmp_path_factory.mktemp("interleaved") / "repo", rounds=2)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Ran]]:
    """The runs of a machine with eight processors, done here."""
    runs: list[Ran] = []
    run = Pass.run

    def noted(self: Pass) -> Summary:
        batches: list[int] = []
        assert isinstance(self.encoder, OnnxEncoder)  # what runs on the CPU
        runs.append(
            Ran(
                self.encoder.threads,
                self.workers.jobs,
                self.options.commit_batch,
                self.options.embed_cache,
                batches,
            )
        )
        options = (self.repository, self.place, self.options, self.encoder)
        return run(Pass(*options, report=lambda now: batches.append(now.commits)))

    for module in ("serve.cli.index", "pipeline.encoders.base"):
        monkeypatch.setattr(f"{module}.usable_cpus", lambda: CPUS)
    monkeypatch.setattr(OnnxEncoder, "encode", lambda _, texts: WordEncoder().encode(texts))
    monkeypatch.setattr(Pass, "run", noted)
    yield runs


def index(repo: Repo, *flags: str) -> int:
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
def test_resources(repo: Repo, home: Path, ran: list[Ran], flags: str, threads: int, batch: int) -> None:
    """Half, all or double the processors; never more than 100 commits at stake unless asked for; flags win."""
    assert index(repo, *flags.split()) == 0
    [run] = ran
    assert (run.threads, run.commit_batch, run.workers) == (threads, batch, CPUS)
    assert home.exists()


def test_one_processor_is_enough(
    repo: Repo, home: Path, ran: list[Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of one processor is one."""
    monkeypatch.setattr("serve.cli.index.usable_cpus", lambda: 1)
    assert index(repo, "--resources", "conservative") == 0
    assert (ran[0].threads, ran[0].workers) == (1, 1)
    assert home.exists()


def test_commit_batch_is_what_a_transaction_takes(repo: Repo, home: Path, ran: list[Ran]) -> None:
    """Each transaction takes as many commits as were asked for."""
    assert index(repo, "--commit-batch", "7") == 0
    total = len(repo.git("rev-list", "HEAD").splitlines())
    assert ran[0].batches == [0, *range(7, total, 7), total]
    assert home.exists()


def test_workers_and_provider(repo: Repo, home: Path, ran: list[Ran]) -> None:
    """As many processes as asked for; the bundled encoder on the provider that is named."""
    assert index(repo, "--workers", "3", "--embed-provider", "cpu") == 0
    assert ran[0].workers == 3
    assert home.exists()


@pytest.mark.parametrize("mode", EmbedCache)
def test_embed_cache(repo: Repo, home: Path, ran: list[Ran], mode: EmbedCache) -> None:
    """Every mode is taken by its name; none given leaves the choice to the index."""
    assert index(repo, "--embed-cache", mode.value) == 0
    assert index(repo) == 0
    assert [run.embed_cache for run in ran] == [mode, None]
    assert len(list(home.glob("*/embeddings.duckdb"))) == (mode is not EmbedCache.OFF)


def test_force_wins_over_incremental(
    repo: Repo, home: Path, ran: list[Ran], capsys: pytest.CaptureFixture[str]
) -> None:
    """With both, HEAD's symbols are made anew where `--incremental` alone does nothing."""
    index(repo)
    capsys.readouterr()
    assert index(repo, "--incremental", "--force") == 0
    assert " - 0 commits, 0 hunks, 6 HEAD symbols" in capsys.readouterr().out
    assert index(repo, "--incremental") == 0
    assert capsys.readouterr().out.startswith("index up-to-date at ")
    assert len(ran) == 2 and home.exists()
