"""Index runs on a Dask cluster: a real scheduler, with workers in processes of their own."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import joblib
import pytest
from distributed import Client
from numpy import float32
from numpy.typing import NDArray

from pipeline import embed
from pipeline.embed import ClusterUnavailable
from pipeline.encoders.static import StaticEncoder
from pipeline.git.repository import open_repository
from pipeline.run import IndexRun, Progress, RunOptions
from stores import locks
from tests.bench.indexes import compute_fingerprint
from tests.dask_cluster import Cluster, start_scheduler
from tests.pipeline.histories import create_interleaved_repo, get_location
from tests.repos import Repo


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Scheduler without workers."""
    with start_scheduler(tmp_path_factory.mktemp("dask")) as cluster:
        yield cluster


@pytest.fixture
def dask_cluster(scheduler: Cluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Scheduler with two workers, or with a worker for each number in the parameter, which is its number of threads."""
    for threads in getattr(request, "param", (1, 1)):
        scheduler.start_worker(threads)
    yield scheduler
    scheduler.stop_workers()


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    return create_interleaved_repo(tmp_path_factory.mktemp("interleaved") / "repo")


def run_index(repo: Repo, home: Path, scheduler: str | None, report: object = None) -> None:
    repository, location = open_repository(repo.path), get_location(repo, home)
    with locks.acquire_run_lock(location):
        options = RunOptions(commit_batch=3, scheduler=scheduler, embed_batch=1)
        IndexRun(
            repository,
            location,
            options,
            StaticEncoder(),
            workers=None,
            threads=None,
            report=report if callable(report) else lambda _: None,
        ).run()


@pytest.fixture(scope="module")
def local_fingerprint(repo: Repo, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """Fingerprint of an index that was made on this machine, without a cluster."""
    home = tmp_path_factory.mktemp("here")
    run_index(repo, home, None)
    return compute_fingerprint(repo.path, home)


def test_vectors_equal_those_of_this_machine(
    repo: Repo, tmp_path: Path, dask_cluster: Cluster, local_fingerprint: object
) -> None:
    """An index embedded by a cluster equals one that was embedded without a cluster."""
    run_index(repo, tmp_path, dask_cluster.address)
    assert compute_fingerprint(repo.path, tmp_path) == local_fingerprint


@pytest.mark.parametrize("dask_cluster", [(1,), (1, 3)], indirect=True)
def test_rows_do_not_depend_on_cluster_workers(
    repo: Repo, tmp_path: Path, dask_cluster: Cluster, local_fingerprint: object
) -> None:
    """If a cluster with one or four threads extracts and embeds, the rows equal those of a run without a cluster."""
    with (
        Client(dask_cluster.address, set_as_default=False) as client,
        joblib.parallel_config(backend="dask", client=client, n_jobs=-1),
    ):
        run_index(repo, tmp_path, None)
    assert compute_fingerprint(repo.path, tmp_path) == local_fingerprint


def test_killed_worker_is_replaced(
    repo: Repo,
    tmp_path: Path,
    dask_cluster: Cluster,
    local_fingerprint: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If a worker is killed during the run, the other workers do its tasks, and the vectors are the same."""
    monkeypatch.setattr("pipeline.run.TEXTS_PER_TRANSACTION", 8)
    killed: list[Progress] = []

    def kill_after_first_chunk(progress: Progress) -> None:
        if progress.embedded_texts and not killed:
            killed.append(progress)
            dask_cluster.workers[0].send_signal(signal.SIGKILL)

    run_index(repo, tmp_path, dask_cluster.address, kill_after_first_chunk)
    assert killed and killed[0].embedded_texts < killed[0].total_texts
    assert dask_cluster.workers[0].wait() == -signal.SIGKILL
    assert compute_fingerprint(repo.path, tmp_path) == local_fingerprint


@pytest.fixture
def start_other_version(scheduler: Cluster, tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Function that starts a worker whose version of this package is 9.9.9."""
    program = tmp_path / "other_version.py"
    program.write_text("from pipeline import embed\nembed.metadata.version = lambda _: '9.9.9'\n")
    yield lambda: scheduler.start_worker(1, "--preload", str(program))
    scheduler.stop_workers()


def test_no_text_is_sent_to_another_version(
    repo: Repo,
    tmp_path: Path,
    scheduler: Cluster,
    start_other_version: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If a worker has another version of this package, the run fails before any text is sent to the worker."""

    def encode_nothing(_: object) -> NDArray[float32]:
        raise AssertionError

    monkeypatch.setattr(embed, "encode_texts", encode_nothing)
    start_other_version()
    with pytest.raises(
        ClusterUnavailable, match=r"tcp://127.* cannot embed .*: 9\.9\.9, models .* This machine has"
    ) as error_info:
        run_index(repo, tmp_path, scheduler.address)
    assert "same version" in error_info.value.hint


def test_later_worker_of_another_version(
    repo: Repo,
    tmp_path: Path,
    dask_cluster: Cluster,
    start_other_version: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If a worker of another version joins during a run, it encodes no text, and the run fails."""
    monkeypatch.setattr("pipeline.run.TEXTS_PER_TRANSACTION", 8)

    def start_once(progress: Progress) -> None:
        if progress.embedded_texts and len(dask_cluster.workers) == 2:
            start_other_version()

    with pytest.raises(ClusterUnavailable, match=r"on \S+ cannot embed .*: 9\.9\.9, models ") as error_info:
        run_index(repo, tmp_path, dask_cluster.address, start_once)
    assert "same version" in error_info.value.hint


def test_cluster_without_workers(repo: Repo, tmp_path: Path, scheduler: Cluster) -> None:
    """A scheduler without workers is an error that says how to start one."""
    with pytest.raises(ClusterUnavailable, match="has no workers") as error_info:
        run_index(repo, tmp_path, scheduler.address)
    assert f"dask worker {scheduler.address}" in error_info.value.hint


def test_no_scheduler(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address at which no scheduler answers is an error after a bounded wait."""
    monkeypatch.setattr("pipeline.embed.CONNECT_SECONDS", 1)
    with pytest.raises(ClusterUnavailable, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        run_index(repo, tmp_path, "tcp://127.0.0.1:9")
