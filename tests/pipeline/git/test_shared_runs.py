"""Runs of git that threads share."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from mindmap.git_sync import WorkspaceSync
from mindmap.map_store import MapStore
from pipeline.git.git_cli import run_shared
from pipeline.interrupts import RequestCancelled, check_cancelled, use_cancellation_flag
from serve.repositories import open_git
from tests.mindmap.sample_maps import create_map
from tests.repos import Repo

REQUESTS = 20


def write_slow_git(directory: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a git on PATH that appends its arguments to `log` and takes half a second."""
    directory.mkdir()
    (directory / "git").write_text(
        f'#!/bin/sh\necho "$*" >> {log}\nsleep 0.5\nexec {shutil.which("git")} "$@"\n'
    )
    (directory / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


def test_syncs_share_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Syncs of several maps of one work tree at the same time share most of their git commands."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "one\n")
    repo.write("a.py", "two\n")
    store = MapStore(tmp_path / "maps")
    documents = [create_map(workspace=str(repo.path)) for _ in range(REQUESTS)]
    for document in documents:
        store.create(document)
    log = tmp_path / "log"
    write_slow_git(tmp_path / "bin", log, monkeypatch)
    syncs = [WorkspaceSync(store, document.id, open_git) for document in documents]
    with ThreadPoolExecutor(REQUESTS) as pool:
        results = list(pool.map(WorkspaceSync.attach_changes, syncs))
    assert [result.file_count for result in results] == [1] * REQUESTS
    commands = log.read_text().splitlines()
    # A request that comes while a command runs waits for the next run of this command.
    assert max(Counter(commands).values()) < REQUESTS / 2, commands


def test_error_is_shared() -> None:
    """Threads that wait for the same run get the same error. If they came during a run, they wait for the next run."""
    calls: Counter[str] = Counter()

    def fail() -> None:
        calls["fail"] += 1
        time.sleep(0.5)
        raise ValueError(calls["fail"])

    with ThreadPoolExecutor(REQUESTS) as pool:
        futures = [pool.submit(run_shared, "key", fail) for _ in range(REQUESTS)]
        assert {str(future.exception()) for future in futures} == {"1", "2"}
    with pytest.raises(ValueError, match="3"):
        run_shared("key", fail)


def test_started_run_is_not_joined() -> None:
    """A call gets the result of a run that starts after the call, so that it sees what was changed before."""
    end, is_running = Event(), Event()
    state = "before"

    def read() -> str:
        result = state
        is_running.set()
        end.wait(20)
        return result

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(run_shared, "key", read)
        assert is_running.wait(10)
        state = "after"
        second = pool.submit(run_shared, "key", read)
        time.sleep(0.2)  # let it wait for the first
        end.set()
        assert (first.result(10), second.result(10)) == ("before", "after")


def test_cancelled_run_is_run_again() -> None:
    """If the request that runs the function is cancelled, the function runs again for the requests that wait."""
    cancelled, is_running = Event(), Event()

    def run_cancellable() -> str:
        is_running.set()
        while not cancelled.is_set():
            time.sleep(0.01)
        check_cancelled()
        return "done"

    def run_for_cancelled_request() -> str:
        with use_cancellation_flag(cancelled):
            return run_shared("key", run_cancellable)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(run_for_cancelled_request)
        assert is_running.wait(10)
        second = pool.submit(run_shared, "key", run_cancellable)
        time.sleep(0.2)  # let it wait for the first
        cancelled.set()
        assert isinstance(first.exception(10), RequestCancelled)
        assert second.result(10) == "done"


def test_cancelled_request_does_not_wait() -> None:
    """A cancelled request does not wait for the run of another."""
    end, is_running, cancelled = Event(), Event(), Event()

    def run_until_end() -> None:
        is_running.set()
        end.wait(60)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(run_shared, "key", run_until_end)
        assert is_running.wait(10)
        cancelled.set()
        try:
            with use_cancellation_flag(cancelled), pytest.raises(RequestCancelled):
                run_shared("key", run_until_end)
        finally:
            end.set()
